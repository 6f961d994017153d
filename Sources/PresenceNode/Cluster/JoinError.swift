/// The nodes of a cluster refuse this one, each that has answered: it does not start, because it would serve users whom the cluster serves.
public struct JoinError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The contact point, and what is wrong.
    public let reason: String

    public init(reason: String) { self.reason = reason }

    public var description: String { "the cluster refuses this node: \(reason)" }
}
