/// The result of a decision about another user, as clients receive it (P14, P15, P17).
public struct ChainCode: RawRepresentable, Hashable, Sendable {
    public let rawValue: UInt32

    public init(rawValue: UInt32) { self.rawValue = rawValue }

    public static let done = ChainCode(rawValue: 0)
    /// The other user is a friend already.
    public static let alreadyFriend = ChainCode(rawValue: 30_001)
    /// A call names a group that the caller does not have, or a new group by the name of another one.
    public static let wrongGroup = ChainCode(rawValue: 30_001)
    /// The app does not know the user, and `users.mustBeRegistered` is on.
    public static let noSuchUser = ChainCode(rawValue: 30_003)
    /// Another call about the same user has not ended.
    public static let conflict = ChainCode(rawValue: 30_008)
    public static let selfFull = ChainCode(rawValue: 30_010)
    /// The caller has as many groups as the app allows.
    public static let groupsFull = ChainCode(rawValue: 30_011)
    /// The caller has sent as many friend requests as the app allows, or the user has received as many.
    public static let requestsFull = ChainCode(rawValue: 30_012)
    public static let blockListFull = ChainCode(rawValue: 30_013)
    public static let otherFull = ChainCode(rawValue: 30_014)
    public static let blockedBySelf = ChainCode(rawValue: 30_515)
    public static let forbidden = ChainCode(rawValue: 30_516)
    public static let blockedByOther = ChainCode(rawValue: 30_525)
    /// The other user must approve the request.
    public static let pending = ChainCode(rawValue: 30_539)
    public static let noRequest = ChainCode(rawValue: 30_614)
    public static let alreadyBlocked = ChainCode(rawValue: 31_307)
    public static let notBlocked = ChainCode(rawValue: 31_503)
    /// A user who is to be in a new group is not a friend (P32).
    public static let noFriendOfNewGroup = ChainCode(rawValue: 32_216)
    /// A user who is to join or to leave a group is not a friend (P34, P35).
    public static let noFriendOfGroup = ChainCode(rawValue: 32_518)
    public static let alreadyInGroup = ChainCode(rawValue: 32_519)
    public static let notInGroup = ChainCode(rawValue: 32_520)
    public static let noFriend = ChainCode(rawValue: 31_704)
    /// The other user's owner has not answered in time. The decision may still take effect.
    public static let unavailable = ChainCode(rawValue: 50_001)

    /// The result in words.
    public var text: String {
        switch self {
        case .done: ""
        case .alreadyFriend: "the user is a friend already, or the caller has no group of this name"
        case .noSuchUser: "no such user (users.mustBeRegistered)"
        case .groupsFull: "the caller has too many groups (friends.groupsMax)"
        case .conflict: "an earlier call about this user has not ended; safe to retry"
        case .selfFull: "the friend list is full (friends.max)"
        case .requestsFull:
            "too many friend requests: received by the user, sent by the caller (pendency.max), or to 4,096 users in seven days"
        case .blockListFull: "the blocklist is full (blockList.max)"
        case .otherFull: "the user's friend list is full (friends.max)"
        case .blockedBySelf: "the user is on the caller's blocklist"
        case .forbidden: "the user forbids friend requests"
        case .blockedByOther: "the user has blocked the caller"
        case .pending: "the user must approve the request"
        case .noRequest: "the user has sent no friend request"
        case .alreadyBlocked: "the user is on the caller's blocklist already"
        case .notBlocked: "the user is not on the caller's blocklist"
        case .noFriend, .noFriendOfNewGroup, .noFriendOfGroup: "the user is not a friend"
        case .alreadyInGroup: "the user is in the group already"
        case .notInGroup: "the user is not in the group"
        case .unavailable: "the shard that owns this user cannot be reached now; the decision may still take effect"
        default: "code \(rawValue)"
        }
    }
}

/// The answer of the other user's owner to a command of the relationship chain.
public enum ChainResult: Hashable, Sendable {
    /// The command has taken effect.
    case done
    /// The command has taken effect, and both users are friends by it. Their requests to each other have ended on the other side.
    case friends
    /// The other user, who has this nickname, has a request to approve.
    case pending(nickname: String)
    /// Nothing was changed.
    case refused(ChainCode)
}

/// Two users, in the direction of a decision: `user` has decided something about `other`.
public struct ChainPair: Hashable, Comparable, Sendable {
    public let user: UserID
    public let other: UserID

    public init(user: UserID, other: UserID) { (self.user, self.other) = (user, other) }

    public static func < (left: ChainPair, right: ChainPair) -> Bool { (left.user, left.other) < (right.user, right.other) }
}

/// A client's call about the relationship chain, for the caller's owner.
public enum ChainCall: Hashable, Sendable {
    /// Adds a friend; two-way, the caller also becomes a friend of that user. The owner replaces the name of the group by its number.
    case add(UserID, SentRequest, isTwoWay: Bool, group: String? = nil)
    case respond(UserID, ChainCommand)
    case delete([UserID], isTwoWay: Bool)
    /// Deletes the first ``deletedMax`` friends of the caller's list.
    case deleteAll(isTwoWay: Bool)
    /// Puts users on the caller's blocklist, or removes them from it.
    case setBlocked([UserID], Bool)

    /// Most friends that one call deletes, so that its answer fits into a message between two nodes.
    public static let deletedMax = 1_000
}

/// The result of a call for one of its users.
public struct ChainOutcome: Hashable, Sendable {
    public let user: UserID
    public let code: ChainCode

