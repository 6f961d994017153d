import PresenceWire
import Testing

@testable import ClusterSimulation
@testable import PresenceCore

/// `clusterLoad`: the load of every live node, and its state of the app's webhook.
@Suite struct ClusterLoadTests {
    private var cluster: TestCluster

    init() {
        var settings = CoreSettings()
        settings.policy.webhook.url = "https://app.example.com/rollcall"
        settings.policy.webhook.secret = "0123456789abcdef"
        cluster = TestCluster(nodes: 3, settings: settings)
    }

    /// The loads in the answer to the last call; nil without an answer.
    private func loads(on node: Int) throws -> [JSONValue]? {
        guard case .explained(let parts) = cluster.lastAnswer(on: node) else { return nil }
        #expect(parts.allSatisfy { $0.part == .load })
        return try parts.map { try JSONReader.read($0.json) }.sorted { $0["node"]!.textValue < $1["node"]!.textValue }
    }

    private mutating func loads() throws -> [JSONValue] {
        cluster.call(.clusterLoad, by: "admin", on: 1)
        cluster.advance(.milliseconds(50))
        return try #require(try loads(on: 1))
    }

    @Test("Each node counts its users, its streams and the ends of its users' sessions") mutating func counts() throws {
        let users = (0..<3).map { cluster.user(ownedBy: $0) }
        let clients = users.map { cluster.login($0, on: 0) }
        cluster.close(clients[2], .loggedOut)
        cluster.lose(clients[1])
        cluster.advance(.seconds(5))
        let loads = try loads()
        #expect(loads.map { $0["node"]?.textValue } == ["node-0", "node-1", "node-2"])
        #expect(loads.map { $0["usersOnline"] } == [.integer(1), .integer(0), .integer(0)])
        #expect(loads.map { $0["sessions"] } == [.integer(1), .integer(0), .integer(0)])
        #expect(loads.map { $0["listeners"] } == [.integer(0), .integer(0), .integer(0)])
        #expect(loads.map { $0["logins"] } == [.integer(3), .integer(0), .integer(0)])
        #expect(loads.map { $0["logouts"] } == [.integer(0), .integer(0), .integer(1)])
        #expect(loads.map { $0["lost"] } == [.integer(0), .integer(1), .integer(0)])
    }

    @Test("The owner of a user whose events are refused has an open circuit, until the URL is another one") mutating func circuit() throws {
        let ann = cluster.user(ownedBy: 0)
        cluster.webhooks.mode = .fails
        cluster.setStatus(ann, "busy", on: 1)
        cluster.advance(.seconds(100))
        let failing = try loads().map { $0["webhook"] }
        #expect(failing.map { $0?["isCircuitOpen"] } == [.bool(true), .bool(false), .bool(false)])
        guard case .integer(let failures)? = failing[0]?["failuresInARow"], case .integer(let waiting)? = failing[0]?["bytesWaiting"] else {
            Issue.record("no state of the webhook: \(failing)")
            return
        }
        #expect(failures >= Webhooks.failuresMax && waiting > 0)
        #expect(failing[1]?["failuresInARow"] == .integer(0) && failing[1]?["bytesWaiting"] == .integer(0))
        cluster.webhooks.mode = .accepts
        let policy = #"{"settings":{"webhook.url":"https://new.example/x","webhook.secret":"0123456789abcdef"}}"#
        cluster.call(.setAppPolicy(Array(policy.utf8)), by: "admin", on: 1)
        cluster.advance(.seconds(1))
        let mended = try loads()
        #expect(mended.map { $0["webhook"]?["isCircuitOpen"] } == [.bool(false), .bool(false), .bool(false)])
        #expect(mended[0]["webhook"]?["bytesWaiting"] == .integer(0))
        #expect(mended[0]["webhooksOfAllApps"]?["accepted"] == .integer(1) && mended[0]["webhooksOfAllApps"]?["events"] == .integer(1))
        #expect(mended[0]["webhooksOfAllApps"]?["failed"] != .integer(0))
    }

    @Test("A node that dies before its answer arrives does not keep the others' loads back") mutating func death() throws {
        cluster.losing = [(0, 2)]
        cluster.call(.clusterLoad, by: "admin", on: 2)
        #expect(try loads(on: 2) == nil, "the call waits for the answer that was lost")
        cluster.losing = []
        cluster.kill(0)
        cluster.advance(.seconds(1))
        #expect(try loads(on: 2)?.map { $0["node"]?.textValue } == ["node-1", "node-2"])
    }
}
