import HTTP2
import NIOCore
import NIOPosix
import NodeFixture
import Testing

extension ConformanceTests {
    /// A custom status and an event of the same user in one HTTP/2 write: both reach the owner at once, and their deltas coalesce.
    @Suite struct PairTests {
        @Test(
            "T9 T34 N14 Of 1,000 pairs of setSelfStatus and an unsynced publishEvent in one write, no own session on three nodes misses a text"
        )
        func noOwnSessionMissesAText() async throws {
            let app = try await App("rollcall", #"{"rate.changes":false}"#)
            var own: [Session] = []
            for node in 0..<3 { own.append(try await app.login("ann", node: node, query: "platform=p\(node)")) }
            let pairs = try await Pairs.connect(port: app.cluster.nodes[0].ports.client, token: try app.token("ann"))
            var lost = 0
            for number in 0..<1_000 {
                try await pairs.send([
                    ("setSelfStatus", "{\"customStatus\":\"\(number)\"}"),
                    ("publishEvent", "{\"value\":\(10_000 + number),\"syncEnabled\":false}"),
                ])
                for session in own {
                    do {
                        try await session.until("the text of pair \(number)") { events in
                            events.suffix(4).contains { event in
                                (event.json["userStatusList"]?.elements ?? []).contains {
                                    $0.custom == "\(number)" && $0["event"]?["value"]?.number == 10_000 + Int64(number)
                                }
                            }
                        }
                    } catch { lost += 1 }
                }
            }
            #expect(lost == 0)
            await pairs.close()
        }
    }
}

/// Sends calls of one user over one connection, several in one write, and waits for all answers.
final class Pairs: HTTPClientDelegate, @unchecked Sendable {  // Touched on its event loop only.
    private let loop: HTTPClientConnection.Loop
    private let token: String
    private var connection: HTTPClientConnection?
    private var connected: EventLoopPromise<Void>?
    private var done: EventLoopPromise<Void>?
    private var openCount = 0
    private var refused: [Int] = []

    private init(_ eventLoop: any EventLoop, token: String) {
        loop = HTTPClientConnection.Loop(eventLoop: eventLoop)
        self.token = token
    }

    static func connect(port: Int, token: String) async throws -> Pairs {
        let pairs = Pairs(MultiThreadedEventLoopGroup.singleton.next(), token: token)
        try await pairs.loop.eventLoop.flatSubmit {
            let connected = pairs.loop.eventLoop.makePromise(of: Void.self)
            pairs.connected = connected
            pairs.connection = HTTPClientConnection.connect(host: "127.0.0.1", port: port, on: pairs.loop, delegate: pairs)
            return connected.futureResult
        }.get()
        return pairs
    }

    /// Calls operations in one write; throws for an answer that is not 200.
    func send(_ calls: [(operation: String, body: String)]) async throws {
        try await loop.eventLoop.flatSubmit { [self] in
            let done = loop.eventLoop.makePromise(of: Void.self)
            (self.done, openCount, refused) = (done, calls.count, [])
            for (operation, body) in calls {
                let headers: [(name: StaticString, value: String)] = [("authorization", "Bearer \(token)")]
                let stream = connection?.send(.post, path: "/v1/\(operation)", headers: headers, body: ByteBuffer(string: body), token: 0)
                if stream == nil { done.fail(ChannelError.ioOnClosedChannel) }
            }
            return done.futureResult
        }.get()
    }

    func close() async {
        do { try await loop.eventLoop.submit { [self] in connection?.close() }.get() } catch { return }  // The loop has ended.
    }

    func connected(_ connection: HTTPClientConnection) { connected?.succeed() }

    func responseHead(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, status: Int) {
        if status != 200 { refused.append(status) }
    }

    func responseBody(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, bytes: UnsafeRawBufferPointer) {}

    func streamClosed(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, error: UInt32) {
        openCount -= 1
        guard openCount == 0 else { return }
        if refused.isEmpty { done?.succeed() } else { done?.fail(TestFailure("refused: \(refused)")) }
    }

    func closed(_ connection: HTTPClientConnection, error: (any Error)?) { connected?.fail(error ?? ChannelError.ioOnClosedChannel) }
}
