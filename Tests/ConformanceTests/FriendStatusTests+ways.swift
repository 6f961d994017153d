import NodeFixture
import Testing

/// Each way in which a friendship begins and ends, and very long lists of friends.
extension ConformanceTests.FriendStatusTests {
    /// How ben gets ann as a friend, who approves requests.
    enum Way: String, CaseIterable, Sendable {
        case oneSidedApproval, approval, mutualRequests, force, importing

        /// Whether ann gets ben as a friend as well.
        var isMutual: Bool { self != .oneSidedApproval && self != .importing }
    }

    private static let confirm = #"{"profile.defaultAllowType":"confirm"}"#

    private func befriend(_ way: Way, in app: App) async throws {
        if way == .force || way == .importing {
            let (operation, body) =
                way == .force
                ? ("addFriend", #"{"userID":"ann","force":true,"asUser":"ben"}"#)
                : ("importFriends", #"{"friends":[{"userID":"ann"}],"asUser":"ben"}"#)
            let answer = try await app.call(operation, body, as: "backend", isAdmin: true, node: 2)
            #expect(answer.status == 200, "\(answer.json)")
            return
        }
        #expect(code(try await app.call("addFriend", #"{"userID":"ann"}"#, as: "ben", node: 2)) == 30_539)
        switch way {
        case .mutualRequests: try await add(["ben"], by: "ann", in: app)
        default:
            let type = way == .approval ? 1 : 0
            let answer = try await app.call("doResponse", #"{"userID":"ben","responseType":\#(type)}"#, as: "ann", node: 1)
            #expect(code(answer) == 0, "\(answer.json)")
        }
    }

    /// The statuses as each of three nodes shows them.
    private func atEachNode(_ status: String) -> [String?] { [status, status, status] }

    @Test("T28 An approval for the asker alone shows the asked user to the asker, and not the other way round")
    func approvedOneSide() async throws {
        let app = try await App("tencent", Self.confirm)
        let ann = try await app.login("ann", node: 0)
        let ben = try await app.login("ben", node: 1)
        try await befriend(.oneSidedApproval, in: app)
        try await ben.status(of: "ann") { $0.general == "ONLINE" }
        try await app.setStatus("unseen", of: "ben", node: 2)
        try await app.setStatus("for the asker", of: "ann", node: 2)
        try await ben.status(of: "ann") { $0.custom == "for the asker" }
        try await fence("ann", ann, "fence", in: app, node: 0)
        #expect(ann.statuses(of: "ben").isEmpty)
    }

    @Test("A friends-only user is seen by those in the own list, and by nobody who has the user in theirs alone", arguments: Way.allCases)
    func visible(by way: Way) async throws {
        let app = try await App("rollcall", Self.confirm)
        let ann = try await app.login("ann", node: 0)
        let ben = try await app.login("ben", node: 1)
        try await hide("ann", "friends", in: app, node: 2)
        #expect(try await seen(by: "ben", in: app) == atEachNode("OFFLINE"))
        try await befriend(way, in: app)
        #expect(try await seen(by: "ben", in: app) == atEachNode(way.isMutual ? "ONLINE" : "OFFLINE"))
        if way.isMutual { try await ben.status(of: "ann") { $0.general == "ONLINE" } }
        try await app.setStatus("for friends", of: "ann", node: 2)
        if way.isMutual { try await ben.status(of: "ann") { $0.custom == "for friends" } }
        try await fence("ben", ben, "fence", in: app, node: 1)
        #expect(ben.statuses(of: "ann").contains { $0.custom == "for friends" } == way.isMutual)
        ann.close()
    }

    @Test(
        "R3 Whichever call makes a friend, a subscription of type 3 is accepted from each user who has the other in the own list",
        arguments: Way.allCases)
    func acceptedTypeThree(by way: Way) async throws {
        let app = try await App("rongcloud", Self.confirm)
        let ann = try await app.login("ann", node: 0)
        let ben = try await app.login("ben", node: 1)
        try await befriend(way, in: app)
        let more = #""subscribeType":3,"expiry":3600"#
        #expect(try await app.call("subscribeUserStatus", users(["ann"], more), as: "ben", node: 2).errors == [])
        let answer = try await app.call("subscribeUserStatus", users(["ben"], more), as: "ann", node: 1)
        #expect(answer.errors == (way.isMutual ? [] : ["ben 31704"]))
        try await ben.status(of: "ann") { $0.general == "ONLINE" }
        if way.isMutual { try await ann.status(of: "ben") { $0.general == "ONLINE" } }
        #expect(try await app.followed(by: "ben") == ["ann"])
        #expect(try await app.followed(by: "ann") == (way.isMutual ? ["ben"] : []))
        ann.close()
    }

    @Test(
        "T28 A stream that resumes is sent once the status of a friend who was added meanwhile, as a stream that stayed was",
        arguments: ["addFriend", "importFriends"])
    func addedWhileAway(by operation: String) async throws {
        let app = try await App("tencent")
        let ann = try await app.login("ann", node: 0, query: "platform=ios&customStatus=here")
        let stayed = try await app.login("ben", node: 1)
        var away: Session? = try await app.login("ben", node: 2, query: "platform=web")
        let position = try #require(away?.events.last { !$0.id.isEmpty }?.id)
        away = nil
        if operation == "addFriend" {
            try await add(["ann"], by: "ben", in: app)
        } else {
            try await befriend(.importing, in: app)
        }
        let view = try await stayed.status(of: "ann") { $0.general == "ONLINE" }
        let resumed = try await app.login("ben", node: 0, query: "platform=web&lastEventID=\(position)")
        try await resumed.status(of: "ann") { $0 == view }
        try await fence("ben", resumed, "fence", in: app, node: 2)
        #expect(resumed.statuses(of: "ann") == [view] && stayed.statuses(of: "ann") == [view])
        ann.close()
    }

    /// A call that ends the friendship of ann and ben.
    enum Ending: String, CaseIterable, Sendable {
        case blockByFriend, deleteAllOfOwnList, deleteAllOfBothLists, deleteAllByFriend, friendIsDeleted

        /// Whether the call is one of the user who hides.
        var isByUser: Bool { self == .deleteAllOfOwnList || self == .deleteAllOfBothLists }
    }

    private func end(_ ending: Ending, in app: App) async throws {
        func deleteAll(of user: String, type: Int) async throws -> Answer {
            let body = #"{"delType":\#(type),"asUser":"\#(user)"}"#
            return try await app.call("deleteAllFriends", body, as: "backend", isAdmin: true, node: 2)
        }
        let answer: Answer
        switch ending {
        case .blockByFriend: answer = try await app.call("addBlackList", users(["ann"]), as: "ben", node: 2)
        case .deleteAllOfOwnList: answer = try await deleteAll(of: "ann", type: 1)
        case .deleteAllOfBothLists: answer = try await deleteAll(of: "ann", type: 2)
        case .deleteAllByFriend: answer = try await deleteAll(of: "ben", type: 2)
        case .friendIsDeleted:
            return try await app.cluster.until("ben is deleted") {
                try await app.admin("deleteUser", #"{"userID":"ben"}"#, node: 2)["isComplete"] == .bool(true)
            }
        }
        #expect(answer["resultList"].elements.map { $0["resultCode"]?.number } == [0], "\(answer.json)")
    }

    @Test(
        "A friends-only user is hidden from a former friend at each node, whichever call has ended the friendship, and at the next login",
        arguments: Ending.allCases)
    func hidden(by ending: Ending) async throws {
        let app = try await App("rollcall")
        let ann = try await app.login("ann", node: 0)
        let ben = try await app.login("ben", node: 1)
        try await add(["ben"], by: "ann", in: app)
        try await hide("ann", "friends", in: app)
        try await ben.status(of: "ann") { $0.general == "ONLINE" }
        #expect(try await seen(by: "ben", in: app) == atEachNode("ONLINE"))
        try await end(ending, in: app)
        #expect(try await app.call("getFriendList", "{}", as: "ann", node: 1)["total"].number == 0)
        #expect(try await seen(by: "ben", in: app) == atEachNode("OFFLINE"))
        // A friend who has ended the friendship follows the user no more.
        if ending.isByUser { try await ben.status(of: "ann") { $0.general == "OFFLINE" } }
        let later = try await app.login("ben", node: 2, query: "platform=web")
        try await app.setStatus("for friends", of: "ann", node: 1)
        try await fence("ben", later, "fence", in: app, node: 1)
        #expect(try await seen(by: "ben", in: app) == atEachNode("OFFLINE"))
        #expect(later.statuses(of: "ann").allSatisfy { $0.general == "OFFLINE" && $0.custom == "" })
        #expect(!ben.statuses(of: "ann").contains { $0.custom == "for friends" })
        ann.close()
    }

    @Test("T28 T31 A user who removes a friend from the own list alone is told nothing more, and the former friend still is")
    func removedFromOwnList() async throws {
        let app = try await App("tencent")
        let ann = try await app.login("ann", node: 0)
        let ben = try await app.login("ben", node: 1)
        try await add(["ann"], by: "ben", in: app)
        try await ben.status(of: "ann") { $0.general == "ONLINE" }
        let reasons = { () async throws -> [String] in
            let part = try await app.admin("explain", #"{"viewer":"ben","target":"ann"}"#, node: 1)["ownerOfViewer"]
            return part["because"]?.elements.compactMap(\.text) ?? []
        }
        #expect(try await reasons() == ["the target is a friend, whom the viewer sees without a subscription (friends.autoNotify)"])
        let answer = try await app.call("deleteFriends", users(["ann"], #""delType":1"#), as: "ben", node: 2)
        #expect(answer["resultList"].elements.map { $0["resultCode"]?.number } == [0])
        #expect(try await reasons() == ["the viewer does not follow the target"])
        try await app.setStatus("unseen", of: "ann", node: 2)
        try await fence("ben", ben, "for the former friend", in: app, node: 1)
        try await ann.status(of: "ben") { $0.custom == "for the former friend" }
        #expect(!ben.statuses(of: "ann").contains { $0.custom == "unseen" })
    }

    @Test("Each of 10,000 friends sees a friends-only user at each node, is pushed a change once, and is hidden from when removed")
    func tenThousand() async throws {
        let app = try await App("tencent", #"{"friends.max":10000}"#)
        let ann = try await app.login("ann", node: 0, query: "platform=ios&customStatus=here")
        let friends = many(0..<10_000)
        for start in stride(from: 0, to: friends.count, by: 100) {
            let rows = friends[start..<start + 100].map { #"{"userID":"\#($0)"}"# }.joined(separator: ",")
            let body = #"{"friends":[\#(rows)],"asUser":"ann"}"#
            let answer = try await app.call("importFriends", body, as: "backend", isAdmin: true, node: start / 100 % 3)
            try #require(answer.status == 200, "\(answer.json)")
        }
        let first = try await app.login("u0000", node: 1)
        let last = try await app.login("u9999", node: 2)
        for (user, session) in [("u0000", first), ("u9999", last)] {
            try await ann.status(of: user) { $0.general == "ONLINE" }
            #expect(try await app.call("subscribeUserStatus", users(["ann"]), as: user, node: 0).errors == [])
            try await session.status(of: "ann") { $0.custom == "here" }
        }
        try await hide("ann", "friends", in: app, node: 1)
        for user in ["u0000", "u5000", "u9999"] { #expect(try await seen(by: user, in: app) == atEachNode("ONLINE"), "\(user)") }
        #expect(try await seen(by: "eve", in: app) == atEachNode("OFFLINE"))
        try await app.setStatus("for friends", of: "ann", node: 2)
        for session in [first, last] { try await session.status(of: "ann") { $0.custom == "for friends" } }
        let answer = try await app.call("deleteFriends", users(["u0000"], #""delType":1"#), as: "ann", node: 1)
        #expect(answer["resultList"].elements.map { $0["resultCode"]?.number } == [0])
        #expect(try await seen(by: "u0000", in: app) == atEachNode("OFFLINE"))
        #expect(try await seen(by: "u9999", in: app) == atEachNode("ONLINE"))
        try await app.setStatus("later", of: "ann", node: 2)
        try await last.status(of: "ann") { $0.custom == "later" }
        try await fence("u0000", first, "fence", in: app, node: 1)
        #expect(last.statuses(of: "ann").map(\.custom) == ["here", "for friends", "later"])
        #expect(first.statuses(of: "ann").map(\.general) == ["ONLINE", "ONLINE", "OFFLINE"])
        #expect(try await app.call("getFriendList", #"{"limit":1}"#, as: "ann", node: 2)["total"].number == 9_999)
    }
}
