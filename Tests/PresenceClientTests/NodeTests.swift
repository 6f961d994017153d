import InProcessFixture
import PresenceNode
import PresenceWire
import Testing

@testable import PresenceClient

/// Against real nodes, in this process.
@Suite(.serialized, .timeLimit(.minutes(3))) struct NodeTests {
    @Test("A change of a followed user reaches sequence, listener and view", arguments: [false, true])
    func changes(overURLSession: Bool) async throws {
        let fixture = try await Fixture.start(nodes: 3)
        let ann = try await fixture.client("ann", nodes: [0]) { $0.preferredTransport = overURLSession ? .urlSession : .asyncHTTPClient }
        let bob = try await fixture.client("bob", nodes: [2]) { $0.preferredTransport = overURLSession ? .urlSession : .asyncHTTPClient }
        let changes = ann.onUserStatusChanged
        let listener = RecordingListener()
        ann.addListener(listener)
        let session = try await ann.login()
        #expect(session.userID == "ann" && session.node == "n0")
        try await ann.subscribeUserStatus(["bob"])
        try await bob.login()
        let set = try await bob.setSelfStatus("in a meeting")
        #expect(await changes.first { $0.customStatus == "in a meeting" } == set)
        #expect(await ann.status(of: "bob") == set)
        try await bob.logout()
        #expect(await changes.first { $0.userID == "bob" && $0.statusType == .unlogined } != nil)
        try await fixture.until("the listener was told the same") { listener.newest["bob"]?.statusType == .unlogined }
        #expect(
            listener.events.prefix(2) == [
                .connectionStateChanged(.init(.connecting, .login)), .connectionStateChanged(.init(.connected, .sessionOpened)),
            ])
        #expect(listener.events.contains(.connected(session)) && listener.events.contains(.subscriptionSyncCompleted(.onlineStatus)))
        ann.removeListener(listener)
        let told = listener.events.count
        try await ann.setSelfStatus("nobody listens")
        _ = await changes.first { $0.customStatus == "nobody listens" }
        #expect(listener.events.count == told)
        try await ann.logout()
        #expect(await ann.connectionState == .disconnected)
        try await fixture.stop()
    }

    @Test("A user who hides is OFFLINE on every node once the call is answered") func hiding() async throws {
        let fixture = try await Fixture.start(nodes: 3)
        let ann = try await fixture.client("ann", nodes: [0])
        let bob = try await fixture.client("bob", nodes: [2])
        let changes = bob.onUserStatusChanged
        try await ann.login()
        try await bob.login()
        try await bob.subscribeUserStatus(["ann"])
        #expect(await changes.first { $0.userID == "ann" }?.statusType == .online)
        #expect(try await ann.setVisibility(.list, userIDs: ["carl"]) == Visibility(mode: .list, userIDs: ["carl"]))
        let hidden = try await bob.getUserStatus(["ann"]).userStatusList
        #expect(hidden.map(\.statusType) == [.offline] && hidden[0].onlinePlatforms == [])
        try await ann.setSelfStatus("secret")
        #expect(try await bob.getUserStatus(["ann"]).userStatusList == hidden)
        #expect(try await ann.getUserStatus(["ann"]).userStatusList.map(\.customStatus) == ["secret"])
        #expect(await changes.first { $0.userID == "ann" && $0.statusType == .offline } == hidden[0])
        #expect(try await ann.setVisibility(.everyone).mode == .everyone)
        #expect(await changes.first { $0.userID == "ann" }?.customStatus == "secret")
        #expect(try await ann.getVisibility() == Visibility(mode: .everyone, userIDs: ["carl"]))
        try await fixture.stop()
    }

    @Test("A client is told the own sessions on all devices, lists them, and ends another one") func ownSessions() async throws {
        let fixture = try await Fixture.start(nodes: 3)
        let (phone, desk) = (try await fixture.client("ann", nodes: [0]), try await fixture.client("ann", nodes: [1]))
        let events = phone.events
        let first = try await phone.login()
        let second = try await desk.login()
        let told = await events.first { if case .sessionsChanged(let sessions) = $0 { sessions.count == 2 } else { false } }
        guard case .sessionsChanged(let sessions)? = told else { return _ = Issue.record("\(String(describing: told))") }
        #expect(sessions.map(\.sessionID) == [first.sessionID, second.sessionID] && sessions.allSatisfy { $0.isCurrent == nil })
        let listed = try await desk.getSessions()
        #expect(listed.map(\.sessionID) == [first.sessionID, second.sessionID] && listed.map(\.isCurrent) == [false, true])
        #expect(listed.map(\.node) == ["n0", "n1"])
        let said = try await desk.explainSelf()
        #expect(said.userStatus.statusType == .online)
        #expect(Set(said.because) == ["a session is open: ios on n0", "a session is open: ios on n1"])
        try await phone.logout(sessionID: second.sessionID)
        try await fixture.until("the other device is logged out") { await desk.connectionState == .disconnected }
        #expect(try await phone.getSessions().map(\.sessionID) == [first.sessionID])
        try await phone.logout(sessionID: first.sessionID)
        #expect(await phone.connectionState == .disconnected)
        try await fixture.stop()
    }

    @Test("A client that hears unseen is told statuses, and is no session of its user") func hearsUnseen() async throws {
        let fixture = try await Fixture.start(nodes: 3)
        let display = try await fixture.client("ann", nodes: [0]) { $0.hearsUnseen = true }
        let bob = try await fixture.client("bob", nodes: [2])
        let changes = display.onUserStatusChanged
        try await display.login()
        try await display.subscribeUserStatus(["bob"])
        try await bob.login()
        #expect(await changes.first { $0.userID == "bob" && $0.statusType == .online } != nil)
        #expect(try await bob.getUserStatus(["ann"]).userStatusList.map(\.statusType) == [.unlogined])
        #expect(try await display.getSessions() == [])
        try await fixture.stop()
    }

    @Test("Every operation answers for each user") func operations() async throws {
        let fixture = try await Fixture.start()
        let ann = try await fixture.client("ann")
        let set = try await ann.setSelfStatus("busy", expiry: .seconds(60))
        #expect(set.userID == "ann" && set.customStatus == "busy")
        let answer = try await ann.getUserStatus(["ann", "bob", "bad\u{1}"])
        #expect(answer.userStatusList.map(\.userID) == ["ann", "bob"] && answer.asOf > 0)
        #expect(answer.errorUserList.map(\.code) == [.badUserID])
        #expect(try await ann.setSelfStatus(nil).customStatus == "")

        let subscribed = try await ann.subscribeUserStatus(["bob", "carl", "ann"], expiry: .seconds(3_600), sync: true)
        #expect(subscribed.errorUserList.map(\.userID) == ["ann"] && subscribed.evicted == [])
        #expect(subscribed.userStatusList?.map(\.userID) == ["bob", "carl"])
        let page = try await ann.getSubscribedUserStatus(["carl", "dora"])
        #expect(page.subscriptions.map(\.userID) == ["carl"] && page.subscriptions[0].expiresAt != nil)
        #expect(try await ann.unsubscribeUserStatus(["carl"]) == [])
        #expect(try await ann.getSubscribedUserStatus().subscriptions.map(\.userID) == ["bob"])
        try await ann.unsubscribeAllUserStatus()
        #expect(try await ann.getSubscribedUserStatus() == SubscriptionPage())

        let refused = await #expect(throws: PresenceError.self) {
            try await ann.setSelfStatus(String(repeating: "x", count: 257))
        }
        #expect(refused?.code == .badParameter && refused?.status == 400 && refused?.detail.contains("customStatus") == true)
        await ann.close()
        await #expect(throws: PresenceError.self) { try await ann.getUserStatus(["ann"]) }
        try await fixture.stop()
    }

    @Test("The client cuts a long list into several calls") func longLists() async throws {
        let fixture = try await Fixture.start()
        let ann = try await fixture.client("ann") {
            $0.limits = CallLimits(queryUsersMax: 2, subscribeUsersMax: 2, unsubscribeUsersMax: 2, pageRowsMax: 2)
        }
        let users = (0..<5).map { "u\($0)" }
        let subscribed = try await ann.subscribeUserStatus(users + ["ann"], sync: true)
        #expect(subscribed.userStatusList?.map(\.userID) == users && subscribed.errorUserList.map(\.userID) == ["ann"])
        #expect(try await ann.getSubscribedUserStatus().subscriptions.map(\.userID).sorted() == users)
        #expect(try await ann.getSubscribedUserStatus(users + ["other"]).total == 5)
        let answer = try await ann.getUserStatus(users + ["bad\u{1}"])
        #expect(answer.userStatusList.map(\.userID) == users && answer.errorUserList.count == 1)
        #expect(try await ann.unsubscribeUserStatus(users) == [])
        #expect(try await ann.getSubscribedUserStatus().total == 0)
        await ann.close()
        try await fixture.stop()
    }

    @Test("An expired token is renewed") func expiredToken() async throws {
        let fixture = try await Fixture.start()
        let mint = try await TokenMint()
        let asked = Counter()
        let provider: ClientConfiguration.TokenProvider = {
            try await mint.token(user: "ann", seconds: asked.next() % 2 == 1 ? -10 : 60)
        }
        let ann = try await fixture.client("ann") { $0.token = provider }
        try await ann.login()
        #expect(asked.count == 2)
        try await ann.setSelfStatus("still the same token")
        #expect(asked.count == 2)
        await ann.close()
        // Also by a call, and once for all that wait.
        let other = try await fixture.client("ann") { $0.token = provider }
        async let first = other.setSelfStatus("a")
        async let second = other.setSelfStatus("b")
        _ = try await (first, second)
        #expect(asked.count == 4)
        await other.close()
        let stale = try await fixture.client("ann") { $0.token = { try await mint.token(user: "ann", seconds: -10) } }
        let error = await #expect(throws: PresenceError.self) { try await stale.login() }
        #expect(error?.code == .notLoggedIn && error?.status == 401)
        await stale.close()
        try await fixture.stop()
    }

    @Test("A logout on another device ends the session, and the client does not come back by itself") func logoutElsewhere() async throws {
        let fixture = try await Fixture.start(nodes: 2)
        let phone = try await fixture.client("ann", nodes: [0])
        let desk = try await fixture.client("ann", nodes: [1])
        try await phone.login()
        try await desk.login()
        let events = phone.events
        try await desk.logout(everywhere: true)
        var seen: [PresenceEvent] = []
        for await event in events {
            seen.append(event)
            if case .connectionStateChanged = event { break }
        }
        #expect(seen.suffix(2) == [.loggedOut, .connectionStateChanged(.init(.disconnected, .loggedOut))])
        try await fixture.until("ann is unlogined") { try await desk.getUserStatus(["ann"]).userStatusList.first?.statusType == .unlogined }
        try await phone.login()
        #expect(await phone.connectionState == .connected)
        await phone.close()
        await desk.close()
        try await fixture.stop()
    }

    @Test("A login without a reachable node fails") func unreachable() async throws {
        let fixture = try await Fixture.start()
        let ann = try await fixture.client("ann") { configuration in
            configuration.addresses = ["http://127.0.0.1:1"]
            configuration.loginAttemptsMax = 3
        }
        let changes = ann.connectionChanges
        let error = await #expect(throws: PresenceError.self) { try await ann.login() }
        #expect(error?.code == .unreachable)
        let call = await #expect(throws: PresenceError.self) { try await ann.getUserStatus(["bob"]) }
        #expect(call?.code == .unreachable)
        await ann.close()
        let states = await changes.reduce(into: [ConnectionState]()) { $0.append($1.state) }
        #expect(states == [.connecting, .disconnected])
        try await fixture.stop()
    }

    @Test("Closing makes the user OFFLINE, and a logout UNLOGINED") func closing() async throws {
        let fixture = try await Fixture.start { $0.core.policy.offlineGrace = .zero }
        let bob = try await fixture.client("bob")
        try await bob.login()
        try await bob.subscribeUserStatus(["ann"])
        let changes = bob.onUserStatusChanged
        var ann = try await fixture.client("ann") { $0.customStatus = "on the train & away" }
        try await ann.login()
        #expect(await changes.first { $0.statusType == .online }?.customStatus == "on the train & away")
        await ann.close()
        #expect(await changes.first { $0.userID == "ann" && $0.statusType != .online }?.statusType == .offline)
        ann = try await fixture.client("ann")
        try await ann.login()
        try await ann.logout()
        #expect(await changes.first { $0.statusType == .unlogined }?.userID == "ann")
        await bob.close()
        try await fixture.stop()
    }

    @Test("A dropped session leaves the user OFFLINE, and the next login tells everything again", arguments: [false, true])
    func disconnect(overURLSession: Bool) async throws {
        let fixture = try await Fixture.start(nodes: 3) { $0.core.policy.offlineGrace = .zero }
        let ann = try await fixture.client("ann", nodes: [0]) { $0.preferredTransport = overURLSession ? .urlSession : .asyncHTTPClient }
        let bob = try await fixture.client("bob", nodes: [2]) { $0.preferredTransport = overURLSession ? .urlSession : .asyncHTTPClient }
        let (toldToAnn, toldToBob) = (ann.onUserStatusChanged, bob.onUserStatusChanged)
        try await ann.login()
        try await ann.subscribeUserStatus(["bob"])
        try await bob.login()
        try await bob.subscribeUserStatus(["ann"])
        #expect(await toldToBob.first { $0.userID == "ann" }?.statusType == .online)
        await ann.disconnect()
        #expect(await ann.connectionState == .disconnected)
        #expect(await toldToBob.first { $0.userID == "ann" }?.statusType == .offline)
        let unseen = try await bob.setSelfStatus("unseen")
        try await ann.login()
        #expect(await toldToAnn.first { $0.customStatus == "unseen" } == unseen)
        #expect(await toldToBob.first { $0.userID == "ann" }?.statusType == .online)
        for client in [ann, bob] { await client.close() }
        try await fixture.stop()
    }
}
