import PresenceWire
import Testing

@testable import PresenceCore

/// Members that are dead and will not come back, as an operator says.
@Suite struct ForgetTests {
    var cluster = TestCluster(nodes: 3)

    private mutating func remove(_ index: Int, on node: Int) -> Cluster.MemberRemoval {
        let id = cluster.processes[index].node.cluster.own.id
        let removal = cluster.processes[node].node.removeMember(id, at: cluster.now)
        cluster.settle()
        return removal
    }

    private func isWritten(_ answer: CallAnswer?) -> Bool {
        if case .owner(.record) = answer { true } else { false }
    }

    @Test("The last node writes alone once the others are removed, also after a restart") mutating func lastNode() throws {
        cluster.kill(1)
        cluster.kill(2)
        cluster.advance(.seconds(4))
        #expect(cluster.setStatus("ann", "refused", on: 0) == .refused(.notReplicated))
        #expect(remove(1, on: 0) == .removed)
        #expect(remove(2, on: 0) == .removed)
        #expect(remove(2, on: 0) == .removed, "again changes nothing")
        #expect(isWritten(cluster.setStatus("ann", "alone", on: 0)))
        cluster.advance(.seconds(1))
        try cluster.restart(0)
        cluster.advance(.seconds(1))
        #expect(isWritten(cluster.setStatus("ann", "still", on: 0)))
    }

    @Test("All live members stop counting a removed member towards the quorum") mutating func liveMembers() {
        cluster.kill(2)
        cluster.advance(.seconds(4))
        #expect(cluster.processes[0...1].allSatisfy { $0.node.cluster.peers.missedCount == 1 })
        #expect(remove(2, on: 1) == .removed)
        cluster.advance(.seconds(1))
        #expect(cluster.processes[0...1].allSatisfy { $0.node.cluster.peers.missedCount == 0 })
    }

    @Test("A node that was down learns of the removal") mutating func absentMember() throws {
        cluster.kill(2)
        cluster.advance(.seconds(4))
        cluster.kill(1)
        cluster.advance(.seconds(4))
        #expect(remove(2, on: 0) == .removed)
        try cluster.revive(1)
        #expect(cluster.processes[1].node.cluster.peers.missedCount == 2)
        cluster.link(1, 0)
        cluster.link(0, 1)
        cluster.advance(.seconds(1))
        #expect(cluster.processes[1].node.cluster.peers.missedCount == 0)
    }

    @Test("Only a dead member can be removed") mutating func notDead() {
        #expect(remove(1, on: 0) == .alive)
        #expect(remove(0, on: 0) == .alive)
        #expect(cluster.processes[0].node.removeMember("nobody", at: cluster.now) == .unknown)
        cluster.advance(.seconds(1))
        #expect(
            cluster.processes.allSatisfy {
                $0.node.cluster.peers.missedCount == 0 && $0.node.cluster.hello(at: cluster.now).members.count == 3
            })
    }

    @Test("A removed member that comes back is a member again") mutating func returningMember() throws {
        cluster.kill(2)
        cluster.advance(.seconds(4))
        #expect(remove(2, on: 0) == .removed)
        cluster.advance(.seconds(1))
        try cluster.restart(2)
        cluster.advance(.seconds(5))
        #expect(cluster.processes.allSatisfy { $0.node.cluster.hello(at: cluster.now).members.count == 3 })
    }
}
