import PresenceWire

/// The answer to one kind of call, with the type that the operation writes.
///
/// A ``CallAnswer`` may be the answer to any call. An operation that is handed the answer to another call has no value to write, so the
/// call is refused.
package protocol OperationAnswer {
    /// Nil for the answer to a call of another kind.
    init?(_ answer: CallAnswer)
}

extension Problem {
    /// 50001: the answer is not one to the call. Only a defect of a node causes it.
    static let wrongAnswer = Problem(.unavailable)
}

extension OwnAnswer {
    /// The answer of one owner, which is the answer to the call.
    package init?(_ answer: CallAnswer) {
        guard case .owner(let answer) = answer else { return nil }
        self.init(answer)
    }
}

extension DoneAnswer: OperationAnswer {}

extension RecordAnswer: OperationAnswer {}

/// The results of a call of the relationship chain, and after a block how long a dead member may show the blocker to the blocked users.
struct ChainAnswer: OperationAnswer {
    let outcomes: [ChainOutcome]
    let remnant: Remnant

    init?(_ answer: CallAnswer) {
        switch answer {
        case .chained(let outcomes): (self.outcomes, remnant) = (outcomes, .none)
        case .blocked(let outcomes, let remnant): (self.outcomes, self.remnant) = (outcomes, remnant)
        default: return nil
        }
    }
}

extension FriendCallResult: OperationAnswer {
    package init?(_ answer: CallAnswer) {
        guard case .friendCalled(let result) = answer else { return nil }
        self = result
    }
}
