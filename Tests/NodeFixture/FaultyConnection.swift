import Glibc
import NIOCore
import NIOPosix

/// Two sockets and what is on its way between them; touched on the client channel's loop only.
final class FaultyConnection: @unchecked Sendable {
    /// One of the two sockets.
    final class Side: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        private let connection: FaultyConnection
        private let isClient: Bool

        init(_ connection: FaultyConnection, isClient: Bool) {
            self.connection = connection
            self.isClient = isClient
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            connection.received(unwrapInboundIn(data), fromClient: isClient)
        }

        func channelInactive(context: ChannelHandlerContext) { connection.closed(byClient: isClient) }
        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    }

    /// The bytes on their way in one direction.
    private struct Direction {
        /// The time at which the last piece arrives, so that none overtakes another.
        var arrival = NIODeadline.uptimeNanoseconds(0)
        var waitingBytes = 0
        var deliveredBytes = 0
        var isPaused = false
    }

    /// Most bytes on their way in one direction; then the sender is not read.
    private static let waitingBytesMax = 65_536
    /// The time after which a node learns that the client of a silent connection is gone.
    private static let silenceAfterClose = TimeAmount.seconds(5)

    private(set) var fate: ConnectionFate
    private let network: FaultyNetwork
    private let client: any Channel
    private var node: (any Channel)?
    private var random: SeededGenerator
    private var toNode = Direction()
    private var toClient = Direction()
    private var stallEnd: NIODeadline?
    private var isSilent = false
    private var isOver = false

    init(_ network: FaultyNetwork, _ client: any Channel, _ fate: ConnectionFate, seed: UInt64) {
        self.network = network
        self.client = client
        self.fate = fate
        random = SeededGenerator(seed: seed)
    }

    // MARK: Its life

    func connected(_ node: any Channel) {
        if isOver { return node.close(promise: nil) }
        self.node = node
        if fate.bytesPerSecond != nil { network.count(.slow) }
        if let stall = fate.stall {
            after(stall.after) { connection in
                connection.stallEnd = .now() + stall.lasting
                connection.network.count(.stalled)
            }
        }
        switch fate.end {
        case .reset(let delay):
            after(delay) { connection in
                connection.network.count(.reset)
                connection.reset()
            }
        case .silent(let delay):
            after(delay) { connection in
                connection.network.count(.silent)
                connection.isSilent = true
            }
        case .never, .refused, .truncated: break
        }
        client.setOption(.autoRead, value: true).whenFailure { _ in }
        node.setOption(.autoRead, value: true).whenFailure { _ in }
    }

    func heal() {
        client.eventLoop.execute { [self] in
            fate = ConnectionFate()
            stallEnd = nil
            if isSilent { cut(node) }
        }
    }

    func drop() { client.eventLoop.execute { [self] in reset() } }

    /// Resets both sides.
    func reset() {
        isOver = true
        cut(client)
        cut(node)
        network.forget(self)
    }

    /// The sender sees a reset, not an end.
    private func cut(_ channel: (any Channel)?) {
        guard let channel, channel.isActive else { return }
        (channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0)).whenComplete { _ in channel.close(promise: nil)
        }
    }

    /// A fault that comes after a while, unless the network has healed.
    private func after(_ delay: TimeAmount, _ fault: @escaping (FaultyConnection) -> Void) {
        client.eventLoop.assumeIsolated().scheduleTask(in: delay) { [self] in
            if !isOver, !network.state.withLock({ $0.isHealed }) { fault(self) }
        }
    }

    // MARK: Passing bytes

    func received(_ bytes: ByteBuffer, fromClient: Bool) {
        if isSilent || isOver { return }
        var direction = fromClient ? toNode : toClient
        let now = NIODeadline.now()
        var arrival = now + fate.latency + .nanoseconds(random.next(in: 0...max(fate.jitter.nanoseconds, 0)))
        if let stallEnd { arrival = max(arrival, stallEnd) }
        arrival = max(arrival, direction.arrival)
        if let rate = fate.bytesPerSecond { arrival = arrival + .nanoseconds(Int64(bytes.readableBytes) * 1_000_000_000 / Int64(rate)) }
        direction.arrival = arrival
        direction.waitingBytes += bytes.readableBytes
        if fromClient { toNode = direction } else { toClient = direction }
        pauseOrResume(fromClient: fromClient)
        client.eventLoop.assumeIsolated().scheduleTask(deadline: arrival) { [self] in deliver(bytes, fromClient: fromClient) }
    }

    private func deliver(_ bytes: ByteBuffer, fromClient: Bool) {
        var bytes = bytes
        if fromClient { toNode.waitingBytes -= bytes.readableBytes } else { toClient.waitingBytes -= bytes.readableBytes }
        if isSilent || isOver { return }
        // Pieces from before a stall wait for its end.
        if let stallEnd, stallEnd > .now() {
            if fromClient { toNode.waitingBytes += bytes.readableBytes } else { toClient.waitingBytes += bytes.readableBytes }
            client.eventLoop.assumeIsolated().scheduleTask(deadline: stallEnd) { [self, bytes] in deliver(bytes, fromClient: fromClient) }
            return
        }
        pauseOrResume(fromClient: fromClient)
        guard !fromClient else { return write(bytes, to: node) }
        if case .truncated(let bytesMax) = fate.end, toClient.deliveredBytes + bytes.readableBytes >= bytesMax {
            network.count(.truncated)
            isOver = true
            if let part = bytes.readSlice(length: bytesMax - toClient.deliveredBytes) { write(part, to: client) }
            client.close(promise: nil)
            cut(node)
            return network.forget(self)
        }
        toClient.deliveredBytes += bytes.readableBytes
        write(bytes, to: client)
    }

    private func write(_ bytes: ByteBuffer, to channel: (any Channel)?) { channel?.writeAndFlush(bytes, promise: nil) }

    private func pauseOrResume(fromClient: Bool) {
        let direction = fromClient ? toNode : toClient
        let shouldPause = direction.waitingBytes > Self.waitingBytesMax
        guard shouldPause != direction.isPaused else { return }
        if fromClient { toNode.isPaused = shouldPause } else { toClient.isPaused = shouldPause }
        (fromClient ? client : node)?.setOption(.autoRead, value: !shouldPause).whenFailure { _ in }
    }

    /// The end travels as what was sent before it does, and after it.
    func closed(byClient: Bool) {
        if isOver { return }
        if isSilent {
            guard byClient else { return }
            isOver = true
            client.eventLoop.assumeIsolated().scheduleTask(in: Self.silenceAfterClose) { [self] in reset() }
            return
        }
        let arrival = max((byClient ? toNode : toClient).arrival, .now() + fate.latency, stallEnd ?? .now())
        client.eventLoop.assumeIsolated().scheduleTask(deadline: arrival + .milliseconds(1)) { [self] in
            isOver = true
            (byClient ? node : client)?.close(promise: nil)
            network.forget(self)
        }
    }
}
