import PresenceWire

/// The decision of an owner about one kind of request. The reply has the answer that belongs to the request.
protocol RequestDecision {
    associatedtype Request: OwnRequest

    /// Carries out a request of a user whom this node owns.
    ///
    /// - Parameter call: the user, the calling node and the time.
    static func perform(
        _ request: Request, of call: OwnerRequest, on owner: inout Owner, into outbox: inout Outbox
    ) -> OwnerReply<Request.Answer>
}

/// An operation of clients whose whole answer is the answer of one owner: the owner performs the request, and the calling node writes the
/// answer of the same type.
///
/// A new operation of this kind needs nothing in ``Calls``: see ``Call/owner(_:)`` and ``CallAnswer/owner(_:)``.
protocol OwnerDecision: ClientOperation, RequestDecision where Answer == Request.Answer {}

/// A decision that changes nothing. Most replies are ``OwnerReply/asWritten(_:)``.
protocol OwnerReading: RequestDecision {
    /// Reads the facts of a user whom this node owns.
    static func read(_ request: Request, of call: OwnerRequest, at owner: borrowing Owner) -> OwnerReply<Request.Answer>
}

extension OwnerReading {
    static func perform(
        _ request: Request, of call: OwnerRequest, on owner: inout Owner, into outbox: inout Outbox
    ) -> OwnerReply<Request.Answer> {
        read(request, of: call, at: owner)
    }
}

/// The answer of an owner, and the condition under which it leaves.
enum OwnerReply<Answer: OwnAnswer> {
    /// Nothing was changed.
    case refused(Refusal)
    /// The answer leaves at once.
    case now(Answer)
    /// The answer says what rows of the caller say. It leaves when these rows are on two disks.
    case asWritten(Answer)
    /// The same for a refusal because of what these rows say.
    case refusedAsWritten(Refusal)
    /// The answer leaves when the rows of this input are on disk.
    case whenStored(Answer)
}

extension RequestDecision {
    /// Carries out a request, and answers it.
    static func decide(_ request: Request, of call: OwnerRequest, on owner: inout Owner, into outbox: inout Outbox) {
        switch perform(request, of: call, on: &owner, into: &outbox) {
        case .refused(let refusal): call.answer(.refused(refusal), into: &outbox)
        case .now(let answer): call.answer(answer.answer, into: &outbox)
        case .asWritten(let answer): call.answerAsWritten(answer.answer, into: &outbox)
        case .refusedAsWritten(let refusal): call.answerAsWritten(.refused(refusal), into: &outbox)
        case .whenStored(let answer): call.answerWhenStored(answer.answer, into: &outbox)
        }
    }
}
