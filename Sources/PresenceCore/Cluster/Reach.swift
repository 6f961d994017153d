import PresenceWire

/// The nodes that this node has heard lately, and what follows for its answers: the users about whom it may not know better.
///
/// It is faster and stricter than the membership, which declares a node dead only when others agree, and then gives its users away. A node
/// that hears no majority may be on the smaller side of a split: it says so with every record, and changes no fact.
struct Reach {
    /// The beats without a word after which a node is silent. A node beats four times a second (``Node/beat(at:)``), so that is after 1.75
    /// to 2 s.
    ///
    /// It counts beats and no time, so a node that stood still does not take the others for silent.
    private static let beatsMax: UInt16 = 7
    /// The beats after which a peer is silent: more where each peer does not have its turn at every beat.
    private var limit = Int(beatsMax)

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
    private func isSilent(_ peer: PeerIndex) -> Bool { Int(beats[peer]) >= limit }

    /// Counts a beat.
    ///
    /// - Parameter roundBeats: the beats in which each peer has its turn to be sent a word, at least 1.
    mutating func count(_ peers: borrowing Peers, roundBeats: Int) {
        limit = Int(Self.beatsMax) * roundBeats
        for peer in peers.others where beats[peer] < .max { beats[peer] += 1 }
    }

    /// Follows the members and the beats. Returns whether ``unsure`` has changed.
    mutating func follow(_ peers: borrowing Peers, _ placement: Placement) -> Bool {
        var silentPeers: [PeerIndex] = []
        var (membersCount, heardCount) = (1, 1)
        for peer in peers.others where peers[peer].counts {
            membersCount += 1
            if isSilent(peer) { silentPeers.append(peer) } else { heardCount += 1 }
        }
        hasMajority = heardCount * 2 > membersCount
        let (old, oldSilent) = (unsure, silent)
        silent = (silentPeers, placement.id)
        if !hasMajority {
            unsure = .all
        } else if silentPeers.isEmpty {
            unsure = .none
        } else if old == .all || oldSilent != silent {
            unsure = UnsureUsers(slots: SlotSet { silentPeers.contains(placement.owner(of: Slot($0))) })
        }
        return unsure != old
    }
}
