import Foundation
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import Testing

@testable import HTTP2

@Suite struct ConnectionLimitsTests {
    private func address(_ text: String) throws -> ConnectionLimits.Address { .init(try SocketAddress(ipAddress: text, port: 7)) }

    @Test("An address is an IPv4 address, or the first 64 bits of an IPv6 address")
    func addresses() throws {
        #expect(try address("192.0.2.1") == address("192.0.2.1"))
        #expect(try address("192.0.2.1") != address("192.0.2.2"))
        #expect(try address("2001:db8:1:2::1") == address("2001:db8:1:2:ffff::7"))
        #expect(try address("2001:db8:1:2::1") != address("2001:db8:1:3::1"))
        #expect(try address("::ffff:192.0.2.1") == address("192.0.2.1"))
        #expect(try address("::ffff:192.0.2.1") != address("::ffff:192.0.2.2"))
        #expect(try address("::1") != address("0.0.0.0"))
    }

    @Test("Connections are limited for each address and in total")
    func limits() throws {
        let refused = NIOLockedValueBox<[ConnectionLimits.Refusal]>([])
        let limits = ConnectionLimits(connectionsMax: 3, perAddressMax: 2) { refusal in refused.withLockedValue { $0.append(refusal) } }
        let (one, other) = (try address("192.0.2.1"), try address("192.0.2.2"))
        #expect([limits.enter(one), limits.enter(one), limits.enter(one)] == [true, true, false])
        #expect([limits.enter(other), limits.enter(other)] == [true, false])
        limits.leave(one)
        #expect([limits.enter(other), limits.enter(one)] == [true, false])
        for address in [one, other, other] { limits.leave(address) }
        #expect([limits.enter(one), limits.enter(one)] == [true, true])
        #expect(refused.withLockedValue { $0 } == [.connectionsPerAddressMax, .connectionsMax, .connectionsMax])
        #expect(limits.refusedCounts == [.connectionsPerAddressMax: 1, .connectionsMax: 2])
    }

    @Test("Without a limit one address may hold all connections")
    func noLimitPerAddress() throws {
        let limits = ConnectionLimits(connectionsMax: 100, perAddressMax: 0) { _ in }
        let one = try address("192.0.2.1")
        #expect((0..<101).map { _ in limits.enter(one) } == Array(repeating: true, count: 100) + [false])
    }

    /// The listener goes on, and a closed connection makes room.
    @Test("A connection above a limit is reset, and the next one is accepted after one has closed", arguments: [(2, 0), (100, 2)])
    func refusedConnectionIsReset(all: Int, perAddress: Int)
        async throws
    {
        let limits = ConnectionLimits(connectionsMax: all, perAddressMax: perAddress) { _ in }
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        var silence = HTTPLimits()
        // A silent connection must not make room by itself, however slow the machine is.
        silence.headerTimeout = .hours(1)
        let served = UncheckedLoop(loop: HTTPLoop(eventLoop: loop, limits: silence, delegate: nil))
        let server = try await HTTPServer.bind(host: "127.0.0.1", port: 0, loops: [served.loop], limits: limits)
        var open: [RawClient] = []
        for _ in 0..<2 { open.append(try RawClient(port: server.port)) }
        try await until("two are taken") { limits.connectionsCount == 2 }
        for _ in 0..<200 {
            let refused = try RawClient(port: server.port)
            #expect(try await refused.isReset())
        }
        open.removeLast().close()
        try await until("one is closed") { limits.connectionsCount == 1 }
        open.append(try RawClient(port: server.port))
        try await until("two are taken again") { limits.connectionsCount == 2 }
        #expect(limits.refusedCounts.values.reduce(0, +) == 200)
        for client in open { client.close() }
        await server.stopListening()
    }

    private struct UncheckedLoop: @unchecked Sendable { let loop: HTTPLoop }

    private func until(_ claim: String, _ condition: () -> Bool) async throws {
        let deadline = ContinuousClock.now + .seconds(30)
        while !condition() {
            try #require(ContinuousClock.now < deadline, "never: \(claim)")
            try await MultiThreadedEventLoopGroup.singleton.any().scheduleTask(in: .milliseconds(5)) {}.futureResult.get()
        }
    }
}

/// A silent connection.
private final class RawClient {
    private let descriptor: Int32
    /// Whether the reset arrived before `connect` returned. It is reported once, and later reads find an end.
    private let wasResetAtOnce: Bool

    init(port: Int) throws {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        self.descriptor = descriptor
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        let status = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
        }
        wasResetAtOnce = status != 0
        try #require(status == 0 || errno == ECONNRESET)
    }

    /// Waits until the server has closed the connection. Returns whether that was a reset.
    func isReset() async throws -> Bool {
        let isReadable = try await NIOThreadPool.singleton.runIfActive { [descriptor] in
            var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            var readyCount: Int32
            repeat { readyCount = poll(&entry, 1, 30_000) } while readyCount < 0 && errno == EINTR
            return readyCount == 1
        }
        try #require(isReadable, "the connection is open after thirty seconds")
        var byte: UInt8 = 0
        let count = recv(descriptor, &byte, 1, Int32(MSG_DONTWAIT))
        try #require(count <= 0, "the server sent something")
        return count < 0 || wasResetAtOnce
    }

    func close() { _ = Foundation.close(descriptor) }
}
