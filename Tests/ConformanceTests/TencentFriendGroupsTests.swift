import NodeFixture
import PresenceClient
import Testing

extension ConformanceTests {
    /// Tencent's friend requests and groups of friends over HTTP on three nodes. Each call goes to another node than the one before.
    @Suite struct TencentFriendGroupsTests {
        private let settings = #"{"friends.customFields":{"Blood":"integer","Team":"string","Raw":"bytes"}}"#

        private func codes(_ answer: Answer) -> [Int64?] { answer["resultList"].elements.map { $0["resultCode"]?.number } }

        private func requests(of user: String, in app: App, _ body: String = #"{"type":3}"#, node: Int = 2) async throws -> Answer {
            try await app.call("getPendencyList", body, as: user, node: node)
        }

        private func users(_ page: Answer) -> [String] { page["pendencyList"].elements.compactMap { $0["userID"]?.text } }

        /// The groups of ann as "name users".
        private func groups(in app: App, _ body: String = "{}", node: Int = 0) async throws -> [String] {
            try await app.call("getFriendGroups", body, node: node)["groupList"].elements.map { group in
                let users = group["userIDs"]?.elements.compactMap(\.text) ?? []
                #expect(group["userCnt"]?.number == Int64(users.count))
                return "\(group["name"]?.text ?? "?") \(users.joined(separator: ","))"
            }
        }

        /// The friends of ann as "name groups", which must be the same at each node.
        private func groupsOfFriends(in app: App) async throws -> [String] {
            var lists: [[String]] = []
            for node in 0..<3 {
                let friends = try await app.call("getFriendList", "{}", node: node)["friendList"].elements
                lists.append(
                    friends.map {
                        "\($0["userID"]?.text ?? "?") \($0["groups"]?.elements.compactMap(\.text).joined(separator: ",") ?? "?")"
                    })
            }
            #expect(Set(lists).count == 1, "\(lists)")
            return lists[0]
        }

