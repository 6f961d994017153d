import PresenceWire

/// The suspicion of a member that did not answer a probe. The member has until ``deadline`` to refute.
struct Suspicion {
    let place: Int
    /// The start of the suspicion, or the last message from the member if that is later.
    var startedAt: Instant
    var deadline: Instant
    /// The members that suspect it: at most one more than the confirmations that count.
    var accusers: [NodeID]
    let confirmationsMax: Int
}

/// Suspicion with Lifeguard's LHA-Suspicion (§IV.B): long while one node alone suspects the member, short once others agree.
extension Membership {
    /// Suspects a member after a failed probe of this node.
    mutating func accuse(_ place: Int, at now: Now) {
        switch table[place].state {
        case .alive:
            var rumour = rumour(place)
            rumour.state = .suspect
            rumour.accuser = own.id
            adopt(rumour, at: place, now)
        case .suspect: confirm(place, by: own.id, at: now)
        default: break
        }
    }

    /// Starts the suspicion of a member.
    mutating func suspect(_ place: Int, by accuser: NodeID?, at now: Now) {
        counters.suspicions += 1
        let others = live.count - 1  // Neither the member nor its first suspecter counts.
        let confirmations = settings.isSuspicionAdaptive ? max(0, min(settings.confirmationsMax, others)) : 0
        var suspicion = Suspicion(
            place: place, startedAt: now.instant, deadline: now.instant, accusers: accuser.map { [$0] } ?? [],
            confirmationsMax: confirmations)
        suspicion.deadline = now.instant + suspicionTimeout(suspicion)
        suspicions.append(suspicion)
    }

    /// Records that another node suspects the member independently.
    mutating func confirm(_ place: Int, by accuser: NodeID, at now: Now) {
        guard let index = suspicions.firstIndex(where: { $0.place == place }),
            suspicions[index].accusers.count <= suspicions[index].confirmationsMax, !suspicions[index].accusers.contains(accuser),
            suspicions[index].confirmationsMax > 0
        else { return }
        suspicions[index].accusers.append(accuser)
        suspicions[index].deadline = suspicions[index].startedAt + suspicionTimeout(suspicions[index])
        table[place].accuser = accuser
        queue.insert(place)
    }

    /// The timeout: max(min, max − (max − min) · log(C + 1) / log(K + 1)) with C of K confirmations.
    func suspicionTimeout(_ suspicion: Suspicion) -> Duration {
        let decades = Self.log2(UInt64(liveCount)) / Self.log2(10)
        let min = settings.suspicionMin + settings.suspicionPerDecade * decades
        guard settings.isSuspicionAdaptive, suspicion.confirmationsMax > 0 else { return min }
        let max = min * (1 + settings.suspicionMaxPerDecade * decades)
        let confirmations = UInt64(Swift.max(0, suspicion.accusers.count - 1))
        let shortened = Self.log2(confirmations + 1) / Self.log2(UInt64(suspicion.confirmationsMax) + 1)
        return max - (max - min) * shortened
    }

    /// The binary logarithm: the same bits on every platform, exact at powers of two.
    static func log2(_ value: UInt64) -> Double {
        32 - Double(FixedPoint.negativeLog2(value << 32)) / Double(FixedPoint.one)
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
            suspicions[index].startedAt = max(suspicions[index].startedAt, table[suspicions[index].place].heardAt)
            suspicions[index].deadline = max(
                suspicions[index].deadline, suspicions[index].startedAt + suspicionTimeout(suspicions[index]))
        }
        for place in suspicions.filter({ $0.deadline <= now.instant }).map(\.place) {
            declareDead(place, at: now)
            // If the member is alive after all, it learns of its death at once.
            send(.gossip, to: table[place].card.id, first: [place])
        }
    }

    /// Declares a member dead, because this node is sure.
    mutating func declareDead(_ place: Int, at now: Now) {
        counters.deathsDeclared += 1
        var rumour = rumour(place)
        rumour.state = .dead
        rumour.accuser = own.id
        adopt(rumour, at: place, now)
        nextGossipAt = min(nextGossipAt, now.instant)
    }
}
