import PresenceWire

/// An operation as a client asks for it; validated, with its subject named.
public enum Call: Equatable, Sendable {
    case setSelfStatus(customStatus: String, seconds: Int64?)
    case publishEvent(value: Int64, ext: String, seconds: Int64, isForOnlineOnly: Bool, isSynced: Bool)
    case getUserStatus([UserID])
    case subscribeUserStatus([UserID], seconds: Int64?, sync: Bool, subscribeType: UInt8)
    /// Nil for everybody; of one type, or of any (R8).
    case unsubscribeUserStatus([UserID]?, subscribeType: UInt8? = nil)
    /// Of one type, or of any (R9, R10).
    case getSubscribedUserStatus(only: [UserID]?, offset: Int, limit: Int, subscribeType: UInt8? = nil)
    /// Nil for every session.
    case logout(SessionID?)
    /// Changes who may see the caller.
    case setVisibility(Visibility.Change)
    case getVisibility
    /// Why the caller is shown what it is shown of a user.
    case explain(UserID)
    /// Ends all sessions of the caller, whose tokens are void from now on.
    case kick(reason: String)
    /// There are such users.
    case importUsers([UserID])
    /// Changes the policy of the caller's app: see ``PresenceWire/AppPolicy/changed(by:)``.
    case setAppPolicy([UInt8])

    /// Whose token asks (contract §2).
    public enum Origin: Sendable {
        /// The caller's own.
        case caller
        /// That of the app's back end, which may ask as often as it likes and here is the caller itself.
        case backEnd
        /// That of the app's back end, which names the caller: there may be no such user.
        case backEndForCaller
    }

    /// It says or asks something of the caller as a user of the app, not only of others.
    var needsUser: Bool {
        switch self {
        case .setSelfStatus, .publishEvent, .subscribeUserStatus, .unsubscribeUserStatus, .getSubscribedUserStatus, .logout, .setVisibility,
            .getVisibility:
            true
        case .getUserStatus, .explain, .kick, .importUsers, .setAppPolicy: false
        }
    }
}

/// A part of an explanation, as a JSON object.
public struct Explanation: Equatable, Sendable {
    public let part: OwnerOperation.Explained
    public let json: [UInt8]
}

/// What a client is answered.
public enum CallAnswer: Equatable, Sendable {
    case userStatus(Record)
    /// Records in the order asked, nil where the owner could not be reached, and the time up to which they are known to be right.
    case userStatusList([Record?], users: [UserID], asOf: Milliseconds)
    /// Who was evicted, for whom there was no room in the list, who has no room for another follower, who is no user of the app, and the
    /// records of `users` when `sync` asked for them.
    case subscribed(
        evicted: [UserID], refused: [UserID] = [], crowded: [UserID] = [], strangers: [UserID] = [], unknown: [UserID] = [],
        records: [Record?]?, users: [UserID])
    /// Those whose owners have not said that they are registered now.
    case imported(failed: [UserID])
    case subscriptions([Subscription], records: [Record?], total: Int)
    case done
    case refused(Refusal)
    /// To `setVisibility` and `getVisibility`.
    case visibility(Visibility)
    /// To `explain`: the parts that have come, each a JSON object.
    case explained([Explanation])
    /// Too many calls (7008); one after so many seconds is taken.
    case tooOften(retryAfter: Int)
}

/// Operations that wait for owners: which requests each has sent, and what has come back.
///
/// A request whose owner is gone or wrong is sent again by the newest ring until the call's deadline; then it is answered 50001.
struct PendingCalls {
    typealias CallIndex = Int

    /// Users of whom all nodes are asked how many follow them, and what has come.
    struct Crowd {
        let targets: [UserID]
        var counts: [Int]
    }

