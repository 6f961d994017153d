import NIOCore

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// The handler of a listener that refuses connections beyond the limits.
///
/// It also pauses accepting when refusals would take too much of the loop's time.
final class ConnectionGate: ChannelInboundHandler {
    typealias InboundIn = any Channel
    typealias InboundOut = any Channel

    private let limits: ConnectionLimits
    private let addresses: ClientAddresses
    /// The refusals of the present interval, and its beginning.
    private var refusals = (count: 0, since: NIODeadline.distantPast)
    private var isPaused = false

    init(_ limits: ConnectionLimits, addresses: ClientAddresses) {
        self.limits = limits
        self.addresses = addresses
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let connection = unwrapInboundIn(data)
        let address = addresses == .ofConnections ? ConnectionLimits.Address(connection.remoteAddress) : nil
        guard limits.enter(address) else {
            let now = NIODeadline.now()
            if now - refusals.since > ConnectionLimits.pauseAfterRefusals { refusals = (0, now) }
            refusals.count += 1
            // Close with a reset: thousands of connections in an orderly close would cost the kernel's memory.
            _ = (connection as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0))
            return connection.close(promise: nil)
        }
        let limits = limits
        connection.closeFuture.whenComplete { _ in limits.leave(address) }
        context.fireChannelRead(data)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if refusals.count >= ConnectionLimits.refusalsAtOnceMax {
            refusals.count = 0
            pause(context.channel, for: ConnectionLimits.pauseAfterRefusals)
        }
        context.fireChannelReadComplete()
    }

    /// Pauses accepting when no descriptor or no memory is left.
    ///
    /// NIO would try again at once, and do nothing else until the error is gone.
    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if let error = error as? IOError, [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(error.errnoCode) {
            limits.refuse(.noDescriptor)
            pause(context.channel, for: ConnectionLimits.pauseWithoutDescriptors)
        }
        context.fireErrorCaught(error)
    }

    /// Leaves new connections in the kernel's queue for a while.
    private func pause(_ listener: any Channel, for duration: TimeAmount) {
        guard !isPaused, let options = listener.syncOptions else { return }
        isPaused = true
        // This fails only on a closed listener, which accepts nothing.
        do { try options.setOption(.autoRead, value: false) } catch { return }
        listener.eventLoop.assumeIsolated().scheduleTask(in: duration) {
            self.isPaused = false
            do { try options.setOption(.autoRead, value: true) } catch { return }
        }
    }
}
