import DequeModule

/// The members whose updates are still to be sent, the least sent first (SWIM §4.1).
///
/// It keeps no updates. The newest update at the time of sending leaves, so a newer one replaces an older one by itself. There are at most
/// ``transmissionsMax`` entries for each member.
struct UpdateQueue {
    private struct Entry {
        let member: Int
        let stamp: UInt32
    }

    /// Most transmissions of one update. λ · ⌈log10(n + 1)⌉ is cut here.
    static let transmissionsMax = 64

    /// `told[k]` has been sent k times.
    private var told: [Deque<Entry>] = []
    /// The stamp of each member's valid entry; 0 for none.
    private var stamps: [UInt32] = []
    private var lastStamp: UInt32 = 0
    /// The number of members with an update to send.
    private(set) var count = 0

    /// Starts the transmissions of a member's update from zero.
    mutating func insert(_ member: Int) {
        while stamps.count <= member { stamps.append(0) }
        if told.isEmpty { told.append([]) }
        if stamps[member] == 0 { count += 1 }
        lastStamp = lastStamp == .max ? 1 : lastStamp + 1
        stamps[member] = lastStamp
        told[0].append(Entry(member: member, stamp: lastStamp))
        if told[0].count > 4 * stamps.count + 64 { removeStale() }
    }

    /// Ends the transmissions of a member's update.
    mutating func remove(_ member: Int) {
        guard member < stamps.count, stamps[member] != 0 else { return }
        stamps[member] = 0
        count -= 1
    }

    /// Takes the least sent members as long as they fit. Each is sent at most `transmissionsMax` times.
    mutating func take(transmissionsMax: Int, while fits: (Int) -> Bool) -> [Int] {
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
        for (entry, tellings) in taken { putBack(entry, tellings: tellings, transmissionsMax: transmissionsMax) }
        return taken.map(\.entry.member)
    }

    private mutating func putBack(_ entry: Entry, tellings: Int, transmissionsMax: Int) {
        guard tellings < min(transmissionsMax, Self.transmissionsMax) else { return remove(entry.member) }
        if tellings == told.count { told.append([]) }
        told[tellings].append(entry)
    }

    private mutating func removeStale() {
        let stamps = stamps
        told[0].removeAll { stamps[$0.member] != $0.stamp }
    }
}
