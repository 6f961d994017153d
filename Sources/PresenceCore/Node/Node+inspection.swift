import PresenceWire

/// What checkers may look at; nothing here decides anything.
extension Node {
    /// What this node holds of a user, as its owner or for it: the record, and the live subscriptions by target.
    package func kept(_ user: UserID) -> (record: Record, subscriptions: [Subscription]) {
        guard let index = owners.index(ofKnown: user) else { return (Record(blank: user), []) }
        return (owners.users[index].record, owners.users[index].subscriptions.live.map { $0.learnt(at: 0) })
    }

    /// The same of many users: one question about many is much cheaper than many, each of which may copy the node.
    package func kept(_ users: [UserID]) -> [(record: Record, subscriptions: [Subscription])] { users.map { kept($0) } }

    /// Who owns a user by this node's ring.
    package func ownerID(of user: UserID) -> NodeID { peers[owner(of: user)].peer.id }

    /// Who owns each of these users by this node's ring.
    package func ownerIDs(of users: [UserID]) -> [NodeID] {
        let (placement, names) = (placement, peers.map(\.peer.id))
        return users.map { names[placement.owner(of: $0)] }
    }

    /// Who keeps a user by this node's ring: the owner, then the replicas.
    package func keeperIDs(of user: UserID) -> [NodeID] { placement.keepers(of: user).map { peers[$0].peer.id } }

    /// Who keeps each of these users by this node's ring: the owner, then the replicas.
    package func keeperIDs(of users: [UserID]) -> [[NodeID]] {
        let (placement, names) = (placement, peers.map(\.peer.id))
        return users.map { placement.keepers(of: $0).map { names[$0] } }
    }

    /// This node decides without having heard what all others hold: they were waited for long enough.
    package var isUnheard: Bool { owners.isUnheard }

    /// Whom this node takes for alive, itself included.
    package var memberIDs: [NodeID] { peers.indices.filter { peers[$0].isAlive }.map { peers[$0].peer.id } }

    /// This node takes nobody else for alive. Changes nothing; but what does not say that it may is asked of a copy of the node.
    package var isAlone: Bool { mutating get { !peers.hasAlive } }

    /// Messages and records that wait for a peer. Changes nothing, as ``isAlone``.
    package mutating func queueDepth(for peer: PeerIndex) -> Int { peers[peer].link.depth }

    /// This node is the owner of a user, and waits whether there are sessions of which it has not heard.
    package func doubts(_ user: UserID) -> Bool {
        owners.index(ofKnown: user).map { owners.users[$0].confirmationDeadline != nil } ?? false
    }

    /// Traps when a machine of this node is in a state that cannot be. Mutating, as ``isAlone``.
    package mutating func checkInvariants() { ownership.checkInvariants() }

    /// Traps when a value that is derived from the users is not what it follows from. Walks over all users.
    package mutating func checkUsers() { owners.users.checkInvariants() }

    /// The ring that this node goes by.
    package var ringID: UInt64 { placement.id }

    /// Every registration of this node has been answered.
    package var isComplete: Bool { fanOut.unconfirmedCount == 0 && misrouted.isEmpty && isWarm }
}
