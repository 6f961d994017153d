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

/// Ends one session of the user; nil ends all of them.
public struct LogoutRequest: OwnRequest {
    public typealias Answer = DoneAnswer

    public let session: SessionID?

    public init(session: SessionID?) { self.session = session }
}
