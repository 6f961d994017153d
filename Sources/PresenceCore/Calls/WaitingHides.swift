import PresenceWire

/// The calls of `setVisibility` that hide a user soon after a change that viewers saw. They wait, so that the user looks lost: see
/// ``HidingTime``. The user's later changes wait with them, so that a viewer from whom the user hides sees none of these.
///
/// Until then nothing has been written, and nobody has been answered. A new owner is asked again, and waits itself.
struct WaitingHides {
    /// The calls of one user that wait, in the order of arrival.
    struct Queue {
        var calls: [(request: Request, peer: PeerIndex)] = []
        /// When the owner took the first call. It gives the end of the wait by the wall clock.
        let time: HidingTime
        /// The end of the wait if the wall clock is set back meanwhile.
        var latest: Instant
        /// The user's choice at that time.
        let choice: Visibility
        /// The time at which the queue is looked at.
        var reviewAt: Instant
    }

    /// The outcome for a request.
    enum Hold: Equatable {
        /// The request is performed now.
        case passed
        case waits
        /// As many calls of the user wait as may. The call is refused, and may be repeated after these seconds.
        case refused(retryAfter: UInt64)
    }

    /// Most calls of one user that wait. One more is refused.
    static let callsMax = 64

    private var queues: [UserID: Queue] = [:]
    /// The number of calls that wait.
    private(set) var count = 0
    /// Calls that have hidden their users at once, because too many waited.
    private(set) var beyondMaxCount: UInt64 = 0
    /// Calls that were refused, because too many of their user waited.
    private(set) var refusedCount: UInt64 = 0
    /// The time of the next ``takeDue(_:at:)`` that may have a result; far in the future for none.
    private(set) var nextEnd = Instant.farFuture

    /// Keeps a request that must wait.
    ///
    /// Later calls of the same user wait with it, so that they stay in order. If too many calls of the user wait, one more is refused: were
    /// they performed early, viewers could tell that the user hides.
    mutating func hold(_ request: Request, from peer: PeerIndex, _ owner: borrowing Owner, at now: Now) -> Hold {
        guard request.operation.mayFollowHide, let user = owner.index(ofKnown: request.user), !isLate(request, user, owner) else {
            return .passed
        }
        // The owner has counted the call.
        var request = request
        request.isLimited = false
        if var queue = queues[request.user] {
            let isOneMore = queue.add(request, from: peer)
            if isOneMore, queue.calls.count > Self.callsMax || count >= owner.settings.waitingHidesMax {
                refusedCount += 1
                return .refused(retryAfter: UInt64((queue.latest - now.instant).wholeSecondsUp))
            }
            // A user who shows again before viewers saw any change has not hidden. One who hides again before the review waits on.
            if !queue.hides(owner) { queue.reviewAt = now.instant }
            keep(queue, of: request.user)
            return .waits
        }
        let age = request.begunAt > .zero ? max(owner.clock.milliseconds(at: now.wall) - request.begunAt.milliseconds, 0) : 0
        let time = HidingTime(user: user, askedAt: now.wall, age: age)
        guard Self.hides(request, owner), owner.users[user].record.statusType == .online else { return .passed }
        // In the next review at the earliest, as in ``ChainVisibility/show(_:hidesInReview:by:in:)``.
        let end = time.end(by: owner, at: now) ?? now.wall
        guard count < owner.settings.waitingHidesMax else {
            beyondMaxCount += 1
            return .passed
        }
        let choice = owner.users[user].record.privacy?.visibility ?? Visibility()
        let (reviewAt, latest) = (now.instant(of: end), now.instant + owner.settings.longestHide)
        keep(Queue(calls: [(request, peer)], time: time, latest: latest, choice: choice, reviewAt: min(reviewAt, latest)), of: request.user)
        return .waits
    }

    /// Whether the user has chosen the present visibility by a call that began later. The request is refused then, as any that comes late.
    private func isLate(_ request: Request, _ user: Owner.Index, _ owner: borrowing Owner) -> Bool {
        guard request.operation.isOfVisibility, request.begunAt > .zero, queues[request.user] == nil else { return false }
        return request.begunAt.milliseconds < owner.users[user].record.privacy?.writtenAt.milliseconds ?? 0
    }

    private mutating func keep(_ queue: Queue, of user: UserID) {
        count += queue.calls.count - (queues[user]?.calls.count ?? 0)
        queues[user] = queue
        nextEnd = min(nextEnd, queue.reviewAt)
    }

