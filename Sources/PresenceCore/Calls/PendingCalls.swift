import PresenceWire

/// Operations that wait for owners: which requests each has sent, and what has come back.
///
/// A request whose owner is gone or wrong is sent again by the newest ring until the call's deadline; then it is answered 50001.
struct PendingCalls {
    typealias CallIndex = Int

    /// Users of whom all nodes are asked how many follow them, and what has come.
    struct FollowerSums {
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
        let originSessions: [SessionID]
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
        var followerSums: FollowerSums?
        var followerLimitReached: [UserID] = []
        var page: [Subscription] = []
        var total = 0
        /// Requests without an answer.
        var openCount = 0
        /// The oldest proof of life among the owners asked.
        var asOf: Milliseconds = .max
        /// To `explain`: what has come.
        var explanations: [Explanation] = []
        /// What the streams leave out, because the answer will tell it.
        var answeredList: ListUpdate?
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
    private var answering: [UserID: CallIndex] = [:]
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
        if answering[pending.caller] == call { answering[pending.caller] = nil }
        return pending
    }

    /// The call's answer will tell records that the streams need not tell.
    mutating func willAnswerWithRecords(_ call: CallIndex) { if let caller = calls[call]?.caller { answering[caller] = call } }

    /// A list tells what an answer told. Returns it without that when nobody waits for such an answer any more.
    mutating func note(_ listUpdate: ListUpdate) -> ListUpdate {
        guard listUpdate.added.contains(where: { $0.told != nil }) else { return listUpdate }
        guard let call = answering[listUpdate.user] else { return listUpdate.withoutDelivered }
        calls[call]?.answeredList = listUpdate
        return listUpdate
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
