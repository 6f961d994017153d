/// The limits that the connections of an event loop share, and the bytes that they hold together. Used on that loop only.
final class SharedLimits {
    let limits: HTTPLimits
    private let held: UnsafeMutablePointer<Int>

    init(_ limits: HTTPLimits) {
        self.limits = limits
        held = .allocate(capacity: 1)
        held.initialize(to: 0)
    }

    deinit { held.deallocate() }

    /// The bytes that count towards ``HTTPLimits/heldBytesMax``.
    ///
    /// They are those of ordinary HTTP/2 streams, of HTTP/1.1 requests that are incomplete or wait, and of unsent HTTP/1.1 answers.
    /// The count is in plain memory, because every request and every push reads it.
    var heldBytes: Int {
        @inline(__always) get { held.pointee }
        @inline(__always) set { held.pointee = newValue }
    }
}
