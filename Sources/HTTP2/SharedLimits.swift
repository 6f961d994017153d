/// The limits that the connections of an event loop share, and the bytes that they hold together. Used on that loop only.
final class SharedLimits {
    let limits: HTTPLimits
    /// The web origins that a server allows.
    let origins: OriginTable
    /// Set before the first connection.
    var clientAddresses = ClientAddresses.ofConnections
    /// ``heldBytes``, ``decodedBytes`` and ``decodedCount``.
    private let counts: UnsafeMutablePointer<Int>

    init(_ limits: HTTPLimits, origins: OriginTable = OriginTable(AllowedOrigins())) {
        self.limits = limits
        self.origins = origins
        counts = .allocate(capacity: 3)
        counts.initialize(repeating: 0, count: 3)
    }

    deinit { counts.deallocate() }

    /// The bytes that count towards ``HTTPLimits/heldBytesMax``.
    ///
    /// They are those of ordinary HTTP/2 streams, of HTTP/1.1 requests that are incomplete or wait, of unsent HTTP/1.1 answers, and of
    /// long answers that wait for ``AnswerCompression``.
    /// The count is in plain memory, because every request and every push reads it.
    var heldBytes: Int {
        @inline(__always) get { counts[0] }
        @inline(__always) set { counts[0] = newValue }
    }

    /// The size of the HTTP/2 header lists (RFC 9113 §6.5.2) that were decoded and are not counted by the loop yet.
    var decodedBytes: Int {
        @inline(__always) get { counts[1] }
        @inline(__always) set { counts[1] = newValue }
    }

    /// The number of these header lists.
    var decodedCount: Int {
        @inline(__always) get { counts[2] }
        @inline(__always) set { counts[2] = newValue }
    }
}
