import NIOCore

/// The first handler of a connection on a port whose clients come through proxies that speak the PROXY protocol.
///
/// It takes the header off, counts the connection for the client's address, and keeps the address while the connection is open.
/// A connection without the header is closed: otherwise a client that reaches the port directly could name any address, or none.
final class ProxyHeaderReader: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private enum Phase {
        /// Bytes of the header.
        case header(ByteBuffer)
        /// The connection is left unread until its turn, because its address is paced.
        case waiting(ByteBuffer)
        case open
        case closed
    }

    private let server: HTTPLoop
    private let limits: ConnectionLimits?
    private var phase = Phase.header(ByteBuffer())
    /// The address of the client; before the header, and without a client, that of the proxy.
    private(set) var client: SocketAddress?

    init(server: HTTPLoop, limits: ConnectionLimits?) {
        self.server = server
        self.limits = limits
    }

    func handlerAdded(context: ChannelHandlerContext) { client = context.remoteAddress }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch phase {
        case .open: context.fireChannelRead(data)
        case .closed: break
        case .waiting(var bytes):
            bytes.writeImmutableBuffer(unwrapInboundIn(data))
            phase = .waiting(bytes)
        case .header(var bytes):
            bytes.writeImmutableBuffer(unwrapInboundIn(data))
            phase = .header(bytes)
            do throws(ProxyHeader.Malformed) {
                guard let header = try ProxyHeader.read(bytes.readableBytesView) else { return }
                bytes.moveReaderIndex(forwardBy: header.bytesCount)
                headerRead(header.client, bytes, context)
            } catch {
                server.delegate?.violated(.noProxyHeader)
                close(context)
            }
        }
    }

    /// Admits the client, now or in its turn.
    private func headerRead(_ client: SocketAddress?, _ bytes: ByteBuffer, _ context: ChannelHandlerContext) {
        guard let client else { return open(bytes, context) }
        self.client = client
        let address = ConnectionLimits.Address(client)
        if let limits {
            guard limits.enterAddress(address) else { return close(context) }
            context.channel.closeFuture.whenComplete { _ in limits.leaveAddress(address) }
        }
        phase = .waiting(bytes)
        let waits = server.waitForTurn(of: address, on: context.channel) { [weak self, weak context] in
            if let context { self?.turnBegan(context) }
        }
        if !waits { turnBegan(context) }
    }

    private func turnBegan(_ context: ChannelHandlerContext) {
        if case .waiting(let bytes) = phase { open(bytes, context) }
    }

    private func open(_ bytes: ByteBuffer, _ context: ChannelHandlerContext) {
        phase = .open
        guard bytes.readableBytes > 0 else { return }
        context.fireChannelRead(wrapInboundOut(bytes))
        context.fireChannelReadComplete()
    }

    private func close(_ context: ChannelHandlerContext) {
        phase = .closed
        context.close(promise: nil)
    }
}

extension Channel {
    /// The client that the header of the PROXY protocol has named. The search takes less than a microsecond.
    var clientBehindProxy: SocketAddress? { try? pipeline.syncOperations.handler(type: ProxyHeaderReader.self).client }
}
