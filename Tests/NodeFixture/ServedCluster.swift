import HTTP2
import NIOPosix

/// Nodes in processes of their own, which all see each other. They accept tokens of the development key, for every app.
package struct ServedCluster: Sendable {
    package let nodes: [ServedNode]
    package let folder: TemporaryFolder
    package var directory: String { folder.path }

    package init(nodes: [ServedNode], folder: TemporaryFolder) { (self.nodes, self.folder) = (nodes, folder) }

    /// Starts nodes `n0`, `n1` and so on with one event loop each. The others join through the first.
    ///
    /// - Parameters:
    ///   - folder: where the nodes' data is; for nodes that begin with what others have left.
    ///   - variables: settings of all nodes, as `ROLLCALL_…` variables.
    ///   - arguments: flags of all nodes.
    package static func start(
        nodes count: Int = 1, in folder: TemporaryFolder = TemporaryFolder(), _ variables: [String: String] = [:], arguments: [String] = []
    ) async throws -> ServedCluster {
        let settings = ["ROLLCALL_DRAIN_TIMEOUT": "1"].merging(variables) { $1 }
        let flags = ["--dev", "--loops", "1"] + arguments
        let first = try await ServedNode.serving(flags, settings, named: "n0", in: folder)
        let join = ["--join", "127.0.0.1:\(first.ports.cluster)"]
        let others = try (1..<max(count, 1)).map { try ServedNode(flags + join, settings, named: "n\($0)", in: folder) }
        for node in others { try await node.serves() }
        let cluster = ServedCluster(nodes: [first] + others, folder: folder)
        try await cluster.untilComplete()
        return cluster
    }

    /// Waits until every node sees all members.
    package func untilComplete() async throws {
        try await until("every node sees all members") {
            for node in nodes where !(try await node.metricsText().contains("rollcall_members{state=\"alive\"} \(nodes.count)\n")) {
                return false
            }
            return true
        }
    }

    /// Ends the nodes one after the other. Throws if one has crashed, or does not end with exit code 0.
    package func stop() async throws {
        for node in nodes { try await node.stop() }
    }

    /// Waits for a condition. Fails after thirty seconds, with the ends of the logs.
    ///
    /// The condition is checked again after each metrics page of a node. A node makes at most one page in 20 ms, and its core makes the
    /// page after the work that was there before.
    package func until(_ claim: String, _ condition: () async throws -> Bool) async throws {
        let deadline = ContinuousClock.now + .seconds(30)
        while !(try await condition()) {
            if ContinuousClock.now > deadline { throw TestFailure("never: \(claim)\n\(logs)") }
            try await turn()
        }
    }

    /// Waits for the next metrics page of the first node that runs.
    private func turn() async throws {
        let running = nodes.filter(\.isRunning)
        for node in running.dropLast() {
            // Another node takes the place of one that stops.
            if (try? await node.metricsText()) != nil { return }
        }
        guard let last = running.last else { throw TestFailure("no node runs\n\(logs)") }
        _ = try await last.metricsText()
    }

    /// The last lines of each node's log.
    private var logs: String {
        nodes.map { "\($0.nodeID):\n" + $0.log.split(separator: "\n").suffix(20).joined(separator: "\n") }.joined(separator: "\n")
    }

    /// Changes settings of the policy of app `default`, as an operator does.
    package func setPolicy(_ settings: String) async throws {
        let answer = try await admin("setAppPolicy", #"{"settings":\#(settings)}"#)
        guard answer.status == 200 else { throw TestFailure("\(answer.json)") }
    }

    /// Calls an operation as `user`.
    package func call(
        _ operation: String, _ body: String, as user: String? = "ann", app: String = "default", isAdmin: Bool = false, node: Int = 0
    ) async throws -> (status: Int, json: JSON) {
        let token = try user.map { try signedToken(user: $0, app: app, isAdmin: isAdmin) }
        return try await post(nodes[node].ports.client, "/v1/\(operation)", body, token)
    }

    /// Calls an operation of the ops port with an admin token.
    package func admin(
        _ operation: String, _ body: String, app: String = "default", node: Int = 0
    ) async throws -> (status: Int, json: JSON) {
        let token = try signedToken(user: "operator", app: app, isAdmin: true)
        return try await post(nodes[node].ports.ops, "/admin/v1/\(operation)", body, token)
    }

    private func post(_ port: Int, _ path: String, _ body: String, _ token: String?) async throws -> (status: Int, json: JSON) {
        let response = try await HTTPExchange.send(
            .post, host: "127.0.0.1", port: port, path: path, headers: token.map { [("authorization", "Bearer \($0)")] } ?? [], body: body,
            on: MultiThreadedEventLoopGroup.singleton.next())
        return (response.status, try JSON(response.body))
    }

    /// The event stream of `user`, event by event.
    package func events(
        _ user: String, app: String = "default", node: Int = 0, query: String = "platform=ios"
    ) throws -> AsyncThrowingStream<[UInt8], any Error> {
        HTTPExchange.stream(
            host: "127.0.0.1", port: nodes[node].ports.client, path: "/v1/events?\(query)",
            headers: [("authorization", "Bearer \(try signedToken(user: user, app: app))")],
            on: MultiThreadedEventLoopGroup.singleton.next())
    }
}
