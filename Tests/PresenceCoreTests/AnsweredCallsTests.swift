import PresenceWire
import Testing

@testable import ClusterSimulation
@testable import PresenceCore

/// The answers that owners keep for repeated calls. Ann and ben have different owners.
@Suite struct AnsweredCallsTests {
    var cluster = TestCluster(nodes: 3)
    let ann: String
    let ben: String

    init() {
        ann = cluster.user(ownedBy: 0)
        ben = cluster.user(ownedBy: 1)
    }

    private func key(_ text: String, _ digest: UInt64 = 1) -> CallKey { CallKey(text, digest: digest) }

    private mutating func call(_ call: Call, _ key: CallKey?, by name: String, on node: Int) -> CallAnswer? {
        cluster.call(call, key: key, by: name, on: node)
        cluster.advance(.milliseconds(50))
        return cluster.lastAnswer(on: node)
    }

    private func publish(_ value: Int64) -> Call {
        .publishEvent(value: value, ext: "x", seconds: 600, isForOnlineOnly: true, isSynced: true)
    }

    private func add(_ name: String) -> Call { .chain(.add(user(name), SentRequest(addTime: 0), isTwoWay: true)) }

    private func delete(_ name: String) -> Call { .chain(.delete([user(name)], isTwoWay: true)) }

    private func done(_ name: String) -> CallAnswer { .owner(.chained([ChainOutcome(user: user(name), code: .done)])) }

    private func keysCount(of name: String, on node: Int) -> Int {
        cluster.processes[node].node.owner.liveRows(.answeredCall, of: user(name)).count
    }

