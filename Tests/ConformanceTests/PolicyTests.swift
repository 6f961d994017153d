import NodeFixture
import Testing

extension ConformanceTests {
    /// Changes that an administrator makes on a running cluster.
    @Suite(.serialized) struct PolicyTests {
        @Test("All nodes apply a change before it is answered, and excluded users receive nothing after that")
        func change() async throws {
            let app = try await App("tencent")
            let watchers = [try await app.login("w0", node: 0), try await app.login("w1", node: 1), try await app.login("w2", node: 2)]
            // The target's own sessions show when the gateways of each node have had a change.
            let own = [try await app.login("bob", node: 0), try await app.login("bob", node: 1), try await app.login("bob", node: 2)]
            for node in 0..<3 { #expect(try await app.call("subscribeUserStatus", users(["bob"]), as: "w\(node)", node: node).code == 0) }
            for round in 0..<3 {
                try await setBob("allowed\(round)", app, node: round)
                for session in watchers + own { try await session.status(of: "bob") { $0.custom == "allowed\(round)" } }
                let start = ContinuousClock.now
                try await app.set(#"{"userStatus.enabled":false}"#, node: round)
                for node in 0..<3 { #expect(try await app.call("getUserStatus", users(["bob"]), as: "w0", node: node).code == 72001) }
                // A second on an idle machine (Tests/Chaos/policy-change); here the nodes share two cores with other tests.
                #expect(ContinuousClock.now - start < .seconds(4))
                try await setBob("secret\(round)", app, node: (round + 1) % 3)
                for session in own { try await session.status(of: "bob") { $0.custom == "secret\(round)" } }
                for (node, session) in watchers.enumerated() {
                    #expect(try await app.call("setSelfStatus", "{\"customStatus\":\"\(round)\"}", as: "w\(node)", node: round).code == 0)
                    try await session.status(of: "w\(node)") { $0.custom == "\(round)" }
                    #expect(session.statuses(of: "bob").last?.custom == "allowed\(round)")
                }
                try await setBob("", app, node: round)
                // A gateway that has not received the last change yet may still show the earlier one.
                for session in own { try await session.status(of: "bob") { $0.custom == "" } }
                try await app.set(#"{"userStatus.enabled":true}"#, node: (round + 2) % 3)
            }
            for session in watchers {
                try await session.status(of: "bob") { $0.custom == "" }
                #expect(session.statuses(of: "bob").allSatisfy { $0.custom?.hasPrefix("secret") == false })
            }
        }

        private func setBob(_ text: String, _ app: App, node: Int) async throws {
            #expect(try await app.call("setSelfStatus", "{\"customStatus\":\"\(text)\"}", as: "bob", node: node).code == 0)
        }

        @Test("Open streams are told what a new policy shows in another way: platforms, the own status, another preset", arguments: 0..<3)
        func shownAnew(node: Int) async throws {
            let app = try await App("rollcall")
            let ann = try await app.login("ann", node: 1, query: "platform=web")
            let watcher = try await app.login("watcher", node: node)
            #expect(try await app.call("subscribeUserStatus", users(["ann"]), as: "watcher", node: node).code == 0)
            try await watcher.status(of: "ann") { $0.platforms == ["web"] }
            func told(_ session: Session, _ count: Int, _ user: String = "ann") async throws -> JSON {
                try await session.until("\(count) statuses of \(user)") { events in
                    let lists = events.filter { $0.name == "onUserStatusChanged" }.map { $0.json["userStatusList"]?.elements ?? [] }
                    return lists.joined().count { $0.user == user } == count
                }
                return try #require(session.statuses(of: user).last)
            }
            let (count, ownCount) = (watcher.statuses(of: "ann").count, ann.statuses(of: "ann").count)
            let version = ann.statuses(of: "ann").last?["version"]?.text
            try await app.set(#"{"device.exposePlatforms":false}"#, node: 2)
            #expect(try await told(watcher, count + 1).platforms == [])
            #expect(try await told(ann, ownCount + 1).platforms == [])
            try await app.set(#"{"device.exposePlatforms":true}"#, node: 0)
            #expect(try await told(watcher, count + 2).platforms == ["web"])
            #expect(try await told(ann, ownCount + 2).platforms == ["web"])
            try await app.set(#"{"self.reportStatus":"unknown"}"#, node: 1)
            #expect(try await told(ann, ownCount + 3).general == "UNKNOWN")
            let answer = try await app.admin("setAppPolicy", #"{"preset":"tencent"}"#, node: 2)
            #expect(answer.status == 200)
            let own = try await told(ann, ownCount + 4)
            #expect(own.general == "ONLINE" && own.platforms == [])
            let seen = try await told(watcher, count + 3)
            #expect(seen.general == "ONLINE" && seen.platforms == [])
            #expect(own["version"]?.text == version && seen["version"]?.text == version)
        }

        @Test(
            "A stream that resumes on any node after a change of the policy is told the records as they look now, with the same version",
            arguments: 0..<3)
        func shownAnewOnResume(node: Int) async throws {
            let app = try await App("rollcall")
            let ann = try await app.login("ann", node: 1, query: "platform=web")
            let first = try await app.login("watcher", node: 0)
            #expect(try await app.call("subscribeUserStatus", users(["ann"]), as: "watcher").code == 0)
            let version = try await first.status(of: "ann") { $0.platforms == ["web"] }["version"]?.text
            var position = try await position(of: first, "watcher", app)
            first.close()
            let changes = [
                (#"{"device.exposePlatforms":false}"#, [], "ONLINE"), (#"{"self.reportStatus":"unknown"}"#, [], "UNKNOWN"),
                (#"{"device.exposePlatforms":true}"#, ["web"], "UNKNOWN"),
            ]
            for (settings, platforms, own) in changes {
                try await app.set(settings, node: 2)
                let resumed = try await app.login("watcher", node: node, query: "platform=ios&lastEventID=\(position)")
                let told = try await resumed.status(of: "ann") { $0.platforms == platforms }
                #expect(told.general == "ONLINE" && told["version"]?.text == version)
                try await resumed.status(of: "watcher") { $0.general == own }
                position = try await self.position(of: resumed, "watcher", app)
                resumed.close()
            }
            ann.close()
        }

        /// The position of a session after all that has been done before.
        private func position(of session: Session, _ user: String, _ app: App) async throws -> String {
            let written = try await app.call("setSelfStatus", #"{"customStatus":"before"}"#, as: user)
            let time = try #require(written["userStatus"]["lastCustomStatusUpdateTime"]?.number)
            var (position, number) = ("", 0)
            try await app.cluster.until("the position of \(user) is later") {
                number += 1
                let text = "after \(number)"
                #expect(try await app.call("setSelfStatus", "{\"customStatus\":\"\(text)\"}", as: user).code == 0)
                try await session.status(of: user) { $0.custom == text }
                position = session.events.last { !$0.id.isEmpty }?.id ?? ""
                return Int64(position) ?? 0 > time
            }
            return position
        }

        @Test("Under a smaller quota the earliest subscriptions are inactive, and open devices are told, as when they come back")
        func smallerQuota() async throws {
            let app = try await App("zim")
            try await app.register(["ann", "a", "b", "c"])
            for name in ["c", "b", "a"] {
                #expect(try await app.call("subscribeUserStatus", users([name], #""expiry":600"#), node: 1).code == 0)
            }
            let ann = try await app.login("ann", node: 0)
            let others = [try await app.login("a", node: 1), try await app.login("b", node: 1), try await app.login("c", node: 1)]
            try await ann.status(of: "c") { $0.general == "ONLINE" }
            try await app.set(#"{"subscription.maxPerSubscriber":2}"#, node: 2)
            try await told(ann, of: "c", as: "unsubscribed")
            #expect(try await app.followed() == ["a", "b"])
            #expect(try await app.followedCount() == 2)
            try await app.setStatus("inactive", of: "c", node: 2)
            try await app.setStatus("active", of: "a", node: 2)
            try await ann.status(of: "a") { $0.custom == "active" }
            #expect(ann.statuses(of: "c").allSatisfy { $0.custom != "inactive" })
            try await app.set(#"{"subscription.maxPerSubscriber":3}"#, node: 1)
            try await told(ann, of: "c", as: "subscribed")
            try await ann.status(of: "c") { $0.custom == "inactive" }
            #expect(try await app.followed() == ["a", "b", "c"])
            for session in others { session.close() }
        }

        @Test("Under a smaller quota the earliest subscriptions to profiles are inactive, and tell what was missed when they come back")
        func smallerQuotaOfProfiles() async throws {
            let app = try await App("rollcall")
            for name in ["c", "b", "a"] {
                let answer = try await app.call("subscribeUserStatus", users([name], #""subscribeType":2"#), node: 1)
                #expect(answer.code == 0 && answer.errors == [])
            }
            let ann = try await app.login("ann", node: 0)
            try await app.set(#"{"subscription.maxPerSubscriber":2}"#, node: 2)
            try await told(ann, of: "c", as: "unsubscribed")
            #expect(try await app.followed() == ["a", "b"])
            for name in ["c", "a"] {
                let answer = try await app.call("modifySelfProfile", #"{"values":{"Nick":"New"}}"#, as: name, node: 2)
                #expect(answer.code == 0)
            }
            try await ann.until("the profile of a") { Self.profiles(in: $0) == ["a"] }
            try await app.set(#"{"subscription.maxPerSubscriber":3}"#, node: 1)
            try await told(ann, of: "c", as: "subscribed")
            try await ann.until("the profile of c") { Self.profiles(in: $0) == ["a", "c"] }
            #expect(try await app.followed() == ["a", "b", "c"])
        }

        /// The users whose changed profiles were told, in order.
        private static func profiles(in events: [Session.Event]) -> [String?] {
            events.filter { $0.name == "onUserProfileChanged" }.map { $0.json["userID"]?.text }
        }

        @Test("A preset with a smaller quota that an administrator tries for a moment costs no subscription") func triedPreset()
            async throws
        {
            let app = try await App("zim")
            let names = many(0..<250)
            try await app.register(["ann"] + names)
            for start in [0, 100, 200] {
                let some = names[start..<min(start + 100, 250)]
                #expect(try await app.call("subscribeUserStatus", users(some, #""expiry":600"#), node: 1).code == 0)
            }
            let ann = try await app.login("ann", node: 2)
            #expect(try await app.admin("setAppPolicy", #"{"preset":"tencent"}"#, node: 0).status == 200)
            #expect(try await app.followed() == Array(names[50...]), "the newest 200 are active")
            try await told(ann, of: "u0000", as: "unsubscribed")
            #expect(try await app.admin("setAppPolicy", #"{"preset":"zim"}"#, node: 1).status == 200)
            #expect(try await app.followed() == names)
            try await told(ann, of: "u0000", as: "subscribed")
        }

        /// Waits until a session is told of a change of the subscription to `target`.
        private func told(_ session: Session, of target: String, as change: String) async throws {
            try await session.until("\(target) is \(change)") { events in
                events.contains { event in
                    event.name == "onSubscriptionChangedOnOtherDevices"
                        && event.json[change]?.elements.contains { $0.text == target } == true
                }
            }
        }

        @Test("Changes of two administrators at once are both kept, and all nodes agree") func twoAdministrators() async throws {
            let app = try await App("tencent")
            for round in 1..<6 {
                let first = "{\"settings\":{\"subscription.batchMax\":\(round)}}"
                let second = "{\"settings\":{\"query.batchMax\":\(round)}}"
                async let one = app.admin("setAppPolicy", first, node: 0)
                async let other = app.admin("setAppPolicy", second, node: round % 3)
                let answers = try await [one, other]
                #expect(answers.map(\.status) == [200, 200])
                var versions: Set<String> = []
                for node in 0..<3 {
                    let policy = try await app.policy(node: node)
                    #expect(policy["settings"]["subscription.batchMax"]?.number == Int64(round))
                    #expect(policy["settings"]["query.batchMax"]?.number == Int64(round))
                    versions.insert(policy["version"].text ?? "")
                }
                #expect(versions.count == 1)
            }
        }

        @Test("One setting that two administrators change at once has the value of one of them on all nodes") func sameSetting()
            async throws
        {
            let app = try await App("tencent")
            for round in 1..<6 {
                async let one = app.set("{\"query.batchMax\":\(round)}", node: 1)
                async let other = app.set("{\"query.batchMax\":\(round + 100)}", node: 2)
                _ = try await (one, other)
                var values: Set<Int64> = []
                for node in 0..<3 { values.insert(try await app.policy(node: node)["settings"]["query.batchMax"]?.number ?? 0) }
                #expect(values.count == 1 && values.isSubset(of: [Int64(round), Int64(round + 100)]))
            }
        }

        @Test(
            "The error names an invalid setting, and nothing is changed",
            arguments: [
                (#"{"preset":"tencant"}"#, "preset"), (#"{"preset":7}"#, "preset"),
                (#"{"preset":"zim","settings":{"subscription.maxPerUser":5}}"#, "subscription.maxPerUser"),
                (#"{"settings":{"query.batchMax":50,"customStatus.maxBytes":257}}"#, "customStatus.maxBytes"),
                (#"{"settings":{"query.batchMax":501}}"#, "query.batchMax"), (#"{"settings":{"query.batchMax":0}}"#, "query.batchMax"),
                (#"{"settings":{"query.batchMax":"50"}}"#, "query.batchMax"),
                (#"{"settings":{"userStatus.enabled":"off"}}"#, "userStatus.enabled"),
                (#"{"settings":{"plan":"gold"}}"#, "plan"), (#"{"settings":{"rate.query":{"calls":0,"seconds":5}}}"#, "rate.query"),
                (#"{"settings":{"subscription.ttlMin":100,"subscription.ttlMax":99}}"#, "subscription.ttlMin"),
                (#"{"settings":[]}"#, "settings"), (#"{"settings":{"query.batchMax":50}"#, "body"), ("[]", "body"),
            ])
        func unusable(body: String, named: String) async throws {
            let app = try await App("tencent", #"{"query.batchMax":7}"#)
            let before = try await app.policy()
            for node in 0..<3 {
                let answer = try await app.admin("setAppPolicy", body, node: node)
                #expect(answer.status == 400 && answer.code == 6017 && answer.detail.hasPrefix("\(named):"), "\(answer.json)")
                #expect(try await app.policy(node: node).json == before.json)
            }
        }

        @Test("Only an administrator, and only of this app, changes its policy") func credentials() async throws {
            let app = try await App("tencent")
            let other = try await App("zim")
            let body = "{\"app\":\"\(app.name)\",\"preset\":\"rollcall\"}"
            let answer = try await other.admin("setAppPolicy", body)
            #expect(answer.code == 6017 && answer.detail.hasPrefix("app:"))
            let url = "http://127.0.0.1:\(app.cluster.nodes[0].ports.ops)/admin/v1/setAppPolicy"
            let header = "Authorization: Bearer \(try app.token("ann"))"
            let refused = try await run("curl", ["-s", "-H", header, "-d", body, url])
            #expect(refused.output.contains(#""code":403"#), "\(refused.output)")
            #expect(try await app.policy(node: 1)["preset"].text == "tencent")
        }

        @Test("If users must be registered, calls name those who are not, until they are imported or log in") func registered()
            async throws
        {
            let app = try await App("rollcall", #"{"users.mustBeRegistered":true}"#)
            let asked = try await app.call("getUserStatus", users(["ann", "bob", "carl"]))
            #expect(asked.errors == ["bob 70107", "carl 70107"])
            #expect(asked.statuses.map(\.user) == ["ann"])  // Oneself, with a token of the app.
            #expect(try await app.call("subscribeUserStatus", users(["bob"])).errors == ["bob 70107"])
            #expect(try await app.call("getSubscribedUserStatus", "{}")["total"].number == 0)
            for node in 0..<3 {
                #expect(try await app.call("unsubscribeUserStatus", users(["bob"]), node: node).errors == ["bob 70107"])
            }
            #expect(try await app.admin("kick", #"{"userID":"bob"}"#).code == 70107)
            #expect(try await app.admin("queryOnlineStatus", users(["bob"])).errors == ["bob 70107"])

            let imported = try await app.admin("importUsers", users(["bob", ""]), node: 1)
            #expect(imported.code == 0 && imported.errors == [" 7003"])
            let carl = try await app.login("carl", node: 2)
            for node in 0..<3 {
                #expect(try await app.call("getUserStatus", users(["bob", "carl"]), node: node).errors == [])
            }
            #expect(try await app.call("subscribeUserStatus", users(["bob", "carl"], #""sync":true"#)).errors == [])
            let rows = try await app.call("getSubscribedUserStatus", "{}")["subscriptions"].elements
            #expect(rows.map(\.user) == ["bob", "carl"])
            #expect(try await app.admin("importUsers", users(many(0..<1_000))).errors == [])
            #expect(try await app.call("getUserStatus", users(many(600..<1_000))).errors == [])
            #expect(try await app.admin("importUsers", users(many(0..<1_001))).code == 6017)
            carl.close()
        }

        @Test("A subscription to an unknown user that is older than users.mustBeRegistered can be ended")
        func unsubscribeUnknown() async throws {
            let app = try await App("rollcall")
            try await app.register(["ann", "bob"])
            #expect(try await app.call("subscribeUserStatus", users(["bob", "ghost"])).errors == [])
            try await app.set(#"{"users.mustBeRegistered":true,"errors.shape":"wholeCall"}"#, node: 1)
            let refused = try await app.call("unsubscribeUserStatus", users(["bob", "ghost"]), node: 2)
            #expect(refused.status == 404 && refused.code == 70107 && refused["detail"].text == "no such user: ghost")
            #expect(try await app.followed() == ["bob", "ghost"])
            try await app.set(#"{"errors.shape":"perUser"}"#, node: 1)
            #expect(try await app.call("unsubscribeUserStatus", users(["bob", "ghost"]), node: 2).errors == ["ghost 70107"])
            #expect(try await app.followed() == [])
        }

        @Test("If users must be registered, a back end may call for those who are") func named() async throws {
            let app = try await App("rollcall", #"{"users.mustBeRegistered":true}"#)
            let calls = [
                ("setSelfStatus", #""customStatus":"x""#), ("publishEvent", #""value":10000"#),
                ("subscribeUserStatus", #""userIDs":["ann"]"#),
                ("getSubscribedUserStatus", #""limit":1"#), ("logout", #""sessionID":null"#),
            ]
            for (index, (operation, body)) in calls.enumerated() {
                let answer = try await app.call(operation, "{\"asUser\":\"bob\",\(body)}", isAdmin: true, node: index % 3)
                #expect(answer.status == 404 && answer.code == 70107, "\(operation): \(answer.json)")
            }
            #expect(try await app.call("setSelfStatus", #"{"customStatus":"its own"}"#, as: "backend", isAdmin: true).code == 0)
            _ = try await app.admin("importUsers", users(["ann", "bob"]))
            for (index, (operation, body)) in calls.enumerated() {
                let answer = try await app.call(operation, "{\"asUser\":\"bob\",\(body)}", isAdmin: true, node: index % 3)
                #expect(answer.status == 200, "\(operation): \(answer.json)")
            }
            #expect(try await app.followed(by: "bob") == ["ann"])
        }

        @Test("A session receives its platform's timeout, and a later change applies to later sessions") func silence() async throws {
            let app = try await App("rollcall", #"{"liveness.timeout":90,"liveness.timeoutByPlatform":{"web":60}}"#)
            func told(_ session: Session) -> [Int64?] {
                let connected = session.events.first { $0.name == "onConnected" }?.json
                return [connected?["heartbeatInterval"]?.number, connected?["heartbeatTimeout"]?.number]
            }
            let (phone, web) = (try await app.login("ann", node: 0), try await app.login("ann", node: 1, query: "platform=web"))
            #expect(told(phone) == [30, 90] && told(web) == [20, 60])
            try await app.set(#"{"liveness.timeout":15,"liveness.timeoutByPlatform":null}"#)
            let later = try await app.login("ann", node: 2, query: "platform=web")
            #expect(told(later) == [5, 15])
            for session in [phone, web, later] { session.close() }
        }
    }
}
