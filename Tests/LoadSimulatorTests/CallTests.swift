import PresenceWire
import Testing

@testable import LoadSimulator

/// The tables of calls, of the nodes' records, and of users who wait.
@Suite struct CallTests {
    @Test("An answer is collected by its token, and a token is used again after its call has ended")
    func table() throws {
        var table = CallTable()
        let first = table.begin(.query)
        let second = table.begin(.logout(user: 3))
        #expect(first != second && CallTable.isCall(first) && CallTable.isCall(second) && !CallTable.isCall(3))
        table.receive(status: 200, for: second)
        for part in [[1], [2, 3]] as [[UInt8]] { part.withUnsafeBytes { table.receive($0, for: second) } }
        let ended = table.end(second)
        let call = try #require(ended)
        #expect(call.purpose == .logout(user: 3) && call.status == 200 && call.body == [1, 2, 3])
        #expect(table.end(second) == nil)
        table.receive(status: 500, for: second)
        #expect(table.begin(.query) == second)
        #expect(table.end(second)?.status == 0)
        #expect(table.end(first)?.purpose == .query)
    }

    @Test("A query is complete when every call was answered")
    func query() {
        var query = RecordQuery(users: 2)
        #expect(query.mayBegin(at: 0) && !query.isOpen)
        query.begin(batches: 2)
        #expect(query.isOpen && !query.mayBegin(at: 0) && !query.isComplete)
        var status = ScannedStatus()
        status.version = Version(milliseconds: 1, counter: 0, node: 1)
        query.receive(status, of: 1)
        #expect(query.end(isAnswered: true, retryAt: nil) == false)
        #expect(query.end(isAnswered: true, retryAt: nil) == true)
        #expect(query.isComplete && query.versions == [nil, Version(milliseconds: 1, counter: 0, node: 1)])
    }

    @Test("A query with a refused call is not complete, and the next one waits as long as the node asks")
    func refusedQuery() {
        var query = RecordQuery(users: 2)
        query.begin(batches: 2)
        #expect(query.end(isAnswered: false, retryAt: 7) == false)
        #expect(query.end(isAnswered: true, retryAt: nil) == true)
        #expect(!query.isComplete && !query.mayBegin(at: 6.9) && query.mayBegin(at: 7))
        query.begin(batches: 1)
        #expect(query.end(isAnswered: true, retryAt: nil) && query.isComplete)
    }

    @Test("Users return in the order of their times, each once")
    func returningUsers() {
        var returning = ReturningUsers()
        returning.add(1, at: 2)
        returning.add(2, at: 1)
        returning.add(3, at: 1)
        #expect(returning.take(upTo: 0.5).isEmpty)
        #expect(returning.take(upTo: 1.5) == [2, 3])
        // A time that has passed is due at once.
        returning.add(4, at: 0)
        #expect(returning.take(upTo: 3) == [4, 1])
        #expect(returning.take(upTo: 9).isEmpty)
    }

    @Test(
        "Code and delay of a refusal are read, and a delay is between nothing and an hour",
        arguments: [
            (#"{"code":50002,"retryAfter":7}"#, "50002", 7), (#"{"retryAfter":-1}"#, nil, 0), (#"{"retryAfter":90000}"#, nil, 3_600),
            (#"{"code":"x"}"#, nil, nil), ("<html>", nil, nil), ("", nil, nil),
        ] as [(String, String?, Int64?)])
    func problems(body: String, code: String?, retryAfter: Int64?) {
        let problem = ProblemBody(Array(body.utf8))
        #expect(problem.code == code && problem.retryAfter == retryAfter)
    }

    @Test("A user waits longer after each failure, up to a second, and goes to the next target")
    func backoff() {
        var random = SplitMix64(seed: 1)
        var user = VirtualUser()
        for (failures, largest) in [(1, 100), (2, 200), (3, 400), (4, 800), (5, 1_000), (6, 1_000)] as [(Int, Int64)] {
            user.fail()
            #expect(user.targetShift == failures && user.state == .away)
            let delays = (0..<500).map { _ in user.backoffMilliseconds(using: &random) }
            #expect(delays.allSatisfy { (10...largest).contains($0) } && delays.max()! > largest * 9 / 10)
        }
        _ = user.connect()
        user.fail()
        #expect((0..<500).allSatisfy { _ in user.backoffMilliseconds(using: &random) <= 100 })
    }

    @Test("A user keeps the times of its last eight changes, and the body of a refusal until it is taken")
    func userMemory() {
        var user = VirtualUser()
        for change in 1...9 { user.remember(change: change, scheduledAt: Double(change)) }
        #expect(user.scheduledAt(change: 1) == nil && user.scheduledAt(change: 2) == 2 && user.scheduledAt(change: 9) == 9)
        let bytes = [UInt8]([1, 2])
        let isEarlyTaken = bytes.withUnsafeBytes { user.receive(problem: $0) }
        #expect(!isEarlyTaken && user.takeProblem() == nil)
        user.beginProblem()
        let isTaken = bytes.withUnsafeBytes { user.receive(problem: $0) }
        #expect(isTaken)
        #expect(user.takeProblem() == [1, 2] && user.takeProblem() == nil)
    }
}
