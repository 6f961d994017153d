import NodeFixture
import Testing

extension ConformanceTests {
    /// Tencent's `checkFriends`, and the calls of back ends about friends, over HTTP on three nodes.
    @Suite struct TencentCheckTests {
        private func results(_ answer: Answer) -> [[Int64?]] {
            answer["resultList"].elements.map { [$0["resultCode"]?.number, $0["resultType"]?.number] }
        }

        private func code(_ answer: Answer) -> Int64? { answer.json["resultCode"]?.number }

        @Test("P18 P19 A check says 0, 1, 2 or 3 for each user, one-way or two-way, whichever node is asked")
        func checking() async throws {
            let app = try await App("tencent")
            _ = try await app.call("addFriend", #"{"userID":"ben"}"#)
            _ = try await app.call("addFriend", #"{"userID":"cid","addType":"single"}"#, node: 1)
            _ = try await app.call("addFriend", #"{"userID":"ann","addType":"single"}"#, as: "dan", node: 2)
            for node in 0..<3 {
                let users = #""userIDs":["zoe","ben","cid","dan"]"#
                let both = try await app.call("checkFriends", #"{\#(users),"checkType":2}"#, node: node)
                #expect(both["resultList"].elements.map { $0["userID"]?.text } == ["zoe", "ben", "cid", "dan"])
                #expect(results(both) == [[0, 0], [0, 3], [0, 1], [0, 2]])
                let one = try await app.call("checkFriends", #"{\#(users),"checkType":1}"#, node: node)
                #expect(results(one) == [[0, 0], [0, 1], [0, 1], [0, 0]])
            }
        }

        @Test(
            "P18 A field of a check that breaks a rule is named",
            arguments: [
                (#"{"checkType":1}"#, "userIDs"), (#"{"userIDs":[],"checkType":1}"#, "userIDs"), (#"{"userIDs":["ben"]}"#, "checkType"),
                (#"{"userIDs":["ben"],"checkType":0}"#, "checkType"), (#"{"userIDs":["ben"],"checkType":3}"#, "checkType"),
                (#"{"userIDs":["ben"],"checkType":"1"}"#, "checkType"), (#"{"userIDs":["ann"],"checkType":1}"#, "userIDs"),
                (#"{"userIDs":["ben","cid","dan"],"checkType":1}"#, "userIDs"), (#"{"userIDs":[7],"checkType":1}"#, "userIDs"),
            ])
        func badFields(body: String, field: String) async throws {
            let app = try await App("tencent", #"{"chain.batchMax":2}"#)
            let answer = try await app.call("checkFriends", body)
            #expect(answer.status == 400 && answer.json["detail"]?.text?.hasPrefix(field) == true, "\(answer.json)")
        }

        @Test("P18 A back end checks the friends of any user, and a user those of nobody else")
        func backEnd() async throws {
            let app = try await App("tencent")
            _ = try await app.call("addFriend", #"{"userID":"ben"}"#)
            let body = #"{"asUser":"ben","userIDs":["ann","cid"],"checkType":2}"#
            #expect(results(try await app.call("checkFriends", body, as: "operator", isAdmin: true, node: 1)) == [[0, 3], [0, 0]])
            let refused = try await app.call("checkFriends", body, node: 2)
            #expect(refused.status == 403 && refused.json["detail"]?.text?.hasPrefix("asUser") == true)
        }

        @Test("P29 A back end learns who has blocked whom, and nobody else does")
        func blocks() async throws {
            let app = try await App("tencent")
            _ = try await app.call("addBlackList", #"{"userIDs":["ben","cid"]}"#)
            _ = try await app.call("addBlackList", #"{"userIDs":["ann"]}"#, as: "cid", node: 1)
            for node in 0..<3 {
                for (type, types) in [(1, [1, 1, 0]), (2, [1, 3, 0])] {
                    let body = #"{"asUser":"ann","userIDs":["ben","cid","dan"],"checkType":\#(type)}"#
                    let answer = try await app.call("checkBlackList", body, as: "operator", isAdmin: true, node: node)
                    #expect(results(answer) == types.map { [0, Int64($0)] })
                }
            }
            let refused = try await app.call("checkBlackList", #"{"userIDs":["cid"],"checkType":2}"#, node: 2)
            #expect(refused.status == 403 && refused.code == 403 && refused.json["detail"]?.text?.hasPrefix("checkBlackList") == true)
        }

        @Test("P14 P20 At most pendency.max requests wait on either side, and 30012 names the limit")
        func waitingRequests() async throws {
            let app = try await App("tencent", #"{"pendency.max":1,"profile.defaultAllowType":"confirm"}"#)
            #expect(code(try await app.call("addFriend", #"{"userID":"ben"}"#)) == 30_539)
            let own = try await app.call("addFriend", #"{"userID":"cid"}"#, node: 1)
            #expect(code(own) == 30_012 && own["resultInfo"].text?.contains("pendency.max") == true)
            #expect(code(try await app.call("addFriend", #"{"userID":"ben"}"#, as: "dan", node: 2)) == 30_012)
            _ = try await app.call("deletePendency", #"{"type":2,"userIDs":["ben"]}"#, node: 0)
            #expect(code(try await app.call("addFriend", #"{"userID":"cid"}"#, node: 2)) == 30_539)
        }

        @Test("P14 A back end adds friends for any user without an approval, and within the limits and blocklists")
        func forcing() async throws {
            let app = try await App("tencent", #"{"profile.defaultAllowType":"confirm","friends.max":2}"#)
            func force(_ user: String, _ other: String, node: Int) async throws -> Int64? {
                let body = #"{"asUser":"\#(user)","userID":"\#(other)","force":true}"#
                return code(try await app.call("addFriend", body, as: "operator", isAdmin: true, node: node))
            }
            for body in [#"{"userID":"ben","force":true}"#, #"{"userID":7,"addType":"triple","force":true}"#] {
                let refused = try await app.call("addFriend", body)
                #expect(refused.status == 403 && refused.json["detail"]?.text?.hasPrefix("force") == true, "\(refused.json)")
            }
            #expect(code(try await app.call("addFriend", #"{"userID":"ben","force":false}"#)) == 30_539)
            #expect(try await force("ann", "ben", node: 1) == 0)
            _ = try await app.call("addBlackList", #"{"userIDs":["ann"]}"#, as: "cid", node: 2)
            #expect(try await force("ann", "cid", node: 0) == 30_525)
            #expect(try await force("ann", "dan", node: 2) == 0)
            #expect(try await force("ann", "eve", node: 1) == 30_010)
            #expect(try await force("eve", "ann", node: 0) == 30_014)
            let list = try await app.call("checkFriends", #"{"userIDs":["ben","cid","dan","eve"],"checkType":2}"#, node: 1)
            #expect(results(list) == [[0, 3], [0, 0], [0, 3], [0, 0]])
        }

        @Test("P9 P10 P32 A back end brings friends along, with all that the list says about them, and no device is told")
        func importing() async throws {
            let app = try await App(
                "tencent", #"{"friends.max":3,"friends.customFields":{"Blood":"string"},"profile.defaultAllowType":"deny"}"#)
            let session = try await app.login("ann", node: 1)
            _ = try await app.call("createFriendGroup", #"{"groupNames":["work"]}"#)
            _ = try await app.call("addBlackList", #"{"userIDs":["dan"]}"#)
            func bring(_ friends: String, node: Int) async throws -> [[String]] {
                let answer = try await app.call(
                    "importFriends", #"{"asUser":"ann","friends":[\#(friends)]}"#, as: "operator", isAdmin: true, node: node)
                return answer["resultList"].elements.map { [$0["userID"]?.text ?? "", "\($0["resultCode"]?.number ?? -1)"] }
            }
            let ben =
                #"{"userID":"ben","remark":"Benny","groups":["work"],"addWording":"hi","addSource":"AddSource_Type_old","addTime":1000,"#
                + #""custom":{"Blood":"A"}}"#
            #expect(
                try await bring(ben + #",{"userID":"cid","groups":["home"]},{"userID":"dan"},{"userID":"eve"}"#, node: 0)
                    == [["ben", "0"], ["cid", "30001"], ["dan", "30515"], ["eve", "0"]])
            #expect(
                try await bring(#"{"userID":"ben","remark":"other"},{"userID":"fay"},{"userID":"gus"}"#, node: 2) == [
                    ["ben", "30001"], ["fay", "0"], ["gus", "30010"],
                ])
            let list = try await app.call("getFriendList", "{}", node: 1)["friendList"].elements
            #expect(list.map { $0["userID"]?.text } == ["ben", "eve", "fay"])
            #expect(list.first == (try JSON(Array(ben.utf8))))
            #expect(try await app.call("getFriendList", "{}", as: "ben")["friendList"].elements == [], "the other side keeps its list")
            // The sessions follow the profiles of the new friends, and were told nothing else.
            _ = try await app.call("modifySelfProfile", #"{"values":{"Nick":"new"}}"#, as: "fay", node: 2)
            try await session.until("the profile of fay") {
                $0.contains { $0.name == "onUserProfileChanged" && $0.json["userID"]?.text == "fay" }
            }
            #expect(!session.events.contains { $0.name.hasPrefix("onFriendList") })
        }

        @Test(
            "P9 P15 A call for back ends is refused for everybody else, and bad input changes nothing",
            arguments: [
                (#"{"friends":[]}"#, "friends: "), (#"{}"#, "friends: "), (#"{"friends":[1]}"#, "friends[0]: "),
                (#"{"friends":[{"userID":"ben"},{"userID":"ben"}]}"#, "friends[1].userID: "),
                (#"{"friends":[{"userID":"operator"}]}"#, "friends[0].userID: "),
                (#"{"friends":[{"userID":"ben"},{"userID":"cid","remark":1}]}"#, "friends[1].remark: "),
                (#"{"friends":[{"userID":"ben","groups":"work"}]}"#, "friends[0].groups: "),
                (#"{"friends":[{"userID":"ben","addSource":"other"}]}"#, "friends[0].addSource: "),
                (#"{"friends":[{"userID":"ben","addTime":-1}]}"#, "friends[0].addTime: "),
                (#"{"friends":[{"userID":"ben","custom":{"Blood":"A"}}]}"#, "friends[0].custom.Blood: "),
            ])
        func badImports(body: String, words: String) async throws {
            let app = try await App("tencent")
            let answer = try await app.call("importFriends", body, as: "operator", isAdmin: true, node: 1)
            #expect(answer.status == 400 && answer.json["detail"]?.text?.hasPrefix(words) == true, "\(answer.json)")
            #expect(try await app.call("getFriendList", "{}", as: "operator")["friendList"].elements == [])
            let right = [("importFriends", #"{"friends":[{"userID":"ben"}]}"#), ("deleteAllFriends", #"{"delType":1}"#)]
            // The role comes first: whatever the body is, and whatever the key.
            let bad = ["importFriends", "deleteAllFriends", "checkBlackList"].flatMap { name in [body, "{", "[]"].map { (name, $0) } }
            for (name, body) in right + bad {
                let refused = try await app.call(name, body, as: "operator", node: 2)
                #expect(refused.status == 403 && refused.code == 403 && refused.detail.hasPrefix(name), "\(name) \(body): \(refused.json)")
            }
            let key = String(repeating: "k", count: 65)
            #expect(try await app.exchange("importFriends", body, key: key, as: "operator", node: 0).status == 403)
        }

        @Test("P13 The source of a friend has its prefix and at most 8 bytes after it; anything else is 6017, and adds nobody")
        func sources() async throws {
            let app = try await App("tencent")
            for (source, isRight) in [
                ("AddSource_Type_", true), ("AddSource_Type_12345678", true), ("AddSource_Type_123456é", true), ("AddSource_Type_🏻", true),
                ("", true),
                ("AddSource_Type_123456789", false), ("AddSource_Type_1234567é", false), ("iOS", false), ("addsource_type_iOS", false),
            ] {
                let answer = try await app.call("addFriend", #"{"userID":"ben","addSource":"\#(source)"}"#, node: 1)
                #expect(answer.status == (isRight ? 200 : 400), "\(source)")
                if !isRight { #expect(answer.code == 6017 && answer.detail.hasPrefix("addSource: ")) }
                let list = try await app.call("getFriendList", "{}", node: 2)["friendList"].elements
                #expect(list.compactMap { $0["addSource"]?.text } == (isRight ? [source] : []))
                _ = try await app.call("deleteFriends", #"{"userIDs":["ben"],"delType":2}"#, node: 0)
            }
        }

        @Test(
            "P44 Friends work for users whom the app has registered, and for users who are known by their tokens alone",
            arguments: [true, false])
        func accounts(areHosted: Bool) async throws {
            let app = try await App("tencent", areHosted ? #"{"users.mustBeRegistered":true}"# : "{}")
            if areHosted { try await app.register(["ann", "ben"]) }
            _ = try await app.login("ann", node: 1)
            #expect(code(try await app.call("addFriend", #"{"userID":"ben"}"#, node: 2)) == 0)
            #expect(
                try await app.call("getFriendList", "{}", as: "ben", node: 0)["friendList"].elements.map { $0["userID"]?.text } == ["ann"])
            let profile = try await app.call("modifySelfProfile", #"{"values":{"Nick":"Ben"}}"#, as: "ben", node: 1)
            #expect(profile["profile"]["nick"]?.text == "Ben")
        }

        @Test("P15 A back end empties a friend list, of one side or of both", arguments: [1, 2])
        func deletingAll(type: Int) async throws {
            let app = try await App("tencent")
            for name in ["ben", "cid", "dan"] { _ = try await app.call("addFriend", #"{"userID":"\#(name)"}"#) }
            let body = #"{"asUser":"ann","delType":\#(type)}"#
            let answer = try await app.call("deleteAllFriends", body, as: "operator", isAdmin: true, node: 2)
            let results = answer["resultList"].elements
            #expect(results.map { $0["userID"]?.text } == ["ben", "cid", "dan"] && results.allSatisfy { $0["resultCode"]?.number == 0 })
            #expect(try await app.call("deleteAllFriends", body, as: "operator", isAdmin: true)["resultList"].elements == [])
            #expect(try await app.call("getFriendList", "{}", node: 1)["friendList"].elements == [])
            let other = try await app.call("getFriendList", "{}", as: "ben", node: 0)["friendList"].elements
            #expect(other.compactMap { $0["userID"]?.text } == (type == 1 ? ["ann"] : []))
        }

        @Test("P30 Of many users, each has its own result when the block ends, and a second end is 31503 for each")
        func unblockingMany() async throws {
            let app = try await App("tencent")
            let names = (0..<100).map { "user\($0)" }
            let all = users(names)
            #expect(try await app.call("addBlackList", all)["resultList"].elements.allSatisfy { $0["resultCode"]?.number == 0 })
            let ended = try await app.call("deleteBlackList", all, node: 1)
            #expect(ended["resultList"].elements.map { $0["userID"]?.text } == names)
            #expect(ended["resultList"].elements.allSatisfy { $0["resultCode"]?.number == 0 })
            let again = try await app.call("deleteBlackList", all, node: 2)
            #expect(again["resultList"].elements.allSatisfy { $0["resultCode"]?.number == 31_503 })
            let refused = try await app.call("deleteBlackList", users(names + ["user100"]))
            #expect(refused.status == 400 && refused.json["detail"]?.text?.hasPrefix("userIDs") == true, "\(refused.json)")
        }

        @Test("P30 The end of a block brings neither the friendship nor the request back")
        func unblockingFriends() async throws {
            let app = try await App("tencent")
            _ = try await app.call("addFriend", #"{"userID":"ben"}"#)
            _ = try await app.call("addBlackList", #"{"userIDs":["ben"]}"#, node: 1)
            _ = try await app.call("deleteBlackList", #"{"userIDs":["ben"]}"#, node: 2)
            let relations = try await app.call("checkFriends", #"{"userIDs":["ben"],"checkType":2}"#)
            #expect(results(relations) == [[0, 0]])
        }
    }
}
