import PresenceWire
import Testing

@testable import ClusterSimulation
@testable import PresenceCore

/// Limits of calls hold for the whole cluster: at most 1.2 × the limit passes over any number of nodes (T17, T22, T24, Z6).
@Suite struct ClusterRateTests {
    private static func id(_ user: String) -> UserID { UserID(app: "default", id: user) }

    private static let calls: [Call] = [
        .getUserStatus([id("carl")]), .getUserStatus([id("carl"), id("ann")]),
        .subscribeUserStatus([id("carl")], seconds: nil, sync: false, subscribeType: 1),
        .subscribeUserStatus([id("carl")], seconds: nil, sync: true, subscribeType: 1), .unsubscribeUserStatus([id("carl")]),
        .getSubscribedUserStatus(only: nil, offset: 0, limit: 10),
    ]

    /// Calls `call` so often on all nodes in turn; returns how many were taken.
    private func taken(_ cluster: inout TestCluster, _ call: Call, times: Int, atOnce: Bool) -> Int {
        var taken = 0
        var waiting: [(node: Int, token: UInt64)] = []
        for number in 0..<times {
            let (node, token) = (number % cluster.processes.count, UInt64(1_000_000 + number))
            cluster.processes[node].node.perform(
                call, caller: Self.id("ann"), gateway: 0, token: token, at: cluster.now)
            waiting.append((node, token))
            if !atOnce { cluster.settle() }
        }
        cluster.settle()
        for (node, token) in waiting {
            switch cluster.processes[node].answers[token] {
            case .rateLimited: break
            case .some: taken += 1
            case nil: Issue.record("no answer to \(token)")
            }
            cluster.processes[node].answers[token] = nil
        }
        return taken
    }

    @Test("T17 T22 T24 Of 40 calls over several nodes, one after the other or all at once, at most 24 are taken", arguments: [2, 3, 5])
    func callsOverSeveralNodesAreCountedTogether(nodes: Int) {
        for call in Self.calls {
            for atOnce in [false, true] {
                var cluster = TestCluster(nodes: nodes)
                let first = taken(&cluster, call, times: 40, atOnce: atOnce)
                #expect((20...24).contains(first), "\(call), \(nodes) nodes, at once: \(atOnce)")
                // Nor in any five seconds after it.
                cluster.advance(.milliseconds(4_900))
                #expect(first + taken(&cluster, call, times: 20, atOnce: atOnce) <= 24, "\(call)")
                cluster.advance(.milliseconds(200))
                #expect((19...24).contains(taken(&cluster, call, times: 40, atOnce: atOnce)), "\(call)")
            }
        }
    }

    @Test("T17 A caller on one node of three has the whole limit, and waits for no other node")
    func aCallerOnOneNodeHasTheWholeLimit() {
        var cluster = TestCluster(nodes: 3)
        for node in 0..<3 {
            let user = cluster.user(ownedBy: (node + 1) % 3)
            cluster.login(cluster.user(ownedBy: node), on: node)
            for number in 0..<20 {
                let answer = cluster.call(.getUserStatus([Self.id(cluster.user(ownedBy: node))]), by: user, on: node)
                guard case .userStatusList = answer else {
                    Issue.record("call \(number): \(String(describing: answer))")
                    return
                }
            }
            #expect(cluster.call(.getUserStatus([Self.id("carl")]), by: user, on: node) == .rateLimited(retryAfter: 5))
        }
    }

    @Test("Z6 One custom status a second, whichever node is called")
    func aCustomStatusASecondIsTakenByAllNodesTogether() {
        var settings = CoreSettings()
        settings.policy = Policy(.zim)
        settings.policy.mustBeRegistered = false
        var cluster = TestCluster(nodes: 3, settings: settings)
        #expect(taken(&cluster, .setSelfStatus(customStatus: "busy", seconds: nil), times: 6, atOnce: true) == 1)
        cluster.advance(.seconds(1))
        #expect(taken(&cluster, .setSelfStatus(customStatus: "free", seconds: nil), times: 6, atOnce: false) == 1)
    }

    /// The call waits for the disks of the cluster. The other call has been on its way for longer than a call may last.
    @Test("A call that its owner has performed is not counted again when the owner sends another call of the user back")
    func otherCallIsSentBack() {
        var settings = CoreSettings()
        settings.policy.subscribeRate = Policy.Rate(calls: 1, seconds: 5)
        var cluster = TestCluster(nodes: 3, settings: settings)
        let ann = cluster.user(ownedBy: 0)
        cluster.heldDisks = [0, 1, 2]
        #expect(cluster.subscribe(ann, to: ["carl"], on: 2) == nil)
        let milliseconds = cluster.processes[0].node.owner.clock.milliseconds(at: cluster.now.wall)
        let late = Request(
            id: 1, user: Self.id(ann), operation: .setSelfStatus(customStatus: "busy", seconds: nil),
            begunAt: Version(milliseconds: milliseconds - 5_001, counter: 0, node: 77))
        let peer = cluster.processes[0].node.cluster.peers.index(of: cluster.processes[2].id)!
        cluster.processes[0].node.handle(.request(late), from: peer, at: cluster.now)
        cluster.processes[0].node.run(at: cluster.now)
        cluster.settle()
        cluster.advance(.milliseconds(200))
        #expect(cluster.lastAnswer(on: 2) == nil)
        cluster.heldDisks = []
        cluster.advance(.milliseconds(50))
        guard case .subscribed = cluster.lastAnswer(on: 2) else {
            Issue.record("\(String(describing: cluster.lastAnswer(on: 2)))")
            return
        }
    }

    @Test("A node that cannot reach the caller's owner counts by itself")
    func aNodeWithoutALinkToTheOwnerCountsByItself() {
        var cluster = TestCluster(nodes: 3)
        let (ann, carl) = (cluster.user(ownedBy: 1), cluster.user(ownedBy: 0))
        cluster.processes[0].node.unlinked(from: NodeID("node-1"), evidence: .reset, at: cluster.now)
        let answers = (0..<25).map { _ in cluster.call(.getUserStatus([Self.id(carl)]), by: ann, on: 0) }
        #expect(answers.count { if case .userStatusList = $0 { true } else { false } } == 20)
    }
}
