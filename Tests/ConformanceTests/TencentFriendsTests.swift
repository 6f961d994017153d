import NodeFixture
import Testing

extension ConformanceTests {
    /// Tencent's relationship chain over HTTP on three nodes. The users of each test have different owners.
    @Suite struct TencentFriendsTests {
        private let others = ["ben", "cid", "dan", "eve", "fay"]

        private func code(_ answer: Answer) -> Int64? { answer.json["resultCode"]?.number }

        private func friends(of user: String, in app: App, node: Int) async throws -> [String] {
            let answer = try await app.call("getFriendList", "{}", as: user, node: node)
            return (answer.json["friendList"]?.elements ?? []).compactMap { $0["userID"]?.text }
        }

        @Test("P44 Where users must be registered, nobody adds, blocks, imports or checks a user whom the app does not know: 30003")
        func unknownUsers() async throws {
            let app = try await App("tencent", #"{"users.mustBeRegistered":true}"#)
            try await app.register(["ann", "ben", "cid"])
            func results(_ answer: Answer) -> [String] {
                answer["resultList"].elements.map { "\($0["userID"]?.text ?? "?") \($0["resultCode"]?.number ?? -1)" }.sorted()
            }
            for node in 0..<3 {
                let unknown = try await app.call("addFriend", #"{"userID":"zoe\#(node)"}"#, node: node)
                #expect(unknown.status == 200 && unknown["resultCode"].number == 30_003, "\(unknown.json)")
                #expect(unknown["userID"].text == "zoe\(node)")
            }
            #expect(try await app.call("addFriend", #"{"userID":"ben"}"#, node: 1)["resultCode"].number == 0)
            let blocked = try await app.call("addBlackList", #"{"userIDs":["zoe","cid"]}"#, node: 2)
            #expect(results(blocked) == ["cid 0", "zoe 30003"])
            #expect(try await app.call("getBlackList", "{}", node: 0)["userIDs"].elements.map(\.text) == ["cid"])
            let nobody = try await app.call("addBlackList", #"{"userIDs":["zoe"]}"#, node: 1)
            #expect(results(nobody) == ["zoe 30003"])
            let friends = #"{"friends":[{"userID":"zoe"},{"userID":"cid"}],"asUser":"ben"}"#
            let imported = try await app.call("importFriends", friends, as: "backend", isAdmin: true, node: 2)
            #expect(results(imported) == ["cid 0", "zoe 30003"])
            for (node, type) in [(0, 1), (1, 2), (2, 2)] {
                let checked = try await app.call("checkFriends", #"{"userIDs":["zoe","ben","cid"],"checkType":\#(type)}"#, node: node)
                #expect(results(checked) == ["ben 0", "cid 0", "zoe 30003"], "\(checked.json)")
                #expect(checked["resultList"].elements.map { $0["resultType"]?.number } == [0, type == 1 ? 1 : 3, 0], "\(checked.json)")
            }
            let blocks = #"{"userIDs":["zoe","cid"],"checkType":2,"asUser":"ann"}"#
            let checked = try await app.call("checkBlackList", blocks, as: "backend", isAdmin: true, node: 1)
            #expect(results(checked) == ["cid 0", "zoe 30003"], "\(checked.json)")
            // A caller whom the app does not know is refused, as by the other calls.
            let caller = try await app.call("addFriend", #"{"userID":"ben","asUser":"zoe"}"#, as: "backend", isAdmin: true, node: 1)
            #expect(caller.status == 404 && caller.code == 70_107, "\(caller.json)")
            #expect(try await app.call("getFriendList", "{}", node: 2)["friendList"].elements.map { $0["userID"]?.text } == ["ben"])
        }

        @Test("A text that others are shown, and a new group's name, has no control characters; only a wording may have lines")
        func controls() async throws {
            let app = try await App("tencent")
            let refused = [
                ("addFriend", #"{"userID":"ben","remark":"a\nb"}"#, "remark"),
                ("addFriend", #"{"userID":"ben","addWording":"a\u001b[2Jb"}"#, "addWording"),
                ("addFriend", #"{"userID":"ben","addSource":"AddSource_Type_\u0000"}"#, "addSource"),
                ("doResponse", #"{"userID":"ben","responseType":1,"remark":"\u0085"}"#, "remark"),
                ("createFriendGroup", #"{"groupNames":["plain","a\tb"]}"#, "groupNames[1]"),
                ("renameFriendGroup", #"{"oldName":"a\tb","newName":"a\u007fb"}"#, "newName"),
                ("modifyFriend", #"{"userID":"ben","values":{"Remark":"\u0007"}}"#, "values.Remark"),
            ]
            for (number, (operation, body, field)) in refused.enumerated() {
                let answer = try await app.call(operation, body, node: number % 3)
                #expect(answer.status == 400 && answer.code == 6017, "\(operation): \(answer.json)")
                #expect(answer.detail.hasPrefix("\(field): must be a text without control characters"), "\(answer.json)")
            }
            #expect(try await app.call("getFriendGroups", "{}", node: 1)["groupList"].elements.isEmpty)
            #expect(try await friends(of: "ann", in: app, node: 2).isEmpty)
            #expect(code(try await app.call("addFriend", #"{"userID":"ben","addWording":"Hello,\nI am Ann"}"#, node: 1)) == 0)
            // A name of an earlier release can still be asked for, and deleted.
            #expect(try await app.call("deleteFriendGroup", #"{"groupNames":["a\tb"]}"#).status == 200)
        }

        @Test("P9 P12 P14 A friend without approval is in both lists, with remark, wording and source, whichever node is asked")
        func adding() async throws {
            let app = try await App("tencent")
            for (number, other) in others.enumerated() {
                let body = #"{"userID":"\#(other)","remark":"No. \#(number)","addWording":"hello","addSource":"AddSource_Type_iOS"}"#
                #expect(code(try await app.call("addFriend", body, node: number % 3)) == 0)
            }
            for node in 0..<3 {
                #expect(try await friends(of: "ann", in: app, node: node) == others)
                for other in others { #expect(try await friends(of: other, in: app, node: node) == ["ann"]) }
            }
            let list = try await app.call("getFriendList", #"{"limit":1}"#, node: 1).json
            let friend = list["friendList"]?.elements.first
            #expect(friend?["remark"]?.text == "No. 0" && friend?["addSource"]?.text == "AddSource_Type_iOS")
            #expect(list["total"]?.number == 5 && list["cursor"]?.text?.hasSuffix(":ben") == true)
            #expect(code(try await app.call("addFriend", #"{"userID":"ben"}"#, node: 2)) == 30_001)
        }

        @Test("P14 P16 P17 P20 A request waits for its approval, is answered once, and may be rejected")
        func approving() async throws {
            let app = try await App("tencent", #"{"profile.defaultAllowType":"confirm"}"#)
            for (other, type, mine, theirs) in [
                ("ben", 1, ["ben"], ["ann"]), ("cid", 0, ["ben", "cid"], []), ("dan", 2, ["ben", "cid"], []),
            ] {
                #expect(code(try await app.call("addFriend", #"{"userID":"\#(other)"}"#)) == 30_539)
                let body = #"{"userID":"ann","responseType":\#(type)}"#
                #expect(code(try await app.call("doResponse", body, as: other, node: 1)) == 0)
                #expect(try await friends(of: "ann", in: app, node: 2) == mine)
                #expect(try await friends(of: other, in: app, node: 2) == theirs)
                #expect(code(try await app.call("doResponse", body, as: other, node: 2)) == 30_614)
            }
        }

        /// The friend requests in the lists of ann and ben, from three nodes.
        private func openRequests(in app: App) async throws -> [String] {
            var found: [String] = []
            for (number, user) in ["ann", "ben"].enumerated() {
                let page = try await app.call("getPendencyList", #"{"type":3}"#, as: user, node: number + 1)
                found += page["pendencyList"].elements.map { "\(user) \($0["type"]?.number == 1 ? "received" : "sent")" }.sorted()
            }
            return found
        }

        @Test(
            "An addition to one list ends no request that can be answered, and no request is left between two friends",
            arguments: ["addFriend", "doResponse"], [true, false])
        func requestsBetweenFriends(last: String, isForced: Bool) async throws {
            let app = try await App("tencent", #"{"profile.defaultAllowType":"confirm","friends.mutualRequestAccepts":false}"#)
            func addAlone(_ other: String, as user: String, node: Int) async throws {
                let force = isForced ? #","force":true"# : ""
                let body = #"{"userID":"\#(other)","addType":"single","asUser":"\#(user)"\#(force)}"#
                #expect(code(try await app.call("addFriend", body, as: "backend", isAdmin: true, node: node)) == 0)
            }
            #expect(code(try await app.call("addFriend", #"{"userID":"ben"}"#)) == 30_539)
            #expect(code(try await app.call("addFriend", #"{"userID":"ann"}"#, as: "ben", node: 1)) == 30_539)
            let all = ["ann received", "ann sent", "ben received", "ben sent"]
            #expect(try await openRequests(in: app) == all)
            if !isForced { try await app.set(#"{"profile.defaultAllowType":"any"}"#) }
            try await addAlone("ben", as: "ann", node: 2)
            #expect(try await openRequests(in: app) == all)
            if last == "addFriend" {
                try await addAlone("ann", as: "ben", node: 0)
            } else {
                // Ben has ann by this approval, and ann has ben already.
                let response = #"{"userID":"ben","responseType":0}"#
                #expect(code(try await app.call("doResponse", response, node: 1)) == 0)
            }
            #expect(try await openRequests(in: app) == [])
            for (user, friend) in [("ann", "ben"), ("ben", "ann")] { #expect(try await friends(of: user, in: app, node: 2) == [friend]) }
        }

        @Test("P16 P17 An approval is 30010 if the own list is full, 30014 if the other is, the request stays, and a remark has 96 bytes")
        func fullListsAtAnApproval() async throws {
            let app = try await App("tencent", #"{"friends.max":1}"#)
            for user in ["ann", "ben", "cid"] {
                #expect(try await app.call("modifySelfProfile", #"{"values":{"AllowType":"CONFIRM"}}"#, as: user).code == 0)
            }
            for (asker, asked) in [("ann", "ben"), ("ben", "cid"), ("cid", "ann")] {
                #expect(code(try await app.call("addFriend", #"{"userID":"\#(asked)"}"#, as: asker, node: 1)) == 30_539)
            }
            let tooLong = #"{"userID":"ann","responseType":1,"remark":"\#(String(repeating: "x", count: 97))"}"#
            let refused = try await app.call("doResponse", tooLong, as: "ben", node: 2)
            #expect(refused.code == 6017 && refused.detail.hasPrefix("remark: "), "\(refused.json)")
            let edge = String(repeating: "x", count: 96)
            let body = #"{"userID":"ann","responseType":1,"remark":"\#(edge)"}"#
            #expect(code(try await app.call("doResponse", body, as: "ben", node: 2)) == 0)
            let list = try await app.call("getFriendList", "{}", as: "ben", node: 0)["friendList"].elements
            #expect(list.map { $0["remark"]?.text } == [edge])
            // Both lists are full now: ann's own, and ben's when cid approves.
            #expect(code(try await app.call("doResponse", #"{"userID":"cid","responseType":1}"#, as: "ann", node: 2)) == 30_010)
            #expect(code(try await app.call("doResponse", #"{"userID":"ben","responseType":1}"#, as: "cid", node: 0)) == 30_014)
            for (user, other) in [("ann", "cid"), ("cid", "ben")] {
                let page = try await app.call("getPendencyList", #"{"type":1}"#, as: user, node: 1)
                #expect(page["pendencyList"].elements.map { $0["userID"]?.text } == [other])
                #expect(try await !friends(of: user, in: app, node: 1).contains(other))
            }
        }

        @Test("P15 Friends are deleted from one list or from both, each with a result of its own")
        func deleting() async throws {
            let app = try await App("tencent")
            for other in others { _ = try await app.call("addFriend", #"{"userID":"\#(other)"}"#) }
            let one = try await app.call("deleteFriends", #"{"userIDs":["ben","zoe"],"delType":1}"#, node: 1)
            #expect(one.json["resultList"]?.elements.map { $0["resultCode"]?.number } == [0, 31_704])
            let both = try await app.call("deleteFriends", #"{"userIDs":["cid","dan"],"delType":2}"#, node: 2)
            #expect(both.json["resultList"]?.elements.map { $0["resultCode"]?.number } == [0, 0])
            #expect(try await friends(of: "ann", in: app, node: 0) == ["eve", "fay"])
            #expect(try await friends(of: "ben", in: app, node: 0) == ["ann"])
            for other in ["cid", "dan"] { #expect(try await friends(of: other, in: app, node: 0) == []) }
        }

        @Test("P14 A user who forbids requests, and a full list, refuse a friend")
        func refusing() async throws {
            let app = try await App("tencent", #"{"friends.max":1}"#)
            #expect(code(try await app.call("addFriend", #"{"userID":"ben"}"#)) == 0)
            #expect(code(try await app.call("addFriend", #"{"userID":"cid"}"#, node: 1)) == 30_010)
            #expect(code(try await app.call("addFriend", #"{"userID":"ann"}"#, as: "cid", node: 2)) == 30_014)
            try await app.set(#"{"profile.defaultAllowType":"deny"}"#)
            #expect(code(try await app.call("addFriend", #"{"userID":"eve"}"#, as: "dan")) == 30_516)
        }

        @Test(
            "P12 P13 A field that breaks a rule is named, and nothing changes",
            arguments: [
                (#"{"userID":"ann"}"#, "userID"), (#"{}"#, "userID"), (#"{"userID":"ben","addSource":"iOS"}"#, "addSource"),
                (#"{"userID":"ben","addSource":"AddSource_Type_123456789"}"#, "addSource"),
                (#"{"userID":"ben","remark":"\#(String(repeating: "x", count: 97))"}"#, "remark"),
                (#"{"userID":"ben","addWording":"\#(String(repeating: "x", count: 121))"}"#, "addWording"),
                (#"{"userID":"ben","addType":"triple"}"#, "addType"), (#"{"userID":7}"#, "userID"),
            ])
        func badFields(body: String, field: String) async throws {
            let app = try await App("tencent")
            let answer = try await app.call("addFriend", body)
            #expect(answer.status == 400 && answer.json["detail"]?.text?.hasPrefix(field) == true, "\(answer.json)")
            #expect(try await friends(of: "ann", in: app, node: 0) == [])
        }

        @Test("P12 A remark of 96 bytes and a wording of 120 bytes reach the list whole") func longestFields() async throws {
            let app = try await App("tencent")
            // Each letter has two bytes.
            let (remark, wording) = (String(repeating: "é", count: 96 / 2), String(repeating: "ö", count: 120 / 2))
            let body = #"{"userID":"ben","remark":"\#(remark)","addWording":"\#(wording)"}"#
            #expect(code(try await app.call("addFriend", body, node: 1)) == 0)
            for node in 0..<3 {
                let friend = try await app.call("getFriendList", "{}", node: node)["friendList"].elements.first
                #expect(friend?["remark"]?.text == remark && friend?["addWording"]?.text == wording, "at node \(node)")
            }
        }

        @Test("P12 P38 Two devices share the 20 changes in 5 s of their user: the next is refused at each node, and later passes")
        func secondDevice() async throws {
            let app = try await App("tencent")
            let names = many(0..<20)
            var (callers, sessions, answers, refused) = (0, [Session](), [Int64?](), [Answer]())
            // A busy machine may take longer than 5 s for these calls. Then another user calls.
            try await app.cluster.until("23 changes are tried within 5 s") {
                callers += 1
                let user = "ann\(callers)"
                sessions = [try await app.login(user, node: 0), try await app.login(user, node: 2, query: "platform=web")]
                let start = ContinuousClock.now
                answers = try await withThrowingTaskGroup(of: Int64?.self) { group in
                    for (number, name) in names.enumerated() {
                        let node = number % 2 * 2
                        group.addTask { code(try await app.call("addFriend", "{\"userID\":\"\(name)\"}", as: user, node: node)) }
                    }
                    return try await group.reduce(into: []) { $0.append($1) }
                }
                refused = []
                for node in 0..<3 { refused.append(try await app.call("addFriend", #"{"userID":"late"}"#, as: user, node: node)) }
                return ContinuousClock.now - start < .seconds(5)
            }
            let user = "ann\(callers)"
            #expect(answers == Array(repeating: 0, count: 20))
            for answer in refused {
                #expect(answer.status == 429 && answer.code == 7008 && (1...5).contains(answer["retryAfter"].number ?? 0), "\(answer.json)")
            }
            for node in 0..<3 { #expect(try await friends(of: user, in: app, node: node) == names) }
            for session in sessions {
                try await session.until("each friend is told") { Self.added($0).sorted() == names }
            }
            try await app.pass(refused.compactMap { $0["retryAfter"].number }.max() ?? 5, sessions[0], of: user)
            #expect(code(try await app.call("addFriend", #"{"userID":"late"}"#, as: user, node: 1)) == 0)
            for session in sessions {
                try await session.until("the friend that was late is told") { Self.added($0).last == "late" }
            }
        }

        @Test("P9 P38 A list of 50 friends grows within the preset's limit, is read by pages, and two devices are told without a gap")
        func longList() async throws {
            let app = try await App("tencent")
            let devices = [try await app.login("ann", node: 0), try await app.login("ann", node: 2, query: "platform=web")]
            let names = many(0..<50)
            let start = ContinuousClock.now
            for (number, name) in names.enumerated() {
                let body = "{\"userID\":\"\(name)\"}"
                var answer = try await app.call("addFriend", body, node: number % 3)
                while answer.code == 7008 {
                    try await app.pass(try #require(answer["retryAfter"].number), devices[0], of: "ann")
                    answer = try await app.call("addFriend", body, node: number % 3)
                }
                #expect(code(answer) == 0, "\(answer.json)")
            }
            // 20 at once, 20 after 5 s, and 10 after 10 s.
            #expect(ContinuousClock.now - start >= .seconds(10))
            for node in 0..<3 {
                var (found, cursor) = ([String](), "")
                repeat {
                    let page = try await app.call("getFriendList", "{\"limit\":7\(cursor)}", node: node)
                    #expect(page["total"].number == 50 && page["friendList"].elements.count <= 7)
                    found += page["friendList"].elements.compactMap { $0["userID"]?.text }
                    cursor = page["cursor"].text.map { ",\"cursor\":\"\($0)\"" } ?? ""
                } while !cursor.isEmpty && found.count <= 50
                #expect(found == names, "at node \(node)")
            }
            let sequence = try await app.call("getFriendList", "{}", node: 1)["seq"].text
            for device in devices {
                try await device.until("each friend is told") { Self.added($0).count == 50 }
                #expect(Self.added(device.events) == names)
                let told = device.events.filter { $0.name == "onFriendListAdded" }.map(\.json)
                for (one, next) in zip(told, told.dropFirst()) { #expect(next["fromSeq"] == one["seq"]) }
                #expect(told.last?["seq"]?.text == sequence)
            }
        }

        /// The friends that a stream was told, in order.
        private static func added(_ events: [Session.Event]) -> [String] {
            events.filter { $0.name == "onFriendListAdded" }.flatMap { $0.json["friendList"]?.elements ?? [] }.compactMap {
                $0["userID"]?.text
            }
        }

        @Test("A switched-off relationship chain answers 72001") func switchedOff() async throws {
            let app = try await App("tencent", #"{"chain.enabled":false}"#)
            for (operation, body) in [("addFriend", #"{"userID":"ben"}"#), ("getFriendList", "{}")] {
                let answer = try await app.call(operation, body)
                #expect(answer.status == 403 && answer.json["code"]?.number == 72_001)
            }
        }
    }
}
