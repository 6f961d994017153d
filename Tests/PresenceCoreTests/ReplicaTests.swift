import PresenceWire
import Testing

@testable import PresenceCore

/// Facts on more than one disk, while nodes come and go.
@Suite struct ReplicaTests {
    var cluster = TestCluster(nodes: 3)

    private func follows(_ answer: CallAnswer?) -> [String] {
        guard case .subscriptions(let page, _, _) = answer else { return [] }
        return page.map { String($0.target.id) }
    }

    private mutating func list(_ user: String, on node: Int) -> [String] {
        cluster.call(.getSubscribedUserStatus(only: nil, offset: 0, limit: 200), by: user, on: node)
        cluster.advance(.milliseconds(700))
        return follows(cluster.lastAnswer(on: node))
    }

    @Test("An acknowledged change survives its owner") mutating func deadOwner() {
        let ann = cluster.user(ownedBy: 0)
        cluster.subscribe(ann, to: ["bob", "carl"], on: 1)
        cluster.setStatus(ann, "kept", on: 1)
        cluster.kill(0)
        let followed = list(ann, on: 1)
        #expect(followed == ["bob", "carl"])
        #expect(cluster.record(of: ann).customStatus == "kept")
        let answer = cluster.setStatus(ann, "and written again", on: 2)
        #expect(answer != nil)
    }

