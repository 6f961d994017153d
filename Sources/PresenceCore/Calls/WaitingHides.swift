import PresenceWire

/// The calls of `setVisibility` that hide a user soon after a change that viewers saw. They wait, so that the user looks lost: see
/// ``HidingTime``.
///
/// Until then nothing has been written, and nobody has been answered. A new owner is asked again, and waits itself.
struct WaitingHides {
    /// The calls of one user that wait, in the order of arrival.
    struct Queue {
        var calls: [(request: Request, peer: PeerIndex)] = []
        /// The time of the first call.
        let askedAt: Milliseconds
        /// The user's choice at that time.
        let choice: Visibility
        /// The time at which the queue is looked at.
        var reviewAt: Instant
    }

    /// Most calls of one user that wait. With one more they all take effect.
    static let callsMax = 16

    private var queues: [UserID: Queue] = [:]
    /// The number of calls that wait.
    private(set) var count = 0
    /// Calls that have hidden their users at once, because too many waited.
    private(set) var beyondMaxCount: UInt64 = 0
    /// The time of the next ``takeDue(_:at:)`` that may have a result; far in the future for none.
    private(set) var nextEnd = Instant.farFuture

    var isEmpty: Bool { queues.isEmpty }

    /// Keeps a request that must wait. Returns whether it waits.
    ///
    /// Later calls of the same user wait with it, so that they stay in order.
    mutating func hold(_ request: Request, from peer: PeerIndex, _ owner: borrowing Owner, at now: Now) -> Bool {
        guard case .setVisibility = request.operation, let user = owner.index(ofKnown: request.user) else { return false }
        // The owner has counted the call.
        var request = request
        request.isLimited = false
        if var queue = queues[request.user] {
            queue.add(request, from: peer)
            // A user who shows again before viewers saw any change has not hidden.
            if queue.calls.count > Self.callsMax || !queue.hides(owner) { queue.reviewAt = now.instant }
            return keep(queue, of: request.user)
        }
        guard Self.hides(request, owner), let end = HidingTime(user: user, askedAt: now.wall).end(by: owner, at: now),
            Self.hasTime(request, owner, at: now)
        else { return false }
        guard count < owner.settings.waitingHidesMax else {
            beyondMaxCount += 1
            return false
        }
        let choice = owner.users[user].record.privacy?.visibility ?? Visibility()
        return keep(
            Queue(calls: [(request, peer)], askedAt: now.wall, choice: choice, reviewAt: now.instant(of: end)), of: request.user)
    }

    private mutating func keep(_ queue: Queue, of user: UserID) -> Bool {
        count += 1
        queues[user] = queue
        nextEnd = min(nextEnd, queue.reviewAt)
        return true
    }

    /// Removes and returns the calls whose wait is over. The calls of a user who has changed something meanwhile wait on.
    mutating func takeDue(_ owner: borrowing Owner, at now: Now) -> [(request: Request, peer: PeerIndex)] {
        guard nextEnd <= now.instant else { return [] }
        var due: [(request: Request, peer: PeerIndex)] = []
        for user in queues.filter({ $0.value.reviewAt <= now.instant }).keys.sorted() {
            guard let queue = queues[user] else { continue }
            let end = owner.index(ofKnown: user).flatMap { HidingTime(user: $0, askedAt: queue.askedAt).end(by: owner, at: now) }
            if let end, queue.calls.count <= Self.callsMax, queue.hides(owner) {
                queues[user]?.reviewAt = now.instant(of: end)
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

    /// Whether the call has time to wait: the remaining time must suffice for the disks and the barrier.
    private static func hasTime(_ request: Request, _ owner: borrowing Owner, at now: Now) -> Bool {
        let age = request.begunAt > .zero ? max(owner.clock.milliseconds(at: now.wall) - request.begunAt.milliseconds, 0) : 0
        let grace = owner.policies.policy(of: request.user).offlineGrace
        return Duration.milliseconds(age) + grace <= owner.settings.callTimeout - owner.settings.callTimeout / 5
    }

    /// Whether a request hides its user from a viewer who may see the user now.
    fileprivate static func hides(_ request: Request, _ owner: borrowing Owner) -> Bool {
        guard case .setVisibility(let change) = request.operation, let user = owner.index(ofKnown: request.user) else { return false }
        let visibility = owner.users[user].record.privacy?.visibility ?? Visibility()
        return visibility.isClosed(by: ChainVisibility(user: user).changed(visibility, by: change, of: owner))
    }
}

extension WaitingHides.Queue {
    /// Adds a call. Changes of the visibility that wait together are one change, by which each of them is answered.
    fileprivate mutating func add(_ request: Request, from peer: PeerIndex) {
        var whole = Visibility.Change()
        calls.append((request, peer))
        for case .setVisibility(let change) in calls.map(\.request.operation) { whole = whole.followed(by: change) }
        for index in calls.indices { calls[index].request.operation = .setVisibility(whole) }
    }

    /// Whether the calls hide the user from a viewer. They all make the same change.
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
            if request.begunAt > .zero { request.begunAt = max(request.begunAt, privacy.writtenAt) }
            return (request, call.peer)
        }
    }
}
