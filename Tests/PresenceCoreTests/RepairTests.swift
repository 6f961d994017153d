import PresenceWire
import Testing

@testable import PresenceCore

/// The repair of differences between replicas, and its costs in bytes.
@Suite struct RepairTests {
    /// A difference that replicas may have.
    enum Change: CaseIterable, Sendable {
        /// A user whom one node lacks.
        case wholeUser
        /// A record that is older on one node.
        case record
        /// A subscription that one node lacks, though it has the user's newest version.
        case subscription
        /// A subscription that is a tombstone on one node only.
        case tombstone
    }

    private var cluster = Self.cluster(nodes: 2)
    private static let firstWall: Milliseconds = 1_789_000_000_000

    private static func cluster(nodes: Int) -> TestCluster {
        var settings = CoreSettings()
        settings.digestInterval = .seconds(3)
        return TestCluster(nodes: nodes, settings: settings)
    }

    /// The record of a user; each `step` is newer than the one before.
    private static func record(_ number: Int, step: Int = 0) -> Record {
        var record = Record(blank: user("user-\(number)"))
        record.version = Version(milliseconds: firstWall + Int64(step), counter: 0, node: 7)
        (record.customStatus, record.customStatusVersion) = ("at step \(step)", record.version)
        (record.lastUpdateTime, record.lastCustomStatusUpdateTime) = (record.version.milliseconds, record.version.milliseconds)
        return record
    }

    private static func subscription(to number: Int, step: Int, isRemoved: Bool = false) -> Subscription {
        Subscription(
            target: user("target-\(number)"), subscribedAt: firstWall, expiresAt: nil,
            version: Version(milliseconds: firstWall + Int64(step), counter: 0, node: 7), isRemoved: isRemoved)
    }

    private func hashes(of node: Int) -> [Slot: UInt64] {
        var hashes: [Slot: UInt64] = [:]
        cluster.processes[node].node.machines.owner.users.forEachSlot { hashes[$0] = $1 }
        return hashes
    }

    private var areEqual: Bool { cluster.processes.indices.allSatisfy { hashes(of: $0) == hashes(of: 0) } }

    /// The bytes of the messages of repairs since the last call.
    private mutating func takeRepairBytes() -> Int {
        var writer = WireWriter()
        for (_, _, message) in cluster.heard ?? [] {
            switch message {
            case .digest, .bucketDigest, .replicate: writer.message(message)
            default: break
            }
        }
        cluster.heard = []
        return writer.bytes.count
    }

    private func bytes(of rows: [Row]) -> Int {
        var writer = WireWriter()
        for row in rows { writer.message(.replicate(ticket: nil, [row])) }
        return writer.bytes.count
    }

    private func rowsSent() -> UInt64 { cluster.processes.reduce(0) { $0 + $1.node.statistics.repair.rowsSent } }

    // MARK: Costs

    /// One node, or one of three, has missed 1,000 changes; or each of the first two has missed a half of them.
    @Test(
        "The repair of 1 % of 100,000 users takes at most twice the bytes of their rows",
        arguments: [(2, [0]), (2, [0, 1]), (3, [0]), (3, [0, 1])])
    mutating func costs(nodes: Int, stale: [Int]) {
        cluster = Self.cluster(nodes: nodes)
        var rows: [Row] = []
        for number in 0..<100_000 {
            let isChanged = number % 100 == 0
            for node in 0..<nodes {
                let isStale = isChanged && stale[number / 100 % stale.count] == node
                cluster.put(Self.record(number, step: isChanged && !isStale ? 1 : 0), on: node)
            }
            if isChanged { rows.append(Row(Self.record(number, step: 1))) }
        }
        cluster.heard = []
        for _ in 0..<30 where !areEqual { cluster.advance(.milliseconds(500), step: .milliseconds(500)) }
        #expect(areEqual)
        let (sent, needed) = (takeRepairBytes(), bytes(of: rows))
        #expect(sent <= 2 * needed, "\(sent) bytes for \(needed) bytes of rows, ratio \(Double(sent) / Double(needed))")
        #expect(rowsSent() == 1_000)
    }

    /// A user without differences costs nothing below its slot.
    @Test("Equal replicas exchange digests only") mutating func equal() {
        for number in 0..<1_000 { for node in 0...1 { cluster.put(Self.record(number), on: node) } }
        cluster.heard = []
        cluster.advance(.seconds(10), step: .milliseconds(500))
        #expect(cluster.heard?.contains { if case .digest = $0.message { true } else { false } } == true)
        #expect(cluster.heard?.contains { if case .bucketDigest = $0.message { true } else { false } } == false)
        #expect(rowsSent() == 0)
    }

    // MARK: Differences

    private mutating func plant(_ change: Change, _ number: Int, newerOn node: Int) {
        let other = 1 - node
        for node in 0...1 { cluster.put(Self.record(number, step: 5), on: node) }
        switch change {
        case .wholeUser: cluster.removeUser(user("user-\(number)"), on: other)
        case .record: cluster.put(Self.record(number, step: 6), on: node)
        case .subscription: cluster.put(Self.subscription(to: 1, step: 3), of: user("user-\(number)"), on: node)
        case .tombstone:
            for node in 0...1 { cluster.put(Self.subscription(to: 1, step: 3), of: user("user-\(number)"), on: node) }
            cluster.put(Self.subscription(to: 1, step: 7, isRemoved: true), of: user("user-\(number)"), on: node)
        }
    }

