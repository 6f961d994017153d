import NIOCore

/// Detects HTTP/2 by the connection preface (RFC 9113 §3.4), and makes the connection for it or for HTTP/1.1.
final class ProtocolDetector: ChannelInboundHandler, RemovableChannelHandler, UnorderedListElement {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
    private let server: HTTPLoop
    private var received = ByteBuffer()
    private let openedAt = NIODeadline.now()
    private(set) var context: ChannelHandlerContext?
    /// The index in the loop's list of detectors.
    var listIndex = -1

    init(server: HTTPLoop) { self.server = server }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        server.add(self)
        // Behind a proxy the address is known later: see `ProxyHeaderReader`.
        guard !server.pacedAddresses.isEmpty, server.sharedLimits.clientAddresses == .ofConnections else { return }
        _ = server.waitForTurn(of: ConnectionLimits.Address(context.channel.remoteAddress), on: context.channel) {}
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        server.remove(self)
    }

    /// Closes a connection whose first bytes do not arrive in time.
    func sweep(at now: NIODeadline) {
        guard now - openedAt > server.limits.headerTimeout, let context else { return }
        server.delegate?.violated(.headerTimeout)
        server.remove(self)
        context.close(promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = unwrapInboundIn(data)
        received.writeBuffer(&bytes)
        let view = received.readableBytesView.prefix(Self.preface.count)
        guard view.elementsEqual(Self.preface.prefix(view.count)) else { return decide(context, isHTTP2: false) }
        if view.count == Self.preface.count { decide(context, isHTTP2: true) }
    }

    /// Makes the connection, gives it the bytes, and leaves the pipeline. NIO removes a handler at once, so nothing more arrives here.
    private func decide(_ context: ChannelHandlerContext, isHTTP2: Bool) {
        do {
            let pipeline = context.pipeline.syncOperations
            if isHTTP2 {
                try pipeline.addHandler(HTTP2ServerConnection(channel: context.channel, server: server))
            } else {
                try pipeline.addHandler(HTTP1ServerConnection(channel: context.channel, server: server))
            }
            let bytes = received
            received = ByteBuffer()
            context.fireChannelRead(wrapInboundOut(bytes))
            context.fireChannelReadComplete()
            pipeline.removeHandler(self, promise: nil)
        } catch {
            context.close(promise: nil)
        }
    }
}
