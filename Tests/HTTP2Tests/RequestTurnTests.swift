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
        turn.begin(at: .distantPast)
        #expect(turn.takeOne(waitingBytes: 0))
        // The clock is looked at after eight requests, and after each one while large answers wait.
        #expect((1..<8).allSatisfy { _ in turn.takeOne(waitingBytes: 0) } && !turn.takeOne(waitingBytes: 0))
        turn.begin(at: .distantPast)
        #expect(turn.takeOne(waitingBytes: 100_000) && !turn.takeOne(waitingBytes: 100_000))
        turn.begin(at: .now() + .hours(1))
        #expect((0..<100).allSatisfy { _ in turn.takeOne(waitingBytes: 100_000) })
    }

    @Test("Requests that wait begin in order, some in each turn, and the connection is listed once")
    func heldRequestsBeginInOrder() {
        var turn = RequestTurn()
        for number in 1...20 as ClosedRange<UInt32> { turn.hold(Self.stream(number)) }
        #expect(turn.list() && !turn.list() && !turn.isWaitingForBytes)
        var begun: [StreamID] = []
        for turnsCount in 1...3 {
            turn.beginListed(at: .distantPast)
            while let next = turn.next() { begun.append(next) }
            // The turn is over when it begins, and so it has time for one request.
            #expect(begun.count == turnsCount && turn.endTurn())
            #expect(turn.next() == nil)
        }
        turn.beginListed(at: .now() + .hours(1))
        while let next = turn.next() { begun.append(next) }
        #expect(!turn.endTurn())
        #expect(begun == (1...20).map(Self.stream) && turn.isEmpty)
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
        long.send((0..<100).map { .head(2 * $0 + 1, RawFrame.post) })
        try await long.frames { frames, _ in frames.contains(where: \.isEnd) }
        other.send([.head(1, RawFrame.get)])
        try await other.frames { frames, _ in frames.contains(where: \.isEnd) }
        try await long.frames { frames, _ in frames.count(where: \.isEnd) == 100 }
        let place = try #require(order.withLock { $0.firstIndex(of: 2) })
        #expect(place < 90)
        try await server.stop()
    }
}
