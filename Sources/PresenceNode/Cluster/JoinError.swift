/// All nodes that answered refuse this node. The node does not start, because it would serve users that the cluster serves as well.
public struct JoinError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The contact point and the reason.
    public let reason: String

    public init(reason: String) { self.reason = reason }

    public var description: String { "the cluster refuses this node: \(reason)" }
}

/// The cluster accepts a running node no more, because another process has its node ID.
public struct SupersededError: Error, Equatable, Sendable, CustomStringConvertible {
    public let reason: String

    public init(reason: String) { self.reason = reason }

    public var description: String { "superseded: \(reason)" }
}
