/// Carries a request to a node.
protocol Transport: Sendable {
    /// Connections that requests share.
    typealias Pool = AnyObject & Sendable

    /// The answer's head, and its body as it comes. Throws ``Silence`` when there is none in time, or whatever broke.
    ///
    /// - Parameter pool: takes the connections that another answer came over; nil for the present ones.
    func send(_ request: TransportRequest, timeout: Duration, over pool: (any Pool)?) async throws -> TransportResponse
    /// Makes new connections for new requests, because those there are may be dead: half-open ones are told by nobody. Requests in flight
    /// keep theirs.
    func renewConnections()
}

/// No answer came in time.
struct Silence: Error, CustomStringConvertible {
    let limit: Duration

    var description: String { "no answer within \(limit)" }
}

/// A request to a node.
struct TransportRequest: Sendable, Equatable {
    var url: String
    /// GET without a body, POST with one.
    var body: [UInt8]?
    var token: String
    var lastEventID: String?
}

/// A node's answer.
struct TransportResponse: Sendable {
    var status: Int
    /// The `Retry-After` header, in seconds.
    var retryAfter: Int?
    /// Whether other requests take the same connection (HTTP/2).
    var isMultiplexed: Bool
    /// The connections it came over.
    var pool: (any Transport.Pool)?
    var body: any AsyncSequence<[UInt8], any Error> & Sendable
}

/// Text as it stands in the query of a URL (RFC 3986 §2.3).
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
