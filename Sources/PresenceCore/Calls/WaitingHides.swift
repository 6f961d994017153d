import PresenceWire

/// The calls that hide a user soon after a change that viewers saw. They wait, so that the user looks lost
/// (<doc:Architecture#A-status-change>).
///
/// Viewers see a lost user go OFFLINE one `offlineGrace` after the loss. The loss cannot be older than what they saw last. So a call that
/// hides the user within `offlineGrace` of that change takes effect one `offlineGrace` after it has arrived. Until then nothing has been
/// written, and nobody has been answered. A new owner is asked again, and waits itself.
struct WaitingHides {
    /// The calls of one user that wait, in the order of arrival.
    struct Queue {
        var calls: [(request: Request, peer: PeerIndex)] = []
        var endsAt: Instant
        /// The time at which the calls take effect, whatever the user changes meanwhile.
        let endsAtLatest: Instant
    }

    /// Most calls of one user that wait. With one more they all take effect.
    static let callsMax = 64

    private var queues: [UserID: Queue] = [:]
    /// The time of the next ``takeDue(_:at:)`` that may have a result; far in the future for none.
    private(set) var nextEnd = Instant.farFuture

    var isEmpty: Bool { queues.isEmpty }

    /// Keeps a request that must wait. Returns whether it waits.
    ///
    /// Later changes of the visibility, and of the relationship chain, wait behind the call of the same user, so that they stay in order.
    mutating func hold(_ request: Request, from peer: PeerIndex, _ owner: borrowing Owner, at now: Now) -> Bool {
        guard request.operation.mayHide else { return false }
        // The owner has counted the call.
        var request = request
        request.isLimited = false
        if var queue = queues[request.user] {
            queue.add(request, from: peer)
            // A user who shows again before viewers saw any change has not hidden.
            if queue.calls.count > Self.callsMax || !queue.hides(owner) { queue.endsAt = now.instant }
            queues[request.user] = queue
            nextEnd = min(nextEnd, queue.endsAt)
            return true
        }
        let grace = owner.policies.policy(of: request.user).offlineGrace
        guard Self.end(of: request.user, owner, at: now) > now.instant, Self.mayWait(request, for: grace, owner, at: now),
            Self.hides(request, owner)
        else { return false }
        let latest = now.instant + owner.settings.longestHide
        queues[request.user] = Queue(calls: [(request, peer)], endsAt: now.instant + grace, endsAtLatest: latest)
        nextEnd = min(nextEnd, now.instant + grace)
        return true
    }

    /// Removes and returns the calls whose wait is over. The calls of a user who has changed something meanwhile wait on.
    mutating func takeDue(_ owner: borrowing Owner, at now: Now) -> [(request: Request, peer: PeerIndex)] {
        guard nextEnd <= now.instant else { return [] }
        var due: [(request: Request, peer: PeerIndex)] = []
        for user in queues.filter({ $0.value.endsAt <= now.instant }).keys.sorted() {
            guard let queue = queues[user] else { continue }
            let end = Self.end(of: user, owner, at: now)
            if end > now.instant, end <= queue.endsAtLatest, queue.calls.count <= Self.callsMax, queue.hides(owner) {
                queues[user]?.endsAt = end
            } else {
                // A block dates the visibility, and an older change of it would be refused afterwards.
                due += queue.calls.filter(\.request.operation.isOfVisibility) + queue.calls.filter { !$0.request.operation.isOfVisibility }
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
        updateNextEnd()
    }

    // order does not matter for the earliest.
    private mutating func updateNextEnd() { nextEnd = queues.values.reduce(.farFuture) { min($0, $1.endsAt) } }

    /// Whether the call has time to wait: the remaining time must suffice for the disks and the barrier.
    private static func mayWait(_ request: Request, for grace: Duration, _ owner: borrowing Owner, at now: Now) -> Bool {
        let age = request.begunAt > .zero ? max(owner.clock.milliseconds(at: now.wall) - request.begunAt.milliseconds, 0) : 0
        return grace <= owner.settings.longestHide
            && Duration.milliseconds(age) + grace <= owner.settings.callTimeout - owner.settings.callTimeout / 5
    }

    /// The time from which an OFFLINE of the user may follow the newest change that viewers saw.
    private static func end(of user: UserID, _ owner: borrowing Owner, at now: Now) -> Instant {
        guard let index = owner.index(ofKnown: user), owner.users[index].record.statusType == .online else { return now.instant }
        let grace = owner.policies.policy(of: user).offlineGrace
        return now.instant(of: owner.users[index].record.lastSeenChange + grace.wholeMilliseconds)
    }

    /// Whether a request hides its user from a viewer who may see the user now.
    fileprivate static func hides(_ request: Request, _ owner: borrowing Owner) -> Bool {
        guard let user = owner.index(ofKnown: request.user) else { return false }
        let visibility = owner.users[user].record.privacy?.visibility ?? Visibility()
        switch request.operation {
        case .setVisibility(let change):
            return visibility.isClosed(by: ChainVisibility(user: user).changed(visibility, by: change, of: owner))
        case .chain(.setBlocked(let users, true)):
            return owner.policies.policy(of: request.user).chain.blockHidesStatus && users.contains { visibility.lets($0) }
        default: return false
        }
    }
}

extension WaitingHides.Queue {
    /// Adds a call. Changes of the visibility that wait together are one change, by which each of them is answered.
    fileprivate mutating func add(_ request: Request, from peer: PeerIndex) {
        var whole = Visibility.Change()
        calls.append((request, peer))
        for case .setVisibility(let change) in calls.map(\.request.operation) { whole = whole.followed(by: change) }
        for index in calls.indices where calls[index].request.operation.isOfVisibility {
            calls[index].request.operation = .setVisibility(whole)
        }
    }

    /// Whether one of the calls hides the user from a viewer.
    fileprivate func hides(_ owner: borrowing Owner) -> Bool {
        for call in calls where WaitingHides.hides(call.request, owner) { return true }
        return false
    }
}

extension OwnerOperation {
    /// Whether the operation may hide its user, or may undo what has hidden the user.
    fileprivate var mayHide: Bool { if case .chain = self { true } else { isOfVisibility } }

    fileprivate var isOfVisibility: Bool { if case .setVisibility = self { true } else { false } }
}

extension CoreSettings {
    /// The longest wait of a call that hides a user: half of ``callTimeout``.
    fileprivate var longestHide: Duration { callTimeout / 2 }
}
