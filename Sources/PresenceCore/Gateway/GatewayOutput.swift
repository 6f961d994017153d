import PresenceWire

extension Gateway {
    /// What the gateway wants done.
    public struct Output {
        /// To the node's core, in order.
        public var toNode: [GatewayMessage] = []
        /// Encoded events, each once.
        public var payloads: [[UInt8]] = []
        /// Which session gets which of ``payloads``, in order.
        public var pushes: [Push] = []
        /// Sessions whose stream is to be finished after their pushes.
        public var ended: [SessionIndex] = []
        /// Sessions whose stream is to be cut at once, because they do not read.
        public var cutOff: [SessionIndex] = []
        /// Sessions whose owner has answered: their login is done.
        public var attached: [SessionIndex] = []

        public init() {}

        /// Leaves out what was for a session that is closed.
        mutating func forget(_ session: SessionIndex) {
            pushes.removeAll { $0.session == session }
            ended.removeAll { $0 == session }
            cutOff.removeAll { $0 == session }
            attached.removeAll { $0 == session }
        }

        /// Makes it empty again, and keeps its memory.
        public mutating func clear() {
            toNode.removeAll(keepingCapacity: true)
            payloads.removeAll(keepingCapacity: true)
            pushes.removeAll(keepingCapacity: true)
            ended.removeAll(keepingCapacity: true)
            cutOff.removeAll(keepingCapacity: true)
            attached.removeAll(keepingCapacity: true)
        }

        /// Nothing to do.
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
        /// Of them, those that told a change to a session that held an older record: not what a login or a subscription brings.
        public var changesPushed: UInt64 = 0
        /// Events handed to sessions' streams, of every kind.
        public var eventsPushed: UInt64 = 0
        /// Records that a newer one replaced while a session's queue was full.
        public var recordsCoalesced: UInt64 = 0
        /// Sessions cut off because they did not read.
        public var slowReaders: UInt64 = 0

        public init() {}
    }
}
