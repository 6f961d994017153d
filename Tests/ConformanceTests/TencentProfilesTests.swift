import NodeFixture
import Testing

extension ConformanceTests {
    /// Tencent's profiles over HTTP on three nodes. The users of each test have different owners.
    @Suite struct TencentProfilesTests {
        private let others = ["ben", "cid", "dan"]

        private func modify(_ values: String, in app: App, as user: String = "ann", node: Int = 0) async throws -> Answer {
            try await app.call("modifySelfProfile", #"{"values":\#(values)}"#, as: user, node: node)
        }

        @Test("P1 P2 P5 P7 A profile has all fields, and those that a call sets, whichever node is asked") func reading() async throws {
            let app = try await App("tencent")
            let empty = try await app.call("getSelfProfile", "{}", node: 2)["profile"]
            for name in ["nick", "faceURL", "selfSignature", "location"] { #expect(empty[name]?.text == "") }
            for name in ["gender", "birthday", "language", "level", "role"] { #expect(empty[name]?.number == 0) }
            #expect(empty["userID"]?.text == "ann" && empty["allowType"]?.text == "ANY" && empty["custom"] == .object([:]))
            let values = #"""
                {"Nick":"Ann","FaceUrl":"https://a.example/ann.png","AllowType":"CONFIRM","Gender":2,"Birthday":4294967295,"Location":"Köln",
                "Language":1,"Level":2,"Role":3,"SelfSignature":{"base64":"wyg="}}
                """#
            let answer = try await modify(values, in: app, node: 1)["profile"]
            for node in 0..<3 {
                let profile = try await app.call("getSelfProfile", "{}", node: node)["profile"]
                #expect(profile == answer)
                #expect(profile["nick"]?.text == "Ann" && profile["faceURL"]?.text == "https://a.example/ann.png")
                #expect(profile["allowType"]?.text == "CONFIRM" && profile["location"]?.text == "Köln")
                #expect(profile["selfSignature"]?["base64"]?.text == "wyg=")
                let numbers = ["gender", "birthday", "language", "level", "role"].map { profile[$0]?.number }
                #expect(numbers == [2, 4_294_967_295, 1, 2, 3])
            }
            let changed = try await modify(#"{"Level":5,"Nick":null,"FaceUrl":""}"#, in: app, node: 2)["profile"]
            #expect(changed["level"]?.number == 5 && changed["nick"]?.text == "Ann" && changed["faceURL"]?.text == "")
            #expect(changed["version"] != answer["version"])
        }

        @Test("P3 Profiles of several users come in one answer, hidden users included; unknown users are named") func several() async throws
        {
            let app = try await App("tencent")
            for (node, other) in others.enumerated() { _ = try await modify(#"{"Nick":"I am \#(other)"}"#, in: app, as: other, node: node) }
            _ = try await app.call("setVisibility", #"{"visibility":"nobody"}"#, as: "ben", node: 1)
            for node in 0..<3 {
                let list = try await app.call("getUsersProfile", users(others + ["zoe"]), node: node)
                #expect(list["profileList"].elements.map { $0["nick"]?.text } == others.map { "I am \($0)" } + [""])
                #expect(list.errors == [])
            }
            // The preset of the document fails the whole call (T37).
            try await app.set(#"{"users.mustBeRegistered":true}"#)
            try await app.register(["ann"])
            let refused = try await app.call("getUsersProfile", users(others + ["zoe", "yan"]), node: 2)
            #expect(refused.status == 404 && refused.code == 70107 && refused.detail.contains("zoe"), "\(refused.json)")
            #expect(refused["profileList"] == .null)
            let known = try await app.call("getUsersProfile", users(others), node: 1)
            #expect(known["profileList"].elements.map { $0["userID"]?.text } == others && known.errors == [])
            #expect(try await app.call("getUsersProfile", users(many(0..<101))).code == 6017)
        }

        @Test("P6 P7 A key, a type or a value that a profile cannot have fails the call, names the field, and changes nothing")
        func refusals() async throws {
            let app = try await App("tencent", #"{"profile.valueBytes":100,"profile.customFields":{"Blood":"integer"}}"#)
            // A user may make 20 calls in 5 s.
            let callers = ["ann", "ben"]
            var before: [JSON] = []
            for user in callers { before.append(try await modify(#"{"Nick":"Ann"}"#, in: app, as: user)["profile"]) }
            let long = String(repeating: "x", count: 101)
            let wrong = [
                ("Name", #""x""#), ("nick", #""x""#), ("Custom_", "1"), ("Custom_Team", #""x""#), ("Custom_Blood", #""x""#), ("Nick", "5"),
                ("Nick", #""\#(long)""#), ("Nick", #"{"base64":"wyg="}"#), ("FaceUrl", "[]"), ("AllowType", #""any""#), ("Gender", "3"),
                ("Gender", "1.5"), ("Birthday", "-1"), ("Level", "4294967296"), ("Role", #""1""#), ("Language", "true"), ("Location", "7"),
                ("Nick", #""Ann\n\u0000""#), ("Nick", #""\u007fAnn""#), ("Nick", #""Ann\u0085""#), ("Nick", #"{"base64":"QW5u"}"#),
                ("FaceUrl", #""https://a.example/\r""#), ("SelfSignature", #"{"base64":"x"}"#),
                ("SelfSignature", #"{"base64":"wyg=","more":1}"#),
            ]
            for (number, (name, value)) in wrong.enumerated() {
                // A good field comes first, and must not be set.
                let good = name == "Role" ? "Level" : "Role"
                let body = #"{"\#(good)":9,"\#(name)":\#(value)}"#
                let answer = try await modify(body, in: app, as: callers[number % 2], node: 1)
                #expect(answer.code == 6017 && answer.detail.hasPrefix("values.\(name): "), "\(name) \(value): \(answer.json)")
            }
            for body in ["{}", #"{"values":5}"#, #"{"values":null}"#] {
                let answer = try await app.call("modifySelfProfile", body, node: 2)
                #expect(answer.code == 6017 && answer.detail.hasPrefix("values: "))
            }
            for (user, profile) in zip(callers, before) {
                #expect(try await app.call("getSelfProfile", "{}", as: user, node: 2)["profile"] == profile)
            }
        }

        @Test("P8 Custom fields are those that the app declares: numbers, strings and bytes") func customFields() async throws {
            let app = try await App("tencent")
            #expect(try await modify(#"{"Custom_Blood":1}"#, in: app).code == 6017)
            try await app.set(#"{"profile.customFields":{"Blood":"integer","Team":"string","Raw":"bytes"}}"#)
            let answer = try await modify(#"{"Custom_Blood":-1,"Custom_Team":"Grün","Custom_Raw":{"base64":"/w=="}}"#, in: app, node: 1)
            let custom = answer["profile"]["custom"]
            #expect(custom?["Blood"]?.number == -1 && custom?["Team"]?.text == "Grün" && custom?["Raw"]?["base64"]?.text == "/w==")
            let without = try await modify(#"{"Custom_Team":"","Custom_Raw":"text"}"#, in: app, node: 2)["profile"]["custom"]
            #expect(without?["Team"] == nil && without?["Raw"]?.text == "text" && without?["Blood"]?.number == -1)
        }

        @Test("P43 A new stream is told only the profiles that change after it begins, and a resumed one those that it has missed")
        func newStreams() async throws {
            let app = try await App("tencent")
            _ = try await app.call("addFriend", #"{"userID":"ben"}"#, node: 1)
            var first: Session? = try await app.login("ben", node: 2, query: "platform=ios")
            let position = try #require(first?.events.last { !$0.id.isEmpty }?.id)
            first = nil
            let missed = try await modify(#"{"Nick":"Ann"}"#, in: app, node: 2)["profile"]["version"]?.text
            for node in 0..<3 {
                let profiles = try await app.call("getUsersProfile", users(["ann"]), as: "ben", node: node)["profileList"].elements
                #expect(profiles.map { $0["version"]?.text } == [missed])
            }
            let fresh = try await app.login("ben", node: 0, query: "platform=pad")
            let resumed = try await app.login("ben", node: 1, query: "platform=web&lastEventID=\(position)")
            try await resumed.until("the missed profile") { Self.versions(of: "ann", $0).contains(missed) }
            let next = try await modify(#"{"Nick":"Annie"}"#, in: app, node: 1)["profile"]["version"]?.text
            for session in [fresh, resumed] {
                try await session.until("the next profile") { Self.versions(of: "ann", $0).last == next }
            }
            #expect(Self.versions(of: "ann", fresh.events) == [next])
        }

        /// The versions of a profile that a stream was told by events of its own.
        private static func versions(of user: String, _ events: [Session.Event]) -> [String?] {
            events.filter { $0.name == "onUserProfileChanged" && $0.json["userID"]?.text == user }.map { $0.json["profileVersion"]?.text }
        }

        @Test("P43 A changed profile is told to each device of the user and of its friends, and to nobody else") func notices() async throws
        {
            let app = try await App("tencent")
            let devices = [try await app.login("ann", node: 0), try await app.login("ann", node: 1, query: "platform=web")]
            let (friend, stranger) = (try await app.login("ben", node: 2), try await app.login("cid", node: 1))
            _ = try await app.call("subscribeUserStatus", users(["ann"]), as: "cid", node: 1)
            try await stranger.status(of: "ann") { _ in true }
            _ = try await app.call("addFriend", #"{"userID":"ben"}"#, node: 1)
            try await friend.until("ann is a friend") { events in events.contains { $0.name == "onFriendListAdded" } }
            let version = try await modify(#"{"Nick":"Ann"}"#, in: app, node: 2)["profile"]["version"]?.text
            for session in devices + [friend] {
                try await session.until("the new profile of ann") { events in
                    events.contains {
                        $0.name == "onUserProfileChanged" && $0.json["userID"]?.text == "ann"
                            && $0.json["profileVersion"]?.text == version
                    }
                }
            }
            // An event that follows on the same stream is told after it.
            let statuses = stranger.statuses(of: "ann").count
            _ = try await app.call("setSelfStatus", #"{"customStatus":"here"}"#, node: 0)
            try await stranger.status(of: "ann") { $0.custom == "here" }
            #expect(stranger.statuses(of: "ann").count == statuses + 1)
            #expect(!stranger.events.contains { $0.name == "onUserProfileChanged" })
            let later = try await app.login("ann", node: 2, query: "platform=pad")
            #expect(later.events.first { $0.name == "onRelationshipState" }?.json["profileVersion"]?.text == version)
            let list = try await app.call("getFriendList", #"{"withProfile":true}"#, as: "ben", node: 0)
            #expect(list["friendList"].elements.map { $0["profile"]?["nick"]?.text } == ["Ann"])
        }
    }
}
