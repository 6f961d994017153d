import InProcessFixture
import PresenceNode

@testable import PresenceClient

extension Fixture {
    /// A client of some of the nodes, with short waits, not logged in.
    func client(
        _ user: String, nodes numbers: [Int]? = nil, under certificate: SelfSignedCertificate? = nil,
        _ change: (inout ClientConfiguration) -> Void = { _ in }
    ) async throws -> PresenceClient {
        let mint = try await TokenMint()
        let scheme = certificate == nil ? "http" : "https"
        let addresses = (numbers ?? Array(nodes.indices)).map { "\(scheme)://127.0.0.1:\(nodes[$0].ports.client)" }
        var configuration = ClientConfiguration(addresses: addresses) { try await mint.token(user: user) }
        configuration.backoff = Backoff(initial: .milliseconds(20), max: .milliseconds(200))
        configuration.platform = "ios"
        configuration.trustedCertificatesPEM = certificate?.pem
        change(&configuration)
        return try PresenceClient(configuration)
    }
}

extension Feed<[UserStatus]> {
    /// The first received status for which `claim` holds.
    func first(_ claim: (UserStatus) -> Bool) async -> UserStatus? {
        for await statuses in self {
            for status in statuses where claim(status) { return status }
        }
        return nil
    }
}

extension PresenceClient {
    /// Breaks the session's stream, as a network does.
    func loseStream() { machine.current.flatMap { streams[$0]?.task }?.cancel() }

    /// Whether the session's stream came over HTTP/2.
    var isMultiplexed: Bool { machine.current.flatMap { streams[$0]?.isMultiplexed } ?? false }
}
