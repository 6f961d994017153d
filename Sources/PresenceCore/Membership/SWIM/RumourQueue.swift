import DequeModule

/// The members whose news is still to be told, least told first (SWIM §4.1).
///
/// It keeps no rumours: what is told is the newest at the time of sending, so a newer rumour replaces an older one by itself.
/// At most ``tellingsMax`` entries a member.
struct RumourQueue {
    private struct Entry {
        let member: Int
        let stamp: UInt32
    }

    /// Most times that anything is ever told: λ · ⌈log10(n + 1)⌉ is cut here.
    static let tellingsMax = 64

    /// `told[k]` was told k times.
    private var told: [Deque<Entry>] = []
    /// The stamp of each member's valid entry; 0 for none.
    private var stamps: [UInt32] = []
    private var lastStamp: UInt32 = 0
    /// How many members have news.
    private(set) var count = 0

    /// Has the member's news told from the start.
    mutating func insert(_ member: Int) {
        while stamps.count <= member { stamps.append(0) }
        if told.isEmpty { told.append([]) }
        if stamps[member] == 0 { count += 1 }
        lastStamp = lastStamp == .max ? 1 : lastStamp + 1
        stamps[member] = lastStamp
        told[0].append(Entry(member: member, stamp: lastStamp))
        if told[0].count > 4 * stamps.count + 64 { removeStale() }
    }

    /// The member is not told of any more.
    mutating func remove(_ member: Int) {
        guard member < stamps.count, stamps[member] != 0 else { return }
        stamps[member] = 0
        count -= 1
    }

    /// Takes the least told members as long as they fit; each is told at most `tellingsMax` times.
    mutating func take(tellingsMax: Int, while fits: (Int) -> Bool) -> [Int] {
        guard count > 0 else { return [] }
        var taken: [(entry: Entry, tellings: Int)] = []
        fill: for tellings in told.indices {
            while let entry = told[tellings].first {
                guard stamps[entry.member] == entry.stamp else {
                    told[tellings].removeFirst()
                    continue
                }
                guard fits(entry.member) else { break fill }
                told[tellings].removeFirst()
                taken.append((entry, tellings + 1))
            }
        }
        for (entry, tellings) in taken { putBack(entry, tellings: tellings, tellingsMax: tellingsMax) }
        return taken.map(\.entry.member)
    }

    private mutating func putBack(_ entry: Entry, tellings: Int, tellingsMax: Int) {
        guard tellings < min(tellingsMax, Self.tellingsMax) else { return remove(entry.member) }
        if tellings == told.count { told.append([]) }
        told[tellings].append(entry)
    }

    private mutating func removeStale() {
        let stamps = stamps
        told[0].removeAll { stamps[$0.member] != $0.stamp }
    }
}
