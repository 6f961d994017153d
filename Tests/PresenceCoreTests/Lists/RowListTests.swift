import PresenceWire
import Testing

@testable import PresenceCore

/// The durable list of one kind of one user: rows by key, tombstones, and the sequence by which clients synchronize.
@Suite struct RowListTests {
    typealias Entry = RowList.Entry

    static let horizon = CoreSettings.tombstoneHorizon
    var list = RowList()

    private mutating func merge(_ entries: Entry...) { for entry in entries { _ = list.merge(entry) } }

    /// A list after some thousand random changes, and what a dictionary makes of the same changes.
    private static func random(seed: UInt64, changesCount: Int) -> (list: RowList, expected: [String: Entry], changes: [Entry]) {
        var random = SplitMix64(seed: seed)
        var (list, expected, changes) = (RowList(), [String: Entry](), [Entry]())
        for time in 1...changesCount {
            let late = Int.random(in: 0..<4, using: &random) == 0 ? Milliseconds.random(in: 0..<50, using: &random) : 0
            let size = Int.random(in: 0..<90, using: &random)
            var change = row("user\(Int.random(in: 0..<300, using: &random))", at: Milliseconds(time) - late, counter: UInt16(time % 1_000))
            change.value = Int.random(in: 0..<3, using: &random) == 0 ? nil : Array(repeating: UInt8(size), count: size)
            if size % 7 == 0 { change.expiresAt = Milliseconds(size) - 20 }
            let isNewer = change.version > expected[change.key]?.version ?? .zero
            if isNewer { expected[change.key] = change }
            let wasNewer = list.merge(change)
            if wasNewer != isNewer { Issue.record("\(change) is newer: \(isNewer)") }
            changes.append(change)
        }
        return (list, expected, changes)
    }

