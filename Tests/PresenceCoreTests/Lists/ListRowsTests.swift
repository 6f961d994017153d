import PresenceWire
import Testing

@testable import ClusterSimulation
@testable import PresenceCore

/// Rows of lists are owned, replicated, handed off, repaired, loaded and removed like all rows of a user.
@Suite struct ListRowsTests {
    private static let settings: CoreSettings = {
        var settings = CoreSettings()
        settings.policy.forgetAfterSeconds = 100
        settings.blankHorizon = .seconds(70)
        settings.digestInterval = .seconds(3)
        return settings
    }()

    var cluster = TestCluster(nodes: 3, settings: settings)

    /// One row of each kind that is kept in lists.
    private func rows(of name: String) -> [Row] {
        let (id, version) = (user(name), Version(milliseconds: cluster.now.wall, counter: 0, node: 9))
        var profile = Profile()
        profile.set("Nick", to: .text("Ann"), at: version)
        return [
            Row(profile, of: id, key: "", version: version), Row(Friend(addTime: 1), of: id, key: "bob", version: version),
            Row(SentRequest(addTime: 1), of: id, key: "carl", version: version),
            Row(ReceivedRequest(addTime: 1), of: id, key: "dora", version: version),
            Row(BlockedUser(since: 1), of: id, key: "eve", version: version),
            Row(FriendGroup(name: "work"), of: id, key: "1", version: version),
            Row(ReadRequests(timestamp: 1), of: id, key: "", version: version),
            Row(OutboxCommand(.block, version: version, begunAt: 1), of: id, key: "fred", version: version),
            Row(ProfileSubscription(subscribeType: 2, subscribedAt: 1), of: id, key: "gina", version: version, expiresAt: 1 << 50),
        ]
    }

    /// The rows that stay as they are while time passes. The owner carries out the decisions in an outbox, and removes them.
    private func restingRows(of name: String) -> [Row] { rows(of: name).filter { $0.kind != .chainOutbox } }

    /// Gives rows to one node. They come from no other node, which would not get its rows back.
    private mutating func write(_ rows: [Row], on node: Int) {
        let process = cluster.processes[node]
        process.node.machines.onReplicate(rows, ticket: nil, from: 0, at: cluster.now)
        process.node.run(at: cluster.now)
        cluster.settle()
    }

    private func inMemory(_ name: String, of node: Int) -> [Row] {
        cluster.processes[node].node.owner.listRows(of: user(name))
    }

    /// The rows of lists on a disk. The owner also writes the status, and a visibility, because a row of the blocklist hides the user.
    private func onDisk(_ name: String, of node: Int) -> [Row] {
        cluster.processes[node].disk.rows.values
            .filter { $0.user == user(name) && $0.kind.isOfUser && $0.kind != .status && $0.kind != .visibility }
            .sorted { ($0.kind.rawValue, $0.key) < ($1.kind.rawValue, $1.key) }
    }

    private func expectRows(_ rows: [Row], of name: String, on node: Int, sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(inMemory(name, of: node) == rows, "memory of node \(node)", sourceLocation: sourceLocation)
        #expect(onDisk(name, of: node) == rows, "disk of node \(node)", sourceLocation: sourceLocation)
        let broken = cluster.processes[node].node.owner.brokenInvariant()
        #expect(broken == nil, sourceLocation: sourceLocation)
    }

    @Test("Rows of every kind reach the disks of the replicas") mutating func replicas() {
        let ann = cluster.user(ownedBy: 0)
        let rows = rows(of: ann)
        #expect(rows.map(\.kind.rawValue) == Array(8...16))
        write(rows, on: 0)
        for node in 0..<3 { expectRows(rows, of: ann, on: node) }
        let replicas = (0..<3).map { cluster.processes[$0].node.owner.replicaCount }
        #expect(replicas == [0, 1, 1])
    }

