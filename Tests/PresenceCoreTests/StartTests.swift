import PresenceWire
import Testing

@testable import PresenceCore

/// The rows that a node loads when it starts, and its first steps before it sends anything.
@Suite struct StartTests {
    /// A lone node, stopped, whose wall clock has gone back by ten minutes.
    private func wronged() -> TestCluster {
        var cluster = TestCluster(nodes: 1)
        cluster.login("ann", on: 0)
        cluster.setStatus("ann", "kept", on: 0)
        cluster.subscribe("bob", to: ["ann"], on: 0)
        cluster.kill(0)
        cluster.now.wall -= 600_000
        return cluster
    }

    @Test("A single node keeps what it wrote while its clock was ten minutes ahead") func clockAhead() throws {
        var cluster = wronged()
        for _ in 0..<2 {
            try cluster.restart(0)
            #expect(cluster.processes[0].node.owner.kept(user("ann")).record.customStatus == "kept")
            #expect(cluster.processes[0].node.owner.kept(user("bob")).subscriptions.map(\.target) == [user("ann")])
            guard case .owner(.record(let record))? = cluster.setStatus("ann", "newer", on: 0) else {
                Issue.record("not answered")
                return
            }
            // On disk it replaces what is there.
            let row = try #require(cluster.processes[0].disk.rows.values.first { $0.kind == .status && $0.user == user("ann") })
            #expect(row.version == record.version)
            cluster.setStatus("ann", "kept", on: 0)
            cluster.kill(0)
        }
    }

    @Test("A node with others knows that it was away for longer than they keep tombstones", arguments: [true, false]) func longAbsence(
        joins: Bool
    ) throws {
        let cluster = wronged()
        let row = try #require(cluster.processes[0].disk.rows.values.max { $0.version < $1.version })
        func absence(_ milliseconds: Milliseconds) throws -> Duration? {
            var node = Node(selfPeer: cluster.processes[0].node.cluster.own, cluster: "test", gatewaysCount: 1, joins: joins)
            let now = Now(instant: cluster.now.instant, wall: row.version.milliseconds + milliseconds)
            #expect(node.owner.absence(in: node.cluster, at: now) == nil, "an empty disk")
            try node.load(row, at: now)
            return node.owner.absence(in: node.cluster, at: now)
        }
        #expect(try absence(CoreSettings.tombstoneHorizon) == nil)
        let long = try absence(CoreSettings.tombstoneHorizon + 86_400_000)
        #expect(long == (joins ? .seconds(8 * 86_400) : nil))
    }

    @Test("A first login receives its own status once") func firstLogin() throws {
        var cluster = TestCluster(nodes: 1)
        cluster.kill(0)
        try cluster.restart(0)
        let ann = cluster.login("ann", on: 0)
        #expect(cluster.clients[ann].events.filter { $0.name == "onUserStatusChanged" }.count == 1)
        #expect(cluster.clients[ann].view["ann"]?["statusType"]?.textValue == "ONLINE")
    }

    @Test("A node with others does not start with rows that they would refuse") func refusedRows() throws {
        let cluster = wronged()
        var node = Node(selfPeer: cluster.processes[0].node.cluster.own, cluster: "test", gatewaysCount: 1, joins: true)
        let row = try #require(cluster.processes[0].disk.rows.values.first { $0.kind == .status })
        let error = #expect(throws: RowError.self) { try node.load(row, at: cluster.now) }
        #expect(error?.description.contains("ahead of this machine's clock") == true)
    }

    @Test("An ONLINE user stays unconfirmed for the whole grace after a slow start") func slowStart() throws {
        var cluster = TestCluster(nodes: 1)
        cluster.login("ann", on: 0)
        cluster.advance(.milliseconds(100))
        cluster.kill(0)
        var disk = cluster.processes[0].disk
        var node = Node(selfPeer: cluster.processes[0].node.cluster.own, cluster: "test", gatewaysCount: 1, joins: false)
        for row in disk.sortedRows() { try node.load(row, at: cluster.now) }
        let later = Now(instant: cluster.now.instant + .seconds(60), wall: cluster.now.wall + 60_000)
        node.loaded(at: later) { _ in true }
        node.tick(at: later)
        #expect(node.owner.kept(user("ann")).record.statusType == .online)
        node.tick(at: Now(instant: later.instant + .seconds(11), wall: later.wall + 11_000))
        #expect(node.owner.kept(user("ann")).record.statusType == .offline)
    }

    /// The wall clock goes back between two starts.
    @Test("Versions of a start are newer than those of the start before") func newerVersions() throws {
        var cluster = TestCluster(nodes: 1)
        cluster.login("ann", on: 0)
        cluster.advance(.seconds(1))
        cluster.kill(0)
        cluster.now.wall += 20_000
        try cluster.restart(0)
        let first = cluster.processes[0].node.owner.kept(user("ann")).record.version
        cluster.processes[0].disk.remove { $0.kind == .status && $0.version >= first }
        cluster.kill(0)
        cluster.now.wall -= 2_000
        try cluster.restart(0)
        #expect(cluster.processes[0].node.owner.kept(user("ann")).record.version > first)
    }

