import PresenceCore
import PresenceWire
import Testing

@testable import ClusterSimulation

/// The ends that sessions may have, by the calls of their clients.
@Suite struct SessionLedgerTests {
    private var ledger = SessionLedger()
    private let session = SessionID(stamp: 1, node: 1)

    @Test("A session may last until its newest renewal, and certainly lasts until the newest acknowledged one") mutating func renewals() {
        ledger.open(session, until: 1_000)
        ledger.askRenewal(of: session, until: 3_000)
        #expect(ledger.token(of: session)?.most == 3_000)
        #expect(ledger.token(of: session)?.least == 1_000)
        ledger.renewed(session, until: 3_000, at: 5)
        ledger.askRenewal(of: session, until: 2_000)
        ledger.renewed(session, until: 2_000, at: 6)
        #expect(ledger.token(of: session)?.most == 3_000)
        #expect(ledger.token(of: session)?.least == 3_000)
    }

    @Test("A token without an end ends no session") mutating func endless() {
        ledger.open(session, until: .max)
        ledger.askRenewal(of: session, until: 3_000)
        #expect(ledger.token(of: session) == nil)
        #expect(ledger.openedCount == 1)
    }

    @Test("A stream that its client has left ends once, or with its node") mutating func halfOpen() {
        let stream = SimulatedClient.Stream(node: 2, run: 1, gateway: 0, index: 7, session: session, openedAt: 0)
        ledger.leave(stream, by: 3)
        #expect(ledger.isHalfOpen(7, at: 0, of: 2) && !ledger.isHalfOpen(7, at: 1, of: 2))
        #expect(ledger.takeHalfOpen(7, at: 0, of: 2)?.client == 3)
        #expect(ledger.takeHalfOpen(7, at: 0, of: 2) == nil)
        ledger.leave(stream, by: 3)
        ledger.processEnded(2)
        #expect(ledger.halfOpen.isEmpty)
    }

    @Test("One sequence of a list has one content") func contents() {
        var contents = SequenceContents()
        #expect(contents.problem(with: .string("bob"), of: "friends", 0, at: "1") == nil)
        #expect(contents.problem(with: .string("bob"), of: "friends", 0, at: "1") == nil)
        #expect(contents.problem(with: .string("eve"), of: "friends", 0, at: "1") == .string("bob"))
        #expect(contents.problem(with: .string("eve"), of: "friends", 1, at: "1") == nil)
        #expect(contents.problem(with: .string("eve"), of: "friends", 0, at: "2") == nil)
    }
}
