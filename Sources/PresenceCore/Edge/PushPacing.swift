import PresenceWire

/// Spaces the pushes of users who change often (`rate.changes`).
///
/// A user is pushed at once as often as the rate allows. Beyond that the newest record waits, until one more push is allowed. With 20
/// changes in 5 s that is after at most 250 ms. A newer record replaces one that waits.
///
/// Only pushes wait. The view of the node has the newest record, which queries and gateways with their first session for the user receive.
/// A record that takes something away from viewers does not wait (``PresenceWire/Record/takesAway(from:)``).
struct PushPacing {
    typealias Index = UserTable<Int>.Index

    /// The rate of a user, and the time of the change.
    struct Pace {
        let rate: Policy.Rate
        let now: Instant
    }

    /// The pushes of one user that still count, as the time at which none does any more.
    ///
    /// Each push moves the time on by an equal part of the rate's span. The rate is used up when the time is a span ahead.
    struct Allowance {
        private var usedUntil = Instant(nanoseconds: 0)

        /// The time at which one more push is allowed. A time that has passed allows it now.
        func opensAt(_ pace: Pace) -> Instant {
            let next = max(usedUntil, pace.now).nanoseconds + pace.rate.intervalNanoseconds
            return Instant(nanoseconds: next - pace.rate.spanNanoseconds)
        }

        /// Counts a push. Pushes beyond the rate count until a span has passed, and no longer.
        mutating func use(_ pace: Pace) {
            let next = max(usedUntil, pace.now).nanoseconds + pace.rate.intervalNanoseconds
            usedUntil = Instant(nanoseconds: min(next, pace.now.nanoseconds + pace.rate.spanNanoseconds))
        }
    }

    /// The action for a changed record.
    enum OnChange: Equatable { case push, wait }

    /// Most users whose records wait. Beyond it records are pushed at once.
    static let waitingMax = 10_000

    /// When the record of each user that waits is pushed.
    private var waiting = Deadlines<Instant>()
    /// The complete position of the node when each wait began.
    private var positions: [Index: Milliseconds] = [:]
    /// The number of records that were replaced while they waited.
    private(set) var replacedCount: UInt64 = 0

    /// The number of users whose records wait.
    var waitingCount: Int { waiting.count }

    /// The time at which the next record is pushed; far in the future for none.
    var nextPushAt: Instant { waiting.first?.at ?? .farFuture }

    /// The position up to which all records were pushed; `.max` if none waits.
    var pushedUpTo: Milliseconds {
        // order does not matter: the least is taken.
        positions.values.min() ?? .max
    }

    /// Decides about a changed record.
    ///
    /// - Parameters:
    ///   - isUrgent: whether the record may not wait.
    ///   - position: the complete position of the node.
    mutating func changed(
        _ index: Index, _ allowance: inout Allowance, isUrgent: Bool, _ pace: Pace, position: Milliseconds
    ) -> OnChange {
        let isWaiting = waiting.deadline(of: index) != nil
        if isWaiting { replacedCount += 1 }
        let opensAt = allowance.opensAt(pace)
        guard !isUrgent, isWaiting || (opensAt > pace.now && waiting.count < Self.waitingMax) else {
            allowance.use(pace)
            return .push
        }
        guard !isWaiting else { return .wait }
        waiting.set(index, at: opensAt)
        positions[index] = position
        return .wait
    }

    /// Ends the wait of a user, because the newest record is pushed or the view is removed.
    mutating func endWait(of index: Index) {
        guard waiting.count > 0, waiting.deadline(of: index) != nil else { return }
        waiting.remove(index)
        positions[index] = nil
    }

    /// The user with the earliest end of a wait that has passed; nil if there is none.
    func firstDue(at now: Instant) -> Index? {
        guard let (at, index) = waiting.first, at <= now else { return nil }
        return index
    }
}

extension Policy.Rate {
    fileprivate var spanNanoseconds: Int64 { seconds * 1_000_000_000 }
    fileprivate var intervalNanoseconds: Int64 { spanNanoseconds / calls }
}

extension Record {
    /// Whether viewers are shown less than by an older record: the user is not ONLINE any more, or hides from a viewer.
    ///
    /// Such a record is never late. Of a user who comes and goes all the time, absences are pushed at once, and returns as the rate allows.
    /// An absence after a return that was not pushed looks the same to viewers, and is not pushed either.
    func takesAway(from old: Record) -> Bool {
        if statusType != .online, old.statusType == .online { return true }
        guard hasPrivacy, let privacy, privacy.version > old.privacy?.version ?? .zero else { return false }
        return privacy.hides(after: old.privacy)
    }
}

extension Privacy {
    /// Whether a viewer has a newer hidden view, or a first one.
    ///
    /// That of a user who was not ONLINE is the record before, with its version.
    fileprivate func hides(after old: Privacy?) -> Bool {
        if (old?.visibility ?? Visibility()).isClosed(by: visibility) { return true }
        let known = old?.version ?? .zero
        let isNew = { (view: View?) in view.map { $0.admittedAt == 0 && $0.version > known } ?? false }
        return isNew(others) || named.contains { isNew($0.view) }
    }
}
