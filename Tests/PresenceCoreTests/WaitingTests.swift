import PresenceWire
import Testing

@testable import PresenceCore

/// Messages about users for whom a node is not active yet, because it has just started and waits for its contact points.
@Suite struct WaitingTests: ~Copyable {
    private var node: Node
    private var now = Now(instant: Instant(nanoseconds: 0), wall: 1_790_000_000_000)

    init() {
        let peer = Peer(id: NodeID("n1"), generation: 1, address: "10.0.0.1:7601")
        node = Node(selfPeer: peer, cluster: "test", gatewaysCount: 1, joins: true)
    }

    private func session(_ number: UInt32) -> SessionID { SessionID(stamp: UInt64(number) + 1, node: 1) }

    private mutating func login(_ name: String, _ number: UInt32) {
        node.receive(.open(Attach(session: session(number), user: user(name), platform: "ios")), from: 0, at: now)
    }

    /// Computes the rings that the node wants.
    private mutating func place() {
        for case .computeRing(let members) in node.effects.takeAll() { node.ringComputed(Ring(members: members), at: now) }
    }

    @Test("Messages that arrive before the node is active are handled in their order when it is") mutating func order() {
        login("ann", 1)
        login("bob", 2)
        node.receive(.close(Detach(session: session(2), user: user("bob"), cause: .loggedOut)), from: 0, at: now)
        #expect(node.machines.reports.postponed.count == 3)
        #expect(node.edge.misrouted.isEmpty, "nobody has to say it again")
        #expect(node.owner.kept(user("ann")).record.statusType == .unlogined)
        node.joinedNobody(at: now)
        #expect(node.machines.reports.postponed.isEmpty)
        #expect(node.owner.kept(user("ann")).record.statusType == .online)
        #expect(node.owner.kept(user("bob")).record.statusType == .unlogined)
        #expect(node.owner.kept(user("bob")).record.version > .zero, "was here, and logged out")
    }

    @Test("Messages beyond the bound are rejected and arrive again when the node is active") mutating func bound() {
        for number in 0..<UInt32(Reports.postponedMax) { login("u\(number)", number) }
        #expect(node.machines.reports.postponed.count == Reports.postponedMax)
        login("ann", UInt32(Reports.postponedMax))
        #expect(node.machines.reports.postponed.count == 1)
        #expect(node.edge.misrouted.count == Reports.postponedMax)
        node.joinedNobody(at: now)
        #expect(node.statistics.usersOnline == Reports.postponedMax + 1)
    }

    /// A user hides while this node is down. The only peer that this node has met leaves without sending its rows. A third node, which this
    /// node has not met, holds the newer rule. Until then this node must not show the user from its own disk.
    @Test("A restarted node does not activate slots while its only known peer is unreachable") mutating func unreachablePeer() throws {
        let met = Peer(id: "n2", generation: 1, address: "10.0.0.2:7601")
        let unmet = Peer(id: "n3", generation: 1, address: "10.0.0.3:7601")
        for other in [met, unmet] { try node.load(Row(member: other, hasLeft: false, version: Version(stamp: 1, node: 2)), at: now) }
        login("ann", 1)
        node.linked(to: Hello(cluster: "test", sender: met, members: [unmet], wall: now.wall), at: now)
        place()
        #expect(node.cluster.memberIDs == ["n1", "n2"])
        node.machines.cluster.membership.apply(MembershipUpdate(member: met, incarnation: 1, state: .left), at: now)
        for _ in 0..<2 {
            node.tick(at: now)
            place()
            #expect(node.cluster.memberIDs == ["n1"])
            #expect(!node.cluster.isWarm)
            node.joinedNobody(at: now)
        }
        now.instant += node.cluster.settings.takeoverTimeout
        node.tick(at: now)
        #expect(node.cluster.isWarm, "it does not wait for ever")
        #expect(node.owner.kept(user("ann")).record.statusType == .online)
    }

    /// With two of three members missing, all replicas that know the newest change of a list may be gone. With one missing, the other two
    /// hold every change.
    @Test("A restarted node with two members missing says that lists may be incomplete", arguments: [1, 2]) mutating func incompleteLists(
        missedCount: Int
    ) throws {
        for index in 0..<missedCount {
            let other = Peer(id: NodeID("n\(index + 2)"), generation: 1, address: "10.0.0.\(index + 2):7601")
            try node.load(Row(member: other, hasLeft: false, version: Version(stamp: 1, node: 2)), at: now)
        }
        login("ann", 1)
        node.joinedNobody(at: now)
        #expect(!node.cluster.isWarm)
        now.instant += node.cluster.settings.takeoverTimeout
        node.tick(at: now)
        #expect(node.cluster.isWarm)
        #expect(node.owner.list(of: user("ann")).mayBeIncomplete == (missedCount == 2))
    }

    @Test("A peer that reports everything again voids its postponed reports, and no others")
    func reportsOfAPeerAreVoidWhenItReportsAgain() {
        var cluster = Cluster(
            own: Peer(id: "a", generation: 1, address: "a:1"), name: "test", gatewaysCount: 1, joins: true, settings: CoreSettings())
        for name in ["b", "c"] {
            let peer = cluster.insert(Peer(id: NodeID(name), generation: 1, address: "\(name):1"), rowVersion: .zero).index
            cluster.peers[peer].state = .alive
        }
        var owner = Owner(clock: VersionClock(node: 1), settings: CoreSettings())
        var reports = Reports()
        let (ann, bob) = (user("ann"), user("bob"))
        let watches = [ann, bob].map { Watch(user: $0, held: .zero, record: nil) }
        let now = Now(instant: Instant(nanoseconds: 1), wall: 1)
        reports.onWatch(watches, from: 1, owner: &owner, &cluster, at: now)
        reports.onUnwatch([ann], from: 1, owner: &owner, &cluster)
        reports.onUnwatch([ann], from: 2, owner: &owner, &cluster)
        reports.drop(from: 1) { $0 == ann }
        #expect(reports.postponed.map(\.peer) == [1, 2])
        #expect(reports.postponed.map(\.report) == [.watch([Watch(user: bob, held: .zero, record: nil)]), .unwatch([ann])])
        reports.drop(from: 1)
        #expect(reports.postponed.map(\.peer) == [2])
    }

    /// By the other ring another node may decide about the user, and is told when the session ends.
    @Test("The waiting reports of a peer that changes to another ring are rejected, so that it makes them again")
    mutating func otherRing() {
        let peer = Peer(id: "n2", generation: 1, address: "10.0.0.2:7601")
        node.linked(to: Hello(cluster: "test", sender: peer, members: [], wall: now.wall), at: now)
        place()
        let placement = node.cluster.ownership.placement
        let ours = (0...).lazy.map { user("u\($0)") }.first { placement.owner(of: $0.slot) == 0 }!
        let watch = Watch(user: ours, held: .zero, record: nil)
        node.machines.reports.onWatch([watch], from: 1, owner: &node.machines.owner, &node.machines.cluster, at: now)
        login(String(ours.id), 1)
        #expect(node.machines.reports.postponed.map(\.peer) == [1, 0])
        for _ in 0..<2 { node.machines.onOffer([], ring: 2, offerSequence: 1, isFirst: true, isLast: true, from: 1, at: now) }
        #expect(node.machines.reports.postponed.map(\.peer) == [0])
    }
}
