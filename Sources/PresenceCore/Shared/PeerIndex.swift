import PresenceWire

/// A node, by the order in which this node met it; 0 is this node itself.
public typealias PeerIndex = Int

extension Peer {
    /// The number that breaks ties between versions and marks sessions: a hash of the node's ID.
    public var versionNode: UInt32 { UInt32(truncatingIfNeeded: StableHash.hash64(Array(id.rawValue.utf8))) }
}
