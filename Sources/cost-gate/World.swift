import HTTP2
import NIOCore
import PresenceNode
import PresenceWire

/// A node in this process, and its clients.
final class World {
    let loop = ManualLoop()
    let clients: HTTPClientConnection.Loop
    let node: InProcessNode
    private let tokens: [String: String]

    /// - Parameter tokens: the tokens by user.
    init(_ authenticator: Authenticator, tokens: [String: String]) throws {
        self.tokens = tokens
        loop.run()
        clients = HTTPClientConnection.Loop(eventLoop: loop.embedded)
        node = try InProcessNode(eventLoop: loop, authenticator: authenticator, store: NullStore(), streamsMax: 1_100)
    }

    func token(of user: String) -> String { tokens[user]! }

    /// Has each of `users` subscribe to `targets`, through one connection. Afterwards the node knows their tokens.
    func follow(_ targets: [String], by users: [String], through client: Client) throws {
        let body = #"{"userIDs":[\#(targets.map { "\"\($0)\"" }.joined(separator: ","))]}"#
        for user in users {
            let count = client.received.answersCount
            client.call("subscribeUserStatus", body, token: token(of: user))
            try client.exchange { $0.answersCount > count }
        }
    }

    /// Opens an event stream for each of `users`, all on one connection, and waits until each is synced.
    func open(_ users: [String], on client: Client) throws {
        for user in users {
            let count = client.received.answersCount
            client.openStream(token: token(of: user))
            try client.exchange { $0.answersCount > count }
        }
    }

    /// Receives a batch of the node "b", and runs the work that follows.
    func take(_ batch: [UInt8]) throws {
        try node.receive(batch: batch, from: NodeID("b"))
        loop.runNow()
    }

    // MARK: Counting

    /// The number of counted regions.
    private(set) var regionsCount = 0

    /// The region that callgrind counts: it collects inside functions of this name (`--toggle-collect`).
    ///
    /// Each ends with its own statement. A call in place of a return would end the region before the work.
    @inline(never)
    func measuredRegion(_ client: Client) {
        client.deliver()
        regionsCount += 1
    }

    @inline(never)
    func measuredRegion(batch: [UInt8]) throws {
        try take(batch)
        regionsCount += 1
    }
}
