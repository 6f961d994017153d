import NodeFixture
import Testing

/// A smaller quota of subscriptions while an owner dies.
@Suite(.serialized, .timeLimit(.minutes(2))) struct QuotaTests {
    /// More users than one, so that each node owns some.
    private static let names = (0..<12).map { "user\($0)" }

    /// The targets of each user, in the order of their names.
    private func followed(at node: Int, of cluster: ServedCluster) async throws -> [[String]] {
        var lists: [[String]] = []
        for user in Self.names {
            var targets: [String] = []
            // While an owner changes, a call may be answered 50001.
            try await cluster.until("the subscriptions of \(user) can be read") {
                let answer = try await cluster.call("getSubscribedUserStatus", "{}", as: user, node: node)
                targets = answer.json["subscriptions"]?.elements.compactMap { $0["userID"]?.text } ?? []
                return answer.status == 200
            }
            lists.append(targets)
        }
        return lists
    }

    @Test("Subscriptions that a smaller quota has made inactive come back with the quota, also if their owner has died meanwhile")
    func death() async throws {
        let cluster = try await ServedCluster.start(nodes: 3)
        for user in Self.names {
            for target in ["c", "b", "a"] {
                let answer = try await cluster.call("subscribeUserStatus", #"{"userIDs":["\#(target)"]}"#, as: user)
                try #require(answer.status == 200, "\(answer.json)")
            }
        }
        try await cluster.setPolicy(#"{"subscription.maxPerSubscriber":2}"#)
        let newest = Self.names.map { _ in ["a", "b"] }
        #expect(try await followed(at: 1, of: cluster) == newest)
        try await cluster.nodes[0].kill()
        #expect(try await followed(at: 2, of: cluster) == newest)
        try await cluster.until("the quota grows") {
            let settings = #"{"settings":{"subscription.maxPerSubscriber":3}}"#
            return try await cluster.admin("setAppPolicy", settings, node: 1).status == 200
        }
        for node in [1, 2] { #expect(try await followed(at: node, of: cluster) == Self.names.map { _ in ["a", "b", "c"] }) }
        for node in cluster.nodes.dropFirst() { try await node.stop() }
    }
}
