import NIOCore
import NIOPosix
import Testing

@testable import HTTP2

/// The life of a connection towards its end, over real sockets.
@Suite(.timeLimit(.minutes(1))) struct ClosedConnectionTests {
    /// The bytes that a connection may have sent when its peer closes it.
    private static let beginnings: [[UInt8]] = [
        [], Array("PRI".utf8), Array("GET / HT".utf8), RawFrame.hello,
        RawFrame.hello + RawFrame(.headers, stream: 1, payload: RawFrame.get).bytes,
    ]

    @Test("Nothing keeps a connection that its peer has closed", arguments: beginnings)
    func nothingKeepsAClosedConnection(beginning: [UInt8]) async throws {
        var limits = HTTPLimits()
        limits.headerTimeout = .hours(1)
        let server = try await RawServer.start(limits)
        let accepted = Accepted()
        let listener = try await ServerBootstrap(group: server.http.eventLoop)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    accepted.channel = channel
                    try channel.pipeline.syncOperations.addHandler(accepted.counter)
                    try server.http.serve(channel)
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let peer = try await RawPeer.connect(to: listener.localAddress?.port ?? 0, sending: beginning)
        try await server.until { _ in accepted.channel != nil && accepted.counter.bytesCount == beginning.count }
        try await peer.close()
        try await server.until { _ in accepted.channel == nil }
        try await listener.close()
        try await server.stop()
    }

    /// A channel that was accepted, as long as anything else keeps it; touched on its loop.
    private final class Accepted: @unchecked Sendable {
        weak var channel: (any Channel)?
        let counter = Counter()
    }

    private final class Counter: ChannelInboundHandler, @unchecked Sendable {
        typealias InboundIn = ByteBuffer
        var bytesCount = 0

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            bytesCount += unwrapInboundIn(data).readableBytes
            context.fireChannelRead(data)
        }
    }
}
