import HTTP2
import Logging
import NIOCore
import PresenceCore
import PresenceWire

/// A node of one loop without sockets, disk or its own time, with which `cost-gate` counts the cost of its real parts.
///
/// The caller gives it channels and another node's batches, and runs the loop. Use it on that loop only.
package final class InProcessNode {
    private let shell: Shell
    private let gateway: GatewayLoop

    /// - Parameters:
    ///   - store: completes every write before `persist` returns.
    ///   - streamsMax: streams on one connection.
    package init(eventLoop: any EventLoop, authenticator: Authenticator, store: any Store, streamsMax: Int) throws {
        var limits = HTTPLimits()
        limits.streamsMax = streamsMax
        // Its loop runs under valgrind, fifty times slower.
        limits.turnTime = .hours(1)
        var settings = CoreSettings()
        // A late tick does not mean that the process stood still.
        settings.membership.suspicionMin = .seconds(3_600)
        settings.membership.tickGapMax = .seconds(3_600)
        var logger = Logger(label: "rollcall")
        logger.logLevel = .critical
        shell = Shell(
            peer: Peer(id: NodeID("a"), generation: 1, address: "a"), cluster: "rollcall", joins: false, secret: ClusterSecret(nil),
            tls: nil,
            gatewaysCount: 1, settings: settings, eventLoop: eventLoop, store: store, logger: logger)
        gateway = GatewayLoop(
            index: 0, eventLoop: eventLoop, limits: limits, origins: AllowedOrigins(), settings: GatewaySettings(),
            refusedOrigins: RefusedOrigins(), authenticator: authenticator,
            logins: LoginRates(perUserMax: NodeConfiguration().logins.perUserMax, perAddressMax: NodeConfiguration().logins.perAddressMax),
            shell: shell)
        try shell.start([gateway])
    }

    /// Serves a client on `channel`, as if its socket had just been accepted.
    package func accept(_ channel: any Channel) throws { try gateway.http.serve(channel) }

    /// Adds another node, whose address leads nowhere.
    package func meet(_ id: NodeID) {
        shell.update { node, now in
            let card = Peer(id: id, generation: 1, address: "nowhere")
            node.greeted(by: Hello(cluster: "rollcall", sender: card, members: [card], wall: now.wall, number: 1), at: now)
        }
    }

    /// Receives a batch of another node.
    package func receive(batch: [UInt8], from id: NodeID) throws {
        _ = try batch.withUnsafeBytes { bytes in
            try shell.update { node, now in try node.receive(batch: bytes, from: id, on: ConnectionID(generation: 1, number: 1), at: now) }
        }
    }
}
