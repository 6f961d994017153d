/// An operation on its way to the owner of ``user``.
public struct Request: Hashable, Sendable {
    /// Unique on the asking node.
    public var id: UInt64
    /// Whose owner decides.
    public var user: UserID
    public var operation: OwnerOperation
    /// When the call began: all that is written for it is newer.
    public var begunAt: Version
    /// An answer did not come: what was written since the call began may be the work of an earlier attempt.
    public var isRepeated: Bool
    /// The user's own token asks: the owner counts the call (T17, T22, T24, Z6).
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
    /// The users that it is about.
    public var subjects: [UserID] {
        if case .records(let users, _) = operation { users } else { [user] }
    }
}

/// What an owner is asked to do. Each may arrive twice (a retry) and then has the same result.
public enum OwnerOperation: Hashable, Sendable {
    /// Sets, or with an empty text clears, the custom status; it ends after `seconds` if given.
    case setSelfStatus(customStatus: String, seconds: Int64?)
    /// Publishes a numeric status (N10) that ends after `seconds`. `session` is the one that asks, where the asking node knows it.
    case publishEvent(value: Int64, ext: String, seconds: Int64, isForOnlineOnly: Bool, isSynced: Bool, session: SessionID?)
    /// Follows `targets`, each with the version that the caller is told in the answer.
    ///
    /// `session` is the one that asks, where the asking node knows only one of the user: its stream need not tell what the answer told,
    /// nor that there was a call (R14). `isCounted` says that all nodes were asked, and that each target has room for another follower (R6).
    case subscribe([Target], seconds: Int64?, subscribeType: UInt8, session: SessionID?, isCounted: Bool = false)
    /// How many of the users that the receiver owns follow each of these. It takes no more of them without asking.
    case followers([UserID])
    /// Follows them no longer; nil for everybody. With a type only where the subscription is of it.
    case unsubscribe([UserID]?, subscribeType: UInt8?, session: SessionID?)
    /// One page of the list, or those of `only` that are in it; with a type only those of it.
    case subscriptions(only: [UserID]?, offset: Int, limit: Int, subscribeType: UInt8?)
    /// These users' records as they are shown to one user, or with nil as they are.
    case records([UserID], for: UserID?)
    /// Counts a query that the asking node answers by itself. If it `isMade` already, it counts also where it is one too many.
    case countQuery(isMade: Bool)
    /// Changes who may see the user.
    case setVisibility(Visibility.Change)
    /// Who may see the user.
    case visibility
    /// Ends one session or, with nil, all of the user's.
    case logout(SessionID?)
    /// What the receiver knows of why one user is shown to the other as it is; the other user is named here.
    case explain(UserID, Explained)
    /// Ends all sessions of the user, and makes void what tokens there are (X5).
    case kick(reason: String)
    /// There is such a user (`importUsers`).
    case register
    /// Changes the policy of the user's app, as JSON: see ``AppPolicy/changed(by:)``.
    case setPolicy([UInt8])

    /// Whether what it changes must outlive a node: refused where only one disk can be reached.
    public var isDurable: Bool {
        switch self {
        case .setSelfStatus, .publishEvent, .subscribe, .unsubscribe, .setPolicy, .kick, .register, .setVisibility: true
        case .subscriptions, .records, .visibility, .logout, .explain, .followers, .countQuery: false
        }
    }

    /// Which part of an explanation is asked for.
    public enum Explained: UInt8, Hashable, Sendable {
        /// By the owner of the user who is seen: the request's user.
        case target = 1
        /// By the owner of the user who looks: the request's user.
        case viewer = 2
        /// By any node, about the streams of the request's user.
        case view = 3
    }

    /// A user to follow.
    public struct Target: Hashable, Sendable {
        public var user: UserID
        public var told: Version?

        public init(user: UserID, told: Version?) {
            self.user = user
            self.told = told
        }
    }
}

