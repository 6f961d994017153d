import PresenceWire
import Testing

@testable import PresenceCore

/// A ring that comes because a node joins or drains is prepared while the present one holds.
@Suite struct PreparationTests {
    var cluster: TestCluster
    private let timeout = Duration.seconds(10)

    init() {
        var settings = CoreSettings()
        settings.preparationTimeout = timeout
        cluster = TestCluster(nodes: 3, settings: settings)
    }

    /// Whether a node holds the present ring while the next one is prepared.
    private func waits(_ index: Int) -> Bool { cluster.processes[index].node.cluster.ownership.isPreparing }

    /// The number of nodes that own slots by the ring of a node.
    private func membersCount(_ index: Int) -> Int { cluster.processes[index].node.cluster.placement.members.count }

    /// The slots of each node that are cold now.
    private var cold: [Int] { cluster.processes.map { $0.node.cluster.ownership.acquiringCount } }

    @Test("A draining node decides until the others have its users") mutating func drain() {
        let name = cluster.user(ownedBy: 0)
        cluster.login(name, on: 1)
        // The rows that the others fetch do not arrive.
        cluster.losing = [(from: 0, to: 1), (from: 0, to: 2)]
        let drains = cluster.processes[0].node.drain(at: cluster.now)
        #expect(drains)
        cluster.advance(.milliseconds(50))
        for process in cluster.processes.dropFirst() {
            #expect(process.node.cluster.owner(of: user(name)) == process.node.cluster.peerIndex(cluster.processes[0].node.cluster.own.id))
        }
        #expect(cluster.processes[0].node.cluster.decides(user(name)))
    }

    @Test("Rows fetched before the change are not fetched again, and none is lost") mutating func prefetch() {
        let name = cluster.user(ownedBy: 0)
        cluster.login(name, on: 1)
        cluster.setStatus(name, "kept", on: 1)
        _ = cluster.processes[0].node.drain(at: cluster.now)
        cluster.advance(.seconds(1))
        let owner = cluster.processes[1].node.cluster.owner(of: user(name)) == 0 ? 1 : 2
        #expect(cluster.processes[owner].node.cluster.decides(user(name)))
        #expect(cluster.processes[owner].node.owner.kept(user(name)).record.customStatus == "kept")
        #expect(cold == [0, 0, 0])
        #expect(cluster.processes[0].node.cluster.isHandedOver)
    }

    @Test("The others wait for a node that never fetches only until the timeout") mutating func prefetchTimeout() {
        // The link to node 2 is stuck, and no node notices.
        cluster.losing = [(from: 0, to: 2), (from: 1, to: 2)]
        _ = cluster.processes[0].node.drain(at: cluster.now)
        cluster.advance(.seconds(1))
        #expect(cluster.processes[0].node.cluster.ownership.ring.preparation != nil)
        cluster.advance(timeout)
        #expect(cluster.processes[0].node.cluster.ownership.ring.preparation == nil)
    }

    @Test("All nodes follow the first one that changes") mutating func change() {
        _ = cluster.processes[0].node.drain(at: cluster.now)
        cluster.advance(.seconds(1))
        let rings = Set(cluster.processes.map { $0.node.cluster.placement.id })
        #expect(rings.count == 1 && cluster.processes.allSatisfy { $0.node.cluster.ownership.ring.preparation == nil })
        #expect(cluster.processes[0].node.cluster.placement.slotsOwned == 0)
    }

    @Test("The death of a member ends the wait") mutating func deadMember() {
        cluster.losing = [(from: 0, to: 2), (from: 1, to: 2)]
        _ = cluster.processes[0].node.drain(at: cluster.now)
        cluster.advance(.milliseconds(200))
        #expect(cluster.processes[0].node.cluster.ownership.ring.preparation != nil)
        cluster.kill(2)
        cluster.advance(.seconds(2))
        #expect(cluster.processes[0].node.cluster.ownership.ring.preparation == nil)
        #expect(cluster.processes[1].node.cluster.placement.slotsOwned == Ring.slotsCount)
    }

