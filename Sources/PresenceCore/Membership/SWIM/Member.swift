import PresenceWire

/// An entry of the table of a ``Membership``.
struct Member {
    var peer: Peer
    /// The state; nil as long as only the address is known.
    var state: MemberState?
    var incarnation: UInt64 = 0
    var role = MemberRole.serving
    var suspecter: NodeID?
    /// The generation that was dead because its address refused connections.
    ///
    /// If it is alive after all, another program refuses in its place. Then a refusal does not count again before a link to the member
    /// was up.
    var refusedGeneration: UInt64 = 0
    /// The earlier update that the present process needs to know: that it was dead, or which process it has replaced.
    ///
    /// Until a process learns that it was declared dead, it goes on as the owner of slots that others have decided about since. One that
    /// does not know of its predecessor answers that nobody can see what a user has hidden, while the predecessor is only cut off.
    var earlier: MembershipUpdate?
    var changedAt: Instant
    /// The time since which an earlier process of this node ID may go on, because it was cut off when one at another address replaced it.
    var replacedAt: Instant?
    /// The time of the last message that the member itself sent.
    var lastSignOfLifeAt = Instant(nanoseconds: .min)
    /// The member's index in ``Membership/live``; -1 if it is not live.
    var liveIndex = -1
    /// The member's part of ``Membership/membershipHash``.
    var fingerprint: UInt64 = 0
    /// Whether the entry is free for another member.
    var isVacant = false

    /// The time since which a process of this node ID may go on without the others, if it is cut off; nil if none does.
    var cutOffSince: Instant? { (state ?? .dead) == .dead && peer.generation > 0 ? changedAt : replacedAt }

    /// Records that another process has the node ID. One port has one listener, so a process at another address may still run.
    mutating func replaceProcess(by process: Peer, at now: Instant) {
        let mayGoOn = state != .left && peer.generation > 0 && peer.address != process.address
        earlier = mayGoOn ? update : nil
        if mayGoOn { replacedAt = cutOffSince ?? now }
        peer = process
    }

    /// Records an earlier process that this one has replaced, as if it had been alive until now.
    ///
    /// Each counts once, however many members name it.
    mutating func recordPredecessor(_ update: MembershipUpdate, at now: Instant) {
        let isEarlier = update.member.generation < peer.generation && update.member.generation > earlier?.member.generation ?? 0
        guard isEarlier, update.state != .left, update.member.address != peer.address else { return }
        (earlier, replacedAt) = (update, now)
    }

    /// The update of a member whose state is known.
    var update: MembershipUpdate {
        MembershipUpdate(member: peer, incarnation: incarnation, state: state ?? .alive, role: role, suspecter: suspecter)
    }
}
