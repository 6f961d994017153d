import HTTP2
import PresenceCore
import PresenceWire

/// Calls that were sent to the core and wait for their answers, by index: a call costs no hash and no allocation.
struct WaitingCalls<Connection: AnyObject> {
    /// The destination of an answer, and what its body depends on.
    struct Call {
        let connection: Connection
        let stream: StreamID
        let operation: API.Operation
        let caller: UserID
        let errors: [UserError]
        let work: RequestAdmission.Work?
        /// The span of the call in the client's trace; nil for a call without one.
        var span: RequestSpan?
    }

    private var calls: [Call?] = []
    /// The number of uses of each index. A token belongs to only one call.
    private var uses: [UInt32] = []
    private var free: [Int] = []

    init() {}

    var isEmpty: Bool { free.count == calls.count }

    /// Keeps `call`; returns the token that its answer carries.
    mutating func add(_ call: Call) -> UInt64 {
        let index: Int
        if let reused = free.popLast() {
            index = reused
            calls[index] = call
        } else {
            index = calls.count
            calls.append(call)
            uses.append(0)
        }
        return UInt64(uses[index]) << 32 | UInt64(index)
    }

    /// The call of a token; nil if it was taken before.
    mutating func take(_ token: UInt64) -> Call? {
        let index = Int(token & 0xFFFF_FFFF)
        guard index < calls.count, uses[index] == UInt32(token >> 32), let call = calls[index] else { return nil }
        calls[index] = nil
        uses[index] &+= 1
        free.append(index)
        return call
    }
}
