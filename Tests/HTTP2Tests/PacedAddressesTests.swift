import NIOCore
import Testing

@testable import HTTP2

@Suite(.timeLimit(.minutes(1))) struct PacedAddressesTests {
    private let start = NIODeadline.uptimeNanoseconds(1_000_000_000_000)
    private var addresses = PacedAddresses()

    private func address(_ number: Int) throws -> ConnectionLimits.Address {
        .init(try SocketAddress(ipAddress: "192.0.\(number / 256).\(number % 256)", port: 7))
    }

    @Test("The connections of a paced address begin 5 ms apart, those of other addresses at once")
    mutating func connectionsBeginApart() throws {
        addresses.pace(try address(1), at: start)
        for number in 1...100 {
            #expect(addresses.beginning(of: try address(1), at: start) == start + .milliseconds(5 * Int64(number)))
            #expect(addresses.beginning(of: try address(2), at: start) == nil)
        }
    }

    @Test("An address is paced until a second after its last refusal and until the last connection that waits has begun")
    mutating func paceEnds() throws {
        let one = try address(1)
        addresses.pace(one, at: start)
        addresses.pace(one, at: start + .milliseconds(500))
        #expect(addresses.beginning(of: one, at: start + .milliseconds(1_499)) == nil)
        for number in 1...10 {
            let beginning = start + .milliseconds(1_499 + 5 * Int64(number))
            #expect(addresses.beginning(of: one, at: start + .milliseconds(1_499)) == beginning)
        }
        #expect(addresses.beginning(of: one, at: start + .milliseconds(1_501)) == start + .milliseconds(1_554))
        #expect(addresses.beginning(of: one, at: start + .milliseconds(1_555)) == nil)
        #expect(addresses.isEmpty)
    }

    @Test("An address above the limit ends the pace of all")
    mutating func addressesAreBounded() throws {
        for number in 0..<PacedAddresses.countMax { addresses.pace(try address(number), at: start) }
        #expect(addresses.beginning(of: try address(0), at: start) != nil)
        addresses.pace(try address(PacedAddresses.countMax), at: start)
        #expect(addresses.beginning(of: try address(0), at: start) == nil)
        #expect(addresses.beginning(of: try address(PacedAddresses.countMax), at: start) != nil)
    }

    @Test("A sweep removes the addresses whose pace has ended")
    mutating func sweepRemovesOldAddresses() throws {
        addresses.pace(try address(1), at: start)
        addresses.sweep(at: start + .milliseconds(999))
        #expect(!addresses.isEmpty)
        addresses.sweep(at: start + .milliseconds(1_001))
        #expect(addresses.isEmpty)
    }

    @Test("A connection of a paced address is served in its turn")
    func connectionIsServedInItsTurn() async throws {
        let server = try await RawServer.start()
        let start = NIODeadline.now()
        let turn = try await server.onLoop { server in
            let address = ConnectionLimits.Address(try? SocketAddress(ipAddress: "127.0.0.1", port: 7))
            server.http.pacedAddresses.pace(address, at: start)
            return (0..<400).reduce(start) { last, _ in server.http.pacedAddresses.beginning(of: address, at: start) ?? last }
        }
        #expect(turn == start + .seconds(2))
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello + RawFrame.head(1, RawFrame.get).bytes)
        try await peer.frames { frames, _ in frames.contains { $0.isEnd } }
        #expect(NIODeadline.now() >= turn)
        #expect(server.seen.violations == [.pacedAddress])
        try await peer.close()
        try await server.stop()
    }

    @Test("A header block without an end paces the address of its sender")
    func floodPacesItsAddress() async throws {
        let server = try await RawServer.start()
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello)
        peer.send([RawFrame(.headers, stream: 1, payload: RawFrame.get)] + (0..<100).map { _ in RawFrame(.continuation, stream: 1) })
        _ = try await peer.framesUntilClosed()
        #expect(server.seen.violations == [.headerFlood])
        try await server.onLoop { #expect(!$0.http.pacedAddresses.isEmpty) }
        let next = try await RawPeer.connect(to: server.port, sending: RawFrame.hello + RawFrame.head(1, RawFrame.get).bytes)
        try await next.frames { frames, _ in frames.contains { $0.isEnd } }
        try await next.close()
        try await server.stop()
    }

    @Test("A connection that closes before its turn is removed at once")
    func closedConnectionIsRemoved() async throws {
        let server = try await RawServer.start()
        let far = NIODeadline.now() + .hours(1)
        try await server.onLoop {
            let address = ConnectionLimits.Address(try? SocketAddress(ipAddress: "127.0.0.1", port: 7))
            $0.http.pacedAddresses.pace(address, at: far)
            _ = $0.http.pacedAddresses.beginning(of: address, at: far)
        }
        let peer = try await RawPeer.connect(to: server.port, sending: RawFrame.hello)
        try await server.until { $0.http.undecided.elements.count == 1 }
        try await peer.close()
        try await server.until { $0.http.undecided.elements.count == 0 }
        try await server.stop()
    }
}
