import NodeFixture
import PresenceClient
import PresenceNode
import Synchronization

extension Fixture {
    /// The configuration with which `user` reaches a node.
    func configuration(of user: String) async throws -> ClientConfiguration {
        let mint = try await TokenMint()
        var configuration = ClientConfiguration(addresses: nodes.map { "http://127.0.0.1:\($0.ports.client)" }) {
            try await mint.token(user: user)
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
