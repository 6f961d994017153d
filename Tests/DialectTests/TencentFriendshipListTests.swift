import NodeFixture
import PresenceClient
import TencentFriendship
import Testing

/// The lists, caches and notices of `documents/004…`, in the preset as it is, on three nodes.
@Suite(.timeLimit(.minutes(2))) struct TencentFriendshipListTests {
    private final class Listener: TIMMessageListener {
        let log = Box<String>()

        func onNewMessage(_ msgs: [TIMMessage]) {
            for case let notice as TIMSNSSystemElem in msgs.compactMap({ $0.getElem(0) }) {
                log.add(notice.users.map { "\(notice.type) \($0.identifier)\($0.wording.isEmpty ? "" : ": ")\($0.wording)" })
            }
        }
    }

    /// A user who has logged in on one node.
    private func login(
        _ user: String, _ cluster: ServedCluster, node: Int, expiredSeconds: Int = 86_400
    ) async throws -> (manager: TIMManager, friends: TIMFriendshipManager, listener: Listener) {
        var configuration = ClientConfiguration(addresses: ["http://127.0.0.1:\(cluster.nodes[node].ports.client)"]) {
            try signedToken(user: user)
        }
        configuration.backoff = Backoff(initial: .milliseconds(20), max: .milliseconds(200))
        let manager = TIMManager(configuration)
        let listener = Listener()
        var config = TIMUserConfig()
        config.friendProfileOpt.expiredSeconds = expiredSeconds
        manager.setUserConfig(config)
        manager.setMessageListener(listener)
        try await manager.login(TIMLoginParam())
        return (manager, manager.friendshipManager, listener)
    }

    private func request(_ user: String, wording: String = "") -> TIMFriendRequest {
        var request = TIMFriendRequest()
        (request.identifier, request.addWording) = (user, wording)
        return request
    }

    @Test("P38 A device that was away is told once of each friend and request that came or went, and of unread requests at a login")
    func away() async throws {
        let cluster = try await ServedCluster.serving("tencent")
        let eve = try await login("eve", cluster, node: 1)
        let dan = try await login("dan", cluster, node: 2)
        let me = try await login("me", cluster, node: 0)
        for user in [me, eve] { try await user.friends.modifySelfProfile([TIMProfileTypeKey_AllowType: 1]) }
        #expect(try await me.friends.addFriend(request("old")).result_code == TIM_FRIEND_STATUS_SUCC)
        #expect(try await me.friends.addFriend(request("eve")).result_code == TIM_ADD_FRIEND_STATUS_PENDING)
        try await cluster.until("both notices are there") { me.listener.log.all == ["addFriend old", "addFriendReq eve"] }

        let ports = cluster.nodes[0].ports
        try await cluster.nodes[0].kill()
        var approval = TIMFriendResponse()
        (approval.identifier, approval.responseType) = ("me", TIM_FRIEND_RESPONSE_AGREE_AND_ADD)
        let old = try await login("old", cluster, node: 1)
        try await cluster.until("the new owners decide") {
            // A call may meet the moment in which an owner is replaced.
            let results = try? await (eve.friends.doResponse(approval).result_code, old.friends.delFriend("me", delType: .both))
            return results != nil
        }
        #expect(try await dan.friends.addFriend(request("me", wording: "hi")).result_code == TIM_ADD_FRIEND_STATUS_PENDING)
        #expect(me.listener.log.all.count == 2)

        let node = try await ServedNode.serving(
            [
                "--dev", "--loops", "1", "--join", "127.0.0.1:\(cluster.nodes[1].ports.cluster)", "--listen", "127.0.0.1:\(ports.client)",
                "--cluster-listen", "127.0.0.1:\(ports.cluster)", "--ops-listen", "127.0.0.1:\(ports.ops)",
            ], ["ROLLCALL_DRAIN_TIMEOUT": "1"], named: "n0", in: cluster.folder)
        let missed = ["addFriend eve", "addFriendReq dan: hi", "delFriend old", "delFriendReq eve"]
        try await cluster.until("what was missed is told") { me.listener.log.all.count >= 6 }
        #expect(me.listener.log.all.dropFirst(2).sorted() == missed)
        #expect(try await me.friends.getFriendList().map(\.identifier) == ["eve"])

        // The request is unread: the next login tells of it again. Once it is read, no login does.
        try await me.manager.logout()
        try await me.manager.login(TIMLoginParam())
        try await cluster.until("the unread request is told") { me.listener.log.all.count >= 7 }
        #expect(me.listener.log.all.last == "addFriendReq dan: hi")
        try await me.friends.pendencyReport(9_007_199_254_740_992)
        try await me.manager.logout()
        try await me.manager.login(TIMLoginParam())
        #expect(try await me.friends.addFriend(request("zoe")).result_code == TIM_FRIEND_STATUS_SUCC)
        try await cluster.until("a later notice is there") { me.listener.log.all.last == "addFriend zoe" }
        #expect(me.listener.log.all.count == 8)
        for user in [me, eve, dan, old] { try await user.manager.logout() }
        for node in [node] + cluster.nodes.dropFirst() { try await node.stop() }
    }

    /// A read of the façade that may use what the client keeps.
    enum KeptRead: String, CaseIterable, Sendable {
        case getFriendList, getUsersProfile

        /// Returns the user IDs that were read.
        func read(by friends: TIMFriendshipManager) async throws -> [String] {
            switch self {
            case .getFriendList: try await friends.getFriendList().map(\.identifier)
            case .getUsersProfile: try await friends.getUsersProfile(["bob"], forceUpdate: false).map(\.identifier)
            }
        }
    }

    @Test(
        "P3 P4 A kept list of friends, and a kept profile, is asked for again once it is older than expiredSeconds, and not before",
        arguments: [1, 86_400], KeptRead.allCases)
    func expiry(expiredSeconds: Int, kept: KeptRead) async throws {
        let cluster = try await ServedCluster.serving("tencent")
        let me = try await login("me", cluster, node: 0, expiredSeconds: expiredSeconds)
        #expect(try await me.friends.addFriend(request("bob")).result_code == TIM_FRIEND_STATUS_SUCC)
        let reads = { () async throws -> Int in
            let text = try await cluster.nodes[0].metricsText()
            let lines = text.split(separator: "\n")
            let line = lines.first { $0.hasPrefix("rollcall_operations_total{") && $0.contains("\"\(kept.rawValue)\"") }
            return line.flatMap { $0.split(separator: " ").last }.flatMap { Int($0) } ?? 0
        }
        try await cluster.until("the answer is kept: two reads cost the node nothing") {
            let before = try await reads()
            for _ in 0..<2 { #expect(try await kept.read(by: me.friends) == ["bob"]) }
            return try await reads() == before
        }
        let before = try await reads()
        #expect(before > 0)
        let start = ContinuousClock.now
        var isAsked = false
        // Two seconds of reads, with one look at the node's counter after each.
        while !isAsked, start.duration(to: .now) < .seconds(2) {
            #expect(try await kept.read(by: me.friends) == ["bob"])
            isAsked = try await reads() > before
        }
        #expect(isAsked == (expiredSeconds == 1))
        try await me.manager.logout()
        try await cluster.stop()
    }

    @Test("P7 P31 A number stands for AllowType, a UInt32 for a birthday, and the blocklist is read as user IDs or as friends")
    func values() async throws {
        let cluster = try await ServedCluster.serving("tencent")
        let me = try await login("me", cluster, node: 0)
        for (number, type) in [(1, TIM_FRIEND_NEED_CONFIRM), (2, TIM_FRIEND_DENY_ANY), (0, TIM_FRIEND_ALLOW_ANY)] {
            try await me.friends.modifySelfProfile([TIMProfileTypeKey_AllowType: number, TIMProfileTypeKey_Birthday: UInt32(20_000_101)])
            let profile = try await me.friends.getSelfProfile()
            #expect(profile.allowType == type && profile.birthday == 20_000_101)
        }
        for wrong: [String: any TIMValue] in [[TIMProfileTypeKey_AllowType: 3], [TIMProfileTypeKey_Nick: TIMTexts(["a"])]] {
            let error = await #expect(throws: TIMError.self) { try await me.friends.modifySelfProfile(wrong) }
            #expect(error?.code == 6017 && error?.msg.hasPrefix("values.\(wrong.keys.first ?? ""): ") == true)
        }
        #expect(try await me.friends.addBlackList(["a", "b"]).map(\.result_code) == [0, 0])
        #expect(try await me.friends.getBlackListUserIDs() == ["a", "b"])
        #expect(try await me.friends.getBlackList().map(\.identifier) == ["a", "b"])
        let called = Box<String>()
        #expect(me.friends.getBlackListUserIDs(succ: { called.add($0) }, fail: nil) == 0)
        try await cluster.until("the callback has the user IDs (P45)") { called.all == ["a", "b"] }
        try await me.manager.logout()
        try await cluster.stop()
    }

    /// The seconds in which the pages of a list with profiles are read by hand, one after the other, at a node.
    private func readPages(of user: String, _ cluster: ServedCluster, node: Int) async throws -> Double {
        let start = ContinuousClock.now
        var cursor: String? = ""
        while let next = cursor {
            let answer = try await cluster.call("getFriendList", "{\"limit\":100,\"withProfile\":true\(next)}", as: user, node: node)
            #expect(answer.status == 200, "\(answer.json)")
            cursor = answer.json["cursor"]?.text.map { ",\"cursor\":\"\($0)\"" }
        }
        return start.duration(to: .now) / .seconds(1)
    }

    /// The nodes answer the pages in 0.07 s. The rest is the client, in a debug build, and the tests beside this one.
    @Test("P9 The best of 3 logins has 3,000 friends with profiles in 1 s, or 4 times their pages by hand where the processor is busy")
    func many() async throws {
        let cluster = try await ServedCluster.serving("tencent")
        let friends = (0..<3_000).map { "u\(10_000 + $0)" }
        for start in stride(from: 0, to: friends.count, by: 100) {
            let list = friends[start..<start + 100].map { "{\"userID\":\"\($0)\"}" }.joined(separator: ",")
            let answer = try await cluster.call(
                "importFriends", "{\"asUser\":\"me\",\"friends\":[\(list)]}", as: "operator", isAdmin: true)
            try #require(answer.status == 200, "\(answer.json)")
        }
        var shares: [Double] = []
        for _ in 0..<3 {
            let byHand = try await readPages(of: "me", cluster, node: 2)
            let me = try await login("me", cluster, node: 1)
            let start = ContinuousClock.now
            let listed = try await me.friends.getFriendList()
            let seconds = start.duration(to: .now) / .seconds(1)
            #expect(listed.map(\.identifier) == friends && listed.allSatisfy { $0.profile != nil })
            print("3,000 friends with profiles: \(seconds) s, their pages by hand: \(byHand) s")
            // Under the limit of 20 calls in 5 s the pages took 16 s.
            shares.append(seconds / max(1, 4 * byHand))
            try await me.manager.logout()
        }
        #expect(shares.contains { $0 <= 1 }, "\(shares)")
        // The client reads the list once for the call, and once for what it keeps after a login. It asks for no profile on its own.
        let calls = try await cluster.nodes[1].metric("rollcall_operations_total{operation=\"getFriendList\",code=\"0\"}")
        #expect((3 * 30...3 * 60).contains(calls), "\(calls)")
        #expect(try await cluster.nodes[1].metric("rollcall_operations_total{operation=\"getUsersProfile\",code=\"0\"}") == 0)
        try await cluster.stop()
    }

    @Test("P9 The preset's limit of calls counts changes of the chain, and no read of one's own lists")
    func uncountedReads() async throws {
        let cluster = try await ServedCluster.serving("tencent")
        for (operation, body) in [("getFriendList", "{}"), ("getBlackList", "{}"), ("getFriendGroups", "{}"), ("getSelfProfile", "{}")] {
            for _ in 0..<25 { #expect(try await cluster.call(operation, body, as: "me").status == 200) }
        }
        var codes: [Int64] = []
        for number in 0..<21 {
            codes.append(try await cluster.call("addFriend", "{\"userID\":\"w\(number)\"}", as: "me").json["code"]?.number ?? 0)
        }
        #expect(codes.filter { $0 == 7008 }.count == 1)
        try await cluster.stop()
    }
}
