import NIOCore

/// The requests of an HTTP/2 connection that wait, and the time that the others may take in a turn of the event loop.
///
/// A read can hold a thousand requests, and a request can ask for an answer of a megabyte. Requests that come behind the time of their
/// connection wait until the other connections have had their turn: see ``HTTPLoop/continueLater(_:)``.
struct RequestTurn {
    private static let listedTime = TimeAmount.microseconds(250)
    /// The requests that begin between two looks at the clock. A look costs a five-hundredth of an ordinary request.
    private static let requestsPerLook: UInt8 = 8
    /// With so many bytes of answers waiting, each request is followed by a look at the clock.
    private static let largeBytes = 64 << 10
    /// The size from which an answer delays the next request of its connection: more than a thousand statuses.
    static let pacedBytes = 512 << 10
    private static let largeBytesPerSecond: Int64 = 4 << 20

    private enum Place {
        case nowhere
        /// The loop will call ``HTTPServerConnection/work()``, in the turn of the connection.
        case listed
    }

    private var held: [StreamID] = []
    /// The requests at the beginning of ``held`` that have begun in this turn.
    private var heldBegun = 0
    private var place = Place.nowhere
    private var end = NIODeadline.distantPast
    private var begun: UInt8 = 0
    /// The time before which no further request begins, because of a large answer.
    private(set) var pausedUntil = NIODeadline.distantPast

    /// Whether no request waits.
    var isEmpty: Bool { held.isEmpty }

    /// Whether requests wait only until fewer bytes of answers wait.
    var isWaitingForBytes: Bool { !held.isEmpty && place == .nowhere }

    /// Begins a turn, which has time for at least one request.
    mutating func begin(at now: NIODeadline, for time: TimeAmount) {
        end = now + time
        begun = 0
    }

    /// Begins the turn for which the connection was listed. Up to sixteen connections share such a turn of the loop.
    mutating func beginListed(at now: NIODeadline) {
        place = .nowhere
        begin(at: now, for: Self.listedTime)
    }

    /// Counts an answer. The next request begins after as long as a large one takes at ``largeBytesPerSecond``.
    ///
    /// An answer of a megabyte takes two milliseconds of the loop. Fifty connections that ask for such answers, and do not read them, would
    /// take all of its time.
    mutating func count(answerBytes: Int) {
        guard answerBytes >= Self.pacedBytes else { return }
        pausedUntil = max(pausedUntil, .now()) + .nanoseconds(Int64(answerBytes) * 1_000_000_000 / Self.largeBytesPerSecond)
    }

    /// Whether no request may begin yet.
    private mutating func isPaused() -> Bool {
        guard pausedUntil != .distantPast else { return false }
        if pausedUntil > .now() { return true }
        pausedUntil = .distantPast
        return false
    }

    /// Returns whether the turn has time for a request, which then begins.
    ///
    /// - Parameter waitingBytes: bytes of answers that the connection has not sent.
    mutating func takeOne(waitingBytes: Int) -> Bool {
        if isPaused() { return false }
        defer { begun = begun &+ 1 }
        guard begun > 0, begun % Self.requestsPerLook == 0 || waitingBytes > Self.largeBytes else { return true }
        return .now() < end
    }

    /// Keeps a request behind those that wait.
    mutating func hold(_ stream: StreamID) { held.append(stream) }

    /// Keeps a request that was to begin, before those that wait. The connection waits for its turn among others: see ``LargeAnswers``.
    mutating func postpone(_ stream: StreamID) {
        if heldBegun > 0 { heldBegun -= 1 } else { held.insert(stream, at: 0) }
        place = .listed
    }

    /// The next request that waits, which begins; nil if none waits or the turn is over.
    ///
    /// The clock is looked at before each but the first of a turn. The answer to a waiting request can be the reason that another
    /// connection's unread answer ends, which makes room for that connection's next request, and so on.
    mutating func next() -> StreamID? {
        guard heldBegun < held.count, !isPaused(), begun == 0 || .now() < end else { return nil }
        begun = max(begun &+ 1, 1)
        heldBegun += 1
        return held[heldBegun - 1]
    }

    /// Removes the requests that have begun. Returns whether others wait.
    mutating func endTurn() -> Bool {
        held.removeFirst(heldBegun)
        heldBegun = 0
        return !held.isEmpty
    }

    /// Puts the connection on the loop's list. Returns false if it is there.
    mutating func list() -> Bool {
        guard place == .nowhere else { return false }
        place = .listed
        return true
    }

    /// Removes all requests, because the connection ends.
    mutating func drop() {
        held = []
        heldBegun = 0
    }
}
