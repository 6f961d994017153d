import NodeFixture
import PresenceClient
import Synchronization
import Testing

extension ConformanceTests {
    /// Devices that were away while another device of the user has changed the groups and the blocklist, over HTTP on three nodes.
    @Suite struct TencentAwayTests {
        /// Whether a network refuses new connections.
        private final class Gate: Sendable {
            private let state = Mutex(false)
            var isClosed: Bool {
                get { state.withLock { $0 } }
                set { state.withLock { $0 = newValue } }
            }
        }

        private static let lists = ["friendSeq", "groupsVersion", "blockVersion"]

        /// The sequences of friends, groups and blocked users as the calls answer them.
        private func answered(in app: App, node: Int) async throws -> [String?] {
            var sequences: [String?] = []
            for operation in ["getFriendList", "getFriendGroups", "getBlackList"] {
                sequences.append(try await app.call(operation, "{}", node: node)["seq"].text)
            }
            return sequences
        }

        /// The same as a stream was told them last.
        private static func told(_ events: [Session.Event]) -> [String?] {
            let state = events.last { $0.name == "onRelationshipState" }
            return lists.map { state?.json[$0]?.text }
        }

        /// Gives ann two friends, each in a group.
        private func befriend(in app: App) async throws {
            for (other, group) in [("ben", "work"), ("cid", "home")] {
                _ = try await app.call("addFriend", #"{"userID":"\#(other)"}"#, node: 1)
                let answer = try await app.call("createFriendGroup", #"{"groupNames":["\#(group)"],"userIDs":["\#(other)"]}"#, node: 2)
                #expect(answer["resultCode"].number == 0)
            }
        }

        private func client(of app: App, at addresses: [String]? = nil) throws -> PresenceClient {
            var configuration = app.configuration(of: "ann", nodes: [0])
            if let addresses { configuration.addresses = addresses }
            configuration.keepsRelationships = true
            return try PresenceClient(configuration)
        }

        /// Waits until a client has all lists, with these groups and blocked users.
        private func expect(_ groups: [String], blocked: [String], at client: PresenceClient, in app: App) async throws {
            try await app.cluster.until("a device has the groups \(groups) and blocks \(blocked)") {
                let lists = client.friendship.relationships
                let users = lists.groups.map { "\($0.name) \($0.userIDs?.joined(separator: ",") ?? "?")" }
                return lists.isComplete && users == groups && lists.blocked == blocked
            }
        }

        @Test(
            "P30 P33 P36 P38 The client of a device that was away has the groups and blocks of one that stayed, resumed and logged in anew")
        func clients() async throws {
            let app = try await App("tencent")
            try await befriend(in: app)
            let gate = Gate()
            let network = try await FaultyNetwork(to: app.cluster.nodes[1].ports.client) { _ in
                ConnectionFate(end: gate.isClosed ? .refused : .never)
            }
            let (stayed, away) = (try client(of: app), try client(of: app, at: ["http://127.0.0.1:\(network.port)"]))
            for device in [stayed, away] {
                try await device.login()
                try await expect(["work ben", "home cid"], blocked: [], at: device, in: app)
            }
            gate.isClosed = true
            network.cut()
            try await app.cluster.until("the device is away") { await away.connectionState != .connected }
            try await stayed.friendship.renameFriendGroup("work", to: "office")
            try await stayed.friendship.deleteFriendGroup(["home"])
            #expect(try await stayed.friendship.addBlackList(["dan"]).map(\.resultCode) == [0])
            try await expect(["office ben"], blocked: ["dan"], at: stayed, in: app)
            gate.isClosed = false
            let new = try client(of: app)
            try await new.login()
            for device in [away, new] {
                try await expect(["office ben"], blocked: ["dan"], at: device, in: app)
                try await app.cluster.until("the friends are those of the other device") {
                    device.friendship.relationships.friends == stayed.friendship.relationships.friends
                }
            }
            for device in [stayed, away, new] { try await device.logout() }
            try await network.close()
        }

        @Test("P38 A resumed stream and a new one are told the newest sequences of groups and blocks, which the calls answer as well")
        func streams() async throws {
            let app = try await App("tencent")
            try await befriend(in: app)
            var first: Session? = try await app.login("ann", node: 0, query: "platform=ios")
            let before = Self.told(first?.events ?? [])
            #expect(try await answered(in: app, node: 1) == before && !before.contains(nil))
            let position = try #require(first?.events.last { !$0.id.isEmpty }?.id)
            first = nil
            _ = try await app.call("renameFriendGroup", #"{"oldName":"work","newName":"office"}"#, node: 1)
            _ = try await app.call("deleteFriendGroup", #"{"groupNames":["home"]}"#, node: 2)
            _ = try await app.call("addBlackList", users(["dan"]), node: 1)
            for (node, query) in ["platform=web", "platform=ios&lastEventID=\(position)"].enumerated() {
                let session = try await app.login("ann", node: node + 1, query: query)
                let told = Self.told(session.events)
                for (old, new) in zip(before, told) { #expect(old != new) }
                #expect(try await answered(in: app, node: node) == told)
            }
        }

        /// Calls of a user and of others, with the event by which each device of ann is told.
        private static let changes: [(user: String, operation: String, body: String, event: String)] = [
            ("ann", "addFriend", #"{"userID":"eve"}"#, "onFriendListAdded"),
            ("ann", "modifyFriend", #"{"userID":"eve","values":{"Remark":"Evie"}}"#, "onFriendInfoChanged"),
            ("ann", "addFriendsToFriendGroup", #"{"groupName":"home","userIDs":["ben"]}"#, "onFriendGroupsChanged"),
            ("ann", "deleteFriends", #"{"userIDs":["eve"],"delType":2}"#, "onFriendListDeleted"),
            ("gus", "addFriend", #"{"userID":"ann"}"#, "onFriendApplicationListAdded"),
            ("ann", "pendencyReport", #"{"timestamp":9007199254740992}"#, "onFriendApplicationListRead"),
            ("ann", "doResponse", #"{"userID":"gus","responseType":2}"#, "onFriendApplicationListDeleted"),
            ("ann", "addBlackList", #"{"userIDs":["fay"]}"#, "onBlackListAdded"),
            ("ann", "deleteBlackList", #"{"userIDs":["fay"]}"#, "onBlackListDeleted"),
            ("ben", "modifySelfProfile", #"{"values":{"Nick":"Ben"}}"#, "onUserProfileChanged"),
        ]

        @Test("P38 P43 A stream that resumes behind any event of the chain, or has missed it, is told the newest state on each node")
        func resumed() async throws {
            let app = try await App("tencent")
            try await befriend(in: app)
            _ = try await app.call("modifySelfProfile", #"{"values":{"AllowType":"CONFIRM"}}"#, node: 0)
            var live = try await app.login("ann", node: 0)
            var away = try await app.login("ann", node: 2, query: "platform=pad")
            for (number, change) in Self.changes.enumerated() {
                let missed = try #require(away.events.last { !$0.id.isEmpty }?.id)
                away.close()
                let answer = try await app.call(change.operation, change.body, as: change.user, node: (number + 1) % 3)
                try #require(answer.status == 200, "\(change.operation): \(answer.json)")
                try await live.until(change.event) { events in events.contains { $0.name == change.event } }
                let position = try #require(live.events.last { $0.name == change.event }?.id)
                live.close()
                live = try await app.login("ann", node: (number + 2) % 3, from: position)
                away = try await app.login("ann", node: number % 3, query: "platform=pad", from: missed)
                let sequences = try await answered(in: app, node: number % 3)
                let requests = try await app.call("getPendencyList", #"{"type":3}"#, node: number % 3)
                let profile = try await app.call("getSelfProfile", "{}", node: number % 3)["profile"]["version"]?.text
                for session in [live, away] {
                    #expect(Self.told(session.events) == sequences, "after \(change.event)")
                    let state = session.events.last { $0.name == "onRelationshipState" }?.json
                    #expect(state?["profileVersion"]?.text == profile, "after \(change.event)")
                    #expect(state?["pendencySeq"] == requests["seq"] && state?["unreadCnt"] == requests["unreadCnt"])
                }
            }
            // The last change was one of a friend's profile, which a stream that has missed it is told as an event.
            try await away.until("the profile that it has missed") { events in events.contains { $0.name == "onUserProfileChanged" } }
        }

        /// The client keeps the windows of HTTP/2 closed, so the node can send it nothing.
        @Test("P38 A stream that is not read until its queue overflows is told each change of the lists once it is read again")
        func unreadStream() async throws {
            let app = try await App("rollcall")
            try await befriend(in: app)
            let friends = many(0..<40)
            let rows = friends.map { #"{"userID":"\#($0)"}"# }.joined(separator: ",")
            let imported = try await app.call(
                "importFriends", #"{"friends":[\#(rows)],"asUser":"ann"}"#, as: "backend", isAdmin: true, node: 2)
            try #require(imported.status == 200, "\(imported.json)")
            // Both streams of ann are at one gateway, which takes each event for both at once.
            let live = try await app.login("ann", node: 0, query: "platform=web")
            let unread = try SilentClient(port: app.cluster.nodes[0].ports.client, token: try app.token("ann"), takesData: false)
            try await live.until("the other device is there") { events in
                events.contains { $0.name == "onSessionsChanged" && $0.json["sessions"]?.elements.count == 2 }
            }
            // Each change is a push of some 600 bytes. A queue takes 64 KiB.
            let rest = String(repeating: "x", count: 240)
            for round in 0..<8 {
                for (number, friend) in friends.enumerated() { try await app.setStatus("\(round) \(rest)", of: friend, node: number % 3) }
            }
            let before = try #require(try await answered(in: app, node: 1).last ?? nil)
            _ = try await app.call("renameFriendGroup", #"{"oldName":"work","newName":"office"}"#, node: 1)
            _ = try await app.call("addBlackList", users(["dan"]), node: 2)
            for event in ["onFriendGroupsChanged", "onBlackListAdded"] {
                try await live.until(event) { events in events.contains { $0.name == event } }
            }
            let newest = try await answered(in: app, node: 1).map { $0 ?? "none" }
            let text = try await unread.takeData(until: #""userIDs":["dan"],"fromSeq":"\#(before)","seq":"\#(newest[2])""#)
            // These events came while the queue was full.
            #expect(text.contains("onFriendGroupsChanged") && text.contains(#""seq":"\#(newest[1])""#))
            #expect(text.contains(#"eq":"\#(newest[0])""#))
            unread.close()
            live.close()
        }

        @Test("P34 P35 P38 The sequence of the groups moves with a group's friends, and with nothing else in the friend list")
        func sequences() async throws {
            let app = try await App("tencent")
            try await befriend(in: app)
            let session = try await app.login("ann", node: 0)
            let calls = [
                (false, "modifyFriend", #"{"userID":"ben","values":{"Remark":"Benny"}}"#), (false, "addFriend", #"{"userID":"eve"}"#),
                (true, "addFriendsToFriendGroup", #"{"groupName":"home","userIDs":["ben"]}"#),
                (true, "delFriendsFromFriendGroup", #"{"groupName":"work","userIDs":["ben"]}"#),
                (false, "deleteFriends", #"{"userIDs":["eve"],"delType":1}"#), (true, "deleteFriends", #"{"userIDs":["cid"],"delType":1}"#),
            ]
            var held = try await app.call("getFriendGroups", "{}")["seq"].text
            for (number, (moves, operation, body)) in calls.enumerated() {
                #expect(try await app.call(operation, body, node: number % 3).status == 200)
                let now = try await app.call("getFriendGroups", "{}", node: 2)["seq"].text
                #expect((now != held) == moves, "\(operation) \(body)")
                held = now
                guard moves else { continue }
                try await session.until("the groups at \(now ?? "none")") { events in
                    events.contains { $0.name == "onFriendGroupsChanged" && $0.json["seq"]?.text == now }
                }
            }
        }
    }
}
