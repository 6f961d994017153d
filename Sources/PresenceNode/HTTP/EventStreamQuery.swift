import PresenceCore
import PresenceWire

/// The query of `GET /v1/events`.
struct EventStreamQuery: Equatable {
    var platform = "unknown"
    var deviceID = ""
    var customStatus: String?
    var isPushReachable = false
    /// The user whose stream an app's back end opens.
    var asUser: String?
    /// The ticket that replaces the token.
    var ticket: String?
    /// The position from which the client resumes, for clients that cannot send the field `Last-Event-ID`.
    var lastEventID: String?
    /// Whether an idle stream carries comments over HTTP/2 too. JavaScript does not see the node's PINGs.
    var wantsComments = false
    /// The interval of comments that the client asks for, on an idle stream of any version of HTTP; nil for the node's.
    var heartbeat: Duration?
    /// Whether the client promises signs of life of its own, because only its kernel or a proxy answers for the connection.
    var promisesSigns = false
    /// Whether the stream is a session, or hears without being seen. The latter sets no custom status, and no device of it is reachable.
    var kind = Attach.Kind.session

    /// The seconds for which a client may ask as ``heartbeat``.
    static let heartbeatSeconds: ClosedRange<Int64> = 2...60

    private static let names = [
        "platform", "deviceID", "customStatus", "pushReachable", "asUser", "ticket", "lastEventID", "comments", "heartbeat", "alive",
        "presence",
    ]

    /// Reads `a=b&c=d` with percent-encoding. Unknown names are ignored. A name that occurs twice must have one value: a proxy may add a
    /// parameter that the client has given already.
    init(_ query: some Collection<UInt8>) throws(Problem) {
        var seen: [String: String] = [:]
        for part in query.split(separator: UInt8(ascii: "&")) {
            let pair = part.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            let name = try Self.decode(pair[0], of: "query")
            let value = pair.count > 1 ? try Self.decode(pair[1], of: name) : ""
            guard Self.names.contains(name) else { continue }
            if let earlier = seen.updateValue(value, forKey: name) {
                guard earlier == value else { throw .parameter("\(name): occurs twice with different values") }
                continue
            }
            try set(name, value)
        }
    }

    /// Throws if the app's policy does not allow the query (T12, Z1, Z4).
    func check(by policy: Policy) throws(Problem) {
        let bytesCount = customStatus?.utf8.count ?? 0
        // An empty text leaves the status as it is (Z8), and needs no plan.
        guard bytesCount == 0 || policy.coversOwnStatus else { throw .ownStatusNotInPlan }
        guard bytesCount <= policy.customStatusBytesMax else {
            throw .parameter("customStatus: has \(bytesCount) bytes; at most \(policy.customStatusBytesMax) are allowed", by: .customStatus)
        }
    }

    private mutating func set(_ name: String, _ value: String) throws(Problem) {
        switch name {
        case "platform":
            guard Limits.isValidPlatform(value) else {
                throw .parameter("platform: must be 1 to \(Limits.platformBytesMax) letters, digits, '-', '_' or '.'")
            }
            platform = value
        case "deviceID":
            let isClean = value.unicodeScalars.allSatisfy { $0.value >= 0x20 && !(0x7F...0x9F).contains($0.value) }
            guard value.utf8.count <= Limits.deviceBytesMax, isClean else {
                throw .parameter("deviceID: must be at most \(Limits.deviceBytesMax) bytes without control characters")
            }
            deviceID = value
        case "pushReachable":
            guard let isReachable = Bool(value) else { throw .parameter("pushReachable: must be true or false") }
            isPushReachable = isReachable
        case "asUser": asUser = value
        case "ticket": ticket = value
        case "lastEventID": lastEventID = value
        case "comments":
            guard let isWanted = Bool(value) else { throw .parameter("comments: must be true or false") }
            wantsComments = isWanted
        case "heartbeat":
            guard let seconds = Int64(value), Self.heartbeatSeconds.contains(seconds) else {
                let range = Self.heartbeatSeconds
                throw .parameter("heartbeat: must be an integer from \(range.lowerBound) to \(range.upperBound)")
            }
            heartbeat = .seconds(seconds)
        case "alive":
            guard value == "client" else { throw .parameter("alive: must be client") }
            promisesSigns = true
        case "presence":
            guard value == "none" else { throw .parameter("presence: must be none") }
            kind = .listener
        default:
            guard value.utf8.count <= Limits.customStatusBytesMax else {
                throw .parameter("customStatus: has \(value.utf8.count) bytes; at most \(Limits.customStatusBytesMax) are allowed")
            }
            customStatus = value
        }
    }

    private static func decode(_ text: some Collection<UInt8>, of field: String) throws(Problem) -> String {
        var bytes: [UInt8] = []
        var rest = Array(text)[...]
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "+"): bytes.append(0x20)
            case UInt8(ascii: "%"):
                guard rest.count >= 2, let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16) else {
                    throw .parameter("\(field): '%' must be followed by two hexadecimal digits")
                }
                bytes.append(value)
                rest = rest.dropFirst(2)
            default: bytes.append(byte)
            }
        }
        guard let decoded = String(validating: bytes, as: UTF8.self) else { throw .parameter("\(field): is not UTF-8") }
        return decoded
    }
}
