import PresenceWire

extension Gateway {
    /// The work that the caller of a gateway carries out.
    public struct Output {
        /// Messages to the node's core, in order.
        public var toNode: [GatewayMessage] = []
        /// Encoded events. Each is here once, however many sessions are pushed it.
        public var payloads: [[UInt8]] = []
        /// The sessions that are pushed each of ``payloads``, in order.
        public var pushes: [Push] = []
        /// Sessions whose stream ends after their pushes.
        public var ended: [SessionIndex] = []
        /// Sessions whose stream is cut off at once, because their client does not read.
        public var cutOff: [SessionIndex] = []
        /// Sessions whose owner has sent the subscription list.
        public var attached: [SessionIndex] = []

        public init() {}

        /// Adds an encoded event; returns its index in ``payloads``.
        mutating func add(_ payload: [UInt8]) -> Int32 {
            payloads.append(payload)
            return Int32(payloads.count - 1)
        }

        /// Has a session pushed one of ``payloads``.
        mutating func push(_ payload: Int32, to session: SessionIndex) { pushes.append(Push(session: session, payload: payload)) }

        /// Removes all that is for a session that is closed.
        mutating func remove(_ session: SessionIndex) {
            pushes.removeAll { $0.session == session }
            ended.removeAll { $0 == session }
            cutOff.removeAll { $0 == session }
            attached.removeAll { $0 == session }
        }

        /// Empties the output and keeps its memory.
        public mutating func clear() {
            toNode.removeAll(keepingCapacity: true)
            payloads.removeAll(keepingCapacity: true)
            pushes.removeAll(keepingCapacity: true)
            ended.removeAll(keepingCapacity: true)
            cutOff.removeAll(keepingCapacity: true)
            attached.removeAll(keepingCapacity: true)
        }

        /// Whether there is nothing to carry out.
        public var isEmpty: Bool {
            toNode.isEmpty && pushes.isEmpty && ended.isEmpty && cutOff.isEmpty && attached.isEmpty
        }
    }

    /// One event for one session.
    public struct Push: Equatable, Sendable {
        public let session: SessionIndex
        /// An index into ``Output/payloads``.
        public let payload: Int32
    }

    /// Counts for the metrics.
    public struct Counters: Equatable, Sendable {
        /// Records handed to sessions' streams.
        public var recordsPushed: UInt64 = 0
        /// Of these, the changes to sessions that held an older record: neither logins nor subscriptions count.
        public var changesPushed: UInt64 = 0
        /// Events handed to sessions' streams, of every kind.
        public var eventsPushed: UInt64 = 0
        /// Records that a newer one replaced while a session's queue was full.
        public var recordsCoalesced: UInt64 = 0
        /// Sessions cut off because they did not read.
        public var slowReaders: UInt64 = 0
        /// Sessions ended because their tokens had ended.
        public var expiredSessions: UInt64 = 0

        public init() {}
    }
}