    @Test("Rows survive a restart") mutating func restart() throws {
        let ann = cluster.user(ownedBy: 0)
        let rows = rows(of: ann)
        write(rows, on: 0)
        for node in 0..<3 { cluster.kill(node) }
        for node in 0..<3 {
            try cluster.revive(node, settings: Self.settings)
            expectRows(rows, of: ann, on: node)
        }
    }

    @Test("A node does not start with a damaged row") mutating func damagedRow() {
        let ann = cluster.user(ownedBy: 0)
        var row = rows(of: ann)[1]
        row.value = Array("{}".utf8)
        let error = #expect(throws: RowError.self) { try cluster.processes[0].node.load(row, at: cluster.now) }
        #expect(error?.description == "row of default/\(ann), kind friend, key \"bob\": addTime is missing")
    }

    @Test("A damaged row from another node is refused") mutating func damagedRowOfPeer() {
        let ann = cluster.user(ownedBy: 0)
        var row = rows(of: ann)[1]
        row.value = Array("{}".utf8)
        write([row], on: 0)
        #expect(cluster.processes[0].node.machines.receiver.refusedCount == 1)
        #expect(inMemory(ann, of: 0).isEmpty && onDisk(ann, of: 0).isEmpty)
    }

    @Test("Rows go with a handoff, and are deleted on the node that gave them away") mutating func handoff() throws {
        cluster = TestCluster(nodes: 4, settings: Self.settings)
        cluster.kill(3)
        cluster.advance(.seconds(4))
        let rows = restingRows(of: "ann1")
        write(rows, on: cluster.ownerIndex(of: "ann1"))
        for node in 0..<3 { expectRows(rows, of: "ann1", on: node) }
        try cluster.restart(3, settings: Self.settings)
        cluster.advance(.seconds(3))
        let placement = cluster.processes[3].node.cluster.placement
        let kept = Set(placement.replicaSet(of: user("ann1")).map { cluster.processes[3].node.cluster.peerID($0) })
        #expect(kept.contains(cluster.processes[3].id), "the test needs a user whom the fourth node keeps")
        for node in 0..<4 { expectRows(kept.contains(cluster.processes[node].id) ? rows : [], of: "ann1", on: node) }
    }

    @Test("Rows that a link lost are repaired, tombstones too") mutating func repair() {
        let ann = cluster.user(ownedBy: 0)
        let rows = restingRows(of: ann)
        write([rows[1]], on: 0)
        cluster.losing = [(0, 1)]
        var tombstone = rows[1]
        (tombstone.value, tombstone.version.stamp) = (nil, tombstone.version.stamp + 1)
        write(rows.filter { $0.kind != .friend } + [tombstone], on: 0)
        cluster.losing = []
        expectRows([rows[1]], of: ann, on: 1)
        cluster.advance(.seconds(20), step: .milliseconds(500))
        var expected = rows
        expected[1] = tombstone
        for node in 0..<3 { expectRows(expected, of: ann, on: node) }
        #expect(cluster.processes.contains { $0.node.machines.repair.differences > 0 })
    }

    @Test("An older row changes nothing, and an awaited one is written again") mutating func olderRow() {
        let ann = cluster.user(ownedBy: 0)
        let rows = rows(of: ann)
        write(rows, on: 0)
        var older = rows[1]
        (older.value, older.version.stamp) = (nil, older.version.stamp - 1)
        let process = cluster.processes[0]
        process.node.machines.onReplicate([older], ticket: 9, from: 1, at: cluster.now)
        process.node.run(at: cluster.now)
        var written: [[Row]] = []
        for case .persist(let rows, _, true) in process.node.effects { written.append(rows) }
        #expect(written == [[rows[1]]])
        cluster.settle()
        expectRows(rows, of: ann, on: 0)
    }

    @Test("A row from a clock that is far ahead is not kept") mutating func clockAhead() {
        let ann = cluster.user(ownedBy: 0)
        var row = rows(of: ann)[1]
        row.version = Version(milliseconds: cluster.now.wall + 61_000, counter: 0, node: 9)
        write([row], on: 0)
        #expect(inMemory(ann, of: 0).isEmpty)
    }

