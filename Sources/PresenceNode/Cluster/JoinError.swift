/// All nodes that answered refuse this node. The node does not start, because it would serve users that the cluster serves as well.
public struct JoinError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The contact point and the reason.
    public let reason: String

    public init(reason: String) { self.reason = reason }

    public var description: String { "the cluster refuses this node: \(reason)" }
}
