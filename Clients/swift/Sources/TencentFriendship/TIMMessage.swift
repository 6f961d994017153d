import PresenceClient

/// A part of a message.
public protocol TIMElem: Sendable {}

/// The kinds of notices about the relationship chain (P38).
public enum TIM_SNS_SYSTEM_TYPE: Int, Sendable {
    case addFriend = 1
    case delFriend = 2
    case addFriendReq = 3
    case delFriendReq = 4
}

public let TIM_SNS_SYSTEM_ADD_FRIEND = TIM_SNS_SYSTEM_TYPE.addFriend
public let TIM_SNS_SYSTEM_DEL_FRIEND = TIM_SNS_SYSTEM_TYPE.delFriend
public let TIM_SNS_SYSTEM_ADD_FRIEND_REQ = TIM_SNS_SYSTEM_TYPE.addFriendReq
public let TIM_SNS_SYSTEM_DEL_FRIEND_REQ = TIM_SNS_SYSTEM_TYPE.delFriendReq

/// A user of a notice.
public struct TIMSNSChangeInfo: Sendable, Equatable {
    public let identifier: String
    /// The text of a request; empty in other notices.
    public let wording: String
    /// The source of a request; empty in other notices.
    public let source: String

    init(_ identifier: String, wording: String = "", source: String = "") {
        (self.identifier, self.wording, self.source) = (identifier, wording, source)
    }
}

/// A notice about the relationship chain (P38–P42).
public struct TIMSNSSystemElem: TIMElem, Equatable {
    public let type: TIM_SNS_SYSTEM_TYPE
    public let users: [TIMSNSChangeInfo]
}

/// The kinds of notices about profiles.
public enum TIM_PROFILE_SYSTEM_TYPE: Int, Sendable {
    case friendProfileChange = 1
}

public let TIM_PROFILE_SYSTEM_FRIEND_PROFILE_CHANGE = TIM_PROFILE_SYSTEM_TYPE.friendProfileChange

/// A notice that the own profile, or that of a friend, has changed (P43).
public struct TIMProfileSystemElem: TIMElem, Equatable {
    public let type = TIM_PROFILE_SYSTEM_TYPE.friendProfileChange
    public let fromUser: String
    /// Always empty, as in the document.
    public let nickName = ""
}

/// A message of the system. Rollcall has no chat messages.
public struct TIMMessage: Sendable {
    private let elem: any TIMElem

    /// The number of parts, as the document's loop counts them.
    public func elemCount() -> Int { 1 }

    /// A part; nil beyond the last.
    public func getElem(_ index: Int) -> (any TIMElem)? { index == 0 ? elem : nil }

    /// The message about a change; nil for a change of which the document's SDK says nothing.
    init?(_ change: RelationshipChange) {
        switch change {
        case .friendsAdded(let friends):
            elem = TIMSNSSystemElem(type: .addFriend, users: friends.map { TIMSNSChangeInfo($0.userID) })
        case .friendsDeleted(let users): elem = TIMSNSSystemElem(type: .delFriend, users: users.map { TIMSNSChangeInfo($0) })
        case .requestsAdded(let requests):
            let users = requests.map { TIMSNSChangeInfo($0.userID, wording: $0.addWording, source: $0.addSource) }
            elem = TIMSNSSystemElem(type: .addFriendReq, users: users)
        case .requestsDeleted(let users, _): elem = TIMSNSSystemElem(type: .delFriendReq, users: users.map { TIMSNSChangeInfo($0) })
        case .profileChanged(let user): elem = TIMProfileSystemElem(fromUser: user)
        case .friendsChanged, .requestsRead, .blocked, .unblocked, .groupsChanged, .synced: return nil
        }
    }
}

/// Receives messages.
public protocol TIMMessageListener: AnyObject, Sendable {
    /// Called with notices about the relationship chain and profiles.
    func onNewMessage(_ msgs: [TIMMessage])
}