    /// Removes and returns the calls whose wait is over. The calls of a user who has changed something meanwhile wait on.
    mutating func takeDue(_ owner: borrowing Owner, at now: Now) -> [(request: Request, peer: PeerIndex)] {
        guard nextEnd <= now.instant else { return [] }
        var due: [(request: Request, peer: PeerIndex)] = []
        for user in queues.filter({ $0.value.reviewAt <= now.instant }).keys.sorted() {
            guard let queue = queues[user] else { continue }
            let end = owner.index(ofKnown: user).flatMap { queue.time.of($0).end(by: owner, at: now) }
            if let end, now.instant < queue.latest, queue.hides(owner) {
                queues[user]?.reviewAt = min(now.instant(of: end), queue.latest)
            } else {
                due += queue.due(owner)
                count -= queue.calls.count
                queues[user] = nil
            }
        }
        updateNextEnd()
        return due
    }

    /// Removes the calls of users who have moved to another owner. Their gateways ask that one.
    mutating func drop(where isMoved: (UserID) -> Bool) {
        // order does not matter: each entry is checked by itself.
        queues = queues.filter { !isMoved($0.key) }
        // order does not matter for a sum.
        count = queues.values.reduce(0) { $0 + $1.calls.count }
        updateNextEnd()
    }

    // order does not matter for the earliest.
    private mutating func updateNextEnd() { nextEnd = queues.values.reduce(.farFuture) { min($0, $1.reviewAt) } }

    /// Whether a request hides its user from a viewer who may see the user now.
    fileprivate static func hides(_ request: Request, _ owner: borrowing Owner) -> Bool {
        guard case .setVisibility(let change) = request.operation, let user = owner.index(ofKnown: request.user) else { return false }
        let visibility = owner.users[user].record.privacy?.visibility ?? Visibility()
        return visibility.isClosed(by: ChainVisibility(user: user).changed(visibility, by: change, of: owner))
    }
}

extension WaitingHides.Queue {
    /// Adds a call. Changes of the visibility that wait together are one change, by which each of them is answered.
    ///
    /// A call that a node sends once more, over a new link, takes the place of its earlier attempt. Returns whether it is another call.
    fileprivate mutating func add(_ request: Request, from peer: PeerIndex) -> Bool {
        var whole = Visibility.Change()
        // Calls of one millisecond may have begun at the same version. Each takes the place of another one.
        let earlier = calls.firstIndex {
            request.isRepeated && !$0.request.isRepeated && $0.peer == peer && request.repeats($0.request)
        }
        if let earlier { calls[earlier].request = request } else { calls.append((request, peer)) }
        for case .setVisibility(let change) in calls.map(\.request.operation) { whole = whole.followed(by: change) }
        for index in calls.indices where calls[index].request.operation.isOfVisibility {
            calls[index].request.operation = .setVisibility(whole)
        }
        return earlier == nil
    }

    /// Whether the calls hide the user from a viewer. Those of the visibility all make the same change, and the first is one of them.
    fileprivate func hides(_ owner: borrowing Owner) -> Bool { calls.first.map { WaitingHides.hides($0.request, owner) } ?? false }

    /// The calls, to be performed now.
    ///
    /// A block, or its end, may have dated the visibility meanwhile. It has not replaced the user's choice, so the calls follow it.
    fileprivate func due(_ owner: borrowing Owner) -> [(request: Request, peer: PeerIndex)] {
        guard let first = calls.first, let privacy = owner.record(of: first.request.user).privacy,
            privacy.visibility.isSameChoice(as: choice)
        else { return calls }
        return calls.map { call in
            var request = call.request
            if request.operation.isOfVisibility, request.begunAt > .zero { request.begunAt = max(request.begunAt, privacy.writtenAt) }
            return (request, call.peer)
        }
    }
}

extension Request {
    fileprivate func repeats(_ earlier: Request) -> Bool {
        let isSame = operation == earlier.operation || (operation.isOfVisibility && earlier.operation.isOfVisibility)
        return begunAt == earlier.begunAt && isSame
    }
}

extension OwnerOperation {
    fileprivate var isOfVisibility: Bool { if case .setVisibility = self { true } else { false } }

    /// Whether a call waits behind one of the same user that hides the user: viewers would see the change.
    fileprivate var mayFollowHide: Bool {
        switch self {
        case .setVisibility, .setSelfStatus, .publishEvent: true
        default: false
        }
    }
}
