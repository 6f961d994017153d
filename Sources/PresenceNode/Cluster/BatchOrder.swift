import HTTP2

/// Puts the batches of one link back into the order in which they were sent.
///
/// Several are in flight, each on a stream of its own, and HTTP/2 lets a short one overtake a long one; but what a batch says stands
/// on what was said before it: a registration that overtook its `beginSync` would be wiped out by it.
struct BatchOrder {
    /// One batch and the stream that its answer goes to.
    struct Batch {
        let bytes: [UInt8]
        let stream: StreamID
    }

    /// Batches that may be ahead of the one that is missing: more than a link has in flight.
    static let earlyMax: UInt64 = 16

    private var next: UInt64 = 0
    private var early: [UInt64: Batch] = [:]

    /// Notes that batch `number` is here. Returns whether it is the next one; then ``takeNext()`` says what may follow it.
    /// Nil for a number that was there before or is too far ahead.
    mutating func arrives(_ number: UInt64) -> Bool? {
        guard number >= next, number < next + Self.earlyMax, early[number] == nil else { return nil }
        guard number == next else { return false }
        next += 1
        return true
    }

    /// Keeps a batch that came too early.
    mutating func keep(_ number: UInt64, _ batch: Batch) { early[number] = batch }

    /// The batch that waited for the last one.
    mutating func takeNext() -> Batch? {
        guard let batch = early.removeValue(forKey: next) else { return nil }
        next += 1
        return batch
    }
}
