import NIOCore
import Testing

@testable import HTTP2

/// The sweep that ends late connections, in turns that leave time for the others.
@Suite(.timeLimit(.minutes(1))) struct SweepTests {
    private static let connectionsCount = 20
    private static let visitsMax = 8

    /// A server with silent connections, which its own sweeps do not end.
    private static func start() async throws -> RawServer {
        var limits = HTTPLimits()
        limits.headerTimeout = .hours(1)
        let server = try await RawServer.start(limits)
        for _ in 0..<connectionsCount { _ = try await RawPeer.connect(to: server.port, sending: Array("PRI".utf8)) }
        try await server.until { $0.http.undecided.elements.count == connectionsCount }
        return server
    }

    /// Carries out a sweep for which all connections are late. Returns how many are left after each turn.
    private static func sweep(
        _ server: RawServer, until end: NIODeadline = .distantFuture, afterTurn: @escaping @Sendable (HTTPLoop) -> Void = { _ in }
    ) async throws -> [Int] {
        try await server.onLoop { server in
            let late = NIODeadline.now() + .hours(2)
            server.http.beginSweep(at: late)
            var leftCounts: [Int] = []
            while server.http.sweepSome(at: late, visitsMax: visitsMax, until: end) {
                leftCounts.append(server.http.undecided.elements.count)
                afterTurn(server.http)
            }
            return leftCounts + [server.http.undecided.elements.count]
        }
    }

    @Test("Late connections end in turns of bounded size, and a sweep leaves none out")
    func turns() async throws {
        let server = try await Self.start()
        #expect(try await Self.sweep(server) == [12, 4, 0])
        #expect(server.seen.violations == Array(repeating: .headerTimeout, count: Self.connectionsCount))
        try await server.stop()
    }

    @Test("A turn whose time is over ends after a few connections")
    func time() async throws {
        let server = try await Self.start()
        #expect(try await Self.sweep(server, until: .distantPast) == [13, 6, 0])
        try await server.stop()
    }

    @Test("A connection that closes between two turns moves no other one out of the sweep", arguments: [0, 3, 11])
    func closedMeanwhile(index: Int) async throws {
        let server = try await Self.start()
        let leftCounts = try await Self.sweep(server) { loop in
            guard loop.undecided.elements.count == 12 else { return }
            let closed = loop.undecided.elements[index]
            loop.remove(closed)
            closed.context?.close(promise: nil)
        }
        #expect(leftCounts == [12, 3, 0])
        #expect(server.seen.violations.count == Self.connectionsCount - 1)
        try await server.stop()
    }
}
