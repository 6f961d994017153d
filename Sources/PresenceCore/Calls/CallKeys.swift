import PresenceWire

/// The calls that a client may name by a key, so that it can repeat them (<doc:HTTPAPI#Repeated-calls>).
extension API.Operation {
    /// Whether a repetition of a call could be told apart. All other operations have the same effect if they are carried out twice.
    package var takesKey: Bool { type.takesKey }

    /// The key of a call; nil if the call has none. Throws 6017 for a header that cannot be one.
    ///
    /// - Parameters:
    ///   - header: the value of the header `Idempotency-Key`; nil without the header.
    ///   - body: the body of the call.
    package func key(_ header: [UInt8]?, body: some Sequence<UInt8>) throws(Problem) -> CallKey? {
        guard takesKey, let header else { return nil }
        guard let key = CallKey(header, operation: name, body: body) else {
            throw .parameter("Idempotency-Key: must be 1 to \(CallKey.bytesMax) bytes of visible ASCII, without spaces")
        }
        return key
    }
}
