import PresenceCore
import PresenceWire
import Testing

@testable import ClusterSimulation

/// The trace of a history differs when one byte differs that crosses the boundary of a node.
@Suite struct TraceTests {
    private let alice = UserID(app: "default", id: "alice")
    private let bob = UserID(app: "default", id: "bob")

    private func hash(_ bytes: [UInt8]) -> UInt64 {
        var trace = Trace()
        trace.add(bytes)
        return trace.hash
    }

    private func hash(_ rows: Row...) -> UInt64 {
        var trace = Trace()
        for row in rows { _ = trace.add { $0.row(row) } }
        return trace.hash
    }

    private func hash(_ answer: CallAnswer) -> UInt64 {
        var trace = Trace()
        _ = trace.add { $0.answer(answer) }
        return trace.hash
    }

    @Test("Each byte, its index and the number of bytes change the hash") func eachByteCounts() {
        var hashes: Set<UInt64> = [hash([UInt8]())]
        var count = 1
        for length in 1...25 {
            let zeros = [UInt8](repeating: 0, count: length)
            hashes.insert(hash(zeros))
            for index in 0..<length {
                var bytes = zeros
                bytes[index] = 1
                hashes.insert(hash(bytes))
            }
            count += 1 + length
        }
        #expect(hashes.count == count)
    }

    @Test("Each field of a row changes the hash, and so does the order of two rows") func eachFieldOfARowCounts() {
        let version = Version(stamp: 5, node: 1)
        let row = Row(user: alice, kind: .subscription, key: "bob", version: version, value: Array("{}".utf8), expiresAt: 7)
        var rows = Array(repeating: row, count: 7)
        rows[1].user = bob
        rows[2].kind = .status
        rows[3].key = "bot"
        rows[4].version = Version(stamp: 5, node: 2)
        rows[5].value = nil
        rows[6].expiresAt = 8
        #expect(Set(rows.map { hash($0) }).count == rows.count)
        #expect(hash(rows[0], rows[1]) != hash(rows[1], rows[0]))
    }

    @Test("Each field of each answer changes the hash") func eachFieldOfAnAnswerCounts() {
        let record = Record(blank: alice)
        var other = record
        other.customStatus = "lunch"
        let subscription = Subscription(
            target: bob, subscribeType: 1, subscribedAt: 3, expiresAt: nil, version: Version(stamp: 5, node: 1), isRemoved: false)
        var refusals = Array(repeating: Refusal(code: 6017, detail: "full"), count: 5)
        refusals[1].detail = "fall"
        refusals[2].mayTakeEffect = true
        refusals[3].users = [alice]
        refusals[4].limit = .followers
        var visibilities = Array(repeating: Visibility(), count: 3)
        visibilities[1].isInvisible = true
        visibilities[2].blocked = [bob]
        let rules: [CallAnswer] = visibilities.map { visibility in
            let privacy = Privacy(visibility: visibility, writtenAt: .zero, version: .zero, contents: [], named: [], others: nil)
            return .owner(.visibility(privacy ?? Privacy()))
        }
        let answers: [CallAnswer] =
            [
                .owner(.record(record)), .owner(.record(other)), .done, .rateLimited(retryAfter: 1), .rateLimited(retryAfter: 2),
                .userStatusList([record], users: [alice], asOf: 1), .userStatusList([other], users: [alice], asOf: 1),
                .userStatusList([record], users: [alice], asOf: 2), .userStatusList([nil], users: [alice], asOf: 1),
                .userStatusList([record], users: [bob], asOf: 1), .subscribed(evicted: [], records: nil, users: []),
                .subscribed(evicted: [bob], records: nil, users: []), .subscribed(evicted: [], refused: [bob], records: nil, users: []),
                .subscribed(evicted: [], followerLimitReached: [bob], records: nil, users: []),
                .subscribed(evicted: [], nonFriends: [bob], records: nil, users: []),
                .subscribed(evicted: [], unknown: [bob], records: nil, users: []), .subscribed(evicted: [], records: [], users: []),
                .subscribed(evicted: [], records: [record], users: []), .subscribed(evicted: [], records: nil, users: [bob]),
                .imported(failed: []), .imported(failed: [bob]), .subscriptions([subscription], records: [record], total: 1),
                .subscriptions([], records: [record], total: 1), .subscriptions([subscription], records: [nil], total: 1),
                .subscriptions([subscription], records: [record], total: 2),
            ] + refusals.map { .refused($0) } + rules + [
                .owner(.visibility(Privacy(), remnant: .until(1))), .owner(.visibility(Privacy(), remnant: .whileCutOff)),
            ]
        #expect(Set(answers.map(hash)).count == answers.count)
    }

    @Test("One byte of a text changes batches, rows, events and answers of a history, and its trace") func oneByteOfAHistoryCounts() {
        let (lunch, lunsh) = (history("lunch"), history("lunsh"))
        #expect(lunch.trace != lunsh.trace)
        let (left, right) = (lunch.log.map(noted), lunsh.log.map(noted))
        #expect(left.count == right.count)
        let different = zip(left, right).filter { $0 != $1 }
        #expect(different.allSatisfy { $0.number == $1.number })
        #expect(Set(different.map { $0.0.kind }) == ["batch", "row", "event", "answer"])
    }

    /// Alice sets a custom status that Bob follows, in a cluster of two nodes.
    private func history(_ text: String) -> SimulatedCluster {
        var options = HistoryOptions(seed: 1)
        (options.nodesCount, options.usersCount, options.faults, options.activeMilliseconds) = (2, 2, [], 2_000)
        let plan = Plan(steps: [
            Step(at: 0, action: .login(client: 0, node: 0, resumes: false)),
            Step(at: 0, action: .login(client: 2, node: 1, resumes: false)),
            Step(at: 500, action: .subscribe(user: 1, targets: [0], seconds: nil, sync: false)),
            Step(at: 1_000, action: .setStatus(user: 0, text: text, seconds: nil)),
        ])
        var cluster = SimulatedCluster(options, plan: plan, isLoggingTrace: true)
        cluster.run()
        #expect(cluster.violation == nil)
        return cluster
    }

    private struct Noted: Equatable {
        /// The time, and the two numbers.
        let number: [Substring]
        let kind: Substring
        let bytes: [Substring]
    }

    /// A line of the log without the hash.
    private func noted(_ line: String) -> Noted {
        let parts = line.split(separator: " ")
        return Noted(number: [parts[0], parts[4], parts[5]], kind: parts[3], bytes: Array(parts.dropFirst(6)))
    }
}
