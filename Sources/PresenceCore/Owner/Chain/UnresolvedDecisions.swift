import PresenceWire

/// Unresolved decisions of other users, whose rows here may not count. This node asks the owners of the users who have decided.
///
/// The node has learned the rows from another node, or has written them itself: just before it ended, or on its own disk alone.
///
/// An owner may die with such rows on its own disk alone, or apply a copy of a command whose first copy another owner has refused. The
/// user who has decided was then told the refusal. That user's owner alone knows how a decision has ended. It has the rows of the end, or
/// none. If it has none, this node removes the rows of the other side. If it does not own that user, it sends the owner the tombstones.
struct UnresolvedDecisions {
    /// The age up to which a decision counts as unresolved. The tombstones of its end are kept for longer.
    private static let ageMax = CoreSettings.tombstoneHorizon - Chain.ageMax

    private struct Decision {
        let version: Version
        var askAt: Instant
    }

    private var decisions: [ChainPair: Decision] = [:]

    /// The number of decisions whose owners have not answered.
    var count: Int { decisions.count }

    /// Adds decisions whose rows this node has learned or written. Beyond the limit the rows stay as they are.
    mutating func add(_ learned: [LearnedDecision], countMax: Int, at now: Now) {
        for decision in learned where decisions[decision.pair] != nil || decisions.count < countMax {
            guard now.wall - decision.version.milliseconds < Self.ageMax else { continue }
            if let known = decisions[decision.pair], known.version.stamp > decision.version.stamp { continue }
            decisions[decision.pair] = Decision(version: decision.version, askAt: now.instant)
        }
    }

    /// Asks the owners of the users who have decided. Called at every tick.
    mutating func tick(_ owner: borrowing Owner, _ cluster: inout Cluster, at now: Now) {
        guard !decisions.isEmpty else { return }
        for pair in decisions.filter({ $0.value.askAt <= now.instant }).keys.sorted() {
            guard let decision = decisions[pair] else { continue }
            guard now.wall - decision.version.milliseconds < Self.ageMax else {
                decisions[pair] = nil
                continue
            }
            decisions[pair]?.askAt = now.instant + Chain.repeatInterval
            guard let user = owner.index(ofKnown: pair.other) else {
                decisions[pair] = nil
                // The user has moved away with all rows.
                let passedOn = ChainVerify(pair: pair, version: decision.version, verdict: .isUnresolved)
                if cluster.owner(of: pair.other) != 0 { cluster.send(.chainVerify(passedOn), toOwnerOf: pair.other) }
                continue
            }
            guard !owner.users[user].kinds(writtenBy: decision.version, of: pair.user).isEmpty else {
                decisions[pair] = nil
                continue
            }
            cluster.send(.chainVerify(ChainVerify(pair: pair, version: decision.version, verdict: .asked)), toOwnerOf: pair.user)
        }
    }

    /// Answers the question of another node, or ends one with the answer.
    mutating func onVerify(_ verify: ChainVerify, from peer: PeerIndex, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now) {
        let pair = verify.pair
        guard verify.verdict != .asked else {
            guard let verdict = Self.verdict(on: verify.version, of: pair, owner, cluster, at: now) else { return }
            return cluster.send(.chainVerify(ChainVerify(pair: pair, version: verify.version, verdict: verdict)), to: peer)
        }
        guard verify.verdict != .isUnresolved else {
            return add([LearnedDecision(pair: pair, version: verify.version)], countMax: cluster.settings.callsMax, at: now)
        }
        // An owner that was cut off may lack the decision, which is open here as a replica. It learns the decision, and is asked again.
        if verify.verdict == .isVoid, Self.isOpen(verify.version, of: pair, owner) { return }
        if decisions[pair]?.version == verify.version { decisions[pair] = nil }
        let gone: [Row.Kind] =
            switch verify.verdict {
            case .isVoid: [.friend, .pendencyIn]
            case .isDone: [.pendencyIn]
            case .isPending: [.friend]
            case .asked, .isUnresolved, .holds: []
            }
        guard let user = owner.index(ofKnown: pair.other) else { return }
        let kinds = owner.users[user].kinds(writtenBy: verify.version, of: pair.user).filter(gone.contains)
        guard !kinds.isEmpty else { return }
        let stamp = verify.verdict == .isVoid ? verify.version.voidStamp : verify.version.correctionStamp
        let version = Version(stamp: stamp, node: owner.clock.node)
        let removals = kinds.map { ChainRules.Change.remove($0, String(pair.user.id)) }
        owner.write(removals, of: user, decidedAt: version, in: &cluster.outbox[at: now])
        guard owner.users[user].isReplica else { return }
        cluster.outbox.rowsForOwners += kinds.compactMap { kind in
            owner.users[user].list(kind).entry(for: String(pair.user.id)).map { Row($0, of: pair.other, kind) }
        }
    }

