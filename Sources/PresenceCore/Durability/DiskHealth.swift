import PresenceWire

/// Whether the disk takes rows.
///
/// While it takes none, for instance because it is full, presence goes on. The node refuses durable changes before they change anything, and
/// tries the disk until it takes rows again. The store keeps what it could not write.
struct DiskHealth {
    /// The last write failed.
    private(set) var isFailing = false
    private var nextTryAt = Instant.farFuture

    /// A write has ended.
    mutating func note(isDurable: Bool, retryAfter interval: Duration, at now: Now) {
        if !isDurable, !isFailing { nextTryAt = now.instant + interval }
        isFailing = !isDurable
        if isDurable { nextTryAt = .farFuture }
    }

    /// Whether the disk is to be tried now, by an empty write: it succeeds once the store has written what it kept.
    mutating func takeRetry(after interval: Duration, at now: Now) -> Bool {
        guard now.instant >= nextTryAt else { return false }
        nextTryAt = now.instant + interval
        return true
    }
}
