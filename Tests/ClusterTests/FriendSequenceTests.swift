import NodeFixture
import Testing

/// The sequences of friend lists while nodes restart and are replaced.
@Suite(.serialized, .timeLimit(.minutes(4))) struct FriendSequenceTests {
    /// More users than one, so that each node owns some.
    private static let names = (0..<8).map { "user\($0)" }
    /// More friends than one message between nodes has rows.
    private static let friendsCount = 250

    private func node(_ name: String, joining other: ServedNode, in folder: TemporaryFolder) async throws -> ServedNode {
        try await ServedNode.serving(
            ["--dev", "--loops", "1", "--join", "127.0.0.1:\(other.ports.cluster)"], ["ROLLCALL_DRAIN_TIMEOUT": "1"], named: name,
            in: folder)
    }

    /// Imports friends without a time, and puts one of them in a group.
    private func befriend(_ user: String, in cluster: ServedCluster) async throws {
        for start in stride(from: 0, to: Self.friendsCount, by: 50) {
            let friends = (start..<start + 50).map { "{\"userID\":\"friend\($0)\"}" }.joined(separator: ",")
            let body = "{\"asUser\":\"\(user)\",\"friends\":[\(friends)]}"
            let answer = try await cluster.call("importFriends", body, as: "backend", isAdmin: true)
            try #require(answer.status == 200, "\(answer.json)")
        }
        let body = #"{"groupNames":["work"],"userIDs":["friend0"]}"#
        #expect(try await cluster.call("createFriendGroup", body, as: user).json["resultCode"]?.number == 0)
    }

    /// The sequence and the length of each user's list as a node answers them, and the sequence as a new stream is told it.
    private func lists(at node: Int, of cluster: ServedCluster) async throws -> [String] {
        var lists: [String] = []
        for user in Self.names {
            var list = JSON.null
            // While an owner changes, a call may be answered 50001.
            try await cluster.until("the friends of \(user) can be read") {
                let answer = try await cluster.call("getFriendList", #"{"limit":1}"#, as: user, node: node)
                list = answer.json
                return answer.status == 200
            }
            let sequence = list["seq"]?.text ?? "none"
            #expect(try await told(user, at: node, of: cluster) == sequence)
            lists.append("\(user) \(sequence) \(list["total"]?.number ?? -1)")
        }
        return lists
    }

    private func told(_ user: String, at node: Int, of cluster: ServedCluster) async throws -> String? {
        var text = ""
        for try await piece in try cluster.events(user, node: node, query: "platform=ios") {
            text += String(decoding: piece, as: UTF8.self)
            if let told = text.firstMatch(of: /event: onRelationshipState\nid: [0-9]+\ndata: [^\n]*"friendSeq":"([^"]*)"[^\n]*\n\n/) {
                return String(told.1)
            }
        }
        return nil
    }

    @Test("The sequence of a friend list stays while a node restarts, and while another one takes its place") func restarts() async throws {
        let first = try await ServedCluster.start(nodes: 3)
        for user in Self.names { try await befriend(user, in: first) }
        try await first.nodes[0].stop()
        // The node that is down misses the new name.
        for user in Self.names {
            try await first.until("the group has another name") {
                try await first.call("renameFriendGroup", #"{"oldName":"work","newName":"office"}"#, as: user, node: 1).status == 200
            }
        }
        let before = try await lists(at: 1, of: first)
        #expect(before.allSatisfy { $0.hasSuffix(" \(Self.friendsCount)") }, "\(before)")
        let again = try await node("n0", joining: first.nodes[1], in: first.folder)
        let second = ServedCluster(nodes: [again, first.nodes[1], first.nodes[2]], folder: first.folder)
        try await second.untilComplete()
        try await second.until("the node owns users again") { try await again.metricsText().contains(/rollcall_slots_owned [1-9]/) }
        for node in 0..<3 { #expect(try await lists(at: node, of: second) == before, "at node \(node)") }
        try await again.stop()
        let new = try await node("n3", joining: first.nodes[1], in: first.folder)
        let third = ServedCluster(nodes: [new, first.nodes[1], first.nodes[2]], folder: first.folder)
        try await third.untilComplete()
        try await third.until("the new node owns users") { try await new.metricsText().contains(/rollcall_slots_owned [1-9]/) }
        for node in 0..<3 { #expect(try await lists(at: node, of: third) == before, "at node \(node)") }
        try await third.stop()
    }
}
