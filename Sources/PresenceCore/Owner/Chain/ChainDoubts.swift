import PresenceWire

/// Rows of other users' decisions that a second disk may not have had, and about which the owner asks whether the decision still counts.
///
/// The owner has learned them from another node, or has written them itself just before it ended.
///
/// An owner may die with such rows on its own disk alone, or apply a copy of a command whose first copy another owner has refused. The
/// user who has decided was then told the refusal. That user's owner alone knows how a decision has ended. It has the rows of the end, or
/// none. If it has none, the rows of the other side are removed.
struct ChainDoubts {
    /// The age up to which a decision is doubted. The tombstones of its end are kept for longer.
    private static let ageMax = CoreSettings.tombstoneHorizon - Chain.ageMax

    private struct Doubt {
        let version: Version
        var askAt: Instant
    }

    private var doubts: [ChainPair: Doubt] = [:]

    /// The number of decisions whose owners have not answered.
    var count: Int { doubts.count }

    /// Adds decisions whose rows this owner has learned, or has written last. Beyond the limit the rows stay as they are.
    mutating func add(_ learned: [LearnedDecision], countMax: Int, at now: Now) {
        for decision in learned where doubts[decision.pair] != nil || doubts.count < countMax {
            guard now.wall - decision.version.milliseconds < Self.ageMax else { continue }
            doubts[decision.pair] = Doubt(version: decision.version, askAt: now.instant)
        }
    }

    /// Asks the owners of the users who have decided. Called at every tick.
    mutating func tick(_ owner: borrowing Owner, _ cluster: inout Cluster, at now: Now) {
        guard !doubts.isEmpty else { return }
        for pair in doubts.filter({ $0.value.askAt <= now.instant }).keys.sorted() {
            guard let doubt = doubts[pair] else { continue }
            let isOver = now.wall - doubt.version.milliseconds >= Self.ageMax
            guard !isOver, !owner.kinds(writtenBy: doubt.version, of: pair).isEmpty else {
                doubts[pair] = nil
                continue
            }
            doubts[pair]?.askAt = now.instant + Chain.repeatInterval
            // While another node owns the user, that node has learned the rows from this one, and asks.
            guard cluster.decides(pair.other) else { continue }
            cluster.send(.chainVerify(ChainVerify(pair: pair, version: doubt.version, verdict: .asked)), toOwnerOf: pair.user)
        }
    }

    /// Answers the question of another owner, or ends one with the answer.
    mutating func onVerify(_ verify: ChainVerify, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now) {
        let pair = verify.pair
        guard verify.verdict != .asked else {
            guard let verdict = Self.verdict(on: verify.version, of: pair, owner, cluster) else { return }
            return Self.send(verdict, on: verify.version, of: pair, &cluster)
        }
        guard cluster.decides(pair.other) else { return }
        guard verify.verdict != .isDoubted else {
            return add([LearnedDecision(pair: pair, version: verify.version)], countMax: cluster.settings.callsMax, at: now)
        }
        if doubts[pair]?.version == verify.version { doubts[pair] = nil }
        let gone: [Row.Kind] =
            switch verify.verdict {
            case .isVoid: [.friend, .pendencyIn]
            case .isDone: [.pendencyIn]
            case .isPending: [.friend]
            case .asked, .isDoubted, .holds: []
            }
        let kinds = owner.kinds(writtenBy: verify.version, of: pair).filter(gone.contains)
        guard !kinds.isEmpty, let user = owner.index(ofKnown: pair.other) else { return }
        let stamp = verify.verdict == .isVoid ? verify.version.voidStamp : verify.version.correctionStamp
        let version = Version(stamp: stamp, node: owner.clock.node)
        let removals = kinds.map { ChainRules.Change.remove($0, String(pair.user.id)) }
        owner.write(removals, of: user, decidedAt: version, at: now, into: &cluster.outbox)
    }

    /// The end of a decision; nil if this node does not know it now. Then it is asked again.
    private static func verdict(
        on version: Version, of pair: ChainPair, _ owner: borrowing Owner, _ cluster: borrowing Cluster
    ) -> ChainVerify.Verdict? {
        guard cluster.decides(pair.user), !owner.listsMayBeIncomplete else { return nil }
        return owner.verdict(on: version, of: pair)
    }

    private static func send(_ verdict: ChainVerify.Verdict, on version: Version, of pair: ChainPair, _ cluster: inout Cluster) {
        cluster.send(.chainVerify(ChainVerify(pair: pair, version: version, verdict: verdict)), toOwnerOf: pair.other)
    }

    /// Has another owner ask about a decision that it has applied, and that is not open here: it has ended, perhaps otherwise.
    static func doubt(_ applied: ChainApplied, _ cluster: inout Cluster) {
        if case .refused = applied.result { return }
        send(.isDoubted, on: applied.version, of: applied.pair, &cluster)
    }
}

extension VersionClock {
    /// The version of a user's next decision about another.
    ///
    /// Of four stamps that follow one another, each of the two users has one for the decisions about the other. So two decisions of a pair
    /// never have the same stamp. The other two are for the end of such a decision: newer than its rows, and older than a later decision.
    mutating func nextDecision(of pair: ChainPair, at now: Now) -> Version { next(at: now.wall, ofFour: pair.place) }
}