    // MARK: Profiles

    @Test("Fields that two sides of a split changed are merged, in a row with a version of its own", arguments: [0, 1])
    mutating func profiles(node: Int) throws {
        let ann = cluster.user(ownedBy: 0)
        let time = cluster.now.wall
        func row(_ name: String, _ value: FieldValue, at time: Milliseconds) -> Row {
            let version = Version(milliseconds: time, counter: 0, node: 9)
            var profile = Profile()
            profile.set(name, to: value, at: version)
            return Row(profile, of: user(ann), key: "", version: version)
        }
        let (nick, level) = (row("Nick", .text("Ann"), at: time - 2), row("Level", .integer(4), at: time - 1))
        write([level], on: node)
        write([nick], on: node)
        let kept = try #require(inMemory(ann, of: 0).first)
        let profile = try Profile(kept)
        #expect(profile["Nick"] == .text("Ann") && profile["Level"] == .integer(4))
        #expect(kept.version > level.version)
        cluster.advance(.seconds(20), step: .milliseconds(500))
        for node in 0..<3 { expectRows([kept], of: ann, on: node) }
        write([nick, level], on: node)
        for node in 0..<3 { expectRows([kept], of: ann, on: node) }
    }

    // MARK: Removal

    @Test("After the horizon no node and no disk has a tombstone, except the newest of its list") mutating func horizon() {
        let ann = cluster.user(ownedBy: 0)
        var tombstones = rows(of: ann).filter { $0.kind == .friend || $0.kind == .blocked }
        for index in tombstones.indices {
            tombstones[index].value = nil
            tombstones.append(tombstones[index])
            tombstones[index].version.stamp += 1
            tombstones[tombstones.count - 1].key = "older"
        }
        // The older ones first: a row that comes late gets a mark, which is a newer tombstone.
        write(tombstones.reversed(), on: 0)
        #expect(onDisk(ann, of: 1).count == 4)
        cluster.now.wall += CoreSettings.tombstoneHorizon + 60_000
        cluster.advance(.seconds(2))
        for node in 0..<3 { expectRows(Array(tombstones[..<2]), of: ann, on: node) }
        #expect(cluster.processes.allSatisfy { $0.node.owner.counters.tombstonesForgotten == 2 })
    }

    @Test("A user with a row in a list is not removed; one with tombstones only is, with all of them") mutating func removal() {
        let (ann, bob) = (cluster.user(ownedBy: 0), cluster.user(ownedBy: 0, number: 1))
        // No call removes a profile.
        let kept = rows(of: bob).filter { $0.kind != .profile }
        write(rows(of: ann) + kept, on: 0)
        let removed = kept.map { row in
            var row = row
            (row.value, row.expiresAt, row.version.stamp) = (nil, nil, row.version.stamp + 1)
            return row
        }
        write(removed, on: 0)
        cluster.advance(.seconds(110), step: .milliseconds(500))
        #expect(cluster.record(of: bob).isBlank && cluster.record(of: bob).version > .zero)
        #expect(!cluster.record(of: ann).isBlank && cluster.record(of: ann).profileVersion > .zero)
        cluster.advance(.seconds(75), step: .milliseconds(500))
        for node in 0..<3 {
            #expect(inMemory(ann, of: node).count == 9 && onDisk(ann, of: node).count == 9)
            #expect(cluster.processes[node].node.owner.index(ofKnown: user(bob)) == nil)
            #expect(!cluster.processes[node].disk.rows.values.contains { $0.user == user(bob) && $0.kind.isOfUser })
        }
    }
}

// A debug build must not copy the user store out of the owner, so these read it in place.
extension Owner {
    fileprivate func listRows(of user: UserID) -> [Row] { users.index(of: user).map { users[$0].lists.rows(of: user) } ?? [] }

    fileprivate func brokenInvariant() -> String? { users.brokenInvariant() }

    fileprivate var replicaCount: Int { users.replicaCount }
}
