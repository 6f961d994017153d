/// Sends requests to nodes.
protocol Transport: Sendable {
    /// Connections that requests share.
    typealias Pool = AnyObject & Sendable

    /// Returns the head of the answer, and its body as it arrives. Throws ``Silence`` after the timeout, or the error of the connection.
    ///
    /// - Parameter pool: the connections of another answer to use; nil for the current ones.
    func send(_ request: TransportRequest, timeout: Duration, over pool: (any Pool)?) async throws -> TransportResponse
    /// Makes new connections for new requests, because the current ones may be half-open, which nothing reports. Requests in flight keep
    /// theirs.
    func renewConnections()
}

/// The error after the timeout.
struct Silence: Error, CustomStringConvertible {
    let limit: Duration

    var description: String { "no answer within \(limit)" }
}

/// A request to a node.
struct TransportRequest: Sendable, Equatable {
    var url: String
    /// The body: GET if nil, otherwise POST.
    var body: [UInt8]?
    var token: String
    var lastEventID: String?
    /// The name of the call, which its repetitions share.
    var idempotencyKey: String?
}

/// A node's answer.
struct TransportResponse: Sendable {
    var status: Int
    /// The `Retry-After` header, in seconds.
    var retryAfter: Int?
    /// The `Request-ID` header.
    var requestID: String?
    /// Whether other requests use the same connection (HTTP/2). False where the transport cannot tell.
    var isMultiplexed: Bool
    /// The connections that carry the answer.
    var pool: (any Transport.Pool)?
    var body: TransportBody

    init<Pieces: AsyncSequence & Sendable>(
        status: Int, retryAfter: Int? = nil, requestID: String? = nil, isMultiplexed: Bool, pool: (any Transport.Pool)? = nil, body: Pieces
    ) where Pieces.Element == [UInt8] {
        (self.status, self.retryAfter, self.requestID) = (status, retryAfter, requestID)
        (self.isMultiplexed, self.pool) = (isMultiplexed, pool)
        self.body = TransportBody(body)
    }
}

/// The pieces of an answer's body, as they arrive.
///
/// `any AsyncSequence<[UInt8], any Error>` says the same, but needs iOS 18 and macOS 15.
struct TransportBody: AsyncSequence, Sendable {
    struct AsyncIterator: AsyncIteratorProtocol {
        let read: () async throws -> [UInt8]?

        func next() async throws -> [UInt8]? { try await read() }
    }

    private let begin: @Sendable () -> AsyncIterator

    init<Pieces: AsyncSequence & Sendable>(_ pieces: Pieces) where Pieces.Element == [UInt8] {
        begin = {
            var iterator = pieces.makeAsyncIterator()
            return AsyncIterator { try await iterator.next() }
        }
    }

    func makeAsyncIterator() -> AsyncIterator { begin() }
}

/// Text encoded for the query of a URL (RFC 3986 §2.3).
func percentEncoded(_ text: String) -> String {
    var encoded = ""
    for byte in text.utf8 {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
            UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."), UInt8(ascii: "~"):
            encoded.unicodeScalars.append(Unicode.Scalar(byte))
        default:
            let digits = String(byte, radix: 16, uppercase: true)
            encoded += byte < 16 ? "%0\(digits)" : "%\(digits)"
        }
    }
    return encoded
}
