/// The ID of a stream within its connection. Differs from the IDs of later streams in the same slot.
public struct StreamID: Hashable, Sendable {
    /// The index in the connection's stream table.
    let slot: UInt32
    /// The HTTP/2 stream ID, or the number of the HTTP/1.1 request.
    let number: Int32

    /// An ID that no stream has.
    public static let unused = StreamID(slot: .max, number: 0)
}