    @Test("A call just before the ring changes waits for a second disk") mutating func lateCall() throws {
        let name = cluster.user(ownedBy: 0)
        cluster.losing = [(from: 0, to: 1), (from: 0, to: 2)]
        _ = cluster.processes[0].node.drain(at: cluster.now)
        cluster.advance(.milliseconds(50))
        let next = try #require(cluster.processes[0].node.cluster.ownership.ring.preparation?.placement.id)
        var writer = WireWriter()
        let operation = OwnerOperation.setSelfStatus(customStatus: "in time", seconds: nil)
        writer.message(.request(Request(id: 1, user: user(name), operation: operation)))
        writer.message(.offer(ring: next, offerSequence: 1, [], isFirst: true, isLast: true))
        let sender = cluster.processes[1].node.cluster.own.id
        try cluster.deliver(writer.bytes, from: sender, to: 0)
        cluster.settle()
        #expect(cluster.processes[0].node.cluster.placement.id == next)
        #expect(cluster.processes[0].node.owner.kept(user(name)).record.customStatus == "in time")
        #expect(cluster.processes[0].node.machines.replication.writes.count == 1)
    }

    /// Ends node 2 and starts it again, so that the others receive nothing of its rows.
    private mutating func renewNode2(_ settings: CoreSettings, end: (inout TestCluster) -> Void) throws {
        end(&cluster)
        cluster.advance(.seconds(2))
        cluster.losing = [(from: 2, to: 0), (from: 2, to: 1)]
        try cluster.restart(2, settings: settings)
        cluster.advance(.milliseconds(100))
    }

    @Test("The others do not wait for a member that returns from the dead, because it may have decided") mutating func returnOfDead() throws
    {
        let settings = cluster.settings
        try renewNode2(settings) { $0.kill(2) }
        #expect(!waits(0) && membersCount(0) == 3)
    }

    @Test("The others wait for a member that returns after it left") mutating func returnOfLeft() throws {
        let settings = cluster.settings
        try renewNode2(settings) { cluster in
            _ = cluster.processes[2].node.drain(at: cluster.now)
            cluster.advance(.seconds(1))
            cluster.leave(2)
        }
        #expect(waits(0) && membersCount(0) == 2)
    }

    @Test("A node that was left alone serves while it waits for the one that comes back") mutating func leftAlone() throws {
        let settings = cluster.settings
        cluster = TestCluster(nodes: 2, settings: settings)
        _ = cluster.processes[1].node.drain(at: cluster.now)
        cluster.advance(.seconds(1))
        cluster.leave(1)
        cluster.advance(.seconds(2))
        cluster.losing = [(from: 1, to: 0)]
        try cluster.restart(1, settings: settings)
        cluster.advance(.milliseconds(100))
        #expect(waits(0) && membersCount(0) == 1)
        #expect(cluster.processes[0].node.cluster.ownership.incompleteSince != nil, "it claims nothing to be complete meanwhile")
        cluster.losing = []
        cluster.link(1, 0)
        cluster.advance(.seconds(1))
        #expect(membersCount(0) == 2 && cluster.processes[0].node.cluster.ownership.incompleteSince == nil)
    }

    /// The node learns of a member, then that this member drains, while the others still prepare the ring that the member is part of.
    @Test("A node that returns to a ring under preparation waits for the others again") mutating func joinPreparation() throws {
        var settings = cluster.settings
        settings.takeoverTimeout = .milliseconds(200)
        try renewNode2(settings) { cluster in
            _ = cluster.processes[2].node.drain(at: cluster.now)
            cluster.advance(.seconds(1))
            cluster.leave(2)
        }
        let placement = cluster.processes[2].node.cluster.placement
        let name = try #require((0..<100).map { "user\($0)" }.first { placement.owner(of: user($0)) == 0 })
        // Another ring has come and gone.
        _ = cluster.processes[2].node.machines.cluster.ownership.ringComputed(
            placement, peersCount: 1, isAlive: { _ in true }, at: cluster.now)
        cluster.processes[2].node.changePlacement(to: placement, at: cluster.now)
        cluster.processes[2].node.joinPreparation(at: cluster.now)
        cluster.advance(settings.takeoverTimeout + .milliseconds(100))
        #expect(waits(0))
        let decides = cluster.processes[2].node.cluster.decides(user(name))
        #expect(!decides, "node 0 or 1 does")
    }

