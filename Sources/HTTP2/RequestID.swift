/// The ID of a request, which its answer carries in the field `request-id`: `3f9a01c2-1b-5`.
///
/// The parts are hexadecimal numbers: the event loop, drawn at random at its start, the connection, and the request. A request keeps
/// nothing for its ID, because the three numbers exist anyway.
struct RequestID {
    /// Three numbers of 32 bits with hyphens between them.
    static let bytesMax = 26

    let loop: UInt32
    let connection: UInt32
    let request: UInt32

    /// The parts of the IDs that the connections of an event loop share.
    struct Source {
        /// Tells the loop from the others of the cluster, and from those before its start.
        let loop = UInt32.random(in: 1...UInt32.max)
        private var connectionsCount: UInt32 = 0

        /// The number of a new connection.
        mutating func nextConnection() -> UInt32 {
            connectionsCount &+= 1
            return connectionsCount
        }
    }

    /// Calls `body` with the text, which is on the stack.
    func withText<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: Self.bytesMax) { bytes in
            var start = Self.bytesMax
            Self.write(request, before: &start, in: bytes)
            start -= 1
            bytes[start] = UInt8(ascii: "-")
            Self.write(connection, before: &start, in: bytes)
            start -= 1
            bytes[start] = UInt8(ascii: "-")
            Self.write(loop, before: &start, in: bytes)
            return body(UnsafeBufferPointer(rebasing: bytes[start..<Self.bytesMax]))
        }
    }

    /// Writes the digits of a number in front of `start`, without leading zeros.
    private static func write(_ number: UInt32, before start: inout Int, in bytes: UnsafeMutableBufferPointer<UInt8>) {
        var rest = number
        repeat {
            start -= 1
            let digit = UInt8(truncatingIfNeeded: rest & 0xF)
            bytes[start] = digit < 10 ? 0x30 + digit : 0x57 + digit
            rest >>= 4
        } while rest > 0
    }
}

extension HTTPServerConnection {
    /// The ID of a request on this connection, for the log. The answer carries it in the field `request-id`.
    public func requestID(of stream: StreamID) -> String {
        requestID(stream.number).withText { String(decoding: $0, as: UTF8.self) }
    }

    /// The ID of the request of an HTTP/2 stream, or of a request by its number.
    func requestID(_ number: Int32) -> RequestID {
        RequestID(loop: server.idNumber, connection: serial, request: UInt32(bitPattern: number))
    }
}