    /// Whether this node has the row of a decision that has not ended.
    private static func isOpen(_ version: Version, of pair: ChainPair, _ owner: borrowing Owner) -> Bool {
        guard let user = owner.index(ofKnown: pair.user),
            let entry = owner.users[user].list(.chainOutbox).entry(for: String(pair.other.id))
        else { return false }
        return !entry.isRemoved && entry.version.stamp == version.stamp
    }

    /// The end of a decision; nil if this node does not know it now. Then it is asked again.
    private static func verdict(
        on version: Version, of pair: ChainPair, _ owner: borrowing Owner, _ cluster: borrowing Cluster, at now: Now
    ) -> ChainVerify.Verdict? {
        guard cluster.decides(pair.user), cluster.ownership.isStable, !owner.listsMayBeIncomplete else { return nil }
        let user = owner.index(ofKnown: pair.user)
        let verdict = user.map { owner.users[$0].verdict(on: version, about: pair.other) } ?? .isVoid
        return verdict == .isVoid && !hasRows(ofWriterOf: version, cluster, at: now) ? nil : verdict
    }

    /// Whether this node has all rows of the live members, and the writer of a decision's rows is one of them. A node that was cut off or
    /// paused may still have the decision open.
    ///
    /// The version of a row names the node that has applied the decision. Any other live member may be the one that has made it.
    private static func hasRows(ofWriterOf version: Version, _ cluster: borrowing Cluster, at now: Now) -> Bool {
        guard !cluster.lacksRowsOfMember else { return false }
        if now.wall - version.milliseconds >= lastMilliseconds { return true }
        for peer in cluster.peers.indices where cluster.peers[peer].peer.versionNode == version.node {
            return peer == 0 || cluster.peers[peer].isAlive
        }
        return false
    }

    /// Has the node that has applied a decision ask about it, because the decision is not open here: it has ended, perhaps otherwise.
    ///
    /// That node has the rows, whichever node owns the other user by now.
    static func report(_ applied: ChainApplied, to peer: PeerIndex, _ cluster: inout Cluster) {
        if case .refused = applied.result { return }
        cluster.send(.chainVerify(ChainVerify(pair: applied.pair, version: applied.version, verdict: .isUnresolved)), to: peer)
    }
}

extension UnresolvedDecisions {
    /// The time before the newest row on disk in which a row may not have reached a second disk. An answer waits for two disks for
    /// ``CoreSettings/replicationTimeout``, which is shorter.
    private static let lastMilliseconds: Milliseconds = 10_000

    /// The decisions of other users whose rows this node has written last. Called at the start, when the rows have been loaded.
    static func lastDecisions(of owner: borrowing Owner) -> [LearnedDecision] {
        var newest = Milliseconds.min
        for user in owner.users.allIndices where owner.users.isLive(user) && !owner.users[user].lists.isEmpty {
            newest = max(newest, owner.users[user].lists.version.milliseconds)
        }
        guard newest > .min else { return [] }
        let start = Version(milliseconds: newest - Self.lastMilliseconds, counter: 0, node: 0)
        var decisions: [LearnedDecision] = []
        for user in owner.users.allIndices where owner.users.isLive(user) {
            for kind in [Row.Kind.friend, .pendencyIn] where owner.users[user].list(kind).version > start {
                let id = owner.users.user(at: user)
                for entry in owner.users[user].list(kind).page(changedAfter: start, limit: .max, withTombstones: false)
                where entry.version.node == owner.clock.node {
                    if let decision = Row(entry, of: id, kind).decisionOfOther { decisions.append(decision) }
                }
            }
        }
        return decisions
    }
}

extension ChainRules.Change {
    /// Whether the row of the change would look like that of a decision which has added the friend: see ``Row/decision``.
    func seemsDecided(at version: Version) -> Bool {
        guard let friend = fact as? Friend else { return false }
        return friend.addTime == version.milliseconds && version.mayBeOfDecision
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
        guard addTime == version.milliseconds, let pair = version.decision(between: user, UserID(key, besides: user)) else { return nil }
        return LearnedDecision(pair: pair, version: version)
    }

    /// The decision of the other user that has added a friend or a received request. That user's owner knows whether it counts.
    ///
    /// A user's own decision is in that user's own rows. An addition to one list alone may have left nothing with the other user.
    var decisionOfOther: LearnedDecision? { decision.flatMap { $0.pair.user == user ? nil : $0 } }
}
