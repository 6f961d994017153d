import DequeModule
import PresenceWire

/// The counts of the queue of one other node, for the metrics.
public struct LinkCounters: Equatable, Sendable {
    public internal(set) var deltasSent: UInt64 = 0
    public internal(set) var deltasCoalesced: UInt64 = 0
    public internal(set) var batchesSent: UInt64 = 0
    public internal(set) var bytesSent: UInt64 = 0
    public internal(set) var overflows: UInt64 = 0
}

/// The queue of one other node: deltas by user, of which a newer one replaces an older one, and control messages in their order.
///
/// Both leave in batches, few at a time. That adds no latency when idle, and makes large batches under load.
struct Link {
    /// Most batches in flight. Four keep the wire busy over a round trip of a millisecond, and bound the loss when the link breaks.
    static let batchesInFlightMax = 4
    /// The size in bytes at which a batch is closed.
    static let batchBytesTarget = 64 << 10
    /// The bytes reserved for a batch. Most hold a sign of life and a few messages, and the allocator is fast for small sizes.
    static let batchBytesExpected = 480

    /// The depth up to which messages that can wait elsewhere fill the queue: a few batches.
    static let fillMessages = 1_024

    private let messagesMax: Int
    private var control: Deque<Message> = []
    private var newest: [UserID: Record] = [:]
    /// The targets to which the peer forwards each of `newest`.
    private var shares: [UserID: [UInt32]] = [:]
    /// The users of `newest`, the longest waiting first.
    private var order: Deque<UserID> = []
    /// The visibilities that the connection has carried.
    private var rules: SentRules? = SentRules()
    /// Visibilities sent as a whole on earlier connections.
    private var rulesSentBefore: UInt64 = 0
    private var batchesInFlight = 0
    private var urgency = Urgency.none
    private(set) var counters = LinkCounters()
    /// Whether the peer reads requests with traces (``Message/traced(_:_:)``). Others get them without.
    private(set) var takesTraces = false
    /// Whether the queue overflowed and was dropped. It takes nothing until the peer receives everything again.
    private(set) var hasOverflowed = false

    /// The kind of the next batch besides what waits.
    private enum Urgency {
        case none
        /// The batch leaves even if nothing waits.
        case beat
        /// The batch has the waiting records alone.
        case recordsAlone
        /// No batch leaves before the peer has taken those in flight, which end with records alone.
        case recordsFirst
    }

    init(messagesMax: Int) { self.messagesMax = messagesMax }

    /// The number of visibilities that were sent as a whole, and not by their number on the connection.
    var rulesSent: UInt64 { rulesSentBefore + (rules?.wholeCount ?? 0) }

    /// The number of waiting messages and records.
    var depth: Int { control.count + order.count }

    /// Whether a message that can wait elsewhere may be queued. Half of the queue is kept for the others.
    var hasRoom: Bool { !hasOverflowed && control.count < min(messagesMax / 2, Self.fillMessages) }

    /// Whether the peer has acknowledged everything.
    var isIdle: Bool { depth == 0 && batchesInFlight == 0 }

    /// Whether ``nextBatch(clock:)`` would return a batch.
    var isReady: Bool { batchesInFlight < Self.batchesInFlightMax && urgency != .recordsFirst && (depth > 0 || urgency == .beat) }

    /// Makes the next batch leave even if nothing waits: a sign of life with the clock.
    mutating func beat() { if urgency == .none { urgency = .beat } }

    /// Has the waiting records leave in a batch of their own. The messages follow when the peer has taken it.
    ///
    /// A record that hides its user comes with rows and a barrier. If the receiver handled these in the same turn, the push would be late,
    /// and a viewer could tell it from that of a loss.
    mutating func sendRecordsAlone() { if !order.isEmpty { urgency = .recordsAlone } }

    /// Queues a message. A record replaces an older one of its user. If there is no room, the queue is dropped.
    ///
    /// After an overflow messages are dropped until ``clearOverflow()``. Many rely on those before them: ``Message/sent(ring:slotsCount:)``
    /// follows its rows.
    mutating func append(_ message: Message) {
        guard !hasOverflowed else { return }
        switch message {
        case .delta(let record): append(record)
        case .relay(let record, let targets): append(record, targets)
        default:
            guard control.count < messagesMax else {
                counters.overflows += 1
                drop()
                hasOverflowed = true
                return
            }
            control.append(message)
        }
    }

    private mutating func append(_ record: Record) {
        guard let waiting = newest.updateValue(record, forKey: record.user) else { return order.append(record.user) }
        if waiting.version > record.version { newest[record.user] = waiting }
        counters.deltasCoalesced += 1
    }

    /// Queues a record. A newer record goes also to all targets of the older one.
    private mutating func append(_ record: Record, _ targets: [UInt32]) {
        append(record)
        guard let waiting = shares[record.user] else { return shares[record.user] = targets }
        let known = Set(waiting)
        shares[record.user] = waiting + targets.filter { !known.contains($0) }
    }

    /// The next batch, encoded; nil if there is nothing to send or enough in flight.
    ///
    /// Deltas come first, so that an answer never overtakes the records that it relies on. If the batch empties the queue, it also sends
    /// `clock`.
    mutating func nextBatch(clock: @autoclosure () -> Version) -> [UInt8]? {
        guard isReady else { return nil }
        var writer = WireWriter(reserving: Self.batchBytesExpected)
        swap(&writer.rules, &rules)
        while writer.bytes.count < Self.batchBytesTarget, let user = order.popFirst() {
            guard let record = newest.removeValue(forKey: user) else { continue }
            let share = shares.isEmpty ? nil : shares.removeValue(forKey: user)
            writer.message(share.map { .relay(record, targets: $0) } ?? .delta(record))
            counters.deltasSent += 1
        }
        while urgency != .recordsAlone, writer.bytes.count < Self.batchBytesTarget, let message = control.popFirst() {
            if !takesTraces, case .traced(_, let request) = message { writer.message(.request(request)) } else { writer.message(message) }
        }
        // After an overflow the records are not complete.
        if depth == 0, !hasOverflowed { writer.message(.complete(upTo: clock())) }
        swap(&writer.rules, &rules)
        urgency = urgency == .recordsAlone ? (order.isEmpty ? .recordsFirst : .recordsAlone) : .none
        batchesInFlight += 1
        counters.batchesSent += 1
        counters.bytesSent += UInt64(writer.bytes.count)
        return writer.bytes
    }

    /// Records that the peer has taken a batch.
    mutating func acknowledge() {
        batchesInFlight = max(batchesInFlight - 1, 0)
        if batchesInFlight == 0, urgency == .recordsFirst { urgency = .none }
    }

    /// Records that the peer reads requests with traces, until the connection ends: then another release may run there.
    mutating func takeTraces() { takesTraces = true }

    /// Drops the queue, because the connection is new or gone: both sides send everything again.
    mutating func reset() {
        takesTraces = false
        rulesSentBefore = rulesSent
        rules = SentRules()
        drop()
        batchesInFlight = 0
        hasOverflowed = false
    }

    /// Takes messages again, because the peer receives everything again.
    mutating func clearOverflow() { hasOverflowed = false }

    private mutating func drop() {
        control.removeAll()
        newest.removeAll()
        shares.removeAll()
        order.removeAll()
        if urgency != .beat { urgency = .none }
    }
}
