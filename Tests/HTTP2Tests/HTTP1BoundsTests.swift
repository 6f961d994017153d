import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import HTTP2

/// The limits of HTTP/1.1 connections, over real sockets.
@Suite(.timeLimit(.minutes(2))) struct HTTP1BoundsTests {
    private static let answerBytes = 100_000
    private static let request = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n"

    private static func answerMuch(_ request: HTTPRequest, _ connection: HTTPServerConnection) {
        let body = ByteBuffer(repeating: 7, count: answerBytes)
        connection.respond(to: request.stream, HTTPResponse(status: 200, contentType: .octets, body: body))
    }

    private static func requests(_ count: Int) -> String { String(repeating: request, count: count) }

    /// Their answers have more bytes than the kernel takes for a peer that does not read: less than 300 KB on Linux.
    ///
    /// Not many more: while its peer is slow, the kernel passes 128 KiB at a time, and may wait for 0.2 s or longer in between.
    private static let manyRequests = 30

    /// Limits by which a peer that is slow because the machine is busy is not cut off.
    private static var patientLimits: HTTPLimits {
        var limits = HTTPLimits()
        limits.stallTimeout = .minutes(5)
        return limits
    }

    @Test("Requests wait while their peer does not read, and are answered when it reads")
    func requestsWaitForTheReader() async throws {
        let server = try await HTTP1Server.start(Self.patientLimits, answering: Self.answerMuch)
        let peer = try await HTTP1Peer.connect(to: server.port, sending: Self.requests(Self.manyRequests), isReading: false)
        try await server.until { $0.http.connections.first?.channel.isWritable == false }
        let begun = try await server.onLoop { server in
            (server.seen.requests.count, try? server.http.connections.first?.channel.syncOptions?.getOption(.bufferedWritableBytes))
        }
        #expect(begun.0 < Self.manyRequests)
        #expect(try #require(begun.1) <= 64 << 10 + Self.answerBytes + 500, "the queue of the channel, and an answer")
        // No further request begins.
        try await peer.channel.eventLoop.scheduleTask(in: .milliseconds(100)) {}.futureResult.get()
        #expect(server.seen.requests.count == begun.0)
        try await peer.channel.setOption(.autoRead, value: true).get()
        try await server.until { $0.seen.requests.count == Self.manyRequests }
        #expect(server.seen.violations == [])
        peer.close()
        try await server.stop()
    }

    @Test("A peer that does not read its answers for a while is cut off")
    func readerThatStops() async throws {
        var limits = HTTPLimits()
        limits.stallTimeout = .milliseconds(500)
        let server = try await HTTP1Server.start(limits, answering: Self.answerMuch)
        let peer = try await HTTP1Peer.connect(to: server.port, sending: Self.requests(Self.manyRequests), isReading: false)
        try await server.until { !$0.seen.requests.isEmpty && $0.http.connectionsCount == 0 }
        #expect(server.seen.violations == [.windowShut])
        peer.close()
        try await server.stop()
    }

    @Test("A peer that does not read its last answer is cut off")
    func readerThatStopsAtTheEnd() async throws {
        var limits = HTTPLimits()
        limits.stallTimeout = .milliseconds(500)
        let server = try await HTTP1Server.start(limits) { request, connection in
            let body = ByteBuffer(repeating: 7, count: 10_000_000)
            connection.respond(to: request.stream, HTTPResponse(status: 200, contentType: .octets, body: body))
        }
        let last = "GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        let peer = try await HTTP1Peer.connect(to: server.port, sending: last, isReading: false)
        try await server.until { !$0.seen.requests.isEmpty && $0.http.connectionsCount == 0 }
        #expect(server.seen.violations == [.windowShut])
        peer.close()
        try await server.stop()
    }

    @Test("A peer that sends much, sends FIN and does not read is cut off")
    func floodBeforeFin() async throws {
        var limits = HTTPLimits()
        (limits.bodyBytesMax, limits.headerBytesMax) = (1_000, 1_000)
        let server = try await HTTP1Server.start(limits) { _, _ in }
        // As many bytes as the kernel takes for a process that does not read.
        let peer = try await HTTP1Peer.connect(to: server.port, sending: Self.requests(62_000 / Self.request.utf8.count), isReading: false)
        try await peer.finish()
        try await server.until { !$0.seen.requests.isEmpty && $0.http.connectionsCount == 0 }
        #expect(server.seen.violations == [.bufferedTooMuch])
        peer.close()
        try await server.stop()
    }

    @Test(
        "Other connections have their turn after sixteen requests of a connection, or after at most four that take long",
        arguments: [(TimeAmount.zero, 16, 400), (TimeAmount.milliseconds(2), 4, 40)])
    func turns(time: TimeAmount, turnMax: Int, requestsCount: Int) async throws {
        let perTurn = Mutex<[Int]>([])
        // A loop of its own, because tasks of other tests would come between.
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let server = try await HTTP1Server.start(on: group.next()) { request, connection in
            let isFirst = perTurn.withLock { turns in
                if turns.last == nil || turns.last == 0 { turns.append(0) }
                turns[turns.count - 1] += 1
                return turns[turns.count - 1] == 1
            }
            // This task runs after the turn.
            if isFirst { connection.eventLoop.execute { perTurn.withLock { $0.append(0) } } }
            let end = NIODeadline.now() + time
            while .now() < end {}
            HTTP1Server.sayHello(request, connection)
        }
        // A new connection reads little at first. Two reads of one turn would count as one here.
        let peer = try await HTTP1Peer.connect(to: server.port, sending: Self.requests(1))
        try await server.until { $0.seen.requests.count == 1 }
        peer.send(Self.requests(requestsCount - 1))
        try await server.until { $0.seen.requests.count == requestsCount }
        let turns = perTurn.withLock { $0.filter { $0 > 0 } }
        #expect(turns.allSatisfy { $0 <= turnMax } && turns.reduce(0, +) == requestsCount, "\(turns)")
        peer.close()
        try await server.stop()
        try await group.shutdownGracefully()
    }

    @Test("Nothing is read while the application has not answered")
    func oneRequestAtATime() async throws {
        let waiting = Mutex<[@Sendable () -> Void]>([])
        let server = try await HTTP1Server.start { request, connection in
            let stream = request.stream
            nonisolated(unsafe) let connection = connection
            waiting.withLock {
                $0.append { connection.respond(to: stream, HTTPResponse(status: 200, contentType: .text, body: ByteBuffer())) }
            }
        }
        let peer = try await HTTP1Peer.connect(to: server.port, sending: Self.requests(20_000))
        try await server.until { $0.seen.requests.count == 1 }
        try await peer.channel.eventLoop.scheduleTask(in: .milliseconds(100)) {}.futureResult.get()
        #expect(try await server.onLoop { $0.http.sharedLimits.heldBytes } <= 64 << 10)
        for count in 1...3 {
            try await server.until { $0.seen.requests.count == count }
            try await server.onLoop { _ in waiting.withLock { $0.removeLast() }() }
        }
        try await server.until { $0.seen.requests.count == 4 }
        peer.close()
        try await server.stop()
    }

    @Test("The deadline of a header is counted from its first byte, also after a first request", arguments: ["", request])
    func slowHeader(before: String) async throws {
        // The test calls the sweeps with its own times, so that a busy machine ends nothing.
        var limits = HTTPLimits()
        limits.headerTimeout = .seconds(100)
        let server = try await HTTP1Server.start(limits)
        let lastRead = { @Sendable (server: HTTP1Server) in server.http.connections.first?.lastReceivedAt ?? .distantPast }
        let peer = try await HTTP1Peer.connect(to: server.port, sending: before + "GET /slow HTTP/1.1\r\nHost: a\r\n")
        try await server.until { $0.http.connections.first.map { $0.heldBytes > 0 } ?? false }
        try await peer.text { text, _ in before.isEmpty || text.hasSuffix("hello") }
        let start = NIODeadline.now()
        // Further fields do not extend the deadline.
        for _ in 0..<3 {
            let before = try await server.onLoop(lastRead)
            peer.send("x: y\r\n")
            try await server.until { lastRead($0) > before }
        }
        try await server.onLoop { $0.http.sweep(at: start + .seconds(90)) }
        #expect(server.seen.violations == [])
        try await server.onLoop { $0.http.sweep(at: start + .seconds(100) + .nanoseconds(1)) }
        let text = try await peer.textUntilClosed()
        #expect(text.contains("HTTP/1.1 408 ") && text.contains("connection: close"))
        #expect(server.seen.violations == [.headerTimeout])
        peer.close()
        try await server.stop()
    }

    @Test("An unfinished header is refused at the limit", arguments: ["GET /", "GET / HTTP/1.1\r\nx: ", "GET / HTTP/1.1\r\n"])
    func endlessHeader(start: String) async throws {
        var limits = HTTPLimits()
        // The bytes reach their limit first, however slow the machine is.
        limits.headerTimeout = .minutes(5)
        let server = try await HTTP1Server.start(limits)
        let rest = start.hasSuffix("\n") ? String(repeating: "x: y\r\n", count: 100_000) : String(repeating: "y", count: 600_000)
        let text = try await HTTP1Peer.talk(start + rest, to: server)
        #expect(text.hasPrefix("HTTP/1.1 431 "))
        #expect(server.seen.violations == [.headerListTooLarge])
        try await server.stop()
    }

    @Test(
        "A chunked body is refused at the limit, and so are endless lines and trailers",
        arguments: [
            ("8000\r\n", "x", 32_768, "\r\n8000\r\n", 413), ("1;", "x", 300, "", 400), ("0\r\n", "x: y\r\n", 101, "", 431),
            ("0\r\nx: ", "y", 17_000, "", 400),
        ])
    func endlessChunks(start: String, repeated: String, count: Int, end: String, status: Int) async throws {
        let body = start + String(repeating: repeated, count: count) + end
        var limits = HTTPLimits()
        limits.bodyBytesMax = 60_000
        let server = try await HTTP1Server.start(limits)
        let text = try await HTTP1Peer.talk("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + body, to: server)
        #expect(text.hasPrefix("HTTP/1.1 \(status) "), "\(text)")
        try await server.stop()
    }

    @Test("Incomplete requests are bounded over all connections, and the largest is refused first")
    func partialRequests() async throws {
        var limits = HTTPLimits()
        limits.heldBytesMax = 100_000
        let server = try await HTTP1Server.start(limits)
        let small = try await HTTP1Peer.connect(to: server.port, sending: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{")
        let part = { "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n" + String(repeating: "x", count: $0) }
        let first = try await HTTP1Peer.connect(to: server.port, sending: part(48_000))
        try await server.until { $0.http.sharedLimits.heldBytes > 48_000 }
        let second = try await HTTP1Peer.connect(to: server.port, sending: part(46_000))
        try await server.until { $0.http.sharedLimits.heldBytes > 94_000 }
        let third = try await HTTP1Peer.connect(to: server.port, sending: part(20_000))
        #expect(try await first.textUntilClosed().hasPrefix("HTTP/1.1 503 "), "it holds most")
        try await server.until { $0.http.sharedLimits.heldBytes > 66_000 }
        #expect(server.seen.violations == [.heldTooMuch])
        small.send("}")
        try await small.text { text, _ in text.hasPrefix("HTTP/1.1 200 ") }
        for peer in [small, first, second, third] { peer.close() }
        try await server.until { $0.http.connectionsCount == 0 }
        #expect(try await server.onLoop { $0.http.sharedLimits.heldBytes } == 0)
        try await server.stop()
    }

    @Test("Unread answers are bounded over all connections, and do not count after they are read")
    func unreadAnswers() async throws {
        var limits = Self.patientLimits
        limits.heldBytesMax = 120_000
        let server = try await HTTP1Server.start(limits) { request, connection in
            let body = ByteBuffer(repeating: 7, count: 10_000)
            connection.respond(to: request.stream, HTTPResponse(status: 200, contentType: .octets, body: body))
        }
        var peers: [HTTP1Peer] = []
        // Each connection holds at least 32 KiB, at most 64 KiB and an answer, and requests.
        for _ in 0..<4 { peers.append(try await .connect(to: server.port, sending: Self.requests(100), isReading: false)) }
        try await server.until { server in
            let connections = server.http.connections
            return !server.seen.violations.isEmpty && connections.allSatisfy { !$0.channel.isWritable && $0.heldBytes > 32 << 10 }
        }
        #expect(Set(server.seen.violations) == [.unreadTooMuch])
        #expect(try await server.onLoop { $0.http.sharedLimits.heldBytes } <= limits.heldBytesMax)
        #expect(try await server.onLoop { $0.http.connectionsCount } > 0, "only as many connections end as necessary")
        for peer in peers { peer.channel.setOption(.autoRead, value: true).whenFailure { _ in } }
        try await server.until { $0.http.sharedLimits.heldBytes == 0 && $0.http.connectionsCount > 0 }
        for peer in peers { peer.close() }
        try await server.stop()
    }

    @Test("Of unread answers the oldest is ended first, and counts as a whole") func oldestUnreadAnswer() async throws {
        let bytesCount = 4_000_000
        var limits = Self.patientLimits
        limits.heldBytesMax = 5 * bytesCount / 2
        let server = try await HTTP1Server.start(limits) { request, connection in
            [UInt8](repeating: 55, count: bytesCount).withUnsafeBufferPointer { body in
                connection.respond(to: request.stream, status: 200, contentType: .octets, body: body)
            }
        }
        var peers: [HTTP1Peer] = []
        for number in 1...3 {
            peers.append(try await .connect(to: server.port, sending: Self.request, isReading: false))
            if number < 3 { try await server.until { $0.http.heldBytes > number * bytesCount } }
        }
        try await server.until { !$0.seen.violations.isEmpty }
        #expect(server.seen.violations == [.unreadTooMuch])
        #expect(try await server.onLoop { $0.http.heldBytes } > 2 * bytesCount)
        for peer in peers { peer.channel.setOption(.autoRead, value: true).whenFailure { _ in } }
        #expect(try await peers[0].textUntilClosed().utf8.count < bytesCount)
        for peer in peers.dropFirst() { try await peer.text { text, _ in text.utf8.count > bytesCount } }
        try await server.until { $0.http.heldBytes == 0 && $0.http.connectionsCount == 2 }
        for peer in peers { peer.close() }
        try await server.stop()
    }

    @Test(
        "A connection is freed when it is closed in any state",
        arguments: [
            "", "PRI * HT", "GET", request, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n",
        ])
    func closedConnectionsAreFreed(text: String) async throws {
        var limits = HTTPLimits()
        limits.headerTimeout = .hours(1)
        let server = try await HTTP1Server.start(limits)
        let peer = try await HTTP1Peer.connect(to: server.port, sending: text)
        let channel = Mutex(Weak())
        try await server.until { server in
            guard let found = server.http.connections.first?.channel ?? server.http.undecided.elements.first?.context?.channel else {
                return false
            }
            channel.withLock { $0.channel = found }
            return true
        }
        peer.close()
        try await server.until { _ in channel.withLock { $0.channel == nil } }
        #expect(try await server.onLoop { $0.http.connectionsCount + $0.http.undecided.elements.count } == 0)
        try await server.stop()
    }

    private struct Weak: @unchecked Sendable { weak var channel: (any Channel)? }

    @Test("An event stream reports that it is full while its peer does not read, and that it has room again")
    func fullEventStream() async throws {
        let server = try await HTTP1Server.start { request, connection in
            connection.openEventStream(request.stream, token: 1)
            let event = ByteBuffer(repeating: 65, count: 60_000)
            var count = 0
            while !connection.push(event, to: request.stream), count < 2 { count += 1 }
        }
        let peer = try await HTTP1Peer.connect(to: server.port, sending: Self.request)
        try await server.until { $0.seen.drained == 1 }
        peer.close()
        try await server.until { $0.seen.streamsClosed == [.peerLeft] }
        try await server.stop()
    }
}
