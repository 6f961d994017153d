import PresenceWire

/// The operations that wait for owners: the requests that each has sent, and the answers.
///
/// If the owner is gone or wrong, the request is sent again by the newest ring until the call's deadline. Then the call is answered 50001.
struct PendingCalls {
    typealias CallIndex = Int

    /// Users whose followers all nodes count, and the sums until now.
    struct FollowerSums {
        let targets: [UserID]
        var counts: [Int]
    }

    /// The parts of an answer that several owners send.
    struct AnsweredParts {
        /// For `getSubscribedUserStatus`: the owner's answer.
        var page: (rows: [Subscription], total: Int) = ([], 0)
        /// For `explain`.
        var explanations: [Explanation] = []
        /// For `getUsersProfile`, and for `getFriendList` with profiles.
        var profiles = ProfileGathering.Parts()
        /// For `querySessions`.
        var sessions: [UserID: [UserSession]] = [:]
        /// For `replayWebhooks`.
        var replayed = (eventsCount: 0, isComplete: true)
        /// For `onlineUsers`.
        var onlineUsers: [OnlineUser] = []
        var onlineTotal = 0
        /// For `exportUser`.
        var export = ExportUser.Parts()
        /// For `deleteUser`.
        var deletion = DeletionProgress()
    }

    /// The answers for which a call waits.
    enum Phase: Equatable {
        /// The record of the caller, which shows whether the user exists.
        case checkingCaller
        /// The records of the users whom a call adds, blocks or unsubscribes from. They show which users exist.
        case checkingTargets
        /// The answers of the operation itself.
        case running
        /// For `checkRelations`: the answers of the owners of the named users. The answer of the caller's owner is here.
        case checkingRelations(RelationChecks)
    }

    /// The users of `checkRelations` for whom an answer has arrived.
    struct RelationChecks: Equatable {
        /// The users in the caller's list.
        var own: [UserID]
        /// The users who have the caller in their lists.
        var others: [UserID] = []
        /// The users whose owners have answered.
        var answered: [UserID] = []
    }

    /// One operation of a client.
    struct Pending {
        /// The gateway that answers the call; nil for the ops port.
        let gateway: Int?
        let token: UInt64
        let caller: UserID
        /// The viewer of the records in the answer; nil for the app's back end, which sees whole records.
        let viewer: UserID?
        /// The call, without the users who do not exist.
        var call: Call
        var deadline: Instant
        /// The version at the start. All that the call writes is newer.
        let begunAt: Version
        /// The caller's session; if unknown, all sessions of the caller on this node. One of them may be waiting for the answer.
        let originSessions: [OriginSession]
        /// The key by which the client names the call; nil for a call without one.
        var key: CallKey?
        /// Whether the caller's own token makes the call: see ``PresenceWire/Request/isLimited``.
        var isLimited = false
        /// The users whose records are requested, and the records that have arrived.
        var users: [UserID] = []
        var records: [Record?] = []
        var phase = Phase.running
        /// For `subscribe`, `unsubscribe` and the relationship chain: users unknown to the app. For `importUsers`: users who could not be
        /// registered.
        var excluded: [UserID] = []
        /// For `subscribe`: the counts that the nodes are asked for, and the targets that have reached the follower limit.
        var followerSums: FollowerSums?
        var followerLimitReached: [UserID] = []
        /// The number of requests without an answer.
        var openCount = 0
        /// The oldest sign of life among the owners asked.
        var asOf: Milliseconds = .max
        /// The parts of the answer that have arrived, for calls whose answer has several.
        var answered = AnsweredParts()
        /// The change that the streams leave out, because the answer has its records.
        var answeredList: ListUpdate?
    }

    /// One request without an answer yet.
    struct Sent {
        let call: CallIndex
        var request: Request
        let peer: PeerIndex
        var retryAt: Instant?
    }

    private(set) var calls: [CallIndex: Pending] = [:]
    /// For each user the last call whose answer has records.
    private var answering: [UserID: CallIndex] = [:]
    private var nextCall = 0
    private var nextRequest: UInt64
    private(set) var sent: [UInt64: Sent] = [:]
    /// The traces of the few calls that belong to one. A table of its own costs the other calls nothing.
    private var traces: [CallIndex: TraceContext] = [:]

    /// - Parameter number: all request IDs are larger.
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

    /// Adds a call that belongs to a client's trace.
    mutating func add(_ pending: Pending, _ trace: TraceContext?) -> CallIndex {
        let index = add(pending)
        if let trace { traces[index] = trace }
        return index
    }

    /// The message that carries a request of a call.
    func message(_ request: Request, of call: CallIndex) -> Message {
        guard !traces.isEmpty, let trace = traces[call] else { return .request(request) }
        return .traced(trace, request)
    }

    /// The calling session, if this node knows it.
    func originSession(of call: CallIndex) -> OriginSession {
        guard let originSessions = calls[call]?.originSessions, originSessions.count == 1 else { return .unknown }
        return originSessions[0]
    }