    @Test("A difference is repaired, whichever node has the newer rows and whichever compares first", arguments: Change.allCases, [0, 1])
    mutating func differences(change: Change, first: Int) {
        for (number, node) in [(1, first), (2, 1 - first), (3, first)] { plant(change, number, newerOn: node) }
        cluster.advance(.seconds(7), step: .milliseconds(500))
        for number in 1...3 {
            for node in 0...1 {
                let kept = cluster.processes[node].node.owner.kept(user("user-\(number)"))
                #expect(kept.record.customStatus == (change == .record ? "at step 6" : "at step 5"))
                #expect(kept.subscriptions.count == (change == .subscription ? 1 : 0))
            }
        }
        #expect(areEqual)
    }

    /// Each node has a fact that the other one lacks, so the newer version alone decides nothing.
    @Test("Both halves of one user's changes end on both nodes") mutating func bothHalves() {
        for node in 0...1 { cluster.put(Self.record(1, step: 5), on: node) }
        cluster.put(Self.record(1, step: 6), on: 0)
        cluster.put(Self.subscription(to: 1, step: 4), of: user("user-1"), on: 1)
        cluster.advance(.seconds(10), step: .milliseconds(500))
        for node in 0...1 {
            let kept = cluster.processes[node].node.owner.kept(user("user-1"))
            #expect(kept.record.customStatus == "at step 6")
            #expect(kept.subscriptions.map(\.target) == [user("target-1")])
        }
    }

    /// Users of one slot.
    private static let crowd = [0, 44_347, 61_145, 228_564, 424_582, 443_169, 460_722, 674_035, 836_729, 1_048_173, 1_110_481, 1_143_176]

    /// The buckets below the slot decide.
    @Test("Differences among the users of one slot are repaired, and the other users are not sent") mutating func crowdedSlot() {
        #expect(Set(Self.crowd.map { user("user-\($0)").slot }).count == 1)
        for (index, number) in Self.crowd.enumerated() {
            for node in 0...1 { cluster.put(Self.record(number, step: node == index % 2 && index % 5 == 0 ? 1 : 0), on: node) }
        }
        cluster.advance(.seconds(7), step: .milliseconds(500))
        #expect(areEqual)
        #expect(rowsSent() == 3)
    }

    @Test("A lost message of a repair is made good by the next digest", arguments: [(0, 1), (1, 0)])
    mutating func lostMessage(from: Int, to: Int) throws {
        cluster.advance(.seconds(1))
        plant(.record, 1, newerOn: 0)
        plant(.record, 2, newerOn: 1)
        var writer = WireWriter()
        writer.message(.digest(cluster.processes[1].node.machines.owner.users.digest { _ in true }))
        let sender = cluster.processes[1].node.cluster.own.id
        cluster.losing = [(from, to)]
        try cluster.deliver(writer.bytes, from: sender, to: 0)
        cluster.settle()
        #expect(!areEqual)
        cluster.losing = []
        try cluster.deliver(writer.bytes, from: sender, to: 0)
        cluster.settle()
        #expect(areEqual)
    }

    // MARK: Bounds

    @Test("One answer has a page of rows and a bounded number of buckets, and later digests bring the rest") mutating func bounds() {
        let count = 3 * Handoff.rowsSentMax
        for number in 0..<count { cluster.put(Self.record(number), on: 0) }
        cluster.heard = []
        cluster.advance(.milliseconds(500), step: .milliseconds(500))
        while rowsSent() == 0 { cluster.advance(.milliseconds(500), step: .milliseconds(500)) }
        #expect(rowsSent() <= UInt64(Handoff.rowsSentMax))
        for case .bucketDigest(_, let buckets) in (cluster.heard ?? []).map(\.message) { #expect(buckets.count <= Message.bucketsMax) }
        cluster.advance(.seconds(20), step: .milliseconds(500))
        #expect(areEqual)
    }

    @Test("No rows are sent during a handoff") mutating func handoff() throws {
        plant(.wholeUser, 1, newerOn: 0)
        let place = HashBucket.place(ofRange: SlotRanges.range(of: user("user-1").slot))
        var writer = WireWriter()
        writer.message(.bucketDigest(salt: 1, [HashBucket(place, .entries([]))]))
        let sender = cluster.processes[1].node.cluster.own.id
        try cluster.deliver(writer.bytes, from: sender, to: 0)
        #expect(rowsSent() == 1)
        cluster.processes[0].node.machines.cluster.ownership.withTransfer(.present) {
            $0.begin(ring: 1, isDemoted: false, deadline: .farFuture, isOwned: SlotSet())
        }
        try cluster.deliver(writer.bytes, from: sender, to: 0)
        #expect(rowsSent() == 1)
    }
}

extension TestCluster {
    /// Stores a record on one node only, as if no other node had received it.
    fileprivate mutating func put(_ record: Record, on node: Int) {
        change(record.user, on: node) { $0.record = record }
    }

    /// Stores a subscription on one node only.
    fileprivate mutating func put(_ subscription: Subscription, of user: UserID, on node: Int) {
        change(user, on: node) { _ = $0.subscriptions.merge(subscription) }
    }

    fileprivate mutating func removeUser(_ user: UserID, on node: Int) {
        if let index = processes[node].node.owner.users.index(of: user) { processes[node].node.machines.owner.remove(index) }
    }

    private mutating func change(_ user: UserID, on node: Int, _ body: (inout OwnedUser) -> Void) {
        let isOwned = processes[node].node.cluster.decides(user)
        let (index, isNew) = processes[node].node.machines.owner.insert(user)
        if isNew, !isOwned { processes[node].node.machines.owner.modify(index) { $0.isReplica = true } }
        processes[node].node.machines.owner.modify(index, body)
    }
}
