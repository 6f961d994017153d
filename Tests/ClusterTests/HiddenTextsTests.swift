import NodeFixture
import Testing

/// Texts of a user who hides from one viewer after another.
@Suite(.timeLimit(.minutes(2))) struct HiddenTextsTests {
    /// The text of `ann` that a viewer sees at a node.
    private func text(seenBy viewer: String, _ cluster: ServedCluster, node: Int) async throws -> String? {
        let answer = try await cluster.call("getUserStatus", #"{"userIDs":["ann"]}"#, as: viewer, node: node)
        return answer.json["userStatusList"]?.elements.first?["customStatus"]?.text
    }

    @Test("However many texts have ended behind blocks, no link between the nodes breaks, and each node shows what the later blocks hide")
    func endedTexts() async throws {
        let cluster = try await ServedCluster.start(nodes: 3)
        for (round, seconds) in [1, 1, 600].enumerated() {
            for number in 0..<6 {
                let viewer = "viewer \(round) \(number)"
                let text = "{\"customStatus\":\"text of \(viewer)\",\"expiry\":\(seconds)}"
                #expect(try await cluster.call("setSelfStatus", text, node: number % 3).status == 200)
                let answer = try await cluster.call("addBlackList", "{\"userIDs\":[\"\(viewer)\"]}", node: (number + 1) % 3)
                let codes = answer.json["resultList"]?.elements.map { $0["resultCode"]?.number } ?? []
                #expect(codes == [0], "\(answer.json)")
            }
            guard seconds == 1 else { continue }
            try await cluster.until("the texts have ended") { try await text(seenBy: "viewer \(round) 5", cluster, node: 0) == "" }
        }
        for (index, node) in cluster.nodes.enumerated() {
            for number in 0..<6 {
                let viewer = "viewer 2 \(number)"
                #expect(try await text(seenBy: viewer, cluster, node: index) == "text of \(viewer)")
            }
            #expect(try await node.metric("rollcall_cluster_streams_rejected_total{reason=\"junk\"}") == 0)
        }
        try await cluster.stop()
    }
}