    @Test("A change that one replica has is acknowledged") mutating func oneReplica() {
        let ann = cluster.user(ownedBy: 0)
        cluster.fullDisks = [1]
        guard case .owner(.record) = cluster.setStatus(ann, "two of three", on: 0) else { return #expect(Bool(false), "refused") }
    }

    @Test("A change that no replica has is not acknowledged") mutating func noReplica() {
        let ann = cluster.user(ownedBy: 0)
        cluster.fullDisks = [1, 2]
        let answer = cluster.setStatus(ann, "only one", on: 0)
        #expect(answer == nil)
        cluster.advance(.seconds(3))
        #expect(cluster.lastAnswer(on: 0) == .refused(.unavailable.afterPassingOn))
    }

    @Test("The replica lag is the age of the oldest change that waits for a replica") mutating func replicaLag() {
        let ann = cluster.user(ownedBy: 0)
        let lag = { (cluster: TestCluster) in
            cluster.processes[0].node.machines.replication.writes.replicaLag(timeout: CoreSettings().replicationTimeout)
        }
        cluster.setStatus(ann, "two of three", on: 0)
        cluster.advance(.milliseconds(100))
        #expect(lag(cluster) == .zero)
        cluster.fullDisks = [1, 2]
        cluster.setStatus(ann, "only one", on: 0)
        cluster.advance(.milliseconds(500))
        cluster.setStatus(ann, "later", on: 0)
        cluster.advance(.milliseconds(500))
        #expect(lag(cluster) == .seconds(1))
        cluster.advance(.seconds(3))
        #expect(lag(cluster) == .zero, "both were refused")
    }

    /// A write of two rows whose replicas differ: each of `replicas` is asked with a ticket of its own.
    private func write(_ rows: [Row], barrierPeers: [PeerIndex] = []) -> PendingWrites.Write {
        PendingWrites.Write(
            ticket: 7, replicaTicket: 7, barrierTicket: barrierPeers.isEmpty ? nil : 8,
            continuations: [.answer(id: 1, of: user("ann"), .done, to: 0)], rows: rows, needs: [[1]], barrierPeers: barrierPeers,
            isStored: true,
            deadline: cluster.now.instant + .seconds(2))
    }

    /// A status and a visibility are written in one turn, and their replica dies. A barrier acknowledgement does not count as a disk.
    @Test("A barrier acknowledgement does not count as a disk") func barrierIsNoDisk() {
        var writes = PendingWrites()
        writes.add(write([], barrierPeers: [1, 2]))
        #expect(writes.replicated(8, by: 1) == nil)
        #expect(writes.replicated(8, by: 2) == nil)
        #expect(writes.count == 1)
        #expect(writes.replicated(7, by: 1) != nil)
    }

    @Test("A visibility that another side replaced while the disks wrote it is refused, and may have taken effect")
    mutating func replaced() {
        let ann = cluster.user(ownedBy: 0)
        cluster.call(.setVisibility(.init(mode: .nobody)), by: ann, on: 0)
        let process = cluster.processes[0]
        let kept = process.node.owner.kept(user(ann)).record.privacy!
        for mode in [Visibility.Mode.nobody, .everyone] {
            var visibility = kept.visibility
            visibility.mode = mode
            let answered = Privacy(
                visibility: visibility, writtenAt: kept.writtenAt, version: kept.version, contents: [], named: [], others: nil)!
            let write = PendingWrites.Write(
                ticket: 7, replicaTicket: 7, barrierTicket: nil,
                continuations: [.answer(id: 1, of: user(ann), .visibility(answered, remnant: .none), to: 1)],
                rows: [Row(answered, of: user(ann))],
                isStored: true, deadline: cluster.now.instant)
            process.node.carryOut(.done(write), at: cluster.now)
            cluster.heard = []
            cluster.settle()
            let answers = cluster.heard!.compactMap { if case .answer(_, let answer) = $0.message { answer } else { nil } }
            #expect(answers == [mode == .nobody ? .visibility(answered, remnant: .none) : .refused(.unavailable.afterPassingOn)])
        }
    }

    /// An acknowledgement of rows that a node kept before does not count for rows that it received later.
    @Test("An acknowledgement from before a change of the replicas does not count") func earlierReplicas() {
        var writes = PendingWrites()
        let row = Row(Record(blank: user("ann")))
        writes.add(write([row]))
        let again = writes.replan(nextTicket: { 9 }, { _ in [1, 2] })
        #expect(again.map(\.replicaTicket) == [9])
        #expect(writes.replicated(7, by: 2) == nil)
        #expect(writes.count == 1)
        #expect(writes.replicated(9, by: 2) != nil)
        #expect(writes.count == 0)
    }

    /// Rows of a handoff page may wait behind others on their way to the disk, so an acknowledgement must not rely on them.
    @Test("A known row is written again before its acknowledgement") mutating func writtenAgain() {
        let ann = cluster.user(ownedBy: 0)
        var record = Record(blank: user(ann))
        record.version = Version(milliseconds: cluster.now.wall, counter: 0, node: 3)
        let row = Row(record)
        let process = cluster.processes[1]
        let owner = process.node.cluster.peerIndex(cluster.processes[0].node.cluster.own.id)!
        for ticket in [nil, 9] as [UInt64?] {
            process.node.machines.onReplicate([row], ticket: ticket, from: owner, at: cluster.now)
            process.node.run(at: cluster.now)
        }
        var written: [(rows: [Row], isUrgent: Bool)] = []
        for case .persist(let rows, _, let isUrgent) in process.node.effects { written.append((rows, isUrgent)) }
        #expect(written.map(\.rows) == [[row], [row]])
        #expect(written.map(\.isUrgent) == [false, true])
        #expect(process.node.machines.replication.writes.count == 1, "it is not acknowledged yet")
    }

    /// The sender does not wait for the time of its next attempt.
    @Test("A node that becomes active receives at once what it had rejected") mutating func newlyActive() {
        let ann = user(cluster.user(ownedBy: 0))
        let process = cluster.processes[1]
        let owner = process.node.cluster.peerIndex(cluster.processes[0].node.cluster.own.id)!
        let other = process.node.cluster.peerIndex(cluster.processes[2].node.cluster.own.id)!
        process.node.machines.onMisrouted([ann], from: owner, at: cluster.now)
        process.node.machines.onMisrouted([], from: other, at: cluster.now)
        #expect(process.node.edge.misrouted == [ann])
        process.node.machines.onMisrouted([], from: owner, at: cluster.now)
        #expect(process.node.edge.misrouted == [])
    }

    /// The last offer by a ring may have come before the ring: then a node gives its slots up and decides about them again in one turn.
    @Test("Nodes register at once with an owner that released and activated its slots in one turn", arguments: [0, 1])
    mutating func sameTurn(node: Int) {
        let (ann, ben) = (cluster.user(ownedBy: 0), cluster.user(ownedBy: 2))
        cluster.login(ann, on: 2)
        let watcher = cluster.login(ben, on: node)
        cluster.subscribe(ben, to: [ann], on: node)
        cluster.processes[0].node.beginTransfer(isDemoted: true, at: cluster.now)
        cluster.processes[0].node.run(at: cluster.now)
        cluster.settle()
        cluster.setStatus(ann, "here", on: 2)
        #expect(cluster.clients[watcher].view[ann]?["customStatus"]?.textValue == "here")
    }

    /// An attempt that failed has left it on its owner's disk.
    @Test("A repeated change is on two disks when it is acknowledged") mutating func repeatedChange() {
        let ann = cluster.user(ownedBy: 0)
        cluster.fullDisks = [1, 2]
        cluster.setStatus(ann, "twice", on: 0)
        cluster.advance(.seconds(3))
        #expect(cluster.lastAnswer(on: 0) == .refused(.unavailable.afterPassingOn))
        let again = cluster.setStatus(ann, "twice", on: 0)
        #expect(again == nil, "it is on one disk")
        cluster.fullDisks = []
        guard case .owner(.record) = cluster.setStatus(ann, "twice", on: 0) else { return #expect(Bool(false), "refused") }
    }

    @Test("The last node that stays keeps its users on those that drain") mutating func drainingReplicas() {
        for index in [1, 2] {
            let isDraining = cluster.processes[index].node.drain(at: cluster.now)
            #expect(isDraining)
            cluster.settle()
        }
        cluster.advance(.seconds(1))
        cluster.fullDisks = [1, 2]
        let answer = cluster.setStatus("ann", "one disk", on: 0)
        #expect(answer == nil)
        cluster.fullDisks = [1]
        guard case .owner(.record) = cluster.setStatus("ann", "two disks", on: 0) else { return #expect(Bool(false), "refused") }
    }

    @Test("A sole survivor refuses durable changes and changes nothing") mutating func soleSurvivor() {
        let ann = cluster.user(ownedBy: 0)
        cluster.setStatus(ann, "before", on: 0)
        let phone = cluster.login(ann, on: 0)
        cluster.kill(1)
        cluster.kill(2)
        let answers = [cluster.setStatus(ann, "after", on: 0), cluster.subscribe(ann, to: ["bob"], on: 0)]
        #expect(answers == [.refused(.notReplicated), .refused(.notReplicated)])
        #expect(cluster.record(of: ann).customStatus == "before")
        cluster.lose(phone)
        cluster.advance(.seconds(3))
        #expect(cluster.record(of: ann).statusType == .offline, "presence goes on")
    }

    @Test("Members that have left do not count towards the quorum") mutating func leftMembers() {
        cluster.leave(1)
        cluster.leave(2)
        cluster.advance(.seconds(1))
        #expect(["node-0", "node-1", "node-2"].map { cluster.processes[0].node.cluster.hasLeft(NodeID($0)) } == [false, true, true])
        guard case .owner(.record) = cluster.setStatus("ann", "alone", on: 0) else { return #expect(Bool(false), "refused") }
    }

    /// A blocked link stays connected, so a node may never learn that the others have declared it dead. It must count the nodes it misses.
    @Test(
        "A side of a split with fewer members than it misses is the smaller one",
        arguments: [(1, 1, false), (2, 1, true), (2, 2, false), (3, 1, true)])
    func minority(missed: Int, there: Int, isMinority: Bool) {
        var peers = Peers(own: Peer(id: "n0", generation: 1, address: "h:0"))
        for number in 1..<missed + there {
            let peer = peers.insert(Peer(id: NodeID("n\(number)"), generation: 1, address: "h:\(number)"), rowVersion: .zero).index
            (peers[peer].wasMember, peers[peer].state) = (true, number < there ? .alive : .dead)
        }
        #expect(peers.isMinority == isMinority)
        #expect(!peers.isMinority || !peers.isMajority)
        for peer in peers.indices where peers[peer].state == .dead { peers[peer].state = .left }
        #expect(!peers.isMinority, "who has left is not missed")
    }

    @Test("A replica decides nothing") mutating func replica() {
        let ann = cluster.user(ownedBy: 0)
        let watcher = cluster.login("watcher", on: 1)
        cluster.subscribe("watcher", to: [ann], on: 1)
        cluster.login(ann, on: 2)
        cluster.advance(.seconds(30))
        #expect(cluster.statuses(told: watcher, of: ann).last == "ONLINE")
        #expect(cluster.record(of: ann).statusType == .online)
        let online = cluster.processes.map { $0.node.owner.users.onlineCount }.reduce(0, +)
        #expect(online == 2, "each user is counted by its owner alone")
    }

    @Test("A lost transfer is repeated when the link is back") mutating func lostTransfer() throws {
        let ann = cluster.user(ownedBy: 0)
        cluster.kill(0)
        cluster.setStatus(ann, "written elsewhere", on: 1)
        cluster.subscribe(ann, to: ["bob"], on: 1)
        cluster.losing = [(1, 0), (2, 0)]
        try cluster.restart(0)
        cluster.advance(.seconds(1))
        cluster.losing = []
        cluster.link(1, 0)
        cluster.link(2, 0)
        cluster.advance(.seconds(1))
        #expect(cluster.ownerIndex(of: ann) == 0)
        #expect(cluster.record(of: ann).customStatus == "written elsewhere")
        let followed = list(ann, on: 2)
        #expect(followed == ["bob"])
    }

    @Test("The rows that a returning node fetches are counted") mutating func fetchedRows() throws {
        let ann = cluster.user(ownedBy: 0)
        cluster.kill(0)
        cluster.setStatus(ann, "written elsewhere", on: 1)
        cluster.advance(.seconds(1))
        try cluster.restart(0)
        cluster.advance(.seconds(1))
        let process = cluster.processes[0]
        #expect(process.node.owner.record(of: user(ann)).customStatus == "written elsewhere")
        let fetched = process.node.cluster.ownership.transfer.bytesReceived
        #expect(fetched > 0)
        cluster.setStatus(ann, "written here", on: 1)
        cluster.advance(.seconds(1))
        #expect(cluster.processes[0].node.cluster.ownership.transfer.bytesReceived == fetched, "what is written since is no part of it")
    }

    @Test("Range digests find rows that a link lost between replicas") mutating func digests() {
        let ann = cluster.user(ownedBy: 0)
        cluster.losing = [(0, 1)]
        cluster.setStatus(ann, "missed by one", on: 0)
        cluster.losing = []
        cluster.advance(.seconds(120), step: .milliseconds(500))
        #expect(cluster.processes[1].node.owner.record(of: user(ann)).customStatus == "missed by one")
        #expect(cluster.processes.contains { $0.node.machines.repair.differences > 0 })
    }

    /// With the fourth node back, one of the first three does not keep the user any more.
    private mutating func clusterOfFour(where user: String, fullDisks: Set<Int> = []) throws -> Int {
        cluster = TestCluster(nodes: 4)
        cluster.fullDisks = fullDisks
        cluster.kill(3)
        cluster.advance(.seconds(4))
        cluster.subscribe(user, to: ["bob"], on: 1)
        #expect((0..<3).allSatisfy { node in isOnDisk(user, of: node) })
        try cluster.restart(3)
        let placement = cluster.processes[3].node.cluster.placement
        let replicaSet = Set(
            placement.replicaSet(of: UserID(app: "default", id: user)).map { cluster.processes[3].node.cluster.peerID($0) })
        return try #require((0..<3).first { !replicaSet.contains(cluster.processes[$0].node.cluster.own.id) })
    }

    private func isOnDisk(_ user: String, of node: Int) -> Bool {
        cluster.processes[node].disk.rows.values.contains { $0.kind == .subscription && String($0.user.id) == user }
    }

    @Test("Rows that have moved are on no old disk, and an ended subscription does not come back") mutating func movedRows() throws {
        let former = try clusterOfFour(where: "ann1")
        cluster.advance(.seconds(2))
        #expect(!isOnDisk("ann1", of: former))
        cluster.call(.unsubscribeUserStatus(nil), by: "ann1", on: 3)
        cluster.now.wall += CoreSettings.tombstoneHorizon + 60_000
        cluster.advance(.seconds(70), step: .milliseconds(200))
        cluster.kill(former)
        try cluster.restart(former)
        cluster.advance(.seconds(2))
        let followed = list("ann1", on: 3)
        #expect(followed == [])
    }

    /// A user who follows others on every screen would otherwise fill memory and disks with ended subscriptions.
    @Test("After the horizon no node and no disk has an ended subscription") mutating func horizon() throws {
        cluster = TestCluster(nodes: 3)
        cluster.subscribe("ann", to: ["bob", "cat", "dan"], on: 1)
        cluster.call(.unsubscribeUserStatus([user("bob")]), by: "ann", on: 1)
        cluster.call(.unsubscribeUserStatus([user("cat")]), by: "ann", on: 1)
        func known(to node: Int) -> [String] {
            let users = cluster.processes[node].node.owner.users
            return users.index(of: user("ann")).map { users[$0].subscriptions.entries.map { "\($0.target.id)" } } ?? []
        }
        func written(by node: Int) -> Int { cluster.processes[node].disk.rows.values.count { $0.kind == .subscription } }
        cluster.advance(.seconds(1))
        for node in 0..<3 { #expect(known(to: node) == ["bob", "cat", "dan"] && written(by: node) == 3) }
        let differences = (0..<3).map { cluster.processes[$0].node.machines.repair.differences }
        cluster.now.wall += CoreSettings.tombstoneHorizon
        cluster.advance(.seconds(3))
        for node in 0..<3 { #expect(known(to: node) == ["cat", "dan"] && written(by: node) == 2, "cat is the newest change") }
        cluster.call(.unsubscribeUserStatus([user("dan")]), by: "ann", on: 2)
        cluster.advance(.seconds(3))
        for node in 0..<3 { #expect(known(to: node) == ["dan"] && written(by: node) == 1) }
        #expect((0..<3).map { cluster.processes[$0].node.machines.repair.differences } == differences)
        try cluster.restart(0)
        cluster.advance(.seconds(3))
        #expect(known(to: 0) == ["dan"])
        #expect(list("ann", on: 0) == [])
    }

    @Test("Rows of another ring are deleted once their sender uses this one") mutating func otherRing() throws {
        let former = try clusterOfFour(where: "ann1")
        cluster.advance(.seconds(2))
        let replica = try #require((0..<3).first { isOnDisk("ann1", of: $0) })
        let row = try #require(
            cluster.processes[replica].disk.rows.values.first { $0.kind == .subscription && String($0.user.id) == "ann1" })
        var writer = WireWriter()
        writer.message(.replicate(ticket: nil, [row]))
        let sender = cluster.processes[replica].node.cluster.own.id
        try cluster.deliver(writer.bytes, from: sender, to: former)
        #expect(cluster.processes[former].node.owner.kept(user("ann1")).subscriptions.count == 1)
        cluster.advance(.milliseconds(200))
        #expect(cluster.processes[former].node.owner.kept(user("ann1")).subscriptions.isEmpty)
        #expect(!isOnDisk("ann1", of: former))
    }

    /// Its sender may have acknowledged it with this node as the second disk, and all nodes have completed the ring before it arrived.
    @Test("Rows of another ring are on their replicas' disks before they are deleted") mutating func replicasFirst() throws {
        let former = try clusterOfFour(where: "ann1")
        cluster.advance(.seconds(2))
        var record = cluster.processes[former].node.owner.kept(user("ann1")).record
        record.version = Version(stamp: UInt64(cluster.now.wall) << 16, node: 1)
        (record.customStatus, record.customStatusVersion) = ("by another ring", record.version)
        let replicaSet = cluster.processes.indices.filter { isOnDisk("ann1", of: $0) }
        let (row, sender) = (Row(record), cluster.processes[replicaSet[0]].node.cluster.own.id)
        var writer = WireWriter()
        writer.message(.replicate(ticket: 7, [row]))
        try cluster.deliver(writer.bytes, from: sender, to: former)
        cluster.advance(.milliseconds(200))
        for node in replicaSet {
            #expect(cluster.processes[node].disk.rows.values.contains { $0.user == row.user && $0.version == row.version })
        }
        #expect(!cluster.processes[former].disk.rows.values.contains { $0.user == row.user })
    }

    /// The last completion and a row that must stay may arrive in one batch.
    @Test("A row that arrives after the deletion of moved rows stays on disk") mutating func laterRow() throws {
        let former = try clusterOfFour(where: "ann1")
        cluster.advance(.seconds(2))
        let replica = try #require((0..<3).first { isOnDisk("ann1", of: $0) })
        let row = try #require(
            cluster.processes[replica].disk.rows.values.first { $0.kind == .subscription && String($0.user.id) == "ann1" })
        let sender = cluster.processes[replica].node.cluster.own.id
        let ring = cluster.processes[former].node.cluster.ownership.transfer.ring
        let offerSequence = cluster.processes[former].node.cluster.ownership.transfer.offerSequence
        for slot in Slot.min...Slot.max { cluster.processes[former].node.machines.replication.noteWritten(slot) }
        var writer = WireWriter()
        writer.message(.transferComplete(ring: ring, offerSequence: offerSequence))
        writer.message(.replicate(ticket: 7, [row]))
        try cluster.deliver(writer.bytes, from: sender, to: former)
        var discarded: [Slot] = []
        for case .deleteSlots(let slots) in cluster.processes[former].node.effects { discarded += slots }
        #expect(!discarded.isEmpty)
        #expect(!discarded.contains(row.user.slot), "it is about to be acknowledged")
    }

    @Test("Moving rows are kept until all replicas have them on disk") mutating func movingRows() throws {
        let former = try clusterOfFour(where: "ann1", fullDisks: [3])
        cluster.advance(.seconds(2))
        #expect((0..<3).allSatisfy { node in isOnDisk("ann1", of: node) })
        cluster.fullDisks = []
        cluster.advance(.seconds(5))
        #expect(isOnDisk("ann1", of: 3))
        #expect(!isOnDisk("ann1", of: former))
    }

    @Test("A drained node leaves without a flap") mutating func drain() {
        let ann = cluster.user(ownedBy: 0)
        let watcher = cluster.login("watcher", on: 1)
        cluster.subscribe("watcher", to: [ann], on: 1)
        let old = cluster.login(ann, on: 0, device: "phone")
        let now = cluster.now
        let isDraining = cluster.processes[0].node.drain(at: now)
        #expect(isDraining)
        cluster.advance(.milliseconds(200))
        #expect(cluster.ownerIndex(of: ann) != 0)
        cluster.login(ann, on: 2, device: "phone")
        cluster.lose(old)
        cluster.advance(.seconds(1))
        cluster.leave(0)
        cluster.advance(.seconds(15))
        #expect(!cluster.statuses(told: watcher, of: ann).contains("OFFLINE"))
        #expect(cluster.record(of: ann).statusType == .online)
        guard case .owner(.record) = cluster.setStatus(ann, "goes on", on: 1) else { return #expect(Bool(false), "refused") }
    }

    @Test("The last node that does not drain writes alone") mutating func lastNode() {
        let now = cluster.now
        for index in 1...2 { _ = cluster.processes[index].node.drain(at: now) }
        cluster.settle()
        cluster.advance(.seconds(1))
        guard case .owner(.record) = cluster.setStatus("ann", "alone", on: 0) else { return #expect(Bool(false), "refused") }
        cluster.kill(1)
        cluster.leave(2)
        cluster.advance(.seconds(1))
        guard case .owner(.record) = cluster.setStatus("ann", "still", on: 0) else { return #expect(Bool(false), "refused") }
    }

    /// Two of a row's replicas have left, and the remaining nodes have already transferred their misplaced rows.
    @Test("Moved rows are kept while another ring is on its way") mutating func ringOnItsWay() throws {
        cluster = TestCluster(nodes: 4)
        let process = cluster.processes[3]
        let name = try #require((0..<100).map { "user\($0)" }.first { !process.node.cluster.placement.isKept(user($0).slot, by: 0) })
        cluster.setStatus(name, "acknowledged", on: cluster.ownerIndex(of: name))
        let row = Row(cluster.record(of: name))
        cluster.processes[3].node.machines.onReplicate([row], ticket: 0, from: 1, at: cluster.now)
        process.node.offerMisplacedRows()
        let (ring, offerSequence) = (
            cluster.processes[3].node.cluster.ownership.transfer.ring, cluster.processes[3].node.cluster.ownership.transfer.offerSequence
        )
        let present = cluster.processes[3].node.cluster.ownership.placement.id
        for members in [1, present] {
            _ = cluster.processes[3].node.machines.cluster.ownership.membersChanged(to: members, clock: .zero)
            for peer in 1...3 {
                cluster.processes[3].node.onTransferComplete(ring: ring, offerSequence: offerSequence, from: peer)
            }
            #expect(cluster.processes[3].node.owner.kept(user(name)).record.version == (members == present ? .zero : row.version))
        }
    }

    /// Two of the three replicas of a list were killed before the third had received the last change.
    @Test("An unsubscribe holds against a subscription that only dead nodes know", arguments: [false, true]) mutating func unsubscribe(
        knowsAnEarlierOne: Bool
    ) throws {
        cluster = TestCluster(nodes: 5)
        let ann = cluster.user(ownedBy: 0)
        let unsubscribe = Call.unsubscribeUserStatus([user("bob")])
        if knowsAnEarlierOne {
            cluster.subscribe(ann, to: ["bob"], on: 0)
            cluster.call(unsubscribe, by: ann, on: 0)
        }
        let replicaSet = cluster.processes[0].node.cluster.replicaIDs(of: user(ann)).map { id in
            cluster.processes.firstIndex { $0.node.cluster.own.id == id }!
        }
        let (gone, third) = (Array(replicaSet.prefix(2)), replicaSet[2])
        cluster.losing = (1..<5).filter { $0 != gone[1] }.map { (from: 0, to: $0) }
        cluster.subscribe(ann, to: ["bob"], on: 0)
        for node in gone.reversed() { cluster.kill(node) }
        cluster.losing = []
        cluster.advance(.seconds(1))
        #expect(entries(of: ann, on: third).map(\.isRemoved) == (knowsAnEarlierOne ? [true] : []), "it has not heard of the last change")
        #expect(cluster.processes[third].node.owner.list(of: user(ann)).mayBeIncomplete)
        let answer = cluster.call(unsubscribe, by: ann, on: third)
        guard case .done = answer else { return #expect(Bool(false), "\(String(describing: answer))") }
        for node in gone { try cluster.restart(node) }
        cluster.advance(.seconds(5))
        for node in replicaSet { #expect(entries(of: ann, on: node).map(\.isRemoved) == [true], "\(node) of \(replicaSet)") }
        let isIncomplete = cluster.processes[third].node.owner.listsMayBeIncomplete
        #expect(!isIncomplete, "all that were missed have been heard")
    }

    /// The third replica has missed that ann followed `a` again and `b` was evicted. To it the list is too long, and `a` is the earliest.
    @Test("A list is not cut to its quota while only dead nodes may know its newest change") mutating func cutOfAnIncompleteList() throws {
        cluster = TestCluster(nodes: 4)
        let ann = cluster.user(ownedBy: 0)
        cluster.call(.setAppPolicy(Array(#"{"settings":{"subscription.maxPerSubscriber":3}}"#.utf8)), by: ann, on: 0)
        let replicaSet = cluster.processes[0].node.cluster.replicaIDs(of: user(ann)).map { id in
            cluster.processes.firstIndex { $0.node.cluster.own.id == id }!
        }
        let (gone, third) = (Array(replicaSet.prefix(2)), replicaSet[2])
        cluster.subscribe(ann, to: ["a", "b", "c"], on: 0)
        cluster.losing = (1..<4).filter { $0 != gone[1] }.map { (from: 0, to: $0) }
        cluster.subscribe(ann, to: ["a", "d"], on: 0)
        cluster.losing = []
        cluster.subscribe(ann, to: ["d", "e"], on: 0)
        #expect(live(of: ann, on: 0) == ["a", "d", "e"])
        #expect(live(of: ann, on: third) == ["a", "b", "d", "e"])
        cluster.losing = (1..<4).map { (from: 0, to: $0) }
        for node in gone.reversed() { cluster.kill(node) }
        cluster.losing = []
        cluster.advance(.seconds(20))
        #expect(live(of: ann, on: third) == ["a", "b", "d", "e"], "another node may know more")
        for node in gone { try cluster.restart(node) }
        cluster.advance(.seconds(20))
        for node in replicaSet { #expect(live(of: ann, on: node) == ["a", "d", "e"], "\(node) of \(replicaSet)") }
    }

    private func live(of name: String, on node: Int) -> [String] {
        entries(of: name, on: node).filter { !$0.isRemoved }.map { String($0.target.id) }
    }

    private func entries(of name: String, on node: Int) -> [Subscription] {
        let users = cluster.processes[node].node.owner.users
        return users.index(of: user(name)).map { users[$0].subscriptions.entries } ?? []
    }

    @Test("A node that was declared dead learns it even if the queue to it overflows") mutating func deathNotice() throws {
        var settings = CoreSettings()
        settings.linkMessagesMax = 64
        cluster = TestCluster(nodes: 3, settings: settings)
        let (missed, sender) = (cluster.processes[1].node.cluster.own, cluster.processes[2].node.cluster.own.id)
        let peer = try #require(cluster.processes[0].node.cluster.peerIndex(missed.id))
        let dead = MembershipUpdate(member: missed, incarnation: 0, state: .dead, suspecter: sender)
        let alive = MembershipUpdate(member: missed, incarnation: 1, state: .alive, suspecter: nil)
        for update in [dead, alive] {
            var writer = WireWriter()
            writer.message(.membership(MembershipMessage(.gossip, updates: [update])))
            try cluster.deliver(writer.bytes, from: sender, to: 0)
        }
        while !cluster.processes[0].node.cluster.links[peer].hasOverflowed {
            cluster.processes[0].node.machines.cluster.send(.requestSync, to: peer)
        }
        cluster.heard = []
        cluster.advance(.milliseconds(50))
        let first = try #require(cluster.heard?.first { $0.from == 0 && $0.to == 1 })
        #expect(first.message == .membership(MembershipMessage(.gossip, updates: [dead])))
        #expect(cluster.processes[1].node.cluster.membership.deathsKnown == 1)
    }

    @Test("A single node cannot drain") mutating func drainAlone() {
        var alone = TestCluster(nodes: 1)
        let now = alone.now
        let othersStay = alone.processes[0].node.drain(at: now)
        #expect(!othersStay)
        #expect(alone.processes[0].node.cluster.isDraining)
        alone.settle()
        #expect(alone.processes[0].node.cluster.isHandedOver)
        guard case .owner(.record) = alone.setStatus("ann", "goes on", on: 0) else { return #expect(Bool(false), "refused") }
    }
}
