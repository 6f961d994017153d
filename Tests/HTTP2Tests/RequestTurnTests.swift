import NIOCore
import Synchronization
import Testing

@testable import HTTP2

/// The requests of one HTTP/2 connection share a turn of the loop with those of others.
@Suite(.timeLimit(.minutes(1))) struct RequestTurnTests {
    private static func stream(_ number: UInt32) -> StreamID { StreamID(slot: number, number: Int32(number)) }

    @Test("A turn has time for one request at least, and for no further one after its end")
    func turnEnds() {
        var turn = RequestTurn()
        func taken(_ count: Int, waitingBytes: Int) -> [Bool] { (0..<count).map { _ in turn.takeOne(waitingBytes: waitingBytes) } }
        turn.begin(at: .distantPast, for: .milliseconds(1))
        // The clock is looked at after eight requests, and after each one while large answers wait.
        #expect(taken(9, waitingBytes: 0) == Array(repeating: true, count: 8) + [false])
        turn.begin(at: .distantPast, for: .milliseconds(1))
        #expect(taken(2, waitingBytes: 100_000) == [true, false])
        turn.begin(at: .now(), for: .hours(1))
        #expect(!taken(100, waitingBytes: 100_000).contains(false))
    }

    @Test("Requests that wait begin in order, some in each turn, and the connection is listed once")
    func heldRequestsBeginInOrder() {
        var turn = RequestTurn()
        for number in 1...20 as ClosedRange<UInt32> { turn.hold(Self.stream(number)) }
        let listed = [turn.list(), turn.list()]
        #expect(listed == [true, false] && !turn.isWaitingForBytes)
        var begun: [StreamID] = []
        for turnsCount in 1...3 {
            turn.beginListed(at: .distantPast)
            while let next = turn.next() { begun.append(next) }
            // The turn is over when it begins, and so it has time for one request.
            let othersWait = turn.endTurn()
            #expect(begun.count == turnsCount && othersWait)
        }
        turn.beginListed(at: .now() + .hours(1))
        while let next = turn.next() { begun.append(next) }
        let othersWait = turn.endTurn()
        #expect(!othersWait && begun == (1...20).map(Self.stream) && turn.isEmpty)
    }

    @Test("A request that waits for the turn of its connection begins before those behind it, and the connection is listed once")
    func postponedRequestStaysFirst() {
        var turn = RequestTurn()
        turn.begin(at: .now(), for: .hours(1))
        turn.postpone(Self.stream(1))
        turn.hold(Self.stream(2))
        let isListed = turn.list()
        #expect(!isListed && !turn.isWaitingForBytes)
        // Its turn comes too early.
        turn.beginListed(at: .now() + .hours(1))
        let early = turn.next()
        turn.postpone(Self.stream(1))
        var othersWait = turn.endTurn()
        #expect(early == Self.stream(1) && othersWait && !turn.isWaitingForBytes)
        turn.beginListed(at: .now() + .hours(1))
        var begun: [StreamID] = []
        while let next = turn.next() { begun.append(next) }
        othersWait = turn.endTurn()
        #expect(!othersWait && begun == (1...2).map(Self.stream))
    }

    @Test("After a large answer no request begins for as long as four megabytes a second allow")
    func largeAnswerPauses() {
        var turn = RequestTurn()
        turn.begin(at: .now(), for: .hours(1))
        turn.count(answerBytes: RequestTurn.pacedBytes - 1)
        let small = turn.takeOne(waitingBytes: 0)
        #expect(small && turn.pausedUntil == .distantPast)
        let before = NIODeadline.now()
        turn.count(answerBytes: 400 << 20)
        let large = turn.takeOne(waitingBytes: 0)
        #expect(!large && turn.pausedUntil >= before + .seconds(100))
    }

    @Test("A request is answered before the requests that another connection has sent before and that take longer than a turn")
    func longRequestsDoNotDelayOthers() async throws {
        let order = Mutex<[UInt16]>([])
        let server = try await RawServer.start { request, connection in
            let isLong = request.method == .post
            order.withLock { $0.append(isLong ? 1 : 2) }
            // A request that takes 2 ms of the processor.
            let end = NIODeadline.now() + .milliseconds(isLong ? 2 : 0)
            while .now() < end {}
            RawServer.sayHello(request, connection)
        }
        let long = try await RawPeer.connect(to: server.port, sending: RawFrame.hello)
        let other = try await RawPeer.connect(to: server.port, sending: RawFrame.hello)
        long.send((0..<900).map { .head(2 * $0 + 1, RawFrame.post) })
        try await long.frames { frames, _ in frames.contains(where: \.isEnd) }
        other.send([.head(1, RawFrame.get)])
        try await other.frames { frames, _ in frames.contains(where: \.isEnd) }
        try await long.frames { frames, _ in frames.count(where: \.isEnd) == 900 }
        let place = try #require(order.withLock { $0.firstIndex(of: 2) })
        #expect(place < 850)
        try await server.stop()
    }
}
