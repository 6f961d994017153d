import HTTP2

/// The part of a client connection that a ``ConnectionPool`` needs.
protocol PooledClient: AnyObject {
    /// Whether requests may be sent.
    var isConnected: Bool { get }
    /// The number of open streams.
    var openCount: Int { get }

    func close()
}

extension HTTPClientConnection: PooledClient {}

/// The client connections of a simulation, spread over the targets.
///
/// Decides which connection carries a user's next request, and how long a closed connection waits before it is opened again.
struct ConnectionPool<Client: PooledClient> {
    private enum State { case neverOpened, open, closed }

    private struct Connection {
        let target: Int
        var client: Client?
        var state = State.neverOpened
        /// Failures since the connection was last open.
        var failures = 0
    }

    /// Streams above the limit that a connection takes while others close.
    private static var spareStreams: Int { 50 }
    /// Connections of a target that are tried for one request.
    private static var triesMax: Int { 4 }

    private var connections: [Connection]
    /// The indices of each target's connections.
    private let indicesByTarget: [[Int]]
    private let streamsMax: Int

    init(connections count: Int, targets: Int, streamsPerConnection: Int) {
        connections = (0..<count).map { Connection(target: $0 % targets) }
        indicesByTarget = (0..<targets).map { target in (0..<count).filter { $0 % targets == target } }
        streamsMax = streamsPerConnection + Self.spareStreams
    }

    var indices: Range<Int> { connections.indices }

    /// Whether a target can be reached now.
    var isAnyOpen: Bool { connections.contains { $0.state == .open } }

    /// Whether a target has ever been reached.
    var wasAnyOpen: Bool { connections.contains { $0.state != .neverOpened } }

    func target(of index: Int) -> Int { connections[index].target }

    func client(at index: Int) -> Client? { connections[index].client }

    /// Records that a client begins to connect.
    mutating func begin(_ client: Client, at index: Int) { connections[index].client = client }

    /// Records that a connection is open. Returns whether it had been open before.
    mutating func open(_ index: Int) -> Bool {
        defer { (connections[index].state, connections[index].failures) = (.open, 0) }
        return connections[index].state != .neverOpened
    }

    /// Records that a connection is closed, or could not be opened. Returns false for a client that was replaced before.
    mutating func close(_ client: Client, at index: Int) -> Bool {
        guard connections[index].client === client else { return false }
        if connections[index].state == .open { connections[index].state = .closed }
        connections[index].client = nil
        connections[index].failures += 1
        return true
    }

    /// The milliseconds until a closed connection is opened again: full jitter up to 50 ms × 2ⁿ after n failures, at most 500 ms.
    func reconnectDelay(of index: Int, using random: inout some RandomNumberGenerator) -> Int64 {
        Int64.random(in: 20...min(50 << Int64(min(connections[index].failures, 5)), 500), using: &random)
    }

    /// An open connection with room for one more stream; nil when there is none.
    ///
    /// The user's own target comes first, then the next ones. `targetShift` counts from the user's own target.
    func index(for user: Int, targetShift: Int) -> Int? {
        let targets = indicesByTarget.count
        for shift in 0..<targets {
            let indices = indicesByTarget[(user + targetShift + shift) % targets]
            for step in 0..<min(indices.count, Self.triesMax) {
                let index = indices[(user / targets + step) % indices.count]
                if let client = connections[index].client, client.isConnected, client.openCount < streamsMax { return index }
            }
        }
        return nil
    }

    /// Closes every connection.
    func closeAll() { for connection in connections { connection.client?.close() } }
}