    /// Members that went on after this node ended, and have left since, had clocks ahead of this node's clock.
    @Test(
        "A node that starts after others have left resends everything to clients that resume from their positions",
        arguments: [false, true]) func othersLeft(hasOthers: Bool) throws
    {
        var cluster = TestCluster(nodes: 1)
        cluster.setStatus("ann", "kept", on: 0)
        cluster.kill(0)
        let other = Row(member: Peer(id: "other", generation: 1, address: "other:7601"), hasLeft: true, version: Version(stamp: 1, node: 2))
        let isWritten = hasOthers && cluster.processes[0].disk.writesAtOnce(other)
        #expect(isWritten == hasOthers)
        try cluster.restart(0)
        let position = Version(milliseconds: cluster.now.wall + 20_000, counter: 0, node: 0)
        #expect(cluster.record(of: "ann").mayBeMissed(since: position) == hasOthers)
        cluster.setStatus("ann", "changed", on: 0)
        #expect(cluster.record(of: "ann").mayBeMissed(since: position) == hasOthers)
        // The clock went on from the bound on disk, 3 s ahead.
        cluster.now.wall += 64_000
        cluster.setStatus("ann", "later", on: 0)
        #expect(cluster.record(of: "ann").knownSince == 0)
    }

    /// The node that stayed when all others left is missing when they start again. Its clock was ahead of theirs.
    @Test(
        "A node that left and starts again resends everything to clients that resume from a missing node's positions",
        arguments: [false, true])
    func missingNode(isMissing: Bool) throws {
        var cluster = TestCluster(nodes: 3)
        let (ann, bob) = ("ann", "bob")
        cluster.setStatus(bob, "hello", on: 0)
        for node in [2, 1] { cluster.leave(node) }
        cluster.advance(.seconds(1))
        let position = cluster.now.wall + 20_000
        if isMissing { cluster.kill(0) }
        for node in [1, 2] { try cluster.restart(node) }
        cluster.login("carl", on: 1)  // Positions go on where somebody is told them.
        cluster.advance(.seconds(10))
        cluster.subscribe(ann, to: [bob], on: 1)
        cluster.setStatus(bob, "changed", on: 1)
        cluster.advance(.seconds(20))
        let phone = cluster.login(ann, on: 1, resumeFrom: position)
        #expect((cluster.clients[phone].view[bob]?["customStatus"]?.textValue == "changed") == isMissing)
    }

    /// The owner changes the profile. The node has loaded an older record of the user, and publishes nothing of it.
    @Test("A node that has just started keeps the rows of an owner as they are, and takes its role later") func rowsBeforeRole() throws {
        var owner = Owner(clock: VersionClock(node: 1), settings: CoreSettings())
        var outbox = Outbox()
        let now = Now(instant: Instant(nanoseconds: 0), wall: 1_790_000_000_000)
        func version(before milliseconds: Milliseconds) -> Version {
            Version(milliseconds: now.wall - milliseconds, counter: 0, node: 2)
        }
        let ann = user("ann")
        var record = Record(blank: ann)
        (record.statusType, record.onlinePlatforms, record.version) = (.online, ["web"], version(before: 5_000))
        try owner.load(Row(record), in: &outbox[at: now])
        let changed = version(before: 2_000)
        let profile = Row(
            user: ann, kind: .profile, key: "", version: changed, value: Array(#"{"Nick":["Ann","\#(changed.text)"]}"#.utf8))
        (record.onlinePlatforms, record.version, record.profileVersion) = (["ios"], version(before: 1_000), changed)
        outbox = Outbox()
        let isBelieved = try owner.receive([profile, Row(record)], isOwned: { _ in false }, isAwaited: true, in: &outbox[at: now])
        #expect(isBelieved)
        let kept = owner.record(of: ann)
        #expect(kept.version == record.version && kept.onlinePlatforms == ["ios"] && kept.profileVersion == changed)
        #expect(outbox.changes.isEmpty)
        #expect(outbox.rows.map(\.version) == [changed, record.version])
        owner.reassign({ _ in Reassignment.Role(owner: 0, decides: true) }, in: &outbox[at: now])
        let index = owner.index(of: ann)
        #expect(!owner.users[index].isReplica)
        owner.users.checkInvariants()
    }

    @Test("A disk that fails at the start is known before the first change") func failedDisk() throws {
        var cluster = TestCluster(nodes: 1)
        cluster.kill(0)
        cluster.isDiskFull = true
        try cluster.restart(0)
        #expect(cluster.setStatus("ann", "lost", on: 0) == .refused(.notDurable))
        #expect(cluster.processes[0].node.owner.kept(user("ann")).record.customStatus == "")
    }

    @Test("A peer that answers a subscribe with records does no harm") func wrongAnswer() {
        var cluster = TestCluster(nodes: 2)
        let ann = cluster.user(ownedBy: 1)
        cluster.losing = [(from: 0, to: 1)]
        cluster.subscribe(ann, to: ["bob"], on: 0)
        let process = cluster.processes[0]
        let sent = process.node.machines.calls.waiting.requests { _ in true }
        #expect(sent.count == 1)
        for request in sent {
            process.node.handle(.answer(id: request.request.id, .records([Record(blank: user("bob"))])), from: 1, at: cluster.now)
        }
    }
}
