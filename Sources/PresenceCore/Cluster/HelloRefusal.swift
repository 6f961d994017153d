import PresenceWire

/// Why a node refuses the node of a hello.
public enum HelloRefusal: Equatable, Sendable {
    /// The other node speaks another version of the cluster protocol.
    case protocolVersion(UInt64)
    /// The other node belongs to another cluster.
    case clusterName(String, own: String)
    /// An earlier process with the same node ID is alive. The refusal ends with that process.
    case inUse(by: Peer)
    /// A later process with the same node ID is a member. The refused process is never accepted again.
    case superseded(by: Peer)
    /// The clocks differ by more than versions may be ahead. The refusal ends when the clocks are set.
    case clockSkew(of: NodeID, seconds: Int64, from: NodeID, secondsMax: Int64)
    /// A process with the same node ID, which is gone, had started at a later time. The refused process is never accepted.
    case startedBefore(Peer, milliseconds: UInt64)
}

extension HelloRefusal: CustomStringConvertible {
    public var description: String {
        switch self {
        case .protocolVersion(let version):
            "protocol version \(version) differs from \(Hello.protocolVersion); run one version of Rollcall on all nodes"
        case .clusterName(let name, let own):
            "cluster name \"\(name)\" differs from \"\(own)\"; configure one name on all nodes"
        case .inUse(let twin):
            "node ID \"\(twin.id)\" is in use by a live process at \(twin.address); stop it, or configure a node ID of its own for each node"
        case .superseded(let successor):
            "a later process at \(successor.address) uses the node ID \"\(successor.id)\" and has replaced this one"
        case .clockSkew(let id, let seconds, let own, let most):
            "clock skew is \(seconds.magnitude) s (\"\(id)\" is \(seconds < 0 ? "behind" : "ahead of") \"\(own)\"), "
                + "at most \(most) s is allowed; synchronize the clocks (NTP)"
        case .startedBefore(let gone, let milliseconds):
            "this process started \(milliseconds / 1_000 + 1) s before the last process with the node ID \"\(gone.id)\", at \(gone.address), "
                + "which is gone; synchronize the clocks (NTP), or start again after that time"
        }
    }
}
