import PresenceWire

/// The operations of <doc:HTTPAPI#Operations>: reads a ``Call`` from a JSON body, and writes its answer as JSON.
package enum API {
    /// A parsed call, and the users in it that are invalid.
    package struct Parsed: Equatable {
        package let call: Call
        package let subject: UserID
        package let errors: [UserError]
        /// The calling session, if the call names it.
        package var session: SessionID?
        /// The session whose client lives, because its ID is in the call; nil for a call without one. See `alive=client`.
        package var sign: SessionID?
        /// The users about whom the node that answers may not know better.
        package var unsure = UnsureUsers.none

        /// The same with what the call takes from its token: the time to which it moves the end of a session.
        fileprivate func signed(by caller: Caller) -> Parsed {
            guard case .owner(.renew(let session, 0)) = call else { return self }
            return Parsed(call: .renew(session, until: caller.expiresAt), subject: subject, errors: errors)
        }
    }

    /// The part of an app's plan and the switches that cover an operation.
    package enum Scope {
        /// The operation is part of every plan.
        case always
        /// The operation sets the caller's own status (T13).
        case ownStatus
        /// The operation publishes an event.
        case events
        /// The operation is about other users (T16, T36).
        case others
        /// The operation is part of the relationship chain.
        case chain
    }

    /// Parses the body of a call by the rules of the app's policy.
    package static func parse(
        _ operation: Operation, body: UnsafeBufferPointer<UInt8>, caller: Caller, policy shared: SharedPolicy
    ) throws(Problem) -> Parsed {
        // Without the role there is nothing to mend in the body.
        if let need = operation.needOfAdmin { try caller.mustBeAdmin(to: need) }
        let fields = try Fields(body)
        if let need = try operation.needOfAdmin(in: fields) { try caller.mustBeAdmin(to: need) }
        let subject = try subject(asUser: try fields.text("asUser", bytesMax: 1_024), caller: caller)
        let type = operation.type
        var parsed = try type.parse(fields, subject, shared.policy).signed(by: caller)
        // A call that ends a session is no sign of it. To all others but those that need it, the field is one of the unknown ones.
        if subject == caller.user, operation != .logout { parsed.sign = parsed.session ?? (try? fields.session()) }
        try shared.policy.allow(type.scope(of: parsed.call, by: subject))
        if shared.policy.errorShape == .wholeCall, let first = parsed.errors.first {
            throw Problem(status: 400, code: first.code, detail: first.reason, rule: first.rule, errors: parsed.errors)
        }
        return parsed
    }

    /// The user of a request: the caller, or the user that an app's back end names.
    package static func subject(asUser: String?, caller: Caller) throws(Problem) -> UserID {
        guard let id = asUser else { return caller.user }
        guard caller.isAdmin else { throw .wrongRole("asUser: only a token with role \"admin\" may name another user") }
        guard Limits.isValidName(id) else { throw .userID("asUser") }
        return UserID(app: String(caller.user.app), id: id)
    }

    /// Writes the body of the answer to a call. Throws if the call was refused.
    ///
    /// - Parameter unsure: the users about whom the answering node may not know better.
    package static func write(
        _ answer: CallAnswer, to operation: Operation, of caller: UserID, errors: [UserError], policy shared: SharedPolicy,
        unsure: UnsureUsers = .none, into json: inout JSONWriter
    ) throws(Problem) {
        switch answer {
        case .refused(let refusal): throw Problem(refusal)
        case .rateLimited(let retryAfter): throw .rateLimited(operation.name, retryAfter: retryAfter)
        default:
            try operation.type.write(any: answer, to: AskedCall(caller: caller, errors: errors, unsure: unsure), shared.policy, into: &json)
        }
    }

    /// Writes the body of the answer to a call of an operator. Throws if the call was refused.
    ///
    /// - Parameters:
    ///   - owner: the owner's part of the answering node, which knows the policies of apps.
    ///   - unsure: the users about whom that node may not know better.
    package static func write(
        _ answer: CallAnswer, to parsed: Parsed, of operation: OperatorCall, _ owner: borrowing Owner, unsure: UnsureUsers = .none,
        into json: inout JSONWriter
    ) throws(Problem) {
        switch answer {
        case .refused(let refusal): throw Problem(refusal)
        case .rateLimited(let retryAfter): throw .rateLimited(operation.name, retryAfter: retryAfter)
        default:
            var parsed = parsed
            parsed.unsure = unsure
            try operation.type.write(any: answer, to: parsed, owner, into: &json)
        }
    }
}

extension Caller {
    /// Throws unless the token has the role of an app's back end.
    ///
    /// - Parameter need: the effect that needs the role, in words.
    fileprivate func mustBeAdmin(to need: String) throws(Problem) {
        if !isAdmin { throw .wrongRole("\(need); only a token with role \"admin\" may do this") }
    }
}

/// A call whose answer is written.
package struct AskedCall {
    package let caller: UserID
    /// The users of the call that are invalid.
    package let errors: [UserError]
    /// The users about whom the answering node may not know better.
    package let unsure: UnsureUsers
}

