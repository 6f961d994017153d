import PresenceWire

/// What a node does while its disk takes nothing, for instance because it is full: presence goes on, durable changes are refused before
/// they change anything, and the disk is tried until it takes rows again. The store keeps what it could not write (design §6).
extension Node {
    /// What this node knows of its disk.
    struct Disk {
        /// The last write failed.
        var isFailing = false
        var nextTryAt = Instant.farFuture
    }

    /// Why a change of `user` cannot be made durable now; nil when it can.
    func refusalOfChange(of user: UserID) -> Refusal? {
        if disk.isFailing { return .notDurable }
        return canBeDurable(user) ? nil : .notReplicated
    }

    mutating func noteDisk(isDurable: Bool, at now: Now) {
        if !isDurable, !disk.isFailing { disk.nextTryAt = now.instant + settings.diskRetryInterval }
        disk.isFailing = !isDurable
        if isDurable { disk.nextTryAt = .farFuture }
    }

    /// An empty write: it succeeds once the store has written what it kept.
    mutating func retryDisk(at now: Now) {
        guard now.instant >= disk.nextTryAt else { return }
        disk.nextTryAt = now.instant + settings.diskRetryInterval
        nextTicket += 1
        effects.append(.persist([], ticket: nextTicket, isUrgent: true))
    }
}
