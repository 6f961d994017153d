import PresenceWire
import Testing

@testable import LoadSimulator

/// The population of scenario `social`, its pace, the reading of lists and the sequences that sessions are told.
@Suite struct SocialLoadTests {
    @Test("No user watches a user of its pairs, and every tenth user has no pair", arguments: [4, 5, 8, 12, 200])
    func population(users: Int) {
        let watch = min(Population.watchMax(scenario: .social, users: users), 20)
        let population = Population(scenario: .social, users: users, watch: watch, seed: 7)
        #expect(population.watched.allSatisfy { $0.count == watch } && !population.pairs.isEmpty)
        for pair in population.pairs {
            #expect(!population.watched[pair.first].contains(UInt32(pair.second)))
            #expect(!population.watched[pair.second].contains(UInt32(pair.first)))
            #expect(pair.first != pair.second && population.pair(of: pair.second, and: pair.first) != nil)
        }
        for user in 0..<users {
            #expect(population.pairsOfUser[user].isEmpty == (user % 10 == 0) && population.pairsOfUser[user].count <= 6)
        }
        var random = SplitMix64(seed: 1)
        #expect((0..<100).allSatisfy { _ in population.pairsOfUser[population.observer(using: &random)].isEmpty })
    }

    @Test("The lists of watched users in other scenarios are those without pairs")
    func otherScenarios() {
        let mesh = Population(scenario: .mesh, users: 50, watch: 5, seed: 3)
        #expect(mesh.pairs.isEmpty && mesh.members.isEmpty && Population.watchMax(scenario: .mesh, users: 50) == 49)
    }

