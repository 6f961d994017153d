import HTTP2
import NodeFixture
import Testing

extension ConformanceTests {
    /// Calls that are repeated with the header `Idempotency-Key`. Each repetition goes to another node than the call.
    @Suite struct RepeatedCallTests {
        typealias Step = (operation: String, body: String, user: String)

        /// A call, and what makes it possible.
        struct Case: Sendable, CustomTestStringConvertible {
            let operation: String
            let body: String
            var isAdmin = false
            var before: [Step] = []

            var testDescription: String { operation }
        }

        private static let friends = #"{"friends":[{"userID":"ben"},{"userID":"cid"}],"asUser":"ann"}"#
        private static let withFriends: [Step] = [("importFriends", friends, "backend")]
        private static let withGroup: [Step] = withFriends + [("createFriendGroup", #"{"groupNames":["old"],"userIDs":["cid"]}"#, "ann")]
        private static let withRequest: [Step] = [("addFriend", #"{"userID":"ann"}"#, "ben")]

        static let cases = [
            Case(operation: "publishEvent", body: #"{"value":10001,"ext":"x"}"#),
            Case(operation: "addFriend", body: #"{"userID":"ben","remark":"Benny"}"#),
            Case(operation: "doResponse", body: #"{"userID":"ben","responseType":1}"#, before: withRequest),
            Case(operation: "deleteFriends", body: #"{"userIDs":["ben","dan"],"delType":2}"#, before: withFriends),
            Case(operation: "deletePendency", body: #"{"type":1,"userIDs":["ben","dan"]}"#, before: withRequest),
            Case(operation: "pendencyReport", body: #"{"timestamp":9999999999999}"#, before: withRequest),
            Case(operation: "modifyFriend", body: #"{"userID":"ben","values":{"Remark":"B"}}"#, before: withFriends),
            Case(operation: "createFriendGroup", body: #"{"groupNames":["new"],"userIDs":["ben"]}"#, before: withFriends),
            Case(operation: "deleteFriendGroup", body: #"{"groupNames":["old"]}"#, before: withGroup),
            Case(operation: "renameFriendGroup", body: #"{"oldName":"old","newName":"new"}"#, before: withGroup),
            Case(operation: "addFriendsToFriendGroup", body: #"{"groupName":"old","userIDs":["ben","dan"]}"#, before: withGroup),
            Case(operation: "delFriendsFromFriendGroup", body: #"{"groupName":"old","userIDs":["cid","dan"]}"#, before: withGroup),
            Case(operation: "addBlackList", body: #"{"userIDs":["ben"]}"#),
            Case(
                operation: "deleteBlackList", body: #"{"userIDs":["ben","dan"]}"#,
                before: [("addBlackList", #"{"userIDs":["ben"]}"#, "ann")]),
            Case(operation: "importFriends", body: friends, isAdmin: true),
            Case(operation: "deleteAllFriends", body: #"{"delType":1,"asUser":"ann"}"#, isAdmin: true, before: withFriends),
        ]

        /// All that the calls change, as ann reads it.
        private func state(in app: App) async throws -> [String] {
            var state: [String] = []
            for (operation, body) in [
                ("getFriendList", "{}"), ("getPendencyList", #"{"type":3}"#), ("getFriendGroups", "{}"), ("getBlackList", "{}"),
            ] {
                state.append(try await app.exchange(operation, body, key: nil, node: 0).text)
            }
            return state + [try await app.status(of: "ann", as: "ann")["event"]?["eventID"]?.text ?? "none"]
        }

        @Test("A call that is repeated at another node has the first answer byte for byte, and is one change", arguments: cases)
        func repeated(call: Case) async throws {
            let app = try await App("rollcall")
            if call.operation == "doResponse" || call.operation == "deletePendency" || call.operation == "pendencyReport" {
                try await app.set(#"{"profile.defaultAllowType":"confirm"}"#)
            }
            for (operation, body, user) in call.before {
                let answer = try await app.call(operation, body, as: user, isAdmin: user == "backend")
                try #require(answer.status == 200, "\(answer.json)")
            }
            let user = call.isAdmin ? "backend" : "ann"
            let send = { (key: String, node: Int) in
                try await app.exchange(call.operation, call.body, key: key, as: user, isAdmin: call.isAdmin, node: node)
            }
            let before = try await state(in: app)
            let first = try await send("key", 1)
            #expect(first.status == 200, "\(first.text)")
            let after = try await state(in: app)
            #expect(after != before)
            for node in [2, 0] {
                let again = try await send("key", node)
                #expect(again.status == 200 && again.body == first.body, "\(again.text) is not \(first.text)")
            }
            #expect(try await state(in: app) == after)
        }

        @Test(
            "A repeated call has the first answer although the app does not know its users any more",
            arguments: [
                ("addFriend", #"{"userID":"ben"}"#), ("addBlackList", #"{"userIDs":["ben","cid"]}"#), ("importFriends", friends),
            ])
        func unknownUsers(operation: String, body: String) async throws {
            let app = try await App("rollcall")
            let isAdmin = operation == "importFriends"
            let send = { (key: String, node: Int) in
                try await app.exchange(operation, body, key: key, as: isAdmin ? "backend" : "ann", isAdmin: isAdmin, node: node)
            }
            let first = try await send("key", 1)
            #expect(first.status == 200 && first.text.contains(#""resultCode":0"#), "\(first.text)")
            try await app.set(#"{"users.mustBeRegistered":true}"#)
            // The back end's call needs to know the user for whom it is made.
            #expect(try await app.admin("importUsers", #"{"userIDs":["ann"]}"#).status == 200)
            for node in [2, 0] { #expect(try await send("key", node).body == first.body) }
            let refused = try await send("new", 1)
            #expect(refused.text.contains("30003") && !refused.text.contains(#""resultCode":0"#), "\(refused.text)")
            #expect(try await send("new", 2).body == refused.body)
        }

        @Test("A call that is repeated in another session, or without one, has the first answer and publishes nothing") func otherSession()
            async throws
        {
            let app = try await App("rollcall")
            let sessions = ["0123456789abcdef01234567", "0123456789abcdef01234568"]
            let bodies =
                ["{\"value\":10001,\"ext\":\"x\"}"]
                + sessions.flatMap { session in
                    [
                        "{\"sessionID\":\"\(session)\",\"value\":10001,\"ext\":\"x\"}",
                        "{\"value\":10001,\"sessionID\":\"\(session)\",\"ext\":\"x\"}",
                        "{\"value\":10001,\"ext\":\"x\",\"sessionID\":\"\(session)\"}",
                    ]
                }
            let first = try await app.exchange("publishEvent", bodies[1], key: "k", node: 0)
            #expect(first.status == 200, "\(first.text)")
            // Many encoders write spaces and lines.
            let spaced = sessions.flatMap { session in
                [
                    "{\"value\": 10001, \"ext\": \"x\", \"sessionID\": \"\(session)\"}",
                    "{ \"sessionID\" : \"\(session)\" , \"value\" : 10001,\n  \"ext\" : \"x\" }\n",
                ]
            }
            for (number, body) in (bodies + spaced + [#"{"sessionID":null,"value":10001,"ext":"x"}"#]).enumerated() {
                let again = try await app.exchange("publishEvent", body, key: "k", node: number % 3)
                #expect(again.status == 200 && again.body == first.body, "\(body): \(again.text)")
            }
            // The text of an event is no session, and neither is a field of an object in the body.
            for (text, status) in [("y", 200), ("z", 400)] {
                let body = #"{"value":10001,"ext":"x\"sessionID\":\"\#(text)\""}"#
                #expect(try await app.exchange("publishEvent", body, key: "text", node: 1).status == status)
                let nested = #"{"value":10001,"more":{"sessionID":"\#(text)"}}"#
                #expect(try await app.exchange("publishEvent", nested, key: "nested", node: 1).status == status)
            }
        }

        @Test("The key of a call with another body or operation is refused, and another user's is another call") func otherCall()
            async throws
        {
            let app = try await App("rollcall")
            let body = #"{"userID":"ben"}"#
            let first = try await app.exchange("addFriend", body, key: "k", node: 0)
            #expect(first.status == 200)
            for (operation, body) in [("addFriend", #"{"userID":"cid"}"#), ("deleteFriends", #"{"userIDs":["ben"],"delType":2}"#)] {
                let answer = try await app.exchange(operation, body, key: "k", node: 1)
                #expect(answer.status == 400)
                #expect(answer.text.contains(#""code":6017"#) && answer.text.contains("Idempotency-Key"), "\(answer.text)")
            }
            let other = try await app.exchange("addFriend", body, key: "k", as: "dan", node: 1)
            #expect(other.text.contains(#""resultCode":0"#), "\(other.text)")
            let friends = try await app.call("getFriendList", "{}", node: 2)["friendList"].elements
            #expect(friends.map { $0["userID"]?.text } == ["ben"])
        }

        @Test(
            "A key that is empty, too long or not visible ASCII is refused with 6017",
            arguments: ["", "a b", "\u{E9}", String(repeating: "k", count: 65)])
        func badKey(key: String) async throws {
            let app = try await App("rollcall")
            let answer = try await app.exchange("addFriend", #"{"userID":"ben"}"#, key: key, node: 0)
            #expect(answer.status == 400)
            #expect(answer.text.contains(#""code":6017"#) && answer.text.contains("Idempotency-Key: "), "\(answer.text)")
            // Reads have no use for a key.
            #expect(try await app.exchange("getFriendList", "{}", key: key, node: 0).status == 200)
        }

        @Test("The 65th key of a user forgets the first one") func countMax() async throws {
            let app = try await App("rollcall")
            let publish = { (number: Int) in
                try await app.exchange("publishEvent", #"{"value":10001}"#, key: "k\(number)", node: number % 3)
            }
            let first = try await publish(0)
            for number in 1..<64 { #expect(try await publish(number).status == 200) }
            #expect(try await publish(0).body == first.body)
            _ = try await publish(64)
            #expect(try await publish(0).body != first.body)
        }
    }
}
