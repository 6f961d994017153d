import InProcessFixture
import NodeFixture
import PresenceNode
import PresenceWire
import Testing

/// Removal of users who have been away for long (`users.forgetAfter`), on real nodes with real files.
@Suite(.serialized, .timeLimit(.minutes(2))) struct RemovalTests {
    /// Users who come once.
    private static let usersCount = 150

    @Test("Three nodes free memory and files of users who stay away, and of no others")
    func memoryAndFilesAreGivenBack() async throws {
        let folder = TemporaryFolder()
        let fixture = try await Fixture.start(nodes: 3, in: folder) {
            $0.core.policy.forgetAfterSeconds = 1
            $0.core.blankHorizon = .seconds(2)
            $0.core.removalInterval = .seconds(1)
            $0.core.watchLinger = .milliseconds(100)
            $0.core.policy.offlineGrace = .zero
        }
        let keeps = try await fixture.call("subscribeUserStatus", #"{"userIDs":["followed"]}"#, as: "follower")
        #expect(keeps.status == 200)
        for user in ["followed", "passer-0"] { try await visit(user, fixture, node: 1) }
        for number in 1..<Self.usersCount { try await visit("passer-\(number)", fixture, node: number % 3) }
        #expect(try await fixture.call("setSelfStatus", #"{"customStatus":"on holiday"}"#, as: "busy").status == 200)
        try await fixture.until("every user is known to three nodes") { try await keptCount(fixture) >= 3 * 3 }
        try await fixture.until("three users are left, on three nodes each, and who is followed by them") {
            let (removed, kept) = (try await removedCount(fixture), try await keptCount(fixture))
            return removed >= 3 * Self.usersCount && kept == 3 * 3
        }
        let status = try await fixture.call("getUserStatus", #"{"userIDs":["followed","busy","passer-0"]}"#, as: "follower", node: 2)
        let statuses = status.json["userStatusList"]?.elements ?? []
        #expect(statuses.map { $0["statusType"]?.text } == ["OFFLINE", "UNLOGINED", "UNLOGINED"])
        #expect(statuses[1]["customStatus"]?.text == "on holiday")
        #expect(statuses[0]["lastSeenTime"]?.number ?? 0 > 0 && statuses[2]["lastSeenTime"]?.number == 0)
        try await fixture.stop()
        for number in 0..<3 {
            let store = try SQLiteStore(directory: "\(folder.path)/n\(number)", nodeID: "n\(number)", cluster: "rollcall")
            var rows: [String] = []
            try store.load { if $0.kind.isOfUser { rows.append("\($0.user.id) \($0.kind)") } }
            store.close()
            #expect(rows.sorted() == ["busy status", "followed status", "follower subscription"], "on the disk of n\(number)")
        }
    }

    /// Opens a stream and closes it.
    private func visit(_ user: String, _ fixture: Fixture, node: Int) async throws {
        for try await event in try await fixture.events(user, node: node) {
            #expect(String(decoding: event, as: UTF8.self).contains("onConnected"))
            break
        }
    }

    /// Users that the nodes know, each counted on each node.
    private func keptCount(_ fixture: Fixture) async throws -> Int {
        let (owned, kept) = (try await sum(of: "rollcall_users_owned", fixture), try await sum(of: "rollcall_users_replicated", fixture))
        return owned + kept
    }

    private func removedCount(_ fixture: Fixture) async throws -> Int { try await sum(of: "rollcall_users_removed_total", fixture) }

    private func sum(of metric: String, _ fixture: Fixture) async throws -> Int {
        var sum = 0
        for node in fixture.nodes {
            let line = try await node.metricsText().split(separator: "\n").first { $0.hasPrefix("\(metric) ") }
            sum += try #require(line.flatMap { Int($0.dropFirst(metric.count + 1)) }, "\(metric) is not in the metrics")
        }
        return sum
    }
}
