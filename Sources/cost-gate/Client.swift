import Glibc
import HTTP2
import NIOCore
import NIOEmbedded

/// A client and the node's end of its connection.
///
/// The bytes of the client wait until ``deliver()``. Only the work there is counted.
final class Client {
    /// The bytes that the node has sent.
    final class Received: HTTPClientDelegate {
        /// The number of requests answered with 200.
        var answersCount = 0
        /// The number of events on all streams.
        var eventsCount = 0
        /// The last answer that was not 200, or the end of the connection.
        var failure: String?

        func connected(_ connection: HTTPClientConnection) {}

        func responseHead(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, status: Int) {
            if status == 200 { answersCount += 1 } else { failure = "status \(status)" }
        }

        func responseBody(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, bytes: UnsafeRawBufferPointer) {
            eventsCount += zip(bytes, bytes.dropFirst()).count { $0 == 10 && $1 == 10 }
            if failure != nil { failure! += ": " + String(decoding: bytes, as: UTF8.self) }
        }

        func streamClosed(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, error: UInt32) {}
        func closed(_ connection: HTTPClientConnection, error: (any Error)?) { failure = "connection closed" }
    }

    /// Stands for the node's socket. It copies what is written, like the kernel, and releases the buffer at once.
    final class Socket: ChannelOutboundHandler {
        typealias OutboundIn = ByteBuffer

        fileprivate var written = ByteBuffer()

        func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
            written.writeImmutableBuffer(unwrapOutboundIn(data))
            promise?.succeed()
        }

        func flush(context: ChannelHandlerContext) {}
    }

    let received = Received()
    private let socket = Socket()
    private let loop: ManualLoop
    private let node: EmbeddedChannel
    private let channel: EmbeddedChannel
    private let connection: HTTPClientConnection
    private var outgoing = ByteBuffer()

    /// - Parameter room: the bytes that the node may write before they are collected. Further collecting would count as the node's work.
    init(_ world: World, room: Int = 16_384) throws {
        socket.written.reserveCapacity(room)
        loop = world.loop
        node = EmbeddedChannel(loop: loop.embedded)
        channel = EmbeddedChannel(loop: loop.embedded)
        connection = HTTPClientConnection(loop: world.clients, authority: "node", isTLS: false, delegate: received)
        try channel.pipeline.syncOperations.addHandler(connection)
        try node.connect(to: SocketAddress(unixDomainSocketPath: "/node")).wait()
        try channel.connect(to: SocketAddress(unixDomainSocketPath: "/client")).wait()
        try node.pipeline.syncOperations.addHandler(socket)
        try world.node.accept(node)
    }

    /// Sends an operation of the HTTP API.
    func call(_ operation: String, _ body: String, token: String) {
        let stream = connection.send(
            .post, path: "/v1/\(operation)", headers: [("authorization", "Bearer \(token)")], body: ByteBuffer(string: body), token: 0)
        precondition(stream != nil, "the node takes no more requests")
    }

    /// Requests an event stream.
    func openStream(token: String) {
        let stream = connection.send(.get, path: "/v1/events", headers: [("authorization", "Bearer \(token)")], token: 0)
        precondition(stream != nil, "the node takes no more streams")
    }

    /// Encodes the requests, so that ``deliver()`` has only the node's work to do.
    func encode() throws {
        loop.runNow()
        while var part = try channel.readOutbound(as: ByteBuffer.self) { outgoing.writeBuffer(&part) }
    }

    /// Delivers the client's bytes to the node, and runs the work that follows.
    func deliver() {
        var bytes = ByteBuffer()
        swap(&bytes, &outgoing)
        do { try node.writeInbound(bytes) } catch { received.failure = "\(error)" }
        loop.runNow()
    }

    /// Receives the node's bytes. Throws if a request was refused.
    func collect() throws {
        if socket.written.readableBytes > 0 {
            try channel.writeInbound(ByteBuffer(bytes: socket.written.readableBytesView))
            socket.written.clear()
        }
        try encode()
        if let failure = received.failure { throw GateError(description: failure) }
    }

    /// Sends and receives until `isDone`, and waits for tokens that are checked on other threads. Nothing is counted.
    func exchange(until isDone: (Received) -> Bool) throws {
        for _ in 0..<10_000 {
            try encode()
            deliver()
            loop.run()
            while loop.takeForeign() { loop.runNow() }
            try collect()
            if isDone(received) { return }
            usleep(500)
        }
        throw GateError(description: "the node has not answered")
    }
}

/// The reason why nothing can be counted.
struct GateError: Error, CustomStringConvertible {
    let description: String
}
