import NodeFixture
import PresenceClient
import PresenceWire
import Testing

@testable import CommsEaseStatus

/// The calls of `documents/002…`; it shows prototypes and no samples.
@Suite(.timeLimit(.minutes(1))) struct CommsEaseStatusTests {
    private final class Delegate: NIMEventSubscribeManagerDelegate {
        let events = Box<NIMSubscribeEvent>()

        func onRecvSubscribeEvents(_ events: [NIMSubscribeEvent]) { self.events.add(events) }

        /// Of bob and carl.
        var values: [String: [Int64]] {
            var values: [String: [Int64]] = [:]
            for event in events.all { if let user = event.from, user != "ann" { values[user, default: []].append(event.value) } }
            return values
        }

        func values(from user: String) -> [Int64] { values[user] ?? [] }
    }

    @Test func thePrototypesOfTheDocumentRun() async throws {
        let fixture = try await Fixture.start { $0.core.offlineGrace = .zero }
        let manager = try NIMEventSubscribeManager(try await fixture.configuration(of: "ann"))
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

        // Subscribing again renews the validity, and tells what is so again; who is refused is not told.
        #expect(try await manager.subscribeEvent(request) == [])
        try await fixture.until("the present value is told again") { delegate.values(from: "bob").count == 2 }
        #expect(delegate.values(from: "bob") == [NIMSubscribeEventOnlineValue.logout, NIMSubscribeEventOnlineValue.logout])
        request.syncEnabled = false
        #expect(try await manager.subscribeEvent(request) == [])

        // Login, abnormal disconnection, logout (N3).
        var bob = try NIMEventSubscribeManager(try await fixture.configuration(of: "bob"))
        try await bob.login()
        try await fixture.until("bob's login is told") { delegate.values(from: "bob").last == NIMSubscribeEventOnlineValue.login }
        await bob.client.close()
        try await fixture.until("bob's loss is told") { delegate.values(from: "bob").last == NIMSubscribeEventOnlineValue.offline }
        bob = try NIMEventSubscribeManager(try await fixture.configuration(of: "bob"))
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

    @Test func onlyWhatIsNewInAStatusIsAnEvent() {
        var told = ToldEvents()
        var bob = UserStatus(userID: "bob", statusType: .online, version: "01")
        #expect(told.untold(of: bob).map(\.value) == [1])
        bob.customStatus = "a text, which is no event here"
        #expect(told.untold(of: bob) == [])
        bob.event = UserStatus.Event(value: 10_001, ext: "busy", expiresAt: 61_000)
        bob.lastUpdateTime = 1_000
        let published = told.untold(of: bob)
        #expect(published.map(\.value) == [10_001] && published.first?.ext == "busy" && published.first?.expiry == 60)
        #expect(published.first?.from == "bob" && published.first?.timestamp == 1)
        bob.statusType = .offline
        #expect(told.untold(of: bob).map(\.value) == [3])
    }

    @Test func aLoginTellsWhoIsOnlineAndWhatWasPublishedAlsoTheSecondOne() async throws {
        let fixture = try await Fixture.start { $0.core.policy = Policy(.commsease) }
        let (ann, bob, carl) = (
            try NIMEventSubscribeManager(try await fixture.configuration(of: "ann")),
            try NIMEventSubscribeManager(try await fixture.configuration(of: "bob")),
            try NIMEventSubscribeManager(try await fixture.configuration(of: "carl"))
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

    @Test func whoIsOfflineIsToldOnlyOutsideOfALoginAndWhatIsAskedForAgain() {
        var told = ToldEvents()
        told.isSyncing = true
        var bob = UserStatus(userID: "bob", statusType: .offline, version: "01")
        #expect(told.untold(of: bob) == [], "a login begins with everybody offline (N21)")
        told.awaited = [UserKey("bob")]
        #expect(told.untold(of: bob).map(\.value) == [3] && told.untold(of: bob) == [], "asked for (N8)")
        told.isSyncing = false
        #expect(told.untold(of: UserStatus(userID: "carl", statusType: .unlogined, version: "01")).map(\.value) == [2])
        bob.statusType = .online
        #expect(told.untold(of: bob).map(\.value) == [1])
        told.isSyncing = true
        bob.statusType = .offline
        #expect(told.untold(of: bob).map(\.value) == [3], "the delegate takes bob for online")
    }

    @Test func onlyTypeOneIsThereAndTheExpiryHasARange() async throws {
        let fixture = try await Fixture.start()
        let manager = try NIMEventSubscribeManager(try await fixture.configuration(of: "ann"))
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