/// The parts of an operation that the HTTP API needs. A file in `Calls/Operations` has those of an operation of clients.
package protocol ClientOperation {
    /// The answer to a call that is not refused.
    associatedtype Answer: OperationAnswer

    /// The operation in the OpenAPI document.
    static var description: OpenAPI.Operation { get }

    /// Reads a call from its fields. Throws for a field that breaks a rule.
    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed

    /// The part of the app's plan to which a call belongs.
    static func scope(of call: Call, by subject: UserID) -> API.Scope

    /// Whether a repetition of a call could be told apart: see ``API/Operation/takesKey``.
    static var takesKey: Bool { get }

    /// Writes the body of an answer that is not a refusal.
    static func write(_ answer: Answer, to call: AskedCall, _ policy: Policy, into json: inout JSONWriter) throws(Problem)

    /// Counts the users of an answered call whom the policy of the app refused.
    static func countRejections(in answer: Answer, of caller: UserID, _ policy: Policy, into rejections: inout PolicyRejections)

    // Both have one implementation. As requirements they are compiled for each operation: 900 instructions less for a request.
    /// Writes an answer of any kind. Throws 50001 if it is not an answer to this operation.
    static func write(any answer: CallAnswer, to call: AskedCall, _ policy: Policy, into json: inout JSONWriter) throws(Problem)
    /// Counts the users of a call with an answer of any kind whom the policy of the app refused.
    static func countRejections(
        inAny answer: CallAnswer, of caller: UserID, _ policy: Policy, into rejections: inout PolicyRejections)
}

/// The parts of an operation of operators that the HTTP API needs.
package protocol OperatorOperation {
    /// The answer to a call that is not refused.
    associatedtype Answer: OperationAnswer

    /// The operation in the OpenAPI document.
    static var description: OpenAPI.Operation { get }

    /// Reads a call from its body. Throws for a field that breaks a rule.
    ///
    /// - Parameters:
    ///   - fields: the fields of `body`.
    ///   - caller: the user of the operator's token. The call concerns the app of this user.
    static func parse(_ fields: Fields, of body: [UInt8], by caller: UserID) throws(Problem) -> API.Parsed

    /// Writes the body of an answer that is not a refusal.
    static func write(_ answer: Answer, to parsed: API.Parsed, _ owner: borrowing Owner, into json: inout JSONWriter) throws(Problem)
}

extension ClientOperation {
    package static func scope(of call: Call, by subject: UserID) -> API.Scope { .always }

    package static var takesKey: Bool { false }

    package static func countRejections(
        in answer: Answer, of caller: UserID, _ policy: Policy, into rejections: inout PolicyRejections
    ) {}

    package static func write(any answer: CallAnswer, to call: AskedCall, _ policy: Policy, into json: inout JSONWriter) throws(Problem) {
        guard let answer = Answer(answer) else { throw .wrongAnswer }
        try write(answer, to: call, policy, into: &json)
    }

    package static func countRejections(
        inAny answer: CallAnswer, of caller: UserID, _ policy: Policy, into rejections: inout PolicyRejections
    ) {
        if let answer = Answer(answer) { countRejections(in: answer, of: caller, policy, into: &rejections) }
    }
}

extension OperatorOperation {
    /// Writes an answer of any kind. Throws 50001 if it is not an answer to this operation.
    fileprivate static func write(
        any answer: CallAnswer, to parsed: API.Parsed, _ owner: borrowing Owner, into json: inout JSONWriter
    ) throws(Problem) {
        guard let answer = Answer(answer) else { throw .wrongAnswer }
        try write(answer, to: parsed, owner, into: &json)
    }
}

extension Policy {
    /// Throws if the app's plan does not cover a call (T36, R1, Z1), or if a switch is off (T16, T19, R1, N25).
    ///
    /// A user may set its own status if the plan only excludes calls about others (T13).
    fileprivate func allow(_ scope: API.Scope) throws(Problem) {
        if scope == .chain {
            guard chain.isEnabled else {
                throw .notAllowed(72001, "the relationship chain is switched off for this app (chain.enabled)", by: .off)
            }
            return
        }
        guard !publishesOthers else { return }
        switch scope {
        case .always, .chain: return
        case .ownStatus, .events: guard coversOwnStatus else { throw .ownStatusNotInPlan }
        case .others:
            if plan == .basic {
                throw .notAllowed(7013, "the app's plan is \"basic\" and covers only the caller's own status", by: .plan)
            }
        }
        guard scope == .ownStatus || statusEnabled else {
            throw .notAllowed(72001, "queries, subscriptions and events are switched off for this app (userStatus.enabled)", by: .off)
        }
    }
}

extension JSONWriter {
    /// Writes the member `userStatus` of an operation that changes the caller's own status, as the caller's streams have it.
    mutating func ownStatus(_ answer: RecordAnswer, _ policy: Policy) {
        key("userStatus")
        userStatus(answer.record, showsPlatforms: policy.exposesPlatforms, isUnknown: policy.selfReport == .unknown, isOwn: true)
    }
}
