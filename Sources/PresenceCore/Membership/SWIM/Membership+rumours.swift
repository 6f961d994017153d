import PresenceWire

/// The handling of membership updates.
extension Membership {
    /// The outcome of a received update.
    enum Hearing {
        case news
        /// The update is known, or not plausible.
        case nothing
        /// This node knows a newer update.
        case stale
    }

    /// Receives an update that came with a message.
    ///
    /// - Parameter isFromPage: whether it is part of a full exchange. Such updates may be old, and after a split they are. A member that is
    /// dead there but alive here is only suspected, so that it can refute before a node drops it (as memberlist does). The suspicion has no
    /// suspecter: a thousand pages that repeat the news of one split are no independent confirmations.
    @discardableResult
    mutating func hear(_ rumour: Rumour, isFromPage: Bool = false, at now: Now) -> Hearing {
        if rumour.member.id == own.id { return hearOfOwn(rumour, at: now) }
        guard isPlausible(rumour.member, at: now) else { return .nothing }
        guard let place = places[rumour.member.id], table[place].state != nil else { return hearOfStranger(rumour, at: now) }
        let known = self.rumour(place)
        let base = rumour.member.generation == known.member.generation ? known.incarnation : 0
        guard isPlausible(rumour.incarnation, after: base) else { return .nothing }
        var rumour = rumour
        if isFromPage, rumour.state == .dead, known.state.isLive, rumour.member.generation == known.member.generation {
            rumour.state = .suspect
            rumour.accuser = nil
        }
        if rumour.isNewer(than: known) {
            adopt(rumour, at: place, now)
            return .news
        }
        if known.isNewer(than: rumour) { return .stale }
        if rumour.state == .suspect, let accuser = rumour.accuser { confirm(place, by: accuser, at: now) }
        return .nothing
    }

    /// Receives an update about an unknown member.
    ///
    /// Only live members are added: a node that has removed a dead member must not learn of it again. If the address is known, as from this
    /// node's disk, the member may count towards the quorum here. Then this node also needs to know that it has left.
    private mutating func hearOfStranger(_ rumour: Rumour, at now: Now) -> Hearing {
        let known = places[rumour.member.id]
        guard rumour.state.isLive || (rumour.state == .left && known != nil), isPlausible(rumour.incarnation, after: 0),
            let place = known ?? add(rumour.member, at: now)
        else { return .nothing }
        adopt(rumour, at: place, now)
        return .news
    }

    /// Receives an update about this node, and refutes any that this node has not sent itself (SWIM §4.2).
    private mutating func hearOfOwn(_ rumour: Rumour, at now: Now) -> Hearing {
        let known = self.rumour(Self.ownPlace)
        if rumour.member.generation > own.generation {
            guard isPlausible(rumour.member, at: now), rumour.member.generation > generationMax else { return .nothing }
            generationMax = rumour.member.generation
            effects.append(.superseded(by: rumour.member))
            return .nothing
        }
        guard rumour.isNewer(than: known) else {
            // The refutation of a suspicion may have passed the news of the death on the way. The death is then refuted before it arrives.
            if rumour.state == .dead, rumour.incarnation < known.incarnation, rumour.member.generation == own.generation {
                noteDeath(rumour)
            }
            return known.isNewer(than: rumour) ? .stale : .nothing
        }
        guard isPlausible(rumour.incarnation, after: known.incarnation) else { return .nothing }
        guard rumour.incarnation < .max else {
            counters.incarnationsExhausted += 1
            return .nothing
        }
        counters.refutations += 1
        if !rumour.state.isLive { noteDeath(rumour) }
        if rumour.state == .suspect || rumour.state == .dead { worsenHealth(by: 1) }
        table[Self.ownPlace].incarnation = rumour.incarnation
        restate(known.state, isDraining: known.isDraining, at: now)
        return .stale
    }

    /// Records that others have declared this node dead and gone on without it. Each death counts once, however many members repeat it.
    private mutating func noteDeath(_ rumour: Rumour) {
        guard rumour.incarnation >= deathsHeard else { return }
        deathsHeard = rumour.incarnation + 1
        effects.append(.wasMissed)
    }

    /// Publishes a new state of this node, with a higher incarnation.
    mutating func restate(_ state: MemberState, isDraining: Bool, at now: Now) {
        if table[Self.ownPlace].incarnation < .max { table[Self.ownPlace].incarnation += 1 }
        table[Self.ownPlace].state = state
        table[Self.ownPlace].isDraining = isDraining
        refreshFingerprint(Self.ownPlace)
        queue.insert(Self.ownPlace)
        nextGossipAt = min(nextGossipAt, now.instant)
    }

    /// Stores a newer update, and passes it on.
    mutating func adopt(_ rumour: Rumour, at place: Int, _ now: Now) {
        let old = table[place]
        // A live member that was declared dead may never have received that update. It needs to know.
        if old.state == .dead, rumour.state.isLive, rumour.member.generation == old.card.generation {
            table[place].deathRefuted = old.rumour
            effects.append(.send(MembershipMessage(.gossip, rumours: [old.rumour]), to: old.card.id))
        }
        let isOtherProcess = old.state == nil || rumour.member.generation > old.card.generation
        if isOtherProcess { (table[place].card, table[place].deathRefuted) = (rumour.member, nil) }
        table[place].state = rumour.state
        table[place].incarnation = rumour.incarnation
        table[place].isDraining = rumour.isDraining
        table[place].accuser = rumour.accuser
        if isOtherProcess || old.state != rumour.state { table[place].changedAt = now.instant }
        setLive(place, rumour.state.isLive)
        refreshFingerprint(place)
        suspicions.removeAll { $0.place == place }
        if rumour.state == .suspect { suspect(place, by: rumour.accuser, at: now) }
        queue.insert(place)
        let isChanged = isOtherProcess || old.state != rumour.state || old.isDraining != rumour.isDraining
        if isChanged { effects.append(.changed(table[place].card, rumour.state, isDraining: rumour.isDraining)) }
        if isOtherProcess, rumour.state.isLive { effects.append(.connect(table[place].card)) }
    }

    /// The update of a member whose state is known.
    func rumour(_ place: Int) -> Rumour { table[place].rumour }

    mutating func isPlausible(_ card: Peer, at now: Now) -> Bool {
        let latest = now.wall.addingReportingOverflow(settings.generationAheadMax.wholeMilliseconds)
        guard Limits.isValidName(card.id.rawValue), card.generation <= UInt64(max(0, latest.overflow ? .max : latest.partialValue)) else {
            counters.rumoursRefused += 1
            return false
        }
        return true
    }

    private mutating func isPlausible(_ incarnation: UInt64, after base: UInt64) -> Bool {
        guard incarnation <= base || incarnation - base <= settings.incarnationJumpMax else {
            counters.rumoursRefused += 1
            return false
        }
        return true
    }
}
