import NodeFixture
import Testing

extension ConformanceTests {
    /// Statuses of friends over HTTP on three nodes: who is told them, and who may see them.
    ///
    /// The calls of the relationship chain make the friends. No test sets a list of its own.
    @Suite struct FriendStatusTests {
        func code(_ answer: Answer) -> Int64? { answer.json["resultCode"]?.number }

        /// Has `user` add friends, each call at another node.
        func add(_ friends: [String], by user: String, in app: App) async throws {
            for (number, friend) in friends.enumerated() {
                let answer = try await app.call("addFriend", #"{"userID":"\#(friend)"}"#, as: user, node: number % 3)
                try #require(code(answer) == 0, "\(answer.json)")
            }
        }

        func hide(_ user: String, _ visibility: String, in app: App, node: Int = 0) async throws {
            let answer = try await app.call("setVisibility", #"{"visibility":"\#(visibility)"}"#, as: user, node: node)
            try #require(answer.status == 200, "\(answer.json)")
        }

        /// The general status of ann that `viewer` sees at each node.
        func seen(by viewer: String, in app: App) async throws -> [String?] {
            var seen: [String?] = []
            for node in 0..<3 { seen.append(try await app.status(of: "ann", as: viewer, node: node).general) }
            return seen
        }

        /// Has a session receive a change of its own user. It has then received all that its node has pushed before.
        func fence(_ user: String, _ session: Session, _ text: String, in app: App, node: Int) async throws {
            try await app.setStatus(text, of: user, node: node)
            try await session.status(of: user) { $0.custom == text }
        }

        @Test("T28 Friends' changes arrive without a subscription and take no place in the list, at each node and at the next login")
        func withoutSubscription() async throws {
            let app = try await App("tencent")
            _ = try await app.login("ann", node: 0, query: "platform=ios&customStatus=here")
            let ben = try await app.login("ben", node: 1)
            try await add(["ann"], by: "ben", in: app)
            try await ben.status(of: "ann") { $0.general == "ONLINE" && $0.custom == "here" }
            try await app.setStatus("busy", of: "ann", node: 2)
            try await ben.status(of: "ann") { $0.custom == "busy" }
            let later = try await app.login("ben", node: 2, query: "platform=web")
            #expect(later.statuses(of: "ann").map(\.custom) == ["busy"])
            #expect(try await app.followedCount(by: "ben") == 0)
            _ = try await app.call("logout", "{}", as: "ann", node: 1)
            for session in [ben, later] { try await session.status(of: "ann") { $0.general == "UNLOGINED" } }
        }

        @Test("T28 A stream that resumes is sent once how a friend looks who has left meanwhile, as a stream that stayed was")
        func leftWhileAway() async throws {
            let app = try await App("tencent")
            _ = try await app.login("ann", node: 0, query: "platform=ios&customStatus=here")
            try await add(["ann"], by: "ben", in: app)
            try await hide("ann", "friends", in: app)
            let stayed = try await app.login("ben", node: 1)
            var away: Session? = try await app.login("ben", node: 2, query: "platform=web")
            for session in [stayed, away] { try await session?.status(of: "ann") { $0.custom == "here" } }
            let position = try #require(away?.events.last { !$0.id.isEmpty }?.id)
            away = nil
            let left = try await app.call("deleteFriends", users(["ben"], #""delType":2"#), as: "ann", node: 1)
            #expect(left["resultList"].elements.first?["resultCode"]?.number == 0)
            let view = try await stayed.status(of: "ann") { $0.general == "OFFLINE" }
            let resumed = try await app.login("ben", node: 0, query: "platform=web&lastEventID=\(position)")
            #expect(try await resumed.status(of: "ann") { $0.general == "OFFLINE" } == view)
            try await hide("ann", "everyone", in: app)
            try await app.setStatus("not for ben", of: "ann", node: 1)
            try await fence("ben", resumed, "later", in: app, node: 2)
            #expect(resumed.statuses(of: "ann").map(\.general) == ["OFFLINE"])
        }

        @Test("T28 Whichever call makes a friend, both users receive the other's status", arguments: ["approval", "mutual", "force"])
        func everyCall(_ way: String) async throws {
            let app = try await App("tencent", #"{"profile.defaultAllowType":"confirm"}"#)
            let ann = try await app.login("ann", node: 0)
            let ben = try await app.login("ben", node: 1)
            let force = way == "force" ? #","force":true,"asUser":"ben""# : ""
            let asked = try await app.call(
                "addFriend", #"{"userID":"ann"\#(force)}"#, as: way == "force" ? "backend" : "ben", isAdmin: way == "force", node: 2)
            #expect(code(asked) == (way == "force" ? 0 : 30_539))
            switch way {
            case "approval": _ = try await app.call("doResponse", #"{"userID":"ben","responseType":1}"#, as: "ann", node: 2)
            case "mutual": try await add(["ben"], by: "ann", in: app)
            default: break
            }
            try await ben.status(of: "ann") { $0.general == "ONLINE" }
            try await ann.status(of: "ben") { $0.general == "ONLINE" }
        }

        @Test("T28 An imported friend and a one-way friend are in one list alone, and only its user receives the other's status")
        func oneSide() async throws {
            let app = try await App("tencent")
            _ = try await app.login("ann", node: 0)
            let ben = try await app.login("ben", node: 1)
            let cid = try await app.login("cid", node: 2)
            let body = #"{"friends":[{"userID":"ann"}],"asUser":"ben"}"#
            #expect(try await app.call("importFriends", body, as: "backend", isAdmin: true, node: 2).status == 200)
            try await ben.status(of: "ann") { $0.general == "ONLINE" }
            let single = try await app.call("addFriend", #"{"userID":"ben","addType":"single"}"#, as: "cid")
            #expect(code(single) == 0)
            try await cid.status(of: "ben") { $0.general == "ONLINE" }
            try await fence("ben", ben, "fence", in: app, node: 1)
            #expect(ben.statuses(of: "cid").isEmpty)
        }

        @Test("T28 T29 With the switch off no friend's change arrives, and switching it on sends the friends' statuses")
        func switched() async throws {
            let app = try await App("tencent", #"{"friends.autoNotify":false}"#)
            _ = try await app.login("ann", node: 0)
            let ben = try await app.login("ben", node: 1)
            try await add(["ann"], by: "ben", in: app)
            try await app.setStatus("unseen", of: "ann")
            try await fence("ben", ben, "fence", in: app, node: 1)
            #expect(ben.statuses(of: "ann").isEmpty)
            try await app.set(#"{"friends.autoNotify":true}"#)
            try await ben.status(of: "ann") { $0.custom == "unseen" }
            try await app.set(#"{"friends.autoNotify":false}"#)
            try await app.setStatus("unseen too", of: "ann", node: 2)
            try await fence("ben", ben, "second fence", in: app, node: 1)
            #expect(!ben.statuses(of: "ann").contains { $0.custom == "unseen too" })
        }

        @Test("T27 T30 A friend may be subscribed: it takes a place in the list, and the others stay silent with the switch off")
        func subscribedFriend() async throws {
            let app = try await App("tencent", #"{"friends.autoNotify":false}"#)
            _ = try await app.login("ann", node: 0)
            _ = try await app.login("cid", node: 2)
            let ben = try await app.login("ben", node: 1)
            try await add(["ann", "cid"], by: "ben", in: app)
            #expect(try await app.call("subscribeUserStatus", users(["ann"]), as: "ben", node: 2).errors == [])
            #expect(try await app.followed(by: "ben") == ["ann"])
            try await app.setStatus("from a friend", of: "ann", node: 1)
            try await app.setStatus("from the other", of: "cid", node: 1)
            try await ben.status(of: "ann") { $0.custom == "from a friend" }
            try await fence("ben", ben, "fence", in: app, node: 1)
            #expect(ben.statuses(of: "cid").isEmpty)
        }

        @Test("T27 The quota of 200 counts friends that are subscribed like other users")
        func quota() async throws {
            let app = try await App("tencent")
            try await add(["ann"], by: "ben", in: app)
            #expect(try await app.call("subscribeUserStatus", users(["ann"]), as: "ben").errors == [])
            for start in [0, 100] {
                #expect(try await app.call("subscribeUserStatus", users(many(start..<start + 100)), as: "ben", node: 1).errors == [])
            }
            #expect(try await app.followedCount(by: "ben") == 200)
            #expect(try await !app.followed(by: "ben").contains("ann"))
        }

        @Test("T31 The changes of users who are not friends arrive only through a subscription")
        func strangers() async throws {
            let app = try await App("tencent")
            _ = try await app.login("ann", node: 0)
            let eve = try await app.login("eve", node: 1)
            try await add(["ann"], by: "ben", in: app)
            try await app.setStatus("for friends", of: "ann")
            try await fence("eve", eve, "fence", in: app, node: 1)
            #expect(eve.statuses(of: "ann").isEmpty)
            #expect(try await app.call("subscribeUserStatus", users(["ann"]), as: "eve", node: 2).errors == [])
            try await eve.status(of: "ann") { $0.custom == "for friends" }
        }

        @Test(
            "T28 T31 A friend who is deleted, blocked or deleted with all others is told nothing more",
            arguments: ["delete", "block", "all"])
        func formerFriend(_ way: String) async throws {
            let app = try await App("tencent", #"{"block.hidesStatus":false}"#)
            _ = try await app.login("ann", node: 0)
            let ben = try await app.login("ben", node: 1)
            try await add(["ann"], by: "ben", in: app)
            try await ben.status(of: "ann") { $0.general == "ONLINE" }
            let answer =
                switch way {
                case "delete": try await app.call("deleteFriends", #"{"userIDs":["ben"],"delType":2}"#, as: "ann", node: 2)
                case "block": try await app.call("addBlackList", users(["ben"]), as: "ann", node: 2)
                default:
                    try await app.call("deleteAllFriends", #"{"delType":1,"asUser":"ben"}"#, as: "backend", isAdmin: true, node: 2)
                }
            #expect(answer["resultList"].elements.map { $0["resultCode"]?.number } == [0])
            try await app.setStatus("unseen", of: "ann")
            try await fence("ben", ben, "fence", in: app, node: 1)
            #expect(!ben.statuses(of: "ann").contains { $0.custom == "unseen" })
        }

        @Test("R3 A subscription of type 3 to a friend is accepted at each node, and ends with the friendship")
        func typeThree() async throws {
            let app = try await App("rongcloud")
            _ = try await app.login("ann", node: 0)
            let ben = try await app.login("ben", node: 1)
            try await add(["ann", "cid"], by: "ben", in: app)
            try await fence("ben", ben, "fence", in: app, node: 1)
            #expect(ben.statuses(of: "ann").isEmpty, "the document sends friends' statuses by type 3 alone")
            for (node, name) in ["ann", "cid"].enumerated() {
                let body = users([name, "eve"], #""subscribeType":3,"expiry":3600"#)
                #expect(try await app.call("subscribeUserStatus", body, as: "ben", node: node + 1).errors == ["eve 31704"])
            }
            try await ben.status(of: "ann") { $0.general == "ONLINE" }
            try await app.setStatus("for friends", of: "ann", node: 2)
            try await ben.status(of: "ann") { $0.custom == "for friends" }
            let rows = try await app.call("getSubscribedUserStatus", #"{"subscribeType":3}"#, as: "ben")["subscriptions"].elements
            #expect(rows.map(\.user) == ["ann", "cid"])
            _ = try await app.call("deleteFriends", #"{"userIDs":["ben"],"delType":2}"#, as: "ann", node: 2)
            #expect(try await app.followed(by: "ben") == ["cid"])
            try await app.setStatus("unseen", of: "ann")
            try await fence("ben", ben, "second fence", in: app, node: 1)
            #expect(!ben.statuses(of: "ann").contains { $0.custom == "unseen" })
        }

        @Test("N23 Adding a friend shows no status: friendship and online status are independent")
        func independent() async throws {
            let app = try await App("commsease")
            _ = try await app.login("ann", node: 0)
            let ben = try await app.login("ben", node: 1)
            try await add(["ann"], by: "ben", in: app)
            try await app.setStatus("unseen", of: "ann", node: 2)
            try await fence("ben", ben, "fence", in: app, node: 1)
            let again = try await app.login("ben", node: 2, query: "platform=web")
            #expect(ben.statuses(of: "ann").isEmpty && again.statuses(of: "ann").isEmpty)
        }

        @Test("Visibility friends shows a user to friends alone, by push and by query at each node, and explain says why")
        func visibility() async throws {
            let app = try await App("rollcall")
            let own = try await app.login("ann", node: 0)
            let ben = try await app.login("ben", node: 1)
            let eve = try await app.login("eve", node: 2)
            try await add(["ben"], by: "ann", in: app)
            _ = try await app.call("subscribeUserStatus", users(["ann"]), as: "eve", node: 2)
            for session in [ben, eve] { try await session.status(of: "ann") { $0.general == "ONLINE" } }
            try await hide("ann", "friends", in: app, node: 1)
            #expect(try await seen(by: "eve", in: app) == ["OFFLINE", "OFFLINE", "OFFLINE"])
            #expect(try await seen(by: "ben", in: app) == ["ONLINE", "ONLINE", "ONLINE"])
            try await eve.status(of: "ann") { $0.general == "OFFLINE" }
            try await app.setStatus("for friends", of: "ann", node: 2)
            try await ben.status(of: "ann") { $0.custom == "for friends" }
            try await own.status(of: "ann") { $0.custom == "for friends" }
            try await fence("eve", eve, "fence", in: app, node: 2)
            #expect(!eve.statuses(of: "ann").contains { $0.custom == "for friends" })
            #expect(!ben.statuses(of: "ann").contains { $0.general == "OFFLINE" })
            for (viewer, words) in [("ben", "is in the friend list since"), ("eve", "eve is not in the friend list")] {
                let part = try await app.admin("explain", #"{"viewer":"\#(viewer)","target":"ann"}"#)["ownerOfTarget"]
                let reasons = part["because"]?.elements.compactMap(\.text) ?? []
                #expect(reasons.contains { $0.contains("visible to friends") && $0.contains(words) }, "\(reasons)")
            }
        }

        @Test("A user whom a friends-only user adds sees the user at once, and the other friends are told nothing, by no version either")
        func revealed() async throws {
            let app = try await App("rollcall")
            _ = try await app.login("ann", node: 0)
            let ben = try await app.login("ben", node: 1)
            let eve = try await app.login("eve", node: 2)
            try await add(["ben"], by: "ann", in: app)
            try await hide("ann", "friends", in: app)
            _ = try await app.call("subscribeUserStatus", users(["ann"]), as: "eve", node: 2)
            try await eve.status(of: "ann") { $0.general == "OFFLINE" }
            try await ben.status(of: "ann") { $0.general == "ONLINE" }
            let told = ben.statuses(of: "ann").count
            let body = #"{"friends":[{"userID":"eve"}],"asUser":"ann"}"#
            #expect(try await app.call("importFriends", body, as: "backend", isAdmin: true, node: 1).status == 200)
            try await eve.status(of: "ann") { $0.general == "ONLINE" }
            #expect(try await seen(by: "eve", in: app) == ["ONLINE", "ONLINE", "ONLINE"])
            try await fence("ben", ben, "fence", in: app, node: 1)
            #expect(ben.statuses(of: "ann").count == told)
            let version = ben.statuses(of: "ann").last?["version"]?.text
            for node in 0..<3 { #expect(try await app.status(of: "ann", as: "ben", node: node)["version"]?.text == version) }
        }

        @Test(
            "When a friends-only user's call that ends a friendship is answered, no node shows the user to the former friend",
            arguments: [
                ("deleteFriends", #"{"userIDs":["ben"],"delType":1}"#), ("deleteFriends", #"{"userIDs":["ben"],"delType":2}"#),
                ("addBlackList", #"{"userIDs":["ben"]}"#),
            ])
        func hidden(operation: String, body: String) async throws {
            let app = try await App("rollcall")
            _ = try await app.login("ann", node: 0)
            let ben = try await app.login("ben", node: 1)
            let cid = try await app.login("cid", node: 2)
            try await add(["ben", "cid"], by: "ann", in: app)
            try await hide("ann", "friends", in: app)
            for session in [ben, cid] { try await session.status(of: "ann") { $0.general == "ONLINE" } }
            let told = cid.statuses(of: "ann").count
            let answer = try await app.call(operation, body, as: "ann", node: 2)
            #expect(answer["resultList"].elements.map { $0["resultCode"]?.number } == [0])
            #expect(try await seen(by: "ben", in: app) == ["OFFLINE", "OFFLINE", "OFFLINE"])
            // The own list of ben may still have ann: what it shows is the hidden view.
            try await fence("ben", ben, "fence", in: app, node: 1)
            try await app.setStatus("for friends", of: "ann", node: 1)
            try await cid.status(of: "ann") { $0.custom == "for friends" }
            #expect(try await seen(by: "cid", in: app) == ["ONLINE", "ONLINE", "ONLINE"])
            #expect(cid.statuses(of: "ann").count == told + 1)
            #expect(!ben.statuses(of: "ann").contains { $0.custom == "for friends" })
        }

        @Test("A friends-only user whose friend ends the friendship on both sides is hidden from that friend")
        func endedByTheOther() async throws {
            let app = try await App("rollcall")
            _ = try await app.login("ann", node: 0)
            try await add(["ben"], by: "ann", in: app)
            try await hide("ann", "friends", in: app)
            #expect(try await seen(by: "ben", in: app) == ["ONLINE", "ONLINE", "ONLINE"])
            let answer = try await app.call("deleteFriends", #"{"userIDs":["ann"],"delType":2}"#, as: "ben", node: 1)
            #expect(answer["resultList"].elements.map { $0["resultCode"]?.number } == [0])
            #expect(try await seen(by: "ben", in: app) == ["OFFLINE", "OFFLINE", "OFFLINE"])
        }
    }
}
