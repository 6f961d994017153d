/// The web origins whose pages may call this server and read its answers (the CORS protocol of the Fetch standard).
public struct AllowedOrigins: Equatable, Sendable {
    /// Every origin is allowed, and answers name `*`.
    public var isAny = false
    /// Origins as a browser sends them: `https://app.example.com`.
    public var origins: [String] = []
    /// Whether http and https origins of `localhost`, `127.0.0.1` and `[::1]` are allowed, with any port.
    public var allowsLoopback = false

    public init() {}

    /// Whether a text is an origin in the form that browsers send: scheme, host and port in lower case (RFC 6454 §6.2).
    public static func isOrigin(_ text: String) -> Bool {
        guard let colon = text.firstIndex(of: ":"), colon > text.startIndex, text.utf8.count <= bytesMax, text[colon...].hasPrefix("://")
        else {
            return false
        }
        let host = text[colon...].dropFirst(3)
        let isClean = text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && !(0x41...0x5A).contains($0) }
        return isClean && !host.isEmpty && !host.contains { "/?#@,*".contains($0) }
    }

    /// The longest text that is an origin.
    static let bytesMax = 300
    /// Most entries of ``origins``: a stream keeps the number of its origin in one byte.
    public static let countMax = 200
}

/// The origins that the connections of one event loop have seen and allow, by number. Used on that loop only.
///
/// A stream keeps the number, which takes one byte, and its answer repeats the origin.
final class OriginTable {
    /// The origin of a request.
    struct Number: Equatable {
        fileprivate let rawValue: UInt8

        /// The request has no `Origin` field.
        static let absent = Number(rawValue: 0)
        /// The request's origin is not allowed. Those from ``firstRefused`` on are not allowed either, and have a text.
        static let refused = Number(rawValue: 1)
        fileprivate static let firstRefused: UInt8 = 240
        /// Every origin is allowed.
        static let any = Number(rawValue: 2)

        var isAllowed: Bool { rawValue &- Number.any.rawValue < Self.firstRefused - Number.any.rawValue }
    }

    /// The origins that are allowed.
    private enum Rule: Equatable {
        case nobody
        case everybody
        /// Those of the table. With `loopback`, a loopback origin gets its place in the table with its first request.
        case listed(loopback: Bool)
    }

    private let rule: Rule
    /// The values of `Access-Control-Allow-Origin` by number.
    private var values: [[UInt8]]
    /// Refused origins, for logs. Later ones are not remembered.
    private var refused: [[UInt8]] = []

    init(_ allowed: AllowedOrigins) {
        precondition(allowed.origins.count <= AllowedOrigins.countMax, "\(allowed.origins.count) origins")
        if allowed.isAny {
            rule = .everybody
        } else {
            rule = allowed.allowsLoopback || !allowed.origins.isEmpty ? .listed(loopback: allowed.allowsLoopback) : .nobody
        }
        values = [[], [], Array("*".utf8)] + allowed.origins.map { Array($0.utf8) }
    }

    /// Whether answers depend on the origin of their requests. Caches are told so, also of requests without an origin.
    var areAnswersVaried: Bool { rule != .nobody }

    /// The number of an origin.
    ///
    /// A table that is full of loopback origins answers `*` to the next ones: they are allowed as well.
    func number(of origin: UnsafeBufferPointer<UInt8>) -> Number {
        if rule == .everybody { return .any }
        for index in 3..<max(values.count, 3) where origin.equals(values[index]) { return Number(rawValue: UInt8(index)) }
        guard rule == .listed(loopback: true), Self.isLoopback(origin) else { return refuse(origin) }
        guard values.count < Int(Number.firstRefused) else { return .any }
        // Not `Array(origin)`: with a second use the compiler would copy each header value byte by byte.
        values.append(origin.map { $0 })
        return Number(rawValue: UInt8(values.count - 1))
    }

    /// The number of an origin that is not allowed.
    private func refuse(_ origin: UnsafeBufferPointer<UInt8>) -> Number {
        for index in refused.indices where origin.equals(refused[index]) { return Number(rawValue: Number.firstRefused + UInt8(index)) }
        guard refused.count <= Int(UInt8.max - Number.firstRefused), origin.count <= AllowedOrigins.bytesMax else { return .refused }
        let text = String(decoding: origin, as: UTF8.self)
        guard text == "null" || AllowedOrigins.isOrigin(text) else { return .refused }
        refused.append(Array(text.utf8))
        return Number(rawValue: Number.firstRefused + UInt8(refused.count - 1))
    }

    /// The text of a refused origin; nil if it was not remembered, or is allowed.
    func refusedValue(of number: Number) -> String? {
        guard number.rawValue >= Number.firstRefused else { return nil }
        return String(decoding: refused[Int(number.rawValue - Number.firstRefused)], as: UTF8.self)
    }

    /// Calls `body` with the value of `Access-Control-Allow-Origin`; nil if the request's origin is absent or not allowed.
    func withValue<Result>(of number: Number, _ body: (UnsafeBufferPointer<UInt8>?) -> Result) -> Result {
        guard number.isAllowed else { return body(nil) }
        return values[Int(number.rawValue)].withUnsafeBufferPointer { body($0) }
    }

    /// Whether a page of this origin comes from the machine of its browser.
    static func isLoopback(_ origin: UnsafeBufferPointer<UInt8>) -> Bool {
        var rest = origin[...]
        guard rest.starts(with: "http".utf8) else { return false }
        rest = rest.dropFirst(4)
        if rest.first == UInt8(ascii: "s") { rest = rest.dropFirst() }
        guard rest.starts(with: "://".utf8) else { return false }
        rest = rest.dropFirst(3)
        guard let host = ["localhost", "127.0.0.1", "[::1]"].first(where: { rest.starts(with: $0.utf8) }) else { return false }
        rest = rest.dropFirst(host.utf8.count)
        if rest.isEmpty { return true }
        let digits = rest.dropFirst()
        return rest.first == UInt8(ascii: ":") && (1...5).contains(digits.count) && digits.allSatisfy { (48...57).contains($0) }
    }
}

extension OriginTable.Number {
    /// The origin as the application sees it.
    var `public`: HTTPRequest.Origin { isAllowed ? .allowed : self == .absent ? .absent : .refused }
}
