import PresenceWire
import Testing

@testable import LoadSimulator

@Suite struct ConnectionPoolTests {
    private final class Client: PooledClient {
        var isConnected = true
        var openCount = 0
        var isClosed = false

        func close() { isClosed = true }
    }

    /// Two targets with two connections each: 0 and 2, 1 and 3. A connection takes 10 streams and 50 spare ones.
    private var pool = ConnectionPool<Client>(connections: 4, targets: 2, streamsPerConnection: 10)
    private let clients = (0..<4).map { _ in Client() }

    private mutating func connectAll() {
        for (index, client) in clients.enumerated() { pool.begin(client, at: index) }
    }

    @Test("Connections are spread over the targets")
    func targets() {
        #expect(pool.indices == 0..<4)
        #expect(pool.indices.map(pool.target) == [0, 1, 0, 1])
    }

    @Test("A user gets a connection of its own target, and users of one target are spread over its connections")
    mutating func ownTarget() {
        #expect(pool.index(for: 0, targetShift: 0) == nil)
        connectAll()
        #expect((0..<4).map { pool.index(for: $0, targetShift: 0) } == [0, 1, 2, 3])
        #expect(pool.index(for: 0, targetShift: 1) == 1)
    }

    @Test("A full or closed connection is skipped, first within the target, then for the next target")
    mutating func nextConnection() {
        connectAll()
        clients[0].openCount = 59
        #expect(pool.index(for: 0, targetShift: 0) == 0)
        clients[0].openCount = 60
        #expect(pool.index(for: 0, targetShift: 0) == 2)
        clients[2].isConnected = false
        #expect(pool.index(for: 0, targetShift: 0) == 1)
        clients[1].isConnected = false
        clients[3].isConnected = false
        #expect(pool.index(for: 0, targetShift: 0) == nil)
    }

    @Test("Only a connection that was open before returns, and a replaced client changes nothing")
    mutating func returns() {
        connectAll()
        #expect(!pool.isAnyOpen && !pool.wasAnyOpen)
        // The first attempt fails: the target was never reached.
        #expect(pool.close(clients[0], at: 0) == true)
        #expect(pool.client(at: 0) == nil && !pool.wasAnyOpen)
        let second = Client()
        pool.begin(second, at: 0)
        #expect(pool.close(clients[0], at: 0) == false)
        #expect(pool.client(at: 0) === second)
        #expect(pool.open(0) == false)
        #expect(pool.isAnyOpen && pool.wasAnyOpen)
        #expect(pool.close(second, at: 0) == true)
        #expect(!pool.isAnyOpen && pool.wasAnyOpen)
        pool.begin(clients[0], at: 0)
        #expect(pool.open(0) == true)
    }

    @Test("The delay before a connection is opened again grows with its failures, up to 500 ms")
    mutating func delays() {
        var random = SplitMix64(seed: 1)
        for largest in [100, 200, 400, 500, 500, 500] as [Int64] {
            let client = Client()
            pool.begin(client, at: 1)
            #expect(pool.close(client, at: 1) == true)
            let delays = (0..<500).map { _ in pool.reconnectDelay(of: 1, using: &random) }
            #expect(delays.allSatisfy { (20...largest).contains($0) } && delays.max()! > largest * 9 / 10)
        }
        let client = Client()
        pool.begin(client, at: 1)
        _ = pool.open(1)
        #expect(pool.close(client, at: 1) == true)
        #expect((0..<500).allSatisfy { _ in pool.reconnectDelay(of: 1, using: &random) <= 100 })
    }

    @Test("Every client is closed at the end")
    mutating func end() {
        connectAll()
        pool.closeAll()
        #expect(clients.allSatisfy { $0.isClosed })
    }
}
