import PresenceWire

/// The events of relationship chains that streams are owed, because the queues of these streams are full.
///
/// A stream that has room again is pushed them in order: a burst of changes names each of them. Beyond a bound the newest state stands for
/// all of them, and the client fetches what it lacks.
struct OwedRelationships {
    typealias SessionIndex = Gateway.SessionIndex

    private struct Owed {
        /// In order; nil once they were too many.
        var notices: [RelationshipNotice]? = []
        var bytesCount = 0
        /// Whether the newest state follows.
        var hasState = false
    }

    /// Bytes of the events that are kept for one stream: some 600 friend requests with short texts.
    static let bytesMax = 256 << 10
    /// Bytes of the events that a gateway keeps for all its streams.
    static let allBytesMax = 4 << 20

    private var owed: [SessionIndex: Owed] = [:]
    private var bytesCount = 0

    /// The bytes that an event counts for.
    static func bytesCount(of notice: RelationshipNotice) -> Int { MemoryLayout<RelationshipNotice>.stride + notice.data.count }

    /// Keeps an event for a stream.
    mutating func add(_ notice: RelationshipNotice, to session: SessionIndex) {
        // Taken out, so that its events are not copied.
        var held = owed.removeValue(forKey: session) ?? Owed()
        defer { owed[session] = held }
        guard held.notices != nil else { return }
        let bytes = Self.bytesCount(of: notice)
        if held.bytesCount + bytes <= Self.bytesMax, bytesCount + bytes <= Self.allBytesMax {
            held.notices?.append(notice)
            held.bytesCount += bytes
            bytesCount += bytes
        } else {
            bytesCount -= held.bytesCount
            held = Owed(notices: nil, bytesCount: 0, hasState: true)
        }
    }

    /// Has the newest state follow what is kept for a stream.
    mutating func addState(to session: SessionIndex) { owed[session, default: Owed()].hasState = true }

    /// Ends what a stream is owed. Returns its events, and whether the newest state follows them.
    @discardableResult mutating func take(_ session: SessionIndex) -> (notices: [RelationshipNotice], hasState: Bool) {
        guard let held = owed.removeValue(forKey: session) else { return ([], false) }
        bytesCount -= held.bytesCount
        return (held.notices ?? [], held.hasState)
    }

    /// Stops the process if a stream is owed events although it takes them, or if the bytes are not those of the events.
    func checkInvariants(of sessions: borrowing SessionTable) {
        for session in owed.keys.sorted() {
            precondition(sessions.isOpen(session) && sessions[session].isBlocked, "session \(session) is owed events that it could take")
        }
        // The order does not matter: they are summed.
        let bytes = owed.values.reduce(0) { $0 + ($1.notices ?? []).reduce(0) { $0 + Self.bytesCount(of: $1) } }
        precondition(bytes == bytesCount, "events of \(bytes) bytes are owed, and \(bytesCount) are counted")
    }
}
