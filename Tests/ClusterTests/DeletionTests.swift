import Foundation
import HTTP2
import NIOPosix
import NodeFixture
import Testing

/// `deleteUser` on three nodes: what other users and back ends see, and what a node knows that was away.
@Suite(.serialized, .timeLimit(.minutes(3))) struct DeletionTests {
    private func call(_ operation: String, _ members: String, by user: String, _ cluster: ServedCluster, node: Int = 0) async throws {
        let answer = try await cluster.call(operation, #"{"asUser":"\#(user)",\#(members)}"#, as: "operator", isAdmin: true, node: node)
        guard answer.status == 200 else { throw TestFailure("\(operation): \(answer.json)") }
    }

    /// Ann has a profile, a friend, requests in both directions, a block, subscriptions in both directions, and a session.
    /// The app has a webhook that takes all events.
    private func fill(_ cluster: ServedCluster, _ receiver: TextServer) async throws {
        let webhook =
            #""webhook.url":"http://127.0.0.1:\#(receiver.port)/","webhook.secret":"a secret of 26 characters","#
            + #""webhook.events":["stateChange","friends","profile"]"#
        try await cluster.setPolicy(#"{\#(webhook),"profile.defaultAllowType":"confirm"}"#)
        try await call("modifySelfProfile", #""values":{"Nick":"Zebulon"}"#, by: "ann", cluster)
        try await call("addFriend", #""userID":"ben","force":true"#, by: "ann", cluster, node: 1)
        try await call("addFriend", #""userID":"cid","addWording":"hello""#, by: "ann", cluster, node: 2)
        try await call("addFriend", #""userID":"ann","addWording":"and you""#, by: "dan", cluster)
        try await call("addBlackList", #""userIDs":["eve"]"#, by: "ann", cluster, node: 1)
        try await call("addBlackList", #""userIDs":["ann"]"#, by: "fay", cluster, node: 2)
        try await call("subscribeUserStatus", #""userIDs":["ben","gil"]"#, by: "ann", cluster)
        try await call("subscribeUserStatus", #""userIDs":["ann"]"#, by: "gil", cluster)
        try await call("setVisibility", #""visibility":"list","userIDs":["ann","ben"]"#, by: "hal", cluster)
    }

    /// The rest that an export has of Ann, besides the deletion and the blank record: kinds, and the users who name her.
    private func rest(_ cluster: ServedCluster, node: Int) async throws -> [String] {
        let answer = try await cluster.admin("exportUser", #"{"userID":"ann"}"#, node: node)
        guard answer.status == 200 else { return ["\(answer.json)"] }
        let kinds = answer.json["facts"]?.elements.compactMap { $0["kind"]?.text }.filter { $0 != "deletion" && $0 != "status" } ?? []
        return kinds + (answer.json["mentionedBy"]?.elements.compactMap { $0["userID"]?.text } ?? [])
    }

    /// The answer that says that a user is deleted. An earlier one may say that the receiver has not taken all events yet.
    private func deleted(_ user: String, _ cluster: ServedCluster, node: Int = 0) async throws -> (status: Int, json: JSON) {
        var answer: (status: Int, json: JSON) = (0, .null)
        try await cluster.until("\(user) is deleted") {
            answer = try await cluster.admin("deleteUser", #"{"userID":"\#(user)"}"#, node: node)
            return answer.status == 200 && answer.json["isComplete"] == .bool(true)
        }
        return answer
    }

    private func stream(of user: String, at node: Int, of cluster: ServedCluster) async throws -> RawConnection {
        let connection = try RawConnection(port: cluster.nodes[node].ports.client)
        let head = ["GET /v1/events?platform=web HTTP/1.1", "Host: rollcall", "Authorization: Bearer \(try signedToken(user: user))"]
        connection.send(Array((head.joined(separator: "\r\n") + "\r\n\r\n").utf8))
        try await connection.receive(until: "onSubscriptionSyncCompleted")
        return connection
    }

    /// The record of a user who has never logged in, as a stream has it before the version.
    private func unknownRecord(_ user: String) -> String {
        #"{"userID":"\#(user)","statusType":"UNLOGINED","customStatus":"","onlinePlatforms":[],"lastUpdateTime":0,"#
            + #""lastOnlineStatusUpdateTime":0,"lastCustomStatusUpdateTime":0,"lastSeenTime":0,"version":""#
    }

    @Test("A deleted user leaves all lists, ends all sessions and tokens, and a repetition at another node answers the same receipt")
    func deletes() async throws {
        let (cluster, receiver) = (try await ServedCluster.start(nodes: 3), try await TextServer.start("{}"))
        try await fill(cluster, receiver)
        let token = try signedToken(user: "ann", age: 5)
        let own = try await stream(of: "ann", at: 1, of: cluster)
        let friend = try await stream(of: "ben", at: 2, of: cluster)
        let follower = try await stream(of: "gil", at: 0, of: cluster)
        // The follower is sent the record of a user whom no node knows.
        try await call("subscribeUserStatus", #""userIDs":["zoe"]"#, by: "gil", cluster)
        try await follower.receive(until: unknownRecord("zoe"))
        let before = try await rest(cluster, node: 2)
        #expect(before.contains("webhookLog") && before.count { $0 == "ben" } >= 2, "a friend, and webhook events: \(before)")

        let answer = try await deleted("ann", cluster)
        let removed = answer.json["removed"]
        for (kind, count) in [
            ("friend", 2), ("pendencyOut", 2), ("pendencyIn", 2), ("blocked", 2), ("subscription", 3), ("profile", 1), ("visibility", 3),
        ] {
            #expect(removed?[kind]?.number == Int64(count), "\(kind): \(answer.json)")
        }
        #expect(answer.json["nodes"]?.elements.count == 3)
        let completedAt = try #require(answer.json["completedAt"]?.number)
        #expect(answer.json["lastTombstoneEndsAt"]?.number == completedAt + 30 * 86_400_000, "30 days later: \(answer.json)")
        try await own.receive(until: #"{"reason":"deleted"}"#)
        try await friend.receive(until: #"event: onFriendListDeleted"#)
        try await follower.receive(until: unknownRecord("ann"))

        for node in 0..<3 { #expect(try await rest(cluster, node: node) == [], "node \(node)") }
        let list = try await cluster.call("getFriendList", "{}", as: "ben", node: 1)
        #expect(list.json["friendList"]?.elements.isEmpty == true, "\(list.json)")
        let visibility = try await cluster.call("getVisibility", "{}", as: "hal")
        #expect(visibility.json["userIDs"]?.elements.compactMap(\.text) == ["ben"], "\(visibility.json)")
        for node in 0..<3 {
            let refused = try await HTTPExchange.send(
                .post, host: "127.0.0.1", port: cluster.nodes[node].ports.client, path: "/v1/getFriendList",
                headers: [("authorization", "Bearer \(token)")], body: "{}", on: MultiThreadedEventLoopGroup.singleton.next())
            #expect(refused.status == 401, "node \(node): \(refused.text)")
        }

        let again = try await cluster.admin("deleteUser", #"{"userID":"ann"}"#, node: 2)
        for member in ["receiptID", "removed", "completedAt", "lastTombstoneEndsAt"] {
            #expect(again.json[member] == answer.json[member], "\(member): \(again.json)")
        }
        await receiver.stop()
        try await cluster.stop()
    }

    @Test("A node that was away while a user was deleted brings nothing back, whoever owns the user then") func away() async throws {
        var cluster = try await ServedCluster.start(nodes: 3)
        let receiver = try await TextServer.start("{}")
        for away in 0..<3 {
            try await cluster.until("the user has facts") { (try? await fill(cluster, receiver)) != nil }
            var nodes = cluster.nodes
            try await nodes[away].kill()
            let rest = ServedCluster(nodes: nodes.filter { $0.isRunning }, folder: cluster.folder)
            try await rest.until("the user is deleted without node \(away)") {
                let answer = try await rest.admin("deleteUser", #"{"userID":"ann"}"#)
                return answer.status == 200 && answer.json["isComplete"] == .bool(true)
            }
            let join = ["--join", "127.0.0.1:\(rest.nodes[0].ports.cluster)"]
            nodes[away] = try await ServedNode.serving(
                ["--dev", "--loops", "1"] + join, ["ROLLCALL_DRAIN_TIMEOUT": "1"], named: "n\(away)", in: cluster.folder)
            cluster = ServedCluster(nodes: nodes, folder: cluster.folder)
            try await cluster.untilComplete()
            try await cluster.until("the node owns users again") {
                try await nodes[away].metricsText().contains(/rollcall_slots_owned [1-9]/)
            }
            for node in 0..<3 {
                var rest: [String] = []
                do {
                    try await cluster.until("node \(node) has nothing of the user") {
                        rest = try await self.rest(cluster, node: node)
                        return rest == []
                    }
                } catch { throw TestFailure("after node \(away) was away, node \(node) has \(rest): \(error)") }
            }
        }
        try await cluster.stop()
    }

    @Test("A user of the same name who comes after a deletion is another one, whose own deletion has a receipt of its own")
    func returns() async throws {
        let (cluster, receiver) = (try await ServedCluster.start(nodes: 3), try await TextServer.start("{}"))
        try await fill(cluster, receiver)
        let first = try await deleted("ann", cluster)
        try await call("addFriend", #""userID":"ben","force":true"#, by: "ann", cluster)
        let list = try await cluster.call("getFriendList", #"{"asUser":"ann"}"#, as: "operator", isAdmin: true, node: 1)
        #expect(list.json["friendList"]?.elements.count == 1, "\(list.json)")
        let second = try await deleted("ann", cluster, node: 1)
        #expect(second.json["receiptID"] != first.json["receiptID"], "\(second.json)")
        #expect(try await rest(cluster, node: 2) == [])
        await receiver.stop()
        try await cluster.stop()
    }
}
