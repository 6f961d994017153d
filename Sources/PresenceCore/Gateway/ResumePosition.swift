import PresenceWire

/// The position that the client of one session may resume from: the `id` of the next event.
///
/// A client that resumes from a position is sent only what has changed since. The position of an event therefore never passes a record
/// that the session has still to be sent.
struct ResumePosition {
    /// Whether the client has seen an earlier stream, even if the position that it named is unknown here, or an answer that named a newer
    /// record than this node had: see ``hasSeenElsewhere()``.
    private(set) var isResumed: Bool
    /// The client knows the records up to here.
    let floor: Version
    /// When the session was opened, by the wall clock.
    private let openedAt: Milliseconds
    /// The position when the gateway began to hold a record back; nil while it holds nothing back.
    private var held: Milliseconds?

    /// The position that a client named, if this cluster can have given it.
    ///
    /// A position in the future comes from another clock, so nothing is known of what the client was sent. No node gives a negative one.
    static func accepted(_ resumeFrom: Milliseconds?, at now: Milliseconds) -> Milliseconds? {
        resumeFrom.flatMap { $0 >= 0 && $0 <= now ? $0 : nil }
    }

    /// - Parameters:
    ///   - resumeFrom: the `Last-Event-ID` of the client; nil for a new client.
    ///   - nodePosition: the time up to which the records of this node are complete.
    ///   - now: the wall clock.
    init(resumeFrom: Milliseconds?, nodePosition: Milliseconds, openedAt now: Milliseconds) {
        isResumed = resumeFrom != nil
        openedAt = now
        // While this node was cut off, it may have missed records that the client's node had.
        floor =
            Self.accepted(resumeFrom, at: now).map { Version(milliseconds: max(min($0, nodePosition), 0), counter: 0, node: 0) } ?? .zero
    }

    /// The position of an event that is pushed now.
    ///
    /// - Parameter hasSentAll: whether the session was sent all that it follows, apart from what is held back.
    func id(at nodePosition: Milliseconds, hasSentAll: Bool) -> Milliseconds {
        min(nodePosition, hasSentAll ? held ?? .max : floor.milliseconds)
    }

    /// Whether a record is held back from the session.
    var isHeld: Bool { held != nil }

    /// Keeps the position where it is, because a record is held back from now on.
    ///
    /// - Parameter publishesOthers: whether the policy of the app allows records of other users.
    mutating func hold(at nodePosition: Milliseconds, publishesOthers: Bool) {
        guard held == nil else { return }
        held = publishesOthers ? nodePosition : min(nodePosition, floor.milliseconds)
    }

    /// Has the position move on, because nothing is held back any more.
    mutating func release() { held = nil }

    /// The client knows the profiles up to here: a new client fetches those that it needs once its session is open.
    ///
    /// There is no margin for clocks that differ. A node tells its sessions each change that comes after the first record of a user. So a
    /// version counts only for a change between the start of the session and that record.
    var profileFloor: Version { isResumed ? floor : Version(milliseconds: max(openedAt, 0), counter: 0, node: 0) }

    /// Records that the answer to a call gave the client a newer record than this node has, from another side of a network partition.
    mutating func hasSeenElsewhere() { isResumed = true }

    /// Whether the client may have dropped this version as older than the record that an earlier stream pushed.
    func mayDrop(_ version: Version) -> Bool { version > floor && mayPrecede(version) }

    /// Whether this version may have been written before the session was opened.
    ///
    /// Another side of a network partition may have pushed the client a newer record then.
    func mayPrecede(_ version: Version) -> Bool { version.milliseconds <= openedAt + VersionClock.usualDriftMax.wholeMilliseconds }
}
