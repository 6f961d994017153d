/// The ends of a user's sessions that are under way, from the former owner of the user to the next one.
///
/// The end of the grace is a time of the cluster's clock, so that it stays where it was, however long the message waits.
public struct PendingEnds: Hashable, Sendable {
    /// Sessions that the former owner has ended, and whose end their node has not reported to it.
    public struct Ended: Hashable, Sendable {
        /// The session; nil for all that were opened until ``openedUntil``.
        public let session: SessionID?
        /// The time of the last login that has ended, by the clock of its gateway; 0 for one session.
        public let openedUntil: Milliseconds
        /// The reason that the client is told, see ``SessionEnd``.
        public let reason: String

        public init(session: SessionID?, openedUntil: Milliseconds, reason: String) {
            (self.session, self.openedUntil, self.reason) = (session, openedUntil, reason)
        }
    }

    /// Most users in one message.
    public static let countMax = 1_000

    public let user: UserID
    /// The time at which the user goes OFFLINE unless a session is opened before, by the clock of versions; nil if the sessions are not all
    /// lost.
    public let graceEndsAt: Milliseconds?
    /// The time of the user's last sign of life.
    public let lastSeenTime: Milliseconds
    public let ended: [Ended]

    public init(user: UserID, graceEndsAt: Milliseconds?, lastSeenTime: Milliseconds, ended: [Ended]) {
        (self.user, self.graceEndsAt, self.lastSeenTime, self.ended) = (user, graceEndsAt, lastSeenTime, ended)
    }
}

extension PendingEnds {
    init(from wire: inout WireReader) throws(DecodeError) {
        self.init(
            user: try wire.user(), graceEndsAt: try wire.optional { reader throws(DecodeError) in try reader.time() },
            lastSeenTime: try wire.time(),
            ended: try wire.list { reader throws(DecodeError) in
                Ended(
                    session: try reader.optional { reader throws(DecodeError) in try reader.session() }, openedUntil: try reader.time(),
                    reason: try reader.text(bytesMax: Limits.nameBytesMax))
            })
    }

    func write(into wire: inout WireWriter) {
        wire.user(user)
        wire.optional(graceEndsAt) { $0.signed($1) }
        wire.signed(lastSeenTime)
        wire.list(ended) { wire, ended in
            wire.optional(ended.session) { $0.session($1) }
            wire.signed(ended.openedUntil)
            wire.text(ended.reason)
        }
    }
}
