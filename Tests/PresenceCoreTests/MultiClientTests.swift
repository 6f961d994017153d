import PresenceWire
import Testing

@testable import PresenceCore

/// `login.multiClient` (T34): which sessions of a user may be open at a time.
@Suite struct MultiClientTests {
    private func cluster(_ multiClient: Policy.MultiClient) -> TestCluster {
        var settings = CoreSettings()
        settings.policy.multiClient = multiClient
        return TestCluster(nodes: 3, settings: settings)
    }

    private func reason(_ client: TestCluster.Client) -> String? {
        client.events.last { $0.name == "onKickedOffline" }?.data["reason"]?.textValue
    }

    @Test("T34 A newer login ends the older session, on whichever node, as the policy says", arguments: Policy.MultiClient.allCases)
    func aNewerLoginEndsTheOlderSession(multiClient: Policy.MultiClient) {
        var cluster = cluster(multiClient)
        let phone = cluster.login("ann", on: 0, platform: "ios")
        let desk = cluster.login("ann", on: 1, platform: "web")
        let tablet = cluster.login("ann", on: 2, platform: "ios")
        #expect(reason(cluster.clients[phone]) == (multiClient == .all ? nil : "replaced"))
        #expect(reason(cluster.clients[desk]) == (multiClient == .single ? "replaced" : nil))
        #expect(reason(cluster.clients[tablet]) == nil && cluster.clients[tablet].isOpen)
        #expect(cluster.record(of: "ann").statusType == .online)
        let gone = [phone, desk].flatMap { cluster.statuses(told: $0, of: "ann") }
        #expect(!gone.contains("OFFLINE") && !gone.contains("UNLOGINED"))
    }

    @Test("A login of the same device replaces its open session on whichever node, and watchers see nothing", arguments: [0, 1, 2])
    func sameDevice(node: Int) {
        var cluster = cluster(.all)
        let bob = cluster.login("bob", on: 1)
        cluster.subscribe("bob", to: ["ann"], on: 1)
        let old = cluster.login("ann", on: 0, device: "phone")
        let others = [
            cluster.login("ann", on: 0, device: "tablet"), cluster.login("ann", on: 0, platform: "web", device: "phone"),
            cluster.login("ann", on: 0),
        ]
        let eventsCount = cluster.clients[bob].events.count
        let new = cluster.login("ann", on: node, device: "phone")
        #expect(reason(cluster.clients[old]) == "replaced" && !cluster.clients[old].isOpen && cluster.clients[new].isOpen)
        let unnamed = cluster.login("ann", on: node)
        cluster.advance(.seconds(10))
        #expect((others + [new, unnamed]).allSatisfy { cluster.clients[$0].isOpen })
        #expect(cluster.clients[bob].events.count == eventsCount)
        for client in others + [unnamed] { cluster.close(client, .loggedOut) }
        cluster.close(new, .loggedOut)
        #expect(cluster.statuses(told: bob, of: "ann").last == "UNLOGINED")
    }

    /// A tab takes the session over from another tab, whose stream ends only after the new one has begun.
    @Test("A logout ends the disconnected session of its device as well, and the user is UNLOGINED at once") func logoutOfDevice() {
        var cluster = cluster(.all)
        let bob = cluster.login("bob", on: 1)
        cluster.subscribe("bob", to: ["ann"], on: 1)
        let first = cluster.login("ann", on: 0, platform: "web")
        let second = cluster.login("ann", on: 2, platform: "web")
        cluster.lose(first)
        cluster.call(.logout(cluster.clients[second].session), by: "ann", on: 1)
        #expect(cluster.statuses(told: bob, of: "ann") == ["UNLOGINED", "ONLINE", "UNLOGINED"])
        cluster.advance(.seconds(10))
        #expect(cluster.statuses(told: bob, of: "ann") == ["UNLOGINED", "ONLINE", "UNLOGINED"])
    }