    /// The answers as a client reads them. Other fields of a record are the business of nodes.
    private func json(_ answer: CallAnswer?, of name: String) throws -> String {
        var json = JSONWriter()
        try API.write(
            try #require(answer), to: .publishEvent, of: user(name), errors: [], policy: SharedPolicy(Policy()), into: &json)
        return String(decoding: json.bytes, as: UTF8.self)
    }

    @Test("A repeated event has the first answer at another node, and after the death of its owner") mutating func event() throws {
        cluster.login(ann, on: 1)
        let first = try json(call(publish(10_001), key("k"), by: ann, on: 1), of: ann)
        _ = call(.setSelfStatus(customStatus: "later", seconds: nil), nil, by: ann, on: 1)
        #expect(try json(call(publish(10_001), key("k"), by: ann, on: 2), of: ann) == first)
        cluster.kill(0)
        cluster.advance(.seconds(5), step: .milliseconds(100))
        #expect(try json(call(publish(10_001), key("k"), by: ann, on: 2), of: ann) == first)
        #expect(try json(call(publish(10_001), key("other"), by: ann, on: 2), of: ann) != first)
    }

    @Test("A repeated decision has the first answer, whatever was decided since, and after the death of its owner")
    mutating func decision() {
        #expect(call(add(ben), key("add"), by: ann, on: 2) == done(ben))
        #expect(call(add(ben), key("add"), by: ann, on: 1) == done(ben))
        #expect(call(delete(ben), key("delete"), by: ann, on: 1) == done(ben))
        #expect(call(add(ben), key("add"), by: ann, on: 0) == done(ben))
        #expect(cluster.processes[0].node.owner.liveRows(.friend, of: user(ann)).isEmpty)
        cluster.kill(0)
        cluster.advance(.seconds(5), step: .milliseconds(100))
        #expect(call(delete(ben), key("delete"), by: ann, on: 2) == done(ben))
        #expect(call(add(ben), key("add"), by: ann, on: 2) == done(ben))
        #expect(cluster.processes[2].node.owner.liveRows(.friend, of: user(ann)).isEmpty)
    }

    @Test("A repeated call has the first answer although the app does not know its user any more") mutating func unknownUser() {
        #expect(call(add(ben), key("add"), by: ann, on: 2) == done(ben))
        cluster.call(.setAppPolicy(Array(#"{"settings":{"users.mustBeRegistered":true}}"#.utf8)), by: ann, on: 0)
        cluster.advance(.milliseconds(100))
        #expect(call(add(ben), key("add"), by: ann, on: 1) == done(ben))
        let unknown = CallAnswer.owner(.chained([ChainOutcome(user: user(ben), code: .noSuchUser)]))
        for newKey in [nil, key("new"), key("new")] { #expect(call(add(ben), newKey, by: ann, on: 1) == unknown) }
        cluster.kill(0)
        cluster.advance(.seconds(5), step: .milliseconds(100))
        #expect(call(add(ben), key("add"), by: ann, on: 2) == done(ben))
        #expect(call(add(ben), key("new"), by: ann, on: 2) == unknown)
    }

    @Test("A refusal that was the answer stays the answer") mutating func refusal() {
        let refused = CallAnswer.owner(.chained([ChainOutcome(user: user(ben), code: .noFriend)]))
        #expect(call(delete(ben), key("k"), by: ann, on: 2) == refused)
        #expect(call(add(ben), nil, by: ann, on: 2) == done(ben))
        #expect(call(delete(ben), key("k"), by: ann, on: 1) == refused)
        #expect(cluster.processes[0].node.owner.liveRows(.friend, of: user(ann)).count == 1)
    }

    @Test("The same key with another digest is refused, and is another call for another user") mutating func otherCall() {
        #expect(call(add(ben), key("k"), by: ann, on: 2) == done(ben))
        #expect(call(delete(ben), key("k", 2), by: ann, on: 2) == .refused(.keyOfOtherCall))
        #expect(call(delete(ann), key("k", 2), by: ben, on: 2) == done(ann))
    }

    @Test("A repetition that arrives while the call is under way has its answer") mutating func underWay() {
        cluster.heldDisks = [1]
        cluster.call(add(ben), key: key("k"), by: ann, on: 0)
        let first = cluster.lastAnswer(on: 0)
        cluster.call(add(ben), key: key("k"), by: ann, on: 2)
        #expect(first == nil && cluster.lastAnswer(on: 2) == nil)
        cluster.heldDisks = []
        cluster.advance(.milliseconds(600))
        #expect(cluster.lastAnswer(on: 2) == done(ben))
    }

    @Test("A call whose owner died with it under way is not told that its own effect was there before") mutating func deathUnderWay() {
        cluster.heldDisks = [1]
        cluster.call(add(ben), key: key("k"), by: ann, on: 0)
        cluster.kill(0)
        cluster.heldDisks = []
        cluster.advance(.seconds(5), step: .milliseconds(100))
        #expect(call(add(ben), key("k"), by: ann, on: 2) == done(ben))
        #expect(call(add(ben), key("k"), by: ann, on: 1) == done(ben))
        #expect(call(add(ben), nil, by: ann, on: 1) == .owner(.chained([ChainOutcome(user: user(ben), code: .alreadyFriend)])))
    }

    @Test("Beyond 64 keys the oldest is forgotten on every node") mutating func countMax() {
        let refused = CallAnswer.owner(.chained([ChainOutcome(user: user(ben), code: .noFriend)]))
        for number in 0..<64 {
            #expect(call(delete(ben), key("k\(number)"), by: ann, on: 2) == refused)
            cluster.keepPace()
        }
        #expect((0..<3).allSatisfy { keysCount(of: ann, on: $0) == 64 })
        _ = call(add(ben), nil, by: ann, on: 2)
        _ = call(publish(10_001), key("k64"), by: ann, on: 2)
        #expect((0..<3).allSatisfy { keysCount(of: ann, on: $0) == 64 })
        // The first refusal is forgotten, the second one is not.
        #expect(call(delete(ben), key("k1"), by: ann, on: 2) != done(ben))
        #expect(call(delete(ben), key("k0"), by: ann, on: 2) == done(ben))
    }

    @Test("After an hour a key is forgotten on every node and on every disk") mutating func age() {
        _ = call(delete(ben), key("k"), by: ann, on: 2)
        let row = { [ann] (process: TestCluster.Process) in
            process.disk.rows.values.contains { $0.kind == .answeredCall && $0.user == user(ann) }
        }
        #expect(cluster.processes.allSatisfy(row))
        cluster.advance(.seconds(3_590), step: .seconds(60))
        #expect((0..<3).allSatisfy { keysCount(of: ann, on: $0) == 1 })
        cluster.advance(.seconds(12), step: .milliseconds(100))
        #expect((0..<3).allSatisfy { keysCount(of: ann, on: $0) == 0 })
        #expect(!cluster.processes.contains(where: row))
        for process in cluster.processes { process.node.checkInvariants(alsoUsers: true) }
    }

    @Test("An answer is read from its row as it was written") func rows() throws {
        let outcomes = [ChainOutcome(user: user("a\"b"), code: .done), ChainOutcome(user: user("c"), code: .pending)]
        let result = FriendCallResult(code: .done, users: [outcomes[0]], json: Array(#"{"remark":"\"x\""}"#.utf8))
        let version = Version(milliseconds: 5, counter: 1, node: 2)
        var record = Record(blank: user("ann"))
        (record.version, record.customStatus, record.statusType) = (version, "busy", .online)
        let answers: [Answer?] = [nil, .chained(outcomes), .chained([outcomes[0]]), .chained([]), .friendCalled(result), .record(record)]
        for answer in answers {
            let call = AnsweredCall(digest: .max, begunAt: version, answer: answer)
            let row = Row(call, of: user("ann"), key: "!~", version: version)
            try row.checkListed()
            #expect(try AnsweredCall(row) == call)
        }
        #expect(throws: RowError.self) {
            try Row(AnsweredCall(digest: 1, begunAt: version, answer: nil), of: user("ann"), key: "a b", version: version).checkListed()
        }
    }
}
