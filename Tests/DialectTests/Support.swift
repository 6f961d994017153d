import NodeFixture
import PresenceClient
import Synchronization

extension ServedCluster {
    /// Nodes, and an app with the preset of a document.
    ///
    /// - Parameters:
    ///   - declared: what the document has an app declare in its console, as the members of a JSON object: custom fields and switches.
    ///   - users: registered users, where the preset asks for them.
    static func serving(
        _ preset: String, nodes count: Int = 3, declared: String = "", users: [String] = []
    ) async throws -> ServedCluster {
        let cluster = try await start(nodes: count)
        let policy = try await cluster.admin("setAppPolicy", #"{"preset":"\#(preset)","settings":{\#(declared)}}"#)
        guard policy.status == 200 else { throw TestFailure("\(policy.json)") }
        guard !users.isEmpty else { return cluster }
        let names = users.map { "\"\($0)\"" }.joined(separator: ",")
        let registered = try await cluster.admin("importUsers", "{\"userIDs\":[\(names)]}")
        guard registered.status == 200 else { throw TestFailure("\(registered.json)") }
        return cluster
    }

    /// Chooses the preset of another document.
    func choose(_ preset: String) async throws {
        let policy = try await admin("setAppPolicy", #"{"preset":"\#(preset)"}"#)
        guard policy.status == 200 else { throw TestFailure("\(policy.json)") }
    }

    /// The configuration with which `user` reaches a node.
    func configuration(of user: String) -> ClientConfiguration {
        var configuration = ClientConfiguration(addresses: nodes.map { "http://127.0.0.1:\($0.ports.client)" }) {
            try signedToken(user: user)
        }
        configuration.platform = "ios"
        return configuration
    }
}

/// Keeps what a callback gave.
final class Box<Element: Sendable>: Sendable {
    private let kept = Mutex<[Element]>([])

    var all: [Element] { kept.withLock { $0 } }

    func add(_ elements: [Element]) { kept.withLock { $0 += elements } }
}
