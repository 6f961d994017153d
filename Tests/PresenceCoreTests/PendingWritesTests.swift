import PresenceWire
import Testing

@testable import PresenceCore

@Suite struct PendingWritesTests {
    @Test("The notices of a write leave after those of earlier writes about the same user, which still wait")
    func orderOfNotices() {
        func update(_ id: String, _ milliseconds: Milliseconds) -> (peer: PeerIndex, listUpdate: ListUpdate) {
            let version = Version(milliseconds: milliseconds, counter: 0, node: 1)
            var update = ListUpdate(user: user(id), version: version, isWhole: false, added: [], removed: [])
            update.notices = [RelationshipNotice(.state, RelationshipState())]
            return (0, update)
        }
        var writes = PendingWrites()
        for (ticket, updates) in [[update("ann", 1), update("ben", 1)], [update("ann", 2)]].enumerated() {
            let number = UInt64(10 + 2 * ticket)
            writes.add(
                PendingWrites.Write(
                    ticket: number, replicaTicket: number, barrierTicket: ticket == 0 ? 11 : nil,
                    continuations: updates.map { .listUpdate($0.listUpdate, to: $0.peer) }, rows: [], needs: [[1]],
                    barrierPeers: ticket == 0 ? [1, 2] : [], isStored: true,
                    deadline: Instant(nanoseconds: 2_000_000_000)))
        }
        func released(_ outcome: PendingWrites.Outcome?) -> [ListUpdate] {
            if case .done(let write) = outcome { write.continuations.listUpdates.map(\.listUpdate) } else { [] }
        }
        #expect(released(writes.replicated(10, by: 1)) == [])
        #expect(released(writes.replicated(12, by: 1)) == [update("ann", 1).listUpdate, update("ann", 2).listUpdate])
        #expect(released(writes.replicated(11, by: 1)) == [])
        #expect(released(writes.replicated(11, by: 2)) == [update("ben", 1).listUpdate])
        #expect(writes.count == 0)
    }

    @Test("A replica acknowledges rows once its own disk has them, whatever its own users wait for") func acknowledgement() {
        var writes = PendingWrites()
        writes.add(
            PendingWrites.Write(
                ticket: 7, replicaTicket: 7,
                continuations: [.answer(id: 1, of: user("ann"), .done, to: 0), .acknowledgement(ticket: 5, to: 2)], rows: [], needs: [[1]],
                deadline: Instant(nanoseconds: 2_000_000_000)))
        #expect(writes.takeAcknowledgements(of: 7).map(\.ticket) == [5])
        #expect(writes.stored(7, isDurable: true) == nil)
        #expect(writes.takeAcknowledgements(of: 7).isEmpty && writes.count == 1)
        #expect(writes.replicated(7, by: 1) != nil)
    }
}
