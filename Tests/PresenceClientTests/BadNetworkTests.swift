import Foundation
import InProcessFixture
import NodeFixture
import PresenceNode
import Testing

@testable import PresenceClient

/// Clients behind networks that delay, stall, cut, reset and swallow what they carry.
@Suite(.serialized, .timeLimit(.minutes(20))) struct BadNetworkTests {
    private func expectPromisesKept(_ report: BadNetworkRun.Report) {
        #expect(report.differences == [])
        #expect(report.lost == [])
        #expect(report.wentBack == 0)
        #expect(report.viewsCount > 0)
    }

    @Test(
        "Every view equals the owner's record after the network has healed",
        arguments: [(UInt64(1), false), (2, true)])
    func views(seed: UInt64, underTLS: Bool) async throws {
        let folder = TemporaryFolder()
        let certificate = underTLS ? try await SelfSignedCertificate(in: folder) : nil
        let fixture = try await Fixture.start(nodes: 3, in: folder) { configuration in
            configuration.gateway.heartbeatInterval = .seconds(1)
            configuration.tlsCertificate = certificate?.path
            configuration.tlsKey = certificate?.keyPath
        }
        let nodes = fixture.nodes.map { BadNetworkRun.Node(client: $0.ports.client, ops: $0.ports.ops) }
        let run = try await BadNetworkRun.start(nodes: nodes, users: 8, seed: seed, scheme: underTLS ? "https" : "http") {
            $0.trustedCertificatesPEM = certificate?.pem
        }
        let report = try await run.run(for: .seconds(4))
        expectPromisesKept(report)
        // Otherwise nothing was proved.
        #expect(report.faults.count >= 4 && report.reconnectsCount > 0 && report.callsCount > 8, "\(report)")
        try await fixture.stop()
    }

    /// Over HTTP/2 all requests to an address share a connection. When that is half-open, nothing that is sent on it comes back.
    @Test("A half-open connection is not used again", .timeLimit(.minutes(1))) func halfOpenConnection() async throws {
        let folder = TemporaryFolder()
        let certificate = try await SelfSignedCertificate(in: folder)
        let fixture = try await Fixture.start(in: folder) { configuration in
            configuration.tlsCertificate = certificate.path
            configuration.tlsKey = certificate.keyPath
        }
        // Two that fall silent after a second, then sound ones.
        let network = try await FaultyNetwork(to: fixture.nodes[0].ports.client) { number in
            number < 2 ? ConnectionFate(end: .silent(after: .seconds(1))) : ConnectionFate()
        }
        let ann = try await fixture.client("ann", under: certificate) {
            $0.addresses = ["https://127.0.0.1:\(network.port)"]
            ($0.callTimeout, $0.connectTimeout) = (.milliseconds(500), .milliseconds(500))
        }
        for silent in 1...2 {
            _ = try await ann.getUserStatus(["bob"])
            try await fixture.until("connection \(silent) is silent") { network.counts[.silent] == silent }
            if silent == 1 { _ = try await ann.getUserStatus(["bob"]) }
        }
        try await ann.login()
        #expect(try await ann.setSelfStatus("here").customStatus == "here")
        await ann.close()
        try await network.close()
        try await fixture.stop()
    }

    /// Over HTTP/1.1 a connection is used again after an answer. When that is half-open, nothing comes back.
    @Test("URLSession does not use a half-open connection again", .timeLimit(.minutes(1))) func halfOpenURLSession() async throws {
        let fixture = try await Fixture.start()
        let network = try await FaultyNetwork(to: fixture.nodes[0].ports.client) { number in
            number < 1 ? ConnectionFate(end: .silent(after: .seconds(1))) : ConnectionFate()
        }
        let ann = try await fixture.client("ann") {
            $0.addresses = ["http://127.0.0.1:\(network.port)"]
            $0.preferredTransport = .urlSession
            ($0.callTimeout, $0.connectTimeout) = (.milliseconds(500), .milliseconds(500))
        }
        _ = try await ann.getUserStatus(["bob"])
        try await fixture.until("the connection is silent") { network.counts[.silent] == 1 }
        _ = try await ann.getUserStatus(["bob"])
        try await ann.login()
        #expect(try await ann.setSelfStatus("here").customStatus == "here")
        await ann.close()
        try await network.close()
        try await fixture.stop()
    }

    /// `Tests/Chaos/bad-network` names the seconds, the seed, and the ports of nodes in processes of their own.
    @Test("Views stay right in a long run against node processes", .enabled(if: ProcessInfo.processInfo.environment["BAD_NETWORK"] != nil))
    func longRun() async throws {
        let words = (ProcessInfo.processInfo.environment["BAD_NETWORK"] ?? "").split(separator: " ").compactMap { Int($0) }
        try #require(words.count == 8, "SECONDS SEED, then the client port and the ops port of each node")
        let nodes = stride(from: 2, to: 8, by: 2).map { BadNetworkRun.Node(client: words[$0], ops: words[$0 + 1]) }
        let run = try await BadNetworkRun.start(nodes: nodes, users: 24, seed: UInt64(words[1]))
        let report = try await run.run(for: .seconds(words[0]))
        let (early, late) = (report.memory.median(0.2...0.3), report.memory.median(0.9...1))
        let named = { (counts: [String: Int]) in counts.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", ") }
        print(
            """
            bad network, seed \(words[1]), \(words[0]) s: \(report.viewsCount) views, \(report.differences.count) not the owners', \
            \(report.wentBack) went back, \(report.lost.count) acknowledged changes lost, \
            \(report.overwritten) overwritten by older calls; \(report.reconnectsCount) reconnects, \
            \(report.callsCount) calls, failed by code: \(named(Dictionary(uniqueKeysWithValues: report.failures.map { ("\($0.key)", $0.value) })))
            connections: \(report.connectionsCount), of which \
            \(named(Dictionary(uniqueKeysWithValues: report.faults.map { ($0.key.rawValue, $0.value) })))
            memory of the clients' process: \(early / 1_024) KiB at a quarter, \(late / 1_024) KiB at the end
            """)
        expectPromisesKept(report)
        // A tenth, and what an allocator keeps in reserve.
        #expect(early > 0 && Double(late) < 1.1 * Double(early) + 4_194_304)
    }
}
