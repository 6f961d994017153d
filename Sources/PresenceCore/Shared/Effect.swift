import PresenceWire

/// An action that the shell, or the simulator, carries out for a node.
public enum Effect: Sendable {
    /// Hand a message to a gateway of this node.
    case send(toGateway: Int, NodeMessage)
    /// Answer a client's operation.
    case answer(gateway: Int?, token: UInt64, CallAnswer)
    /// Make rows durable, and report with ``Node/stored(_:isDurable:at:)``.
    ///
    /// Urgent writes may overtake bulk writes. Otherwise writes complete in submission order: an urgent ticket is reported after all urgent
    /// tickets before it, a bulk ticket after all tickets before it.
    case persist([Row], ticket: UInt64, isUrgent: Bool)
    /// Delete all rows of the users of these slots from the disk.
    ///
    /// It is ordered like an urgent write: earlier writes are deleted too, later writes stay. A crash or a failing disk may leave some
    /// rows.
    case deleteSlots([Slot])
    /// Delete these rows from the disk if it has exactly these versions.
    ///
    /// All writes come first. A crash or a failing disk may leave some rows, which the next start deletes again.
    case deleteRows([Row])
    /// Empty the log of the disk after all rows that wait: it has rows as they were before a user was deleted.
    case truncateLog
    /// Perform ``Call/deleteUser`` for a user of this node whose deletion has not ended.
    case resumeDeletion(UserID)
    /// Open a link to a node that is not linked.
    case connect(Peer)
    /// Send to this peer: call ``Node/nextBatch(for:at:)`` until it returns nil.
    case transmit(PeerIndex)
    /// A peer has become a member, or is not a member any more.
    case membership(NodeID, isAlive: Bool)
    /// Compute the ring of these members away from the event loop, because it takes some ms, and report with ``Node/ringComputed(_:at:)``.
    case computeRing([Ring.Member])
    /// Follow the system clock, though it has jumped (``SteadyClock/adopt(_:)``).
    case followSystemClock
    /// Send a request to the receiver of an app's webhooks, and report with ``Node/answered(_:at:)``.
    case deliver(WebhookDelivery)
    /// Another node has sent a request that belongs to a client's trace. The log has it.
    indirect case traced(TraceContext, OwnerOperation, from: NodeID)
    /// A later process runs under this node's ID. This node is not a member any more.
    case superseded(by: Peer)
}
