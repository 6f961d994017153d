import NIOCore
import PresenceCore

/// Why a peer refuses this node.
struct LinkRefusal: Equatable, Sendable {
    /// The remedy that a refused node has. The raw value is the HTTP status that carries the refusal.
    ///
    /// If several nodes refuse a node, the kind that comes first decides.
    enum Kind: Int, CaseIterable, Sendable {
        /// None: the cluster has known a later process with this node ID (Gone, RFC 9110 §15.5.11).
        case superseded = 410
        /// To wait for the end of the process that uses the node ID (Locked, RFC 4918 §11.3).
        case inUse = 423
        /// To wait until the clocks are set (Precondition Failed, RFC 9110 §15.5.13).
        case clockSkew = 412
        /// None without another configuration (Conflict, RFC 9110 §15.5.10).
        case mismatch = 409
    }

    /// The peer's address and its reason.
    let reason: String
    let kind: Kind
}

extension LinkRefusal.Kind {
    init(_ refusal: HelloRefusal) {
        switch refusal {
        case .protocolVersion, .clusterName: self = .mismatch
        case .inUse: self = .inUse
        case .superseded, .startedBefore: self = .superseded
        case .clockSkew: self = .clockSkew
        }
    }

    /// How long a node waits while a live process uses its ID. A process that was killed counts as dead after about a second.
    static let inUsePatience = TimeAmount.seconds(3)

    /// How long a node that starts waits for the end of the refusal; nil if the refusal does not end.
    var patience: TimeAmount? {
        switch self {
        case .superseded, .mismatch: nil
        case .inUse: Self.inUsePatience
        case .clockSkew: .seconds(5)
        }
    }

    /// Whether each of two nodes that meet has the same reason against the other one.
    var isMutual: Bool {
        switch self {
        case .clockSkew, .mismatch: true
        case .superseded, .inUse: false
        }
    }
}
