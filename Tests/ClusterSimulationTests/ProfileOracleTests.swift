import PresenceCore
import PresenceWire
import Testing

@testable import ClusterSimulation

/// The values of a field that the answers of calls leave possible.
@Suite struct ProfileOracleTests {
    var oracle = ProfileOracle(usersCount: 1)

    private func change(_ text: String, _ field: Profile.Standard = .nick) -> [Profile.Change] {
        [.init(name: field.rawValue, value: .text(text))]
    }

    private mutating func set(
        _ text: String, from begin: Int, to end: Int?, _ trust: ProfileOracle.Trust = .complete, _ field: Profile.Standard = .nick
    ) {
        oracle.ask(change(text, field), by: 0, at: .milliseconds(begin))
        guard let end else { return }
        oracle.answered(change(text, field), by: 0, askedAt: .milliseconds(begin), trust, at: .milliseconds(end))
    }

    private func texts(_ field: Profile.Standard = .nick, since milliseconds: Int? = nil) -> [String?] {
        oracle.possibleValues(of: field, of: 0, since: milliseconds.map { .milliseconds($0) } ?? .max).map { $0?.text }
    }

    @Test("A field is unset, then has the value of the last call, and each field is its own") mutating func inTurn() {
        #expect(texts() == [nil])
        set("a", from: 1, to: 2)
        set("b", from: 3, to: 4)
        #expect(texts() == ["b"] && texts(.selfSignature) == [nil])
    }

    @Test("Of two calls at once either may win") mutating func atOnce() {
        set("a", from: 1, to: 4)
        set("b", from: 3, to: 5)
        #expect(texts() == ["a", "b"])
        set("c", from: 6, to: 7)
        #expect(texts() == ["c"])
    }

    @Test("A call without an answer may win at any later time, and one that was refused changes nothing") mutating func unanswered() {
        set("a", from: 1, to: 2)
        set("b", from: 3, to: nil)
        set("c", from: 9, to: 10)
        #expect(texts() == ["b", "c"])
        let call = SimulatedCall(user: 0, client: nil, call: .friendCall(.modifyProfile(change("b"))), at: .milliseconds(3))
        oracle.refused(call, mayTakeEffect: true)
        #expect(texts() == ["b", "c"])
        oracle.refused(call, mayTakeEffect: false)
        #expect(texts() == ["c"])
    }

    @Test("Owners that do not know each other's changes may differ by the drift of their clocks, or by any time") mutating func trust() {
        set("a", from: 1, to: 2)
        set("b", from: 50, to: 51, .partial)
        #expect(texts() == ["a", "b"])
        set("c", from: 200, to: 201, .partial)
        #expect(texts() == ["c"])
        set("d", from: 900, to: 901, .none)
        #expect(texts() == ["c", "d"])
    }

    @Test("The same value gets no newer version, so an earlier value of another owner may win") mutating func repeated() {
        set("ANY", from: 1, to: 2, .partial, .allowType)
        set("DENY", from: 300, to: 301, .partial, .allowType)
        #expect(texts(.allowType) == ["ANY", "DENY"])
    }

    @Test("A value counts until the call that replaces it was answered") mutating func since() {
        set("a", from: 1, to: 2)
        set("b", from: 5, to: 8)
        #expect(texts(since: 7) == ["a", "b"] && texts(since: 9) == ["b"])
    }
}

/// The profiles that a client must know at rest.
@Suite struct ToldProfilesTests {
    var told = ToldProfiles()

    private func version(_ milliseconds: Milliseconds) -> Version { Version(milliseconds: milliseconds, counter: 0, node: 1) }

    private func isWrong(_ newest: Milliseconds, since: Milliseconds? = nil, isExact: Bool = false) -> Bool {
        told.problem(with: version(newest), of: 1, after: told.begin(followedSince: since), isExact: isExact) != nil
    }

    @Test("A client is told what has changed since its stream began") mutating func streams() {
        told.begin(from: nil, at: 10)
        #expect(!isWrong(10) && isWrong(11))
        told.take(version(11).text, of: 1)
        #expect(!isWrong(11) && isWrong(12))
        told.begin(from: 20, at: 30)
        #expect(!isWrong(20) && isWrong(21))
        told.begin(from: 99, at: 40)
        #expect(isWrong(12))
    }

    @Test("A client knows what has changed while its user followed the profile, by whichever stream") mutating func followed() {
        told.begin(from: nil, at: 10)
        told.begin(from: 20, at: 30)
        #expect(isWrong(16, since: 15) && !isWrong(15, since: 15) && !isWrong(9, since: 5))
    }

    @Test("Only a process that is lost may have told a newer version") mutating func newer() {
        told.begin(from: nil, at: 10)
        told.take(version(12).text, of: 1)
        #expect(!isWrong(11) && isWrong(11, isExact: true))
    }
}
