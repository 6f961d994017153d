import NodeFixture
import Synchronization
import Testing
import ZIMStatus

extension ConformanceTests {
    /// `documents/003…`, preset `zim`.
    @Suite(.serialized) struct ZIMTests {
        static let hour = #""expiry":3600"#

        /// Keeps the calls of the document's handler.
        final class Handler: ZIMEventHandler {
            private let told = Mutex<(statuses: [ZIMUserStatus], states: [ZIMConnectionState])>(([], []))

            var states: [ZIMConnectionState] { told.withLock { $0.states } }
            func newest(_ user: String) -> ZIMUserStatus? { told.withLock { $0.statuses.last { $0.userID == user } } }

            func zim(_ zim: ZIM, userStatusUpdated userStatusList: [ZIMUserStatus]) { told.withLock { $0.statuses += userStatusList } }

            func zim(
                _ zim: ZIM, connectionStateChanged state: ZIMConnectionState, event: ZIMConnectionEvent, extendedData: [String: String]
            ) { told.withLock { $0.states.append(state) } }
        }

        @Test("Z1 A smaller plan is answered 7013: for others' statuses, for one's own, and at login") func plan() async throws {
            let app = try await App("zim", #"{"plan":"basic"}"#)
            try await app.register(["bob"])
            for node in 0..<3 {
                #expect(try await app.call("setSelfStatus", #"{"customStatus":"Busy"}"#, node: node).code == 7013)
                #expect(try await app.call("publishEvent", #"{"value":10000}"#, node: node).code == 7013)
                let refused = await #expect(throws: TestFailure.self) {
                    try await app.login("ann", node: node, query: "platform=ios&customStatus=Busy")
                }
                #expect(refused?.description.contains(#""code":7013"#) == true)
                // A login that sets nothing is not a part of the feature.
                let plain = try await app.login("ann", node: node, query: "platform=ios&customStatus=")
                #expect(plain.statuses(of: "ann").allSatisfy { $0.custom == "" })
                plain.close()
                #expect(try await app.call("subscribeUserStatus", users(["bob"], Self.hour), node: node).code == 7013)
                #expect(try await app.call("getUserStatus", users(["bob"]), node: node).code == 7013)
            }
            try await app.set(#"{"plan":"premium"}"#, node: 2)
            for node in 0..<3 { #expect(try await app.call("getUserStatus", users(["bob"]), node: node).errors == []) }
            #expect(try await app.setStatus("Busy", of: "ann", node: 1).code == 0)
        }

        @Test("Z2 Z3 Login is online, logout logged out, a broken connection offline; no call sets them") func onlineStatus() async throws {
            let app = try await App("zim")
            try await app.register(["bob"])
            let zim = try ZIM(app.configuration(of: "ann", nodes: [0]))
            let handler = Handler()
            zim.setEventHandler(handler)
            try await zim.login()
            #expect(try await zim.subscribeUsersStatus(["bob"], config: ZIMUserStatusSubscribeConfig(subscriptionDuration: 1)) == [])
            try await app.cluster.until("bob is logged out") { handler.newest("bob")?.onlineStatus == .logout }
            var bob = try await app.login("bob", node: 2)
            try await app.cluster.until("bob is online") { handler.newest("bob")?.onlineStatus == .online }
            let body = #"{"customStatus":"x","onlineStatus":1,"statusType":"OFFLINE"}"#
            #expect(try await app.call("setSelfStatus", body, as: "bob", node: 1)["userStatus"].custom == "x")
            #expect(try await app.status(of: "bob", node: 2).general == "ONLINE")
            bob.close()
            try await app.cluster.until("bob is offline") { handler.newest("bob")?.onlineStatus == .offline }
            bob = try await app.login("bob", node: 1)
            try await app.cluster.until("bob is online again") { handler.newest("bob")?.onlineStatus == .online }
            #expect(try await app.call("logout", "{}", as: "bob", node: 2).code == 0)
            try await app.cluster.until("bob is logged out again") { handler.newest("bob")?.onlineStatus == .logout }
            try await zim.logout()
        }

        @Test("Z4 64 bytes of custom status, of any characters; not 65") func customStatusBytes() async throws {
            let app = try await App("zim")
            try await app.register(["ann"])
            let edge = String(repeating: "漢", count: 20) + "ab" + "é"
            #expect(edge.utf8.count == 64)
            #expect(try await app.call("setSelfStatus", "{\"customStatus\":\"\(edge)\"}", node: 1)["userStatus"].custom == edge)
            for long in [edge + "x", String(repeating: "é", count: 33), String(repeating: "x", count: 65)] {
                let refused = try await app.call("setSelfStatus", "{\"customStatus\":\"\(long)\"}", node: 2)
                #expect(refused.code == 6017 && refused.detail.hasPrefix("customStatus:"))
            }
            #expect(try await app.status(of: "ann").custom == edge)
        }

        @Test("Z5 A custom status ends after a day by itself, with a notice, and not when its user is offline") func customStatusEnds()
            async throws
        {
            let app = try await App("zim")
            try await app.register(["bob"])
            #expect(try await app.policy(node: 1)["settings"]["customStatus.ttl"]?.number == 86_400)
            let ann = try await app.login("ann", node: 0)
            #expect(try await app.call("subscribeUserStatus", users(["bob"], Self.hour)).code == 0)
            let bob = try await app.login("bob", node: 1)
            #expect(try await app.call("setSelfStatus", #"{"customStatus":"for a day"}"#, as: "bob", node: 2).code == 0)
            bob.close()
            let lost = try await ann.status(of: "bob") { $0.general == "OFFLINE" }
            #expect(lost.custom == "for a day")
            try await app.set(#"{"customStatus.ttl":1}"#)
            #expect(try await app.setStatus("for a second", of: "bob", node: 2).code == 0)
            try await ann.status(of: "bob") { $0.custom == "for a second" }
            try await ann.status(of: "bob") { $0.custom == "" && $0.general == "OFFLINE" }
        }

        @Test("Z5 A custom status is valid for a day at most: more is refused") func longestCustomStatus() async throws {
            let app = try await App("zim")
            try await app.register(["ann"])
            for expiry in [86_401, 2_592_000, 0] {
                let refused = try await app.call("setSelfStatus", "{\"customStatus\":\"long\",\"expiry\":\(expiry)}", node: 1)
                #expect(refused.status == 400 && refused.code == 6017 && refused.detail == "expiry: \(expiry) is not in 1...86400")
            }
            let answer = try await app.call("setSelfStatus", #"{"customStatus":"a day","expiry":86400}"#, node: 2)
            #expect(answer.code == 0 && answer["userStatus"].custom == "a day")
        }

        @Test("Z5 A validity of 0 is bound by the longest validity as well") func unlimitedCustomStatus() async throws {
            let app = try await App("zim", #"{"customStatus.ttl":0}"#)
            #expect(try await app.policy(node: 1)["settings"]["customStatus.ttl"]?.number == 86_400)
            try await app.set(#"{"customStatus.ttlMax":1}"#, node: 2)
            let ann = try await app.login("ann", node: 0)
            #expect(try await app.call("setSelfStatus", #"{"customStatus":"for a second"}"#, node: 1).code == 0)
            let set = try await ann.status(of: "ann") { $0.custom == "for a second" }
            let setAt = try #require(set["lastCustomStatusUpdateTime"]?.number)
            try await ann.status(of: "ann") { $0.custom == "" && $0["lastCustomStatusUpdateTime"]?.number ?? 0 > setAt }
        }

        @Test("A text that is set before a switch of the preset keeps its length and its end") func textBeforeSwitch() async throws {
            let app = try await App("rollcall")
            let text = String(repeating: "x", count: 256)
            let ann = try await app.login("ann", node: 0)
            #expect(try await app.call("setSelfStatus", "{\"customStatus\":\"\(text)\",\"expiry\":172800}", node: 1).code == 0)
            let version = try await app.status(of: "ann", node: 2)["version"]?.text
            #expect(try await app.admin("setAppPolicy", #"{"preset":"zim"}"#, node: 2).status == 200)
            for node in 0..<3 {
                let kept = try await app.status(of: "ann", node: node)
                #expect(kept.custom == text && kept["version"]?.text == version)
            }
            #expect(try await app.call("setSelfStatus", "{\"customStatus\":\"\(text)\"}", node: 1).code == 6017)
            ann.close()
        }

        @Test("A text that the old preset kept for a user who is OFFLINE ends with a switch to one that clears it")
        func textOfAbsentUser() async throws {
            let app = try await App("rollcall")
            let (ann, ben) = (try await app.login("ann", node: 0), try await app.login("ben", node: 1))
            _ = try await app.call("subscribeUserStatus", users(["ann"]), as: "ben", node: 2)
            #expect(try await app.call("setSelfStatus", #"{"customStatus":"own end","expiry":3600}"#, node: 1).code == 0)
            ann.close()
            try await ben.status(of: "ann") { $0.general == "OFFLINE" && $0.custom == "own end" }
            #expect(try await app.admin("setAppPolicy", #"{"preset":"tencent"}"#, node: 2).status == 200)
            try await ben.status(of: "ann") { $0.general == "OFFLINE" && $0.custom == "" }
            for node in 0..<3 { #expect(try await app.status(of: "ann", as: "ben", node: node).custom == "") }
        }

        @Test("Z22 Answers show the user itself as its streams do: one version has one content") func ownContent() async throws {
            let app = try await App("zim", #"{"query.selfAllowed":true}"#)
            let ann = try await app.login("ann", node: 0)
            let set = try await app.setStatus("Busy", of: "ann", node: 1)["userStatus"]
            let told = try await ann.status(of: "ann") { $0.custom == "Busy" }
            #expect(set == told)
            #expect(told.general == "UNKNOWN" && told["lastUpdateTime"]?.number == 0)
            for node in 0..<3 { #expect(try await app.status(of: "ann", as: "ann", node: node) == told) }
            let published = try await app.call("publishEvent", #"{"value":10000}"#, node: 2)["userStatus"]
            #expect(published.event == 10_000)
            #expect(try await ann.status(of: "ann") { $0.event == 10_000 } == published)
            #expect(try await app.status(of: "ann").general == "ONLINE")
            ann.close()
        }

        @Test("Z5 Z8 What a login sets lasts as long as what a call sets") func customStatusOfLoginEnds() async throws {
            let app = try await App("zim", #"{"customStatus.ttl":1}"#)
            let ann = try await app.login("ann", node: 0, query: "platform=ios&customStatus=Busy")
            try await ann.status(of: "ann") { $0.custom == "Busy" }
            try await ann.status(of: "ann") { $0.custom == "" }
        }

        @Test("Z6 Z7 One update a second, answered with the text; the next is refused with the time to wait") func updateRate() async throws
        {
            let app = try await App("zim")
            try await app.register(["bob"])
            let zim = try ZIM(app.configuration(of: "ann", nodes: [1]))
            #expect(try await zim.updateUserCustomStatus("Do Not Disturb") == "Do Not Disturb")
            // Two at once at two nodes, until a busy machine takes both within a second.
            try await app.cluster.until("of two updates in a second one is refused") {
                async let one = app.call("setSelfStatus", #"{"customStatus":"1"}"#, as: "bob", node: 1)
                async let other = app.call("setSelfStatus", #"{"customStatus":"1"}"#, as: "bob", node: 2)
                let answers = try await [one, other].sorted { $0.code < $1.code }
                return answers.map(\.code) == [0, 7008] && answers[1].status == 429 && answers[1]["retryAfter"].number == 1
            }
            #expect(try await app.status(of: "bob").custom == "1")
            try await app.cluster.until("a second later one more is right") {
                try await app.call("setSelfStatus", #"{"customStatus":"3"}"#, as: "bob", node: 0).code == 0
            }
            let error = await #expect(throws: ZIMError.self) { try await zim.updateUserCustomStatus(String(repeating: "x", count: 65)) }
            #expect(error?.code == 6017)
            await zim.client.close()
        }

        @Test("Z8 A login sets the custom status, or leaves it") func loginConfig() async throws {
            let app = try await App("zim")
            var zim = try ZIM(app.configuration(of: "ann"))
            var config = ZIMLoginConfig()
            config.customStatus = "Busy"
            try await zim.login(config: config)
            try await app.cluster.until("it is set") { try await app.status(of: "ann").custom == "Busy" }
            try await zim.logout()
            zim = try ZIM(app.configuration(of: "ann"))
            try await zim.login()
            try await app.until("ann", isSeenAs: "ONLINE")
            #expect(try await app.status(of: "ann", node: 2).custom == "Busy")
            let raw = try await app.login("ann", node: 1, query: "platform=web&customStatus=")
            try await raw.status(of: "ann") { $0.platforms == ["ios", "web"] && $0.custom == "Busy" }
            try await zim.logout()
        }
    }
}

extension App {
    /// Waits until `target` has a general status, as another user sees it, because a user may not query itself here.
    func until(_ target: String, isSeenAs type: String) async throws {
        var watchers = 0
        try await cluster.until("\(target) is \(type)") {
            watchers += 1
            return try await status(of: target, as: "watcher\(watchers)").general == type
        }
    }
}
