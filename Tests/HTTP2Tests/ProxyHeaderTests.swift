import NIOCore
import NIOPosix
import Testing

@testable import HTTP2

/// The header of the PROXY protocol, version 2, and the connections that begin with it.
@Suite(.timeLimit(.minutes(1))) struct ProxyHeaderTests {
    /// The example of a client at 192.0.2.7:40000, which a proxy connects to 198.51.100.1:7600.
    static let header: [UInt8] = [
        0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D, 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A, 0x21, 0x11, 0, 12, 192, 0, 2, 7, 198, 51, 100, 1, 0x9C,
        0x40,
        0x1D, 0xB0,
    ]
    /// A header without a client, as a proxy's health checks have it.
    static let local: [UInt8] = header[..<12] + [0x20, 0, 0, 0]

    private static func read(_ bytes: some Sequence<UInt8>) throws(ProxyHeader.Malformed) -> ProxyHeader? {
        try ProxyHeader.read(ByteBuffer(bytes: bytes).readableBytesView)
    }

    @Test("The header names a client over IPv4 or IPv6, or none") func clients() throws {
        let v4 = try #require(try Self.read(Self.header + [1, 2, 3]))
        #expect(v4 == ProxyHeader(client: try SocketAddress(ipAddress: "192.0.2.7", port: 40_000), bytesCount: 28))
        let addresses = [0x20, 0x01, 0x0D, 0xB8] + [UInt8](repeating: 0, count: 11) + [9] + [UInt8](repeating: 1, count: 16)
        let v6 = try #require(try Self.read(Self.header[..<12] + [0x21, 0x21, 0, 39] + addresses + [0, 80, 1, 2, 4, 0, 0]))
        #expect(v6 == ProxyHeader(client: try SocketAddress(ipAddress: "2001:db8::9", port: 80), bytesCount: 55))
        #expect(try Self.read(Self.local) == ProxyHeader(client: nil, bytesCount: 16))
        // A client over a Unix socket has no address that limits could count.
        #expect(try Self.read(Self.header[..<12] + [0x21, 0x31, 0, 2, 0, 0]) == ProxyHeader(client: nil, bytesCount: 18))
    }

    @Test("A part of the header waits for the rest") func parts() throws {
        for count in 0..<Self.header.count { #expect(try Self.read(Self.header[..<count]) == nil, "\(count)") }
    }

    @Test(
        "Bytes that are no header of version 2 are refused",
        arguments: [
            Array("GET / HTTP/1.1".utf8), Array("PROXY TCP4 192.0.2.7".utf8), header[..<12] + [0x11, 0x11, 0, 12],
            header[..<12] + [0x22, 0x11, 0, 0],
            header[..<12] + [0x21, 0x11, 0, 4, 192, 0, 2, 7], header[..<12] + [0x21, 0x11, 0xFF, 0xFF],
        ])
    func malformed(bytes: [UInt8]) { #expect(throws: ProxyHeader.Malformed()) { try Self.read(bytes) } }

    private static func start(_ limits: ConnectionLimits? = nil) async throws -> RawServer {
        try await RawServer.start(limits: limits, addresses: .ofProxyHeaders) { request, connection in
            let body = ByteBuffer(string: connection.remoteAddress)
            connection.respond(to: request.stream, HTTPResponse(status: 200, contentType: .text, body: body))
        }
    }

    @Test("The client of the header is the client of the connection, over HTTP/2 and HTTP/1.1") func clientOfConnection() async throws {
        let server = try await Self.start()
        let peer = try await RawPeer.connect(to: server.port, sending: Self.header + RawFrame.hello)
        peer.send([.head(1, RawFrame.get)])
        let frames = try await peer.frames { frames, _ in frames.contains(where: \.isEnd) }
        let body = frames.filter { $0.kind == .data }.flatMap(\.payload)
        #expect(String(decoding: body, as: UTF8.self).contains("192.0.2.7"))
        let expected = ConnectionLimits.Address(try SocketAddress(ipAddress: "192.0.2.7", port: 1))
        #expect(try await server.onLoop { $0.http.connections.map(\.origin) } == [expected])
        try await server.stop()
    }

    @Test("A connection that does not begin with the header is closed, and named in the metric") func withoutHeader() async throws {
        let server = try await Self.start()
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello)
        try await peer.framesUntilClosed()
        #expect(server.seen.violations == [.noProxyHeader] && server.seen.connections == 0)
        try await server.stop()
    }

    @Test("Connections are limited by the addresses of the clients, and not by that of the proxy") func limitedByClient() async throws {
        let limits = ConnectionLimits(connectionsMax: 100, perAddressMax: 2) { _ in }
        let server = try await Self.start(limits)
        let other = Array(Self.header[..<19] + [8] + Self.header[20...])
        var peers: [RawPeer] = []
        for header in [Self.header, Self.header, other, other, Self.local, Self.local, Self.local] {
            peers.append(try await RawPeer.connect(to: server.port, sending: header + RawFrame.hello))
        }
        try await server.until { $0.seen.connections == 7 }
        let refused = try await RawPeer.connect(to: server.port, sending: Self.header + RawFrame.hello)
        try await refused.framesUntilClosed()
        #expect(limits.refusedCounts == [.connectionsPerAddressMax: 1])
        try await peers[0].close()
        try await server.until { $0.seen.connections == 6 }
        peers.append(try await RawPeer.connect(to: server.port, sending: Self.header + RawFrame.hello))
        try await server.until { $0.seen.connections == 7 }
        try await server.stop()
    }

    @Test("A paced client waits for its turn, and a client behind the same proxy does not") func pacedByClient() async throws {
        let server = try await Self.start()
        let paced = ConnectionLimits.Address(try SocketAddress(ipAddress: "192.0.2.7", port: 1))
        try await server.onLoop { server in
            let far = NIODeadline.now() + .hours(1)
            server.http.pacedAddresses.pace(paced, at: far)
            _ = server.http.pacedAddresses.beginning(of: paced, at: far)
        }
        let waiting = try await RawPeer.connect(to: server.port, sending: Self.header + RawFrame.hello)
        try await server.until { $0.seen.violations == [.pacedAddress] }
        let peer = try await RawPeer.connect(to: server.port, sending: Self.local + RawFrame.hello)
        peer.send([.head(1, RawFrame.get)])
        try await peer.frames { frames, _ in frames.contains(where: \.isEnd) }
        #expect(waiting.frames.isEmpty)
        try await server.stop()
    }
}
