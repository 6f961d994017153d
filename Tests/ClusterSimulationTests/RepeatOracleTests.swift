import PresenceCore
import PresenceWire
import Testing

@testable import ClusterSimulation

/// The first answers of calls with keys, and histories in which clients repeat them.
@Suite struct RepeatOracleTests {
    var oracle = RepeatOracle()
    private let add = RepeatedCall(story: 0, position: 0, user: 0, operation: .add(1))
    private let delete = RepeatedCall(story: 0, position: 1, user: 0, operation: .delete(1))
    private let publish = RepeatedCall(story: 1, position: 0, user: 0, operation: .publish(10_001))

    private mutating func answer(_ call: RepeatedCall, _ code: ChainCode, isRead: Bool = true) -> String? {
        let outcomes = [ChainOutcome(user: UserID(app: "default", id: "user-1"), code: code)]
        return oracle.answered(.owner(.chained(outcomes)), to: call, allowType: .any, isRead: isRead)
    }

    private func event(counter: UInt16) -> PublishedEvent {
        PublishedEvent(value: 10_001, ext: "", expiresAt: 300_000, id: Version(milliseconds: 5, counter: counter, node: 1))
    }

    private mutating func answer(_ call: RepeatedCall, _ event: PublishedEvent) -> String? {
        var record = Record(blank: UserID(app: "default", id: "user-0"))
        record.events = PublishedEvents(newest: event)
        return oracle.answered(.owner(.record(record)), to: call, allowType: .any, isRead: true)
    }

    @Test("A repetition that is denied its own success is wrong, though no earlier answer has arrived") mutating func denial() {
        #expect([oracle.attempt(add, at: 0), oracle.attempt(add, at: 1)] == [true, true])
        #expect(answer(add, .unavailable) == nil)
        #expect(answer(add, .done, isRead: false) == nil)
        #expect(answer(add, .alreadyFriend) != nil)
    }

    @Test("A client makes the next call once it has read the answer to the one before") mutating func order() {
        #expect(oracle.attempt(add, at: 0) == true)
        #expect(!oracle.isRepetition(delete) && oracle.isRepetition(add))
        #expect(answer(add, .done, isRead: false) == nil)
        #expect(oracle.attempt(delete, at: 1) == false)
        #expect(answer(add, .done) == nil)
        #expect(oracle.attempt(delete, at: 2) == true)
        #expect(oracle.stories[0]?.lastCall == nil)
        #expect(answer(delete, .done) == nil)
        #expect(oracle.stories[0]?.lastCall == delete)
    }

    @Test("A repetition that publishes a second event is wrong") mutating func events() {
        #expect(oracle.attempt(publish, at: 0) == true)
        #expect(answer(publish, event(counter: 1)) == nil)
        #expect(answer(publish, event(counter: 1)) == nil)
        #expect(answer(publish, event(counter: 2)) != nil)
    }

    @Test("A story of which nodes may have lost a call is not checked") mutating func doubt() {
        #expect(oracle.attempt(add, at: 0) == true)
        oracle.doubt(0)
        #expect(answer(add, .alreadyFriend) == nil)
        #expect(oracle.stories[0]?.isDoubted == true)
    }

    @Test("Histories of repeated calls keep every guarantee, and calls are repeated in them") func histories() throws {
        let seed = try #require((1...1_000 as ClosedRange<UInt64>).first { HistoryOptions(seed: $0).kind == .clientsRepeatCalls })
        var cluster = SimulatedCluster(HistoryOptions(seed: seed))
        cluster.run()
        if let violation = cluster.violation { Issue.record("\(cluster.options)\n\(violation)\ncluster-simulation --seed \(seed) --log") }
        #expect(cluster.counts[.repetitions] > 10, "\(cluster.counts)")
    }
}