        @Test("P20 P21 P22 P26 A request is on both sides, with its type, its source, its wording and the other's nickname")
        func bothSides() async throws {
            let app = try await App("tencent", #"{"profile.defaultAllowType":"confirm"}"#)
            for user in ["ann", "ben"] {
                _ = try await app.call("modifySelfProfile", #"{"values":{"Nick":"I am \#(user)"}}"#, as: user, node: 2)
            }
            _ = try await app.call("addFriend", #"{"userID":"ben","addWording":"hello","addSource":"AddSource_Type_iOS"}"#)
            for (user, other, type, unread) in [("ann", "ben", Int64(2), Int64(0)), ("ben", "ann", 1, 1)] {
                for node in 0..<3 {
                    let page = try await requests(of: user, in: app, node: node)
                    let item = page["pendencyList"].elements.first
                    #expect(users(page) == [other] && item?["type"]?.number == type && item?["addWording"]?.text == "hello")
                    #expect(item?["addSource"]?.text == "AddSource_Type_iOS" && (item?["addTime"]?.number ?? 0) > 0)
                    #expect(item?["nickname"]?.text == "I am \(other)")
                    #expect(page["timestamp"].number == 0 && page["unreadCnt"].number == unread)
                }
            }
        }

        @Test("P17 P20 Where two requests do not make friends, an approval that does ends both requests on both sides", arguments: [0, 1])
        func requestsInBothDirections(approver: Int) async throws {
            let app = try await App("tencent", #"{"profile.defaultAllowType":"confirm","friends.mutualRequestAccepts":false}"#)
            let names = ["ann", "ben"]
            for (user, other) in [("ann", "ben"), ("ben", "ann")] {
                let answer = try await app.call("addFriend", #"{"userID":"\#(other)"}"#, as: user, node: 1)
                #expect(answer["resultCode"].number == 30_539)
            }
            for name in names { #expect(try await requests(of: name, in: app)["pendencyList"].elements.count == 2) }
            let body = #"{"userID":"\#(names[1 - approver])","responseType":1}"#
            #expect(try await app.call("doResponse", body, as: names[approver], node: 2)["resultCode"].number == 0)
            for node in 0..<3 {
                for (user, other) in [("ann", "ben"), ("ben", "ann")] {
                    let page = try await requests(of: user, in: app, node: node)
                    #expect(users(page) == [] && page["unreadCnt"].number == 0, "of \(user) at node \(node)")
                    let friends = try await app.call("getFriendList", "{}", as: user, node: node)["friendList"].elements
                    #expect(friends.map { $0["userID"]?.text } == [other])
                }
            }
        }

        @Test("P23 P24 P25 Pages continue by timestamp with the sequence of an earlier list, and the newest sequence returns nothing")
        func pages() async throws {
            let app = try await App("tencent", #"{"profile.defaultAllowType":"confirm"}"#)
            let others = (0..<5).map { "user\($0)" }
            var held = ""
            for other in others {
                _ = try await app.call("addFriend", #"{"userID":"ann"}"#, as: other)
                if held.isEmpty { held = try await requests(of: "ann", in: app)["seq"].text ?? "" }
            }
            var (found, time) = ([String](), Int64(0))
            repeat {
                let page = try await requests(of: "ann", in: app, #"{"type":1,"numPerPage":2,"timestamp":\#(time),"seq":"\#(held)"}"#)
                found += users(page)
                time = page["timestamp"].number ?? 0
            } while time != 0
            #expect(found == others)
            let sequence = try await requests(of: "ann", in: app)["seq"].text ?? ""
            let same = try await requests(of: "ann", in: app, #"{"type":3,"seq":"\#(sequence)"}"#, node: 0)
            #expect(users(same) == [] && same["seq"].text == sequence && same["unreadCnt"].number == 5)
        }

        @Test("P25 A list that changes between two pages has another sequence, and the old one goes on to the last request")
        func changingPages() async throws {
            let app = try await App("tencent", #"{"profile.defaultAllowType":"confirm"}"#)
            func ask(_ other: String, node: Int) async throws {
                let answer = try await app.call("addFriend", #"{"userID":"ann"}"#, as: other, node: node)
                try #require(answer["resultCode"].number == 30_539, "\(answer.json)")
            }
            func page(_ time: Int64, _ sequence: String, node: Int) async throws -> Answer {
                let body = #"{"type":1,"numPerPage":2,"timestamp":\#(time),"seq":"\#(sequence)"}"#
                return try await requests(of: "ann", in: app, body, node: node)
            }
            try await ask("read", node: 0)
            let held = try #require(try await requests(of: "ann", in: app)["seq"].text)
            for (number, other) in ["one", "two", "three", "four"].enumerated() { try await ask(other, node: number % 3) }
            let first = try await page(0, held, node: 0)
            #expect(users(first) == ["read", "one"] && first["timestamp"].number != 0)
            // While the client reads, one more comes, and the user rejects one that no page has had yet.
            try await ask("five", node: 2)
            #expect(try await app.call("doResponse", #"{"userID":"three","responseType":2}"#, node: 1)["resultCode"].number == 0)
            var (found, last) = ([String](), first)
            while let time = last["timestamp"].number, time != 0, found.count < 10 {
                last = try await page(time, held, node: found.count % 3)
                found += users(last)
            }
            #expect(found == ["two", "four", "five"])
            // The client keeps the new sequence once it has finished.
            let newest = try #require(last["seq"].text)
            #expect(newest != first["seq"].text && newest != held)
            for node in 0..<3 {
                let same = try await page(0, newest, node: node)
                #expect(users(same) == [] && same["seq"].text == newest)
            }
        }

        /// By the preset's limit of calls one user sends 20 requests in 5 s, so the user who sends them all has no limit.
        @Test(
            "P24 Of requests that come or are sent at once, each is on exactly one page, however many are in one millisecond",
            arguments: ["received", "sent"])
        func pagesOfOneMillisecond(_ direction: String) async throws {
            let isSent = direction == "sent"
            let confirm = #""profile.defaultAllowType":"confirm""#
            let app = try await App("tencent", isSent ? "{\(confirm),\"rate.chain\":false}" : "{\(confirm)}")
            let others = (10..<70).map { "user\($0)" }
            // Each call has a connection of its own, and a node takes few new ones at a time.
            for start in stride(from: 0, to: others.count, by: 12) {
                try await withThrowingTaskGroup(of: Void.self) { calls in
                    for (number, other) in others[start..<start + 12].enumerated() {
                        let (caller, target) = isSent ? ("ann", other) : (other, "ann")
                        calls.addTask { _ = try await app.call("addFriend", "{\"userID\":\"\(target)\"}", as: caller, node: number % 3) }
                    }
                    try await calls.waitForAll()
                }
            }
            for type in [isSent ? 2 : 1, 3] {
                for most in [1, 2, 3, 5, 7, 11, 30, 59, 60, 100] {
                    var (found, time) = ([String](), Int64(0))
                    repeat {
                        let body = #"{"type":\#(type),"numPerPage":\#(most),"timestamp":\#(time),"seq":"old"}"#
                        let page = try await requests(of: "ann", in: app, body, node: most % 3)
                        found += users(page)
                        time = page["timestamp"].number ?? 0
                    } while time != 0
                    #expect(found.sorted() == others, "type \(type), pages of \(most)")
                }
            }
        }

        @Test("P33 P36 The clients of both devices show a group's new name with its friends, and no group after its end")
        func mirrors() async throws {
            let app = try await App("tencent", settings)
            let devices = try [0, 1].map { node in
                var configuration = app.configuration(of: "ann", nodes: [node])
                configuration.keepsRelationships = true
                return try PresenceClient(configuration)
            }
            for device in devices { try await device.login() }
            #expect(try await devices[0].friendship.addFriend("ben").resultCode == 0)
            try await devices[0].friendship.createFriendGroup(["work"], userIDs: ["ben"])
            func expect(_ groups: [String]) async throws {
                for device in devices {
                    try await app.cluster.until("a device shows the groups \(groups)") {
                        let lists = device.friendship.relationships
                        return lists.friends.map(\.groups) == [groups] && lists.groups.map(\.name) == groups
                    }
                }
            }
            try await expect(["work"])
            let sequence = try await app.call("getFriendList", "{}", node: 2)["seq"].text
            try await devices[0].friendship.renameFriendGroup("work", to: "office")
            try await expect(["office"])
            for node in 0..<3 { #expect(try await app.call("getFriendList", "{}", node: node)["seq"].text != sequence) }
            try await devices[1].friendship.deleteFriendGroup(["office"])
            try await expect([])
            for device in devices { try await device.logout() }
        }

        @Test("P27 P28 Requests are removed from the own list alone, and are read up to a time") func deletingAndReading() async throws {
            let app = try await App("tencent", #"{"profile.defaultAllowType":"confirm"}"#)
            for other in ["ben", "cid"] { _ = try await app.call("addFriend", #"{"userID":"ann"}"#, as: other) }
            let time = try await requests(of: "ann", in: app)["pendencyList"].elements.first?["addTime"]?.number ?? 0
            #expect(try await app.call("pendencyReport", #"{"timestamp":\#(time)}"#, node: 1)["unreadCnt"].number == 1)
            #expect(try await requests(of: "ann", in: app)["unreadCnt"].number == 1)
            let deleted = try await app.call("deletePendency", #"{"type":1,"userIDs":["ben","zoe"]}"#, node: 1)
            #expect(deleted.errors == ["zoe 30614"])
            #expect(try await users(requests(of: "ann", in: app)) == ["cid"])
            #expect(try await users(requests(of: "ben", in: app)) == ["ann"])
        }

        @Test("P10 P11 modifyFriend changes the remark, groups and custom fields together") func modifying() async throws {
            let app = try await App("tencent", settings)
            _ = try await app.call("addFriend", #"{"userID":"ben"}"#)
            _ = try await app.call("createFriendGroup", #"{"groupNames":["work"]}"#)
            let values = #"{"Remark":"Benny","Group":["work"],"Custom_Blood":3,"Custom_Team":"red","Custom_Raw":{"base64":"/w=="}}"#
            let answer = try await app.call("modifyFriend", #"{"userID":"ben","values":\#(values)}"#, node: 1)
            #expect(answer["resultCode"].number == 0)
            for node in 0..<3 {
                let friend = try await app.call("getFriendList", "{}", node: node)["friendList"].elements.first
                #expect(friend == answer["friend"] && friend?["remark"]?.text == "Benny")
                #expect(friend?["groups"]?.elements.compactMap(\.text) == ["work"])
                #expect(friend?["custom"]?["Blood"]?.number == 3 && friend?["custom"]?["Raw"]?["base64"]?.text == "/w==")
            }
            let stranger = try await app.call("modifyFriend", #"{"userID":"zoe","values":{"Remark":"x"}}"#, node: 2)
            #expect(stranger["resultCode"].number == 31_704 && stranger["friend"] == .null)
        }

        @Test(
            "P6 P8 P11 An undeclared key, a wrong type and a value that is too long are 6017, and nothing changes",
            arguments: [
                (#""Nick":"x""#, "Nick"), (#""Custom_None":1"#, "Custom_None"), (#""Custom_Blood":"3""#, "Custom_Blood"),
                (#""Custom_Blood":1.5"#, "Custom_Blood"), (#""Custom_Blood":9007199254740993"#, "Custom_Blood"),
                (#""Custom_Team":3"#, "Custom_Team"), (#""Custom_Team":{"base64":"/w=="}"#, "Custom_Team"),
                (#""Custom_Team":"\#(String(repeating: "x", count: 501))""#, "Custom_Team"),
                (#""Custom_Raw":{"base64":"?"}"#, "Custom_Raw"),
                (#""Remark":"\#(String(repeating: "x", count: 97))""#, "Remark"), (#""Remark":7"#, "Remark"),
                (#""Group":"work""#, "Group"), (#""Group":[""]"#, "Group"),
                (#""Group":["\#(String(repeating: "x", count: 31))"]"#, "Group"),
                (#""Undeclared":null"#, "Undeclared"),
            ])
        func badValues(value: String, field: String) async throws {
            let app = try await App("tencent", settings)
            _ = try await app.call("addFriend", #"{"userID":"ben"}"#)
            let before = try await app.call("getFriendList", "{}").json
            let body = #"{"userID":"ben","values":{"Custom_Raw":"y",\#(value)}}"#
            let answer = try await app.call("modifyFriend", body.replacing(#""Custom_Raw":"y","Custom_Raw""#, with: #""Custom_Raw""#))
            #expect(answer.code == 6017 && answer.detail.hasPrefix("values.\(field)"), "\(answer.json)")
            #expect(try await app.call("getFriendList", "{}", node: 1).json == before)
        }

        @Test("P32 P33 P36 P37 Groups are created with friends, renamed, read by name and deleted") func groups() async throws {
            let app = try await App("tencent", settings)
            for other in ["ben", "cid"] { _ = try await app.call("addFriend", #"{"userID":"\#(other)"}"#) }
            let created = try await app.call("createFriendGroup", #"{"groupNames":["work","chess"],"userIDs":["ben","zoe"]}"#, node: 1)
            #expect(created["resultCode"].number == 0 && codes(created) == [0, 32_216])
            for node in 0..<3 { #expect(try await groups(in: app, node: node) == ["work ben", "chess ben"]) }
            #expect(try await app.call("createFriendGroup", #"{"groupNames":["new","work"]}"#)["resultCode"].number == 30_001)
            #expect(try await app.call("renameFriendGroup", #"{"oldName":"work","newName":"office"}"#)["resultCode"].number == 0)
            #expect(try await app.call("renameFriendGroup", #"{"oldName":"work","newName":"x"}"#)["resultCode"].number == 30_001)
            #expect(try await app.call("renameFriendGroup", #"{"oldName":"office","newName":"chess"}"#)["resultCode"].number == 30_001)
            #expect(try await groups(in: app, #"{"groupNames":["office","none"]}"#, node: 1) == ["office ben"])
            #expect(try await groupsOfFriends(in: app) == ["ben office,chess", "cid "])
            #expect(try await app.call("deleteFriendGroup", #"{"groupNames":["office","none"]}"#, node: 2).status == 200)
            #expect(try await groups(in: app) == ["chess ben"])
            #expect(try await groupsOfFriends(in: app) == ["ben chess", "cid "])
        }

        @Test("P34 P35 Friends join and leave a group, each with a result") func members() async throws {
            let app = try await App("tencent", settings)
            for other in ["ben", "cid"] { _ = try await app.call("addFriend", #"{"userID":"\#(other)"}"#) }
            _ = try await app.call("createFriendGroup", #"{"groupNames":["work"],"userIDs":["ben"]}"#)
            let body = #"{"groupName":"work","userIDs":["ben","cid","zoe"]}"#
            #expect(codes(try await app.call("addFriendsToFriendGroup", body, node: 1)) == [32_519, 0, 32_518])
            #expect(try await groups(in: app, node: 2) == ["work ben,cid"])
            #expect(try await groupsOfFriends(in: app) == ["ben work", "cid work"])
            #expect(codes(try await app.call("delFriendsFromFriendGroup", body, node: 2)) == [0, 0, 32_518])
            #expect(try await groupsOfFriends(in: app) == ["ben ", "cid "])
            #expect(codes(try await app.call("delFriendsFromFriendGroup", body)) == [32_520, 32_520, 32_518])
            let none = try await app.call("addFriendsToFriendGroup", #"{"groupName":"none","userIDs":["ben"]}"#)
            #expect(none["resultCode"].number == 30_001 && codes(none) == [])
        }

        @Test("P12 The group of addFriend has the new friend") func addFriendToGroup() async throws {
            let app = try await App("tencent", settings)
            _ = try await app.call("createFriendGroup", #"{"groupNames":["work"]}"#)
            #expect(try await app.call("addFriend", #"{"userID":"ben","group":"none"}"#)["resultCode"].number == 30_001)
            #expect(try await app.call("addFriend", #"{"userID":"ben","group":"work"}"#)["resultCode"].number == 0)
            #expect(try await groups(in: app, node: 1) == ["work ben"])
        }

        @Test("P32 The app limits the groups, their names, remarks and wordings") func limits() async throws {
            let limits = #"{"friends.groupsMax":2,"friends.groupNameBytes":4,"friends.remarkBytes":3,"friends.wordingBytes":2}"#
            let app = try await App("tencent", limits)
            #expect(try await app.call("createFriendGroup", #"{"groupNames":["four","x"]}"#)["resultCode"].number == 0)
            #expect(try await app.call("createFriendGroup", #"{"groupNames":["y"]}"#)["resultCode"].number == 30_011)
            #expect(try await app.call("createFriendGroup", #"{"groupNames":["fives"]}"#).code == 6017)
            #expect(try await app.call("renameFriendGroup", #"{"oldName":"x","newName":"fives"}"#).code == 6017)
            #expect(try await app.call("addFriend", #"{"userID":"ben","remark":"four"}"#).code == 6017)
            #expect(try await app.call("addFriend", #"{"userID":"ben","addWording":"abc"}"#).code == 6017)
            #expect(try await app.call("addFriend", #"{"userID":"ben","remark":"abc","addWording":"ab"}"#)["resultCode"].number == 0)
            #expect(try await app.call("modifyFriend", #"{"userID":"ben","values":{"Remark":"four"}}"#).code == 6017)
        }

        @Test("A switched-off relationship chain answers 72001 to all its calls") func switchedOff() async throws {
            let app = try await App("tencent", #"{"chain.enabled":false}"#)
            for (operation, body) in [
                ("getPendencyList", #"{"type":1}"#), ("deletePendency", #"{"type":1,"userIDs":["ben"]}"#),
                ("pendencyReport", #"{"timestamp":0}"#), ("modifyFriend", #"{"userID":"ben","values":{}}"#),
                ("createFriendGroup", #"{"groupNames":["x"]}"#), ("deleteFriendGroup", #"{"groupNames":["x"]}"#),
                ("renameFriendGroup", #"{"oldName":"x","newName":"y"}"#), ("getFriendGroups", "{}"),
                ("addFriendsToFriendGroup", #"{"groupName":"x","userIDs":["ben"]}"#),
                ("delFriendsFromFriendGroup", #"{"groupName":"x","userIDs":["ben"]}"#),
            ] { #expect(try await app.call(operation, body).code == 72_001, "\(operation)") }
        }
    }
}
