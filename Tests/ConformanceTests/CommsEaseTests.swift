import CommsEaseStatus
import NodeFixture
import Synchronization
import Testing

extension ConformanceTests {
    /// `documents/002…`, preset `commsease`.
    @Suite(.serialized) struct CommsEaseTests {
        static let hour = #""expiry":3600"#

        /// Keeps what the document's delegate receives.
        final class Delegate: NIMEventSubscribeManagerDelegate {
            private let received = Mutex<[[NIMSubscribeEvent]]>([])

            var calls: [[NIMSubscribeEvent]] { received.withLock { $0 } }
            func events(from user: String) -> [NIMSubscribeEvent] { calls.joined().filter { $0.from == user } }
            func values(from user: String) -> [Int64] { events(from: user).map(\.value) }

            func onRecvSubscribeEvents(_ events: [NIMSubscribeEvent]) { received.withLock { $0.append(events) } }
        }

        /// A client of the document's SDK that is logged in, and its delegate.
        static func login(_ user: String, _ app: App, node: Int) async throws -> (NIMEventSubscribeManager, Delegate) {
            let manager = try NIMEventSubscribeManager(app.configuration(of: user, nodes: [node]))
            let delegate = Delegate()
            manager.addDelegate(delegate)
            try await manager.login()
            return (manager, delegate)
        }

        @Test("N1 N4 A subscribe call names type 1, a validity and publishers") func subscribeRequest() async throws {
            let app = try await App("commsease")
            let manager = try NIMEventSubscribeManager(app.configuration(of: "ann"))
            for type in [0, 2] {
                let request = NIMSubscribeRequest(type: type, expiry: 60, publishers: ["bob"])
                await #expect(throws: NIMError.self) { try await manager.subscribeEvent(request) }
                var event = NIMSubscribeEvent(value: 10_000)
                event.type = type
                await #expect(throws: NIMError.self) { try await manager.publishEvent(event) }
            }
            for type in [0, 5] {
                let answer = try await app.call("subscribeUserStatus", users(["bob"], "\(Self.hour),\"subscribeType\":\(type)"), node: 1)
                #expect(answer.code == 6017 && answer.detail.hasPrefix("subscribeType:"))
            }
            let noExpiry = try await app.call("subscribeUserStatus", users(["bob"]), node: 1)
            #expect(noExpiry.code == 6017 && noExpiry.detail.hasPrefix("expiry:"))
            let nobody = try await app.call("subscribeUserStatus", "{\(Self.hour)}", node: 2)
            #expect(nobody.code == 6017 && nobody.detail.hasPrefix("userIDs:"))
            #expect(try await manager.subscribeEvent(NIMSubscribeRequest(expiry: 60, publishers: ["bob"])) == [])
            #expect(try await manager.querySubscribeEvent(NIMSubscribeRequest(publishers: ["bob"])).map(\.type) == [1])
            await manager.client.close()
        }

        @Test("N2 N10 Values from 10,000 are the app's; 9,999 and the provider's are refused") func values() async throws {
            let app = try await App("commsease")
            let (ann, received) = try await Self.login("ann", app, node: 0)
            try await ann.subscribeEvent(NIMSubscribeRequest(expiry: 60, publishers: ["bob"]))
            let (bob, _) = try await Self.login("bob", app, node: 2)
            for value: Int64 in [-1, 0, 1, 3, 9_999, 2_147_483_648] {
                let error = await #expect(throws: NIMError.self) { try await bob.publishEvent(NIMSubscribeEvent(value: value)) }
                #expect(error?.code == 6017 && error?.message.hasPrefix("value:") == true)
            }
            #expect(try await app.call("publishEvent", #"{"ext":"no value"}"#, as: "bob").code == 6017)
            #expect(try await app.status(of: "bob").event == nil)
            for value: Int64 in [10_000, 2_147_483_647] {
                try await bob.publishEvent(NIMSubscribeEvent(value: value))
                try await app.cluster.until("\(value) is received") { received.values(from: "bob").last == value }
            }
            #expect(received.values(from: "bob") == [1, 10_000, 2_147_483_647])
            try await ann.logout()
            try await bob.logout()
        }

