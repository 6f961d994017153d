import PresenceWire

/// A call of the relationship chain that waits for the ends of its decisions.
struct WaitingChainCall {
    /// The first request of the call.
    let request: Request
    /// The requests to answer: those of the call, and of its repetitions with the same key. Empty after the call has run out of time.
    private(set) var requests: [(peer: PeerIndex, id: UInt64)]
    private let users: [UserID]
    /// The results that are on two disks.
    private var codes: [ChainCode?]
    /// The results whose rows are on two disks or on their way there.
    private var decided: [ChainCode?]
    /// The progress of the hiding of its user.
    private(set) var hiding = Hiding.notAwaited
    /// The results that are on two disks while viewers still see the user.
    private var heldBack: [(position: Int, code: ChainCode)] = []
    /// The time at which the owner answers what it has.
    private(set) var deadline: Instant

    /// The phases of a call whose user hides later: see ``HidingTime``.
    enum Hiding {
        /// The call hides the user from nobody, or viewers do not see the user.
        case notAwaited
        /// Viewers see the user.
        case due
        /// The user has hidden, and not every live node is known to have heard of it.
        case storing
        /// The visibility could not be stored. The caller tries again.
        case failed
    }

    init(_ request: Request, from peer: PeerIndex, users: [UserID], deadline: Instant) {
        (self.request, self.users, self.deadline) = (request, users, deadline)
        requests = [(peer, request.id)]
        codes = Array(repeating: nil, count: users.count)
        decided = codes
    }

    /// Whether every decision has ended.
    var isOver: Bool { codes.allSatisfy { $0 != nil } }

    /// Whether the call is under way and `other` is the same call.
    func isCall(of other: Request) -> Bool {
        guard request.user == other.user, let key = request.key, key.text == other.key?.text else { return false }
        return !codes.contains { $0?.isFinal == false }
    }

    mutating func end(_ position: Int, as code: ChainCode) { codes[position] = code }

    /// Whether the call hides the user from viewers who still see the user.
    func awaitsHiding(by owner: borrowing Owner) -> Bool { awaitsHiding(from: users[...], by: owner) }

    private func awaitsHiding(from viewers: ArraySlice<UserID>, by owner: borrowing Owner) -> Bool {
        guard request.operation.mayHide, let user = owner.index(ofKnown: request.user) else { return false }
        return viewers.contains { ChainVisibility(user: user).isShownUntilDue(to: $0, by: owner) }
    }

    /// Has the results wait until the user has hidden, if viewers still see the user. Returns whether they wait.
    ///
    /// A result asks about its own viewer, and the last one about all viewers of the call, which may be a hundred.
    ///
    /// - Parameter position: that of a result on two disks; nil for a call that begins.
    mutating func awaitHiding(ofResultAt position: Int?, by owner: borrowing Owner) -> Bool {
        guard hiding == .notAwaited else { return hiding == .due }
        var viewers = users[...]
        if let position, codes.indices.contains(where: { $0 != position && codes[$0] == nil }) { viewers = users[position...position] }
        if awaitsHiding(from: viewers, by: owner) { hiding = .due }
        return hiding == .due
    }

    /// Ends a decision whose rows are on two disks, once the user has hidden.
    mutating func endOnceHidden(_ position: Int, as code: ChainCode) {
        switch hiding {
        case .notAwaited: end(position, as: code)
        case .due, .storing: heldBack.append((position, code))
        case .failed: end(position, as: .unavailable)
        }
    }

    /// Records that the user has hidden, and that the nodes are told so.
    mutating func hide() { hiding = .storing }

    /// Ends the wait. Returns the results that it has held back.
    mutating func endHiding(isDurable: Bool) -> [(position: Int, code: ChainCode)] {
        hiding = isDurable ? .notAwaited : .failed
        defer { heldBack = [] }
        return heldBack
    }

    mutating func decide(_ position: Int, as code: ChainCode) { decided[position] = code }

    /// Has a repetition of the call answered together with it.
    ///
    /// - Parameter deadline: of a call that has run out of time before.
    mutating func add(_ request: Request, from peer: PeerIndex, deadline: Instant) {
        if requests.isEmpty { self.deadline = deadline }
        requests.append((peer, request.id))
    }

    /// Takes the requests that are answered now, because the call has run out of time. Its answer is kept until another deadline.
    mutating func takeRequests(until deadline: Instant) -> [(peer: PeerIndex, id: UInt64)] {
        defer { (requests, self.deadline) = ([], deadline) }
        return requests
    }

    /// The answer. A decision that has not ended may still take effect.
    ///
    /// That of a block names the time until which a dead member may show the blocker, if it is only cut off.
    func answer(by owner: borrowing Owner, _ cluster: Cluster, at now: Now) -> Answer {
        let answer = answer(codes)
        guard case .chain(.setBlocked(_, true)) = request.operation, case .chained(let outcomes) = answer else { return answer }
        let remnant = owner.remnant(of: owner.index(ofKnown: request.user), cluster, at: now)
        return remnant == .none ? answer : .blocked(outcomes, remnant: remnant)
    }

    /// The answer to keep for repetitions of the call; nil while one of its results is open, or if one of them may change.
    var answerToKeep: Answer? {
        guard request.key != nil, decided.allSatisfy({ $0?.isFinal == true }) else { return nil }
        return answer(decided)
    }

    private func answer(_ codes: [ChainCode?]) -> Answer {
        let known = zip(users, codes).map { ChainOutcome(user: $0, code: $1 ?? .unavailable) }
        return .chained(known + (request.key?.excluded ?? []).map { ChainOutcome(user: $0, code: .noSuchUser) })
    }
}

extension ChainCode {
    /// Whether a repetition of the call has the same result.
    fileprivate var isFinal: Bool { self != .unavailable && self != .conflict }
}

extension OwnerOperation {
    /// Whether a call of the relationship chain may hide its user: a block, or the end of a friendship.
    fileprivate var mayHide: Bool {
        guard case .chain(let call) = self else { return false }
        return switch call {
        case .setBlocked(_, let isBlocked): isBlocked
        case .delete, .deleteAll: true
        case .add, .respond: false
        }
    }
}
