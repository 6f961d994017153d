/// The name that a client gives a call, so that it can repeat the call: the header `Idempotency-Key` (<doc:HTTPAPI#Repeated-calls>).
///
/// The owner of the user keeps the answer under this name. A call with a name that it knows gets that answer, and changes nothing.
public struct CallKey: Hashable, Sendable {
    /// The longest text, in bytes.
    public static let bytesMax = Limits.nameBytesMax

    /// 1 to ``bytesMax`` bytes of visible ASCII.
    public let text: String
    /// A hash of the operation and of the body. The same key with another digest is refused.
    public let digest: UInt64
    /// The users of the call whom the app does not know. The owner adds them to the answer that it keeps.
    public var excluded: [UserID] = []

    public init(_ text: String, digest: UInt64) { (self.text, self.digest) = (text, digest) }

    /// The key of a call; nil if `text` cannot be one.
    ///
    /// - Parameters:
    ///   - text: the value of the header.
    ///   - operation: the name of the operation.
    ///   - body: the bytes of the request.
    public init?(_ text: some Collection<UInt8>, operation: String, body: some Sequence<UInt8>) {
        guard Self.isValid(text) else { return nil }
        self.init(
            String(decoding: text, as: UTF8.self), digest: StableHash.mix(StableHash.hash64(operation.utf8), StableHash.hash64(body)))
    }

    /// Whether these bytes can be a key.
    public static func isValid(_ text: some Collection<UInt8>) -> Bool {
        (1...bytesMax).contains(text.count) && text.allSatisfy { (0x21...0x7E).contains($0) }
    }
}

extension CallKey {
    init(from wire: inout WireReader) throws(DecodeError) {
        let text = try wire.text(bytesMax: Self.bytesMax)
        guard Self.isValid(text.utf8) else { throw .badName }
        self.init(text, digest: try wire.unsigned())
        excluded = try wire.users()
    }

    func write(into wire: inout WireWriter) {
        wire.text(text)
        wire.unsigned(digest)
        wire.users(excluded)
    }
}

extension Refusal {
    /// 6017: the client has used the key for another call.
    public static let keyOfOtherCall = Refusal(
        code: 6017, detail: "Idempotency-Key: another operation or body had this key within the last hour; use a new key for each call")
}
