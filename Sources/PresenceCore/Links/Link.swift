import DequeModule
import PresenceWire

/// What waits for one other node: deltas in a map keyed by user, so that a newer one replaces an older one, and
/// control messages in their order. Both leave in batches, few at a time: no added latency when idle, large batches under load.
struct Link {
    /// Batches in flight. Four keep the wire busy over a round trip of a millisecond and bound what is lost when the link breaks.
    static let batchesInFlightMax = 4
    /// A batch is closed at this size.
    static let batchBytesTarget = 64 << 10
    /// Reserved for each: most are a proof of life and a few words, and the allocator is quick with what is small.
    static let batchBytesExpected = 480

    /// What can wait elsewhere fills the queue up to here: a few batches' worth.
    static let fillMessages = 1_024

    /// Counts for the metrics.
    struct Counters: Equatable, Sendable {
        var deltasSent: UInt64 = 0
        var deltasCoalesced: UInt64 = 0
        var batchesSent: UInt64 = 0
        var bytesSent: UInt64 = 0
        var overflows: UInt64 = 0
    }

    private let messagesMax: Int
    private var control: Deque<Message> = []
    private var newest: [UserID: Record] = [:]
    /// To whom the peer is to pass on which of `newest`.
    private var shares: [UserID: [UInt32]] = [:]
    /// The users of `newest`, the longest waiting first.
    private var order: Deque<UserID> = []
    private var batchesInFlight = 0
    private var needsBeat = false
    private(set) var counters = Counters()
    /// The queue overflowed and was dropped: the peer must be told everything anew.
    private(set) var hasOverflowed = false

    init(messagesMax: Int) { self.messagesMax = messagesMax }

    /// Messages and records that wait.
    var depth: Int { control.count + order.count }

    /// Whether what can wait elsewhere may be queued: half of the queue is kept for what cannot.
    var hasRoom: Bool { control.count < min(messagesMax / 2, Self.fillMessages) }

    /// Everything has been taken by the peer.
    var isIdle: Bool { depth == 0 && batchesInFlight == 0 }

    /// Whether ``nextBatch(clock:)`` would return one.
    var isReady: Bool { batchesInFlight < Self.batchesInFlightMax && (depth > 0 || needsBeat) }

    /// Makes the next batch go out even when nothing waits: a proof of life that carries the clock.
    mutating func beat() { needsBeat = true }

    /// Queues a message; a record replaces an older one of its user. Returns whether there was room; otherwise the queue is dropped.
    @discardableResult mutating func append(_ message: Message) -> Bool {
        if case .delta(let record) = message {
            append(record)
            return true
        }
        if case .relay(let record, let targets) = message {
            append(record, targets)
            return true
        }
        guard control.count < messagesMax else {
            counters.overflows += 1
            drop()
            hasOverflowed = true
            return false
        }
        control.append(message)
        return true
    }

    private mutating func append(_ record: Record) {
        guard let waiting = newest.updateValue(record, forKey: record.user) else { return order.append(record.user) }
        if waiting.version > record.version { newest[record.user] = waiting }
        counters.deltasCoalesced += 1
    }

    /// A newer record goes to all that an older one was to go to.
    private mutating func append(_ record: Record, _ targets: [UInt32]) {
        append(record)
        guard let waiting = shares[record.user] else { return shares[record.user] = targets }
        let known = Set(waiting)
        shares[record.user] = waiting + targets.filter { !known.contains($0) }
    }

    /// The next batch, encoded: deltas first, so that an answer never overtakes what it stands on; nil when there is nothing to send
    /// or enough in flight. `clock` is told along when the batch empties the queue.
    mutating func nextBatch(clock: @autoclosure () -> Version) -> [UInt8]? {
        guard isReady else { return nil }
        var writer = WireWriter(reserving: Self.batchBytesExpected)
        while writer.bytes.count < Self.batchBytesTarget, let user = order.popFirst() {
            guard let record = newest.removeValue(forKey: user) else { continue }
            let share = shares.isEmpty ? nil : shares.removeValue(forKey: user)
            writer.message(share.map { .relay(record, targets: $0) } ?? .delta(record))
            counters.deltasSent += 1
        }
        while writer.bytes.count < Self.batchBytesTarget, let message = control.popFirst() { writer.message(message) }
        // What an overflow dropped is not complete.
        if depth == 0, !hasOverflowed { writer.message(.complete(upTo: clock())) }
        needsBeat = false
        batchesInFlight += 1
        counters.batchesSent += 1
        counters.bytesSent += UInt64(writer.bytes.count)
        return writer.bytes
    }

    /// The peer has taken a batch.
    mutating func acknowledge() { batchesInFlight = max(batchesInFlight - 1, 0) }

    /// The connection is new or gone: what waited is void, because both sides tell one another everything anew.
    mutating func reset() {
        drop()
        batchesInFlight = 0
        hasOverflowed = false
    }

    /// The peer is about to be told everything anew.
    mutating func clearOverflow() { hasOverflowed = false }

    private mutating func drop() {
        control.removeAll()
        newest.removeAll()
        shares.removeAll()
        order.removeAll()
    }
}
