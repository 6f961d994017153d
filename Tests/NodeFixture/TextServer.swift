import HTTP2
import NIOCore
import NIOPosix
import Synchronization

/// A server on a free port of loopback that answers every request with the same text.
package final class TextServer: HTTPServerDelegate, Sendable {
    private struct State {
        var status = 200
        var text: String
        var requestsCount = 0
        /// The bodies of the first requests, with their paths.
        var received: [(path: String, body: [UInt8])] = []
        /// Keeps what serves alive.
        var serving: Serving?
    }

    /// The loop is used on its event loop only.
    private struct Serving: @unchecked Sendable {
        let http: HTTPLoop
        let server: HTTPServer
    }

    private let state: Mutex<State>

    private init(_ text: String) { state = Mutex(State(text: text)) }

    package static func start(_ text: String) async throws -> TextServer {
        let server = TextServer(text)
        nonisolated(unsafe) let http = HTTPLoop(
            eventLoop: MultiThreadedEventLoopGroup.singleton.next(), limits: HTTPLimits(), delegate: server)
        let serving = Serving(http: http, server: try await HTTPServer.bind(host: "127.0.0.1", port: 0, loops: [http]))
        server.state.withLock { $0.serving = serving }
        return server
    }

    package var port: Int { state.withLock { $0.serving?.server.port ?? 0 } }
    package var requestsCount: Int { state.withLock { $0.requestsCount } }
    /// The bodies of the first 1,000 requests, with their paths.
    package var received: [(path: String, body: [UInt8])] { state.withLock { $0.received } }

    /// Answers with another text from now on.
    package func set(_ text: String, status: Int = 200) {
        state.withLock { ($0.text, $0.status) = (text, status) }
    }

    package func stop() async {
        let serving = state.withLock { state in
            defer { state.serving = nil }
            return state.serving
        }
        await serving?.server.stopListening()
    }

    package func requestReceived(_ request: HTTPRequest, on connection: HTTPServerConnection) {
        let (status, text) = state.withLock { state in
            state.requestsCount += 1
            if state.requestsCount <= 1_000 {
                state.received.append((String(decoding: request.target, as: UTF8.self), Array(request.body)))
            }
            return (state.status, state.text)
        }
        connection.respond(to: request.stream, HTTPResponse(status: status, contentType: .json, body: ByteBuffer(string: text)))
    }

    package func eventStreamClosed(_ stream: StreamID, token: UInt32, on connection: HTTPServerConnection, reason: StreamEnd) {}
    package func eventStreamDrained(_ stream: StreamID, token: UInt32, on connection: HTTPServerConnection) {}
    package func connectionOpened(_ connection: HTTPServerConnection) {}
    package func connectionClosed(_ connection: HTTPServerConnection) {}
    package func violated(_ violation: HTTPViolation) {}
}
