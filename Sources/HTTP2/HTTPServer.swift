import NIOCore
import NIOPosix
import NIOSSL

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// A port on which one or several event loops serve requests; each loop has its own listener and its own connections.
public final class HTTPServer: Sendable {
    private let listeners: [any Channel]
    /// The port, also when 0 was asked for.
    public let port: Int

    private init(listeners: [any Channel]) {
        self.listeners = listeners
        port = listeners.first?.localAddress?.port ?? 0
    }

    /// Listens on `host`:`port` (0 for a free one) with each of `loops`; with TLS when `tls` is given.
    ///
    /// With several loops each has a listener of its own by `SO_REUSEPORT`, and the kernel spreads the connections (design §7: within 3 %).
    /// The first is bound without that option, and gets it when it listens: another process of the same user, which could share the port with
    /// the others, cannot have it once the first listens, and of two that try at once the kernel lets one listen.
    /// Throws when the port cannot be had.
    ///
    /// - Parameter limits: how many connections it takes; nil for as many as there are descriptors.
    public static func bind(
        host: String, port: Int, loops: [HTTPLoop], tls: NIOSSLContext? = nil, retransmission: Retransmission = .usual,
        limits: ConnectionLimits? = nil
    ) async throws -> HTTPServer {
        var listeners: [any Channel] = []
        var port = port
        do {
            for loop in loops {
                let listener = try await listen(
                    host: host, port: port, loop: UncheckedLoop(loop: loop), isShared: !listeners.isEmpty, tls: tls,
                    retransmission: retransmission, limits: limits)
                listeners.append(listener)
                if listeners.count == 1, loops.count > 1 { try await listener.setOption(reusePort, value: 1).get() }
                port = listener.localAddress?.port ?? port
            }
        } catch {
            for listener in listeners { listener.close(promise: nil) }
            throw error
        }
        return HTTPServer(listeners: listeners)
    }

    /// Lets a loop's state be named on other threads; it is touched on its own only.
    private struct UncheckedLoop: @unchecked Sendable { let loop: HTTPLoop }

    private static let reusePort = ChannelOptions.Types.SocketOption(
        level: .socket, name: NIOBSDSocket.Option(rawValue: CInt(SO_REUSEPORT)))
    static let messagesPerRead: UInt = 4
    /// Connections that are accepted in one turn of an event loop; those that are open have theirs in between.
    private static let acceptsPerRead: UInt = 16
    /// Bytes that the kernel takes for a connection and has not sent yet.
    private static let unsentInKernelMax = 128 << 10
    static var receiveAllocator: AdaptiveRecvByteBufferAllocator {
        AdaptiveRecvByteBufferAllocator(minimum: 512, initial: 512, maximum: 65_536)
    }

    private static func listen(
        host: String, port: Int, loop: UncheckedLoop, isShared: Bool, tls: NIOSSLContext?, retransmission: Retransmission,
        limits: ConnectionLimits?
    ) async throws -> any Channel {
        let eventLoop = loop.loop.eventLoop
        var bootstrap = ServerBootstrap(group: eventLoop, childGroup: eventLoop)
            .serverChannelOption(.backlog, value: 4_096)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelOption(.maxMessagesPerRead, value: acceptsPerRead)
            .serverChannelInitializer { listener in
                listener.eventLoop.makeCompletedFuture {
                    if let limits { try listener.pipeline.syncOperations.addHandler(ConnectionGate(limits)) }
                }
            }
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelOption(.recvAllocator, value: receiveAllocator)
            // Little is read of a stranger at a time: see `readMuch()`.
            .childChannelOption(.maxMessagesPerRead, value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let tls { try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: tls)) }
                    try loop.loop.serve(channel)
                }
            }
        #if os(Linux)
            // Otherwise a client that reads nothing has the kernel keep 4 MB for it.
            bootstrap = bootstrap.childChannelOption(
                ChannelOptions.Types.SocketOption(level: .tcp, name: .init(rawValue: TCP_NOTSENT_LOWAT)), value: unsentInKernelMax)
        #endif
        for option in retransmission.options { bootstrap = bootstrap.childChannelOption(option.name, value: option.value) }
        if isShared { bootstrap = bootstrap.serverChannelOption(reusePort, value: 1) }
        return try await bootstrap.bind(host: host, port: port).get()
    }

    /// Takes no more connections; those that are open go on.
    public func stopListening() async {
        for listener in listeners {
            do { try await listener.close() } catch { continue }  // It is closed already.
        }
    }
}

extension HTTPLoop {
    /// Serves a client on a channel of this loop.
    package func serve(_ channel: any Channel) throws {
        try channel.pipeline.syncOperations.addHandler(ProtocolDetector(server: self))
    }
}
