import PresenceWire

/// The table of members.
extension Membership {
    /// This node.
    public var own: Peer { table[Self.ownIndex].peer }

    /// Whether this node gives its slots away, because it will end or has a fault.
    public var isDraining: Bool { table[Self.ownIndex].role != .serving }

    /// Whether this node will end.
    public var isLeaving: Bool { table[Self.ownIndex].role == .leaving }

    /// The newest update about a member; nil if it is unknown, or known only by address.
    public func update(about id: NodeID) -> MembershipUpdate? {
        guard let memberIndex = memberIndices[id], table[memberIndex].state != nil else { return nil }
        return update(memberIndex)
    }

    /// The number of live members, this node included (n).
    public var liveCount: Int { live.count + 1 }

    /// Adds an entry for a node that is not a member yet. Returns its index, or nil if there are too many.
    mutating func add(_ peer: Peer, at now: Now) -> Int? {
        if table.count - vacant.count >= settings.membersMax { forgetLongestDead() }
        guard table.count - vacant.count < settings.membersMax else {
            counters.updatesRefused += 1
            return nil
        }
        let member = Member(peer: peer, changedAt: now.instant)
        let memberIndex = vacant.popLast() ?? table.count
        if memberIndex == table.count { table.append(member) } else { table[memberIndex] = member }
        memberIndices[peer.id] = memberIndex
        return memberIndex
    }

    /// Keeps ``live`` and the probe round in step with a state.
    mutating func setLive(_ memberIndex: Int, _ isLive: Bool) {
        guard isLive != (table[memberIndex].liveIndex >= 0) else { return }
        if isLive {
            table[memberIndex].liveIndex = live.count
            live.append(memberIndex)
            // A new member is probed at a random time of this round (SWIM §4.3).
            probeRound.insert(memberIndex, using: &random)
        } else {
            let hole = table[memberIndex].liveIndex
            live[hole] = live[live.count - 1]
            table[live[hole]].liveIndex = hole
            live.removeLast()
            table[memberIndex].liveIndex = -1
        }
    }

    mutating func refreshFingerprint(_ memberIndex: Int) {
        let member = table[memberIndex]
        membershipHash ^= member.fingerprint
        table[memberIndex].fingerprint = 0
        guard let state = member.state, state.isLive else { return }
        var hash = StableHash.mix(StableHash.hash64(member.peer.id.rawValue.utf8), member.peer.generation)
        hash = StableHash.mix(hash, member.incarnation)
        hash = StableHash.mix(hash, UInt64(state.rawValue) << 2 | UInt64(member.role.rawValue))
        table[memberIndex].fingerprint = hash
        membershipHash ^= hash
    }

    /// Removes members that left so long ago that no update about them is on its way. Dead members stay, because a split may last.
    mutating func forgetLongGone(at now: Now) {
        nextSweepAt = now.instant + .seconds(10)
        for memberIndex in table.indices
        where table[memberIndex].state == .left && table[memberIndex].changedAt + settings.leftRetention <= now.instant {
            removeEntry(memberIndex)
        }
    }

    private mutating func forgetLongestDead() {
        let gone = table.indices.filter(isGone)
        guard let memberIndex = gone.min(by: { table[$0].changedAt < table[$1].changedAt }) else { return }
        removeEntry(memberIndex)
    }

    private func isGone(_ memberIndex: Int) -> Bool { table[memberIndex].state.map { !$0.isLive } ?? false }

    private mutating func removeEntry(_ memberIndex: Int) {
        memberIndices[table[memberIndex].peer.id] = nil
        queue.remove(memberIndex)
        probeRound.remove(memberIndex)
        probes.removeAll { $0.memberIndex == memberIndex }
        relays.removeAll { $0.memberIndex == memberIndex }
        table[memberIndex].state = nil
        table[memberIndex].isVacant = true
        vacant.append(memberIndex)
    }
}
