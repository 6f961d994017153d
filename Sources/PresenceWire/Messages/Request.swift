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

    public init(
        id: UInt64, user: UserID, operation: OwnerOperation, begunAt: Version = .zero, isRepeated: Bool = false, isLimited: Bool = false
    ) {
        self.id = id
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
        if case .records(let users, _) = operation { users } else { [user] }
    }
}

/// An operation that a node requests from an owner. Each may arrive twice (a retry), with the same result.
public enum OwnerOperation: Hashable, Sendable {
    /// Sets the custom status, or clears it with an empty text. It ends after `seconds` if given.
    case setSelfStatus(customStatus: String, seconds: Int64?)
    /// Publishes a numeric status (N10) that ends after `seconds`. `session` is the caller's session, if the calling node knows it.
    case publishEvent(value: Int64, ext: String, seconds: Int64, isForOnlineOnly: Bool, isSynced: Bool, session: SessionID?)
    /// Subscribes to `targets`, each with the version that the caller receives in the answer.
    ///
    /// `session` is the caller's session, if the calling node knows only one of the user. Its stream repeats neither the content of the
    /// answer nor the call (R14).
    ///
    /// `isCounted` is true after all nodes were asked and each target has room for another follower (R6).
    case subscribe([Target], seconds: Int64?, subscribeType: UInt8, session: SessionID?, isCounted: Bool = false)
    /// Asks how many of the users that the receiver owns follow each of these. From then on the receiver must ask before it accepts a
    /// follower of them.
    case followers([UserID])
    /// Unsubscribes from these users; nil for all. With a type, only from subscriptions of this type.
    case unsubscribe([UserID]?, subscribeType: UInt8?, session: SessionID?)
    /// Reads one page of the subscription list, or the entries of `only`; with a type, only entries of this type.
    case subscriptions(only: [UserID]?, offset: Int, limit: Int, subscribeType: UInt8?)
    /// Reads these users' records as one user may see them; nil sees the whole records.
    case records([UserID], for: UserID?)
    /// Counts a query that the calling node answers itself. With `isMade` the query counts even beyond the limit.
    case countQuery(isMade: Bool)
    /// Changes the user's visibility.
    case setVisibility(Visibility.Change)
    /// Reads the user's visibility.
    case visibility
    /// Ends one session; nil ends all sessions of the user.
    case logout(SessionID?)
    /// Explains why one user sees the other as it does. The other user is named here.
    case explain(UserID, Explained)
    /// Ends all sessions of the user, and voids the existing tokens (X5).
    case kick(reason: String)
    /// Registers the user (`importUsers`).
    case register
    /// Changes the policy of the user's app. The bytes are JSON: see ``AppPolicy/changed(by:)``.
    case setPolicy([UInt8])

    /// Whether the change must survive the loss of a node. Such a call is refused if only one disk can be reached.
    public var isDurable: Bool {
        switch self {
        case .setSelfStatus, .publishEvent, .subscribe, .unsubscribe, .setPolicy, .kick, .register, .setVisibility: true
        case .subscriptions, .records, .visibility, .logout, .explain, .followers, .countQuery: false
        }
    }

    /// The part of an explanation that a node contributes.
    public enum Explained: UInt8, Hashable, Sendable {
        /// The part of the owner of the user who is seen: the request's user.
        case target = 1
        /// The part of the owner of the viewer: the request's user.
        case viewer = 2
        /// The part of any node about the streams of the request's user.
        case view = 3
    }

    /// A user to subscribe to.
    public struct Target: Hashable, Sendable {
        public var user: UserID
        public var told: Version?

        public init(user: UserID, told: Version?) {
            self.user = user
            self.told = told
        }
    }
}

/// The answer of an owner.
public enum Answer: Hashable, Sendable {
    /// Answers `setSelfStatus`, `publishEvent` and `register` with the record as it is now.
    case record(Record)
    /// Answers `subscribe`: the targets evicted to make room (T21), those without room (R7), and those who are not friends, as type 3
    /// requires (R3).
    case subscribed(evicted: [UserID], refused: [UserID] = [], nonFriends: [UserID] = [])
    /// Answers `subscribe`: nothing was changed yet, because these targets may have reached the follower limit. The caller asks all nodes.
    case followerLimitReached([UserID])
    /// Answers `followers`, in the order of the request.
    case followers([UInt64])
    /// Answers `unsubscribe`, `logout`, `kick`, `setPolicy` and `countQuery`.
    case done
    /// Answers `subscriptions`.
    case subscriptions([Subscription], total: Int)
    /// Answers `records`. Users that the sender does not own are left out and follow in a ``Message/misrouted(_:)``.
    case records([Record])
    /// Answers `setVisibility` and `visibility` with the current visibility.
    case visibility(Privacy)
    /// Answers `explain` with a JSON object.
    case explained(OwnerOperation.Explained, [UInt8])
    /// Refuses the operation. Nothing was changed.
    case refused(Refusal)
    /// Refuses the call, because the user has reached the rate limit; the next call succeeds after so many seconds (7008).
    case rateLimited(retryAfter: UInt64)
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

    /// 31704: this type of subscription needs friends (R3), and these users are not friends of the caller.
    public static func noFriends(_ users: [UserID]) -> Refusal {
        Refusal(code: 31704, detail: "subscribeType: 3 requires friends; not friends of the caller: \(names(users))")
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

    private static func names(_ users: [UserID]) -> String {
        let more = users.count > 3 ? " and \(users.count - 3) more" : ""
        return users.prefix(3).map { String($0.id) }.joined(separator: ", ") + more
    }

    /// 50002: the node sheds load.
    public static let overloaded = Refusal(code: 50002, detail: "this node is overloaded; retry after 1 s")
}
