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
        func taken(_ count: Int, waitingBytes: Int, loopHasTime: Bool = true) -> [Bool] {
            (0..<count).map { _ in turn.takeOne(waitingBytes: waitingBytes) { _ in loopHasTime } }
        }
        turn.begin(at: .distantPast, until: .distantPast + .milliseconds(1))
        // The clock is looked at after eight requests, and after each one while large answers wait.
        #expect(taken(9, waitingBytes: 0) == Array(repeating: true, count: 8) + [false])
        turn.begin(at: .distantPast, until: .distantPast + .milliseconds(1))
        #expect(taken(2, waitingBytes: 100_000) == [true, false])
        turn.begin(at: .now(), until: .now() + .hours(1))
        #expect(!taken(100, waitingBytes: 100_000).contains(false))
        // The other connections have used up the time of the loop's turn, meanwhile or before.
        turn.begin(at: .now(), until: .now() + .hours(1))
        #expect(taken(9, waitingBytes: 0, loopHasTime: false) == Array(repeating: true, count: 8) + [false])
        let now = NIODeadline.now()
        turn.begin(at: now, until: now)
        #expect(taken(3, waitingBytes: 0) == [true, false, false])
        turn.begin(at: now, until: now + .hours(1))
        #expect(!taken(20, waitingBytes: 0).contains(false))
    }

    @Test("The connections of a loop share the time of one turn, and the next turn has time again")
    func sharedTurn() async throws {
        let server = try await RawServer.start()
        let start = NIODeadline.now() + .hours(1)
        for turn in 0..<3 as Range<Int64> {
            let begin = start + .seconds(turn)
            let (ends, hasTime) = try await server.onLoop { server in
                let http = server.http!
                let first = http.turnEnd(at: begin)
                let answers = [0, 900, 1_000, 5_000].map { http.mayWork(at: begin + .microseconds($0)) }
                return ([first, http.turnEnd(at: begin + .microseconds(900)), http.turnEnd(at: begin + .milliseconds(5))], answers)
            }
            #expect(ends == Array(repeating: begin + .milliseconds(1), count: 3))
            #expect(hasTime == [true, true, false, false])
        }
        try await server.stop()
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
        turn.begin(at: .now(), until: .now() + .hours(1))
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
        turn.begin(at: .now(), until: .now() + .hours(1))
        turn.count(answerBytes: RequestTurn.pacedBytes - 1)
        let small = turn.takeOne(waitingBytes: 0) { _ in true }
        #expect(small && turn.pausedUntil == .distantPast)
        let before = NIODeadline.now()
        turn.count(answerBytes: 400 << 20)
        let large = turn.takeOne(waitingBytes: 0) { _ in true }
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
