import CommsEaseStatus
import NodeFixture
import PresenceClient
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

    @Test("The prototypes of the document run") func prototypes() async throws {
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

    private static let session = Session(
        sessionID: "s1", userID: "ann", node: "n", heartbeatInterval: 30, heartbeatTimeout: 400, serverTime: 1_000)

    @Test("Only the new parts of a status are events") func newParts() {
        var told = DeliveredEvents(Self.session)
        var bob = UserStatus(userID: "bob", statusType: .online, version: "01")
        bob.lastOnlineStatusUpdateTime = 900
        let login = told.undelivered(of: bob)
        #expect(login.map(\.value) == [1] && login.first?.timestamp == 0.9 && login.first?.sendToOnlineUsersOnly == false)
        bob.customStatus = "a text, which is no event here"
        #expect(told.undelivered(of: bob) == [])
        bob.event = UserStatus.Event(eventID: "e1", value: 10_001, ext: "busy", publishedAt: 1_000, expiresAt: 61_000)
        bob.lastUpdateTime = 7_000
        #expect(told.undelivered(of: bob).map(\.value) == [10_001])
        #expect(told.undelivered(of: bob) == [])
        bob.statusType = .offline
        #expect(told.undelivered(of: bob).map(\.value) == [3])
    }

    @Test("N11 A received event has the identity, the times and the flags of its publication") func ownFields() throws {
        var told = DeliveredEvents(Self.session)
        var bob = UserStatus(userID: "bob", statusType: .online, onlinePlatforms: ["ios"], version: "01")
        bob.lastUpdateTime = 99_000
        bob.loginEvent = UserStatus.Event(
            eventID: "e1", value: 10_001, ext: "x", publishedAt: 500, expiresAt: 60_500, sendToOnlineUsersOnly: false, syncEnabled: false)
        bob.event = UserStatus.Event(eventID: "e2", value: 10_002, publishedAt: 2_000, expiresAt: 3_602_000)
        let events = told.undelivered(of: bob)
        #expect(events.map(\.value) == [1, 10_001, 10_002])
        #expect(events.map(\.eventId).suffix(2) == ["e1", "e2"] && events.map(\.timestamp).suffix(2) == [0.5, 2])
        #expect(events.map(\.expiry).suffix(2) == [60, 3_600] && events.map(\.ext).suffix(2) == ["x", ""])
        #expect(events.map(\.sendToOnlineUsersOnly).suffix(2) == [false, true] && events.map(\.syncEnabled).suffix(2) == [false, true])
        #expect(events.allSatisfy { $0.from == "bob" && $0.subscribeInfo?.onlinePlatforms == ["ios"] })
        // The publisher is answered the same, also when a newer event is in force already.
        var published = NIMSubscribeEvent(value: 10_001, expiry: 3_600)
        published.wasPublished(PublishAnswer(eventID: "e1", userStatus: bob))
        #expect(published.eventId == "e1" && published.timestamp == 0.5 && published.expiry == 60 && published.from == "bob")
        published.wasPublished(PublishAnswer(eventID: "e0", userStatus: bob))
        #expect(published.eventId == "e0")
    }

    @Test("The own login, logout and loss are not events; what the own account publishes is") func ownRecord() {
        var told = DeliveredEvents(Self.session)
        var ann = UserStatus(userID: "ann", statusType: .online, version: "01")
        #expect(told.undelivered(of: ann) == [])
        ann.event = UserStatus.Event(eventID: "e1", value: 10_001, publishedAt: 2_000, expiresAt: 62_000, sessionID: "s9")
        #expect(told.undelivered(of: ann).map(\.value) == [10_001])
        ann.event = UserStatus.Event(
            eventID: "e2", value: 10_002, publishedAt: 2_000, expiresAt: 62_000, syncEnabled: false, sessionID: "s9")
        #expect(told.undelivered(of: ann) == [])
        ann.statusType = .offline
        #expect(told.undelivered(of: ann) == [])
    }

    @Test("A requested current value includes the event in force, whatever its flags, and is sent once") func askedFor() {
        var told = DeliveredEvents(Self.session)
        var bob = UserStatus(userID: "bob", statusType: .online, version: "01")
        bob.event = UserStatus.Event(eventID: "e1", value: 10_001, publishedAt: 10, expiresAt: 60_010)
        #expect(told.undelivered(of: bob).map(\.value) == [1], "published before the login, for those who were online then")
        told.awaited = [UserKey("bob")]
        #expect(told.undelivered(of: bob).map(\.value) == [1, 10_001])
        #expect(told.undelivered(of: bob) == [])
    }

    @Test("Only the sync of type 1 ends the time in which all users count as offline") func syncOfTypeOne() {
        var told = DeliveredEvents()
        told.connected(Self.session)
        told.synced(.friendOnlineStatus)
        #expect(told.undelivered(of: UserStatus(userID: "bob", statusType: .offline, version: "01")) == [])
        told.synced(.onlineStatus)
        #expect(told.undelivered(of: UserStatus(userID: "carl", statusType: .offline, version: "01")).map(\.value) == [3])
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
        #expect(try await fixture.admin("setAppPolicy", #"{"preset":"commsease"}"#).status == 200)
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

    @Test("An OFFLINE user is sent only outside of a login, or on request") func offlineUsers() {
        var told = DeliveredEvents()
        told.isSyncing = true
        var bob = UserStatus(userID: "bob", statusType: .offline, version: "01")
        #expect(told.undelivered(of: bob) == [], "a login begins with everybody offline (N21)")
        told.awaited = [UserKey("bob")]
        #expect(told.undelivered(of: bob).map(\.value) == [3] && told.undelivered(of: bob) == [], "asked for (N8)")
        told.isSyncing = false
        #expect(told.undelivered(of: UserStatus(userID: "carl", statusType: .unlogined, version: "01")).map(\.value) == [2])
        bob.statusType = .online
        #expect(told.undelivered(of: bob).map(\.value) == [1])
        told.isSyncing = true
        bob.statusType = .offline
        #expect(told.undelivered(of: bob).map(\.value) == [3], "the delegate takes bob for online")
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
