import PresenceClient

/// The result of a decision about a user.
public struct TIMFriendResult: Sendable, Equatable {
    public let identifier: String
    /// 0, or a code such as ``TIM_ADD_FRIEND_STATUS_PENDING``.
    public let result_code: Int
    /// The result in words.
    public let result_info: String

    init(_ result: FriendResult) { (identifier, result_code, result_info) = (result.userID, result.resultCode, result.resultInfo) }
}

public let TIM_FRIEND_STATUS_SUCC = 0
public let TIM_ADD_FRIEND_STATUS_IN_SELF_BLACK_LIST = 30_515
public let TIM_ADD_FRIEND_STATUS_FRIEND_SIDE_FORBID_ADD = 30_516
public let TIM_ADD_FRIEND_STATUS_SELF_FRIEND_FULL = 30_010
public let TIM_ADD_FRIEND_STATUS_THEIR_FRIEND_FULL = 30_014
public let TIM_ADD_FRIEND_STATUS_IN_OTHER_SIDE_BLACK_LIST = 30_525
public let TIM_ADD_FRIEND_STATUS_PENDING = 30_539
public let TIM_DEL_FRIEND_STATUS_NO_FRIEND = 31_704
public let TIM_RESPONSE_FRIEND_STATUS_NO_REQ = 30_614

/// A friend request to send (P12).
public struct TIMFriendRequest: Sendable, Equatable {
    public var identifier = ""
    /// At most 96 bytes.
    public var remark = ""
    /// At most 120 bytes.
    public var addWording = ""
    /// `AddSource_Type_` and at most 8 bytes.
    public var addSource = ""
    /// A group of the own list for the friend; empty for none.
    public var group = ""

    public init() {}
}

/// The side from which `deleteFriends` deletes (P15).
public enum TIMDelFriendType: Int, Sendable {
    case single = 1
    case both = 2
}

public let TIM_FRIEND_DEL_SINGLE = TIMDelFriendType.single
public let TIM_FRIEND_DEL_BOTH = TIMDelFriendType.both

/// The answers to a friend request (P16).
public enum TIMFriendResponseType: Int, Sendable {
    case agree = 0
    case agreeAndAdd = 1
    case reject = 2

    var response: Friendship.Response {
        switch self {
        case .agree: .agree
        case .agreeAndAdd: .agreeAndAdd
        case .reject: .reject
        }
    }
}

public let TIM_FRIEND_RESPONSE_AGREE = TIMFriendResponseType.agree
public let TIM_FRIEND_RESPONSE_AGREE_AND_ADD = TIMFriendResponseType.agreeAndAdd
public let TIM_FRIEND_RESPONSE_REJECT = TIMFriendResponseType.reject

/// An answer to a friend request (P16).
public struct TIMFriendResponse: Sendable, Equatable {
    public var responseType = TIMFriendResponseType.agree
    public var identifier = ""
    /// Of the new friend; at most 96 bytes.
    public var remark = ""

    public init() {}
}

/// The lists that `checkFriends` reads (P18).
public enum TIMFriendCheckType: Int, Sendable {
    case unidirection = 1
    case bidirection = 2
}

public let TIM_FRIEND_CHECK_TYPE_UNIDIRECTION = TIMFriendCheckType.unidirection
public let TIM_FRIEND_CHECK_TYPE_BIDIRECTION = TIMFriendCheckType.bidirection

/// The question of `checkFriends`.
public struct TIMFriendCheckInfo: Sendable, Equatable {
    public var users: [String] = []
    public var checkType = TIMFriendCheckType.unidirection

    public init() {}
}

/// The relation of two users (P19).
public enum TIMFriendRelationType: Int, Sendable {
    case none = 0
    case myUni = 1
    case otherUni = 2
    case bothway = 3
}

public let TIM_FRIEND_RELATION_TYPE_NONE = TIMFriendRelationType.none
public let TIM_FRIEND_RELATION_TYPE_MY_UNI = TIMFriendRelationType.myUni
public let TIM_FRIEND_RELATION_TYPE_OTHER_UNI = TIMFriendRelationType.otherUni
public let TIM_FRIEND_RELATION_TYPE_BOTHWAY = TIMFriendRelationType.bothway

/// The answer of `checkFriends` about a user.
public struct TIMCheckFriendResult: Sendable, Equatable {
    public let identifier: String
    public let result_code: Int
    public let result_info: String
    public let resultType: TIMFriendRelationType

    init(_ check: FriendCheck) {
        (identifier, result_code, result_info) = (check.userID, check.resultCode, check.resultInfo)
        resultType = TIMFriendRelationType(rawValue: check.resultType.rawValue) ?? .none
    }
}

/// The kinds of friend requests.
public enum TIMPendencyGetType: Int, Sendable {
    case comeIn = 1
    case sendOut = 2
    case both = 3
}

public let TIM_PENDENCY_GET_COME_IN = TIMPendencyGetType.comeIn
public let TIM_PENDENCY_GET_SEND_OUT = TIMPendencyGetType.sendOut
public let TIM_PENDENCY_GET_BOTH = TIMPendencyGetType.both

/// A query of friend requests (P21).
public struct TIMFriendPendencyRequest: Sendable, Equatable {
    /// The sequence of the requests that the app holds; empty for none. Opaque, and no number as in the document.
    public var seq = ""
    /// 0 for the first page, then that of the page before.
    public var timestamp: UInt64 = 0
    /// At most 100.
    public var numPerPage: UInt64 = 100
    public var type = TIMPendencyGetType.both

    public init() {}
}

/// The position of a page of friend requests (P22).
public struct TIMFriendPendencyResponse: Sendable, Equatable {
    public let seq: String
    /// 0 if no page follows (P24).
    public let timestamp: UInt64
    public let unreadCnt: UInt64
}

/// A friend request (P26).
public struct TIMFriendPendencyItem: Sendable, Equatable {
    public let identifier: String
    /// In milliseconds since 1970.
    public let addTime: UInt64
    public let addSource: String
    public let addWording: String
    public let nickname: String
    public let type: TIMPendencyGetType

    init(_ request: FriendRequest) {
        identifier = request.userID
        addTime = UInt64(clamping: request.addTime)
        (addSource, addWording, nickname) = (request.addSource, request.addWording, request.nickname)
        type = request.type == .received ? .comeIn : .sendOut
    }
}

/// A group of friends (P37).
public struct TIMFriendGroup: Sendable, Equatable {
    public let name: String
    public let userCnt: UInt64
    public let friends: [String]

    init(_ group: FriendGroup) {
        (name, userCnt, friends) = (group.name, UInt64(clamping: group.userCnt), group.userIDs ?? [])
    }
}
