import PresenceCore
import PresenceWire
import Testing

@testable import HTTP2
@testable import PresenceNode

@Suite struct ClientCallsTests {
    private var calls = ClientCalls<ConnectionDouble>()
    private let ann = UserID(app: "default", id: "ann")

    private func call(_ operation: API.Operation, errors: [UserError] = []) -> ClientCalls<ConnectionDouble>.Call {
        ClientCalls<ConnectionDouble>.Call(
            connection: ConnectionDouble(), stream: StreamID(slot: 0, number: 1), operation: operation, caller: ann, errors: errors,
            work: nil)
    }

    @Test("A token finds its call once, and never the later call at the same index")
    mutating func tokens() {
        let first = calls.add(call(.logout))
        expect(!calls.isEmpty && calls.take(first)?.operation == .logout)
        expect(calls.isEmpty && calls.take(first) == nil)
        let second = calls.add(call(.getUserStatus))
        expect(second != first && calls.take(first) == nil && calls.take(second)?.operation == .getUserStatus)
        expect(calls.take(99) == nil)
    }

    @Test("A refused call throws its problem, and the next answer is written whole")
    mutating func answers() throws {
        let (query, standard) = (call(.getUserStatus), SharedPolicy(Policy()))
        let problem = #expect(throws: Problem.self) {
            _ = try calls.write(.refused(.overloaded), to: query, standard, unsure: .none)
        }
        expect(problem?.code == Refusal.overloaded.code)
        let answer = CallAnswer.userStatusList([Record(blank: ann)], users: [ann], asOf: 7)
        var texts: [String] = []
        for _ in 0..<2 {
            let json = try calls.write(answer, to: query, standard, unsure: .none)
            texts.append(String(decoding: json.bytes, as: UTF8.self))
            calls.reuse(json)
        }
        expect(texts[0].contains("\"ann\"") && texts[0] == texts[1])
    }

    @Test("Successes and refusals are counted by operation, and users that the policy refused by rule")
    mutating func outcomes() {
        let error = UserError(userID: "bob", code: 6017, reason: "", rule: .friends)
        var policy = Policy()
        policy.mustBeRegistered = true
        let answer = CallAnswer.userStatusList([Record(blank: ann), nil], users: [UserID(app: "default", id: "bob"), ann], asOf: 7)
        calls.outcomes.countSuccess(answer, of: call(.getUserStatus, errors: [error]), SharedPolicy(policy))
        calls.outcomes.count(Problem(status: 400, code: 6017, detail: ""), of: .getUserStatus)
        calls.outcomes.count(Problem(status: 400, code: 6017, detail: ""), of: nil)
        expect(calls.outcomes.successes[API.Operation.getUserStatus.rawValue] == 1)
        expect(calls.outcomes.refusals == [.getUserStatus: [6017: 1]])
        expect(calls.outcomes.rejections[.friends] == 1 && calls.outcomes.rejections[.registered] == 1)
    }
}
