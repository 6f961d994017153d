import PresenceWire

/// A policy that every call of an app reads.
///
/// A ``Policy`` has some 400 bytes and eight references, and a call needs it four times. This is passed on as one reference, and the
/// policy of a parameter is read without a copy.
public final class SharedPolicy: Sendable {
    public let policy: Policy

    package init(_ policy: Policy) { self.policy = policy }
}
