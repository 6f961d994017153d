import Glibc
import NodeFixture
import PresenceClient
import Testing
import ZIMStatus

/// The samples of `documents/003…`, line by line.
@Suite(.timeLimit(.minutes(1))) struct ZIMStatusTests {
    private final class Handler: ZIMEventHandler {
        let statuses = Box<ZIMUserStatus>()
        let states = Box<ZIMConnectionState>()
        let events = Box<ZIMConnectionEvent>()

        func zim(_ zim: ZIM, userStatusUpdated userStatusList: [ZIMUserStatus]) { statuses.add(userStatusList) }

        func zim(_ zim: ZIM, connectionStateChanged state: ZIMConnectionState, event: ZIMConnectionEvent, extendedData: [String: String]) {
            states.add([state])
            events.add([event])
        }

        func newest(_ user: String) -> ZIMUserStatus? { statuses.all.last { $0.userID == user } }
    }

    @Test("As the page says, a list of 101 users becomes several calls") func longList() async throws {
        let users = (0...100).map { "user\($0)" }
        let fixture = try await ServedCluster.serving("zim", users: ["ann"] + users)
        let zim = try ZIM(fixture.configuration(of: "ann"))
        try await zim.login()
        #expect(try await zim.subscribeUsersStatus(users, config: ZIMUserStatusSubscribeConfig(subscriptionDuration: 60)) == [])
        let followed = try await zim.querySubscribedUserStatusList(ZIMSubscribedUserStatusQueryConfig())
        #expect(Set(followed.map(\.userStatus.userID)) == Set(users))
        try await zim.logout()
        try await fixture.stop()
    }

    @Test("Z7 Z8 Z13 Z16 Z17 Z19 Z20 Z22 Z23 The samples of the document run") func samples() async throws {
        let fixture = try await ServedCluster.serving("zim", users: ["ann", "bob", "userIdA", "userIdB"])
        let zim = try ZIM(fixture.configuration(of: "ann"))
        let handler = Handler()
        zim.setEventHandler(handler)

        // Set on login, update.
        var config = ZIMLoginConfig()
        config.customStatus = "Busy"
        try await zim.login(config: config)
        try await fixture.until("the own record has the status of the login") { handler.newest("ann")?.customStatus == "Busy" }
        #expect(try await zim.updateUserCustomStatus("Do Not Disturb") == "Do Not Disturb")
        try await fixture.until("and the update") { handler.newest("ann")?.customStatus == "Do Not Disturb" }
        let own = try #require(handler.newest("ann"))
        #expect(own.onlineStatus == .unknown && own.lastUpdateTime == 0 && own.onlinePlatforms == ["ios"], "Z22")

        // Subscribe to user status.
        let subscribeConfig = ZIMUserStatusSubscribeConfig(subscriptionDuration: 60)
        #expect(try await zim.subscribeUsersStatus(["userIdA", "userIdB"], config: subscribeConfig) == [])
        let partly = try await zim.subscribeUsersStatus(["userIdA", "ann"], config: subscribeConfig)
        #expect(partly.map(\.userID) == ["ann"] && partly.map(\.reason) == [6017], "Z13")
        await #expect(throws: ZIMError.self) {
            try await zim.subscribeUsersStatus(["userIdA"], config: ZIMUserStatusSubscribeConfig(subscriptionDuration: 43_201))
        }
        let other = try ZIM(fixture.configuration(of: "userIdA"))
        try await other.login()
        try await other.updateUserCustomStatus("away")
        try await fixture.until("the change is told (Z14)") { handler.newest("userIdA")?.customStatus == "away" }
        let told = try #require(handler.newest("userIdA"))
        #expect(told.onlineStatus == .online && told.onlinePlatforms == ["ios"] && told.lastUpdateTime > 0)
        #expect(told.lastOnlineStatusUpdateTime > 0 && told.lastCustomStatusUpdateTime >= told.lastOnlineStatusUpdateTime)

        // Query user status (Z18).
        let queried = try await zim.queryUsersStatusByUserIDs(["userIdA", "userIdB", "bad\u{1}"])
        #expect(queried.userStatusList.map(\.onlineStatus) == [.online, .logout])
        #expect(queried.errorUserList.map(\.reason) == [7003])

        // Query the subscription list: some, all.
        let listConfig = ZIMSubscribedUserStatusQueryConfig(userIDs: ["userIdA", "stranger"])
        let some = try await zim.querySubscribedUserStatusList(listConfig)
        #expect(some.map(\.userStatus.userID) == ["userIdA"] && some[0].subscribeExpiredTime > told.lastUpdateTime)
        #expect(try await zim.querySubscribedUserStatusList(ZIMSubscribedUserStatusQueryConfig()).count == 2)

        // Unsubscribe; the platforms of a second device (Z21); the connection's states (Z23).
        #expect(try await zim.unsubscribeUsersStatus(["userIdA", "userIdB"]) == [])
        var second = fixture.configuration(of: "ann")
        second.platform = "windows"
        let desk = try ZIM(second)
        try await desk.login()
        try await fixture.until("both platforms are told") { handler.newest("ann")?.onlinePlatforms == ["ios", "windows"] }
        try await desk.logout()
        try await other.logout()
        try await zim.logout()
        try await fixture.until("the end is told") { handler.states.all.last == .disconnected }
        #expect(handler.states.all == [.connecting, .connected, .disconnected])
        #expect(handler.events.all == [.activeLogin, .success, .activeLogin])
        try await fixture.stop()
    }

    @Test("The node decides about every duration, and its error is given in minutes", arguments: [Int.min, -1, 0, 43_201, .max])
    func durations(minutes: Int) async throws {
        let fixture = try await ServedCluster.serving("zim", users: ["ann", "bob", "userIdA", "userIdB"])
        let zim = try ZIM.create(fixture.configuration(of: "ann"))
        let error = await #expect(throws: ZIMError.self) {
            try await zim.subscribeUsersStatus(["bob"], config: ZIMUserStatusSubscribeConfig(subscriptionDuration: minutes))
        }
        #expect(error?.code == 6017 && error?.message == "subscriptionDuration: \(minutes) minutes is not in 1...43200")
        await zim.client.close()
        try await fixture.stop()
    }

    @Test("Other errors are those of the node; without a range the error has none") func messages() {
        let bad = { (detail: String) in ZIMError(PresenceError(code: .badParameter, detail: detail), minutes: 7).message }
        #expect(bad("userIDs: is missing") == "userIDs: is missing")
        #expect(bad("expiry: is missing; it must be an integer in 90...200") == "subscriptionDuration: 7 minutes is not in 2...3")
        #expect(bad("expiry: what?") == "subscriptionDuration: 7 minutes is not allowed")
    }

    @Test("Z16 The names of the document's samples are there, on the shared instance") func namesOfTheSamples() async throws {
        let fixture = try await ServedCluster.serving("zim", users: ["ann", "bob", "userIdA", "userIdB"])
        let zim = try ZIM.create(fixture.configuration(of: "ann"))
        #expect(ZIM.getInstance() === zim)
        try await zim.login()
        _ = try await zim.subscribeUsersStatus(["userIdA"], config: ZIMUserStatusSubscribeConfig(subscriptionDuration: 60))
        let config = ZIMSubscribedUserStatusQueryConfig(userIDs: ["userIdA", "userIdB"])
        #expect(try await zim.querySubscribedUserStatusListWithConfig(config).map(\.userStatus.userID) == ["userIdA"])
        #expect(try await zim.unsubscribeUserStatus(["userIdA", "userIdB"]) == [])
        #expect(try await zim.querySubscribedUserStatusListWithConfig(config) == [])
        try await zim.logout()
        try await fixture.stop()
    }

    /// One node of five needs some 6 s to find the four others dead, where a call takes 5 s. Until then it does not answer for their users.
    /// Later it answers for all users, and marks them as unsure, because it hears no majority.
    @Test("Z19 A row whose owner does not answer has the online status unknown, until an owner answers again")
    func unknownStatus() async throws {
        let names = (0..<40).map { "user\($0)" }
        let fixture = try await ServedCluster.serving("zim", nodes: 5, users: names)
        var users: [String: [String]] = [:]
        for name in names {
            let explained = try await fixture.admin("explain", #"{"viewer":"\#(name)","target":"\#(name)"}"#)
            let node = try #require(explained.json["ownerOfTarget"]?["node"]?.text, "\(explained.json)")
            users[node, default: []].append(name)
        }
        let answering = try #require(users["n0"]?.prefix(2))
        let silent = try #require(users["n1"]?.first)
        try #require(answering.count == 2)
        var configuration = fixture.configuration(of: answering[0])
        configuration.addresses = [configuration.addresses[0]]
        // Without a stream the node holds no status of the users.
        let zim = try ZIM(configuration)
        let targets = [answering[1], silent]
        #expect(try await zim.subscribeUsersStatus(targets, config: ZIMUserStatusSubscribeConfig(subscriptionDuration: 60)) == [])
        let everything = ZIMSubscribedUserStatusQueryConfig()
        #expect(try await zim.querySubscribedUserStatusList(everything).map(\.userStatus.onlineStatus) == [.logout, .logout])
        for node in fixture.nodes.dropFirst() { try node.standStill() }
        let rows = try await zim.querySubscribedUserStatusList(everything)
        #expect(rows.count == 2 && rows.allSatisfy { $0.subscribeExpiredTime > 0 })
        #expect(rows.first { $0.userStatus.userID == silent }?.userStatus.onlineStatus == .unknown, "\(rows)")
        try await fixture.until("the node owns all users, and is not sure") {
            let explained = try await fixture.admin("explain", #"{"viewer":"\#(silent)","target":"\#(silent)"}"#).json
            let own = try await zim.client.getUserStatus([answering[1]]).userStatusList
            return explained["ownerOfTarget"]?["node"]?.text == "n0" && own.first?.isUnsure == true
        }
        #expect(try await zim.querySubscribedUserStatusList(everything).map(\.userStatus.onlineStatus) == [.unknown, .unknown])
        // It may lack the registrations of users whose rows it has not kept, and does not say that they do not exist.
        let queried = try await zim.queryUsersStatusByUserIDs(names.filter { $0 != answering[0] })
        #expect(queried.userStatusList.allSatisfy { $0.onlineStatus == .unknown }, "\(queried.userStatusList)")
        #expect(queried.errorUserList.allSatisfy { $0.reason == 50_001 }, "\(queried.errorUserList)")
        for node in fixture.nodes.dropFirst() { node.signal(SIGCONT) }
        try await fixture.untilComplete()
        try await fixture.until("an owner answers for \(silent)") {
            let rows = try? await zim.querySubscribedUserStatusList(everything)
            return rows?.count == 2 && rows?.contains { $0.userStatus.onlineStatus != .logout } == false
        }
        await zim.client.close()
        try await fixture.stop()
    }
}
