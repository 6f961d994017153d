import NodeFixture
import Testing

extension ConformanceTests {
    /// Tencent's blocklist and the notices of the relationship chain over HTTP on three nodes.
    @Suite struct TencentNoticesTests {
        private func code(_ answer: Answer) -> Int64? { answer.json["resultCode"]?.number }

        private func codes(_ answer: Answer) -> [Int64?] { answer["resultList"].elements.map { $0["resultCode"]?.number } }

        private func friends(of user: String, in app: App, node: Int) async throws -> [String?] {
            try await app.call("getFriendList", "{}", as: user, node: node)["friendList"].elements.map { $0["userID"]?.text }
        }

        /// Waits until a session has these events of the chain after its login, and no other.
        private func expect(_ names: [String], in session: Session) async throws {
            try await session.until("the events \(names)") { Self.chained($0).map(\.name) == ["onRelationshipState"] + names }
        }

        /// The events of the chain. The first names the sequences at the login.
        private static func chained(_ events: [Session.Event]) -> [Session.Event] {
            events.filter { $0.name.hasPrefix("onFriend") || $0.name.hasPrefix("onBlack") || $0.name == "onRelationshipState" }
        }

        /// The sequences of a user's friends and requests.
        private func sequences(of user: String, in app: App, node: Int) async throws -> [String?] {
            let requests = try await app.call("getPendencyList", #"{"type":3}"#, as: user, node: node)
            return [try await app.call("getFriendList", "{}", as: user, node: node)["seq"].text, requests["seq"].text]
        }

        @Test("P29 P39 P40 Neither a block nor a place in the list of another user alone moves an event or a sequence of that user")
        func unseen() async throws {
            let app = try await App("tencent")
            let ben = try await app.login("ben", node: 2)
            _ = try await app.call("addFriend", #"{"userID":"cid"}"#, as: "ben", node: 0)
            try await expect(["onFriendListAdded"], in: ben)
            let before = try await sequences(of: "ben", in: app, node: 0)
            let calls = [
                ("addFriend", #"{"userID":"ben","addType":"single"}"#), ("deleteFriends", #"{"userIDs":["ben"],"delType":2}"#),
                ("addBlackList", #"{"userIDs":["ben"]}"#), ("deleteBlackList", #"{"userIDs":["ben"]}"#),
                ("addBlackList", #"{"userIDs":["ben"]}"#),
            ]
            for (number, call) in calls.enumerated() {
                let answer = try await app.call(call.0, call.1, node: number % 3)
                #expect((code(answer) ?? codes(answer).first ?? nil) == 0, "\(call.0): \(answer.json)")
                for node in 0..<3 { #expect(try await sequences(of: "ben", in: app, node: node) == before, "after \(call.0)") }
            }
            let changes = try await app.call("getFriendList", #"{"seq":"\#(before[0] ?? "")"}"#, as: "ben", node: 1)
            #expect(changes["deleted"].elements == [] && changes["friendList"].elements == [] && changes.json["isFull"] == .bool(false))
            // The next change of the own list is the next event, and follows the sequence from before.
            _ = try await app.call("addFriend", #"{"userID":"dan"}"#, as: "ben", node: 1)
            try await expect(["onFriendListAdded", "onFriendListAdded"], in: ben)
            #expect(Self.chained(ben.events).last?.json["fromSeq"]?.text == before[0])
        }

        @Test("P39 While many add a user at all nodes at once, the events name each of them, and no sequence is left out")
        func burst() async throws {
            let app = try await App("tencent")
            let sessions = [try await app.login("ann", node: 0), try await app.login("ann", node: 1, query: "platform=web")]
            let names = many(0..<90)
            try await withThrowingTaskGroup(of: Int64?.self) { group in
                for (number, name) in names.enumerated() {
                    group.addTask {
                        try await app.call("addFriend", #"{"userID":"ann"}"#, as: name, node: number % 3).json["resultCode"]?.number
                    }
                }
                for try await code in group { #expect(code == 0) }
            }
            let newest = try await sequences(of: "ann", in: app, node: 2)[0]
            for session in sessions {
                try await session.until("the newest friend") { $0.contains { $0.json["seq"]?.text == newest } }
                let events = Self.chained(session.events)
                let added = events.filter { $0.name == "onFriendListAdded" }
                #expect(added.flatMap { $0.json["friendList"]?.elements ?? [] }.compactMap { $0["userID"]?.text }.sorted() == names)
                let before = [events.first?.json["friendSeq"]?.text] + added.map { $0.json["seq"]?.text }
                #expect(added.map { $0.json["fromSeq"]?.text } == before.dropLast())
            }
        }

        @Test("P41 In a burst of 600 requests at all nodes the events of each device name every one, and no sequence is left out")
        func burstOfRequests() async throws {
            let app = try await App("tencent")
            let mode = try await app.call("modifySelfProfile", #"{"values":{"AllowType":"CONFIRM"}}"#)
            #expect(mode.code == 0, "\(mode.json)")
            let sessions = [try await app.login("ann", node: 0), try await app.login("ann", node: 1, query: "platform=web")]
            let names = many(0..<600)
            try await withThrowingTaskGroup(of: Answer.self) { group in
                for (number, name) in names.enumerated() {
                    group.addTask {
                        try await app.call("addFriend", #"{"userID":"ann","addWording":"hello"}"#, as: name, node: number % 3)
                    }
                }
                for try await answer in group { #expect(code(answer) == 30_539, "\(answer.json)") }
            }
            let newest = try await sequences(of: "ann", in: app, node: 2)[1]
            for session in sessions {
                try await session.until("the newest request") { $0.contains { $0.json["seq"]?.text == newest } }
                let events = Self.chained(session.events)
                let added = events.filter { $0.name == "onFriendApplicationListAdded" }
                #expect(added.flatMap { $0.json["pendencyList"]?.elements ?? [] }.compactMap { $0["userID"]?.text }.sorted() == names)
                let before = [events.first?.json["pendencySeq"]?.text] + added.map { $0.json["seq"]?.text }
                #expect(added.map { $0.json["fromSeq"]?.text } == before.dropLast())
                #expect(added.last?.json["unreadCnt"]?.number == 600)
            }
        }

        /// The client keeps the windows of HTTP/2 closed, so the node can send it nothing. A queue takes 64 KiB, some 200 requests.
        @Test("P41 A stream that is not read during a burst of 600 requests is told each of them once it is read again")
        func unreadBurst() async throws {
            let app = try await App("tencent")
            _ = try await app.call("modifySelfProfile", #"{"values":{"AllowType":"CONFIRM"}}"#)
            // Both streams are at one gateway, which takes each event for both at once.
            let live = try await app.login("ann", node: 0, query: "platform=web")
            let unread = try SilentClient(port: app.cluster.nodes[0].ports.client, token: try app.token("ann"), takesData: false)
            try await live.until("the other device is there") { events in
                events.contains { $0.name == "onSessionsChanged" && $0.json["sessions"]?.elements.count == 2 }
            }
            let names = many(0..<600)
            for start in stride(from: 0, to: names.count, by: 60) {
                try await withThrowingTaskGroup(of: Answer.self) { group in
                    for name in names[start..<start + 60] {
                        group.addTask { try await app.call("addFriend", #"{"userID":"ann"}"#, as: name, node: 1) }
                    }
                    for try await answer in group { #expect(code(answer) == 30_539, "\(answer.json)") }
                }
            }
            let newest = try #require(try await sequences(of: "ann", in: app, node: 2)[1])
            try await live.until("the newest request") { $0.contains { $0.json["seq"]?.text == newest } }
            let text = try await unread.takeData(until: #""seq":"\#(newest)","unreadCnt":600}"#)
            let events = try Self.events(in: text)
            let added = events.filter { $0.name == "onFriendApplicationListAdded" }.map(\.json)
            #expect(added.flatMap { $0["pendencyList"]?.elements ?? [] }.compactMap { $0["userID"]?.text }.sorted() == names)
            let state = try #require(events.first { $0.name == "onRelationshipState" }?.json)
            let before = [state["pendencySeq"]?.text] + added.map { $0["seq"]?.text }
            #expect(added.map { $0["fromSeq"]?.text } == before.dropLast())
            unread.close()
            live.close()
        }

        /// The whole events in the text of a stream.
        private static func events(in text: String) throws -> [Session.Event] {
            try text.split(separator: "\n\n", omittingEmptySubsequences: false).dropLast().compactMap { block in
                let lines = block.split(separator: "\n")
                guard let name = lines.first(where: { $0.hasPrefix("event: ") }), let data = lines.first(where: { $0.hasPrefix("data: ") })
                else { return nil }
                return Session.Event(name: String(name.dropFirst(7)), json: try JSON(Array(data.dropFirst(6).utf8)))
            }
        }

        @Test("P14 P29 A block ends the friendship of both sides, whichever node is asked, and neither can add the other: 30515, 30525")
        func blocking() async throws {
            let app = try await App("tencent")
            for other in ["ben", "cid"] { _ = try await app.call("addFriend", #"{"userID":"\#(other)"}"#) }
            let answer = try await app.call("addBlackList", #"{"userIDs":["ben","zoe"]}"#, node: 1)
            #expect(codes(answer) == [0, 0])
            for node in 0..<3 {
                #expect(try await friends(of: "ann", in: app, node: node) == ["cid"])
                #expect(try await friends(of: "ben", in: app, node: node) == [])
            }
            #expect(code(try await app.call("addFriend", #"{"userID":"ben"}"#, node: 2)) == 30_515)
            #expect(code(try await app.call("addFriend", #"{"userID":"ann"}"#, as: "ben", node: 0)) == 30_525)
            #expect(codes(try await app.call("addBlackList", #"{"userIDs":["ben"]}"#, node: 2)) == [31_307])
        }

        @Test("P30 P31 The blocklist is read by pages, and a user who is removed from it can be added again")
        func unblocking() async throws {
            let app = try await App("tencent", #"{"blockList.max":3}"#)
            #expect(codes(try await app.call("addBlackList", #"{"userIDs":["ben","cid","dan","eve"]}"#)) == [0, 0, 0, 30_013])
            let first = try await app.call("getBlackList", #"{"limit":2}"#, node: 1)
            #expect(first["userIDs"].elements.map(\.text) == ["ben", "cid"] && first["cursor"].text == "cid")
            let second = try await app.call("getBlackList", #"{"limit":2,"cursor":"cid"}"#, node: 2)
            #expect(second["userIDs"].elements.map(\.text) == ["dan"] && second.json["cursor"] == nil)
            #expect(codes(try await app.call("deleteBlackList", #"{"userIDs":["ben","eve"]}"#, node: 2)) == [0, 31_503])
            #expect(try await app.call("getBlackList", "{}", node: 0)["userIDs"].elements.map(\.text) == ["cid", "dan"])
            #expect(code(try await app.call("addFriend", #"{"userID":"ann"}"#, as: "ben", node: 1)) == 0)
        }

        @Test("P29 A blocked user sees the blocker OFFLINE when the call has been answered, and ONLINE after the block")
        func hiding() async throws {
            let app = try await App("tencent")
            _ = try await app.login("ann", node: 1)
            let watcher = try await app.login("ben", node: 2)
            _ = try await app.call("subscribeUserStatus", users(["ann"]), as: "ben", node: 2)
            try await watcher.status(of: "ann") { $0["statusType"]?.text == "ONLINE" }
            _ = try await app.call("addBlackList", #"{"userIDs":["ben"]}"#, node: 0)
            for node in 0..<3 { #expect(try await app.status(of: "ann", as: "ben", node: node)["statusType"]?.text == "OFFLINE") }
            try await watcher.status(of: "ann") { $0["statusType"]?.text == "OFFLINE" }
            _ = try await app.call("deleteBlackList", #"{"userIDs":["ben"]}"#, node: 0)
            for node in 0..<3 { #expect(try await app.status(of: "ann", as: "ben", node: node).general == "ONLINE") }
            try await watcher.until("ben is told that ann is there again") { events in
                events.last { $0.name == "onUserStatusChanged" }?.json["userStatusList"]?.elements.last?.general == "ONLINE"
            }
        }

        @Test(
            "P30 The end of a block, and of a list, shows the user to the others again, and tells a follower who saw it all along nothing",
            arguments: [true, false])
        func showingAgain(blocks: Bool) async throws {
            let app = try await App("tencent")
            let ann = try await app.login("ann", node: 0)
            let (ben, cid) = (try await app.login("ben", node: 1), try await app.login("cid", node: 2))
            for (user, session) in [("ben", ben), ("cid", cid)] {
                _ = try await app.call("subscribeUserStatus", users(["ann"]), as: user, node: 2)
                try await session.status(of: "ann") { $0.general == "ONLINE" }
            }
            let before = try await app.status(of: "ann", as: "cid", node: 1)
            let told = cid.statuses(of: "ann").count
            let (hide, show) = (
                blocks ? ("addBlackList", users(["ben"])) : ("setVisibility", #"{"visibility":"list","userIDs":["cid"]}"#),
                blocks ? ("deleteBlackList", users(["ben"])) : ("setVisibility", #"{"visibility":"everyone"}"#)
            )
            #expect(try await app.call(hide.0, hide.1, node: 1).status == 200)
            let hidden = try await ben.status(of: "ann") { $0.general == "OFFLINE" }
            #expect(try await app.call(show.0, show.1, node: 2).status == 200)
            let shown = try await ben.status(of: "ann") {
                $0.general == "ONLINE" && $0.time("lastUpdateTime") > hidden.time("lastUpdateTime")
            }
            for name in ["lastOnlineStatusUpdateTime", "lastSeenTime"] { #expect(shown.time(name) >= hidden.time(name)) }
            for node in 0..<3 {
                let after = try await app.status(of: "ann", as: "cid", node: node)
                for name in Self.times { #expect(after.time(name) == before.time(name), "\(name) at node \(node)") }
            }
            // Both followers see the next change, and both the same times after the next login.
            try await app.setStatus("fence", of: "ann", node: 1)
            for session in [ben, cid] { try await session.status(of: "ann") { $0.custom == "fence" } }
            #expect(cid.statuses(of: "ann").count == told + 1)
            ann.close()
            for session in [ben, cid] { try await session.status(of: "ann") { $0.custom == "" && $0.general == "OFFLINE" } }
            let seen = (try await app.status(of: "ann", as: "ben"), try await app.status(of: "ann", as: "cid"))
            for name in Self.times { #expect(seen.0.time(name) == seen.1.time(name), "\(name)") }
        }

        @Test(
            "P30 The end of a block of a user who is away and looks as before moves no time and no version, and no follower is told anything",
            arguments: ["rollcall", "tencent"], ["logged out before the block", "lost before the block", "lost after the block"])
        func showingAbsentUser(preset: String, absence: String) async throws {
            let app = try await App(preset)
            let ann = try await app.login("ann", node: 0)
            let (ben, cid) = (try await app.login("ben", node: 1), try await app.login("cid", node: 2))
            for (user, session) in [("ben", ben), ("cid", cid)] {
                _ = try await app.call("subscribeUserStatus", users(["ann"]), as: user, node: 2)
                try await session.status(of: "ann") { $0.general == "ONLINE" }
            }
            let leave = { () async throws -> Void in
                if absence.hasPrefix("lost") { ann.close() } else { _ = try await app.call("logout", "{}", node: 1) }
                try await cid.status(of: "ann") { $0.general != "ONLINE" }
            }
            let leavesLater = absence.hasSuffix("after the block")
            if !leavesLater { try await leave() }
            #expect(codes(try await app.call("addBlackList", users(["ben"]), node: 0)) == [0])
            try await ben.status(of: "ann") { $0.general != "ONLINE" }
            if leavesLater { try await leave() }
            var before: [String: JSON] = [:]
            for user in ["ben", "cid"] { before[user] = try await app.status(of: "ann", as: user, node: 1) }
            let told = [ben, cid].map { $0.statuses(of: "ann").count }
            #expect(codes(try await app.call("deleteBlackList", users(["ben"]), node: 2)) == [0])
            for user in ["ben", "cid"] {
                for node in 0..<3 { #expect(try await app.status(of: "ann", as: user, node: node) == before[user], "\(user) at \(node)") }
            }
            for (user, session) in [("ben", ben), ("cid", cid)] {
                try await app.setStatus("fence", of: user, node: 1)
                try await session.status(of: user) { $0.custom == "fence" }
            }
            #expect([ben, cid].map { $0.statuses(of: "ann").count } == told)
            // The next login is shown to both, with the same times.
            let again = try await app.login("ann", node: 2)
            for (index, session) in [ben, cid].enumerated() {
                try await session.until("the next login") { events in
                    let shown = events.filter { $0.name == "onUserStatusChanged" }.flatMap { $0.json["userStatusList"]?.elements ?? [] }
                    return shown.filter { $0.user == "ann" }.dropFirst(told[index]).contains { $0.general == "ONLINE" }
                }
            }
            let seen = (try await app.status(of: "ann", as: "ben"), try await app.status(of: "ann", as: "cid"))
            for name in Self.times { #expect(seen.0.time(name) == seen.1.time(name), "\(name)") }
            again.close()
        }

        @Test(
            "P30 Blocks, their ends and a visibility that changes nothing for a follower move no version, and a resumed stream is told nothing",
            arguments: ["rollcall", "tencent"])
        func versions(preset: String) async throws {
            let app = try await App(preset)
            _ = try await app.login("ann", node: 0)
            let cid = try await app.login("cid", node: 1)
            _ = try await app.call("subscribeUserStatus", users(["ann"]), as: "cid", node: 2)
            try await cid.status(of: "ann") { $0.general == "ONLINE" }
            try await app.setStatus("here", of: "ann", node: 2)
            try await cid.status(of: "ann") { $0.custom == "here" }
            let position = try #require(cid.events.last?.id)
            cid.close()
            try await app.setStatus("while away", of: "ann", node: 2)
            let resumed = try await app.login("cid", node: 2, query: "platform=ios&lastEventID=\(position)")
            try await resumed.status(of: "ann") { $0.custom == "while away" }
            let (told, before) = (resumed.statuses(of: "ann").count, try await app.status(of: "ann", as: "cid", node: 0))
            let calls = [
                ("addBlackList", users(["ben"])), ("deleteBlackList", users(["ben"])), ("setVisibility", #"{"visibility":"everyone"}"#),
                ("setVisibility", #"{"visibility":"list","userIDs":["cid"]}"#), ("setVisibility", #"{"visibility":"everyone"}"#),
            ]
            for (number, (operation, body)) in calls.enumerated() {
                #expect(try await app.call(operation, body, node: number % 3).status == 200)
                for node in 0..<3 { #expect(try await app.status(of: "ann", as: "cid", node: node) == before, "\(operation) at \(node)") }
            }
            try await app.setStatus("fence", of: "ann", node: 1)
            try await resumed.status(of: "ann") { $0.custom == "fence" }
            #expect(resumed.statuses(of: "ann").count == told + 1)
        }

        @Test("P29 Neither further blocks, however many, nor a visibility for nobody move what a blocked user sees")
        func manyBlocks() async throws {
            let app = try await App("tencent")
            _ = try await app.login("ann", node: 0)
            let ben = try await app.login("ben", node: 1)
            _ = try await app.call("subscribeUserStatus", users(["ann"]), as: "ben", node: 2)
            try await ben.status(of: "ann") { $0.general == "ONLINE" }
            #expect(codes(try await app.call("addBlackList", users(["ben"]), node: 1)) == [0])
            try await ben.status(of: "ann") { $0.general == "OFFLINE" }
            let hidden = try await app.status(of: "ann", as: "ben", node: 1)
            let told = ben.statuses(of: "ann").count
            for number in 300..<312 {
                try await app.setStatus("text \(number)", of: "ann", node: number % 3)
                #expect(codes(try await app.call("addBlackList", users(many(number..<number + 1)), node: number % 3)) == [0])
            }
            for start in [0, 100, 200] {
                let answer = try await app.call("addBlackList", users(many(start..<start + 100)), node: 2)
                #expect(codes(answer) == Array(repeating: 0, count: 100))
            }
            #expect(try await app.call("setVisibility", #"{"visibility":"nobody"}"#, node: 1).status == 200)
            for node in 0..<3 { #expect(try await app.status(of: "ann", as: "ben", node: node) == hidden, "at node \(node)") }
            try await app.setStatus("fence", of: "ben", node: 1)
            try await ben.status(of: "ben") { $0.custom == "fence" }
            #expect(ben.statuses(of: "ann").count == told)
        }

        /// An OFFLINE clears neither a text with an expiry nor an event.
        @Test("P29 Each of thirteen blocked users keeps the text behind which the user has hidden, its time and its version")
        func manyTexts() async throws {
            let app = try await App("rollcall")
            let viewers = many(0..<12)
            var seen: [JSON] = []
            for (number, viewer) in viewers.enumerated() {
                let text = "{\"customStatus\":\"text \(number)\",\"expiry\":600}"
                #expect(try await app.call("setSelfStatus", text, node: number % 3).status == 200)
                seen.append(try await app.status(of: "ann", as: viewer, node: 0))
                #expect(seen.last?.custom == "text \(number)")
                #expect(codes(try await app.call("addBlackList", users([viewer]), node: (number + 1) % 3)) == [0])
            }
            let ann = try await app.login("ann", node: 0)
            let ben = try await app.login("ben", node: 1)
            _ = try await app.call("subscribeUserStatus", users(["ann"]), as: "ben", node: 2)
            #expect(try await app.call("publishEvent", #"{"value":10001}"#, node: 2).status == 200)
            try await ben.status(of: "ann") { $0.general == "ONLINE" && $0.event == 10_001 }
            // The block takes effect one grace after it was called, because the event has only just been published.
            #expect(codes(try await app.call("addBlackList", users(["ben"]), node: 1)) == [0])
            let gone = try await ben.status(of: "ann") { $0.general == "OFFLINE" }
            #expect(gone.custom == "text 11" && gone.event == 10_001)
            for node in 0..<3 {
                for (viewer, status) in zip(viewers + ["ben"], seen + [gone]) {
                    #expect(try await app.status(of: "ann", as: viewer, node: node) == status, "\(viewer) at node \(node)")
                }
            }
            ann.close()
        }

        private static let times = ["lastUpdateTime", "lastOnlineStatusUpdateTime", "lastCustomStatusUpdateTime", "lastSeenTime"]

        @Test("P38 P39 P40 Each device of a side whose list has changed is told, and a later login is told the newest sequence")
        func friendNotices() async throws {
            let app = try await App("tencent")
            let devices = [try await app.login("ann", node: 0), try await app.login("ann", node: 1, query: "platform=web")]
            let other = try await app.login("ben", node: 2)
            _ = try await app.call("addFriend", #"{"userID":"ben","addType":"single"}"#, node: 2)
            for session in devices { try await expect(["onFriendListAdded"], in: session) }
            let held = try await sequences(of: "ann", in: app, node: 1)
            _ = try await app.call("addFriend", #"{"userID":"ann"}"#, as: "ben", node: 0)
            try await expect(["onFriendListAdded"], in: other)
            _ = try await app.call("deleteFriends", #"{"userIDs":["ben"],"delType":2}"#, node: 1)
            for session in devices { try await expect(["onFriendListAdded", "onFriendListDeleted"], in: session) }
            try await expect(["onFriendListAdded", "onFriendListDeleted"], in: other)
            let sequence = try await app.call("getFriendList", "{}", node: 2)["seq"].text
            let last = devices[0].events.last { $0.name == "onFriendListDeleted" }
            #expect(last?.json["seq"]?.text == sequence && last?.json["userIDs"]?.elements.map(\.text) == ["ben"])
            // A device that was away is told the newest sequences of all lists at its login, and reads what it lacks.
            _ = try await app.call("modifySelfProfile", #"{"values":{"AllowType":"CONFIRM"}}"#, node: 0)
            _ = try await app.call("addFriend", #"{"userID":"ann","addWording":"hello"}"#, as: "cid", node: 1)
            _ = try await app.call("addBlackList", users(["dan"]), node: 2)
            _ = try await app.call("createFriendGroup", #"{"groupNames":["work"]}"#, node: 0)
            let later = try await app.login("ann", node: 2, query: "platform=pad")
            let state = later.events.last { $0.name == "onRelationshipState" }?.json
            let newest = try await sequences(of: "ann", in: app, node: 0)
            #expect([state?["friendSeq"]?.text, state?["pendencySeq"]?.text] == newest && newest[0] == sequence && newest != held)
            #expect(state?["unreadCnt"]?.number == 1)
            for (list, field) in [("getFriendGroups", "groupsVersion"), ("getBlackList", "blockVersion")] {
                #expect(try await app.call(list, "{}", node: 1)["seq"].text == state?[field]?.text, "\(list)")
            }
            let lacking = try await app.call("getFriendList", "{\"seq\":\"\(held[0] ?? "")\"}", node: 1)
            #expect(lacking["deleted"].elements.map(\.text) == ["ben"] && lacking.json["isFull"] == .bool(false), "\(lacking.json)")
            let requests = try await app.call("getPendencyList", "{\"type\":3,\"seq\":\"\(held[1] ?? "")\"}", node: 2)
            #expect(requests["pendencyList"].elements.map { $0["userID"]?.text } == ["cid"])
        }

        @Test("P38 P41 P42 Both sides are told of a request and of its end", arguments: [0, 1, 2])
        func requestNotices(response: Int) async throws {
            let app = try await App("tencent", #"{"profile.defaultAllowType":"confirm"}"#)
            let (asker, asked) = (try await app.login("ann", node: 0), try await app.login("ben", node: 1))
            _ = try await app.call("addFriend", #"{"userID":"ben","addWording":"hello","addSource":"AddSource_Type_iOS"}"#, node: 2)
            for session in [asker, asked] { try await expect(["onFriendApplicationListAdded"], in: session) }
            let item = asked.events.last?.json["pendencyList"]?.elements.first
            #expect(
                item?["userID"]?.text == "ann" && item?["addWording"]?.text == "hello" && item?["addSource"]?.text == "AddSource_Type_iOS")
            #expect(asked.events.last?.json["unreadCnt"]?.number == 1 && asker.events.last?.json["unreadCnt"]?.number == 0)
            _ = try await app.call("doResponse", #"{"userID":"ann","responseType":\#(response)}"#, as: "ben", node: 2)
            for (session, gainsFriend) in [(asker, response < 2), (asked, response == 1)] {
                try await session.until("the end of the request") { events in
                    let names = Set(events.map(\.name).filter { $0.hasPrefix("onFriend") })
                    return names.contains("onFriendApplicationListDeleted") && names.contains("onFriendListAdded") == gainsFriend
                }
            }
        }
    }
}

extension JSON {
    /// A time of a status.
    fileprivate func time(_ name: String) -> Int64 { self[name]?.number ?? .min }
}
