import Foundation
import Glibc
import HTTP2
import NIOCore
import NIOPosix
import NodeFixture
import Testing

/// The exit codes of the command (`rollcall --help`), after `sysexits.h`.
enum ExitCode {
    static let usage: Int32 = 64
    static let unavailable: Int32 = 69
    static let inputOutput: Int32 = 74
}

/// Nodes in processes of their own, and what they are to one another.
@Suite(.serialized, .timeLimit(.minutes(5))) struct ClusterTests {
    private static let scenarios = ["steady", "celebrity", "mesh", "login-storm", "flapping", "social"]

    @Test("No push is lost", arguments: scenarios) func pushes(scenario: String) async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        let urls = { (port: (ServedNode.Ports) -> Int) in
            fixture.nodes.map { "http://127.0.0.1:\(port($0.ports))" }.joined(separator: ",")
        }
        let file = "\(fixture.directory)/report.json"
        let ended = try await RollcallBinary.run([
            "simulate", "--verify", "--scenario", scenario, "--users", "200", "--watch", "10", "--rate",
            scenario == "celebrity" ? "20" : "100", "--duration", "3", "--seed", "1", "--target", urls(\.client), "--ops", urls(\.ops),
            "--json", file,
        ])
        #expect(ended.status == 0, "\(ended.output)")
        let report = try JSON(Data(contentsOf: URL(filePath: file)))
        #expect(report["isVerifying"] == .bool(true))
        #expect(try #require(report["pushes"]?.number) > 200)
        #expect(try #require(report["counters"]?["compared"]?.number) >= 3)
        try await fixture.stop()
    }

    @Test("The load simulator has no other scenarios than those that are tried") func allScenarios() async throws {
        let help = try await RollcallBinary.run(["simulate", "--help"]).output.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        #expect(help.contains("Scenario: \(Self.scenarios.joined(separator: ", ")). "), "\(help)")
    }

    @Test("An operator lists the members and drains a node") func drain() async throws {
        let fixture = try await ServedCluster.start(nodes: 2)
        let call = { (operation: String, isAdmin: Bool) in
            let token = try signedToken(user: "operator", isAdmin: isAdmin)
            return try await HTTPExchange.send(
                .post, host: "127.0.0.1", port: fixture.nodes[0].ports.ops, path: "/admin/v1/\(operation)",
                headers: [("authorization", "Bearer \(token)")], body: "{}", on: MultiThreadedEventLoopGroup.singleton.next())
        }
        #expect(try await call("clusterStatus", false).status == 403)
        #expect(try await call("nothing", true).status == 404)
        let members = try JSON(try await call("clusterStatus", true).body)["members"]?.elements ?? []
        #expect(members.map { $0["state"]?.text } == ["alive", "alive"])
        #expect(members.compactMap { $0["slotsOwned"]?.number }.reduce(0, +) == 65_536)
        #expect(try await call("drain", true).text == "{\"isDraining\":true}\n")
        try await fixture.until("the other node owns every slot") {
            try await fixture.nodes[1].metricsText().contains("rollcall_slots_owned 65536\n")
        }
        #expect(try await fixture.call("setSelfStatus", #"{"customStatus":"goes on"}"#, node: 1).status == 200)
        try await fixture.stop()
    }

    private static let secret = ["ROLLCALL_CLUSTER_SECRET": "the secret of this cluster"]

    @Test("Nodes with the same secret join through a DNS name") func joinByName() async throws {
        let first = try await ServedCluster.start(Self.secret)
        let contact = "localhost:\(first.nodes[0].ports.cluster)"
        let second = try await ServedNode.serving(["--dev", "--join", contact], Self.secret, named: "n1", in: first.folder)
        let fixture = ServedCluster(nodes: first.nodes + [second], folder: first.folder)
        try await fixture.untilComplete()
        // The name may stand for more addresses than nodes listen on.
        try await fixture.until("what nobody has answered at is tried no more") {
            try await second.metricsText().contains("rollcall_links{state=\"up\"} 1\nrollcall_links{state=\"down\"} 0\n")
        }
        try await fixture.stop()
    }

    @Test("A node that the cluster refuses does not start") func refusedNode() async throws {
        let fixture = try await ServedCluster.start(Self.secret)
        for secret in [["ROLLCALL_CLUSTER_SECRET": "another one, as long"], [:]] {
            try await expectRefused(fixture, "its cluster secret differs from that of this node", [], secret)
        }
        let reason = "cluster name \"another\" differs from \"rollcall\"; configure one name on all nodes"
        try await expectRefused(fixture, reason, ["--cluster", "another"], Self.secret)
        #expect(try await fixture.nodes[0].metricsText().contains("rollcall_members{state=\"alive\"} 1\n"))
        // The same disk is good for a node that is welcome.
        let contact = "127.0.0.1:\(fixture.nodes[0].ports.cluster)"
        let node = try await ServedNode.serving(["--dev", "--join", contact], Self.secret, named: "stranger", in: fixture.folder)
        try await fixture.until("two members") {
            try await node.metricsText().contains("rollcall_members{state=\"alive\"} 2\n")
        }
        try await node.stop()
        try await fixture.stop()
    }

    @Test("Nodes with certificates join, and one without does not") func certificates() async throws {
        let temporary = TemporaryFolder()
        let folder = temporary.path
        for name in ["node", "stranger"] {
            let made = try await run(
                "openssl",
                [
                    "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                    "/CN=\(name)",
                    "-keyout", "\(folder)/\(name).key", "-out", "\(folder)/\(name).pem",
                ])
            #expect(made.status == 0, "\(made.output)")
        }
        let use = { (name: String) in
            [
                "--cluster-tls-certificate", "\(folder)/\(name).pem", "--cluster-tls-key", "\(folder)/\(name).key", "--cluster-tls-ca",
                "\(folder)/node.pem",
            ]
        }
        let fixture = try await ServedCluster.start(nodes: 2, in: temporary, arguments: use("node"))
        try await expectRefused(fixture, "the TLS handshake failed: TLSV1_ALERT_UNKNOWN_CA", use("stranger"))
        try await expectRefused(fixture, "the peer closes connections without an answer; the peer may use TLS, this node does not")
        try await fixture.stop()
        let open = try await ServedCluster.start(nodes: 1)
        try await expectRefused(open, "the peer does not answer in TLS; the peer may not use TLS, this node does", use("node"))
        try await open.stop()
    }

    @Test("The error names a contact point that is not a cluster port") func wrongContactPoint() async throws {
        let fixture = try await ServedCluster.start(nodes: 1)
        let client = fixture.nodes[0].ports.client
        try await expectRefused(fixture, "not a Rollcall cluster port: the peer answered with HTTP status 404", at: client)
        try await fixture.stop()
    }

    /// While the one asks the other has only its port, and says nothing but that it is starting.
    @Test("Of two nodes that refuse each other and start at once, at most one serves") func twoRefuse() async throws {
        let folder = TemporaryFolder()
        let ports = try await Self.freePorts(2)
        let contacts = ports.map { "127.0.0.1:\($0)" }.joined(separator: ",")
        let nodes = try ports.enumerated().map { index, port in
            try ServedNode(
                ["--dev", "--cluster-listen", "127.0.0.1:\(port)", "--join", contacts],
                ["ROLLCALL_CLUSTER_SECRET": "the secret of number \(index)"], named: "n\(index)", in: folder)
        }
        try await nodes[0].until("each serves or has ended") { nodes.allSatisfy { $0.isServing || !$0.isRunning } }
        #expect(nodes.count(where: \.isServing) <= 1)
        for node in nodes where !node.isServing {
            #expect(try await node.ended() == ExitCode.unavailable)
            #expect(node.log.contains("its cluster secret differs from that of this node\n"), "\(node.log)")
        }
        for node in nodes where node.isServing { try await node.stop() }
    }

    /// Ports without a listener, found by listening on them.
    private static func freePorts(_ count: Int) async throws -> [Int] {
        var listeners: [any Channel] = []
        for _ in 0..<count {
            listeners.append(try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton).bind(host: "127.0.0.1", port: 0).get())
        }
        let ports = listeners.compactMap { $0.localAddress?.port }
        for listener in listeners { try await listener.close() }
        return ports
    }

    /// Starts one more node, which the cluster is to refuse.
    ///
    /// - Parameter contact: the port through which it joins; nil for the cluster port of the first node.
    private func expectRefused(
        _ cluster: ServedCluster, _ reason: String, at contact: Int? = nil, _ arguments: [String] = [], _ variables: [String: String] = [:]
    ) async throws {
        let contact = "127.0.0.1:\(contact ?? cluster.nodes[0].ports.cluster)"
        let node = try ServedNode(["--dev", "--join", contact] + arguments, variables, named: "stranger", in: cluster.folder)
        #expect(try await node.ended() == ExitCode.unavailable)
        #expect(node.log.contains("rollcall: the cluster refuses this node: \(contact): \(reason)\n"), "\(node.log)")
        let members = "rollcall_members{state=\"alive\"} \(cluster.nodes.count)\n"
        #expect(try await cluster.nodes[0].metricsText().contains(members))
    }

    @Test("An answered change survives a restart") func restart() async throws {
        var first = try await ServedCluster.start()
        #expect(try await first.call("setSelfStatus", #"{"customStatus":"kept"}"#).status == 200)
        #expect(try await first.call("subscribeUserStatus", #"{"userIDs":["bob","carl"]}"#).status == 200)
        let folder = first.folder
        try await first.nodes[0].stop()
        first = try await ServedCluster.start(in: folder)
        let status = try await first.call("getUserStatus", #"{"userIDs":["ann"]}"#).json["userStatusList"]!.elements[0]
        #expect(status["customStatus"]?.text == "kept")
        #expect(try await first.call("getSubscribedUserStatus", "{}").json["total"]?.number == 2)
        try await first.stop()
    }

    @Test("A node with a damaged file is not ready before it has met another node") func damagedFileAlone() async throws {
        let fixture = try await ServedCluster.start()
        #expect(try await fixture.call("setSelfStatus", #"{"customStatus":"kept"}"#).status == 200)
        try await fixture.nodes[0].stop()
        let file = URL(fileURLWithPath: "\(fixture.nodes[0].dataDirectory)/rollcall.sqlite")
        try Data(try Data(contentsOf: file).prefix(5_000)).write(to: file)
        let node = try await ServedNode.serving(["--dev", "--join", "127.0.0.1:1"], named: "n0", in: fixture.folder)
        #expect(try await node.ops("/readyz").status == 503)
        try await node.stop()
    }

    /// Over HTTP/1.1 a client says nothing once its stream is open.
    @Test("A user whose connection ends was last seen at that moment") func lastSeen() async throws {
        let fixture = try await ServedCluster.start(["ROLLCALL_OFFLINE_GRACE": "0"])
        var asked = 0
        let ask = {
            asked += 1  // Somebody else each time: one user may not ask so often.
            return try await fixture.call("getUserStatus", #"{"userIDs":["ann"]}"#, as: "bob\(asked)").json
        }
        let token = try signedToken(user: "ann")
        let socket = try SilentClient(port: fixture.nodes[0].ports.client, tokenOverHTTP1: token)
        try await fixture.until("ann is online") { try await ask()["userStatusList"]?.elements[0]["statusType"]?.text == "ONLINE" }
        let login = try #require(try await ask()["userStatusList"]?.elements[0]["lastSeenTime"]?.number)
        var now = login
        while now < login + 50 { now = try #require(try await ask()["asOf"]?.number) }
        socket.close()
        try await fixture.until("ann is offline") { try await ask()["userStatusList"]?.elements[0]["statusType"]?.text == "OFFLINE" }
        #expect(try #require(try await ask()["userStatusList"]?.elements[0]["lastSeenTime"]?.number) >= now)
        try await fixture.stop()
    }

    @Test("Only a back end may open the stream of a user that it names") func backEndStream() async throws {
        let fixture = try await ServedCluster.start()
        let path = "/v1/events?platform=web&asUser=ann"
        let (port, loop) = (fixture.nodes[0].ports.client, MultiThreadedEventLoopGroup.singleton.next())
        var tokens: [String] = []
        for isAdmin in [false, true] { tokens.append("Bearer \(try signedToken(user: "bob", isAdmin: isAdmin))") }
        let refused = try await HTTPExchange.send(
            .get, host: "127.0.0.1", port: port, path: path, headers: [("authorization", tokens[0])], on: loop)
        #expect(refused.status == 403 && String(decoding: refused.body, as: UTF8.self).contains("asUser: only a token with role"))
        let stream = HTTPExchange.stream(host: "127.0.0.1", port: port, path: path, headers: [("authorization", tokens[1])], on: loop)
        for try await event in stream {
            #expect(String(decoding: event, as: UTF8.self).contains(#""userID":"ann""#))
            break
        }
        try await fixture.stop()
    }

    @Test("The session of a silent client is lost after the heartbeat timeout") func silentClient() async throws {
        let fixture = try await ServedCluster.start([
            "ROLLCALL_HEARTBEAT_INTERVAL": "1", "ROLLCALL_HEARTBEAT_TIMEOUT": "2", "ROLLCALL_OFFLINE_GRACE": "0",
        ])
        let socket = try SilentClient(port: fixture.nodes[0].ports.client, token: try signedToken(user: "ann"))
        let status = {
            try await fixture.call("getUserStatus", #"{"userIDs":["ann"]}"#, as: "bob").json["userStatusList"]?.elements[0]["statusType"]?
                .text
        }
        try await fixture.until("ann is online") { try await status() == "ONLINE" }
        try await fixture.until("ann is offline") { try await status() == "OFFLINE" }
        socket.close()
        try await fixture.stop()
    }

    @Test("On a silent connection only the session whose platform has timed out is lost") func platformTimeouts() async throws {
        let fixture = try await ServedCluster.start(["ROLLCALL_HEARTBEAT_INTERVAL": "1", "ROLLCALL_OFFLINE_GRACE": "0"])
        // The least that a policy may say.
        try await fixture.setPolicy(#"{"liveness.timeoutByPlatform":{"web":15}}"#)
        let token = try signedToken(user: "ann")
        let socket = try SilentClient(
            port: fixture.nodes[0].ports.client, token: token, paths: ["/v1/events?platform=web", "/v1/events?platform=ios"])
        let platforms = {
            let answer = try await fixture.call("getUserStatus", #"{"userIDs":["ann"]}"#, as: "bob")
            return answer.json["userStatusList"]?.elements[0]["onlinePlatforms"]?.elements.compactMap(\.text)
        }
        try await fixture.until("both are there") { try await platforms() == ["ios", "web"] }
        try await fixture.until("one is lost") { try await platforms() == ["ios"] }
        #expect(try await fixture.nodes[0].metricsText().contains("rollcall_sessions_silent_total 1\n"))
        socket.close()
        try await fixture.stop()
    }

    @Test("The first event is onConnected") func firstEvent() async throws {
        let fixture = try await ServedCluster.start()
        for try await piece in try fixture.events("ann") {
            let text = String(decoding: piece, as: UTF8.self)
            #expect(text.hasPrefix("event: onConnected\n"))
            #expect(text.contains(#""heartbeatTimeout":400"#))
            break
        }
        try await fixture.stop()
    }
}
