import CommsEaseStatus
import NodeFixture
import PresenceClient
import Synchronization
import Testing

/// The calls of `documents/002…`; it shows prototypes and no samples.
@Suite(.timeLimit(.minutes(1))) struct CommsEaseStatusTests {
    private final class Delegate: NIMEventSubscribeManagerDelegate {
        let events = Box<NIMSubscribeEvent>()

        func onRecvSubscribeEvents(_ events: [NIMSubscribeEvent]) { self.events.add(events) }

        /// The subscription to bob and carl.
        var values: [String: [Int64]] {
            var values: [String: [Int64]] = [:]
            for event in events.all { if let user = event.from, user != "ann" { values[user, default: []].append(event.value) } }
            return values
        }

        func values(from user: String) -> [Int64] { values[user] ?? [] }
    }

    @Test("N3 N7 N8 N9 N16 The prototypes of the document run") func prototypes() async throws {
        let fixture = try await ServedCluster.serving("commsease")
        let manager = try NIMEventSubscribeManager(fixture.configuration(of: "ann"))
        let delegate = Delegate()
        manager.addDelegate(delegate)
        try await manager.login()

        // Subscribe, with the present values at once (N8).
        var request = NIMSubscribeRequest()
        request.type = NIMSubscribeSystemEventType.online
        request.expiry = 3_600
        request.syncEnabled = true
        request.publishers = ["bob", "carl"]
        #expect(try await manager.subscribeEvent(request) == [])
        try await fixture.until("the present value is told") { !delegate.values(from: "bob").isEmpty }
        #expect(delegate.values(from: "bob") == [NIMSubscribeEventOnlineValue.logout])

        // A new subscription renews the validity, and sends the current values again; a refused one does not.
        #expect(try await manager.subscribeEvent(request) == [])
        try await fixture.until("the present value is told again") { delegate.values(from: "bob").count == 2 }
        #expect(delegate.values(from: "bob") == [NIMSubscribeEventOnlineValue.logout, NIMSubscribeEventOnlineValue.logout])
        request.syncEnabled = false
        #expect(try await manager.subscribeEvent(request) == [])

        // Login, abnormal disconnection, logout (N3).
        var bob = try NIMEventSubscribeManager(fixture.configuration(of: "bob"))
        try await bob.login()
        try await fixture.until("bob's login is told") { delegate.values(from: "bob").last == NIMSubscribeEventOnlineValue.login }
        await bob.client.close()
        try await fixture.until("bob's loss is told") { delegate.values(from: "bob").last == NIMSubscribeEventOnlineValue.offline }
        bob = try NIMEventSubscribeManager(fixture.configuration(of: "bob"))
        try await bob.login()
        try await bob.logout()
        try await fixture.until("bob's logout is told") { delegate.values(from: "bob").last == NIMSubscribeEventOnlineValue.logout }

        // Query the relations, and unsubscribe: first one publisher, then all.
        request.publishers = ["bob", "carl", "dora"]
        #expect(try await manager.querySubscribeEvent(request).map(\.publisher) == ["bob", "carl"])
        request.publishers = ["bob"]
        #expect(try await manager.unSubscribeEvent(request) == [])
        request.publishers = []
        try await manager.unSubscribeEvent(request)
        request.publishers = ["bob", "carl"]
        #expect(try await manager.querySubscribeEvent(request) == [])
        manager.removeDelegate(delegate)
        try await manager.logout()
        try await fixture.stop()
    }

    @Test("As the page says, a list of 101 publishers becomes several calls, and a late delegate is told the events in force")
    func differences() async throws {
        let fixture = try await ServedCluster.serving("commsease")
        let manager = try NIMEventSubscribeManager(fixture.configuration(of: "ann"))
        let (early, late) = (Delegate(), Delegate())
        manager.addDelegate(early)
        try await manager.login()
        let publishers = (0..<100).map { "user\($0)" } + ["bob"]
        let request = NIMSubscribeRequest(expiry: 3_600, publishers: publishers)
        #expect(try await manager.subscribeEvent(request) == [])
        #expect(try await manager.querySubscribeEvent(request).count == 101)
        let bob = try NIMEventSubscribeManager(fixture.configuration(of: "bob"))
        try await bob.login()
        try await bob.publishEvent(NIMSubscribeEvent(value: 10_001))
        try await fixture.until("the event is told") { early.values(from: "bob").last == 10_001 }
        let before = early.values(from: "bob")
        manager.addDelegate(late)
        var configuration = fixture.configuration(of: "bob")
        configuration.platform = "web"
        let second = try NIMEventSubscribeManager(configuration)
        try await second.login()
        try await fixture.until("the event is told again") { late.values(from: "bob") == [NIMSubscribeEventOnlineValue.login, 10_001] }
        #expect(early.values(from: "bob") == before)
        try await second.logout()
        try await bob.logout()
        try await manager.logout()
        try await fixture.stop()
    }

    private func login(_ user: String, _ cluster: ServedCluster) async throws -> (manager: NIMEventSubscribeManager, delegate: Delegate) {
        let manager = try NIMEventSubscribeManager(cluster.configuration(of: user))
        let delegate = Delegate()
        manager.addDelegate(delegate)
        try await manager.login()
        return (manager, delegate)
    }

    @Test("N11 Only the new parts of a status are events, and each has the identity, the times and the flags of its publication")
    func newParts() async throws {
        let fixture = try await ServedCluster.serving("commsease")
        let (ann, delegate) = try await login("ann", fixture)
        try await ann.subscribeEvent(NIMSubscribeRequest(expiry: 60, publishers: ["bob"]))
        let (bob, _) = try await login("bob", fixture)
        try await fixture.until("the login is told") { delegate.values(from: "bob") == [NIMSubscribeEventOnlineValue.login] }
        let text = try await fixture.call("setSelfStatus", #"{"customStatus":"a text, which is no event here"}"#, as: "bob", node: 1)
        #expect(text.status == 200)
        var event = NIMSubscribeEvent(value: 10_001, expiry: 3_600, ext: "x")
        (event.sendToOnlineUsersOnly, event.syncEnabled) = (false, false)
        let forAll = try await bob.publishEvent(event)
        let forThoseHere = try await bob.publishEvent(NIMSubscribeEvent(value: 10_002, expiry: 60))
        try await fixture.until("both events are told") { delegate.values(from: "bob") == [1, 10_001, 10_002] }
        let told = delegate.events.all.filter { $0.from == "bob" }
        #expect(told[0].sendToOnlineUsersOnly == false && told[0].timestamp > 0)
        #expect(told.dropFirst().map(\.eventId) == [forAll.eventId, forThoseHere.eventId])
        #expect(told.dropFirst().map(\.timestamp) == [forAll.timestamp, forThoseHere.timestamp])
        #expect(told.dropFirst().map(\.expiry) == [3_600, 60] && told.dropFirst().map { $0.ext ?? "" } == ["x", ""])
        #expect(told.dropFirst().map(\.sendToOnlineUsersOnly) == [false, true] && told.dropFirst().map(\.syncEnabled) == [false, true])
        #expect(told.allSatisfy { $0.subscribeInfo?.onlinePlatforms == ["ios"] })
        // A login receives the newest event for those who were away, and not the one for those who were there.
        let (second, later) = try await login("ann", fixture)
        try await fixture.until("the login is told the first") { later.values(from: "bob") == [1, 10_001] }
        #expect(later.events.all.last?.eventId == forAll.eventId)
        await bob.client.close()
        for delegate in [delegate, later] {
            try await fixture.until("the loss is told") { delegate.values(from: "bob").last == NIMSubscribeEventOnlineValue.offline }
        }
        #expect(delegate.values(from: "bob") == [1, 10_001, 10_002, 3] && later.values(from: "bob") == [1, 10_001, 3])
        for manager in [ann, second] { await manager.client.close() }
        try await fixture.stop()
    }

    @Test("The own logins, logouts and losses are not events; what another device of the own account publishes is")
    func ownRecord() async throws {
        let fixture = try await ServedCluster.serving("commsease")
        let (desk, delegate) = try await login("bob", fixture)
        var (phone, _) = try await login("bob", fixture)
        try await phone.logout()
        (phone, _) = try await login("bob", fixture)
        try await phone.publishEvent(NIMSubscribeEvent(value: 10_001))
        var unsynced = NIMSubscribeEvent(value: 10_002)
        unsynced.syncEnabled = false
        try await phone.publishEvent(unsynced)
        try await fixture.until("the desk knows the second") { await desk.client.status(of: "bob")?.event?.value == 10_002 }
        await phone.client.close()
        try await fixture.until("the desk is alone") {
            let asked = try await fixture.admin("queryOnlineStatus", #"{"userIDs":["bob"],"withSessions":true}"#).json["userStatusList"]
            return asked?.elements.first?["sessions"]?.elements.count == 1
        }
        (phone, _) = try await login("bob", fixture)
        try await phone.publishEvent(NIMSubscribeEvent(value: 10_003))
        try await fixture.until("the desk is told the third") { delegate.values(from: "bob").last == 10_003 }
        #expect(delegate.values(from: "bob") == [10_001, 10_003])
        for manager in [desk, phone] { await manager.client.close() }
        try await fixture.stop()
    }

    @Test("A requested current value includes the event in force, whatever its flags, and is sent once") func askedFor() async throws {
        let fixture = try await ServedCluster.serving("commsease")
        let subscribed = try await fixture.call("subscribeUserStatus", #"{"userIDs":["bob"],"expiry":3600}"#, node: 2)
        #expect(subscribed.status == 200)
        let (bob, _) = try await login("bob", fixture)
        try await bob.publishEvent(NIMSubscribeEvent(value: 10_001))
        let (ann, delegate) = try await login("ann", fixture)
        try await fixture.until("the login is told") { delegate.values(from: "bob") == [1] }
        // The event was for those who were online when it was published.
        var request = NIMSubscribeRequest(expiry: 60, syncEnabled: true, publishers: ["bob"])
        try await ann.subscribeEvent(request)
        try await fixture.until("the event in force is told") { delegate.values(from: "bob") == [1, 1, 10_001] }
        request.syncEnabled = false
        try await ann.subscribeEvent(request)
        try await bob.publishEvent(NIMSubscribeEvent(value: 10_002))
        try await fixture.until("the next is told") { delegate.values(from: "bob").last == 10_002 }
        #expect(delegate.values(from: "bob") == [1, 1, 10_001, 10_002])
        for manager in [ann, bob] { await manager.client.close() }
        try await fixture.stop()
    }

    @Test("N21 A login with subscriptions of two types begins with everybody offline, and tells whoever comes then")
    func twoTypes() async throws {
        let fixture = try await ServedCluster.serving("commsease")
        #expect(try await fixture.call("addFriend", #"{"userID":"bob"}"#).json["resultCode"]?.number == 0)
        for (user, type) in [("bob", 3), ("carl", 1)] {
            let body = #"{"userIDs":["\#(user)"],"expiry":3600,"subscribeType":\#(type)}"#
            let answer = try await fixture.call("subscribeUserStatus", body, node: 1)
            #expect(answer.status == 200 && answer.json["errorUserList"]?.elements == [], "\(answer.json)")
            let (manager, _) = try await login(user, fixture)
            try await manager.logout()
        }
        let (ann, delegate) = try await login("ann", fixture)
        var others: [NIMEventSubscribeManager] = []
        for user in ["bob", "carl"] { others.append(try await login(user, fixture).manager) }
        try await fixture.until("both logins are told") { delegate.values.count == 2 }
        #expect(delegate.values == ["bob": [1], "carl": [1]])
        for manager in others { try await manager.logout() }
        try await fixture.until("both logouts are told") { delegate.values == ["bob": [1, 2], "carl": [1, 2]] }
        await ann.client.close()
        try await fixture.stop()
    }

    /// Whether a network refuses new connections.
    private final class Gate: Sendable {
        private let state = Mutex(false)
        var isClosed: Bool {
            get { state.withLock { $0 } }
            set { state.withLock { $0 = newValue } }
        }
    }

    @Test("A client that was cut off is told the logout of a user whom it takes for online, and not the login again of one who stayed")
    func cutOff() async throws {
        let fixture = try await ServedCluster.serving("commsease")
        let gate = Gate()
        let network = try await FaultyNetwork(to: fixture.nodes[1].ports.client) { _ in
            ConnectionFate(end: gate.isClosed ? .refused : .never)
        }
        var configuration = fixture.configuration(of: "ann")
        configuration.addresses = ["http://127.0.0.1:\(network.port)"]
        configuration.backoff = Backoff(initial: .milliseconds(20), max: .milliseconds(200))
        let ann = try NIMEventSubscribeManager(configuration)
        let delegate = Delegate()
        ann.addDelegate(delegate)
        try await ann.login()
        try await ann.subscribeEvent(NIMSubscribeRequest(expiry: 60, publishers: ["bob", "carl"]))
        let (bob, _) = try await login("bob", fixture)
        let (carl, _) = try await login("carl", fixture)
        try await fixture.until("both logins are told") { delegate.values == ["bob": [1], "carl": [1]] }
        gate.isClosed = true
        network.cut()
        try await fixture.until("the client is cut off") { await ann.client.connectionState != .connected }
        try await bob.logout()
        gate.isClosed = false
        try await fixture.until("bob's logout is told") { delegate.values(from: "bob") == [1, 2] }
        try await carl.publishEvent(NIMSubscribeEvent(value: 10_001))
        try await fixture.until("carl's event is told") { delegate.values(from: "carl").last == 10_001 }
        #expect(delegate.values == ["bob": [1, 2], "carl": [1, 10_001]])
        for manager in [ann, carl] { await manager.client.close() }
        try await network.close()
        try await fixture.stop()
    }

    @Test("A delegate that is added during a session does not receive its user's own login") func lateDelegate() async throws {
        let fixture = try await ServedCluster.serving("commsease")
        try NIMSDK.register(fixture.configuration(of: "ann"))
        let manager = NIMSDK.shared().subscribeManager
        #expect(manager === NIMSDK.shared().subscribeManager)
        try await manager.login()
        let delegate = Delegate()
        manager.addDelegate(delegate)
        try await manager.publishEvent(NIMSubscribeEvent(value: 10_001))
        try await fixture.until("the own event is told") { delegate.events.all.contains { $0.value == 10_001 } }
        #expect(delegate.events.all.map(\.value) == [10_001])
        try await manager.logout()
        try await fixture.stop()
    }

    @Test("Each login receives the users who are online and their events") func logins() async throws {
        let fixture = try await ServedCluster.serving("commsease")
        let (ann, bob, carl) = (
            try NIMEventSubscribeManager(fixture.configuration(of: "ann")),
            try NIMEventSubscribeManager(fixture.configuration(of: "bob")),
            try NIMEventSubscribeManager(fixture.configuration(of: "carl"))
        )
        let delegate = Delegate()
        ann.addDelegate(delegate)
        try await ann.login()
        try await ann.subscribeEvent(NIMSubscribeRequest(expiry: 3_600, publishers: ["bob", "carl"]))
        for manager in [bob, carl] { try await manager.login() }
        try await fixture.until("both logins are told") { delegate.values == ["bob": [1], "carl": [1]] }
        try await ann.logout()
        var event = NIMSubscribeEvent(value: 10_001)
        event.sendToOnlineUsersOnly = false
        try await carl.publishEvent(event)
        try await carl.logout()
        try await ann.login()
        try await fixture.until("bob is told again, and carl's event") { delegate.values == ["bob": [1, 1], "carl": [1, 10_001]] }
        try await bob.logout()
        try await fixture.until("bob's logout is told") { delegate.values == ["bob": [1, 1, 2], "carl": [1, 10_001]] }
        await ann.client.close()
        try await fixture.stop()
    }

    @Test("Only type 1 exists, and the expiry has a range") func typesAndExpiry() async throws {
        let fixture = try await ServedCluster.serving("commsease")
        let manager = try NIMEventSubscribeManager(fixture.configuration(of: "ann"))
        await #expect(throws: NIMError.self) {
            try await manager.subscribeEvent(NIMSubscribeRequest(type: 2, expiry: 60, publishers: ["bob"]))
        }
        let error = await #expect(throws: NIMError.self) {
            try await manager.subscribeEvent(NIMSubscribeRequest(expiry: 59, publishers: ["bob"]))
        }
        #expect(error?.code == 6017 && error?.message.contains("expiry") == true)
        await #expect(throws: NIMError.self) { try await manager.querySubscribeEvent(NIMSubscribeRequest()) }
        await manager.client.close()
        try await fixture.stop()
    }
}
