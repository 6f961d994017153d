import PresenceWire

/// Whether the disk can write rows.
///
/// While it cannot, for example because it is full, this node gives its slots away. It refuses durable changes before they change anything,
/// and retries the disk. The store keeps the failed rows.
struct DiskHealth {
    enum State: Equatable {
        /// The last write succeeded.
        case sound
        /// The last write failed. The disk is tried again then.
        case failing(nextTryAt: Instant)
        /// Writes succeed again. This node waits for a moment before it takes slots back.
        case returning(since: Instant)
    }

    /// The time that writes must succeed before this node takes slots again. 2 s.
    static let returnAfter = Duration.seconds(2)

    private(set) var state = State.sound

    /// Whether the last write failed.
    var isFailing: Bool { if case .failing = state { true } else { false } }

    /// Whether this node gives its slots away.
    var givesSlotsAway: Bool { state != .sound }

    /// Records the end of a write.
    mutating func note(isDurable: Bool, retryAfter interval: Duration, at now: Now) {
        switch (state, isDurable) {
        case (.failing, true): state = .returning(since: now.instant)
        case (.sound, false), (.returning, false): state = .failing(nextTryAt: now.instant + interval)
        case (.failing, false), (.sound, true), (.returning, true): break
        }
    }

    /// Advances the time. Returns whether to try the disk now, by an empty write. It succeeds once the store has written the kept rows.
    mutating func tick(retryAfter interval: Duration, at now: Now) -> Bool {
        switch state {
        case .sound: return false
        case .failing(let nextTryAt):
            guard now.instant >= nextTryAt else { return false }
            state = .failing(nextTryAt: now.instant + interval)
            return true
        case .returning(let since):
            if now.instant - since >= Self.returnAfter { state = .sound }
            return false
        }
    }
}
