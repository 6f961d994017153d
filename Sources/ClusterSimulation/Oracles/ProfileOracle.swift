import PresenceCore
import PresenceWire

/// The values that the fields of profiles may have, by the answers of the calls that set them.
///
/// Its inputs are the begin of a call, its answer, and the rows that nodes keep. It knows no nodes: see ``ProfileChecks``.
struct ProfileOracle {
    /// The knowledge of the cluster when it answered a call.
    enum Trust {
        /// All nodes know what was acknowledged before.
        case complete
        /// Another owner may not know the change yet. The clocks of all owners are nearly right.
        case partial
        /// Another owner may not know the change yet, and may have another time.
        case none
    }

    /// A call that sets a field.
    private struct Write {
        let user: Int
        let field: String
        /// Nil for a field that was never set.
        let value: FieldValue?
        let askedAt: Nanoseconds
        /// Nil without an answer: the call may take effect at any later time.
        var answeredAt: Nanoseconds?
        var trust = Trust.complete

        /// Whether this value has replaced the one of another call for good.
        func replaces(_ other: Write) -> Bool {
            guard answeredAt != nil, let endedAt = other.answeredAt else { return false }
            switch (other.value, trust) {
            case (nil, _): return value != nil
            case (_, .complete): return askedAt > endedAt
            // A call that sets the value that a field has gives it no newer version.
            case (_, .partial): return !isRepeatable && askedAt > endedAt + ProfileOracle.driftMax
            case (_, .none): return false
            }
        }

        private var isRepeatable: Bool { field == Profile.Standard.allowType.rawValue }
    }

    /// The most that the clocks of two owners differ, if no clock jumps.
    private static let driftMax = Nanoseconds.milliseconds(100)

    /// The time at which a node first had a profile in each version.
    private(set) var writtenAt: [Version: Nanoseconds] = [:]
    /// The calls of all users, the earliest first.
    private var writes: [Write] = []
    /// For each user those to whose profiles the user has subscribed, in the past or now.
    private var subscribed: [Set<Int>]
    /// Whether a call about profiles was made.
    var isUsed: Bool { !writes.isEmpty }

    init(usersCount: Int) { subscribed = Array(repeating: [], count: usersCount) }

    // MARK: Calls

    mutating func ask(_ changes: [Profile.Change], by user: Int, at now: Nanoseconds) {
        for change in changes { writes.append(Write(user: user, field: change.name, value: change.value, askedAt: now)) }
    }

    mutating func subscribe(_ user: Int, to targets: [Int]) { subscribed[user].formUnion(targets) }

    mutating func answered(_ changes: [Profile.Change], by user: Int, askedAt: Nanoseconds, _ trust: Trust, at now: Nanoseconds) {
        for index in indices(changes, user, askedAt) { (writes[index].answeredAt, writes[index].trust) = (now, trust) }
    }

    /// Records that a call has changed nothing, unless it may still take effect.
    mutating func refused(_ asked: SimulatedCall, mayTakeEffect: Bool) {
        guard case .owner(.friendCall(.modifyProfile(let changes))) = asked.call, !mayTakeEffect else { return }
        for index in indices(changes, asked.user, asked.at).reversed() { writes.remove(at: index) }
    }

    /// Records the rows that a node is about to keep.
    mutating func keep(_ rows: [Row], at now: Nanoseconds) {
        for row in rows where row.kind == .profile && writtenAt[row.version] == nil { writtenAt[row.version] = now }
    }

    /// The writes of one call that has no answer yet.
    private func indices(_ changes: [Profile.Change], _ user: Int, _ askedAt: Nanoseconds) -> [Int] {
        changes.compactMap { change in
            writes.firstIndex {
                $0.user == user && $0.askedAt == askedAt && $0.answeredAt == nil && $0.field == change.name && $0.value == change.value
            }
        }.sorted()
    }

    // MARK: Facts

    /// The values that a field may have had since a moment; nil among them if it may have been unset.
    func possibleValues(of field: Profile.Standard, of user: Int, since moment: Nanoseconds = .max) -> [FieldValue?] {
        let unset = Write(user: user, field: field.rawValue, value: nil, askedAt: .min, answeredAt: .min)
        let all = [unset] + writes.filter { $0.user == user && $0.field == field.rawValue }
        let later = all.filter { ($0.answeredAt ?? .max) < moment }
        return all.filter { write in !later.contains { $0.replaces(write) } }.map(\.value)
    }

    /// Whether a user may follow the profile of another by a subscription.
    func mayFollow(_ user: Int, _ target: Int) -> Bool { subscribed[user].contains(target) }
}