    public init(user: UserID, code: ChainCode) { (self.user, self.code) = (user, code) }
}

extension ChainCall: OwnRequest {
    public typealias Answer = ChainAnswer
}

/// The results of a ``ChainCall``, and after a block how long a dead member may show the blocker to the blocked users.
public struct ChainAnswer: OwnAnswer {
    public let outcomes: [ChainOutcome]
    public let remnant: Remnant

    public init?(_ answer: Answer) {
        switch answer {
        case .chained(let outcomes): (self.outcomes, remnant) = (outcomes, .none)
        case .blocked(let outcomes, let remnant): (self.outcomes, self.remnant) = (outcomes, remnant)
        default: return nil
        }
    }

    public var answer: Answer { remnant == .none ? .chained(outcomes) : .blocked(outcomes, remnant: remnant) }
}

/// A command on its way to the owner of `pair.other`.
public struct ChainApply: Hashable, Sendable {
    public let pair: ChainPair
    public let command: OutboxCommand

    public init(pair: ChainPair, command: OutboxCommand) { (self.pair, self.command) = (pair, command) }
}

/// The answer to a command, on its way to the owner of `pair.user`.
public struct ChainApplied: Hashable, Sendable {
    public let pair: ChainPair
    /// The version of the decision.
    public let version: Version
    public let result: ChainResult
    /// The clock of the other user's owner. Later decisions of the user are newer than what the command has written there.
    public let clock: Version

    public init(pair: ChainPair, version: Version, result: ChainResult, clock: Version) {
        (self.pair, self.version, self.result, self.clock) = (pair, version, result, clock)
    }
}

/// A question whether a decision of `pair.user` still counts, on its way to that user's owner; the answer to the node that has asked; or
/// the request to ask.
public struct ChainVerify: Hashable, Sendable {
    /// The part of the message about the decision. The raw value is the byte on the wire.
    public enum Verdict: UInt8, Sendable {
        /// The receiver shall answer.
        case asked = 1
        /// A later decision about the same user has left rows in the lists of `pair.user`: the rows on the other side stay.
        case holds = 2
        /// The decision has ended without effect: its rows on the other side shall go.
        case isVoid = 3
        /// The decision has ended, and no request of it waits: such a request on the other side shall go.
        case isDone = 4
        /// The request waits for an approval: a friend whom it has made on the other side shall go.
        case isPending = 5
        /// The decision is not open where its owner has answered: the receiver, who has applied it, shall ask.
        case isUnresolved = 6
    }

    public let pair: ChainPair
    /// The version of the decision.
    public let version: Version
    public let verdict: Verdict

    public init(pair: ChainPair, version: Version, verdict: Verdict) {
        (self.pair, self.version, self.verdict) = (pair, version, verdict)
    }
}

/// A question which users have others in their lists (P18).
public struct RelationCheck: Hashable, Sendable {
    /// A list that a user has of others.
    public enum List: UInt8, CaseIterable, Sendable {
        case friends = 1
        case blocked = 2
    }

    /// The users whose lists are read.
    public enum Side: Hashable, Sendable {
        /// Which of these users are in the list of the user who asks?
        case own([UserID])
        /// Which of these users have `other` in their lists?
        case others([UserID], other: UserID)
    }

    public let list: List
    public let side: Side

    public init(_ side: Side, in list: List) { (self.side, self.list) = (side, list) }
}

/// A query of the caller's friend list.
public struct FriendQuery: Hashable, Sendable {
    /// Most friends of one answer.
    public static let limitMax = 100
    /// Most changes of one answer. A client that lacks more reads the whole list.
    public static let changesMax = 500

    /// The sequence of the list that the client holds. The answer has the changes since; without it, pages of the whole list.
    public var since: String?
    /// The end of the page before.
    public var cursor: Cursor?
    /// 1 to ``limitMax``.
    public var limit: Int
    /// Whether the answer has the friends' profiles. Then it has at most ``limitMax`` changes.
    public var withProfile: Bool

    public init(since: String? = nil, cursor: Cursor? = nil, limit: Int = FriendQuery.limitMax, withProfile: Bool = false) {
        (self.since, self.cursor, self.limit, self.withProfile) = (since, cursor, limit, withProfile)
    }
}

extension FriendQuery: OwnRequest {
    public typealias Answer = ListedFriends
}

/// A page of the friend list, or its changes.
public struct ListedFriends: OwnAnswer {
    /// A JSON object.
    public let json: [UInt8]

    public init(json: [UInt8]) { self.json = json }

    public init?(_ answer: Answer) {
        guard case .listed(let json) = answer else { return nil }
        self.json = json
    }

    public var answer: Answer { .listed(json) }
}

extension FriendQuery {
    /// The end of a page of the whole list.
    ///
    /// It names the list's version, so that a node which does not know that list yet sends no page of an older one. The client would take
    /// both for one list, and miss friends.
    public struct Cursor: Hashable, Sendable {
        /// Most bytes of ``text``.
        public static let textBytesMax = Limits.nameBytesMax + 25

        /// The version of the list that the page is from.
        public let version: Version
        /// The last friend of the page.
        public let key: String

        public init(version: Version, key: String) { (self.version, self.key) = (version, key) }

        /// Reads ``text``; nil for any other text.
        public init?(text: String) {
            let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, let version = Version(text: String(parts[0])), Limits.isValidName(parts[1]) else { return nil }
            self.init(version: version, key: String(parts[1]))
        }

        /// The cursor as clients receive it.
        public var text: String { "\(version.text):\(key)" }
    }
}