extension Owner {
    /// The version of a decision that a user has made by a call: that of the call, unless the user's lists have a newer row.
    ///
    /// A call may be carried out twice: by the owner to which it was repeated, and by the owner before, which was paused. Both then make
    /// one decision with one version. What the user has decided since is newer.
    mutating func versionOfDecision(of pair: ChainPair, begunAt: Version, at now: Now) -> Version {
        let version = Version(stamp: (begunAt.stamp | 3) + 1 + pair.place, node: clock.node)
        guard begunAt > .zero, version.stamp > index(ofKnown: pair.user).map({ users[$0].lists.version.stamp }) ?? 0 else {
            return clock.nextDecision(of: pair, at: now)
        }
        clock.observe(version)
        return version
    }
}

extension ChainPair {
    /// The place of the decisions of this user about the other one among four stamps that follow one another.
    fileprivate var place: UInt64 { user < other ? 0 : 1 }
}

extension Version {
    /// The stamp of the tombstones of a decision that does not count.
    fileprivate var voidStamp: UInt64 { stamp | 2 }

    /// The stamp of the tombstones of rows that a decision was not to leave.
    fileprivate var correctionStamp: UInt64 { stamp | 3 }
}

extension Owner {
    /// Whether rows of the decision were removed here, because it does not count. A copy that arrives later ends as refused.
    ///
    /// The owner who sends it may not be the one who has said so: while a paused node returns, a user can have two owners.
    func isVoid(_ version: Version, of pair: ChainPair) -> Bool {
        guard let user = index(ofKnown: pair.other) else { return false }
        return [Row.Kind.friend, .pendencyIn].contains { kind in
            users[user].list(kind).entry(for: String(pair.user.id)).map { $0.isRemoved && $0.version.stamp == version.voidStamp } ?? false
        }
    }

    /// The end of a user's decision by the rows that it has left in that user's lists; nil while one about the same user is open.
    ///
    /// Only decisions that add rows on the other side are asked about: a request, and the approval of one. Every end of a request has a row
    /// among the sent ones, and that of an approval among the received ones.
    fileprivate func verdict(on version: Version, of pair: ChainPair) -> ChainVerify.Verdict? {
        guard let user = index(ofKnown: pair.user) else { return .isVoid }
        let other = String(pair.other.id)
        if users[user].list(.chainOutbox).contains(other) { return nil }
        let (sent, received) = (users[user].list(.pendencyOut), users[user].list(.pendencyIn))
        // From a list with so many rows, tombstones have gone before their time.
        if max(sent.count, received.count) >= RowList.tombstonesMax { return .holds }
        let ends = [sent, received].compactMap { $0.entry(for: other) }.filter { $0.version.stamp >= version.stamp }
        if ends.isEmpty { return .isVoid }
        if let friend = users[user].list(.friend).entry(for: other), !friend.isRemoved, friend.version.stamp == version.stamp {
            return .isDone
        }
        guard let end = ends.first(where: { $0.version.stamp == version.stamp }) else { return .holds }
        return end.isRemoved ? .isDone : .isPending
    }

    /// The lists of `pair.other` with a row that a decision of `pair.user` has added.
    fileprivate func kinds(writtenBy version: Version, of pair: ChainPair) -> [Row.Kind] {
        guard let user = index(ofKnown: pair.other) else { return [] }
        return [Row.Kind.friend, .pendencyIn].filter { kind in
            guard let entry = users[user].list(kind).entry(for: String(pair.user.id)), !entry.isRemoved else { return false }
            return entry.version.stamp == version.stamp
        }
    }
}

extension Owner {
    /// The time before the newest row on disk in which a row may not have reached a second disk. An answer waits for two disks for
    /// ``CoreSettings/replicationTimeout``, which is shorter.
    private static let lastMilliseconds: Milliseconds = 10_000

    /// The decisions of other users whose rows this node has written last. Called at the start, when the rows have been loaded.
    func lastDecisions() -> [LearnedDecision] {
        var newest = Milliseconds.min
        for user in users.allIndices where users.isLive(user) && !users[user].lists.isEmpty {
            newest = max(newest, users[user].lists.version.milliseconds)
        }
        guard newest > .min else { return [] }
        let start = Version(milliseconds: newest - Self.lastMilliseconds, counter: 0, node: 0)
        var decisions: [LearnedDecision] = []
        for user in users.allIndices where users.isLive(user) {
            for kind in [Row.Kind.friend, .pendencyIn] where users[user].list(kind).version > start {
                let last = users[user].list(kind).page(changedAfter: start, limit: .max, withTombstones: false)
                decisions += last.filter { $0.version.node == clock.node }.compactMap { Row($0, of: users.user(at: user), kind).decision }
            }
        }
        return decisions
    }
}

extension Row {
    /// The decision that has added a friend or a received request; nil for any other row.
    ///
    /// The time of the friend or the request is that of the decision. A later change keeps that time, and has its own version.
    var decision: LearnedDecision? {
        let addTime: Milliseconds? =
            switch kind {
            case .friend where value != nil: (try? Friend(self))?.addTime
            case .pendencyIn where value != nil: (try? ReceivedRequest(self))?.addTime
            default: nil
            }
        guard addTime == version.milliseconds else { return nil }
        return LearnedDecision(pair: ChainPair(user: UserID(app: String(user.app), id: key), other: user), version: version)
    }
}
