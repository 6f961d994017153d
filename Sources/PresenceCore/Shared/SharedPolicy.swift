import PresenceWire

/// A policy that every call of an app reads.
///
/// A ``Policy`` has some 400 bytes, and a call needs it four times. This is passed on as one reference.
public final class SharedPolicy: Sendable {
    public let policy: Policy

    init(_ policy: Policy) { self.policy = policy }
}
