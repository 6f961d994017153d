/// A call that waits for its answer.
struct PendingCall {
    enum Purpose: Equatable {
        case setStatus(scheduledAt: Double)
        case subscribe(user: Int)
        case logout(user: Int)
        /// Asks a node for records, to compare the watchers' views with them.
        case query
        /// A decision of one user of a pair about the other.
        case relationship(pair: Int, RelationshipDecision, scheduledAt: Double)
        case profile(user: Int)
        /// Reads a page of one of the user's lists.
        case list(user: Int, ListReading.Step)
    }

    var purpose: Purpose
    /// The HTTP status; 0 until the head of the answer is here.
    var status = 0
    var body: [UInt8] = []
}

/// The calls that wait for an answer, by the token of their HTTP stream.
///
/// Tokens of calls have their highest bit set. The token of an event stream is the number of its user.
struct CallTable {
    private static let callBit: UInt32 = 1 << 31

    private var calls: [PendingCall?] = []
    private var free: [Int] = []

    static func isCall(_ token: UInt32) -> Bool { token & callBit != 0 }

    private static func index(of token: UInt32) -> Int { Int(token & ~callBit) }

    /// Adds a call. Returns its token.
    mutating func begin(_ purpose: PendingCall.Purpose) -> UInt32 {
        let index = free.popLast() ?? calls.count
        if index == calls.count { calls.append(nil) }
        calls[index] = PendingCall(purpose: purpose)
        return UInt32(index) | Self.callBit
    }

    mutating func receive(status: Int, for token: UInt32) { calls[Self.index(of: token)]?.status = status }

    mutating func receive(_ bytes: UnsafeRawBufferPointer, for token: UInt32) {
        calls[Self.index(of: token)]?.body.append(contentsOf: bytes)
    }

    /// Removes a call. Returns nil when it was removed before.
    mutating func end(_ token: UInt32) -> PendingCall? {
        let index = Self.index(of: token)
        guard let call = calls[index] else { return nil }
        calls[index] = nil
        free.append(index)
        return call
    }
}
