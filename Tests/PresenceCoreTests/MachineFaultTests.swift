import PresenceWire
import Testing

@testable import ClusterSimulation
@testable import PresenceCore

/// Nodes whose own machine has a fault: a clock that has jumped, or a full disk.
@Suite struct MachineFaultTests {
    enum Fault: CaseIterable { case clock, disk }

    var cluster = TestCluster(nodes: 3)

    private mutating func begin(_ fault: Fault, of node: Int) {
        switch fault {
        case .clock: cluster.systemAhead[node] = 300_000
        case .disk:
            cluster.fullDisks.insert(node)
            cluster.setStatus(cluster.user(ownedBy: node), "a write that fails", on: node)
        }
    }

    private mutating func end(_ fault: Fault, of node: Int) {
        switch fault {
        case .clock: cluster.systemAhead[node] = nil
        case .disk: cluster.fullDisks.remove(node)
        }
    }

    /// The roles of a node as all nodes see them.
    private func roles(of node: Int) -> [MemberRole] {
        let id = cluster.processes[node].node.cluster.own.id
        return cluster.processes.filter(\.isUp).map { process in
            let members = process.node.cluster
            let peer = members.peerIndex(id)!
            return peer == 0 ? members.membership.update(about: id)!.role : members.peers[peer].role
        }
    }

    /// The slots of each node.
    private var slots: [Int] { cluster.processes.map { $0.node.statistics.slotsOwned } }

    private func allAre(_ role: MemberRole) -> [MemberRole] { [MemberRole](repeating: role, count: cluster.processes.count { $0.isUp }) }

    // MARK: One node

