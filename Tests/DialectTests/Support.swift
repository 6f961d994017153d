import NodeFixture
import PresenceClient
import Synchronization

extension ServedCluster {
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
