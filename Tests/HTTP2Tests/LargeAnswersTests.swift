import Foundation
import NIOCore
import Synchronization
import Testing

@testable import HTTP2

/// Requests whose answers may be large begin one after the other, and connections take turns.
@Suite(.timeLimit(.minutes(1))) struct LargeAnswersTests {
    private final class Connection {}
    private typealias Turns = LargeAnswerTurns<Connection>

    private let now = NIODeadline.now()

    // MARK: The turns

    @Test("After a large answer no such request begins for the time that its bytes take")
    func answerTakesTime() {
        var turns = Turns(bytesPerSecond: 1 << 20)
        let atOnce = [turns.begin(openCount: 0, at: now), turns.begin(openCount: 0, at: now)]
        turns.count(answerBytes: 1 << 20, at: now)
        let later = [turns.begin(openCount: 0, at: now + .milliseconds(999)), turns.begin(openCount: 0, at: now + .seconds(1))]
        #expect(atOnce == [true, true] && later == [false, true])
    }

    @Test("Some requests are in progress at a time, only one after a large answer, and none waits for others without end")
    func inProgress() {
        var turns = Turns(bytesPerSecond: 1 << 30)
        let few = [turns.begin(openCount: Turns.openMax - 1, at: now), turns.begin(openCount: Turns.openMax, at: now)]
        let patient = turns.begin(openCount: Turns.openMax, at: now + Turns.patience)
        #expect(few == [true, false] && patient)
        turns.count(answerBytes: 1, at: now)
        let soon = now + Turns.memory - .milliseconds(100)
        let one = [turns.begin(openCount: 0, at: soon), turns.begin(openCount: 1, at: soon)]
        let again = turns.begin(openCount: 1, at: now + Turns.memory)
        #expect(one == [true, false] && again)
    }

    @Test("Connections take turns, each waits once, and one that is closed has none")
    func connectionsTakeTurns() {
        var turns = Turns(bytesPerSecond: 1 << 20)
        let (one, two, three) = (Connection(), Connection(), Connection())
        turns.count(answerBytes: 1 << 20, at: now)
        let mustSchedule = [turns.wait(one), turns.wait(two), turns.wait(one), turns.wait(three)]
        #expect(mustSchedule == [true, false, false, false])
        turns.remove(two)
        let early = turns.next(openCount: 0, at: now)
        let mustScheduleAgain = turns.endTurn()
        #expect(early == nil && mustScheduleAgain)

        let later = now + .seconds(2)
        let first = turns.next(openCount: 0, at: later)
        // It begins one request, and its next one waits behind the other connection.
        let begun = [turns.begin(openCount: 0, at: later), turns.begin(openCount: 0, at: later)]
        let isScheduled = !turns.wait(one)
        #expect(first === one && begun == [true, false] && isScheduled)
        // A turn that is not used passes to the next connection.
        let (second, third) = (turns.next(openCount: 0, at: later), turns.next(openCount: 0, at: later))
        let isOver = !turns.endTurn()
        #expect(second === three && third === one && isOver)
        let afterwards = turns.begin(openCount: 0, at: later)
        #expect(afterwards)
    }

    // MARK: Connections

    /// As ``RawFrame/get``, for `/large`.
    private static let large: [UInt8] = [0x82, 0x86, 0x04, 6] + Array("/large".utf8) + [0x01, 1, UInt8(ascii: "a")]
    private static let ping = RawFrame(.ping, payload: Array(0..<8))

    /// Uses up the time for large answers.
    private static func useUp(_ time: TimeAmount, of server: HTTPLoop) {
        server.count(answerBytes: server.limits.largeAnswerBytesPerSecond / 1_000 * Int(time.nanoseconds / 1_000_000))
    }

    @Test("While large answers have used up their time, only requests that may have such answers wait")
    func othersDoNotWait() async throws {
        let server = try await RawServer.start()
        try await server.onLoop { Self.useUp(.seconds(30), of: $0.http) }
        let waiting = try await RawPeer.connect(to: server.port, sending: RawFrame.hello + RawFrame.head(1, Self.large).bytes)
        waiting.send([Self.ping])
        try await waiting.frames { frames, _ in frames.contains { $0.kind == .ping } }
        let waitingToo = try await HTTP1Peer.connect(to: server.port, sending: "GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        let other = try await RawPeer.connect(to: server.port, sending: RawFrame.hello + RawFrame.head(1, RawFrame.get).bytes)
        try await other.frames { frames, _ in frames.contains(where: \.isEnd) }
        let otherToo = try await HTTP1Peer.connect(to: server.port, sending: "GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
        try await otherToo.text { text, _ in text.hasSuffix("hello") }
        #expect(server.seen.requests == ["/", "/x"])
        // Connections that end while they wait leave nothing.
        try await server.stop()
        try await server.until { $0.http.connectionsCount == 0 && $0.http.heldBytes == 0 }
        waitingToo.close()
    }

    @Test("Over HTTP/2, requests that have waited begin in their order, and not before their time")
    func waitingRequestsAreAnswered() async throws {
        let server = try await RawServer.start()
        let start = NIODeadline.now()
        try await server.onLoop { Self.useUp(.milliseconds(200), of: $0.http) }
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello)
        peer.send([.head(1, Self.large), .head(3, Self.large), .head(5, RawFrame.get)])
        let frames = try await peer.frames { frames, _ in frames.count(where: \.isEnd) == 3 }
        #expect(NIODeadline.now() - start > .milliseconds(190))
        #expect(frames.filter(\.isEnd).map(\.stream).sorted() == [1, 3, 5])
        #expect(server.seen.requests == ["/large", "/large", "/"] && server.seen.violations == [])
        try await server.stop()
    }

    @Test("Over HTTP/1.1, requests that have waited are answered in their order, with their bodies")
    func waitingHTTP1RequestsAreAnswered() async throws {
        let server = try await HTTP1Server.start()
        let start = NIODeadline.now()
        try await server.onLoop { Self.useUp(.milliseconds(200), of: $0.http) }
        let requests =
            "POST /large HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
            + "POST /large HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n1\r\nf\r\n0\r\n\r\n"
            + "GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        let text = try await HTTP1Peer.talk(requests, to: server)
        #expect(NIODeadline.now() - start > .milliseconds(190))
        #expect(text.components(separatedBy: "hello").count == 4, "\(text)")
        #expect(server.seen.requests == ["/large abc", "/large def", "/x"] && server.seen.violations == [])
        try await server.stop()
    }

    private static func connect(_ count: Int, to server: RawServer) async throws -> [RawPeer] {
        var peers: [RawPeer] = []
        for _ in 0..<count {
            let bytes = RawFrame.preface + RawFrame.initialWindow(0).bytes + RawFrame.head(1, large).bytes
            peers.append(try await RawPeer.connect(to: server.port, sending: bytes))
        }
        return peers
    }

    @Test("After a large answer, a request that is not answered delays the next one, and not without end")
    func requestsInProgress() async throws {
        let begun = Mutex<[NIODeadline]>([])
        let server = try await RawServer.start { _, _ in begun.withLock { $0.append(.now()) } }
        try await server.onLoop { Self.useUp(.milliseconds(10), of: $0.http) }
        let peers = try await Self.connect(3, to: server)
        try await server.until { _ in begun.withLock { $0.count } == 3 }
        let times = begun.withLock { $0 }
        // The loop looks at its clock before the test does.
        let least = Turns.patience - .milliseconds(50)
        for (earlier, later) in zip(times, times.dropFirst()) { #expect(later - earlier >= least) }
        for peer in peers { try await peer.close() }
        try await server.stop()
    }

    @Test("A large answer delays the next request that may have one, whichever connection it comes on")
    func answersCount() async throws {
        let begun = Mutex<[NIODeadline]>([])
        let server = try await RawServer.start { request, connection in
            begun.withLock { $0.append(.now()) }
            [UInt8](repeating: 7, count: 8 << 20).withUnsafeBufferPointer {
                connection.respond(to: request.stream, status: 200, contentType: .octets, body: $0)
            }
        }
        let peers = try await Self.connect(3, to: server)
        try await server.until { _ in begun.withLock { $0.count } == 3 }
        let times = begun.withLock { $0 }
        // 8 MiB take 31 ms.
        for (earlier, later) in zip(times, times.dropFirst()) { #expect(later - earlier >= .milliseconds(30)) }
        for peer in peers { try await peer.close() }
        try await server.stop()
    }
}
