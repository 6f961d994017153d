import PresenceWire

/// The suspicion of a member that did not answer a probe. The member has until ``deadline`` to refute.
struct Suspicion {
    let memberIndex: Int
    /// The start of the suspicion, or the last message from the member if that is later.
    var startedAt: Instant
    var deadline: Instant
    /// The members that suspect it: at most one more than the confirmations that count.
    var suspecters: [NodeID]
    let confirmationsMax: Int
}

/// Suspicion with Lifeguard's LHA-Suspicion (§IV.B): long while one node alone suspects the member, short once others agree.
extension Membership {
    /// Suspects a member after a failed probe of this node.
    mutating func suspectAfterProbe(_ memberIndex: Int, at now: Now) {
        switch table[memberIndex].state {
        case .alive:
            var update = update(memberIndex)
            update.state = .suspect
            update.suspecter = own.id
            adopt(update, at: memberIndex, now)
        case .suspect: confirm(memberIndex, by: own.id)
        default: break
        }
    }

    /// Starts the suspicion of a member.
    mutating func suspect(_ memberIndex: Int, by suspecter: NodeID?, at now: Now) {
        counters.suspicions += 1
        let others = live.count - 1  // Neither the member nor its first suspecter counts.
        let confirmations = settings.additions.contains(.confirmations) ? max(0, min(settings.confirmationsMax, others)) : 0
        var suspicion = Suspicion(
            memberIndex: memberIndex, startedAt: now.instant, deadline: now.instant, suspecters: suspecter.map { [$0] } ?? [],
            confirmationsMax: confirmations)
        suspicion.deadline = now.instant + suspicionTimeout(suspicion)
        suspicions.append(suspicion)
    }

    /// Records that another node suspects the member independently.
    mutating func confirm(_ memberIndex: Int, by suspecter: NodeID) {
        guard let index = suspicions.firstIndex(where: { $0.memberIndex == memberIndex }),
            suspicions[index].suspecters.count <= suspicions[index].confirmationsMax, !suspicions[index].suspecters.contains(suspecter),
            suspicions[index].confirmationsMax > 0
        else { return }
        suspicions[index].suspecters.append(suspecter)
        suspicions[index].deadline = suspicions[index].startedAt + suspicionTimeout(suspicions[index])
        table[memberIndex].suspecter = suspecter
        queue.insert(memberIndex)
    }

    private func suspicionTimeout(_ suspicion: Suspicion) -> Duration {
        settings.suspicionTimeout(
            liveCount: liveCount, confirmations: suspicion.suspecters.count - 1, confirmationsMax: suspicion.confirmationsMax)
    }

    /// ⌈log10(n + 1)⌉ for n live members.
    var decadesRoundedUp: Int {
        var decades = 0
        var power = 1
        while power < liveCount + 1 {
            power *= 10
            decades += 1
        }
        return decades
    }

    mutating func endSuspicions(at now: Now) {
        guard suspicions.contains(where: { $0.deadline <= now.instant }) else { return }
        for index in suspicions.indices where suspicions[index].deadline <= now.instant {
            // A member that sends messages is not declared dead: its refutation is under way.
            suspicions[index].startedAt = max(suspicions[index].startedAt, table[suspicions[index].memberIndex].lastSignOfLifeAt)
            suspicions[index].deadline = max(
                suspicions[index].deadline, suspicions[index].startedAt + suspicionTimeout(suspicions[index]))
        }
        for memberIndex in suspicions.filter({ $0.deadline <= now.instant }).map(\.memberIndex) {
            declareDead(memberIndex, at: now)
            // If the member is alive after all, it learns of its death at once.
            send(.gossip, to: table[memberIndex].peer.id, first: [memberIndex])
        }
    }

    /// Declares all members dead when none has sent anything for ``Settings/isolationMax``: this node is cut off.
    mutating func noticeIsolation(at now: Now) {
        guard !live.isEmpty, now.instant - heardAt >= settings.isolationMax else { return }
        for memberIndex in live.sorted() { declareDead(memberIndex, at: now) }
    }

    /// The time until which a member that was declared dead may go on with what it knew, if it is cut off; nil if there is none. A process
    /// that was replaced by one at another address may go on as well.
    ///
    /// It hears from no live member. If it is the only dead one, it is alone after ``Settings/isolationMax``. Several may hear from one
    /// another, and each probes the others in vain, at worst with the poorest local health.
    func cutOffMembersGoOnUntil() -> Instant? {
        let dead = table.filter { !$0.isVacant }.compactMap(\.cutOffSince)
        guard let lastDeath = dead.max() else { return nil }
        return lastDeath
            + (dead.count == 1
                ? settings.isolationMax : settings.detectionMax(liveCount: liveCount, knownCount: table.count))
    }

    /// Declares a member dead, because this node is sure.
    mutating func declareDead(_ memberIndex: Int, at now: Now) {
        counters.deathsDeclared += 1
        var update = update(memberIndex)
        update.state = .dead
        update.suspecter = own.id
        adopt(update, at: memberIndex, now)
        nextGossipAt = min(nextGossipAt, now.instant)
    }
}
