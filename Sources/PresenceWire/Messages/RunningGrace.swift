/// The grace of a user whose sessions are all lost, on its way from the former owner to the next one.
///
/// The end is a time of the cluster's clock, so that it stays where it was, however long the message waits.
public struct RunningGrace: Hashable, Sendable {
    /// Most graces in one message.
    public static let countMax = 1_000

    public let user: UserID
    /// The time at which the user goes OFFLINE unless a session is opened before, by the clock of versions.
    public let endsAt: Milliseconds
    /// The time of the user's last sign of life.
    public let lastSeenTime: Milliseconds

    public init(user: UserID, endsAt: Milliseconds, lastSeenTime: Milliseconds) {
        (self.user, self.endsAt, self.lastSeenTime) = (user, endsAt, lastSeenTime)
    }
}

extension RunningGrace {
    init(from wire: inout WireReader) throws(DecodeError) {
        self.init(user: try wire.user(), endsAt: try wire.time(), lastSeenTime: try wire.time())
    }

    func write(into wire: inout WireWriter) {
        wire.user(user)
        wire.signed(endsAt)
        wire.signed(lastSeenTime)
    }
}
