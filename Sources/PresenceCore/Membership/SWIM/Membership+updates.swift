import PresenceWire

/// The handling of membership updates.
extension Membership {
    /// The outcome of a received update.
    enum UpdateOutcome {
        case news
        /// The update is known, or not plausible.
        case nothing
        /// This node knows a newer update.
        case stale
    }

    /// Receives an update that came with a message.
    ///
    /// - Parameter isFromPage: whether it is part of a full exchange. Such updates may be old, and after a split they are. A member that is
    /// dead there but alive here is only suspected, so that it can refute before a node drops it (as memberlist does). The suspicion
    /// names no suspecter: many messages repeat the updates of one split, and repeats are no independent confirmations.
    @discardableResult
    mutating func apply(_ update: MembershipUpdate, isFromPage: Bool = false, at now: Now) -> UpdateOutcome {
        if update.member.id == own.id { return applyToOwn(update, at: now) }
        guard isPlausible(update.member, at: now) else { return .nothing }
        guard let memberIndex = memberIndices[update.member.id], table[memberIndex].state != nil else {
            return applyToUnknown(update, at: now)
        }
        let known = self.update(memberIndex)
        let base = update.member.generation == known.member.generation ? known.incarnation : 0
        guard isPlausible(update.incarnation, after: base) else { return .nothing }
        var update = update
        if isFromPage, update.state == .dead, known.state.isLive, update.member.generation == known.member.generation {
            update.state = .suspect
            update.suspecter = nil
        }
        if update.isNewer(than: known) {
            adopt(update, at: memberIndex, now)
            return .news
        }
        if known.isNewer(than: update) { return .stale }
        if update.state == .suspect, let suspecter = update.suspecter { confirm(memberIndex, by: suspecter) }
        return .nothing
    }

    /// Receives an update about an unknown member.
    ///
    /// Only live members are added: a node that has removed a dead member must not learn of it again. If the address is known, as from this
    /// node's disk, the member may count towards the quorum here. Then this node also needs to know that it has left.
    private mutating func applyToUnknown(_ update: MembershipUpdate, at now: Now) -> UpdateOutcome {
        let known = memberIndices[update.member.id]
        guard update.state.isLive || (update.state == .left && known != nil), isPlausible(update.incarnation, after: 0),
            let memberIndex = known ?? add(update.member, at: now)
        else { return .nothing }
        adopt(update, at: memberIndex, now)
        return .news
    }

    /// Receives an update about this node, and refutes any that this node has not sent itself (SWIM §4.2).
    private mutating func applyToOwn(_ update: MembershipUpdate, at now: Now) -> UpdateOutcome {
        let known = self.update(Self.ownIndex)
        if update.member.generation > own.generation {
            guard isPlausible(update.member, at: now), update.member.generation > generationMax else { return .nothing }
            generationMax = update.member.generation
            effects.append(.superseded(by: update.member))
            return .nothing
        }
        table[Self.ownIndex].recordPredecessor(update, at: now.instant)
        guard update.isNewer(than: known) else {
            // The refutation of a suspicion may have passed the news of the death on the way. The death is then refuted before it arrives.
            if update.state == .dead, update.incarnation < known.incarnation, update.member.generation == own.generation {
                recordDeath(update)
            }
            return known.isNewer(than: update) ? .stale : .nothing
        }
        guard isPlausible(update.incarnation, after: known.incarnation) else { return .nothing }
        guard update.incarnation < .max else {
            counters.incarnationsExhausted += 1
            return .nothing
        }
        counters.refutations += 1
        if !update.state.isLive { recordDeath(update) }
        if update.state == .suspect || update.state == .dead { worsenHealth(by: 1) }
        table[Self.ownIndex].incarnation = update.incarnation
        restate(known.state, known.role, at: now)
        return .stale
    }

    /// Records that others have declared this node dead and gone on without it. Each death counts once, however many members repeat it.
    private mutating func recordDeath(_ update: MembershipUpdate) {
        guard update.incarnation >= deathsKnown else { return }
        deathsKnown = update.incarnation + 1
        effects.append(.wasDeclaredDead)
    }

    /// Publishes a new state of this node, with a higher incarnation.
    mutating func restate(_ state: MemberState, _ role: MemberRole, at now: Now) {
        if table[Self.ownIndex].incarnation < .max { table[Self.ownIndex].incarnation += 1 }
        table[Self.ownIndex].state = state
        table[Self.ownIndex].role = role
        refreshFingerprint(Self.ownIndex)
        queue.insert(Self.ownIndex)
        nextGossipAt = min(nextGossipAt, now.instant)
    }

    /// Stores a newer update, and passes it on.
    mutating func adopt(_ update: MembershipUpdate, at memberIndex: Int, _ now: Now) {
        let old = table[memberIndex]
        // A live member that was declared dead may never have received that update, nor any later one. It needs to know them.
        let isBack = old.state == .dead && update.state.isLive && update.member.generation == old.peer.generation
        if isBack { table[memberIndex].earlier = old.update }
        let isOtherProcess = old.state == nil || update.member.generation > old.peer.generation
        if isOtherProcess { table[memberIndex].replaceProcess(by: update.member, at: now.instant) }
        if isBack || isOtherProcess, let notice = notice(to: old.peer.id) { effects.append(.send(notice, to: old.peer.id)) }
        table[memberIndex].state = update.state
        table[memberIndex].incarnation = update.incarnation
        table[memberIndex].role = update.role
        table[memberIndex].suspecter = update.suspecter
        if isOtherProcess || old.state != update.state { table[memberIndex].changedAt = now.instant }
        setLive(memberIndex, update.state.isLive)
        refreshFingerprint(memberIndex)
        suspicions.removeAll { $0.memberIndex == memberIndex }
        if update.state == .suspect { suspect(memberIndex, by: update.suspecter, at: now) }
        queue.insert(memberIndex)
        if isBack { compare(with: old.peer.id) }
        let isChanged = isOtherProcess || old.state != update.state || old.role != update.role
        if isChanged { effects.append(.changed(table[memberIndex].peer, update.state, update.role)) }
        if isOtherProcess, update.state.isLive { effects.append(.connect(table[memberIndex].peer)) }
    }

    /// The update of a member whose state is known.
    func update(_ memberIndex: Int) -> MembershipUpdate { table[memberIndex].update }

    mutating func isPlausible(_ peer: Peer, at now: Now) -> Bool {
        let latest = now.wall.addingReportingOverflow(settings.generationAheadMax.wholeMilliseconds)
        guard Limits.isValidName(peer.id.rawValue), peer.generation <= UInt64(max(0, latest.overflow ? .max : latest.partialValue)) else {
            counters.updatesRefused += 1
            return false
        }
        return true
    }

    private mutating func isPlausible(_ incarnation: UInt64, after base: UInt64) -> Bool {
        guard incarnation <= base || incarnation - base <= settings.incarnationJumpMax else {
            counters.updatesRefused += 1
            return false
        }
        return true
    }
}