    @Test("A node with a fault gives its slots away, stays a gateway, and takes slots again", arguments: Fault.allCases)
    mutating func oneNode(fault: Fault) {
        let ann = cluster.user(ownedBy: 1)
        let watcher = cluster.login("bob", on: 1)
        cluster.login(ann, on: 1)
        cluster.subscribe("bob", to: [ann], on: 1)
        begin(fault, of: 1)
        cluster.advance(.seconds(1))
        #expect(roles(of: 1) == allAre(.impaired))
        #expect(slots[1] == 0 && slots.reduce(0, +) == Ring.slotsCount)
        #expect(cluster.processes[1].node.condition.isDraining && !cluster.processes[1].node.cluster.isLeaving)

        guard case .owner(.record) = cluster.setStatus(ann, "served by another node", on: 1) else { return #expect(Bool(false), "refused") }
        #expect(cluster.clients[watcher].isOpen)
        #expect(cluster.clients[watcher].view[ann]?["customStatus"] == .string("served by another node"))
        #expect(cluster.statuses(told: watcher, of: ann).allSatisfy { $0 == "ONLINE" })

        end(fault, of: 1)
        cluster.advance(.milliseconds(1_900))
        #expect(roles(of: 1) == allAre(.impaired))
        cluster.advance(.seconds(1))
        #expect(roles(of: 1) == allAre(.serving))
        #expect(slots.allSatisfy { $0 > 0 } && slots.reduce(0, +) == Ring.slotsCount)
        #expect(cluster.record(of: ann).customStatus == "served by another node")
        #expect(cluster.statuses(told: watcher, of: ann).allSatisfy { $0 == "ONLINE" })
        #expect(!cluster.processes[1].node.condition.isDraining)
    }

    @Test("A node whose clock jumps gives its slots away after 500 ms, and reports how far the clock is wrong") mutating func wrongClock() {
        begin(.clock, of: 1)
        cluster.advance(ClockCheck.askingMax)
        #expect(roles(of: 1) == allAre(.serving))
        #expect(!cluster.processes[1].node.condition.isClockWrong)
        cluster.advance(.milliseconds(50))
        #expect(roles(of: 1) == allAre(.impaired))
        let conditions = cluster.processes.map { $0.node.condition }
        #expect(conditions.map(\.isClockWrong) == [false, true, false])
        #expect(conditions.map(\.clockError) == [0, 300_000, 0])
        #expect(cluster.followed.isEmpty)
    }

    @Test("A full disk does not make the clock wrong") mutating func fullDisk() {
        begin(.disk, of: 1)
        cluster.advance(.seconds(1))
        #expect(cluster.processes[1].node.condition.isDraining && !cluster.processes[1].node.condition.isClockWrong)
    }

    @Test("A node with two faults serves again when both are over") mutating func twoFaults() {
        begin(.disk, of: 1)
        begin(.clock, of: 1)
        cluster.advance(.seconds(1))
        end(.clock, of: 1)
        cluster.advance(.seconds(4))
        #expect(roles(of: 1) == allAre(.impaired))
        end(.disk, of: 1)
        cluster.advance(.seconds(4))
        #expect(roles(of: 1) == allAre(.serving))
    }

    @Test("Nodes answer a question about clocks with theirs, and ask nothing back") mutating func questions() {
        cluster.heard = []
        begin(.clock, of: 1)
        cluster.advance(.milliseconds(50))
        var clocks: [[Int]] = []
        for case (let from, let to, .clocks(let clock, let system, let wantsAnswer)) in cluster.heard ?? [] {
            #expect(clock == cluster.now.wall && system == clock + (from == 1 ? 300_000 : 0))
            clocks.append([from, to, wantsAnswer ? 1 : 0])
        }
        #expect(clocks.sorted { $0.lexicographicallyPrecedes($1) } == [[0, 1, 0], [1, 0, 1], [1, 2, 1], [2, 1, 0]])
    }

    @Test("A lone node follows its system clock after 30 s, once, and owns its slots all the time") mutating func loneNode() {
        cluster = TestCluster(nodes: 1)
        cluster.systemAhead[0] = 300_000
        cluster.advance(.seconds(29))
        #expect(cluster.followed == [] && slots == [Ring.slotsCount])
        guard case .owner(.record) = cluster.setStatus("ann", "still", on: 0) else { return #expect(Bool(false), "refused") }
        cluster.advance(.seconds(2), step: .milliseconds(50))
        #expect(cluster.followed == [0])
    }

    /// The message that is lost keeps the nodes from changing the ring before the fault is over.
    @Test("Rows that were fetched for a change of the ring are deleted when the change is taken back") mutating func takenBack() throws {
        cluster = TestCluster(nodes: 4)
        let ann = cluster.user(ownedBy: 0)
        cluster.setStatus(ann, "kept by three", on: 0)
        func knowing() -> [Int] { (0..<4).filter { cluster.processes[$0].node.owner.users.index(of: user(ann)) != nil } }
        func writing() -> [Int] { (0..<4).filter { cluster.processes[$0].disk.rows.values.contains { $0.user == user(ann) } } }
        let replicas = knowing()
        try #require(replicas.count == 3 && writing() == replicas)
        cluster.losing = [(replicas[1], replicas[2])]
        begin(.clock, of: 0)
        cluster.advance(.seconds(1))
        #expect(knowing() == [0, 1, 2, 3] && writing() == [0, 1, 2, 3])
        end(.clock, of: 0)
        cluster.advance(.seconds(3))
        #expect(roles(of: 0) == allAre(.serving) && slots[0] > 0)
        #expect(knowing() == replicas && writing() == replicas)
    }

    // MARK: Draining

    @Test("A node that drains goes on with that, whatever faults begin and end", arguments: [true, false])
    mutating func drainingNode(isImpairedFirst: Bool) {
        if isImpairedFirst {
            begin(.clock, of: 1)
            cluster.advance(.seconds(1))
        }
        let othersStay = cluster.processes[1].node.drain(at: cluster.now)
        #expect(othersStay)
        cluster.settle()
        if !isImpairedFirst { begin(.clock, of: 1) }
        cluster.advance(.seconds(1))
        #expect(roles(of: 1) == allAre(.leaving))
        #expect(cluster.processes[1].node.cluster.isLeaving)
        end(.clock, of: 1)
        cluster.advance(.seconds(4))
        #expect(roles(of: 1) == allAre(.leaving))
        #expect(slots[1] == 0)
    }

    @Test("A node that has left does not come back because of a fault") mutating func leftNode() {
        cluster.processes[1].node.leave(at: cluster.now)
        begin(.clock, of: 1)
        cluster.advance(.seconds(1))
        #expect(cluster.processes[0].node.cluster.hasLeft(cluster.processes[1].node.cluster.own.id))
    }

    // MARK: All nodes

    @Test("If all nodes have a fault they go on together, and keep the ring when it is over") mutating func allNodes() {
        let before = slots
        for node in 0..<3 { cluster.systemAhead[node] = 300_000 * Milliseconds(node + 1) }
        cluster.advance(.seconds(2))
        for node in 0..<3 { #expect(roles(of: node) == allAre(.impaired)) }
        #expect(slots == before)
        #expect(cluster.processes.allSatisfy { $0.node.cluster.ownership.acquiringCount == 0 })
        for node in 0..<3 {
            let ann = cluster.user(ownedBy: node)
            guard case .owner(.record) = cluster.setStatus(ann, "goes on", on: (node + 1) % 3) else {
                return #expect(Bool(false), "refused")
            }
        }
        cluster.systemAhead = [:]
        cluster.advance(.seconds(4))
        for node in 0..<3 { #expect(roles(of: node) == allAre(.serving)) }
        #expect(slots == before)
    }

    @Test("The last node without a fault serves alone, and the others keep second copies") mutating func lastNode() {
        begin(.clock, of: 1)
        begin(.clock, of: 2)
        cluster.advance(.seconds(2))
        #expect(slots[0] == Ring.slotsCount)
        guard case .owner(.record) = cluster.setStatus("ann", "two disks", on: 1) else { return #expect(Bool(false), "refused") }
        let rows = cluster.processes.map { $0.disk.rows.values.count { $0.kind == .status && $0.user == user("ann") } }
        #expect(rows.reduce(0, +) >= 2 && rows[0] == 1)
    }

    // MARK: Deaths

    @Test("A dead member counts towards a second copy unless it drained", arguments: [MemberRole.serving, .impaired, .leaving])
    func isReplicated(role: MemberRole) {
        var peers = Peers(own: Peer(id: "a", generation: 1, address: "a:1"))
        let peer = peers.insert(Peer(id: "b", generation: 1, address: "b:1"), rowVersion: .zero).index
        peers[peer].wasMember = true
        peers[peer].role = role
        peers[peer].state = .alive
        #expect(peers.isReplicated)
        peers[peer].state = .dead
        #expect(peers.isReplicated == (role != .leaving))
        peers[peer].state = .left
        #expect(!peers.isReplicated)
    }

    @Test("A node whose impaired peer dies refuses durable changes, and does not follow its clock alone") mutating func deadPeer() {
        cluster = TestCluster(nodes: 2)
        begin(.clock, of: 1)
        cluster.advance(.seconds(1))
        cluster.kill(1)
        cluster.advance(.seconds(1))
        #expect(cluster.setStatus("ann", "one disk", on: 0) == .refused(.notReplicated))
        cluster.systemAhead[0] = 300_000
        cluster.advance(.seconds(60))
        #expect(cluster.followed == [])
    }

    @Test("A process that starts again after a fault serves") mutating func restarted() throws {
        begin(.clock, of: 1)
        cluster.advance(.seconds(1))
        cluster.kill(1)
        cluster.systemAhead[1] = nil
        try cluster.restart(1)
        cluster.advance(.seconds(2))
        #expect(roles(of: 1) == allAre(.serving))
        #expect(slots[1] > 0)
    }

    // MARK: Versions from the future

    /// A row of a user whose version is this far ahead of the clock.
    private func row(of name: String, ahead: Milliseconds) -> Row {
        var record = Record(blank: user(name))
        record.version = Version(milliseconds: cluster.now.wall + ahead, counter: 0, node: 9)
        return Row(record)
    }

    /// Node 1 receives the rows from node 0 in one batch. Returns the clocks that nodes 0 and 1 then send each other.
    private mutating func clocks(after rows: [Row]) throws -> [[Int]] {
        var writer = WireWriter()
        for row in rows { writer.message(.replicate(ticket: nil, [row])) }
        cluster.heard = []
        try cluster.deliver(writer.bytes, from: cluster.processes[0].node.cluster.own.id, to: 1)
        cluster.settle()
        return (cluster.heard ?? []).compactMap { from, to, message in
            guard case .clocks(_, _, let wantsAnswer) = message else { return nil }
            return [from, to, wantsAnswer ? 1 : 0]
        }
    }

    @Test("A node that refuses versions sends the sender its clock once for each batch, and asks for the sender's")
    mutating func refusedVersions() throws {
        let limit = VersionClock.usualDriftMax.wholeMilliseconds
        #expect(try clocks(after: [row(of: "ann", ahead: limit)]) == [])
        #expect(try clocks(after: [row(of: "ben", ahead: limit + 1), row(of: "cid", ahead: limit + 1)]) == [[1, 0, 1], [0, 1, 0]])
        #expect(cluster.processes[1].node.statistics.owner.clocksRefused == 2)
    }

    /// Lets two nodes exchange batches for a virtual second. Each batch takes a millisecond. Node 1's clock is 300 s ahead. Returns the
    /// messages with clocks.
    private mutating func clocksInOneSecond() throws -> Int {
        var (clocksCount, batches) = (0, [(to: Int, bytes: [UInt8])]())
        for millisecond in 0..<1_000 {
            let now = (0...1).map { node in
                Now(
                    instant: cluster.now.instant + .milliseconds(millisecond),
                    wall: cluster.now.wall + Milliseconds(millisecond + node * 300_000))
            }
            let arriving = batches
            batches = []
            for (to, bytes) in arriving {
                for case .clocks in Message.all(in: bytes) { clocksCount += 1 }
                let process = cluster.processes[to]
                let sender = cluster.processes[1 - to].id
                let connection = cluster.connection(from: sender, to: to)
                try bytes.withUnsafeBytes { _ = try process.node.receive(batch: $0, from: sender, on: connection, at: now[to]) }
                cluster.processes[1 - to].node.acknowledged(by: 1, at: now[1 - to])
            }
            for (index, process) in cluster.processes.enumerated() {
                if millisecond % 50 == 0 { process.node.tick(at: now[index]) }
                if millisecond % 250 == 0 { process.node.beat(at: now[index]) }
                while process.turn(at: now[index], { _ in }) {}
                while let bytes = process.node.nextBatch(for: 1, at: now[index]) { batches.append((1 - index, bytes)) }
            }
        }
        return clocksCount
    }

    /// Both nodes doubt their clocks, so each also asks the other one four times a second.
    @Test("Two nodes of which one refuses the other's versions exchange few messages about it") mutating func reports() throws {
        cluster = TestCluster(nodes: 2)
        let clocks = try clocksInOneSecond()
        let questions = 1_000 / 250 * (2 + 2)
        #expect((questions / 2...questions * 2).contains(clocks), "\(clocks) messages")
    }

    @Test("A node that follows its system clock exchanges everything with the others, as they may have refused each other's versions")
    mutating func everythingIsSentAgain() {
        for node in 0..<3 { cluster.systemAhead[node] = 300_000 }
        cluster.advance(ClockCheck.commonJumpMin)
        #expect(cluster.followed.isEmpty)
        cluster.heard = []
        while cluster.followed.isEmpty, cluster.heard!.count < 10_000 { cluster.advance(.milliseconds(50)) }
        let node = cluster.followed[0]
        let requests = cluster.heard!.filter { from, _, message in
            guard from == node else { return false }
            return if case .requestSync = message { true } else if case .requestOffer = message { true } else { false }
        }
        #expect(requests.map(\.to).sorted() == (0..<3).filter { $0 != node }.flatMap { [$0, $0] })
    }
}
