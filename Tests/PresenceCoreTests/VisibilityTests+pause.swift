import PresenceWire
import Testing

@testable import ClusterSimulation
@testable import PresenceCore

/// A node that stood still until the others had declared it dead may show nobody what it knew.
extension VisibilityTests {
    /// Stops the third node, which watches a user. The others declare it dead, and then the user hides.
    private mutating func stopThird(whileHiding name: String) {
        for other in 0..<2 { cluster.losing += [(2, other), (other, 2)] }
        cluster.stopped = [2]
        let dead = cluster.processes[2].node.cluster.own
        for index in 0..<2 {
            cluster.processes[index].node.unlinked(from: dead.id, evidence: .refused(generation: dead.generation), at: cluster.now)
        }
        cluster.settle()
        cluster.advance(.seconds(5))
        guard case .owner(.visibility(_, .until))? = hide(name, .init(mode: .nobody)) else {
            return #expect(Bool(false), "no time is named")
        }
        cluster.advance(.seconds(20))
    }

    /// Links the third node with another one.
    private mutating func link(_ other: Int) {
        cluster.losing.removeAll { $0.from == other || $0.to == other }
        cluster.link(other, 2)
        cluster.link(2, other)
    }

    @Test("A node that stood still answers no query from what it knew, neither of others' users nor of its own", arguments: [0, 2])
    mutating func wokenNode(owner: Int) throws {
        let ann = cluster.user(ownedBy: owner)
        cluster.login(ann, on: 0)
        let bob = cluster.login("bob", on: 2)
        cluster.subscribe("bob", to: [ann], on: 2)
        #expect(status(of: ann, to: "bob", on: 2)?.statusType == .online)
        stopThird(whileHiding: ann)
        // This request was in a socket. No timer has run yet.
        #expect(status(of: ann, to: "bob", on: 2) == nil)
        cluster.stopped = []
        for other in 0..<2 { link(other) }
        cluster.advance(.seconds(4))
        guard case .userStatusList(let records, _, _)? = cluster.lastAnswer(on: 2) else { return #expect(Bool(false), "no answer") }
        #expect(records[0]?.statusType != .online)
        #expect(cluster.statuses(told: bob, of: ann) == ["ONLINE", "OFFLINE"])
        #expect(status(of: ann, to: "bob", on: 2)?.statusType == .offline)
    }

    @Test("A node that stood still pushes nothing that waited for it before the owner has answered it") mutating func wokenPushes() throws {
        let (ann, cid) = (cluster.user(ownedBy: 0), cluster.user(ownedBy: 1))
        cluster.login(ann, on: 0)
        let bob = cluster.login("bob", on: 2)
        cluster.subscribe("bob", to: [ann], on: 2)
        cluster.subscribe(cid, to: [ann], on: 1)
        stopThird(whileHiding: ann)
        cluster.processes[2].node.review(at: cluster.now)
        // A change from before the user hid waits in a socket, and so does a login of another follower.
        var old = try #require(cluster.processes[2].node.edge.fanOut.recordHeld(of: user(ann)))
        old.version = Version(milliseconds: old.version.milliseconds + 1, counter: 0, node: 7)
        old.customStatus = "not hidden yet"
        let peer = try #require(cluster.processes[2].node.cluster.peers.index(of: cluster.processes[0].id))
        cluster.processes[2].node.handle(.delta(old), from: peer, at: cluster.now)
        cluster.processes[2].node.run(at: cluster.now)
        cluster.stopped = []
        let phone = cluster.login(cid, on: 2)
        link(1)
        cluster.advance(.milliseconds(500))
        #expect(cluster.statuses(told: bob, of: ann) == ["ONLINE"], "that was before the pause")
        #expect(cluster.statuses(told: phone, of: ann) == [])
        link(0)
        cluster.advance(.seconds(3))
        #expect(cluster.statuses(told: bob, of: ann) == ["ONLINE", "OFFLINE"])
        #expect(cluster.clients[phone].events.contains { $0.name == "onSubscriptionSyncCompleted" })
        #expect(!cluster.statuses(told: phone, of: ann).contains("ONLINE"))
    }

    @Test("An answer that was sent before the pause does not make a view count again") mutating func lateRegistration() throws {
        let ann = cluster.user(ownedBy: 0)
        cluster.login(ann, on: 0)
        cluster.login("bob", on: 2)
        cluster.subscribe("bob", to: [ann], on: 2)
        stopThird(whileHiding: ann)
        cluster.processes[2].node.review(at: cluster.now)
        let peer = try #require(cluster.processes[2].node.cluster.peers.index(of: cluster.processes[0].id))
        cluster.processes[2].node.handle(.watched([Watched(user: user(ann), record: nil)]), from: peer, at: cluster.now)
        cluster.processes[2].node.run(at: cluster.now)
        #expect(status(of: ann, to: "bob", on: 2) == nil)
    }

    @Test("A node that nobody can have declared dead goes on with what it knows", arguments: [1_000, 20_000])
    mutating func shortPause(milliseconds: Int64) {
        let isAlone = milliseconds > 2_000
        if isAlone { cluster = TestCluster(nodes: 1) }
        let ann = cluster.user(ownedBy: 0)
        let node = isAlone ? 0 : 2
        cluster.login(ann, on: 0)
        cluster.login("bob", on: node)
        cluster.subscribe("bob", to: [ann], on: node)
        cluster.stopped = [node]
        cluster.advance(.milliseconds(milliseconds))
        #expect(status(of: ann, to: "bob", on: node)?.statusType == .online)
    }
}
