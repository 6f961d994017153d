import PresenceCore
import PresenceWire

/// The calls of one event loop that wait for their answers, and the counts of all calls.
struct ClientCalls<Connection: AnyObject> {
    typealias Call = WaitingCalls<Connection>.Call

    /// Counts since the start.
    struct Outcomes {
        /// Operations that succeeded, by ``API/Operation/rawValue``.
        private(set) var successes = [UInt64](repeating: 0, count: API.Operation.allCases.count)
        /// Operations that were refused, by operation and code.
        private(set) var refusals: [API.Operation: [Int: UInt64]] = [:]
        /// Users and calls that the policy of the app refused.
        private(set) var rejections = PolicyRejections()

        /// Counts a refused operation by its code.
        mutating func countRefusal(of operation: API.Operation, code: Int) { refusals[operation, default: [:]][code, default: 0] += 1 }

        /// Counts a request that is answered with a problem; `operation` is nil for an event stream.
        mutating func count(_ problem: Problem, of operation: API.Operation?) {
            if let operation { countRefusal(of: operation, code: problem.code) }
            rejections.count(problem.rule)
        }

        /// Counts a success, and the users of the call whom the policy refused meanwhile.
        mutating func countSuccess(_ answer: CallAnswer, of call: Call, _ shared: SharedPolicy) {
            successes[call.operation.rawValue] += 1
            for error in call.errors { rejections.count(error.rule) }
            call.operation.type.countRejections(inAny: answer, of: call.caller, shared.policy, into: &rejections)
        }
    }

    var outcomes = Outcomes()
    private var waiting = WaitingCalls<Connection>()
    /// The memory of the answer that was written last.
    private var writer = JSONWriter(reserving: 4_096)

    init() {}

    /// Whether no call waits for an answer.
    var isEmpty: Bool { waiting.isEmpty }

    /// Keeps a call; returns the token that its answer carries.
    mutating func add(_ call: Call) -> UInt64 { waiting.add(call) }

    /// The call of an answer; nil if it was answered before.
    mutating func take(_ token: UInt64) -> Call? { waiting.take(token) }

    /// Writes the body of an answer, or throws the problem to answer instead. Give the writer back by ``reuse(_:)``.
    mutating func write(_ answer: CallAnswer, to call: Call, _ shared: SharedPolicy, unsure: UnsureUsers) throws(Problem) -> JSONWriter {
        var json = JSONWriter()
        swap(&json, &writer)
        json.clear()
        do throws(Problem) {
            try API.write(
                answer, to: call.operation, of: call.caller, errors: call.errors, policy: shared, unsure: unsure, into: &json)
        } catch {
            swap(&json, &writer)
            throw error
        }
        json.endLine()
        return json
    }

    /// Takes back the memory of an answer that was sent.
    mutating func reuse(_ json: consuming JSONWriter) { writer = json }
}
