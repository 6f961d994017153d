import PresenceWire
import Testing

@testable import PresenceCore

@Suite struct BacklogTests {
    private var backlog = Backlog()
    private let old = Version(stamp: 3, node: 1)
    private let new = Version(stamp: 4, node: 1)

    @Test("Pending users are taken sorted and once, and a newer record replaces the one that waits")
    mutating func pending() {
        expect([7, 2, 7, 5].map { backlog.postpone($0) } == [true, true, false, true])
        backlog.checkInvariants(targets: [1, 2, 5, 7], profiles: [])
        expect(backlog.hasPending && !backlog.isEmpty)
        expect(backlog.takePending() == [2, 5, 7])
        expect(!backlog.hasPending && backlog.isEmpty && backlog.takePending() == [])
    }

    @Test("Profile versions wait sorted and once, and hold the position back until they are told")
    mutating func profiles() {
        for user in [7, 2, 7] as [WatchIndex.UserIndex] { backlog.postponeProfile(of: user) }
        backlog.checkInvariants(targets: [2], profiles: [7])
        expect(backlog.profiles == [2, 7] && !backlog.isEmpty && backlog.isExpectingRecords && !backlog.hasPending)
        backlog.drop(7)
        expect(backlog.takeProfile(of: 7) && !backlog.takeProfile(of: 7) && !backlog.takeProfile(of: 3))
        expect(backlog.takeProfile(of: 2) && backlog.isEmpty && !backlog.isExpectingRecords)
    }

    @Test("A first record ends the wait, and says what the client knew")
    mutating func expected() {
        backlog.expect(1, knowing: .version(old))
        backlog.expect(2, knowing: .nothing)
        expect(backlog.isExpecting(1) && !backlog.isExpecting(3) && !backlog.isEmpty)
        expect(backlog.takeExpected(1) == .version(old) && backlog.takeExpected(2) == .nothing && backlog.takeExpected(1) == .nothing)
        expect(!backlog.isExpectingRecords && backlog.isEmpty)
        backlog.endExpectations()
    }

    @Test("A user who is not followed any more is neither pending nor expected nor answered")
    mutating func drop() {
        backlog.expect(1, knowing: .nothing)
        _ = backlog.postpone(1)
        backlog.setAnswered([(1, .version(old)), (2, .version(old))])
        backlog.drop(1)
        expect(backlog.isEmpty)
        expect(backlog.takeAnswered().map(\.user) == [2])
    }

    @Test("An answer that the client did not get leaves it without knowledge of the users")
    mutating func withdrawnAnswer() {
        backlog.expect(1, knowing: .version(old))
        backlog.expect(2, knowing: .version(old))
        backlog.setAnswered([(1, .version(old))])
        expect(backlog.takeAnswered().map(\.knowledge) == [.version(old)])
        expect(backlog.takeAnswered().isEmpty)
        expect(backlog.takeExpected(1) == .nothing && backlog.takeExpected(2) == .version(old))
    }

    @Test("An answered version that looks the same moves to the later version; any other stays")
    mutating func raisedAnswer() {
        backlog.setAnswered([(1, .version(old)), (2, .version(old)), (3, .changes(before: 9))])
        backlog.raiseAnswered(1, from: old, to: new)
        backlog.raiseAnswered(2, from: new, to: old)
        backlog.raiseAnswered(3, from: old, to: new)
        expect(backlog.takeAnswered().map(\.knowledge) == [.version(new), .version(old), .changes(before: 9)])
    }
}
