/// An operation on its way to the owner of ``user``.
public struct Request: Hashable, Sendable {
    /// The ID of the request, unique on the calling node.
    public var id: UInt64
    /// The user whose owner decides.
    public var user: UserID
    public var operation: OwnerOperation
    /// The version at the start of the call. All that the owner writes for the call is newer.
    public var begunAt: Version
    /// Whether an earlier attempt had no answer. Then writes since the start of the call may be the work of that attempt.
    public var isRepeated: Bool
    /// Whether the user's own token makes the call, so that the owner counts it (T17, T22, T24, Z6).
    public var isLimited: Bool
    /// The key by which the client names the call; nil for a call without one.
    public var key: CallKey?

    public init(
        id: UInt64, user: UserID, operation: OwnerOperation, begunAt: Version = .zero, isRepeated: Bool = false, isLimited: Bool = false,
        key: CallKey? = nil
    ) {
        self.id = id
        self.key = key
        self.begunAt = begunAt
        self.isRepeated = isRepeated
        self.isLimited = isLimited
        self.user = user
        self.operation = operation
    }
}

extension Request {
    /// The users that the request is about.
    public var subjects: [UserID] {
        switch operation {
        case .records(let users, _), .profiles(let users), .sessions(let users): users
        case .checkRelations(let check):
            if case .others(let users, _) = check.side { users } else { [user] }
        default: [user]
        }
    }
}

/// Why an operation was refused (<doc:HTTPAPI#Errors>).
public struct Refusal: Hashable, Sendable {
    /// The stable code.
    public var code: Int
    /// The error in the request, and the correct form.
    public var detail: String
    /// Whether the change was forwarded without an acknowledgement, and may still take effect.
    public var mayTakeEffect = false
    /// The users for which a whole call is refused. The node that received the call fills it; it does not travel.
    public var users: [UserID] = []
    /// The limit that they have reached. It is filled like ``users`` and does not travel either.
    public var limit: Limit?

    /// A limit of the app's policy on subscriptions.
    public enum Limit: Sendable {
        /// `subscription.maxPerSubscriber`.
        case subscriptions
        /// `subscription.maxPerTarget`.
        case followers
    }

    public init(code: Int, detail: String) {
        self.code = code
        self.detail = detail
    }

    /// The same refusal for a change that was forwarded.
    public var afterPassingOn: Refusal {
        var refusal = self
        refusal.mayTakeEffect = true
        refusal.detail = "the change was passed on, and its acknowledgement is missing; it may still take effect"
        return refusal
    }

    /// 50001: the owner or its disk cannot be reached.
    public static let unavailable = Refusal(code: 50001, detail: "the shard that owns this user cannot be reached now; safe to retry")
    /// 50001, from an owner that misses other nodes and has no replica left for a second copy.
    public static let notReplicated = Refusal(
        code: 50001, detail: "no other node is reachable that could keep a second copy; nothing was changed, safe to retry")
    /// 50001, from the owner's store.
    public static let notDurable = Refusal(
        code: 50001, detail: "the change could not be made durable; nothing was acknowledged, safe to retry")
    /// 6014: a custom status needs a session (T11).
    public static let noSession = Refusal(
        code: 6014,
        detail: "customStatus: the user has no session, which the app's policy requires (customStatus.needsSession); log in first")
    /// 70107: users must be registered, and these are not.
    public static func noSuchUser(_ users: [UserID]) -> Refusal { Refusal(code: 70107, detail: "no such user: \(names(users))") }

    /// 31704: types 3 and 4 of subscriptions need friends (R3), and these users are not friends of the caller.
    public static func noFriends(_ users: [UserID]) -> Refusal {
        Refusal(code: 31704, detail: "subscribeType: 3 and 4 require friends; not friends of the caller: \(names(users))")
    }

    /// 6017: each of these users has reached the follower limit (R6).
    public static func tooManyFollowers(_ users: [UserID], most: Int) -> Refusal {
        var refusal = Refusal(
            code: 6017, detail: "userIDs: each of these users already has \(most) followers, the most that are allowed: \(names(users))")
        (refusal.users, refusal.limit) = (users, .followers)
        return refusal
    }

    /// 6017: the caller has reached the subscription limit, and there is no room for these users (R7).
    public static func tooManySubscriptions(_ users: [UserID], most: Int) -> Refusal {
        var refusal = Refusal(
            code: 6017, detail: "userIDs: at most \(most) subscriptions are allowed; there is no room for \(names(users))")
        (refusal.users, refusal.limit) = (users, .subscriptions)
        return refusal
    }

    /// 7008: the app has as many kicked users as it may have.
    public static func tooManyKicks(most: Int64) -> Refusal {
        Refusal(
            code: 7008,
            detail: "userID: the app has \(most) kicked users, the most that are allowed (kicks.max); each kick counts for 30 days")
    }

    private static func names(_ users: [UserID]) -> String {
        let more = users.count > 3 ? " and \(users.count - 3) more" : ""
        return users.prefix(3).map { String($0.id) }.joined(separator: ", ") + more
    }

    /// 50002: the node sheds load.
    public static let overloaded = Refusal(code: 50002, detail: "this node is overloaded; retry after 1 s")
}
