import NIOCore

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Stands before what accepts connections: takes those that the limits allow, and pauses where taking more would cost too much.
final class ConnectionGate: ChannelInboundHandler {
    typealias InboundIn = any Channel
    typealias InboundOut = any Channel

    private let limits: ConnectionLimits
    /// Connections refused since then.
    private var refusals = (count: 0, since: NIODeadline.distantPast)
    private var isPaused = false

    init(_ limits: ConnectionLimits) { self.limits = limits }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let connection = unwrapInboundIn(data)
        let address = ConnectionLimits.Address(connection.remoteAddress)
        guard limits.enter(address) else {
            let now = NIODeadline.now()
            if now - refusals.since > ConnectionLimits.pauseAfterRefusals { refusals = (0, now) }
            refusals.count += 1
            // A reset: thousands that wait for the end of a proper close would cost the kernel's memory.
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

    /// NIO reports an error of `accept` that may pass, tries again at once, and would do nothing else for as long as it lasts.
    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if let error = error as? IOError, [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(error.errnoCode) {
            limits.refuse(.noDescriptor)
            pause(context.channel, for: ConnectionLimits.pauseWithoutDescriptors)
        }
        context.fireErrorCaught(error)
    }

    /// Leaves what waits in the kernel's queue.
    private func pause(_ listener: any Channel, for duration: TimeAmount) {
        guard !isPaused, let options = listener.syncOptions else { return }
        isPaused = true
        // A listener that is closed accepts nothing any more.
        do { try options.setOption(.autoRead, value: false) } catch { return }
        listener.eventLoop.assumeIsolated().scheduleTask(in: duration) {
            self.isPaused = false
            do { try options.setOption(.autoRead, value: true) } catch { return }
        }
    }
}
