import PresenceWire

/// The table of members.
extension Membership {
    /// This node.
    public var own: Peer { table[Self.ownPlace].card }

    /// Whether this node drains.
    public var isDraining: Bool { table[Self.ownPlace].isDraining }

    /// The updates of all known members, this node and the dead included, by ID.
    public var members: [Rumour] {
        table.indices.filter { table[$0].state != nil }.map(rumour).sorted { $0.member.id < $1.member.id }
    }

    /// The members of the ring: alive or suspect and not draining, this node included, by ID.
    public var ringMembers: [Peer] {
        table.filter { $0.state?.isLive == true && !$0.isDraining }.map(\.card).sorted { $0.id < $1.id }
    }

    /// The newest update about a member; nil if it is unknown, or known only by address.
    public func rumour(about id: NodeID) -> Rumour? {
        guard let place = places[id], table[place].state != nil else { return nil }
        return rumour(place)
    }

    /// The number of live members, this node included (n).
    public var liveCount: Int { live.count + 1 }

    /// Adds an entry for a node that is not a member yet. Returns its index, or nil if there are too many.
    mutating func add(_ card: Peer, at now: Now) -> Int? {
        if table.count - vacant.count >= settings.membersMax { forgetLongestDead() }
        guard table.count - vacant.count < settings.membersMax else {
            counters.rumoursRefused += 1
            return nil
        }
        let member = Member(card: card, changedAt: now.instant)
        let place = vacant.popLast() ?? table.count
        if place == table.count { table.append(member) } else { table[place] = member }
        places[card.id] = place
        return place
    }

    /// Keeps ``live`` and the probe round in step with a state.
    mutating func setLive(_ place: Int, _ isLive: Bool) {
        guard isLive != (table[place].livePlace >= 0) else { return }
        if isLive {
            table[place].livePlace = live.count
            live.append(place)
            // A new member is probed at a random time of this round (SWIM §4.3).
            round.insert(place, at: Int.random(in: roundPosition...round.count, using: &random))
        } else {
            let hole = table[place].livePlace
            live[hole] = live[live.count - 1]
            table[live[hole]].livePlace = hole
            live.removeLast()
            table[place].livePlace = -1
        }
    }

    mutating func refreshFingerprint(_ place: Int) {
        let member = table[place]
        digest ^= member.fingerprint
        table[place].fingerprint = 0
        guard let state = member.state, state.isLive else { return }
        var hash = StableHash.mix(StableHash.hash64(member.card.id.rawValue.utf8), member.card.generation)
        hash = StableHash.mix(hash, member.incarnation)
        hash = StableHash.mix(hash, UInt64(state.rawValue) << 1 | (member.isDraining ? 1 : 0))
        table[place].fingerprint = hash
        digest ^= hash
    }

    /// Removes members that left so long ago that no update about them is on its way. Dead members stay, because a split may last.
    mutating func forgetLongGone(at now: Now) {
        nextSweepAt = now.instant + .seconds(10)
        for place in table.indices where table[place].state == .left && table[place].changedAt + settings.leftRetention <= now.instant {
            forget(place)
        }
    }

    private mutating func forgetLongestDead() {
        let gone = table.indices.filter(isGone)
        guard let place = gone.min(by: { table[$0].changedAt < table[$1].changedAt }) else { return }
        forget(place)
    }

    private func isGone(_ place: Int) -> Bool { table[place].state.map { !$0.isLive } ?? false }

    private mutating func forget(_ place: Int) {
        places[table[place].card.id] = nil
        queue.remove(place)
        round.removeAll { $0 == place }
        roundPosition = min(roundPosition, round.count)
        probes.removeAll { $0.place == place }
        relays.removeAll { $0.place == place }
        table[place].state = nil
        table[place].isVacant = true
        vacant.append(place)
    }
}
