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
        if doubts[pair]?.version == verify.version { doubts[pair] = nil }
        let gone: [Row.Kind] =
            switch verify.verdict {
            case .isVoid: [.friend, .pendencyIn]
            case .isDone: [.pendencyIn]
            case .isPending: [.friend]
            case .asked, .holds: []
            }
        let kinds = owner.kinds(writtenBy: verify.version, of: pair).filter(gone.contains)
        guard !kinds.isEmpty, let user = owner.index(ofKnown: pair.other) else { return }
        // Just newer than the decision: a later decision of either user is newer still, whichever clock it has.
        let version = Version(stamp: verify.version.stamp + 1, node: owner.clock.node)
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

    /// Corrects the effect of a decision that has ended here with another one: an earlier copy was refused, or applied otherwise.
    static func correct(_ applied: ChainApplied, _ owner: borrowing Owner, _ cluster: inout Cluster, at now: Now) {
        guard now.wall - applied.version.milliseconds < ageMax,
            let verdict = verdict(on: applied.version, of: applied.pair, owner, cluster)
        else { return }
        switch (applied.result, verdict) {
        case (.done, .isVoid), (.pending, .isVoid), (.done, .isPending), (.pending, .isDone):
            send(verdict, on: applied.version, of: applied.pair, &cluster)
        default: break
        }
    }
}

extension Owner {
    /// The end of a user's decision by the rows that it has left in that user's lists; nil while one about the same user is open.
    fileprivate func verdict(on version: Version, of pair: ChainPair) -> ChainVerify.Verdict? {
        guard let user = index(ofKnown: pair.user) else { return .isVoid }
        let other = String(pair.other.id)
        if users[user].list(.chainOutbox).contains(other) { return nil }
        var verdict = ChainVerify.Verdict.isVoid
        for kind in [Row.Kind.friend, .pendencyIn, .pendencyOut] {
            let list = users[user].list(kind)
            // From a list with so many rows, tombstones have gone before their time.
            if list.count >= RowList.tombstonesMax { return .holds }
            guard let entry = list.entry(for: other), entry.version.stamp >= version.stamp else { continue }
            if entry.version.stamp > version.stamp { return .holds }
            if kind == .friend, !entry.isRemoved { return .isDone }
            verdict = kind == .pendencyOut && !entry.isRemoved ? .isPending : .isDone
        }
        return verdict
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
