import PresenceWire
import Testing

@testable import PresenceCore

/// Nodes that left for good and users who never existed take no room.
///
/// Such nodes are common after roll-outs in which names are not kept.
@Suite struct LongGoneTests {
    private func memberRows(on node: Int, of cluster: TestCluster) -> [String] {
        cluster.processes[node].disk.rows.values.filter { $0.kind == .member }.map { "\($0.user.id)" }.sorted()
    }

    private func peers(of node: Int, in cluster: TestCluster) -> [String] {
        cluster.processes[node].node.statistics.peers.map(\.id.rawValue)
    }

    @Test("A member that left long ago is in no table and on no disk, and its index is used again") func leftMember() throws {
        var settings = CoreSettings()
        settings.membership.leftRetention = .seconds(10)
        var cluster = TestCluster(nodes: 3, settings: settings)
        let bob = cluster.login("bob", on: 0)
        cluster.subscribe("bob", to: ["ann"], on: 0)
        cluster.leave(2)
        cluster.advance(.seconds(20), step: .seconds(1))
        #expect(memberRows(on: 0, of: cluster) == ["node-1", "node-2"])
        cluster.now.wall += CoreSettings.tombstoneHorizon
        cluster.advance(.seconds(3_600), step: .seconds(1))
        for node in 0...1 {
            let other = "node-\(1 - node)"
            #expect(peers(of: node, in: cluster) == [other])
            #expect(memberRows(on: node, of: cluster) == [other])
            #expect(!cluster.processes[node].node.cluster.hasLeft("node-2"))
        }
        try cluster.restart(2, settings: settings)
        cluster.advance(.seconds(2))
        for node in 0...2 { #expect(cluster.processes[node].node.cluster.hello(at: cluster.now).members.count == 3) }
        #expect(cluster.processes[0].node.cluster.peers.count == 3, "the place is taken again")
        cluster.login("ann", on: 2)
        #expect(cluster.statuses(told: bob, of: "ann").last == "ONLINE")
        cluster.kill(2)
        cluster.advance(.seconds(60))
        #expect(cluster.statuses(told: bob, of: "ann").last == "OFFLINE")
    }

    @Test("A dead member is kept") func deadMember() throws {
        var cluster = TestCluster(nodes: 3)
        cluster.kill(2)
        cluster.advance(.seconds(20))
        cluster.now.wall += CoreSettings.tombstoneHorizon
        cluster.advance(.seconds(3_600), step: .seconds(1))
        #expect(cluster.processes[0].node.cluster.peers.missedCount == 1)
        #expect(memberRows(on: 0, of: cluster) == ["node-1", "node-2"])
        // Nor by one that knows it from its disk alone.
        cluster.kill(0)
        cluster.kill(1)
        cluster.now.wall += CoreSettings.tombstoneHorizon
        try cluster.restart(0)
        cluster.advance(.seconds(2))
        #expect(cluster.processes[0].node.cluster.peers.missedCount == 2)
        #expect(memberRows(on: 0, of: cluster) == ["node-1", "node-2"])
    }

    @Test("Of too many members that have left, the one that left first is removed") func tooMany() throws {
        var settings = CoreSettings()
        settings.membership.membersMax = 4
        let own = Peer(id: "node-0", generation: 1, address: "10.0.0.0:7601")
        var node = Node(selfPeer: own, cluster: "test", gatewaysCount: 1, settings: settings)
        let now = Now(instant: Instant(nanoseconds: 0), wall: 1_790_000_000_000)
        for number in 1...20 {
            let card = Peer(id: NodeID("pod-\(number)"), generation: 1, address: "10.0.1.\(number):7601")
            let version = Version(milliseconds: now.wall, counter: UInt16(number), node: 1)
            try node.load(Row(member: card, hasLeft: true, version: version), at: now)
        }
        node.tick(at: now)
        #expect(node.cluster.peers.count == node.cluster.peersMax)
        #expect(node.statistics.peers.map(\.id.rawValue).sorted() == (14...20).map { "pod-\($0)" })
        var forgotten: [Row] = []
        for case .deleteRows(let rows) in node.effects { forgotten += rows }
        #expect(forgotten.map { "\($0.user.id)" } == (1...13).map { "pod-\($0)" })
    }

    @Test("A call for an unknown user that changes nothing leaves nothing behind") func unknownUser() {
        var cluster = TestCluster(nodes: 1)
        cluster.setStatus("ann", "", on: 0)
        cluster.call(.unsubscribeUserStatus([user("bob")]), by: "ann", on: 0)
        cluster.call(.unsubscribeUserStatus(nil), by: "carl", on: 0)
        cluster.call(.kick(reason: "banned"), by: "dan", on: 0)
        cluster.call(.logout(nil), by: "eve", on: 0)
        #expect(cluster.processes[0].node.statistics.usersOwned == 0)
        cluster.setStatus("ann", "here", on: 0)
        #expect(cluster.processes[0].node.statistics.usersOwned == 1)
    }

    /// A phone in a tunnel: each loss is reviewed when its grace is over. The review leaves nothing behind until the subscription ends.
    @Test("A user who comes and goes is reviewed once for each deadline") func flappingUser() {
        var cluster = TestCluster(nodes: 1)
        cluster.subscribe("ann", to: ["bob"], on: 0, seconds: 30 * 86_400)
        cluster.setStatus("ann", "here", on: 0, seconds: 3_600)
        for _ in 0..<200 {
            cluster.close(cluster.login("ann", on: 0), .lost)
            cluster.advance(.seconds(3), step: .seconds(1))
        }
        #expect(cluster.record(of: "ann").statusType == .offline)
        #expect(cluster.processes[0].node.owner.users.reviewsCount == 1)
    }
}
