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
    /// The last update that this process is dead, if a newer one says that it is alive.
    ///
    /// Until the process learns of it, it goes on as the owner of slots that others have decided about since.
    var deathRefuted: MembershipUpdate?
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
        if mayGoOn { replacedAt = cutOffSince ?? now }
        (peer, deathRefuted) = (process, nil)
    }

    /// The update of a member whose state is known.
    var update: MembershipUpdate {
        MembershipUpdate(member: peer, incarnation: incarnation, state: state ?? .alive, role: role, suspecter: suspecter)
    }
}
