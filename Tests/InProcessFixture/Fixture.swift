import Foundation
import HTTP2
import Logging
import NIOPosix
import NodeFixture
import PresenceNode
import PresenceWire

/// Nodes in this process, on free ports, with data in a folder of their own.
package struct Fixture: Sendable {
    package let nodes: [RollcallNode]
    package let folder: TemporaryFolder
    package var directory: String { folder.path }

    /// - Parameter folder: where the nodes' data is; for nodes that begin with what others have left.
    package static func start(
        nodes count: Int = 1, in folder: TemporaryFolder = TemporaryFolder(), _ change: (inout NodeConfiguration) -> Void = { _ in }
    ) async throws -> Fixture {
        var nodes: [RollcallNode] = []
        for index in 0..<count {
            var configuration = NodeConfiguration.loopback(nodeID: "n\(index)", directory: folder.path, beside: nodes)
            change(&configuration)
            var logger = Logger(label: "test") { TextLogHandler(label: $0) }
            // `Tests/OpenAPI/secrets-in-logs` sets the variable, and searches what the nodes write to standard error.
            logger.logLevel = ProcessInfo.processInfo.environment["TRACED_NODES"] == nil ? .critical : .trace
            nodes.append(try await RollcallNode.start(configuration, logger: logger))
        }
        let fixture = Fixture(nodes: nodes, folder: folder)
        try await fixture.until("every node sees all members") {
            for node in nodes where !(try await node.metricsText().contains("rollcall_members{state=\"alive\"} \(count)\n")) {
                return false
            }
            return true
        }
        return fixture
    }

    package func stop() async throws {
        for node in nodes { try await node.stop() }
    }

    /// Waits for a condition; fails after thirty seconds.
    ///
    /// The condition is checked again after each metrics page of a node. A node makes at most one page in 20 ms, and its core makes the
    /// page after the work that was there before.
    package func until(_ claim: String, _ condition: () async throws -> Bool) async throws {
        let deadline = ContinuousClock.now + .seconds(30)
        while !(try await condition()) {
            if ContinuousClock.now > deadline { throw TestFailure("never: \(claim)") }
            try await turn()
        }
    }

    /// Waits for the next metrics page of the first node that runs.
    private func turn() async throws {
        for node in nodes.dropLast() {
            // Another node takes the place of a stopped one.
            if (try? await node.metricsText()) != nil { return }
        }
        _ = try await nodes.last?.metricsText()
    }

    /// Changes settings of the policy of app `default`, as an operator does.
    package func setPolicy(_ settings: String) async throws {
        let token = try await TokenMint().token(user: "operator", isAdmin: true)
        let response = try await HTTPExchange.send(
            .post, host: "127.0.0.1", port: nodes[0].ports.ops, path: "/admin/v1/setAppPolicy",
            headers: [("authorization", "Bearer \(token)")], body: #"{"settings":\#(settings)}"#,
            on: MultiThreadedEventLoopGroup.singleton.next())
        guard response.status == 200 else { throw TestFailure(response.text) }
    }

    /// Calls an operation as `user`.
    package func call(_ operation: String, _ body: String, as user: String? = "ann", app: String = "default", node: Int = 0) async throws
        -> (
            status: Int, json: JSONValue
        )
    {
        var headers: [(name: StaticString, value: String)] = []
        if let user { headers.append(("authorization", "Bearer \(try await TokenMint().token(user: user, app: app))")) }
        let response = try await HTTPExchange.send(
            .post, host: "127.0.0.1", port: nodes[node].ports.client, path: "/v1/\(operation)", headers: headers, body: body,
            on: MultiThreadedEventLoopGroup.singleton.next())
        return (response.status, try JSONReader.read(response.body))
    }

    /// The event stream of `user`, event by event.
    package func events(_ user: String, node: Int = 0, query: String = "platform=ios") async throws -> AsyncThrowingStream<
        [UInt8], any Error
    > {
        HTTPExchange.stream(
            host: "127.0.0.1", port: nodes[node].ports.client, path: "/v1/events?\(query)",
            headers: [("authorization", "Bearer \(try await TokenMint().token(user: user))")],
            on: MultiThreadedEventLoopGroup.singleton.next())
    }
}

extension JSONValue {
    package var elements: [JSONValue] { if case .array(let elements) = self { elements } else { [] } }
    package var text: String? { if case .string(let text) = self { text } else { nil } }
    package var number: Int64? { if case .integer(let number) = self { number } else { nil } }
}
