import PresenceWire
import Testing

@testable import PresenceCore

/// The events of the relationship chain that a full queue keeps back, and their bounds.
@Suite struct OwedRelationshipsTests {
    private var owed = OwedRelationships()

    /// An event that counts for the whole bound of a stream, divided by `share`.
    private func notice(_ number: Milliseconds, share: Int) -> RelationshipNotice {
        var state = RelationshipState()
        state.friends = Version(milliseconds: number, counter: 0, node: 1)
        let rest = OwedRelationships.bytesMax / share - OwedRelationships.bytesCount(of: RelationshipNotice(.friendsAdded, state))
        return RelationshipNotice(.friendsAdded, state, data: [UInt8](repeating: 0x20, count: rest))
    }

    @Test("A stream is owed its events in order, and each once, whatever others are owed") mutating func order() {
        let notices = (1...8).map { notice($0, share: 8) }
        for notice in notices {
            owed.add(notice, to: 3)
            owed.add(notice, to: 5)
        }
        owed.addState(to: 5)
        let first = owed.take(3)
        #expect(first.notices == notices && !first.hasState)
        let second = owed.take(5)
        #expect(second.notices == notices && second.hasState)
        for session in [3, 5, 7] as [Gateway.SessionIndex] {
            let rest = owed.take(session)
            #expect(rest.notices == [] && !rest.hasState)
        }
    }

    @Test("Beyond the bound of a stream the newest state stands for all its events, until these are taken") mutating func bound() {
        for number in 1...9 { owed.add(notice(Milliseconds(number), share: 8), to: 3) }
        owed.add(notice(10, share: 8), to: 3)
        let taken = owed.take(3)
        #expect(taken.notices == [] && taken.hasState)
        owed.add(notice(11, share: 8), to: 3)
        #expect(owed.take(3).notices == [notice(11, share: 8)])
    }

    @Test("Beyond the bound of all streams the one with a further event is owed the newest state, and the others keep theirs")
    mutating func boundOfAll() {
        let count = Gateway.SessionIndex(OwedRelationships.allBytesMax / OwedRelationships.bytesMax)
        for session in 0..<count { owed.add(notice(1, share: 1), to: session) }
        owed.add(notice(1, share: 1), to: count)
        let last = owed.take(count)
        #expect(last.notices == [] && last.hasState)
        for session in 0..<count { #expect(owed.take(session).notices == [notice(1, share: 1)]) }
        // The events that were taken give room again.
        owed.add(notice(2, share: 1), to: count)
        #expect(owed.take(count).notices == [notice(2, share: 1)])
    }
}