    @Test("A user makes at most 20 calls in any 5 seconds")
    func pace() {
        var pace = ChainPace(users: 2)
        let times = (0..<2_000).map { Double($0) / 100 }.filter { pace.take(1, at: $0) }
        for time in times { #expect(times.count { $0 >= time && $0 < time + 5 } <= 16) }
        #expect(times.count >= 40)
        #expect(pace.take(0, at: 20) == true)
    }

    @Test("Lists are read by pages, a user after a failure from the beginning")
    func reading() throws {
        var reading = ListReading(users: 2)
        reading.read([1], at: 0)
        let answers: [(ListReading.Step, String)] = [
            (.friends(cursor: nil), #"{"friendList":[{"userID":"a"}],"seq":"s","cursor":"a"}"#),
            (.friends(cursor: "a"), #"{"friendList":[{"userID":"b"}],"seq":"t"}"#),
            (.requests(after: 0), #"{"pendencyList":[{"userID":"c","type":1}],"seq":"p","timestamp":7}"#),
            (.requests(after: 7), #"{"pendencyList":[{"userID":"d","type":2}],"seq":"p","timestamp":0}"#),
            (.blocked(cursor: nil), #"{"userIDs":["e"],"cursor":"e"}"#), (.blocked(cursor: "e"), #"{"userIDs":["f"]}"#),
            (.profile, #"{"profile":{"nick":"n","allowType":"DENY"}}"#),
        ]
        let begun = reading.next(at: 0)
        #expect(begun?.user == 1 && begun?.step == .friends(cursor: nil))
        _ = try reading.receive(Array(answers[0].1.utf8), of: answers[0].0, user: 1)
        reading.fail(1, retryAt: 2)
        let early = reading.next(at: 1)
        #expect(early?.user == nil && !reading.isComplete)
        var step = reading.next(at: 2)?.step
        for (expected, body) in answers {
            #expect(step == expected)
            step = try reading.receive(Array(body.utf8), of: expected, user: 1)
        }
        let late = reading.next(at: 9)
        #expect(step == nil && reading.isComplete && late?.user == nil)
        let lists = try #require(reading.lists[1])
        #expect(lists.friends == ["a", "b"] && lists.received == ["c"] && lists.sent == ["d"] && lists.blocked == ["e", "f"])
        #expect(lists.sequences == ListSequences(friends: "s", requests: "p"))
        #expect(lists.profile == RelationshipLedger.Profile(nick: "n", allowType: .deny))
    }

    @Test("An answer without a documented member is an error that names it")
    func unexpectedAnswer() {
        var reading = ListReading(users: 1)
        reading.read([0], at: 0)
        _ = reading.next(at: 0)
        let error = #expect(throws: ListReading.UnexpectedAnswer.self) {
            _ = try reading.receive(Array(#"{"friendList":[]}"#.utf8), of: .friends(cursor: nil), user: 0)
        }
        #expect(error?.member == "seq")
    }

    @Test("A session that was told the last change of its lists has no difference, a missed change is one, and a gap is counted")
    func told() {
        let population = Population(scenario: .social, users: 4, watch: 1, seed: 1)
        var told = ToldSequences(users: 4)
        var lists: [AnsweredLists?] = Array(repeating: nil, count: 4)
        lists[1] = AnsweredLists()
        lists[1]?.sequences = ListSequences(friends: "3", requests: "1")
        #expect(told.receive(.relationshipState, ["friendSeq": "1", "pendencySeq": "1"], by: 1) == true)
        #expect(told.receive(.friendListAdded, ["fromSeq": "1", "seq": "2"], by: 1) == true)
        #expect(told.gaps == 0)
        #expect(told.differences(lists, population: population) { _ in true }.map(\.users) == [[1]])
        #expect(told.differences(lists, population: population) { $0 != 1 }.isEmpty)
        #expect(told.receive(.friendListDeleted, ["fromSeq": "2", "seq": "3"], by: 1) == true)
        #expect(told.gaps == 0)
        #expect(told.differences(lists, population: population) { _ in true }.isEmpty)
        #expect(told.receive(.applicationListAdded, ["fromSeq": "8", "seq": "9"], by: 1) == true)
        #expect(told.gaps == 1)
        #expect(told.receive(.friendListAdded, ["seq": "9"], by: 1) == false)
        #expect(told.receive(.blackListAdded, nil, by: 1) == false)
        #expect(told.counts[.friendListAdded] == 2)
    }

    @Test("A pair has one open call at a time, and calls of users who are not live are not sent")
    func changes() {
        let population = Population(scenario: .social, users: 4, watch: 1, seed: 1)
        var load = SocialLoad(population: population)
        var random = SplitMix64(seed: 1)
        let none = load.beginRelationship(scheduledAt: 0, at: 0, using: &random) { _ in false }
        #expect(none.map(\.user) == nil && load.skipped == 1)
        var pairs: Set<Int> = []
        for _ in 0..<30 {
            guard let outgoing = load.beginRelationship(scheduledAt: 0, at: 0, using: &random, isLive: { _ in true }) else { continue }
            guard case .relationship(let pair, _, _) = outgoing.purpose else {
                Issue.record("\(outgoing)")
                continue
            }
            #expect(pairs.insert(pair).inserted)
        }
        #expect(pairs.count == population.pairs.count)
    }

    @Test("A report of relationships is verified when the lists were compared without a difference, and the run fails otherwise")
    func report() throws {
        var options = SimulationOptions(targets: [.init(host: "a", port: 1)])
        (options.scenario, options.verify) = (.social, true)
        var recorder = SimulationRecorder(options)
        recorder.converge(seconds: 1)
        recorder.countSocial("addFriend", "0")
        recorder.recordAddFriend(seconds: 0.005)
        var verification = RelationshipReport.Verification()
        recorder.finish(Ledger.Counts(), examples: [], relationships: verification)
        #expect(!recorder.report.isVerified, "the lists were not compared")
        (verification.pairs, verification.isComplete) = (3, true)
        recorder.finish(Ledger.Counts(), examples: [], relationships: verification)
        #expect(recorder.report.isVerified && recorder.report.relationships?.calls == ["addFriend": ["0": 1]])
        #expect(recorder.report.summary.contains("addFriend to answer       p50 5.0"))
        verification.differences = ["missing: ann"]
        recorder.finish(Ledger.Counts(), examples: [], relationships: verification)
        #expect(!recorder.report.isVerified && recorder.report.summary.contains("missing: ann"))
        #expect(recorder.report.html(SimulationSetup(settings: [], machine: [])).contains("missing: ann"))
        #expect(String(decoding: try recorder.report.json(), as: UTF8.self).contains("\"missing: ann\""))
    }
}