/// What an owner answers.
public enum Answer: Hashable, Sendable {
    /// To `setSelfStatus`, `publishEvent` and `register`: the record as it is now.
    case record(Record)
    /// To `subscribe`: who was removed to make room (T21), for whom there is none (R7), and who is no friend, as type 3 asks (R3).
    case subscribed(evicted: [UserID], refused: [UserID] = [], strangers: [UserID] = [])
    /// To `subscribe`: nothing was changed yet, because these may have no room for another follower: all nodes are to be asked.
    case crowded([UserID])
    /// To `followers`, in the order asked.
    case followers([UInt64])
    /// To `unsubscribe`, `logout`, `kick`, `setPolicy` and `countQuery`.
    case done
    /// To `subscriptions`.
    case subscriptions([Subscription], total: Int)
    /// To `records`; users that the sender does not own are left out and follow in a ``Message/misrouted(_:)``.
    case records([Record])
    /// To `setVisibility` and `visibility`: who may see the user now.
    case visibility(Privacy)
    /// To `explain`: a JSON object.
    case explained(OwnerOperation.Explained, [UInt8])
    /// Nothing was changed.
    case refused(Refusal)
    /// The user calls too often; one after so many seconds is taken (7008).
    case tooOften(retryAfter: UInt64)
}

/// Why an operation was refused (<doc:HTTPAPI#Errors>).
public struct Refusal: Hashable, Sendable {
    /// The stable code.
    public var code: Int
    /// What was wrong, and what would be right.
    public var detail: String
    /// The change was passed on, and its acknowledgement is missing: it may take effect all the same.
    public var mayTakeEffect = false
    /// The users because of whom a whole call is refused; known where the call entered, and not sent to other nodes.
    public var users: [UserID] = []
    /// Which limit they have reached; known and sent like ``users``.
    public var limit: Limit?

    /// A limit of the app's policy that lists of subscriptions have.
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

    /// The same for a change that was passed on.
    public var afterPassingOn: Refusal {
        var refusal = self
        refusal.mayTakeEffect = true
        return refusal
    }

    /// 50001: the owner, or its disk, cannot be reached now.
    public static let unavailable = Refusal(code: 50001, detail: "the shard that owns this user cannot be reached now; safe to retry")
    /// 50001, from an owner that misses other nodes and has none left to keep a second copy.
    public static let notReplicated = Refusal(
        code: 50001, detail: "no other node is reachable that could keep a second copy; nothing was changed, safe to retry")
    /// 50001, from the owner's store.
    public static let notDurable = Refusal(
        code: 50001, detail: "the change could not be made durable; nothing was acknowledged, safe to retry")
    /// 6014, where a custom status needs a session (T11).
    public static let noSession = Refusal(
        code: 6014,
        detail: "customStatus: the user has no session, which the app's policy requires (customStatus.needsSession); log in first")
    /// 70107, where users must be registered.
    public static func noSuchUser(_ users: [UserID]) -> Refusal { Refusal(code: 70107, detail: "no such user: \(names(users))") }

    /// 31704, where only friends may be followed so (R3) and these are none.
    public static func noFriends(_ users: [UserID]) -> Refusal {
        Refusal(code: 31704, detail: "subscribeType: 3 requires friends; not friends of the caller: \(names(users))")
    }

    /// 6017, where each of these has as many followers as a user may have (R6).
    public static func tooManyFollowers(_ users: [UserID], most: Int) -> Refusal {
        var refusal = Refusal(
            code: 6017, detail: "userIDs: each of these users already has \(most) followers, the most that are allowed: \(names(users))")
        (refusal.users, refusal.limit) = (users, .followers)
        return refusal
    }

    /// 6017, where the caller follows as many users as one may, and there is no room for these (R7).
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

    /// 50002.
    public static let overloaded = Refusal(code: 50002, detail: "this node is overloaded; retry after 1 s")
}
