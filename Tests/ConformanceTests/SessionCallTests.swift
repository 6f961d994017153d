import NodeFixture
import Testing

extension ConformanceTests {
    /// The refusals of the calls that name a session, and of the call that reads profiles, over HTTP on three nodes.
    @Suite(.serialized) struct SessionCallTests {
        private func id(of session: Session) throws -> String {
            try #require(session.events.first { $0.name == "onConnected" }?.json["sessionID"]?.text)
        }

        private func body(_ session: String) -> String { "{\"sessionID\":\"\(session)\"}" }

        /// The open sessions of a user, as the back end is told.
        private func openSessions(of user: String, in app: App) async throws -> [String] {
            let answer = try await app.admin("queryOnlineStatus", users([user], #""withSessions":true"#), node: 1)
            return answer.statuses[0]["sessions"]?.elements.compactMap { $0["sessionID"]?.text } ?? []
        }

        @Test(
            "A logout or a renewal with a sessionID that is none is refused by its name, and ends no session",
            arguments: ["logout", "renew"], ["7", "true", "[]", "{}", #""""#, #""nonsense""#, #""0123456789abcdef0123456""#])
        func badSession(operation: String, value: String) async throws {
            let app = try await App("rollcall")
            let session = try await app.login("ann", node: 0)
            for node in 0..<3 {
                let answer = try await app.call(operation, "{\"sessionID\":\(value)}", node: node)
                #expect(answer.status == 400 && answer.code == 6017 && answer.detail.hasPrefix("sessionID: "), "\(answer.json)")
            }
            #expect(try await openSessions(of: "ann", in: app) == [try id(of: session)])
        }

        @Test("A renewal without a sessionID, or of a session that is not open, is refused by the name of the field")
        func renewalOfNoSession() async throws {
            let app = try await App("rollcall")
            let (ann, bob) = (try await app.login("ann", node: 0), try await app.login("bob", node: 1))
            for body in ["", "{}", #"{"sessionID":null}"#] {
                let answer = try await app.call("renew", body)
                #expect(answer.status == 400 && answer.code == 6017, "\(answer.json)")
                #expect(answer.detail == "sessionID: is missing; it must be that of onConnected")
            }
            for (node, session) in [try id(of: bob), String(repeating: "f", count: 24)].enumerated() {
                let answer = try await app.call("renew", body(session), node: node)
                #expect(answer.status == 400 && answer.code == 6017, "\(answer.json)")
                #expect(answer.detail == "sessionID: is not an open session of the user")
            }
            #expect(try await app.call("renew", body(try id(of: ann)), node: 2).code == 0)
            #expect(try await app.call("logout", body(try id(of: ann)), node: 2).code == 0)
            try await ann.until("ann is logged out") { $0.contains { $0.name == "onLogout" } }
            #expect(try await app.call("renew", body(try id(of: ann)), node: 2).code == 6017)
        }

        @Test("A logout of another user's session, or of one that nobody has, is answered and ends nothing, at any node")
        func logoutOfOtherSession() async throws {
            let app = try await App("rollcall")
            let (ann, bob) = (try await app.login("ann", node: 0), try await app.login("bob", node: 1))
            for node in 0..<3 {
                for session in [try id(of: bob), String(repeating: "f", count: 24)] {
                    #expect(try await app.call("logout", body(session), node: node).code == 0)
                }
            }
            for (user, session) in [("ann", ann), ("bob", bob)] {
                #expect(try await openSessions(of: user, in: app) == [try id(of: session)])
                #expect(try await app.status(of: user).general == "ONLINE")
                #expect(!session.events.contains { ["onLogout", "ended"].contains($0.name) })
            }
        }

        @Test(
            "A logout or a renewal for another user needs the role of a back end, which names a user that is valid",
            arguments: ["logout", "renew"])
        func asUser(operation: String) async throws {
            let app = try await App("rollcall")
            let session = try await app.login("ann", node: 0)
            let own = "\"sessionID\":\"\(try id(of: session))\""
            let refused = try await app.call(operation, "{\(own),\"asUser\":\"ann\"}", as: "bob", node: 2)
            #expect(refused.status == 403 && refused.code == 403 && refused.detail.hasPrefix("asUser: "), "\(refused.json)")
            let invalid = try await app.call(operation, "{\(own),\"asUser\":\"\"}", as: "backend", isAdmin: true, node: 1)
            #expect(invalid.status == 400 && invalid.code == 7003 && invalid.detail.hasPrefix("asUser: "), "\(invalid.json)")
            #expect(try await openSessions(of: "ann", in: app) == [try id(of: session)])
        }

        @Test(
            "A list of users whose profiles are asked for is refused by its name if it is none, and over 100 users",
            arguments: [
                ("", "userIDs: is missing"), (#"{"userIDs":null}"#, "userIDs: is missing"), (#"{"userIDs":"bob"}"#, "userIDs: must be"),
                (#"{"userIDs":{"0":"bob"}}"#, "userIDs: must be"), (#"{"userIDs":[]}"#, "userIDs: is empty"),
                (#"{"userIDs":["bob",7]}"#, "userIDs[1]: must be"), (#"{"userIDs":["bob",null]}"#, "userIDs[1]: must be"),
                (users(many(0..<101)), "userIDs: has 101 users; at most 100"), ("[]", "body: "), (#"["bob"]"#, "body: "),
            ])
        func profiles(body: String, words: String) async throws {
            let app = try await App("tencent")
            for node in 0..<3 {
                let answer = try await app.call("getUsersProfile", body, node: node)
                #expect(answer.status == 400 && answer.code == 6017 && answer.detail.hasPrefix(words), "\(answer.json)")
            }
        }

        @Test("Of 100 users whose profiles are asked for, the invalid ones are named one by one, and the others are answered")
        func profilesOfMany() async throws {
            let app = try await App("rollcall")
            let names = many(0..<97) + ["", String(repeating: "x", count: 65), #"a\u0000b"#]
            let answer = try await app.call("getUsersProfile", users(names), node: 1)
            #expect(answer["profileList"].elements.compactMap { $0["userID"]?.text } == many(0..<97))
            #expect(answer["errorUserList"].elements.map { $0["code"]?.number } == [7003, 7003, 7003])
            let fields = answer["errorUserList"].elements.compactMap { $0["reason"]?.text?.prefix { $0 != ":" } }
            #expect(fields == ["userIDs[97]", "userIDs[98]", "userIDs[99]"], "\(answer.json)")
        }

        @Test("A control character in a text of a body is refused with its place, and an escaped one is a character of the text")
        func controlCharacters() async throws {
            let app = try await App("rollcall")
            for byte: UInt8 in [0x00, 0x09, 0x0A, 0x0D, 0x1B, 0x1F] {
                let control = String(UnicodeScalar(byte))
                for (operation, body) in [
                    ("setSelfStatus", "{\"customStatus\":\"a\(control)b\"}"), ("setSelfStatus", "{\"custom\(control)Status\":\"ab\"}"),
                    ("getUserStatus", "{\"userIDs\":[\"b\(control)b\"]}"), ("modifySelfProfile", "{\"values\":{\"Nick\":\"a\(control)\"}}"),
                ] {
                    let place = body.utf8.firstIndex(of: byte).map { body.utf8.distance(from: body.startIndex, to: $0) } ?? -1
                    let answer = try await app.call(operation, body, node: place % 3)
                    #expect(answer.status == 400 && answer.code == 6017, "\(operation) \(byte): \(answer.json)")
                    #expect(answer.detail == "body: not JSON: unexpected byte at offset \(place)")
                }
            }
            #expect(try await app.status(of: "ann")["version"] == (try await app.status(of: "ann", node: 1))["version"])
            #expect(try await app.status(of: "ann").custom == "")
            #expect(try await app.call("setSelfStatus", #"{"customStatus":"a\u001fb"}"#, node: 2).code == 0)
            #expect(try await app.status(of: "ann").custom == "a\u{1F}b")
        }
    }
}
