import NIOCore
import NIOSSL

/// One request and its response over a connection of their own.
///
/// For tools and tests: simple, not fast.
public final class HTTPExchange: HTTPClientDelegate, @unchecked Sendable {
    /// A complete response.
    public struct Response: Sendable {
        public let status: Int
        public let body: [UInt8]

        /// The body as text.
        public var text: String { String(decoding: body, as: UTF8.self) }
    }

    /// The error when there is no response.
    public struct Failure: Error, CustomStringConvertible {
        /// The host and the port.
        public let address: String
        /// Why there is no response, in words for a person at a terminal.
        public let reason: String
        /// The error of the connection; nil without one.
        public var cause: (any Error)?
        /// The answer that the server gave instead.
        public var response: Response?

        public var description: String { response?.text ?? "\(address): \(reason)" }
    }

    /// The caller, until it has its answer.
    private enum Receiver {
        /// It waits for the whole response.
        case whole(EventLoopPromise<Response>)
        /// It gets the body in pieces.
        case pieces(AsyncThrowingStream<[UInt8], any Error>.Continuation)
        /// The exchange is over.
        case none
    }

    private var receiver: Receiver
    private let method: HTTPRequest.Method
    private let path: String
    private let headers: [(name: StaticString, value: String)]
    private let requestBody: ByteBuffer?
    private let address: String
    private var connection: HTTPClientConnection?
    private var status = 0
    private var body: [UInt8] = []

    private init(
        _ method: HTTPRequest.Method, address: String, path: String, headers: [(name: StaticString, value: String)], body: ByteBuffer?,
        to receiver: Receiver
    ) {
        self.method = method
        self.address = address
        self.path = path
        self.headers = headers
        requestBody = body
        self.receiver = receiver
    }

    /// Sends a request, over TLS when `tls` is given, and returns the response.
    public static func send(
        _ method: HTTPRequest.Method, host: String, port: Int, path: String, headers: [(name: StaticString, value: String)] = [],
        body: String? = nil, tls: NIOSSLContext? = nil, on eventLoop: any EventLoop
    ) async throws -> Response {
        let promise = eventLoop.makePromise(of: Response.self)
        let exchange = HTTPExchange(
            method, address: "\(host):\(port)", path: path, headers: headers, body: body.map { ByteBuffer(string: $0) },
            to: .whole(promise))
        eventLoop.execute { exchange.connect(host: host, port: port, tls: tls, on: eventLoop) }
        return try await promise.futureResult.get()
    }

    /// Sends a request whose response does not end, and returns its body in pieces.
    ///
    /// A status other than 200 is thrown as ``Failure`` with the body.
    public static func stream(
        host: String, port: Int, path: String, headers: [(name: StaticString, value: String)], tls: NIOSSLContext? = nil,
        on eventLoop: any EventLoop
    ) -> AsyncThrowingStream<[UInt8], any Error> {
        AsyncThrowingStream { pieces in
            let exchange = HTTPExchange(
                .get, address: "\(host):\(port)", path: path, headers: headers, body: nil, to: .pieces(pieces))
            eventLoop.execute { exchange.connect(host: host, port: port, tls: tls, on: eventLoop) }
            pieces.onTermination = { _ in eventLoop.execute { exchange.connection?.close() } }
        }
    }

    private func connect(host: String, port: Int, tls: NIOSSLContext?, on eventLoop: any EventLoop) {
        let loop = HTTPClientConnection.Loop(eventLoop: eventLoop)
        connection = HTTPClientConnection.connect(host: host, port: port, on: loop, tls: tls, delegate: self)
        keptAlive = self
    }

    /// Keeps the exchange alive until it is over, because the connection holds its delegate weakly.
    private var keptAlive: HTTPExchange?

    public func connected(_ connection: HTTPClientConnection) {
        _ = connection.send(method, path: path, headers: headers, body: requestBody, token: 0)
    }

    public func responseHead(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, status: Int) { self.status = status }

    public func responseBody(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, bytes: UnsafeRawBufferPointer) {
        switch receiver {
        case .pieces(let pieces) where status == 200: pieces.yield(Array(bytes))
        case .whole, .pieces: body.append(contentsOf: bytes)
        case .none: break
        }
    }

    public func streamClosed(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, error: UInt32) {
        finish(error == 0 ? nil : Failure(address: address, reason: "the stream ended with HTTP/2 error \(error)"))
        connection.close()
    }

    public func closed(_ connection: HTTPClientConnection, error: (any Error)?) {
        let reason = error.map(ConnectionErrorText.text) ?? "the connection was closed"
        finish(Failure(address: address, reason: reason, cause: error))
        keptAlive = nil
    }

    private func finish(_ failure: Failure?) {
        let response = Response(status: status, body: body)
        let ended = receiver
        receiver = .none
        switch ended {
        case .whole(let promise): if let failure { promise.fail(failure) } else { promise.succeed(response) }
        case .pieces(let pieces):
            let refusal = status == 200 ? nil : Failure(address: address, reason: "HTTP status \(status)", response: response)
            pieces.finish(throwing: failure ?? refusal)
        case .none: break
        }
    }
}
