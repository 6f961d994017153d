import PresenceWire
import Testing

@testable import ClusterSimulation

/// The status that hidden viewers see stays unchanged, except for a text that ends by itself.
@Suite struct VisibilityOracleTests {
    private var oracle = VisibilityOracle()

    private func status(_ text: String, seenAt: Int64 = 5, version: String) -> JSONValue {
        .object([
            JSONValue.Member(name: "statusType", value: .string("OFFLINE")), JSONValue.Member(name: "customStatus", value: .string(text)),
            JSONValue.Member(name: "lastSeenTime", value: .integer(seenAt)), JSONValue.Member(name: "version", value: .string(version)),
        ])
    }

    private mutating func isRight(_ status: JSONValue, mayEnd: Bool = true) -> Bool {
        oracle.problem(with: status, shownTo: 1, mayEnd: mayEnd) == nil
    }

    @Test("A node that has not received the end of a text may still show the text") mutating func endedText() {
        #expect(isRight(status("lunch", version: "1")))
        #expect(isRight(status("", version: "2")))
        #expect(isRight(status("lunch", version: "1")))
        #expect(isRight(status("", version: "2")))
    }

    @Test("After the end of a text only the status shown before it is right") mutating func afterTheEnd() {
        #expect(isRight(status("lunch", version: "1")))
        #expect(isRight(status("", version: "3")))
        #expect(!isRight(status("a secret", version: "2")))
        #expect(!isRight(status("lunch", seenAt: 6, version: "2")))
        oracle.ask(at: 1)
        #expect(isRight(status("", version: "3")))
        #expect(!isRight(status("lunch", version: "4")))
    }

    @Test("A node that has not received the end may be the first to send the status before it") mutating func beforeTheEnd() {
        #expect(isRight(status("", version: "3")))
        #expect(isRight(status("lunch", version: "1")))
        #expect(isRight(status("lunch", version: "1")))
        #expect(!isRight(status("a secret", version: "2")))
    }

    @Test("A text that does not end by itself stays") mutating func permanentText() {
        #expect(isRight(status("lunch", version: "1"), mayEnd: false))
        #expect(!isRight(status("", version: "2"), mayEnd: false))
    }
}

/// The views of viewers from whom a user hides through several changes of the visibility.
@Suite struct StillViewTests {
    private var oracle = VisibilityOracle()

    private func status(seenAt: Int64, version: String) -> JSONValue {
        .object([
            JSONValue.Member(name: "statusType", value: .string("OFFLINE")),
            JSONValue.Member(name: "lastSeenTime", value: .integer(seenAt)),
            JSONValue.Member(name: "version", value: .string(version)),
        ])
    }

    @Test("A view that moves with another change of the visibility is found") mutating func moves() {
        oracle.noteStill(status(seenAt: 5, version: "1"), shownTo: 1)
        oracle.keepStill { $0 == 1 }
        oracle.ask(at: 1)
        #expect(oracle.movedView(status(seenAt: 5, version: "2"), shownTo: 1, askedAt: 0) == nil)
        #expect(oracle.movedView(status(seenAt: 6, version: "2"), shownTo: 1, askedAt: 0) != nil)
        // A call from before the user hid may be answered with what it found.
        #expect(oracle.movedView(status(seenAt: 6, version: "2"), shownTo: 1, askedAt: -1) == nil)
    }

    @Test("A viewer who may have seen the user meanwhile may be shown another view") mutating func admitted() {
        oracle.noteStill(status(seenAt: 5, version: "1"), shownTo: 1)
        oracle.noteStill(status(seenAt: 5, version: "1"), shownTo: 2)
        oracle.keepStill { $0 == 2 }
        oracle.forgetShown(to: 2)
        #expect(oracle.movedView(status(seenAt: 6, version: "2"), shownTo: 1, askedAt: 0) == nil)
        #expect(oracle.movedView(status(seenAt: 6, version: "2"), shownTo: 2, askedAt: 0) == nil)
    }
}
