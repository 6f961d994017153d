/// State that the connections of an event loop share. Used on that loop only.
final class SharedLimits {
    let limits: HTTPLimits
    private let held: UnsafeMutablePointer<Int>

    init(_ limits: HTTPLimits) {
        self.limits = limits
        held = .allocate(capacity: 1)
        held.initialize(to: 0)
    }

    deinit { held.deallocate() }

    /// Bytes that the ordinary streams of all HTTP/2 connections take, the requests on HTTP/1.1 that are not whole or not begun, and the answers
    /// there that have not gone out. In plain memory, because each request and each push looks at it.
    var heldBytes: Int {
        @inline(__always) get { held.pointee }
        @inline(__always) set { held.pointee = newValue }
    }
}
