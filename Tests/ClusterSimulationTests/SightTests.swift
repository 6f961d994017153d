import PresenceWire
import Testing

@testable import ClusterSimulation

/// What is shown to who may not see a user stays as it was, but for a text that ends by itself.
@Suite struct SightTests {
    private var sight = Sight()

    private func status(_ text: String, seenAt: Int64 = 5, version: String) -> JSONValue {
        .object([
            JSONValue.Member(name: "statusType", value: .string("OFFLINE")), JSONValue.Member(name: "customStatus", value: .string(text)),
            JSONValue.Member(name: "lastSeenTime", value: .integer(seenAt)), JSONValue.Member(name: "version", value: .string(version)),
        ])
    }

    private mutating func isRight(_ status: JSONValue, mayEnd: Bool = true) -> Bool {
        sight.problem(with: status, shownTo: 1, mayEnd: mayEnd) == nil
    }

    @Test mutating func aTextThatHasEndedIsShownWhereTheEndHasNotBeenHeard() {
        #expect(isRight(status("lunch", version: "1")))
        #expect(isRight(status("", version: "2")))
        #expect(isRight(status("lunch", version: "1")))
        #expect(isRight(status("", version: "2")))
    }

    @Test mutating func nothingButWhatWasShownBeforeTheEndIsRightAfterIt() {
        #expect(isRight(status("lunch", version: "1")))
        #expect(isRight(status("", version: "3")))
        #expect(!isRight(status("a secret", version: "2")))
        #expect(!isRight(status("lunch", seenAt: 6, version: "2")))
        sight.ask(at: 1)
        #expect(isRight(status("", version: "3")))
        #expect(!isRight(status("lunch", version: "4")))
    }

    @Test mutating func whatWasBeforeTheEndMayBeToldFirstByANodeThatHasNotHeardOfIt() {
        #expect(isRight(status("", version: "3")))
        #expect(isRight(status("lunch", version: "1")))
        #expect(isRight(status("lunch", version: "1")))
        #expect(!isRight(status("a secret", version: "2")))
    }

    @Test mutating func aTextThatDoesNotEndByItselfStays() {
        #expect(isRight(status("lunch", version: "1"), mayEnd: false))
        #expect(!isRight(status("", version: "2"), mayEnd: false))
    }
}
