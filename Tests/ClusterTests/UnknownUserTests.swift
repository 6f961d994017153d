import NodeFixture
import Testing

/// The traces that calls about unknown users leave on three nodes.
@Suite(.serialized, .timeLimit(.minutes(3))) struct UnknownUserTests {
    private static let targetsCount = 200

    /// The sum of a gauge over all nodes.
    private func sum(_ gauge: String, of fixture: ServedCluster) async throws -> Int {
        var sum = 0
        for node in fixture.nodes {
            let line = try await node.metricsText().split(separator: "\n").first { $0.hasPrefix("\(gauge) ") }
            sum += Int(try #require(line).split(separator: " ")[1]) ?? 0
        }
        return sum
    }

    private func call(_ operation: String, _ targets: Range<Int>, _ fixture: ServedCluster, node: Int) async throws {
        let users = targets.map { "\"nobody\($0)\"" }.joined(separator: ",")
        let answer = try await fixture.call(operation, "{\"userIDs\":[\(users)]}", node: node)
        #expect(answer.status == 200, "\(answer.json)")
        let codes = answer.json["resultList"]?.elements.map { $0["resultCode"]?.number }
        #expect(codes == targets.map { _ in 0 }, "\(answer.json)")
    }

    @Test(
        "Blocks of unknown users and their ends leave nothing with these users, and repeating them leaves nothing more",
        arguments: ["rollcall", "tencent", "rongcloud", "commsease"])
    func blocks(preset: String) async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        #expect(try await fixture.admin("setAppPolicy", "{\"preset\":\"\(preset)\"}").status == 200)
        var rowsCount = 0
        for round in 0..<2 {
            for start in stride(from: 0, to: Self.targetsCount, by: 100) {
                try await call("addBlackList", start..<start + 100, fixture, node: round)
                try await call("deleteBlackList", start..<start + 100, fixture, node: 2)
            }
            #expect(try await sum("rollcall_users_owned", of: fixture) == 1, "only ann")
            #expect(try await sum("rollcall_users_replicated", of: fixture) <= 2)
            // The third node writes later than the two for whom the answer waits.
            try await fixture.until("every replica has the rows of ann") {
                let count = try await sum("rollcall_lists_rows", of: fixture)
                defer { rowsCount = count }
                return count == rowsCount && count.isMultiple(of: 3) && count > 0
            }
            #expect(rowsCount <= 3 * 5 * Self.targetsCount, "the lists of ann have one row for each target and kind")
        }
        try await fixture.stop()
    }
}
