import HTTP2
import PresenceWire

/// Calls that were sent to the core and wait for their answers, by place: no hash and no allocation a call.
struct WaitingCalls {
    /// Where an answer goes.
    struct Call {
        let connection: HTTPServerConnection
        let stream: StreamID
        let operation: API.Operation
        let caller: UserID
        let errors: [UserError]
        let work: GatewayLoop.Work?
    }

    private var calls: [Call?] = []
    /// Counts how often a place was used, so that a token means one call only.
    private var uses: [UInt32] = []
    private var free: [Int] = []

    var isEmpty: Bool { free.count == calls.count }

    /// Keeps `call` and returns the token that its answer bears.
    mutating func add(_ call: Call) -> UInt64 {
        let place: Int
        if let reused = free.popLast() {
            place = reused
            calls[place] = call
        } else {
            place = calls.count
            calls.append(call)
            uses.append(0)
        }
        return UInt64(uses[place]) << 32 | UInt64(place)
    }

    /// The call that `token` means; nil when it was taken before.
    mutating func take(_ token: UInt64) -> Call? {
        let place = Int(token & 0xFFFF_FFFF)
        guard place < calls.count, uses[place] == UInt32(token >> 32), let call = calls[place] else { return nil }
        calls[place] = nil
        uses[place] &+= 1
        free.append(place)
        return call
    }
}