    @Test("A ring that is not at rest is not kept during a preparation") mutating func unsettledRing() {
        // They have not said that they have all that they are to keep.
        cluster.processes[0].node.machines.cluster.ownership.withTransfer(.present) { $0.beginOffer() }
        cluster.losing = [(from: 2, to: 0)]
        _ = cluster.processes[0].node.drain(at: cluster.now)
        cluster.advance(.milliseconds(50))
        #expect(membersCount(0) == 2)
    }

    @Test("Requests to a dead peer go to the others") mutating func requestsOfDead() {
        var settings = CoreSettings()
        settings.preparationTimeout = timeout
        cluster = TestCluster(nodes: 4, settings: settings)
        let name = cluster.user(ownedBy: 3)
        cluster.login(name, on: 1)
        _ = cluster.processes[0].node.drain(at: cluster.now)
        cluster.advance(.seconds(1))
        // The rows of node 3 do not arrive until node 0, which keeps no slot any more, is gone.
        cluster.losing = [(from: 3, to: 1), (from: 3, to: 2)]
        _ = cluster.processes[3].node.drain(at: cluster.now)
        for _ in 0..<10 where !waits(1) { cluster.advance(.milliseconds(50)) }
        #expect(waits(1))
        cluster.kill(0)
        cluster.losing = []
        for other in 1...2 { cluster.link(3, other) }
        cluster.advance(.seconds(1))
        #expect(!waits(1) && membersCount(1) == 2)
        #expect(cluster.processes[3].node.cluster.placement.slotsOwned == 0)
    }

    /// Leaves node 0 alone with a user's list that node 1 has never had, tells node 0 to stop, and starts node 1 again.
    private mutating func stopTheLastNode(losing links: [(from: Int, to: Int)]) throws {
        let settings = cluster.settings
        cluster = TestCluster(nodes: 2, settings: settings)
        _ = cluster.processes[1].node.drain(at: cluster.now)
        cluster.advance(.seconds(1))
        cluster.leave(1)
        cluster.advance(.seconds(1))
        cluster.subscribe("ann", to: ["bob"], on: 0)
        let othersStay = cluster.processes[0].node.drain(at: cluster.now)
        #expect(!othersStay)
        cluster.losing = links
        try cluster.restart(1, settings: settings)
        cluster.advance(.milliseconds(100))
    }

    /// The targets of ann in the list of a node.
    private func followed(on index: Int) -> [UserID] {
        cluster.processes[index].node.owner.kept(user("ann")).subscriptions.filter { !$0.isRemoved }.map(\.target)
    }

    /// A user of node 0 on node 2, seen by a watcher on node 1.
    private mutating func watched() -> (name: String, device: Int, watcher: Int) {
        let name = cluster.user(ownedBy: 0)
        let watcher = cluster.login("watcher", on: 1)
        cluster.subscribe("watcher", to: [name], on: 1)
        let device = cluster.login(name, on: 2, device: "phone")
        cluster.advance(.seconds(1))
        return (name, device, watcher)
    }

