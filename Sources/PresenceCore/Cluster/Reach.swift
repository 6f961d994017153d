import PresenceWire

/// The nodes that this node has heard lately, and what follows for its answers: the users about whom it may not know better.
///
/// It is faster and stricter than the membership, which declares a node dead only when others agree, and then gives its users away. A node
/// that hears no majority may be on the smaller side of a split: it says so with every record, and changes no fact (contract §4).
struct Reach {
    /// The beats without a word after which a node is silent. A node beats four times a second (``Node/beat(at:)``), so that is after 1.75
    /// to 2 s.
    ///
    /// It counts beats and no time, so a node that stood still does not take the others for silent.
    private static let beatsMax: UInt16 = 7

    /// By peer: the beats of this node since the last word of the peer. A new peer has the same time as one that was just heard.
    private var beats: [UInt16] = [0]
    /// The peers that were silent at the last beat, and their ring.
    private var silent: (peers: [PeerIndex], ring: UInt64) = ([], 0)
    /// Whether this node and those that it hears are more than half of the members. Members that have left do not count.
    private(set) var hasMajority = true
    /// The users about whom this node may not know better.
    private(set) var unsure = UnsureUsers.none

    /// Gives the index of a new peer its beats.
    mutating func add(_ peer: PeerIndex) { if peer == beats.count { beats.append(0) } else { beats[peer] = 0 } }

    /// Notes a word of a peer.
    mutating func hear(_ peer: PeerIndex) { beats[peer] = 0 }

    /// Whether a peer has said nothing for long.
    func isSilent(_ peer: PeerIndex) -> Bool { beats[peer] >= Self.beatsMax }

    /// Counts a beat. Returns whether ``unsure`` has changed.
    ///
    /// - Parameter roundBeats: the beats in which each peer has had its turn, at least 1.
    mutating func beat(_ peers: borrowing Peers, _ placement: Placement, roundBeats: Int) -> Bool {
        let limit = Int(Self.beatsMax) * roundBeats
        var silentPeers: [PeerIndex] = []
        var (membersCount, heardCount) = (1, 1)
        for peer in peers.others {
            if Int(beats[peer]) < limit { beats[peer] += 1 }
            guard peers[peer].wasMember, !peers[peer].hasLeft else { continue }
            membersCount += 1
            if Int(beats[peer]) >= limit { silentPeers.append(peer) } else { heardCount += 1 }
        }
        hasMajority = heardCount * 2 > membersCount
        let before = (unsure, silent)
        silent = (silentPeers, placement.id)
        if !hasMajority {
            unsure = .all
        } else if silentPeers.isEmpty {
            unsure = .none
        } else if before.0 == .all || before.1.peers != silentPeers || before.1.ring != placement.id {
            unsure = UnsureUsers(slots: SlotSet { silentPeers.contains(placement.owner(of: Slot($0))) })
        }
        return unsure != before.0
    }
}

/// Users about whom a node may not know better: it hears no majority of the members, or does not hear the users' owner.
public struct UnsureUsers: Equatable, Sendable {
    private enum Scope: Equatable { case none, all, slots(SlotSet) }

    private let scope: Scope

    /// No user, which is the rule.
    public static let none = UnsureUsers(scope: .none)
    /// All users.
    public static let all = UnsureUsers(scope: .all)

    private init(scope: Scope) { self.scope = scope }

    init(slots: SlotSet) { scope = slots.count == 0 ? .none : .slots(slots) }

    /// Whether there is no such user.
    public var isEmpty: Bool { scope == .none }

    /// Whether a user is one of them.
    public func contains(_ user: UserID) -> Bool {
        switch scope {
        case .none: false
        case .all: true
        case .slots(let slots): slots.contains(user.slot)
        }
    }
}
