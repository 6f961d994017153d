import Foundation
import HTTP2
import InProcessFixture
import Logging
import NIOPosix
import NodeFixture
import PresenceNode
import PresenceWire
import Testing

/// Nodes that begin with the file of an earlier run.
@Suite(.serialized, .timeLimit(.minutes(2))) struct KeptFileTests {
    @Test("A node with a damaged file comes back with the rows of the others") func damagedFile() async throws {
        let fixture = try await Fixture.start(nodes: 3)
        for user in 0..<60 {
            #expect(try await fixture.call("setSelfStatus", #"{"customStatus":"kept"}"#, as: "u\(user)").status == 200)
            #expect(try await fixture.call("subscribeUserStatus", #"{"userIDs":["bob","carl"]}"#, as: "u\(user)").status == 200)
        }
        let folders = fixture.nodes.map { $0.configuration.dataDirectory }
        var configuration = fixture.nodes[2].configuration
        try await fixture.nodes[2].stop()
        let file = URL(fileURLWithPath: "\(folders[2])/rollcall.sqlite")
        var content = try Data(contentsOf: file)
        for page in 2..<content.count / 4_096 where page % 2 == 0 { content[page * 4_096 + 3_000] ^= 0xFF }
        try content.write(to: file)
        configuration.join = []
        await #expect(throws: StoreError.self) { try await RollcallNode.start(configuration, logger: Logger(label: "alone")) }
        #expect(try Data(contentsOf: file) == content)
        configuration.join = [HostPort(host: "127.0.0.1", port: fixture.nodes[0].ports.cluster)]
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let node = try await RollcallNode.start(configuration, logger: logger)
        let metrics = try await node.metricsText()
        #expect(metrics.contains("rollcall_store_damaged_files_total 1\n") && metrics.contains("rollcall_store_incomplete 1\n"))
        try await fixture.until("the node is ready, because it has met the others") { try await Self.readiness(of: node) == 200 }
        try await fixture.until("it keeps what the others keep") {
            // 60 users. The two that they follow have no rows.
            let texts = [try await fixture.nodes[0].metricsText(), try await node.metricsText()]
            return texts.allSatisfy { text in
                let counts = text.split(separator: "\n").filter {
                    $0.hasPrefix("rollcall_users_owned ") || $0.hasPrefix("rollcall_users_replicated ")
                }
                return counts.compactMap { Int($0.split(separator: " ")[1]) }.reduce(0, +) >= 60
            }
        }
        try await node.stop()
        for other in fixture.nodes.prefix(2) { try await other.stop() }
        #expect(try Self.rows(in: folders[2], node: "n2") == Self.rows(in: folders[0], node: "n0"))
    }

    @Test("A node does not start with a store that is ahead of its clock") func storeAheadOfClock() async throws {
        let folder = TemporaryFolder()
        let store = try SQLiteStore(directory: "\(folder.path)/n", nodeID: "n", cluster: "rollcall")
        let ahead = Milliseconds(Date().timeIntervalSince1970 * 1_000) + 3_600_000
        let row = Row(
            user: UserID(app: "default", id: "ann"), kind: .status, key: "", version: Version(milliseconds: ahead, counter: 0, node: 1),
            value: Array("{}".utf8))
        try store.persistAndWait([row]).get()
        store.close()
        let node = try ServedNode(["--join", "127.0.0.1:1"], in: folder)
        #expect(try await node.ended() == ExitCode.inputOutput)
        #expect(node.log.contains("rollcall: data directory: ") && node.log.contains("s ahead of this machine's clock"), "\(node.log)")
    }

    private static func readiness(of node: RollcallNode) async throws -> Int {
        try await HTTPExchange.send(
            .get, host: "127.0.0.1", port: node.ports.ops, path: "/readyz", on: MultiThreadedEventLoopGroup.singleton.next()
        ).status
    }

    private static func rows(in folder: String, node: String) throws -> [Row] {
        let store = try SQLiteStore(directory: folder, nodeID: node, cluster: "rollcall", canBeCompleted: true)
        defer { store.close() }
        var rows: [Row] = []
        try store.load { rows.append($0) }
        return rows.filter { $0.kind != .member && $0.kind != .clock }
    }
}