    /// The last case ends 1 s after the new owner has begun to decide.
    @Test(
        "A user whose device is lost before the owner drains goes OFFLINE when the grace ends",
        arguments: [(200, 2_200), (600, 2_200), (1_700, 3_200)])
    mutating func graceOfFormerOwner(lostBefore: Int, offlineBy: Int) {
        let (name, device, watcher) = watched()
        let lostAt = cluster.now.wall
        cluster.lose(device)
        cluster.advance(.milliseconds(lostBefore))
        _ = cluster.processes[0].node.drain(at: cluster.now)
        cluster.advance(.milliseconds(1_900 - lostBefore))
        #expect(cluster.ownerIndex(of: name) != 0)
        #expect(!cluster.statuses(told: watcher, of: name).contains("OFFLINE"))
        cluster.advance(.milliseconds(offlineBy - 1_900))
        #expect(cluster.statuses(told: watcher, of: name).last == "OFFLINE")
        #expect(cluster.record(of: name).lastSeenTime == lostAt)
    }

    @Test("A device that is back within the grace shows nothing, though the owner has changed meanwhile") mutating func backInGrace() {
        let (name, device, watcher) = watched()
        cluster.lose(device)
        cluster.advance(.milliseconds(900))
        _ = cluster.processes[0].node.drain(at: cluster.now)
        cluster.advance(.milliseconds(900))
        cluster.login(name, on: 1, device: "phone")
        cluster.advance(.seconds(15))
        #expect(!cluster.statuses(told: watcher, of: name).contains("OFFLINE"))
        #expect(cluster.record(of: name).statusType == .online)
    }

    @Test("A user with another open device stays ONLINE when one is lost and the owner changes") mutating func otherDevice() {
        let (name, device, watcher) = watched()
        cluster.login(name, on: 1, platform: "web")
        cluster.lose(device)
        cluster.advance(.milliseconds(200))
        _ = cluster.processes[0].node.drain(at: cluster.now)
        cluster.advance(.seconds(15))
        #expect(!cluster.statuses(told: watcher, of: name).contains("OFFLINE"))
        #expect(cluster.record(of: name).onlinePlatforms == ["web"])
    }

    @Test("The grace of sessions whose node died begins with its death, also if the owner changes later") mutating func graceAfterDeath() {
        cluster = TestCluster(nodes: 4)
        let name = cluster.user(ownedBy: 0)
        let watcher = cluster.login("watcher", on: 1)
        cluster.subscribe("watcher", to: [name], on: 1)
        cluster.login(name, on: 3)
        cluster.advance(.seconds(1))
        cluster.kill(3)
        cluster.advance(.seconds(4))
        _ = cluster.processes[0].node.drain(at: cluster.now)
        cluster.advance(.milliseconds(5_500))
        #expect(cluster.ownerIndex(of: name) != 0)
        #expect(!cluster.statuses(told: watcher, of: name).contains("OFFLINE"))
        cluster.advance(.milliseconds(2_500))
        #expect(cluster.statuses(told: watcher, of: name).last == "OFFLINE")
    }

    @Test("A node told to stop while alone gives its slots to one that joins") mutating func stopWhileAlone() throws {
        try stopTheLastNode(losing: [])
        cluster.advance(.seconds(1))
        #expect(cluster.processes.map { $0.node.cluster.placement.slotsOwned } == [0, Ring.slotsCount])
        #expect(followed(on: 1) == [user("bob")])
        #expect(cluster.processes[0].node.cluster.isHandedOver)
    }

    @Test("Two nodes told to stop take over from one another before either ends") mutating func twoStops() throws {
        // Nothing of what node 0 holds reaches node 1 before node 1 drains, too.
        try stopTheLastNode(losing: [(from: 0, to: 1)])
        _ = cluster.processes[1].node.drain(at: cluster.now)
        cluster.advance(.milliseconds(100))
        #expect(!cluster.processes[0].node.cluster.isHandedOver)
        cluster.losing = []
        cluster.link(0, 1)
        cluster.link(1, 0)
        cluster.advance(.seconds(1))
        #expect(cluster.processes[0].node.cluster.isHandedOver)
        #expect(followed(on: 1) == [user("bob")])
    }
}
