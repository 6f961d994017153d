/// A stream of one connection. Stays distinct from later streams that use the same place.
public struct StreamID: Hashable, Sendable {
    /// The place in the connection's table.
    let slot: UInt32
    /// The HTTP/2 stream ID; for HTTP/1.1 the number of the request.
    let number: Int32

    /// Means no stream of any connection.
    public static let unused = StreamID(slot: .max, number: 0)
}
