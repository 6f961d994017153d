import NIOCore
import NIOPosix
import Synchronization

/// The faults of one connection.
package struct ConnectionFate: Sendable {
    /// The way in which the connection ends early.
    package enum End: Sendable, Equatable {
        case never
        /// The client's connection is reset as soon as it is made.
        case refused
        /// Both sides are reset after so long.
        case reset(after: TimeAmount)
        /// The client sees the end after so many bytes of answers, in the middle of any event.
        case truncated(afterBytes: Int)
        /// From then on nothing passes in either direction, and neither side notices: a half-open connection.
        case silent(after: TimeAmount)
    }

    /// The delay of each piece, in each direction.
    package var latency = TimeAmount.zero
    /// The additional random delay. The order is kept.
    package var jitter = TimeAmount.zero
    /// In each direction; nil for as much as there is.
    package var bytesPerSecond: Int?
    /// Nothing passes for a while; then all that waits does.
    package var stall: (after: TimeAmount, lasting: TimeAmount)?
    package var end = End.never

    package init(end: End = .never) { self.end = end }

    /// Draws a fate. Half a minute is the longest that any connection lasts: otherwise each client would have found a sound one soon.
    init(using random: inout SeededGenerator) {
        latency = .milliseconds(random.next(in: 0...40))
        jitter = .milliseconds(random.next(in: 0...40))
        if random.next(in: 0...9) < 3 { bytesPerSecond = Int(random.next(in: 4_096...65_536)) }
        if random.next(in: 0...9) < 3 {
            stall = (.milliseconds(random.next(in: 100...4_000)), .milliseconds(random.next(in: 300...3_000)))
        }
        switch random.next(in: 0...99) {
        case 0..<10: end = .refused
        case 10..<30: end = .reset(after: .milliseconds(random.next(in: 50...6_000)))
        case 30..<45: end = .truncated(afterBytes: Int(random.next(in: 20...6_000)))
        case 45..<60: end = .silent(after: .milliseconds(random.next(in: 0...5_000)))
        default: end = .reset(after: .milliseconds(random.next(in: 5_000...30_000)))
        }
    }
}

/// A network between clients and one node, on a port of loopback, that does to each connection what its fate says.
package final class FaultyNetwork: Sendable {
    /// Counts of the faults, for tests that must know that they happened.
    package enum Fault: String, Sendable, CaseIterable { case refused, reset, truncated, silent, stalled, slow }

    struct State {
        var isHealed = false
        var connectionsCount = 0
        var counts: [Fault: Int] = [:]
        var open: [ObjectIdentifier: FaultyConnection] = [:]
    }

    let state = Mutex(State())
    private let fate: @Sendable (Int) -> ConnectionFate
    private let target: Int
    private let listener = Mutex<(any Channel)?>(nil)

    /// - Parameters:
    ///   - target: the node's port.
    ///   - fate: what is done to a connection, by its number, 0 for the first.
    package init(to target: Int, fate: @escaping @Sendable (Int) -> ConnectionFate) async throws {
        self.target = target
        self.fate = fate
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.autoRead, value: false)
            .childChannelInitializer { [weak self] client in
                guard let self else { return client.eventLoop.makeSucceededVoidFuture() }
                return client.eventLoop.makeCompletedFuture { try self.accept(client) }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        listener.withLock { $0 = channel }
    }

    /// Fates drawn from a seed: that of a connection depends on the seed and its number only.
    package convenience init(to target: Int, seed: UInt64) async throws {
        try await self.init(to: target) { number in
            var random = SeededGenerator(seed: seed &* 1_000_003 &+ UInt64(number))
            return ConnectionFate(using: &random)
        }
    }

    /// The address for clients.
    package var port: Int { listener.withLock { $0?.localAddress?.port } ?? 0 }
    package var counts: [Fault: Int] { state.withLock { $0.counts } }
    package var connectionsCount: Int { state.withLock { $0.connectionsCount } }

    /// Ends the faults, and lets waiting pieces pass. Silent connections stay silent for their clients, but their nodes learn of it.
    package func heal() {
        let open = state.withLock { state in
            state.isHealed = true
            return Array(state.open.values)
        }
        for connection in open { connection.heal() }
    }

    /// Resets the open connections. New ones have the fates that they are given.
    package func cut() { for connection in state.withLock({ Array($0.open.values) }) { connection.drop() } }

    package func close() async throws {
        let channel = listener.withLock { listener in
            defer { listener = nil }
            return listener
        }
        try await channel?.close()
        for connection in state.withLock({ Array($0.open.values) }) { connection.drop() }
    }

    private func accept(_ client: any Channel) throws {
        let (number, isHealed) = state.withLock { state in
            defer { state.connectionsCount += 1 }
            return (state.connectionsCount, state.isHealed)
        }
        let connection = FaultyConnection(self, client, isHealed ? ConnectionFate() : fate(number), seed: UInt64(number))
        state.withLock { $0.open[ObjectIdentifier(connection)] = connection }
        try client.pipeline.syncOperations.addHandler(FaultyConnection.Side(connection, isClient: true))
        if case .refused = connection.fate.end {
            count(.refused)
            client.eventLoop.execute { connection.reset() }
            return
        }
        let node = ClientBootstrap(group: client.eventLoop)
            .channelOption(.autoRead, value: false)
            .channelInitializer { node in
                node.eventLoop.makeCompletedFuture {
                    try node.pipeline.syncOperations.addHandler(FaultyConnection.Side(connection, isClient: false))
                }
            }
            .connect(host: "127.0.0.1", port: target)
        node.whenSuccess { connection.connected($0) }
        node.whenFailure { _ in connection.reset() }
    }

    func count(_ fault: Fault) { state.withLock { $0.counts[fault, default: 0] += 1 } }
    func forget(_ connection: FaultyConnection) { _ = state.withLock { $0.open.removeValue(forKey: ObjectIdentifier(connection)) } }
}
