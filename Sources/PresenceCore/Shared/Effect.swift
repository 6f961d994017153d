import PresenceWire

/// What the shell, or the simulator, does for a node.
public enum Effect: Sendable {
    /// Hand a message to a gateway of this node.
    case tell(gateway: Int, NodeMessage)
    /// Answer a client's operation.
    case answer(gateway: Int, token: UInt64, CallAnswer)
    /// Make rows durable, and report with ``Node/stored(_:isDurable:at:)``.
    ///
    /// Urgent writes may overtake bulk writes. Otherwise writes complete in submission order: an urgent ticket is reported after all urgent
    /// tickets before it, a bulk ticket after all tickets before it.
    case persist([Row], ticket: UInt64, isUrgent: Bool)
    /// Delete from the disk what it holds of the users of these slots.
    ///
    /// It is ordered like an urgent write: earlier writes go too, later writes stay. A crash, or a disk that takes nothing, may leave some
    /// rows.
    case discard([Slot])
    /// Delete these rows from the disk where it has exactly these versions of them.
    ///
    /// It gives way to all writes. A crash, or a disk that takes nothing, may leave some rows: the next start deletes them again.
    case forget([Row])
    /// Open a link to a node that is not linked.
    case connect(Peer)
    /// The link to this peer has something to send: ask ``Node/nextBatch(for:at:)`` until it returns nil.
    case transmit(PeerIndex)
    /// A peer has become a member, or is not a member any more.
    case membership(NodeID, isAlive: Bool)
    /// Compute the ring of these members away from the event loop, because it takes some ms, and report with ``Node/placed(_:at:)``.
    case place([Ring.Member])
    /// Another process runs under this node's ID and was started later: this node is not a member any more.
    case superseded(by: Peer)
}
