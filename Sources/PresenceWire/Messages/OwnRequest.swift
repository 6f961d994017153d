/// A request that the owner of its user decides, with the type of the owner's answer.
///
/// The type ties both ends: the owner can give no other answer, and the calling node takes no other one.
public protocol OwnRequest: Hashable, Sendable {
    /// The owner's answer, unless it refuses the request.
    associatedtype Answer: OwnAnswer
}

/// The answer of an owner to one kind of request.
public protocol OwnAnswer: Hashable, Sendable {
    /// Nil for the answer to a request of another kind. Only a broken node sends such.
    init?(_ answer: Answer)

    /// The answer as it travels.
    var answer: Answer { get }
}

extension OwnRequest {
    /// Whether an answer belongs to the request.
    func isAnswered(by answer: PresenceWire.Answer) -> Bool { Answer(answer) != nil }
}

/// The answer to a request that has nothing else to say.
public struct DoneAnswer: OwnAnswer {
    public init() {}

    public init?(_ answer: Answer) { guard case .done = answer else { return nil } }

    public var answer: Answer { .done }
}

/// The user's record, as it is now.
public struct RecordAnswer: OwnAnswer {
    public let record: Record

    public init(record: Record) { self.record = record }

    public init?(_ answer: Answer) {
        guard case .record(let record) = answer else { return nil }
        self.record = record
    }

    public var answer: Answer { .record(record) }
}

/// The number of webhook events that are delivered once more, and whether all that were asked for are kept: of one node, or of all.
public struct ReplayAnswer: OwnAnswer {
    public let eventsCount: UInt64
    public let isComplete: Bool

    public init?(_ answer: Answer) {
        guard case .replayed(let eventsCount, let isComplete) = answer else { return nil }
        (self.eventsCount, self.isComplete) = (eventsCount, isComplete)
    }

    public var answer: Answer { .replayed(eventsCount: eventsCount, isComplete: isComplete) }
}

/// The user's visibility, and how long a dead member may show what it hides.
public struct VisibilityAnswer: OwnAnswer {
    /// The visibility without the friends, whom no answer names. The caller is shown ``Privacy/visibility`` alone.
    public let privacy: Privacy
    public let remnant: Remnant

    public init(privacy: Privacy, remnant: Remnant = .none) { (self.privacy, self.remnant) = (privacy, remnant) }

    public init?(_ answer: Answer) {
        guard case .visibility(let privacy, let remnant) = answer else { return nil }
        (self.privacy, self.remnant) = (privacy, remnant)
    }

    public var answer: Answer { .visibility(privacy, remnant: remnant) }
}

/// Reads the user's visibility.
public struct VisibilityRequest: OwnRequest {
    public typealias Answer = VisibilityAnswer

    public init() {}
}

extension Visibility.Change: OwnRequest {
    public typealias Answer = VisibilityAnswer
}

/// Ends one session of the user; nil ends all of them.
public struct LogoutRequest: OwnRequest {
    public typealias Answer = DoneAnswer

    public let session: SessionID?

    public init(session: SessionID?) { self.session = session }
}

/// Moves the end of a session to that of a newer token.
public struct RenewRequest: OwnRequest {
    public typealias Answer = DoneAnswer

    public let session: SessionID
    /// The end of the token.
    public let expiresAt: Milliseconds

    public init(session: SessionID, expiresAt: Milliseconds) { (self.session, self.expiresAt) = (session, expiresAt) }

    func write(into wire: inout WireWriter) {
        wire.session(session)
        wire.signed(expiresAt)
    }
}

/// Sets the custom status, or clears it with an empty text.
public struct CustomStatusRequest: OwnRequest {
    public typealias Answer = RecordAnswer

    public let customStatus: String
    /// The time after which the status ends; nil for that of the app's policy.
    public let seconds: Int64?

    public init(customStatus: String, seconds: Int64?) { (self.customStatus, self.seconds) = (customStatus, seconds) }
}
