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
        guard let key = CallKey(header, operation: name, body: Self.withoutSession(Array(body))) else {
            throw .parameter("Idempotency-Key: must be 1 to \(CallKey.bytesMax) bytes of visible ASCII, without spaces")
        }
        return key
    }

    /// The body without the session that makes the call, and without white space between its tokens.
    ///
    /// A client may repeat a call in another session, as a page does that was loaded again. Only a member of the body itself is the
    /// session: a text or an object in the body may have the same bytes. A body that is not an object is refused elsewhere.
    private static func withoutSession(_ body: [UInt8]) -> [UInt8] {
        guard case .object(let members)? = try? JSONReader.read(body) else { return body }
        var json = JSONWriter(reserving: body.count)
        json.value(.object(members.filter { $0.name != "sessionID" }))
        return json.bytes
    }
}