    @Test("A logout ends neither an open session of its device nor the grace of another device") func logoutBesideOthers() {
        var cluster = cluster(.all)
        let phone = cluster.login("ann", on: 0, platform: "ios")
        let first = cluster.login("ann", on: 1, platform: "web")
        let second = cluster.login("ann", on: 2, platform: "web")
        cluster.lose(phone)
        cluster.call(.logout(cluster.clients[second].session), by: "ann", on: 1)
        #expect(cluster.clients[first].isOpen && !cluster.clients[second].isOpen)
        cluster.call(.logout(cluster.clients[first].session), by: "ann", on: 1)
        #expect(cluster.record(of: "ann").statusType == .online)
        cluster.advance(.seconds(3))
        #expect(cluster.record(of: "ann").statusType == .offline)
    }

    @Test("A user whose session was lost, and whose grace is over, is UNLOGINED after the logout of that session") func logoutOfLost() {
        var cluster = cluster(.all)
        let phone = cluster.login("ann", on: 0)
        cluster.lose(phone)
        cluster.advance(.seconds(3))
        #expect(cluster.record(of: "ann").statusType == .offline)
        cluster.call(.logout(cluster.clients[phone].session), by: "ann", on: 1)
        #expect(cluster.record(of: "ann").statusType == .unlogined)
        // A session on another device keeps the user ONLINE.
        cluster.login("ann", on: 0, platform: "web")
        cluster.call(.logout(cluster.clients[phone].session), by: "ann", on: 1)
        #expect(cluster.record(of: "ann").statusType == .online)
    }

    @Test("A new owner ends the older of two sessions of one device") func newOwnerOfADevice() {
        var cluster = cluster(.all)
        let ann = cluster.user(ownedBy: 2)
        let old = cluster.login(ann, on: 0, device: "phone")
        cluster.advance(.milliseconds(100))
        cluster.losing = [(2, 0)]
        let new = cluster.login(ann, on: 1, device: "phone")
        #expect(cluster.clients[old].isOpen)
        cluster.losing = []
        cluster.kill(2)
        cluster.advance(.seconds(5))
        #expect(reason(cluster.clients[old]) == "replaced" && cluster.clients[new].isOpen)
    }

    @Test(
        "A login that a broken link has held up does not replace a newer one, and one of a slow clock does",
        arguments: [(1_001, 2), (1_000, 1)])
    func lateLogin(milliseconds: Milliseconds, last: UInt64) {
        var owner = Owner(clock: VersionClock(node: 1), settings: CoreSettings())
        var outbox = Outbox()
        let now = Now(instant: Instant(nanoseconds: 0), wall: 1_790_000_000_000)
        for (stamp, openedAt) in [(UInt64(2), now.wall), (1, now.wall - milliseconds)] {
            var attach = Attach(
                session: SessionID(stamp: stamp, node: 9), user: user("ann"), platform: "ios", deviceID: "phone", customStatus: "\(stamp)")
            attach.openedAt = openedAt
            owner.attach(attach, from: 1, in: &outbox[at: now])
        }
        let ann = owner.users[owner.index(of: user("ann"))]
        #expect(ann.sessions.map(\.id.stamp) == [last] && ann.record.customStatus == "\(last)")
    }

    /// The owner died with the word that ended the older session.
    @Test("A new owner ends the older of two sessions that are registered again") func newOwner() {
        var cluster = cluster(.all)
        let ann = cluster.user(ownedBy: 2)
        let phone = cluster.login(ann, on: 0)
        cluster.advance(.milliseconds(100))
        let tablet = cluster.login(ann, on: 1)
        for process in cluster.processes.indices {
            var policy = Policy()
            policy.multiClient = .single
            cluster.processes[process].node.machines.owner.configure { policies, _ in
                policies = Policies(standard: policy, configured: [:])
            }
        }
        cluster.kill(2)
        cluster.advance(.seconds(5))
        #expect(reason(cluster.clients[phone]) == "replaced" && cluster.clients[tablet].isOpen)
        #expect(reason(cluster.clients[tablet]) == nil)
    }
}
