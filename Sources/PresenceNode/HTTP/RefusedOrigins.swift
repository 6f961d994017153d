import Logging
import Synchronization

/// Names each origin whose pages this node refuses once in the log, because a browser tells neither the page nor its author which setting
/// is missing. The node's loops share one instance.
final class RefusedOrigins: Sendable {
    /// Most origins that are named. Strangers can send any text.
    static let namedMax = 32

    private let named = Mutex<Set<String>>([])

    /// Whether the origin is to be named now.
    func isNew(_ origin: String) -> Bool {
        named.withLock { $0.count < Self.namedMax && $0.insert(origin).inserted }
    }

    func note(_ origin: String, to logger: Logger) {
        guard isNew(origin) else { return }
        logger.warning(
            """
            pages of an origin that corsOrigins does not allow try to call this node, and their browser refuses; \
            if the pages are yours, add their origin to corsOrigins; each origin is named once
            """, metadata: ["origin": "\(origin)"])
    }
}