        @Test("N3 N20 N22 The server sends login, disconnection without push, logout, and the next login") func systemValues()
            async throws
        {
            let app = try await App("commsease")
            let (ann, received) = try await Self.login("ann", app, node: 0)
            try await ann.subscribeEvent(NIMSubscribeRequest(expiry: 60, publishers: ["bob"]))
            var expected: [Int64] = []
            for (end, node) in [(3 as Int64, 1), (2, 2), (3, 0)] {
                let bob = try await app.login("bob", node: node)
                expected.append(NIMSubscribeEventOnlineValue.login)
                try await app.cluster.until("bob's login is received") { received.values(from: "bob") == expected }
                if end == 3 { bob.close() } else { #expect(try await app.call("logout", "{}", as: "bob", node: 1).code == 0) }
                expected.append(end)
                try await app.cluster.until("bob's end \(end) is received") { received.values(from: "bob") == expected }
            }
            try await ann.logout()
        }

        @Test("N5 N16 100 publishers a call, to follow and to ask about; one more is refused") func batches() async throws {
            let app = try await App("commsease")
            #expect(try await app.call("subscribeUserStatus", users(many(0..<100), Self.hour), node: 1).errors == [])
            #expect(try await app.call("subscribeUserStatus", users(many(200..<301), Self.hour), node: 1).code == 6017)
            let edge = try await app.call("getSubscribedUserStatus", users(many(50..<150)), node: 2)
            #expect(edge["subscriptions"].elements.map(\.user) == many(50..<100))
            let over = try await app.call("getSubscribedUserStatus", users(many(0..<101)), node: 2)
            #expect(over.code == 6017 && over.detail.contains("at most 100"))
            // The document's SDK takes more and makes several calls.
            let manager = try NIMEventSubscribeManager(app.configuration(of: "ann"))
            #expect(try await manager.subscribeEvent(NIMSubscribeRequest(expiry: 60, publishers: many(200..<301))) == [])
            let found = try await manager.querySubscribeEvent(NIMSubscribeRequest(publishers: many(190..<310)))
            #expect(found.map(\.publisher) == many(200..<301) && found.allSatisfy { $0.expiry == 60 })
            await manager.client.close()
        }

        @Test("N6 60 s to 30 days; after it the subscription ends by itself") func validity() async throws {
            let app = try await App("commsease")
            for (expiry, code) in [(59, 6017), (60, 0), (2_592_000, 0), (2_592_001, 6017), (-60, 6017)] {
                let answer = try await app.call("subscribeUserStatus", users(["bob"], "\"expiry\":\(expiry)"), node: 1)
                #expect(answer.code == code, "\(expiry) s: \(answer.json)")
            }
            try await app.set(#"{"subscription.ttlMin":1}"#)
            #expect(try await app.call("subscribeUserStatus", users(["carl"], #""expiry":1"#), node: 2).code == 0)
            try await app.cluster.until("the subscription has ended") {
                try await app.call("getSubscribedUserStatus", users(["bob", "carl"]))["subscriptions"].elements.map(\.user) == ["bob"]
            }
        }

        @Test("N7 Subscribing again replaces the validity, by a longer or a shorter one") func renewal() async throws {
            let app = try await App("commsease")
            for seconds: Int64 in [100, 2_000_000, 60] {
                #expect(try await app.call("subscribeUserStatus", users(["bob"], "\"expiry\":\(seconds)"), node: 1).code == 0)
                let row = try await app.call("getSubscribedUserStatus", users(["bob"]), node: 2)["subscriptions"].elements.first
                #expect((row?["expiresAt"]?.number ?? 0) - (row?["subscribedAt"]?.number ?? 0) == seconds * 1_000)
            }
        }

        @Test("N8 The present value is received at once with syncEnabled, and not without") func syncEnabled() async throws {
            let app = try await App("commsease")
            let (ann, received) = try await Self.login("ann", app, node: 0)
            let bob = try await app.login("bob", node: 1)
            let carl = try await app.login("carl", node: 2)
            #expect(NIMSubscribeRequest().syncEnabled == false)
            try await ann.subscribeEvent(NIMSubscribeRequest(expiry: 60, publishers: ["bob"]))
            try await ann.subscribeEvent(NIMSubscribeRequest(expiry: 60, syncEnabled: true, publishers: ["carl"]))
            try await app.cluster.until("carl's login is received") { received.values(from: "carl") == [1] }
            #expect(received.values(from: "bob") == [])
            // Later events are received.
            #expect(try await app.call("publishEvent", #"{"value":10001}"#, as: "bob", node: 2).code == 0)
            try await app.cluster.until("bob's event is received") { received.values(from: "bob").last == 10_001 }
            try await ann.logout()
            for session in [bob, carl] { session.close() }
        }

        @Test("N9 100 publishers an unsubscribe call; one more is refused, and none is unsubscribed") func unsubscribeBatch() async throws {
            let app = try await App("commsease")
            #expect(try await app.call("subscribeUserStatus", users(many(0..<100), Self.hour)).errors == [])
            let over = try await app.call("unsubscribeUserStatus", users(many(0..<101)), node: 1)
            #expect(over.code == 6017 && over.detail.contains("at most 100"))
            let followed = users(many(0..<100))
            #expect(try await app.call("getSubscribedUserStatus", followed, node: 2)["total"].number == 100)
            #expect(try await app.call("unsubscribeUserStatus", followed, node: 1).errors == [])
            #expect(try await app.call("getSubscribedUserStatus", followed, node: 2)["total"].number == 0)
        }

        @Test("N9 Without publishers every subscription ends") func unsubscribe() async throws {
            let app = try await App("commsease")
            let manager = try NIMEventSubscribeManager(app.configuration(of: "ann"))
            var request = NIMSubscribeRequest(expiry: 60, publishers: ["bob", "carl", "dora"])
            try await manager.subscribeEvent(request)
            #expect(try await manager.unSubscribeEvent(NIMSubscribeRequest(publishers: ["bob"])) == [])
            #expect(try await manager.querySubscribeEvent(request).map(\.publisher) == ["carl", "dora"])
            request.type = 2
            await #expect(throws: NIMError.self) { try await manager.unSubscribeEvent(request) }
            request.type = 1
            #expect(try await manager.unSubscribeEvent(NIMSubscribeRequest()) == [])
            #expect(try await manager.querySubscribeEvent(request) == [])
            await manager.client.close()
        }

        @Test("N15 Several events are received in one call") func batched() async throws {
            let app = try await App("commsease")
            let names = many(0..<6)
            var sessions: [Session] = []
            for (number, name) in names.enumerated() { sessions.append(try await app.login(name, node: number % 3)) }
            #expect(try await app.call("subscribeUserStatus", users(names, Self.hour)).code == 0)
            let (ann, received) = try await Self.login("ann", app, node: 0)
            try await app.cluster.until("all that are online are received") {
                Set(received.calls.joined().compactMap(\.from)).isSuperset(of: names)
            }
            #expect(names.allSatisfy { received.values(from: $0) == [1] })
            #expect(received.calls.contains { $0.count > 1 })
            try await ann.logout()
            for session in sessions { session.close() }
        }

        @Test("N17 There is no way to list all one's subscriptions") func noList() async throws {
            let app = try await App("commsease")
            #expect(try await app.call("subscribeUserStatus", users(["bob"], Self.hour)).code == 0)
            for body in ["{}", #"{"userIDs":[]}"#, #"{"offset":0,"limit":10}"#] {
                let answer = try await app.call("getSubscribedUserStatus", body, node: 1)
                #expect(answer.code == 6017 && answer.detail.hasPrefix("userIDs:"))
            }
        }

        @Test("N5 N18 At most 3,000 subscriptions are valid: 30 calls in a row make them, and 30 ask about them") func quota() async throws
        {
            let app = try await App("commsease")
            #expect(try await app.call("subscribeUserStatus", users(["first"], Self.hour)).errors == [])
            for start in stride(from: 0, to: 3_000, by: 100) {
                let answer = try await app.call("subscribeUserStatus", users(many(start..<start + 100), Self.hour), node: start / 100 % 3)
                #expect(answer.code == 0 && answer["evicted"].elements.map(\.text) == (start < 2_900 ? [] : ["first"]))
            }
            var count = try await app.call("getSubscribedUserStatus", users(["first"]), node: 1)["total"].number ?? 0
            for start in stride(from: 0, to: 3_000, by: 100) {
                count += try await app.call("getSubscribedUserStatus", users(many(start..<start + 100)), node: 2)["total"].number ?? 0
            }
            #expect(count == 3_000)
        }

        @Test("N24 Following is one-way") func oneWay() async throws {
            let app = try await App("commsease")
            let (ann, annReceived) = try await Self.login("ann", app, node: 0)
            let (bob, bobReceived) = try await Self.login("bob", app, node: 1)
            try await ann.subscribeEvent(NIMSubscribeRequest(expiry: 60, publishers: ["bob"]))
            #expect(try await bob.querySubscribeEvent(NIMSubscribeRequest(publishers: ["ann"])) == [])
            try await ann.publishEvent(NIMSubscribeEvent(value: 10_001))
            try await bob.publishEvent(NIMSubscribeEvent(value: 10_002))
            try await app.cluster.until("bob's event is received") { annReceived.values(from: "bob").contains(10_002) }
            try await app.cluster.until("his own is received") { bobReceived.values(from: "bob").contains(10_002) }
            try await app.cluster.until("her own is received") { annReceived.values(from: "ann").contains(10_001) }
            #expect(bobReceived.events(from: "ann") == [])
            // Both subscribe, both see.
            try await bob.subscribeEvent(NIMSubscribeRequest(expiry: 60, publishers: ["ann"]))
            try await ann.publishEvent(NIMSubscribeEvent(value: 10_003))
            try await app.cluster.until("ann's event is received") { bobReceived.values(from: "ann").contains(10_003) }
            try await ann.logout()
            try await bob.logout()
        }

        @Test("N25 N26 Every call ends in an answer, or in the code of the switch") func completions() async throws {
            let app = try await App("commsease")
            let manager = try NIMEventSubscribeManager(app.configuration(of: "ann"))
            let request = NIMSubscribeRequest(expiry: 60, publishers: ["bob", "bad\u{1}"])
            #expect(try await manager.subscribeEvent(request) == ["bad\u{1}"])
            #expect(try await manager.querySubscribeEvent(request).map(\.publisher) == ["bob"])
            #expect(try await manager.publishEvent(NIMSubscribeEvent(value: 10_001)).eventId != "")
            #expect(try await manager.unSubscribeEvent(request) == ["bad\u{1}"])
            try await app.set(#"{"userStatus.enabled":false}"#)
            let calls: [@Sendable () async throws -> Void] = [
                { _ = try await manager.subscribeEvent(request) }, { _ = try await manager.unSubscribeEvent(request) },
                { _ = try await manager.querySubscribeEvent(request) },
                { _ = try await manager.publishEvent(NIMSubscribeEvent(value: 10_001)) },
            ]
            for call in calls {
                let error = await #expect(throws: NIMError.self) { try await call() }
                #expect(error?.code == 72_001)
            }
            await manager.client.close()
        }
    }
}
