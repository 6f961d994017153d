import PresenceWire

/// The answer to one kind of call, with the type that the operation writes.
///
/// A ``CallAnswer`` may be the answer to any call. An operation that is handed the answer to another call has no value to write, so the
/// call is refused.
package protocol OperationAnswer {
    /// Nil for the answer to a call of another kind.
    init?(_ answer: CallAnswer)
}

/// An answer that an operation writes without the policy of the app.
protocol PlainAnswer: OperationAnswer {
    /// - Parameter errors: the users of the call that are invalid.
    func write(_ errors: [UserError], into json: inout JSONWriter)
}

extension ClientOperation where Answer: PlainAnswer {
    static func write(_ answer: Answer, to call: AskedCall, _ policy: Policy, into json: inout JSONWriter) {
        answer.write(call.errors, into: &json)
    }
}

extension OperatorOperation where Answer: PlainAnswer {
    static func write(_ answer: Answer, to parsed: API.Parsed, _ owner: borrowing Owner, into json: inout JSONWriter) {
        answer.write(parsed.errors, into: &json)
    }
}

/// An operation of the relationship chain.
protocol ChainOperation: ClientOperation {}

extension ChainOperation {
    static func scope(of call: Call, by subject: UserID) -> API.Scope { .chain }
}

extension Call {
    /// Decides about other users in the relationship chain.
    public static func chain(_ call: ChainCall) -> Call { .owner(.chain(call)) }

    /// Reads or changes the caller's own profile and lists of the relationship chain.
    public static func friendCall(_ call: FriendCall) -> Call { .owner(.friendCall(call)) }
}

/// An operation that changes the relationship chain, and whose repetition can be told apart.
protocol ChainChange: ChainOperation {}

extension ChainChange {
    static var takesKey: Bool { true }
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

extension DoneAnswer: PlainAnswer {
    func write(_ errors: [UserError], into json: inout JSONWriter) { json.object { _ in } }
}

extension RecordAnswer: OperationAnswer {}

extension ChainAnswer: PlainAnswer {
    func write(_ errors: [UserError], into json: inout JSONWriter) { json.chainOutcomes(outcomes, errors, remnant) }
}

extension FriendCallResult: PlainAnswer {
    func write(_ errors: [UserError], into json: inout JSONWriter) { json.value(self.json) }
}
