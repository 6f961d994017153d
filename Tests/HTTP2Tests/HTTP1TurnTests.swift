import Testing

@testable import HTTP2

/// Every transition of ``HTTP1Turn``, and every method in every turn where it must change nothing.
@Suite struct HTTP1TurnTests {
    typealias Turn = HTTP1Turn

    static let turns: [Turn] = [.idle, .working, .heldBack, .queued, .released]

    /// The turns that follow those of ``turns``.
    private static func next(_ change: (inout Turn) -> Void) -> [Turn] {
        turns.map { turn in
            var turn = turn
            change(&turn)
            return turn
        }
    }

    @Test("Processing begins once at a time, and ends without a change when bytes are held back")
    func processing() {
        var begun: [Bool] = []
        #expect(Self.next { begun.append($0.begin()) } == [.working, .working, .working, .working, .working])
        #expect(begun == [true, false, true, true, true])
        #expect(Self.next { $0.end() } == [.idle, .idle, .heldBack, .queued, .released])
    }

    @Test("Bytes that are held back stay in the loop's list, and leave it only by a turn")
    func holding() {
        #expect(Self.next { $0.hold() } == [.heldBack, .heldBack, .heldBack, .queued, .queued])
        #expect(Self.next { $0.queue() } == [.queued, .queued, .queued, .queued, .queued])
        #expect(Self.next { $0.release() } == [.idle, .working, .idle, .released, .released])
        #expect(Self.turns.map(\.isHeldBack) == [false, false, true, true, false])
        #expect(Self.turns.map(\.isQueued) == [false, false, false, true, true])
    }
}
