import PresenceWire

/// Whether the disk can write rows.
///
/// While it cannot, for example because it is full, presence goes on. The node refuses durable changes before they change anything, and
/// retries the disk. The store keeps the failed rows.
struct DiskHealth {
    /// Whether the last write failed.
    private(set) var isFailing = false
    private var nextTryAt = Instant.farFuture

    /// Records the end of a write.
    mutating func note(isDurable: Bool, retryAfter interval: Duration, at now: Now) {
        if !isDurable, !isFailing { nextTryAt = now.instant + interval }
        isFailing = !isDurable
        if isDurable { nextTryAt = .farFuture }
    }

    /// Whether to try the disk now, by an empty write. It succeeds once the store has written the kept rows.
    mutating func takeRetry(after interval: Duration, at now: Now) -> Bool {
        guard now.instant >= nextTryAt else { return false }
        nextTryAt = now.instant + interval
        return true
    }
}
