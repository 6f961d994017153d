import NodeFixture
import PresenceClient
import TencentStatus
import Testing

/// The samples of `documents/000…`, line by line.
@Suite(.timeLimit(.minutes(1))) struct TencentStatusTests {
    private final class SDKListener: V2TIMSDKListener {
        let manager: V2TIMManager
        let own = Box<V2TIMUserStatus>()
        let others = Box<V2TIMUserStatus>()
        let connections = Box<String>()

        init(_ manager: V2TIMManager) { self.manager = manager }

        func onUserStatusChanged(_ userStatusList: [V2TIMUserStatus]) {
            let myselfUserID = manager.getLoginUser()
            for userStatus in userStatusList {
                if userStatus.userID == myselfUserID {
                    own.add([userStatus])
                } else {
                    others.add([userStatus])
                }
            }
        }

        func onConnecting() { connections.add(["connecting"]) }
        func onConnectSuccess() { connections.add(["success"]) }
        func onKickedOffline() { connections.add(["kicked, then \(manager.getLoginUser() ?? "nobody") is logged in"]) }
    }

    @Test("T9 T10 T14 T31 The samples of the document run") func samples() async throws {
        let fixture = try await ServedCluster.serving("tencent")
        let manager = try V2TIMManager(fixture.configuration(of: "ann"))
        let listener = SDKListener(manager)
        manager.addIMSDKListener(listener)
        try await manager.login()

        // Setting self status.
        var status = V2TIMUserStatus()
        status.customStatus = "listening to music"
        try await manager.setSelfStatus(status)
        try await fixture.until("the own listener is told (T9)") { listener.own.all.last?.customStatus == "listening to music" }

        // Querying one's own status, and others'.
        let loginUserID = try #require(manager.getLoginUser())
        let own = try await manager.getUserStatus([loginUserID])
        #expect(own.map(\.statusType) == [V2TIM_USER_STATUS_ONLINE] && own.first?.customStatus == "listening to music")
        let result = try await manager.getUserStatus(["userid1", "userid2", "userid3"])
        #expect(result.map(\.userID) == ["userid1", "userid2", "userid3"])
        #expect(result.allSatisfy { $0.statusType == V2TIM_USER_STATUS_UNLOGINED })

        // Subscribing, status change notification, unsubscribing.
        try await manager.subscribeUserStatus(["userid1", "userid2", "userid3"])
        let other = try V2TIMManager(fixture.configuration(of: "userid1"))
        try await other.login()
        try await other.setSelfStatus(V2TIMUserStatus(customStatus: "on the call"))
        try await fixture.until("the others' listener is told (T31)") {
            listener.others.all.contains { $0.statusType == V2TIM_USER_STATUS_ONLINE && $0.customStatus == "on the call" }
        }
        try await manager.unsubscribeUserStatus(["userid1", "userid2", "userid3"])
        try await manager.unsubscribeUserStatus([])

        // Clearing.
        status.customStatus = nil
        try await manager.setSelfStatus(status)
        try await fixture.until("the own listener is told (T10)") { listener.own.all.last?.customStatus == "" }
        try await other.logout()
        try await manager.logout()
        #expect(manager.getLoginUser() == nil && listener.connections.all == ["connecting", "success"])
        try await fixture.stop()
    }

    @Test("As the page says, lists of 150 users to follow and of 501 to query become several calls") func longLists() async throws {
        let fixture = try await ServedCluster.serving("tencent")
        let manager = try V2TIMManager(fixture.configuration(of: "ann"))
        let listener = SDKListener(manager)
        manager.addIMSDKListener(listener)
        try await manager.login()
        let users = (0...500).map { "user\($0)" }
        #expect(try await manager.getUserStatus(users).map(\.userID) == users)
        let followed = Array(users[..<150])
        try await manager.subscribeUserStatus(followed)
        let total = { try await fixture.call("getSubscribedUserStatus", "{}").json["total"]?.number }
        #expect(try await total() == 150)
        let last = try V2TIMManager(fixture.configuration(of: "user149"))
        try await last.login()
        try await fixture.until("a user of the second call is followed") {
            listener.others.all.contains { $0.userID == "user149" && $0.statusType == V2TIM_USER_STATUS_ONLINE }
        }
        try await manager.unsubscribeUserStatus(followed)
        #expect(try await total() == 0)
        try await last.logout()
        try await manager.logout()
        try await fixture.stop()
    }

    @Test("T11 The own listener is told of OFFLINE without a custom status as soon as the connection is lost") func ownOffline()
        async throws
    {
        let fixture = try await ServedCluster.serving("tencent")
        let network = try await FaultyNetwork(to: fixture.nodes[1].ports.client) { _ in ConnectionFate() }
        var configuration = fixture.configuration(of: "ann")
        configuration.addresses = ["http://127.0.0.1:\(network.port)"]
        let manager = try V2TIMManager(configuration)
        let listener = SDKListener(manager)
        manager.addIMSDKListener(listener)
        try await manager.login()
        try await manager.setSelfStatus(V2TIMUserStatus(customStatus: "listening to music"))
        try await fixture.until("the own listener is told (T9)") { listener.own.all.last?.customStatus == "listening to music" }
        try await network.close()
        try await fixture.until("the own listener is told of the loss") {
            listener.own.all.last?.statusType == V2TIM_USER_STATUS_OFFLINE && listener.own.all.last?.customStatus == ""
        }
        // The cluster says the same.
        try await fixture.until("the user is OFFLINE") {
            let found = try await fixture.admin("queryOnlineStatus", #"{"userIDs":["ann"]}"#).json["userStatusList"]?.elements.first
            return found?["statusType"]?.text == "OFFLINE" && found?["customStatus"]?.text == ""
        }
        await manager.client.close()
        try await fixture.stop()
    }

    /// The session of a dead node may come back, so the cluster knows nothing of the loss.
    @Test("T11 The own listener is told of the own status again where the loss has changed nothing") func ownBack() async throws {
        let fixture = try await ServedCluster.serving("tencent")
        let manager = try V2TIMManager(fixture.configuration(of: "ann"))
        let listener = SDKListener(manager)
        manager.addIMSDKListener(listener)
        try await manager.login()
        try await manager.setSelfStatus(V2TIMUserStatus(customStatus: "listening to music"))
        try await fixture.until("the own listener is told (T9)") { listener.own.all.last?.customStatus == "listening to music" }
        let node = try #require(manager.client.loginSession?.node)
        try await fixture.nodes.first { $0.nodeID == node }?.kill()
        try await fixture.until("the own listener is told of the loss") {
            listener.own.all.contains { $0.statusType == V2TIM_USER_STATUS_OFFLINE && $0.customStatus == "" }
        }
        try await fixture.until("and that the user is ONLINE again") { listener.own.all.last?.statusType == V2TIM_USER_STATUS_ONLINE }
        let loginUserID = try #require(manager.getLoginUser())
        try await fixture.until("with the text that the cluster has") {
            let own = try await manager.getUserStatus([loginUserID]).first
            return own?.statusType == V2TIM_USER_STATUS_ONLINE && own?.customStatus == listener.own.all.last?.customStatus
        }
        try await manager.logout()
        try await fixture.stop()
    }

    @Test("No user is logged in after the session was ended elsewhere") func nobodyAfterAKick() async throws {
        let fixture = try await ServedCluster.serving("tencent")
        try V2TIMManager.configure(fixture.configuration(of: "ann"))
        let manager = V2TIMManager.sharedInstance()
        #expect(manager === V2TIMManager.getInstance() && manager.getLoginUser() == nil)
        let listener = SDKListener(manager)
        manager.addIMSDKListener(listener)
        try await manager.login()
        #expect(manager.getLoginUser() == "ann")
        let other = try V2TIMManager(fixture.configuration(of: "ann"))
        try await other.login()
        try await other.client.logout(everywhere: true)
        try await fixture.until("the kick is told") { listener.connections.all.last == "kicked, then nobody is logged in" }
        #expect(manager.getLoginUser() == nil && other.getLoginUser() == nil)
        try await manager.login()
        #expect(manager.getLoginUser() == "ann")
        try await manager.logout()
        try await fixture.stop()
    }

    @Test("A call fails as a whole") func wholeCall() async throws {
        let fixture = try await ServedCluster.serving("tencent")
        let manager = try V2TIMManager(fixture.configuration(of: "ann"))
        // The document's preset fails the whole call. Other presets name the users, and the façade makes one error of them.
        for (preset, own, bad) in [("tencent", "userIDs: is the caller itself", "userIDs[1]: "), ("rollcall", "ann: ", "")] {
            let changed = try await fixture.admin("setAppPolicy", "{\"preset\":\"\(preset)\"}")
            #expect(changed.status == 200)
            let error = await #expect(throws: V2TIMError.self) { try await manager.subscribeUserStatus(["bob", "ann"]) }
            #expect(error?.code == 6017 && error?.desc.hasPrefix(own) == true, "\(error?.desc ?? "")")
            let invalid = await #expect(throws: V2TIMError.self) { try await manager.getUserStatus(["bob", "bad\u{1}", "bad\u{2}"]) }
            #expect(invalid?.code == 7003 && invalid?.desc.hasPrefix(bad) == true, "\(invalid?.desc ?? "")")
            #expect((invalid?.desc.contains("and 1 more") == true) == (preset == "rollcall"))
        }
        let back = try await fixture.admin("setAppPolicy", #"{"preset":"tencent"}"#)
        #expect(back.status == 200)
        let long = V2TIMUserStatus(customStatus: String(repeating: "x", count: 101))
        let tooLong = await #expect(throws: V2TIMError.self) { try await manager.setSelfStatus(long) }
        #expect(tooLong?.code == 6017 && tooLong?.desc.contains("100") == true, "T12: 100 bytes")
        await manager.client.close()
        try await fixture.stop()
    }
}
