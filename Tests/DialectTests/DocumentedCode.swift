import CommsEaseStatus
import PresenceClient
import RongCloudStatus
import TencentFriendship
import TencentStatus
import ZIMStatus

// The code of the pages in Clients/swift/Sources/PresenceClient/Docs.docc, as it stands there: DocumentationTests compares and runs it.

// MARK: ContactList.md

/// A contact list that is always up to date.
actor ContactList {
    private let client: PresenceClient
    private let userIDs: [String]
    private var statuses: [String: UserStatus] = [:]

    init(_ configuration: ClientConfiguration, contacts userIDs: [String]) throws {
        client = try PresenceClient(configuration)
        self.userIDs = userIDs
    }

    /// Logs in, and shows the list whenever a status has changed. Returns after ``logout()``.
    func run(show: ([String]) -> Void) async throws {
        let changes = client.onUserStatusChanged
        try await client.login()
        let answer = try await client.subscribeUserStatus(userIDs, sync: true)
        for error in answer.errorUserList { print("\(error.userID) cannot be followed: \(error.reason)") }
        for await changed in changes {
            for status in changed { statuses[status.userID] = status }
            show(lines)
        }
    }

    /// The list, those who are online first.
    private var lines: [String] {
        let known = userIDs.compactMap { statuses[$0] }
        let online = known.filter { $0.statusType == .online }.map { status in
            let text = status.customStatus.isEmpty ? "online" : status.customStatus
            return "● \(status.userID): \(text) (\(status.onlinePlatforms.joined(separator: ", ")))"
        }
        return online + known.filter { $0.statusType != .online }.map { "○ \($0.userID)" }
    }

    func setStatus(_ text: String) async throws {
        do { try await client.setSelfStatus(text) } catch {
            guard error.code == .badParameter else { throw error }
            print("too long: \(error.detail)")
        }
    }

    func logout() async throws {
        try await client.logout()
        await client.close()
    }
}

// MARK: ComingFromTencent.md

final class TencentListener: V2TIMSDKListener {
    func onUserStatusChanged(_ userStatusList: [V2TIMUserStatus]) {
        for status in userStatusList { print(status.userID, status.statusType, status.customStatus ?? "") }
    }
}

func tencent(_ configuration: ClientConfiguration, _ listener: any V2TIMSDKListener) async throws {
    let manager = try V2TIMManager(configuration)
    manager.addIMSDKListener(listener)
    try await manager.login()
    try await manager.setSelfStatus(V2TIMUserStatus(customStatus: "listening to music"))
    let statuses = try await manager.getUserStatus(["userid1", "userid2"])
    print(statuses.map(\.statusType))
    try await manager.subscribeUserStatus(["userid1", "userid2"])
    try await manager.unsubscribeUserStatus(["userid1", "userid2"])
    try await manager.logout()
}

// MARK: ComingFromTencentFriends.md

final class FriendListener: TIMMessageListener {
    func onNewMessage(_ msgs: [TIMMessage]) {
        for case let elem as TIMSNSSystemElem in msgs.compactMap({ $0.getElem(0) }) {
            print(elem.type, elem.users.map(\.identifier))
        }
    }
}

func tencentFriends(_ configuration: ClientConfiguration, _ listener: any TIMMessageListener) async throws {
    let manager = TIMManager(configuration)
    manager.setMessageListener(listener)
    try await manager.login(TIMLoginParam())
    let friendship = manager.friendshipManager
    try await friendship.modifySelfProfile([TIMProfileTypeKey_Nick: "Ann", TIMProfileTypeKey_AllowType: TIM_FRIEND_NEED_CONFIRM])
    var request = TIMFriendRequest()
    request.identifier = "bob"
    request.addSource = "AddSource_Type_iOS"
    let result = try await friendship.addFriend(request)
    print(result.result_code == TIM_FRIEND_STATUS_SUCC, result.result_info)
    let sent = friendship.getFriendList(succ: { friends in print(friends.map(\.remark)) }, fail: { code, msg in print(code, msg) })
    print(sent)
    try await manager.logout()
}

// MARK: ComingFromRongCloud.md

func rongCloud(_ configuration: ClientConfiguration, _ delegate: any RCSubscribeEventDelegate) async throws {
    let core = try RCCoreClient(configuration)
    core.addSubscribeEventDelegate(delegate)
    let connected = await core.connect()
    print(connected.status == RC_SUCCESS, connected.userId ?? "")
    let request = RCSubscribeEventRequest(subscribeType: .onlineStatus, userIds: ["test1", "test2"], expiry: 180_000)
    let subscribed = await core.subscribeEvent(request)
    print(subscribed.status == RC_SUCCESS, subscribed.failedUserIds ?? [])
    let page = await core.querySubscribeEvent(request, pageSize: 200, startIndex: 0)
    print(page.subscribeEvents?.map(\.userId) ?? [])
    _ = await core.unSubscribeEvent(request)
    _ = await core.logout()
}

// MARK: ComingFromCommsEase.md

func commsEase(_ configuration: ClientConfiguration, _ delegate: any NIMEventSubscribeManagerDelegate) async throws {
    let manager = try NIMEventSubscribeManager(configuration)
    manager.addDelegate(delegate)
    try await manager.login()
    let request = NIMSubscribeRequest(expiry: 3_600, syncEnabled: true, publishers: ["bob", "carl"])
    let failed = try await manager.subscribeEvent(request)
    print(failed)
    let event = try await manager.publishEvent(NIMSubscribeEvent(value: 10_001, expiry: 3_600, ext: "busy"))
    print(event.eventId)
    print(try await manager.querySubscribeEvent(request).map(\.publisher))
    try await manager.unSubscribeEvent(request)
    try await manager.logout()
}

// MARK: ComingFromZIM.md

func zim(_ configuration: ClientConfiguration, _ handler: any ZIMEventHandler) async throws {
    let zim = try ZIM(configuration)
    zim.setEventHandler(handler)
    try await zim.login(config: ZIMLoginConfig(customStatus: "Busy"))
    try await zim.updateUserCustomStatus("Do Not Disturb")
    let failed = try await zim.subscribeUsersStatus(["userIdA"], config: ZIMUserStatusSubscribeConfig(subscriptionDuration: 60))
    print(failed.map(\.reason))
    let queried = try await zim.queryUsersStatusByUserIDs(["userIdA", "userIdB"])
    print(queried.userStatusList.map(\.onlineStatus), queried.errorUserList)
    let followed = try await zim.querySubscribedUserStatusList(ZIMSubscribedUserStatusQueryConfig())
    print(followed.map(\.userStatus.userID))
    print(try await zim.unsubscribeUsersStatus(["userIdA"]))
    try await zim.logout()
}
