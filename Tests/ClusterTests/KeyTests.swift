import Foundation
import HTTP2
import NIOPosix
import NodeFixture
import Synchronization
import Testing

/// The keys of an app while they are replaced (<doc:Operations#Replacing-the-keys-of-an-app>).
@Suite(.serialized, .timeLimit(.minutes(5))) struct KeyTests {
    private static let secrets = ["a", "b", "c"].map { String(repeating: $0, count: 40) }
    private static let app = "shop"

    /// Nodes whose app has these settings below `jwt`, in one file.
    private struct Keys {
        let cluster: ServedCluster
        let folder: TemporaryFolder
        var file: String { "\(folder.path)/rollcall.yaml" }

        init(_ text: String, nodes: Int = 3, _ variables: [String: String] = [:]) async throws {
            folder = TemporaryFolder()
            try Self.write(text, to: "\(folder.path)/rollcall.yaml")
            cluster = try await ServedCluster.start(
                nodes: nodes, in: folder, variables, arguments: ["--config", "\(folder.path)/rollcall.yaml"])
        }

        private static func write(_ text: String, to file: String) throws {
            try "jwt:\n  \(KeyTests.app):\n\(text)\n".write(toFile: file, atomically: true, encoding: .utf8)
        }

        func set(_ text: String) throws { try Self.write(text, to: file) }

        /// Has each node read the file again, by SIGHUP or by a call.
        func reload(bySignal: Bool = false) async throws {
            for (index, node) in cluster.nodes.enumerated() {
                if bySignal {
                    let count = node.log.split(separator: "\n").count { $0.contains("keys reloaded") }
                    node.signal(SIGHUP)
                    try await node.until("it has read its keys again") {
                        node.log.split(separator: "\n").count { $0.contains("keys reloaded") } > count
                    }
                } else {
                    let answer = try await cluster.admin("reloadKeys", "{}", node: index)
                    try #require(answer.status == 200, "\(answer.json)")
                }
            }
        }

        /// The answer of a node to a token.
        func answer(_ token: String, node: Int = 0) async throws -> (status: Int, code: Int64?, detail: String) {
            let response = try await HTTPExchange.send(
                .post, host: "127.0.0.1", port: cluster.nodes[node].ports.client, path: "/v1/getVisibility",
                headers: [("authorization", "Bearer \(token)")], body: "{}",
                on: MultiThreadedEventLoopGroup.singleton.next())
            let json = try JSON(response.body)
            return (response.status, json["code"]?.number, json["detail"]?.text ?? "")
        }
    }

    private static func secrets(_ indices: [Int]) -> String {
        "    hs256: [\(indices.map { secrets[$0] }.joined(separator: ", "))]"
    }

    private static func token(_ index: Int, user: String = "ann") throws -> String {
        try signedToken(user: user, app: app, secret: secrets[index])
    }

    // MARK: Rotation

    /// Event streams that are read until they end.
    private final class HeldStreams: Sendable {
        private let opened = Mutex(0)
        private let ended = Mutex(0)
        let changes = ChangeSignal()

        func openedCount() -> Int { opened.withLock { $0 } }

        func endedCount() -> Int { ended.withLock { $0 } }

        func hold(port: Int, token: String) async {
            let stream = HTTPExchange.stream(
                host: "127.0.0.1", port: port, path: "/v1/events?platform=web", headers: [("authorization", "Bearer \(token)")],
                on: MultiThreadedEventLoopGroup.singleton.next())
            var isFirst = true
            do {
                for try await _ in stream where isFirst {
                    isFirst = false
                    opened.withLock { $0 += 1 }
                    changes.notify()
                }
            } catch { changes.notify() }
            ended.withLock { $0 += 1 }
            changes.notify()
        }
    }

    /// Makes calls one after the other at all nodes, by ten callers. Returns the answers that were not 200.
    private static func calls(_ count: Int, _ keys: Keys, secret index: Int) async throws -> [String] {
        try await withThrowingTaskGroup(of: [String].self) { group in
            for caller in 0..<10 {
                group.addTask {
                    var refused: [String] = []
                    for call in 0..<count / 10 {
                        let answer = try await keys.answer(try token(index, user: "user\(caller)"), node: (caller + call) % 3)
                        if answer.status != 200 { refused.append("\(answer)") }
                    }
                    return refused
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
    }

    @Test("While keys are replaced twice under load no call is refused and no stream ends, and each old key is refused after its end")
    func rotation() async throws {
        let keys = try await Keys(Self.secrets([0]))
        let held = HeldStreams()
        let streams = try (0..<200).map { index in
            let (port, token) = (keys.cluster.nodes[index % 3].ports.client, try Self.token(0, user: "viewer\(index)"))
            return Task { await held.hold(port: port, token: token) }
        }
        let (opened, ended, changes) = (held.openedCount, held.endedCount, held.changes)
        try await changes.until("200 streams are open") { opened() == 200 }
        var refused: [String] = []
        for (old, new) in [(0, 1), (1, 2)] {
            // The new secret is made known before anybody signs with it.
            async let before = Self.calls(250, keys, secret: old)
            try keys.set(Self.secrets([new, old]))
            try await keys.reload(bySignal: old == 0)
            refused += try await before
            #expect(try await keys.answer(try Self.token(new), node: 1).status == 200)
            // The old one goes when nobody signs with it any more.
            async let after = Self.calls(250, keys, secret: new)
            try keys.set(Self.secrets([new]))
            try await keys.reload(bySignal: old == 1)
            for node in 0..<3 {
                // The users whose tokens the nodes have verified before.
                for user in ["ann", "user0", "user9"] {
                    let answer = try await keys.answer(try Self.token(old, user: user), node: node)
                    #expect(answer.status == 401 && answer.detail == "the token is not signed by a key of app \"shop\"", "\(answer)")
                }
            }
            refused += try await after
        }
        #expect(refused == [])
        #expect(ended() == 0 && opened() == 200)
        for stream in streams { stream.cancel() }
        try await keys.cluster.stop()
    }

    @Test("A token that a connection has used is refused on that connection once its key is removed") func openConnection() async throws {
        let keys = try await Keys(Self.secrets([0]), nodes: 1)
        let connection = try RawConnection(port: keys.cluster.nodes[0].ports.client)
        let body = #"{"userIDs":["ann"]}"#
        let request = Array(
            """
            POST /v1/getUserStatus HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(try Self.token(0))\r\nContent-Length: \(body.count)\r\n\r\n\(body)
            """.utf8)
        for _ in 0..<2 {
            connection.send(request)
            #expect(try await connection.receiveAnswer().hasPrefix("HTTP/1.1 200 "))
        }
        try keys.set(Self.secrets([1]))
        try await keys.reload()
        connection.send(request)
        #expect(try await connection.receiveAnswer().hasPrefix("HTTP/1.1 401 "))
        connection.close()
        try await keys.cluster.stop()
    }

    @Test("Invalid settings change no key, and the answer and the log name the setting") func invalidFile() async throws {
        let keys = try await Keys(Self.secrets([0]))
        for (text, setting) in [
            ("    hs256: [\(Self.secrets[0]), short]", "jwt.shop.hs256"), ("    hs265: x", "jwt.shop.hs265"), ("   [", "config"),
        ] {
            try keys.set(text)
            let answer = try await keys.cluster.admin("reloadKeys", "{}", node: 1)
            #expect(answer.status == 409 && answer.json["code"]?.number == 6017, "\(answer.json)")
            #expect(answer.json["detail"]?.text?.contains("\(setting): ") == true, "\(answer.json)")
            #expect(try await keys.answer(try Self.token(0), node: 1).status == 200)
        }
        let node = keys.cluster.nodes[1]
        try await node.until("the log has three lines") { node.log.split(separator: "\n").count { $0.contains("keys not reloaded") } == 3 }
        #expect(!node.log.contains(Self.secrets[0]))
        let refused = try await keys.cluster.call("reloadKeys", "{}", as: "ann")
        #expect(refused.status == 404, "it is an operation of operators")
        try await keys.cluster.stop()
    }

    @Test("reloadKeys names the keys of the caller's app, and not the keys themselves") func namesOfKeys() async throws {
        let keys = try await Keys(Self.secrets([0, 1]), nodes: 1)
        let token = try signedToken(user: "operator", app: Self.app, isAdmin: true, secret: Self.secrets[0])
        let response = try await HTTPExchange.send(
            .post, host: "127.0.0.1", port: keys.cluster.nodes[0].ports.ops, path: "/admin/v1/reloadKeys",
            headers: [("authorization", "Bearer \(token)")], body: "{}", on: MultiThreadedEventLoopGroup.singleton.next())
        #expect(
            response.text.contains(#"{"node":"n0","keys":[{"alg":"HS256","source":"hs256"},{"alg":"HS256","source":"hs256"}]}"#),
            "\(response.text)")
        try await keys.cluster.stop()
    }

    // MARK: Key sets

    @Test("A key set is fetched, a removed key is refused, and a URL that fails keeps the last keys") func keySet() async throws {
        let (one, two) = (ProviderKey("one"), ProviderKey("two"))
        let server = try await TextServer.start(ProviderKey.set([one]))
        let keys = try await Keys("    jwksUrl: http://127.0.0.1:\(server.port)/keys")
        #expect(server.requestsCount == 3, "each node has fetched it before it served")
        let first = try one.token(user: "ann", app: Self.app)
        let second = try two.token(user: "ann", app: Self.app)
        for node in 0..<3 {
            #expect(try await keys.answer(first, node: node).status == 200)
            for _ in 0..<20 {
                let unknown = try await keys.answer(second, node: node)
                #expect(unknown.status == 401 && unknown.detail == "kid: no key of app \"shop\" has the ID of the token", "\(unknown)")
            }
        }
        #expect(server.requestsCount <= 6, "unknown keys have it fetched once in 10 s at each node")
        // A new key is found without an operator.
        server.set(ProviderKey.set([one, two]))
        for node in 0..<3 {
            try await keys.cluster.until("node \(node) knows the new key") { try await keys.answer(second, node: node).status == 200 }
        }
        server.set("not now", status: 500)
        try await keys.reload()
        let third = try ProviderKey("three").token(user: "ann", app: Self.app)
        for node in 0..<3 {
            for token in [first, second] { #expect(try await keys.answer(token, node: node).status == 200) }
            let unknown = try await keys.answer(third, node: node)
            #expect(unknown.status == 503 && unknown.code == 50001 && unknown.detail.contains("cannot be fetched"), "\(unknown)")
            let failing = keys.cluster.nodes[node]
            try await failing.until("the log says why") { failing.log.contains("the server answered 500") }
        }
        server.set(ProviderKey.set([two]))
        try await keys.reload()
        for node in 0..<3 {
            #expect(try await keys.answer(first, node: node).status == 401)
            #expect(try await keys.answer(second, node: node).status == 200)
        }
        await server.stop()
        try await keys.cluster.stop()
    }

    @Test("A node starts without the server of a key set, answers 503 meanwhile, and finds the keys later") func lateKeySet() async throws {
        let key = ProviderKey("one")
        let server = try await TextServer.start("")
        server.set("", status: 503)
        let keys = try await Keys("    jwksUrl: http://127.0.0.1:\(server.port)/keys", nodes: 1)
        let token = try key.token(user: "ann", app: Self.app)
        let early = try await keys.answer(token)
        #expect(early.status == 503 && early.code == 50001, "\(early)")
        server.set(ProviderKey.set([key]))
        try await keys.cluster.until("the node knows the key") { try await keys.answer(token).status == 200 }
        await server.stop()
        try await keys.cluster.stop()
    }

    // MARK: Audiences and issuers

    @Test("aud and iss are checked where they are configured, and named in the refusal") func audience() async throws {
        let keys = try await Keys("\(Self.secrets([0]))\n    audience: [chat, shop]\n    issuer: https://idp.example")
        let end = Int(Date().timeIntervalSince1970) + 600
        for (claims, detail) in [
            (#""aud":["game","shop"],"iss":"https://idp.example""#, nil), (#""aud":"chat","iss":"https://idp.example""#, nil),
            (#""aud":"game","iss":"https://idp.example""#, "aud: is for another audience; it must be \"chat\" or \"shop\""),
            (#""iss":"https://idp.example""#, "aud: is missing; it must be \"chat\" or \"shop\", or a list with it"),
            (#""aud":"chat","iss":"https://other.example""#, "iss: is another issuer; it must be \"https://idp.example\""),
            (#""aud":"chat","iss":7"#, "iss: is a number; it must be \"https://idp.example\""),
        ] as [(String, String?)] {
            let text = #"{"sub":"ann","app":"shop","exp":\#(end),\#(claims)}"#
            let token = signedToken(claims: Data(text.utf8), secret: Self.secrets[0])
            for node in 0..<3 {
                let answer = try await keys.answer(token, node: node)
                #expect(answer.status == (detail == nil ? 200 : 401) && answer.detail == detail ?? "", "\(answer)")
            }
        }
        try await keys.cluster.stop()
    }

    // MARK: rollcall check-token

    @Test("check-token says the same as a node, claim by claim, with the configuration or by asking the node")
    func checkToken() async throws {
        let keys = try await Keys(Self.secrets([0]))
        let (good, foreign) = (try Self.token(0), try Self.token(1))
        let numeric = signedToken(claims: Data(#"{"sub":7,"app":"shop","exp":1}"#.utf8), secret: Self.secrets[0])
        let target = "http://127.0.0.1:\(keys.cluster.nodes[2].ports.client)"
        for source in [["--config", keys.file], ["--target", target]] {
            let isLocal = source[0] == "--config"
            let valid = try await RollcallBinary.run(["check-token", good] + source)
            #expect(valid.status == 0 && valid.output.contains("\nvalid"), "\(valid.output)")
            #expect(valid.output.contains(#/\nsub +"ann" +ok +the user ann\n/#), "\(valid.output)")
            #expect(valid.output.contains(#/\nexp +[0-9]+ +ok +ends 20[0-9T:-]+Z, in 8[0-9]+ s\n/#), "\(valid.output)")
            let unsigned = try await RollcallBinary.run(["check-token", foreign] + source)
            let reason = "the token is not signed by a key of app \"shop\"\n"
            #expect(unsigned.status == 1 && unsigned.output.contains(reason), "\(unsigned.output)")
            #expect(unsigned.output.contains("\ninvalid: ") && unsigned.output.contains(isLocal ? "signature" : target))
            let wrong = try await RollcallBinary.run(["check-token", numeric] + source)
            #expect(wrong.status == 1 && wrong.output.contains("sub: is a number; it must be a text\n"), "\(wrong.output)")
            #expect(wrong.output.contains("exp: the token has expired\n"), "the other claims are named as well: \(wrong.output)")
        }
        let junk = try await RollcallBinary.run(["check-token", "junk"])
        #expect(junk.status == 1 && junk.output.hasPrefix("invalid: the token is not three parts"), "\(junk.output)")
        let signature = try #require(good.split(separator: ".").last)
        for node in keys.cluster.nodes { #expect(!node.log.contains(signature)) }
        let gone = try await RollcallBinary.run(["check-token", good, "--target", "http://127.0.0.1:9"])
        #expect(gone.status == 69, "\(gone.output)")
        // The ops port has no such call. It does not know the token.
        let ops = "http://127.0.0.1:\(keys.cluster.nodes[2].ports.ops)"
        let elsewhere = try await RollcallBinary.run(["check-token", foreign, "--target", ops])
        #expect(elsewhere.status == 69 && !elsewhere.output.contains("valid: "), "\(elsewhere.output)")
        #expect(elsewhere.output.contains("answered 404") && elsewhere.output.contains("client port"), "\(elsewhere.output)")
        try await keys.cluster.stop()
    }
}