    /// Records a request of `call` to `peer`.
    ///
    /// - Parameter earlier: the attempt that this one repeats; nil for the first.
    mutating func send(
        _ operation: OwnerOperation, of user: UserID, for call: CallIndex, to peer: PeerIndex, repeating earlier: Request? = nil
    ) -> Request {
        let request = Request(
            id: nextRequestID(), user: user, operation: operation, begunAt: calls[call]?.begunAt ?? .zero, isRepeated: earlier != nil,
            isLimited: earlier?.isLimited ?? calls[call]?.isLimited ?? false, key: operation.takesKey ? calls[call]?.ownersKey : nil)
        sent[request.id] = Sent(call: call, request: request, peer: peer)
        calls[call]?.openCount += 1
        return request
    }

    /// A new request ID, larger than all before.
    mutating func nextRequestID() -> UInt64 {
        nextRequest += 1
        return nextRequest
    }

    /// The request of an answer; nil if it was answered before or has timed out.
    mutating func take(_ id: UInt64) -> Sent? {
        guard let found = sent.removeValue(forKey: id) else { return nil }
        calls[found.call]?.openCount -= 1
        return found
    }

    /// Stores the records that an owner has answered.
    mutating func fill(_ records: [Record], into call: CallIndex) {
        // A broken peer may answer with records that no call requested.
        guard let users = calls[call]?.users, calls[call]?.records.count == users.count else { return }
        var found: [UserID: Record] = [:]
        for record in records { found[record.user] = record }
        // A user may be named twice.
        for (index, user) in users.enumerated() {
            if let record = found[user] { calls[call]?.records[index] = record }
        }
    }

    /// Drops the records of some users from the queries that wait. Returns each query, in the order of arrival, with these users.
    mutating func dropRecords(where isOutdated: (UserID) -> Bool) -> [(call: CallIndex, users: [UserID], viewer: UserID?)] {
        var dropped: [(call: CallIndex, users: [UserID], viewer: UserID?)] = []
        // order does not matter: sorted below.
        for (index, pending) in calls where pending.call.isStatusQuery {
            let positions = pending.records.indices.filter { pending.records[$0] != nil && isOutdated(pending.users[$0]) }
            for position in positions { calls[index]?.records[position] = nil }
            if !positions.isEmpty { dropped.append((index, positions.map { pending.users[$0] }, pending.viewer)) }
        }
        return dropped.sorted { $0.call < $1.call }
    }

    mutating func finish(_ call: CallIndex) -> Pending? {
        guard let pending = calls.removeValue(forKey: call) else { return nil }
        if !traces.isEmpty { traces[call] = nil }
        if answering[pending.caller] == call { answering[pending.caller] = nil }
        return pending
    }

    /// Records that the call's answer has records, so that the streams leave them out.
    mutating func willAnswerWithRecords(_ call: CallIndex) { if let caller = calls[call]?.caller { answering[caller] = call } }

    /// A subscription list for the gateways, without the versions of an answer that no call waits for any more.
    mutating func note(_ listUpdate: ListUpdate) -> ListUpdate {
        guard listUpdate.added.contains(where: { $0.delivered != .nothing }) else { return listUpdate }
        guard let call = answering[listUpdate.user] else { return listUpdate.withoutDelivered }
        calls[call]?.answeredList = listUpdate
        return listUpdate
    }

    /// The requests for which `isDue` holds, in the order in which they were sent.
    func requests(where isDue: (Sent) -> Bool) -> [Sent] {
        // order does not matter: sorted by id below.
        sent.values.filter(isDue).sorted { $0.request.id < $1.request.id }
    }

    /// Schedules the next attempt of a request that its owner has sent back. That attempt is counted as this one would have been.
    mutating func retry(_ id: UInt64, at instant: Instant) { sent[id]?.retryAt = instant }

    /// Schedules the next attempt of a request without an answer. Its owner may have performed and counted it.
    ///
    /// No later attempt is counted then: a call that has taken effect must not be answered as one call too many. An owner that has sent the
    /// request back has done neither.
    mutating func retryUnanswered(_ id: UInt64, at instant: Instant) {
        if sent[id]?.retryAt == nil { sent[id]?.request.isLimited = false }
        retry(id, at: instant)
    }

    /// The calls whose deadline has passed, in the order of their arrival.
    func overdue(at now: Instant) -> [CallIndex] {
        // order does not matter: sorted below.
        calls.filter { $0.value.deadline <= now }.keys.sorted()
    }

    /// The calls for a change while this node hears no majority: nothing changes here, and their callers need not wait for the deadline.
    func vain(_ reach: borrowing Reach) -> [CallIndex] {
        if reach.hasMajority { return [] }
        return Set(requests { $0.request.operation.isDurable }.map(\.call)).sorted()
    }
}

extension Call {
    /// Whether several nodes answer with parts of all that the cluster holds about a user.
    var isExportUser: Bool { if case .exportUser = self { true } else { false } }

    /// Whether the answer is the records of users, and nothing is changed.
    fileprivate var isStatusQuery: Bool {
        switch self {
        case .getUserStatus, .getSubscribedUserStatus: true
        default: false
        }
    }
}