    @Test("A list holds the newest row of each key, sorted by the bytes of the keys", arguments: 1...6 as ClosedRange<UInt64>)
    func newestRows(seed: UInt64) {
        let (list, expected, _) = Self.random(seed: seed, changesCount: 3_000)
        #expect(list.brokenInvariant() == nil)
        let sorted = expected.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }.map(\.value)
        #expect(Array(list.entries) == sorted)
        #expect(Array(list.liveEntries) == sorted.filter { !$0.isRemoved })
        #expect(list.count == sorted.count && list.liveCount == sorted.count { !$0.isRemoved })
        #expect(list.tombstonesCount == sorted.count(where: \.isRemoved))
        #expect(sorted.allSatisfy { list.entry(for: $0.key) == $0 && list.contains($0.key) == !$0.isRemoved })
        #expect(list.version == sorted.map(\.version).max() && list.sequence == list.version.text)
        #expect(list.entry(for: "nobody") == nil && !list.contains(""))
    }

    @Test("Lists that received the same rows in another order are equal, with equal hashes") func order() {
        let (list, _, changes) = Self.random(seed: 9, changesCount: 2_000)
        var (backwards, once) = (RowList(), RowList())
        for change in changes.reversed() { _ = backwards.merge(change) }
        for row in list.entries { _ = once.merge(row) }
        for other in [backwards, once] {
            #expect(Array(other.entries) == Array(list.entries) && other.hash == list.hash && other.version == list.version)
            #expect(other.brokenInvariant() == nil)
        }
        _ = once.merge(row("user1", at: 9_999))
        #expect(once.hash != list.hash)
        #expect(RowList().hash == 0)
    }

    @Test("A change with no allocation in between does not reach a copy") mutating func copies() {
        merge(row("ann", at: 1))
        let copy = list
        merge(row("ann", at: 2, "other"), row("bob", at: 3))
        #expect(Array(copy.entries) == [row("ann", at: 1)])
        #expect(list.count == 2)
    }

    @Test("A removal that finds nothing leaves a tombstone, which refuses older rows") mutating func removalOfUnknown() {
        merge(row("ann", at: 5, nil))
        expect(!list.merge(row("ann", at: 4)))
        #expect(list.entry(for: "ann") == row("ann", at: 5, nil) && list.liveCount == 0 && list.tombstonesCount == 1)
        expect(list.merge(row("ann", at: 6)))
        #expect(list.liveCount == 1 && list.tombstonesCount == 0)
        expect(!list.merge(row("ann", at: 6, "same version")))
    }

    // MARK: Synchronization

    @Test("Changes since any sequence turn that list into the newest, with removals as tombstones") mutating func increments() throws {
        let (_, _, changes) = Self.random(seed: 4, changesCount: 400)
        var snapshots: [(sequence: String, rows: [String: [UInt8]])] = []
        for change in changes {
            // An owner writes versions in ascending order.
            guard !list.mayBePassed(change.version), list.merge(change) else { continue }
            snapshots.append((list.sequence, live()))
        }
        try #require(snapshots.count > 200)
        for snapshot in snapshots {
            guard case .rows(let rows) = list.changes(since: snapshot.sequence, at: 500) else {
                Issue.record("the list since \(snapshot.sequence) is full")
                continue
            }
            #expect(zip(rows, rows.dropFirst()).allSatisfy { $0.version <= $1.version })
            var held = snapshot.rows
            for row in rows { held[row.key] = row.value }
            #expect(held == live())
        }
        #expect(list.changes(since: list.sequence, at: 500) == .rows([]))
    }

    private func live() -> [String: [UInt8]] {
        Dictionary(uniqueKeysWithValues: list.entries.compactMap { row in row.value.map { (row.key, $0) } })
    }

    @Test("A sequence that the list cannot have issued is answered with the full list") mutating func unknownSequences() {
        #expect(list.changes(since: list.sequence, at: 0) == .full, "an empty list")
        merge(row("ann", at: 1_000), row("bob", at: 2_000))
        let unknown = ["", "0", "nonsense", Version.zero.text, version(2_001).text, Version.max.text, list.sequence.uppercased() + " "]
        for sequence in unknown { #expect(list.changes(since: sequence, at: 2_000) == .full, "\(sequence)") }
        #expect(list.changes(since: version(1_000).text, at: 2_000) == .rows([row("bob", at: 2_000)]))
    }

    @Test("A sequence is answered with the full list a minute before a newer tombstone can expire on another node")
    mutating func expiredSequence() {
        merge(row("ann", at: 1_000), row("bob", at: 1_001, nil), row("carl", at: 1_002))
        let end = 1_000 + Self.horizon - 60_000
        #expect(list.changes(since: version(1_000).text, at: end - 1) == .rows([row("bob", at: 1_001, nil), row("carl", at: 1_002)]))
        #expect(list.changes(since: version(1_000).text, at: end) == .full)
        #expect(list.changes(since: list.sequence, at: end + Self.horizon) == .rows([]), "nothing has changed")
    }

    @Test("A sequence older than a tombstone that was removed before its time is answered with the full list")
    mutating func overflow() {
        let max = Milliseconds(RowList.tombstonesMax)
        merge(row("live", at: 1))
        for time in 2..<max { merge(row("user\(time)", at: time, nil)) }
        #expect(list.changes(since: version(1).text, at: 5_000) != .full, "all tombstones are there")
        for time in max...max + 2 { merge(row("user\(time)", at: time, nil)) }
        #expect(list.tombstonesCount == RowList.tombstonesMax + 1)
        #expect(list.expiresNext == .min)
        #expect(list.expireTombstones(at: 5_000) == [row("user2", at: 2, nil)])
        #expect(list.changes(since: version(1).text, at: 5_000) == .full)
        #expect(list.changes(since: version(2).text, at: 5_000) == .full)
        guard case .rows(let rows) = list.changes(since: version(3).text, at: 5_000) else { return #expect(Bool(false), "full") }
        #expect(rows.count == RowList.tombstonesMax - 1)
        // Some of the removed come back. The list still tells that it was too long.
        for time in 3...1_000 as ClosedRange<Milliseconds> { merge(row("user\(time)", at: 6_000 + time)) }
        #expect(list.tombstonesCount < RowList.tombstonesMax)
        #expect(list.changes(since: version(1).text, at: 8_000) == .full)
        #expect(list.brokenInvariant() == nil)
    }

    @Test("A version that clients may have passed is not newer than the newest") mutating func passedVersions() {
        #expect(!list.mayBePassed(version(1)))
        merge(row("ann", at: 5, nil))
        #expect(list.mayBePassed(version(4)) && list.mayBePassed(version(5)) && !list.mayBePassed(version(6)))
    }

    @Test("A client that holds a sequence before the mark of a late row reads the whole list, and a later one the changes")
    mutating func lateRows() {
        merge(row("ann", at: 1), row("bob", at: 5))
        merge(row("carl", at: 3), row(Row.lateMark, at: 6, nil))
        #expect(list.sequence == version(6).text && list.liveCount == 3)
        for time: Milliseconds in [1, 5] { #expect(list.changes(since: version(time).text, at: 10) == .full) }
        merge(row("dora", at: 7))
        #expect(list.changes(since: version(6).text, at: 10) == .rows([row("dora", at: 7)]))
        #expect(list.page(after: nil, limit: 10).map(\.key) == ["ann", "bob", "carl", "dora"])
    }

    @Test("A tombstone that has removed nothing moves no sequence, is no change, and expires like others")
    mutating func unseenTombstones() {
        var unseen = row("bob", at: 5, nil)
        unseen.expiresAt = Row.removedNothing
        merge(row("ann", at: 1), row("dora", at: 2, nil), unseen)
        #expect(list.sequence == version(2).text && list.brokenInvariant() == nil)
        #expect(list.changes(since: version(1).text, at: 10) == .rows([row("dora", at: 2, nil)]))
        #expect(list.changes(since: version(2).text, at: 10) == .rows([]))
        #expect(!list.mayBePassed(version(4)))
        // It keeps a late addition away, and a later one is seen.
        merge(row("bob", at: 4))
        #expect(!list.contains("bob"))
        #expect(list.expireTombstones(at: 5 + Self.horizon) == [unseen] && list.sequence == version(2).text)
        #expect(list.brokenInvariant() == nil)
        merge(row("bob", at: 7))
        #expect(list.contains("bob") && list.sequence == version(7).text)
    }

    // MARK: Pages

    @Test("Pages by key have each live row once, also if the cursor's row is gone") mutating func pagesByKey() {
        for name in ["dora", "ann", "bob", "eve", "carl"] { merge(row(name, at: 1)) }
        merge(row("bob", at: 2, nil))
        #expect(list.page(after: nil, limit: 2).map(\.key) == ["ann", "carl"])
        #expect(list.page(after: "carl", limit: 2).map(\.key) == ["dora", "eve"])
        #expect(list.page(after: "bob", limit: 1).map(\.key) == ["carl"], "a tombstone")
        #expect(list.page(after: "cat", limit: 1).map(\.key) == ["dora"], "an unknown key")
        #expect(list.page(after: "eve", limit: 2).isEmpty && list.page(after: nil, limit: 0).isEmpty)
    }

    @Test("Pages by change end between two milliseconds, and none lacks a row") mutating func pagesByChange() {
        for (number, time) in [3, 1, 2, 2, 2, 5, 4].enumerated() {
            merge(row("user\(number)", at: Milliseconds(time), counter: UInt16(number)))
        }
        merge(row("user5", at: 6, nil))
        func pages(_ withTombstones: Bool, next: (Entry) -> Version) -> [[String]] {
            var (pages, position) = ([[String]](), Version.zero)
            while true {
                let page = list.page(changedAfter: position, limit: 2, withTombstones: withTombstones)
                guard let last = page.last else { return pages }
                pages.append(page.map(\.key))
                position = next(last)
            }
        }
        let expected = [["user1", "user2", "user3", "user4"], ["user0", "user6"]]
        #expect(pages(false) { $0.version } == expected)
        #expect(pages(false) { Version(milliseconds: $0.version.milliseconds, counter: .max, node: .max) } == expected)
        #expect(pages(true) { $0.version } == expected + [["user5"]])
        #expect(list.page(changedAfter: .zero, limit: 0, withTombstones: true).isEmpty)
    }

    // MARK: Expiry

    @Test("A tombstone expires after the horizon, except the newest change of the list") mutating func expiry() {
        merge(row("ann", at: 1, nil), row("bob", at: 2, nil), row("carl", at: 3), row("dora", at: 4, nil))
        #expect(list.expiresNext == 1 + Self.horizon)
        #expect(list.expireTombstones(at: Self.horizon).isEmpty && list.count == 4)
        #expect(list.expireTombstones(at: 1 + Self.horizon) == [row("ann", at: 1, nil)])
        #expect(list.expiresNext == 2 + Self.horizon)
        #expect(list.expireTombstones(at: 9 + Self.horizon) == [row("bob", at: 2, nil)])
        #expect(list.entries.map(\.key) == ["carl", "dora"] && list.version == version(4) && list.expiresNext == .max)
        #expect(list.brokenInvariant() == nil)
        merge(row("eve", at: 5))
        #expect(list.expiresNext == 4 + Self.horizon)
        #expect(list.expireTombstones(at: 4 + Self.horizon) == [row("dora", at: 4, nil)])
        #expect(list.brokenInvariant() == nil)
    }

    @Test("Equal lists remove the same tombstones", arguments: [0, 4_900])
    func equalExpiry(wall: Milliseconds) {
        var (one, _, changes) = Self.random(seed: 3, changesCount: 5_000)
        var other = RowList()
        for change in changes.reversed() { _ = other.merge(change) }
        let removed = one.expireTombstones(at: wall + Self.horizon)
        #expect(other.expireTombstones(at: wall + Self.horizon) == removed && removed.isEmpty == (wall == 0))
        #expect(one.hash == other.hash && Array(one.entries) == Array(other.entries))
        #expect(one.brokenInvariant() == nil && other.brokenInvariant() == nil)
    }

    // MARK: Memory

    /// The bytes of a friend's row with a remark of 20 bytes, one group, a wording, a source and a time.
    private static func friend(_ number: Int, at time: Milliseconds) -> Entry {
        var friend = Friend(addTime: 1_790_000_000_000)
        friend.remark = "a remark of 20 bytes"
        friend.groupIDs = [3]
        friend.addWording = "Hello, we met at the fair"
        friend.addSource = "AddSource_Type_Web"
        let row = Row(friend, of: user("ann"), key: "customer-\(number)", version: version(time))
        return Entry(key: row.key, version: row.version, value: row.value)
    }

    /// 146 bytes of JSON, 13 of key, 14 of header and 8 of index make 181; the room for changes adds at most an eighth.
    @Test("A list of 3,000 friends takes at most 205 bytes a friend, also after each was changed, in any order") func memory() {
        var list = RowList()
        var random = SplitMix64(seed: 1)
        let numbers = Array(1_000..<4_000).shuffled(using: &random)
        for (time, number) in numbers.enumerated() { _ = list.merge(Self.friend(number, at: Milliseconds(time + 1))) }
        let json = Self.friend(1_000, at: 1).value!.count
        #expect(json == 146)
        #expect(list.allocatedCount >= 3_000 * (json + 13 + 14 + 8))
        #expect(list.allocatedCount <= 3_000 * 205, "\(list.allocatedCount / 3_000) bytes a friend")
        for (time, number) in numbers.shuffled(using: &random).enumerated() {
            _ = list.merge(Self.friend(number, at: Milliseconds(time + 4_000)))
        }
        #expect(list.allocatedCount <= 3_000 * 205, "\(list.allocatedCount / 3_000) bytes a friend")
        #expect(list.count == 3_000 && list.brokenInvariant() == nil)
    }

    @Test("Removed rows give their memory back, before and after their tombstones expire") func memoryOfRemoved() {
        var list = RowList()
        for number in 0..<3_000 { _ = list.merge(Self.friend(number, at: Milliseconds(number + 1))) }
        let full = list.allocatedCount
        for number in 0..<2_999 { _ = list.merge(row("customer-\(number)", at: Milliseconds(number + 4_000), nil)) }
        #expect(list.allocatedCount < full / 2)
        _ = list.merge(Self.friend(5_000, at: 9_000))
        _ = list.expireTombstones(at: 9_000 + Self.horizon)
        #expect(list.count == 2 && list.allocatedCount < 1_000)
        #expect(list.brokenInvariant() == nil)
    }

    @Test("The number of unread requests is that of the rows, in whatever order requests and read marks arrive")
    func unreadRequests() {
        var random = SplitMix64(seed: 3)
        var lists = UserLists()
        var counts: Set<UInt32> = []
        for time in 1...400 as ClosedRange<Milliseconds> {
            let version = Version(milliseconds: time + Milliseconds.random(in: 0..<9, using: &random), counter: 0, node: 1)
            let key = "user\(Int.random(in: 0..<40, using: &random))"
            let row: Row =
                switch Int.random(in: 0..<9, using: &random) {
                case 0: Row(ReadRequests(timestamp: time), of: user("ann"), key: "", version: version)
                case 1, 2: Row(user: user("ann"), kind: .pendencyIn, key: key, version: version, value: nil)
                default: Row(ReceivedRequest(addTime: time), of: user("ann"), key: key, version: version)
                }
            _ = lists.merge(row)
            counts.insert(lists.unreadCount)
            #expect(lists.brokenInvariant(of: user("ann")) == nil)
        }
        #expect(counts.count > 5)
        _ = lists.removeAll(upTo: Version(milliseconds: 395, counter: 0, node: 1), of: user("ann"))
        #expect(lists.brokenInvariant(of: user("ann")) == nil)
    }

    @Test("A user without lists pays one pointer") func memoryWithoutLists() {
        #expect(MemoryLayout<UserLists>.size == 8)
        #expect(UserLists().allocatedCount == 0 && UserLists().hash == 0 && UserLists().isEmpty)
        #expect(RowList().allocatedCount == 0)
    }
}

private func version(_ time: Milliseconds, counter: UInt16 = 0) -> Version { Version(milliseconds: time, counter: counter, node: 1) }

private func row(_ key: String, at time: Milliseconds, counter: UInt16 = 0, _ value: String? = "{}") -> RowList.Entry {
    RowList.Entry(key: key, version: version(time, counter: counter), value: value.map { Array($0.utf8) })
}
