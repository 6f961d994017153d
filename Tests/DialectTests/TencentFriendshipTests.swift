import NodeFixture
import PresenceClient
import TencentFriendship
import Testing

/// The samples of `documents/004…`, line by line.
@Suite(.timeLimit(.minutes(1))) struct TencentFriendshipTests {
    /// Keeps what the labels of the document's samples would show.
    private final class Label: Sendable {
        let texts = Box<String>()
        var text: String? {
            get { texts.all.last }
            set { texts.add([newValue ?? ""]) }
        }
    }

    private final class TIMMessageListenerImpl: TIMMessageListener {
        let log = Box<String>()

        func onNewMessage(_ msgs: [TIMMessage]) {
            for msg in msgs {
                for i in 0..<msg.elemCount() {
                    let elem = msg.getElem(i)
                    if let system_elem = elem as? TIMSNSSystemElem {
                        switch system_elem.type {
                        case TIM_SNS_SYSTEM_ADD_FRIEND:
                            for info in system_elem.users { log.add(["user \(info.identifier) become friends"]) }
                        case TIM_SNS_SYSTEM_DEL_FRIEND:
                            for info in system_elem.users { log.add(["user \(info.identifier) delete friends"]) }
                        case TIM_SNS_SYSTEM_ADD_FRIEND_REQ:
                            for info in system_elem.users { log.add(["user \(info.identifier) request friends: reason=\(info.wording)"]) }
                        default: log.add(["ignore type"])
                        }
                    }
                    if let profile = elem as? TIMProfileSystemElem {
                        #expect(profile.type == TIM_PROFILE_SYSTEM_FRIEND_PROFILE_CHANGE && profile.nickName == "")
                        log.add(["profile of \(profile.fromUser)"])
                    }
                }
            }
        }
    }

    private func manager(
        of user: String, in fixture: ServedCluster
    ) async throws -> (manager: TIMManager, friends: TIMFriendshipManager, listener: TIMMessageListenerImpl) {
        let manager = TIMManager(fixture.configuration(of: user))
        let listener = TIMMessageListenerImpl()
        let config = {
            var config = TIMUserConfig()
            var option = TIMFriendProfileOption()
            option.expiredSeconds = 60 * 60  // 1 hour
            config.friendProfileOpt = option
            return config
        }()
        manager.setUserConfig(config)
        manager.setMessageListener(listener)
        #expect(manager.initSdk() == 0)
        let login_param = {
            var login_param = TIMLoginParam()
            login_param.accountType = "107"
            login_param.identifier = user
            login_param.userSig = ""
            login_param.appidAt3rd = "123456"
            login_param.sdkAppId = 123456
            return login_param
        }()
        let log = Box<String>()
        let sent = manager.login(
            login_param, succ: { log.add(["login succ"]) }, fail: { code, err in log.add(["login failed: \(code)->\(err)"]) })
        #expect(sent == 0)
        try await fixture.until("\(user) is logged in") { log.all == ["login succ"] }
        return (manager, manager.friendshipManager, listener)
    }

    @Test("P1 P3 P5 P6 P8 P43 P45 The samples about profiles run") func profiles() async throws {
        let fixture = try await ServedCluster.serving("tencent", declared: #""profile.customFields":{"Blood":"integer"}"#)
        let me = try await manager(of: "iOS_001", in: fixture)
        let other = try await manager(of: "iOS_002", in: fixture)
        try await other.friends.modifySelfProfile([TIMProfileTypeKey_Nick: "My nickname"])
        let key = TIMProfileTypeKey_Custom_Prefix + "Blood"
        let done = Box<String>()
        #expect(other.friends.modifySelfProfile([key: 1], succ: { done.add(["succ"]) }, fail: nil) == 0)
        try await fixture.until("the call is done") { done.all == ["succ"] }

        let log = Box<String>()
        let arr = ["iOS_002", "iOS_003"]
        _ = me.friends.getUsersProfile(
            arr, forceUpdate: false,
            succ: { arr in for profile in arr { log.add(["user=\(profile.identifier) \(profile.nickname) \(profile.customInfo)"]) } },
            fail: { code, err in log.add(["GetFriendsProfile fail: code=\(code) err=\(err)"]) })
        try await fixture.until("the profiles are here") { log.all.count == 2 }
        #expect(log.all == [#"user=iOS_002 My nickname ["Custom_Blood": PresenceClient.FieldValue.integer(1)]"#, "user=iOS_003  [:]"])

        let own = try await other.friends.getSelfProfile()
        #expect(own.identifier == "iOS_002" && own.allowType == TIM_FRIEND_ALLOW_ANY && own.gender == TIM_GENDER_UNKNOWN)
        try await other.friends.modifySelfProfile([
            TIMProfileTypeKey_AllowType: TIM_FRIEND_NEED_CONFIRM, TIMProfileTypeKey_Gender: TIM_GENDER_FEMALE,
            TIMProfileTypeKey_SelfSignature: [UInt8]([0xFF]),
        ])
        let changed = try await me.friends.getUsersProfile(["iOS_002"], forceUpdate: true)
        #expect(changed.map(\.allowType) == [TIM_FRIEND_NEED_CONFIRM] && changed.map(\.selfSignature) == [[0xFF]])
        try await fixture.until("the own listener is told (P43)") { other.listener.log.all.contains("profile of iOS_002") }

        let unknown = await #expect(throws: TIMError.self) { try await me.friends.modifySelfProfile(["Nickname": "x"]) }
        #expect(unknown?.code == 6017)
        for user in [me, other] { try await user.manager.logout() }
        try await fixture.stop()
    }

    @Test("P12 P14 P16 P38 P39 P41 P42 P45 The samples about requests run") func friends() async throws {
        let fixture = try await ServedCluster.serving("tencent")
        let me = try await manager(of: "iOS_001", in: fixture)
        let abc = try await manager(of: "abc", in: fixture)
        let msgLabel = Label()
        try await abc.friends.modifySelfProfile([TIMProfileTypeKey_AllowType: TIM_FRIEND_NEED_CONFIRM, TIMProfileTypeKey_Nick: "Alphabet"])

        var q = TIMFriendRequest()
        q.identifier = "abc"  // Add abc as a friend.
        q.addWording = "Please approve my request"
        q.addSource = "AddSource_Type_iOS"
        q.remark = "You are abc"
        _ = me.friends.addFriend(
            q,
            succ: { result in
                if result.result_code == 0 {
                    msgLabel.text = "Friend added successfully"
                } else {
                    msgLabel.text = "Exception: \(result.result_code), \(result.result_info)"
                }
            }, fail: { code, msg in msgLabel.text = "Failed: \(code), \(msg)" })
        try await fixture.until("the request is sent") { msgLabel.text == "Exception: 30539, the user must approve the request" }
        for user in [me, abc] {
            try await fixture.until("both are told (P41)") {
                user.listener.log.all.contains { $0.hasSuffix("request friends: reason=Please approve my request") }
            }
        }

        var response = TIMFriendResponse()
        (response.responseType, response.identifier) = (TIM_FRIEND_RESPONSE_AGREE_AND_ADD, "iOS_001")
        #expect(try await abc.friends.doResponse(response).result_code == TIM_FRIEND_STATUS_SUCC)
        try await fixture.until("both are told (P39, P42)") {
            me.listener.log.all.contains("user abc become friends") && abc.listener.log.all.contains("user iOS_001 become friends")
                && me.listener.log.all.contains("ignore type")
        }

        for user in [me, abc] { try await user.manager.logout() }
        try await fixture.stop()
    }

    @Test("P9 P10 P11 P15 P18 P19 P40 The samples about the friend list run") func friendList() async throws {
        let fixture = try await ServedCluster.serving("tencent", declared: #""friends.customFields":{"Since":"integer"}"#)
        let me = try await manager(of: "iOS_001", in: fixture)
        let abc = try await manager(of: "abc", in: fixture)
        let msgLabel = Label()
        try await abc.friends.modifySelfProfile([TIMProfileTypeKey_Nick: "Alphabet"])
        var q = TIMFriendRequest()
        (q.identifier, q.addWording, q.addSource) = ("abc", "Please approve my request", "AddSource_Type_iOS")
        #expect(try await me.friends.addFriend(q).result_code == TIM_FRIEND_STATUS_SUCC)

        _ = me.friends.modifyFriend(
            "abc", values: [TIMFriendTypeKey_Remark: "002 remark"], succ: { msgLabel.text = "OK" },
            fail: { code, msg in msgLabel.text = "Failed: \(code), \(msg)" })
        try await fixture.until("the friend is modified") { msgLabel.text == "OK" }
        _ = try await me.friends.createFriendGroup(["school"], users: ["abc"])
        try await me.friends.modifyFriend(
            "abc", values: [TIMFriendTypeKey_Custom_Prefix + "Since": 2_020, TIMFriendTypeKey_Group: TIMTexts(["school"])])

        try await fixture.until("the list has all changes") {
            try await me.friends.getFriendList().first?.customInfo == ["Custom_Since": .integer(2_020)]
        }
        _ = me.friends.getFriendList(
            succ: { friends in
                var msg = "Friend list: "
                for friend in friends {
                    msg +=
                        "[\(friend.identifier),\(friend.remark),\(friend.addTime > 0),\(friend.addSource),\(friend.addWording),\(friend.groups)]"
                }
                msgLabel.text = msg
            }, fail: { code, msg in msgLabel.text = "Failed: \(code), \(msg)" })
        let listed = #"Friend list: [abc,002 remark,true,AddSource_Type_iOS,Please approve my request,["school"]]"#
        try await fixture.until("the list is here") { msgLabel.text == listed }
        #expect(try await me.friends.getFriendList().first?.profile?.nickname == "Alphabet")

        var checkInfo = TIMFriendCheckInfo()
        (checkInfo.users, checkInfo.checkType) = (["abc", "iOS_002"], TIM_FRIEND_CHECK_TYPE_BIDIRECTION)
        #expect(
            try await me.friends.checkFriends(checkInfo).map(\.resultType) == [
                TIM_FRIEND_RELATION_TYPE_BOTHWAY, TIM_FRIEND_RELATION_TYPE_NONE,
            ])

        let log = Box<String>()
        let del_users = ["iOS_002", "abc"]
        // TIM_FRIEND_DEL_BOTH indicates deleting two-way friends.
        _ = me.friends.deleteFriends(
            del_users, delType: TIM_FRIEND_DEL_BOTH,
            succ: { results in
                for res in results {
                    if res.result_code != TIM_FRIEND_STATUS_SUCC {
                        log.add(["deleteFriends failed: user=\(res.identifier) result_code=\(res.result_code)"])
                    } else {
                        log.add(["deleteFriends succ: user=\(res.identifier) result_code=\(res.result_code)"])
                    }
                }
            }, fail: { code, err in log.add(["deleteFriends failed: code=\(code) err=\(err)"]) })
        try await fixture.until("the friend is deleted") { log.all.count == 2 }
        #expect(
            log.all == [
                "deleteFriends failed: user=iOS_002 result_code=31704", "deleteFriends succ: user=abc result_code=0",
            ])
        try await fixture.until("both are told (P40)") {
            me.listener.log.all.contains("user abc delete friends") && abc.listener.log.all.contains("user iOS_001 delete friends")
        }
        #expect(
            try await me.friends.delFriend("abc", delType: TIM_FRIEND_DEL_SINGLE).map(\.result_code) == [TIM_DEL_FRIEND_STATUS_NO_FRIEND])
        for user in [me, abc] { try await user.manager.logout() }
        try await fixture.stop()
    }

    @Test("P21 P22 P23 P24 P27 P28 Requests are read by pages, deleted and marked as read") func requests() async throws {
        let fixture = try await ServedCluster.serving("tencent", declared: #""profile.defaultAllowType":"confirm""#)
        let me = try await manager(of: "iOS_001", in: fixture)
        for number in 2...4 {
            let other = try await manager(of: "iOS_00\(number)", in: fixture)
            var request = TIMFriendRequest()
            (request.identifier, request.addWording) = ("iOS_001", "from \(number)")
            #expect(try await other.friends.addFriend(request).result_code == TIM_ADD_FRIEND_STATUS_PENDING)
            try await other.manager.logout()
        }
        var request = TIMFriendPendencyRequest()
        (request.numPerPage, request.type) = (2, TIM_PENDENCY_GET_COME_IN)
        var items: [TIMFriendPendencyItem] = []
        var pages = 0
        var seq = ""
        repeat {
            let page = try await me.friends.getPendencyList(request)
            items += page.items
            pages += 1
            (seq, request.timestamp) = (page.response.seq, page.response.timestamp)
            #expect(page.response.unreadCnt == 3)
        } while request.timestamp != 0
        #expect(items.map(\.identifier) == ["iOS_002", "iOS_003", "iOS_004"] && items.allSatisfy { $0.type == TIM_PENDENCY_GET_COME_IN })
        #expect(pages == 2)
        request.seq = seq
        #expect(try await me.friends.getPendencyList(request).items == [], "the newest sequence (P23)")
        try await me.friends.pendencyReport(items[1].addTime)
        request.seq = ""
        #expect(try await me.friends.getPendencyList(request).response.unreadCnt <= 2)
        try await me.friends.deletePendency(TIM_PENDENCY_GET_COME_IN, users: ["iOS_002"])
        let again = await #expect(throws: TIMError.self) {
            try await me.friends.deletePendency(TIM_PENDENCY_GET_COME_IN, users: ["iOS_002"])
        }
        #expect(again?.code == TIM_RESPONSE_FRIEND_STATUS_NO_REQ)
        try await me.manager.logout()
        try await fixture.stop()
    }

    @Test("P29 P30 P31 P32 P33 P34 P35 P36 P37 The samples about the blocklist and groups run") func lists() async throws {
        let fixture = try await ServedCluster.serving("tencent")
        let me = try await manager(of: "iOS_001", in: fixture)
        var request = TIMFriendRequest()
        request.identifier = "iOS_002"
        #expect(try await me.friends.addFriend(request).result_code == TIM_FRIEND_STATUS_SUCC)
        #expect(try await me.friends.createFriendGroup(["a", "b"], users: ["iOS_002", "iOS_003"]).map(\.result_code) == [0, 32_216])
        try await me.friends.renameFriendGroup("a", newName: "c")
        #expect(try await me.friends.addFriendsToFriendGroup("c", users: ["iOS_002"]).map(\.result_code) == [32_519])
        #expect(try await me.friends.delFriendsFromFriendGroup("c", users: ["iOS_002"]).map(\.result_code) == [0])
        let groups = try await me.friends.getFriendGroups(nil)
        #expect(groups.map(\.name) == ["c", "b"] && groups.map(\.friends) == [[], ["iOS_002"]] && groups.map(\.userCnt) == [0, 1])
        try await me.friends.deleteFriendGroup(["b"])
        #expect(try await me.friends.getFriendGroups(["b", "c"]).map(\.name) == ["c"])
        #expect(try await me.friends.addBlackList(["iOS_002", "iOS_003"]).map(\.result_code) == [0, 0])
        #expect(try await me.friends.getBlackList().map(\.identifier) == ["iOS_002", "iOS_003"])
        #expect(try await me.friends.addFriend(request).result_code == TIM_ADD_FRIEND_STATUS_IN_SELF_BLACK_LIST)
        #expect(try await me.friends.deleteBlackList(["iOS_002"]).map(\.result_code) == [0])
        try await me.manager.logout()
        try await fixture.stop()
    }
}
