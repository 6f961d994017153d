import CommsEaseStatus
import Foundation
import NodeFixture
import PresenceClient
import RongCloudStatus
import TencentFriendship
import TencentStatus
import Testing
import ZIMStatus

/// The code of the pages in Clients/swift/Sources/PresenceClient/Docs.docc compiles and runs: it stands in DocumentedCode.swift, line by
/// line.
@Suite(.timeLimit(.minutes(1))) struct DocumentationTests {
    private final class Delegate: RCSubscribeEventDelegate, NIMEventSubscribeManagerDelegate, ZIMEventHandler {
        func onRecvSubscribeEvents(_ events: [NIMSubscribeEvent]) {}
    }

    @Test("The contact list of the tutorial shows the users who are online") func contactList() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        let list = try ContactList(fixture.configuration(of: "ann"), contacts: ["bob", "carl"])
        let shown = Box<[String]>()
        async let running: Void = list.run { lines in shown.add([lines]) }
        try await fixture.until("the list is shown") { shown.all.last == ["○ bob", "○ carl"] }
        let carl = try PresenceClient(fixture.configuration(of: "carl"))
        try await carl.login(customStatus: "in a meeting")
        try await fixture.until("carl is online") { shown.all.last == ["● carl: in a meeting (ios)", "○ bob"] }
        try await carl.logout()
        try await fixture.until("carl has left") { shown.all.last == ["○ bob", "○ carl"] }
        try await list.setStatus(String(repeating: "x", count: 257))
        try await list.setStatus("here")
        try await list.logout()
        try await running
        try await fixture.stop()
    }

    @Test("The code of each other page runs in the preset of its document") func otherPages() async throws {
        let fixture = try await ServedCluster.serving("tencent", users: ["ann", "userIdA", "userIdB"])
        let configuration = fixture.configuration(of: "ann")
        let delegate = Delegate()
        try await tencent(configuration, TencentListener())
        try await tencentFriends(configuration, FriendListener())
        try await fixture.choose("rongcloud")
        try await rongCloud(configuration, delegate)
        try await fixture.choose("commsease")
        try await commsEase(configuration, delegate)
        try await fixture.choose("zim")
        try await zim(configuration, delegate)
        try await fixture.stop()
    }

    /// Every call, delegate, type and constant that a document names.
    private static let names: [(page: String, names: String)] = [
        (
            "ComingFromTencent",
            """
            setSelfStatus getUserStatus userIDList subscribeUserStatus unsubscribeUserStatus addIMSDKListener AddSDKListener
            onUserStatusChanged logout getLoginUser sharedInstance getInstance GetInstance V2TIMUserStatus userID customStatus
            ONLINE OFFLINE UNLOGINED V2TIMCallback V2TIMValueCallback onSuccess onError succ fail V2TIMSDKListener
            V2TIMStringVector V2TIMUserStatusVector V2TIMString 72001 SetSelfStatus GetUserStatus SubscribeUserStatus
            UnsubscribeUserStatus GetLoginUser OnUserStatusChanged OnSuccess OnError
            """
        ),
        (
            "ComingFromTencentFriends",
            """
            getSelfProfile TIMFriendshipManager TIMUserProfile identifier customInfo getUsersProfile forceUpdate TIMFriendProfileOption
            expiredSeconds setUserConfig TIMManager TIMUserConfig friendProfileOpt sharedInstance modifySelfProfile TIMProfileTypeKey_Nick
            TIMProfileTypeKey_Custom_Prefix getFriendList TIMFriend modifyFriend TIMFriendTypeKey_Remark TIMFriendTypeKey_Group
            TIMFriendTypeKey_Custom_Prefix addFriend TIMFriendRequest TIMFriendResult result_code result_info delFriend deleteFriends
            TIM_FRIEND_DEL_BOTH doResponse TIMFriendResponse checkFriends TIMFriendCheckInfo TIMCheckFriendResult TIMFriendRelationType
            getPendencyList TIMFriendPendencyRequest seq TIMFriendPendencyResponse TIMFriendPendencyItem deletePendency pendencyReport
            addBlackList deleteBlackList getBlackList createFriendGroup deleteFriendGroup addFriendsToFriendGroup
            delFriendsFromFriendGroup renameFriendGroup getFriendGroups TIMMessage TIMSNSSystemElem TIMSNSChangeInfo
            TIM_SNS_SYSTEM_ADD_FRIEND onNewMessage elemCount getElem setMessageListener initSdk TIMLoginParam userSig login
            TIMProfileSystemElem fromUser nickName NSData succ fail
            """
        ),
        (
            "ComingFromRongCloud",
            """
            sharedCoreClient RCSubscribeEventRequest subscribeType userIds expiry RCSubscribeType RCSubscribeTypeOnlineStatus
            RCSubscribeTypeUserProfile RCSubscribeTypeFriendOnlineStatus RCSubscribeTypeFriendUserProfile
            subscribeEvent:completion: unSubscribeEvent:completion: querySubscribeEvent:completion:
            querySubscribeEvent:pageSize:startIndex:completion: RCErrorCode RC_SUCCESS failedUserIds RCSubscribeInfoEvent
            RCSubscribeEventDelegate addSubscribeEventDelegate: removeSubscribeEventDelegate: onEventChange:
            onSubscriptionSyncCompleted onSubscriptionSyncCompleted: onSubscriptionChangedOnOtherDevices: RCSubscribeEvent
            """
        ),
        (
            "ComingFromCommsEase",
            """
            NIMEventSubscribeManager subscribeEvent:completion: unSubscribeEvent:completion: publishEvent:completion:
            querySubscribeEvent:completion: NIMEventSubscribeResponseBlock NIMEventSubscribeBlock NIMEventSubscribeQueryBlock
            NIMSubscribeRequest type expiry syncEnabled publishers NIMSubscribeEvent eventId from timestamp value
            sendToOnlineUsersOnly subscribeInfo NIMSubscribeOnlineInfo NIMSubscribeSystemEventTypeOnline
            NIMEventSubscribeManagerDelegate onRecvSubscribeEvents: onRecvSubscribeEvent: NTESSubscribeManager
            """
        ),
        (
            "ComingFromZIM",
            """
            getInstance ZIMLoginConfig customStatus login logout updateUserCustomStatus ZIMError errorInfo subscribeUsersStatus
            ZIMUserStatusSubscribeConfig subscriptionDuration ZIMErrorUserInfo userID reason errorUserList ZIMEventHandler
            setEventHandler userStatusUpdated onUserStatusUpdated ZIMUserStatus onlineStatus onlinePlatforms lastUpdateTime
            lastOnlineStatusUpdateTime lastCustomStatusUpdateTime unsubscribeUsersStatus unsubscribeUserStatus
            queryUsersStatusByUserIDs querySubscribedUserStatusListWithConfig ZIMSubscribedUserStatusQueryConfig userIDs
            ZIMUserStatusSubscription connectionStateChanged extendedData ZIMConnectionState ZIMConnectionEvent
            ZIMConnectionStateConnected ZIMConnectionStateDisconnected ZIMConnectionStateConnecting
            ZIMConnectionStateReconnecting ZIMUserOnlineStatus
            """
        ),
    ]

    @Test("Each name of a document is in the table of its page or under \"Differences\"") func everyNameIsThere() throws {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        let pages = folder.appending(path: "../../Clients/swift/Sources/PresenceClient/Docs.docc")
        for (page, names) in Self.names {
            let text = try String(contentsOf: pages.appending(path: "\(page).md"), encoding: .utf8)
            let afterTitle = try #require(text.components(separatedBy: "## Old call → new call").last)
            let table = afterTitle.components(separatedBy: "## Sample")[0]
            let differences = try #require(text.components(separatedBy: "## Differences").last)
            for name in names.split(whereSeparator: \.isWhitespace) {
                #expect((table + differences).contains("`\(name)`"), "\(page): \(name)")
            }
        }
    }

    @Test("Every snippet is compiled") func snippets() throws {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        // Tests/SwiftClient/run compiles the example.
        let example = folder.appending(path: "../../Clients/swift/Examples/ContactList")
        let files = try FileManager.default.contentsOfDirectory(atPath: example.path).map { example.appending(path: $0) }
        let compiled = try ([folder.appending(path: "DocumentedCode.swift")] + files).flatMap {
            Self.lines(try String(contentsOf: $0, encoding: .utf8))
        }
        let pages = folder.appending(path: "../../Clients/swift/Sources/PresenceClient/Docs.docc")
        var count = 0
        for file in try FileManager.default.contentsOfDirectory(atPath: pages.path) where file.hasSuffix(".md") {
            let page = try String(contentsOf: pages.appending(path: file), encoding: .utf8)
            for block in page.components(separatedBy: "```swift\n").dropFirst() {
                let snippet = Self.lines(block.components(separatedBy: "```")[0])
                let isThere = compiled.indices.contains { compiled[$0...].starts(with: snippet) }
                #expect(isThere, "\(file): \(snippet.first ?? "")")
                count += 1
            }
        }
        #expect(count >= 7)
    }

    /// Lines that are not blank, without their indentation.
    private static func lines(_ text: String) -> [String] {
        text.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }.filter { !$0.isEmpty }
    }
}
