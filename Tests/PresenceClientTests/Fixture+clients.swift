import NodeFixture
import PresenceNode

@testable import PresenceClient

extension Fixture {
    /// A client of some of the nodes, with short waits, not logged in.
    func client(
        _ user: String, nodes numbers: [Int]? = nil, _ change: (inout ClientConfiguration) -> Void = { _ in }
    ) async throws -> PresenceClient {
        let mint = try await TokenMint()
        let addresses = (numbers ?? Array(nodes.indices)).map { "http://127.0.0.1:\(nodes[$0].ports.client)" }
        var configuration = ClientConfiguration(addresses: addresses) { try await mint.token(user: user) }
        configuration.backoff = Backoff(initial: .milliseconds(20), max: .milliseconds(200))
        configuration.platform = "ios"
        change(&configuration)
        return try PresenceClient(configuration)
    }
}

extension Feed<[UserStatus]> {
    /// The first status told for which `claim` holds.
    func first(_ claim: (UserStatus, [UserStatus]) -> Bool) async -> UserStatus? {
        for await statuses in self {
            for status in statuses where claim(status, statuses) { return status }
        }
        return nil
    }
}