    /// One operation of a client.
    struct Pending {
        let gateway: Int
        let token: UInt64
        let caller: UserID
        /// Who is shown the records that the answer tells; nil for the app's back end, which is shown all.
        let viewer: UserID?
        let call: Call
        let deadline: Instant
        /// All that the call writes is newer.
        let begunAt: Version
        /// The session that asked; where that is not known, those of the caller on this node: one of them may be waiting for the answer.
        let askers: [SessionID]
        /// The caller's own token asks: see ``PresenceWire/Request/isLimited``.
        var isLimited = false
        /// The users whose records are wanted, and those that have come.
        var users: [UserID] = []
        var records: [Record?] = []
        /// Whether there is such a user as the caller is still to be asked.
        var isOfUnknown = false
        /// To `subscribe`: who is no user of the app; to `importUsers`: who could not be registered.
        var excluded: [UserID] = []
        /// To `subscribe`: what the nodes are asked, and who has no room for another follower.
        var crowd: Crowd?
        var crowded: [UserID] = []
        var page: [Subscription] = []
        var total = 0
        /// Requests without an answer.
        var openCount = 0
        /// The oldest proof of life among the owners asked.
        var asOf: Milliseconds = .max
        /// To `explain`: what has come.
        var explanations: [Explanation] = []
        /// What the streams leave out, because the answer will tell it.
        var toldByAnswer: Interest?
    }

    /// One request on its way.
    struct Sent {
        let call: CallIndex
        let request: Request
        let peer: PeerIndex
        var retryAt: Instant?
    }

    private(set) var calls: [CallIndex: Pending] = [:]
    /// For each user the last call whose answer tells records.
    private var telling: [UserID: CallIndex] = [:]
    private var nextCall = 0
    private var nextRequest: UInt64
    private(set) var sent: [UInt64: Sent] = [:]

    /// - Parameter number: request IDs are larger.
    init(after number: UInt64) { nextRequest = number }

    var count: Int { calls.count }

    subscript(call: CallIndex) -> Pending? {
        _read { yield calls[call] }
        _modify { yield &calls[call] }
    }

    mutating func add(_ pending: Pending) -> CallIndex {
        nextCall += 1
        calls[nextCall] = pending
        return nextCall
    }

    /// Notes a request of `call` to `peer`.
    mutating func send(_ operation: OwnerOperation, of user: UserID, for call: CallIndex, to peer: PeerIndex, isRepeated: Bool) -> Request {
        let request = Request(
            id: nextRequestID(), user: user, operation: operation, begunAt: calls[call]?.begunAt ?? .zero, isRepeated: isRepeated,
            isLimited: !isRepeated && calls[call]?.isLimited ?? false)
        sent[request.id] = Sent(call: call, request: request, peer: peer)
        calls[call]?.openCount += 1
        return request
    }

    /// A request's ID, larger than all before.
    mutating func nextRequestID() -> UInt64 {
        nextRequest += 1
        return nextRequest
    }

    /// The request that an answer belongs to; nil when it was answered before or has timed out.
    mutating func take(_ id: UInt64) -> Sent? {
        guard let found = sent.removeValue(forKey: id) else { return nil }
        calls[found.call]?.openCount -= 1
        return found
    }

    mutating func finish(_ call: CallIndex) -> Pending? {
        guard let pending = calls.removeValue(forKey: call) else { return nil }
        if telling[pending.caller] == call { telling[pending.caller] = nil }
        return pending
    }

    /// The call's answer will tell records that the streams need not tell.
    mutating func willTell(_ call: CallIndex) { if let caller = calls[call]?.caller { telling[caller] = call } }

    /// A list tells what an answer told. Returns it without that when nobody waits for such an answer any more.
    mutating func note(_ interest: Interest) -> Interest {
        guard interest.added.contains(where: { $0.told != nil }) else { return interest }
        guard let call = telling[interest.user] else { return interest.toldNothing }
        calls[call]?.toldByAnswer = interest
        return interest
    }

    /// The requests for which `isDue` holds, in the order in which they were sent.
    func requests(where isDue: (Sent) -> Bool) -> [Sent] {
        // order does not matter: sorted by id below.
        sent.values.filter(isDue).sorted { $0.request.id < $1.request.id }
    }

    /// Has the request sent again at `instant`.
    mutating func retry(_ id: UInt64, at instant: Instant) { sent[id]?.retryAt = instant }

    /// The calls whose time is up, in the order in which they came.
    func overdue(at now: Instant) -> [CallIndex] {
        // order does not matter: sorted below.
        calls.filter { $0.value.deadline <= now }.keys.sorted()
    }
}
