import HTTP2

/// Restores the order in which the batches of one link were sent.
///
/// Several batches are in flight, each on a stream of its own, and over HTTP/2 a short one may overtake a long one. The order matters:
/// a registration that overtook its `beginSync` would be removed by it.
struct BatchOrder {
    /// A batch and the stream of its answer.
    struct Batch {
        let bytes: [UInt8]
        let stream: StreamID
    }

    /// Most batches that may arrive before a missing one: more than a link has in flight.
    static let earlyMax: UInt64 = 16

    private var next: UInt64 = 0
    private var early: [UInt64: Batch] = [:]

    /// Records the arrival of batch `number`. Returns whether it is the next batch; then call ``takeNext()`` for those after it.
    ///
    /// Returns nil for a number that arrived before or is too far ahead.
    mutating func arrives(_ number: UInt64) -> Bool? {
        guard number >= next, number < next + Self.earlyMax, early[number] == nil else { return nil }
        guard number == next else { return false }
        next += 1
        return true
    }

    /// Keeps a batch that arrived early.
    mutating func keep(_ number: UInt64, _ batch: Batch) { early[number] = batch }

    /// Takes the batch that follows the last one, if it is here.
    mutating func takeNext() -> Batch? {
        guard let batch = early.removeValue(forKey: next) else { return nil }
        next += 1
        return batch
    }
}
