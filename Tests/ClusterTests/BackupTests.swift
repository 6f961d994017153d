import Foundation
import HTTP2
import NIOPosix
import NodeFixture
import Testing

/// `rollcall backup` and `rollcall restore`.
@Suite(.serialized, .timeLimit(.minutes(3))) struct BackupTests {
    private func backup(_ cluster: ServedCluster, node: Int, _ arguments: [String] = []) async throws -> (status: Int32, output: String) {
        let ops = ["--ops", "http://127.0.0.1:\(cluster.nodes[node].ports.ops)"]
        return try await RollcallBinary.run(["backup", "\(cluster.directory)/n\(node).backup"] + ops + arguments)
    }

    private func call(_ operation: String, _ members: String, by user: String, _ cluster: ServedCluster, node: Int = 0) async throws -> JSON
    {
        let answer = try await cluster.call(operation, #"{"asUser":"\#(user)",\#(members)}"#, as: "operator", isAdmin: true, node: node)
        guard answer.status == 200 else { throw TestFailure("\(operation): \(answer.json)") }
        return answer.json
    }

    @Test("Three nodes whose databases are lost serve what was acknowledged before their backups, which were made under calls")
    func cluster() async throws {
        let old = try await ServedCluster.start(nodes: 3)
        _ = try await call("addFriend", #""userID":"ben","remark":"Benny","force":true"#, by: "ann", old)
        _ = try await call("subscribeUserStatus", #""userIDs":["cid"]"#, by: "ann", old, node: 1)
        for number in 0..<50 { _ = try await call("modifySelfProfile", #""values":{"Nick":"before"}"#, by: "u\(number)", old) }
        // Calls go on while the databases are copied.
        async let calls: Void = {
            for number in 0..<200 {
                _ = try await call("modifySelfProfile", #""values":{"Nick":"meanwhile"}"#, by: "v\(number)", old, node: number % 3)
            }
        }()
        for node in 0..<3 {
            let made = try await backup(old, node: node, node == 1 ? ["--json"] : [])
            #expect(made.status == 0 && made.output.contains("n\(node)"), "\(made.output)")
        }
        try await calls
        try await old.stop()

        let folder = TemporaryFolder()
        for node in 0..<3 {
            let data = "\(folder.path)/n\(node)"
            let restored = try await RollcallBinary.run(["restore", "\(old.directory)/n\(node).backup", "--data-dir", data])
            #expect(restored.status == 0 && restored.output.contains("--node-id n\(node)"), "\(restored.output)")
        }
        let new = try await ServedCluster.start(nodes: 3, in: folder)
        for node in 0..<3 {
            let friends = try await new.call("getFriendList", "{}", as: "ann", node: node)
            #expect(friends.json["friendList"]?.elements.first?["remark"]?.text == "Benny", "\(friends.json)")
            let list = try await new.call("getSubscribedUserStatus", "{}", as: "ann", node: node)
            #expect(list.json["subscriptions"]?.elements.compactMap { $0["userID"]?.text } == ["cid"], "\(list.json)")
            let profiles = try await new.call("getUsersProfile", #"{"userIDs":["u0","u49"]}"#, as: "ann", node: node)
            #expect(profiles.json["profileList"]?.elements.compactMap { $0["nick"]?.text } == ["before", "before"], "\(profiles.json)")
        }
        try await new.stop()
    }

    @Test("A file that is no intact backup, and a data directory that has a database, are refused, and nothing is changed")
    func refusals() async throws {
        let node = try await ServedNode.serving(["--dev"])
        let cluster = ServedCluster(nodes: [node], folder: TemporaryFolder())
        let file = "\(cluster.directory)/n0.backup"
        let text = "a text to be damaged"
        #expect(try await cluster.call("setSelfStatus", #"{"customStatus":"\#(text)"}"#).status == 200)
        let made = try await backup(cluster, node: 0)
        #expect(made.status == 0, "\(made.output)")
        let rights = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int
        #expect(rights == 0o600)

        let bytes = try Data(contentsOf: URL(fileURLWithPath: file))
        var damaged = bytes
        damaged[try #require(bytes.firstRange(of: Data(text.utf8))).lowerBound] ^= 1
        let bad: [(name: String, content: Data, reason: String)] = [
            ("cut", bytes.prefix(5_000), "malformed"), ("damaged", damaged, "1 of "),
            ("text", Data("hello".utf8), "is not an SQLite database"),
            ("empty", Data(), "is not an SQLite database"),
        ]
        for (name, content, reason) in bad {
            let path = "\(cluster.directory)/\(name)"
            try content.write(to: URL(fileURLWithPath: path))
            let target = "\(cluster.directory)/data-\(name)"
            let ended = try await RollcallBinary.run(["restore", path, "--data-dir", target])
            #expect(ended.status == 74 && ended.output.contains(path) && ended.output.contains(reason), "\(name): \(ended.output)")
            #expect(!FileManager.default.fileExists(atPath: "\(target)/rollcall.sqlite"), "\(name)")
        }
        let missing = try await RollcallBinary.run(["restore", "/nowhere/x", "--data-dir", "\(cluster.directory)/d"])
        #expect(missing.status == 74 && missing.output.contains("/nowhere/x: is not there"), "\(missing.output)")

        let data = "\(cluster.directory)/d"
        #expect(try await RollcallBinary.run(["restore", file, "--data-dir", data]).status == 0)
        let again = try await RollcallBinary.run(["restore", file, "--data-dir", data])
        #expect(again.status == 74 && again.output.contains("\(data)/rollcall.sqlite: exists"), "\(again.output)")
        try await node.kill()
        let gone = try await backup(cluster, node: 0)
        #expect(gone.status == 69, "\(gone.output)")
        #expect(try Data(contentsOf: URL(fileURLWithPath: file)) == bytes, "an attempt that fails leaves the earlier backup")
        #expect(!FileManager.default.fileExists(atPath: file + ".part"))
    }

    @Test("Where nodes have a secret, and where one serves several apps, a back end gets the database of all only with that secret")
    func severalApps() async throws {
        let (key, secret) = ("0123456789abcdef0123456789abcdef", "a secret of the whole cluster")
        let variables = [
            "ROLLCALL_APPS": "default,other", "ROLLCALL_JWT_DEFAULT_HS256": key, "ROLLCALL_JWT_OTHER_HS256": key,
            "ROLLCALL_CLUSTER_SECRET": secret,
        ]
        let node = try await ServedNode.serving([], variables)
        let cluster = ServedCluster(nodes: [node], folder: TemporaryFolder())
        let token = try signedToken(user: "operator", isAdmin: true, secret: key)
        let refused = try await backup(cluster, node: 0, ["--token", token])
        #expect(refused.status == 1 && refused.output.contains("the cluster's secret"), "\(refused.output)")
        let file = "\(cluster.directory)/settings.yaml"
        try "clusterSecret: \(secret)\n".write(toFile: file, atomically: true, encoding: .utf8)
        let made = try await backup(cluster, node: 0, ["--token", token, "--config", file])
        #expect(made.status == 0, "\(made.output)")
        for (time, status) in [("\(Int64.min)", 400), ("\(Int64.max)", 400), ("x", 400), ("", 400), ("0", 403)] {
            let answer = try await HTTPExchange.send(
                .get, host: "127.0.0.1", port: node.ports.ops, path: "/admin/v1/backup?time=\(time)&proof=00",
                headers: [("authorization", "Bearer \(token)")], body: "", on: MultiThreadedEventLoopGroup.singleton.next())
            #expect(answer.status == status, "\(time): \(answer.text)")
        }
        let user = try await backup(cluster, node: 0, ["--token", try signedToken(user: "ann", secret: key), "--config", file])
        #expect(user.status == 1, "\(user.output)")
        try await node.stop()

        // Another node of the cluster may serve further apps.
        let one = ["ROLLCALL_APPS": "default", "ROLLCALL_JWT_DEFAULT_HS256": key]
        for (more, isAllowed) in [(["ROLLCALL_CLUSTER_SECRET": secret], false), ([:], true)] {
            let single = ServedCluster(nodes: [try await ServedNode.serving([], one.merging(more) { $1 })], folder: TemporaryFolder())
            let asked = try await backup(single, node: 0, ["--token", token])
            #expect((asked.status == 0) == isAllowed, "\(asked.output)")
            try await single.stop()
        }
    }
}
