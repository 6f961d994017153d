import PresenceWire
import Testing

@testable import PresenceCore

@Suite struct CallTests {
    /// A broken node may send anything.
    @Test("An answer belongs to the operations that it answers, and to no others") func foreignAnswers() {
        let ann = UserID(app: "default", id: "ann")
        let answers: [Answer] = [
            .record(Record(blank: ann)), .done, .visibility(Privacy()), .records([]), .subscriptions([], total: 0), .followers([1]),
            .followerLimitReached([ann]), .subscribed(evicted: []), .explained(.view, []), .relationsChecked([ann]),
        ]
        let operations: [(OwnerOperation, [Answer])] = [
            (.setSelfStatus(customStatus: "busy", seconds: nil), [answers[0]]), (.register, [answers[0]]),
            (.publishEvent(value: 1, ext: "", seconds: 60, isForOnlineOnly: true, isSynced: true, session: nil), [answers[0]]),
            (.subscribe([], seconds: nil, subscribeType: 1, session: .unknown), [answers[6], answers[7]]),
            (.followers([ann]), [answers[5]]),
            (.unsubscribe(nil, subscribeType: nil, session: .unknown), [.done]), (.logout(nil), [.done]), (.kick(reason: ""), [.done]),
            (.renew(SessionID(stamp: 1, node: 1), until: 1), [.done]),
            (.setPolicy([]), [.done]), (.countQuery(isMade: true), [.done]), (.issueTicket("a"), [.done]), (.redeemTicket("a"), [.done]),
            (.subscriptions(only: nil, offset: 0, limit: 1, subscribeType: nil), [answers[4]]), (.records([ann], for: nil), [answers[3]]),
            (.setVisibility(.init()), [answers[2]]), (.visibility, [answers[2]]), (.explain(ann, .view), [answers[8]]),
            (.checkRelations(RelationCheck(.own([ann]), in: .friends)), [answers[9]]),
            (.checkRelations(RelationCheck(.others([ann], other: ann), in: .blocked)), [answers[9]]),
        ]
        for (operation, right) in operations {
            for answer in answers { #expect(operation.isAnswered(by: answer) == right.contains(answer), "\(operation), \(answer)") }
            #expect(operation.isAnswered(by: .refused(.unavailable)) && operation.isAnswered(by: .rateLimited(retryAfter: 1)))
        }
    }

    /// A cluster of one node.
    private static func lone() -> Cluster {
        Cluster(
            own: Peer(id: NodeID("n"), generation: 1, address: "127.0.0.1:1"), name: "c", gatewaysCount: 1, joins: false,
            settings: CoreSettings())
    }

    /// The calls of ann at a node that is her owner as well.
    private struct AnnsCalls: ~Copyable {
        var calls = Calls(after: 0)
        var cluster = CallTests.lone()
        private let edge = Edge(settings: CoreSettings())
        private let owner = Owner(clock: VersionClock(node: 1), settings: CoreSettings())
        private var now = Now(instant: Instant(nanoseconds: 0), wall: 1_790_000_000_000)
        let ann = UserID(app: "default", id: "ann")

        /// The requests without an answer, in order.
        var requests: [Request] { calls.waiting.requests { _ in true }.map(\.request) }

        mutating func perform(_ call: Call = .setSelfStatus(customStatus: "busy", seconds: nil), token: UInt64 = 7) {
            calls.perform(
                call, caller: ann, origin: .caller, seesAll: false, originSession: .unknown, gateway: 0, token: token, edge, owner,
                &cluster, at: now)
        }

        mutating func answer(_ answer: Answer, to request: Request) {
            calls.onAnswer(answer, to: request.id, from: 0, edge, owner, &cluster, at: now)
        }

        mutating func giveAnnAway() { calls.onMisrouted([ann], from: 0, retryInterval: .milliseconds(100), at: now) }

        /// Lets the time pass after which requests are repeated.
        mutating func repeatRequests() {
            now.instant += .milliseconds(100)
            calls.tick(edge, owner, &cluster, at: now)
        }
    }

    /// Otherwise the call would wait for its deadline, and its answer would not say that the change may still take effect.
    @Test("A request stays open after an answer that belongs to another operation") func requestStaysOpen() throws {
        var test = AnnsCalls()
        test.perform()
        let request = try #require(test.requests.first)
        test.answer(.done, to: request)
        #expect(test.requests.map(\.id) == [request.id] && test.cluster.outbox.effects.isEmpty)
        test.answer(.record(Record(blank: test.ann)), to: request)
        #expect(test.calls.waiting.count == 0)
        guard case .answer(0, 7, .owner(.record))? = test.cluster.outbox.effects.first else {
            Issue.record("\(test.cluster.outbox.effects)")
            return
        }
    }

    /// The answer to a call that an owner refuses, after as many attempts as are given.
    private func answer(to call: Call, attempts: Int, refused refusal: Refusal) throws -> CallAnswer? {
        var test = AnnsCalls()
        test.perform(call)
        for _ in 1..<attempts {
            test.giveAnnAway()
            test.repeatRequests()
        }
        let request = try #require(test.requests.first)
        #expect(request.isRepeated == (attempts > 1))
        test.answer(.refused(refusal), to: request)
        guard case .answer(0, 7, let answer)? = test.cluster.outbox.effects.last else { return nil }
        return answer
    }

    /// The owner may have performed the other call, whose answer then waits for its disk.
    @Test("A call that its owner sends back is repeated and counted, and another call of the user is neither")
    func sentBack() throws {
        var test = AnnsCalls()
        for token in UInt64(7)...8 { test.perform(token: token) }
        let first = test.requests
        try #require(first.count == 2)
        test.answer(.sentBack, to: first[0])
        test.repeatRequests()
        let second = test.requests
        try #require(second.count == 2)
        #expect(second[0] == first[1])
        #expect(second[1].id > first[1].id && second[1].isRepeated && second[1].isLimited)
    }

    @Test(
        "When an owner gives a user away, a call without an answer is repeated uncounted, and a call that was sent back is counted",
        arguments: [true, false])
    func givenAway(isSentBack: Bool) throws {
        var test = AnnsCalls()
        test.perform()
        let first = try #require(test.requests.first)
        if isSentBack { test.answer(.sentBack, to: first) }
        test.giveAnnAway()
        test.repeatRequests()
        let second = try #require(test.requests.first)
        #expect(first.isLimited && second.isRepeated && second.isLimited == isSentBack)
    }

    /// An earlier owner may have made the change before its link broke.
    @Test(
        "A change that was sent more than once and then refused may take effect",
        arguments: [Call.setSelfStatus(customStatus: "busy", seconds: nil), .setVisibility(.init(mode: .nobody)), .kick(reason: "x")],
        [Refusal.notReplicated, .notDurable, .unavailable])
    func refusedAfterRepetition(call: Call, refusal: Refusal) throws {
        #expect(try answer(to: call, attempts: 1, refused: refusal) == .refused(refusal))
        for attempts in 2...3 {
            #expect(try answer(to: call, attempts: attempts, refused: refusal) == .refused(.unavailable.afterPassingOn))
        }
    }

    @Test("A refused question keeps its refusal, however often it was sent")
    func refusedQuestion() throws {
        for attempts in 1...2 {
            #expect(try answer(to: .getVisibility, attempts: attempts, refused: .notDurable) == .refused(.notDurable))
        }
    }

    @Test("A question that is refused with the change it has waited for takes no effect")
    func questionBehindChange() throws {
        for call in [Call.getVisibility, .friendCall(.profile)] {
            for refusal in [Refusal.notDurable.afterPassingOn, .unavailable.afterPassingOn] {
                #expect(try answer(to: call, attempts: 1, refused: refusal) == .refused(.unavailable))
            }
        }
    }
}
