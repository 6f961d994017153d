import NIOCore
import NIOPosix
import NIOSSL

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// A port on which one or several event loops serve requests.
///
/// Each loop has its own listener and its own connections.
public final class HTTPServer: Sendable {
    private let listeners: [any Channel]
    /// The port. When 0 was requested, the port that the kernel chose.
    public let port: Int

    private init(listeners: [any Channel]) {
        self.listeners = listeners
        port = listeners.first?.localAddress?.port ?? 0
    }

    /// Listens on `host`:`port` with each of `loops`, with TLS when `tls` is given. Port 0 takes a free one.
    ///
    /// Several loops share the port by `SO_REUSEPORT`, and the kernel spreads the connections within 3 %.
    /// The first listener is bound without that option, and gets it when it listens. So another process of the same user cannot take the
    /// same port: of two that try at once, only one can listen.
    /// Throws when the port cannot be bound.
    ///
    /// - Parameters:
    ///   - limits: the limits on connections; nil for as many as there are descriptors.
    ///   - addresses: the source of the clients' addresses.
    public static func bind(
        host: String, port: Int, loops: [HTTPLoop], tls: NIOSSLContext? = nil, retransmission: Retransmission = .usual,
        limits: ConnectionLimits? = nil, addresses: ClientAddresses = .ofConnections
    ) async throws -> HTTPServer {
        var listeners: [any Channel] = []
        var port = port
        do {
            for loop in loops {
                let listener = try await listen(
                    host: host, port: port, loop: UncheckedLoop(loop: loop), isShared: !listeners.isEmpty, tls: tls,
                    retransmission: retransmission, limits: limits, addresses: addresses)
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

    /// Carries a loop through other threads, which do not use it.
    private struct UncheckedLoop: @unchecked Sendable { let loop: HTTPLoop }

    private static let reusePort = ChannelOptions.Types.SocketOption(
        level: .socket, name: NIOBSDSocket.Option(rawValue: CInt(SO_REUSEPORT)))
    static let messagesPerRead: UInt = 4
    /// The most connections that are accepted in one turn of an event loop. Open connections have their turn in between.
    private static let acceptsPerRead: UInt = 16
    /// The most unsent bytes that the kernel takes for a connection.
    private static let unsentInKernelMax = 128 << 10
    static var receiveAllocator: AdaptiveRecvByteBufferAllocator {
        AdaptiveRecvByteBufferAllocator(minimum: 512, initial: 512, maximum: 65_536)
    }

    private static func listen(
        host: String, port: Int, loop: UncheckedLoop, isShared: Bool, tls: NIOSSLContext?, retransmission: Retransmission,
        limits: ConnectionLimits?, addresses: ClientAddresses
    ) async throws -> any Channel {
        let eventLoop = loop.loop.eventLoop
        if addresses == .ofProxyHeaders { try await eventLoop.submit { loop.loop.sharedLimits.clientAddresses = addresses }.get() }
        var bootstrap = ServerBootstrap(group: eventLoop, childGroup: eventLoop)
            .serverChannelOption(.backlog, value: 4_096)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelOption(.maxMessagesPerRead, value: acceptsPerRead)
            .serverChannelInitializer { listener in
                listener.eventLoop.makeCompletedFuture {
                    guard let limits else { return }
                    try listener.pipeline.syncOperations.addHandler(ConnectionGate(limits, addresses: addresses))
                }
            }
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelOption(.recvAllocator, value: receiveAllocator)
            // A new client has one read a turn: see `readMuch()`.
            .childChannelOption(.maxMessagesPerRead, value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if addresses == .ofProxyHeaders {
                        try channel.pipeline.syncOperations.addHandler(ProxyHeaderReader(server: loop.loop, limits: limits))
                    }
                    if let tls { try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: tls)) }
                    try loop.loop.serve(channel)
                }
            }
        #if os(Linux)
            // Without this limit the kernel would hold 4 MB for a client that reads nothing.
            bootstrap = bootstrap.childChannelOption(
                ChannelOptions.Types.SocketOption(level: .tcp, name: .init(rawValue: TCP_NOTSENT_LOWAT)), value: unsentInKernelMax)
        #endif
        for option in retransmission.options { bootstrap = bootstrap.childChannelOption(option.name, value: option.value) }
        if isShared { bootstrap = bootstrap.serverChannelOption(reusePort, value: 1) }
        return try await bootstrap.bind(host: host, port: port).get()
    }

    /// Accepts no more connections. Open connections go on.
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
