import Foundation
import Glibc
import HTTP2
import LoadSimulator
import Logging
import NIOPosix
import NodeFixture
import PresenceNode
import PresenceWire
import Testing

/// Three nodes on real sockets, in one process.
@Suite(.serialized, .timeLimit(.minutes(5))) struct ClusterTests {
    @Test("No push is lost", arguments: Scenario.allCases) func pushes(scenario: Scenario) async throws {
        let fixture = try await Fixture.start(nodes: 3)
        var options = SimulationOptions(targets: fixture.nodes.map { .init(host: "127.0.0.1", port: $0.ports.client) })
        options.opsTargets = fixture.nodes.map { .init(host: "127.0.0.1", port: $0.ports.ops) }
        options.scenario = scenario
        options.users = 200
        options.watch = 10
        options.rate = scenario == .celebrity ? 20 : 100
        options.duration = 3
        options.verify = true
        options.graceSeconds = 1.2
        let mint = try await TokenMint()
        let simulation = try await Simulation(options) { "Bearer \(try await mint.token(user: $0))" }
        let report = try await simulation.run()
        #expect(report.isVerified, "\(report.summary)")
        #expect(report.pushes > 200)
        #expect(report.countersCompared >= 3)
        try await fixture.stop()
    }

    @Test("An operator lists the members and drains a node") func drain() async throws {
        let fixture = try await Fixture.start(nodes: 2)
        let call = { (operation: String, isAdmin: Bool) in
            let token = try await TokenMint().token(user: "operator", isAdmin: isAdmin)
            return try await HTTPExchange.send(
                .post, host: "127.0.0.1", port: fixture.nodes[0].ports.ops, path: "/admin/v1/\(operation)",
                headers: [("authorization", "Bearer \(token)")], body: "{}", on: MultiThreadedEventLoopGroup.singleton.next())
        }
        #expect(try await call("clusterStatus", false).status == 403)
        #expect(try await call("nothing", true).status == 404)
        let members = try JSONReader.read(try await call("clusterStatus", true).body)["members"]?.elements ?? []
        #expect(members.map { $0["state"]?.text } == ["alive", "alive"])
        #expect(members.compactMap { $0["slotsOwned"]?.number }.reduce(0, +) == 65_536)
        #expect(try await call("drain", true).text == "{\"isDraining\":true}")
        try await fixture.until("the other node owns every slot") {
            try await fixture.nodes[1].metricsText().contains("rollcall_slots_owned 65536\n")
        }
        #expect(try await fixture.call("setSelfStatus", #"{"customStatus":"goes on"}"#, node: 1).status == 200)
        try await fixture.stop()
    }

    @Test("Nodes with the same secret join through a DNS name") func joinByName() async throws {
        let fixture = try await Fixture.start(nodes: 2) { configuration in
            configuration.clusterSecret = "the secret of this cluster"
            configuration.join = configuration.join.map { HostPort(host: "localhost", port: $0.port) }
        }
        // The name may stand for more addresses than nodes listen on.
        try await fixture.until("what nobody has answered at is tried no more") {
            try await fixture.nodes[1].metricsText().contains("rollcall_links{state=\"up\"} 1\nrollcall_links{state=\"down\"} 0\n")
        }
        try await fixture.stop()
    }

    @Test("A node that the cluster refuses does not start") func refusedNode() async throws {
        let fixture = try await Fixture.start { $0.clusterSecret = "the secret of this cluster" }
        for secret in ["another one, as long", nil] {
            try await expectRefused(fixture, "its cluster secret differs from that of this node") { $0.clusterSecret = secret }
        }
        try await expectRefused(fixture, "cluster name \"another\" differs from \"rollcall\"; configure one name on all nodes") {
            $0.cluster = "another"
        }
        #expect(try await fixture.nodes[0].metricsText().contains("rollcall_members{state=\"alive\"} 1\n"))
        // The same disk is good for a node that is welcome.
        let node = try await RollcallNode.start(stranger(to: fixture), logger: Logger(label: "welcome"))
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
        let use = { (configuration: inout NodeConfiguration, name: String) in
            configuration.clusterTLSCertificate = "\(folder)/\(name).pem"
            configuration.clusterTLSKey = "\(folder)/\(name).key"
            configuration.clusterTLSAuthority = "\(folder)/node.pem"
        }
        let fixture = try await Fixture.start(nodes: 2, in: temporary) { use(&$0, "node") }
        try await expectRefused(fixture, "the TLS handshake failed: TLSV1_ALERT_UNKNOWN_CA") { use(&$0, "stranger") }
        try await expectRefused(fixture, "the peer closes connections without an answer; the peer may use TLS, this node does not") {
            configuration in
            (configuration.clusterTLSCertificate, configuration.clusterTLSKey, configuration.clusterTLSAuthority) = (nil, nil, nil)
        }
        try await fixture.stop()
        let open = try await Fixture.start(nodes: 1)
        try await expectRefused(open, "the peer does not answer in TLS; the peer may not use TLS, this node does") { use(&$0, "node") }
        try await open.stop()
    }

    @Test("The error names a contact point that is not a cluster port") func wrongContactPoint() async throws {
        let fixture = try await Fixture.start(nodes: 1)
        let client = HostPort(host: "127.0.0.1", port: fixture.nodes[0].ports.client)
        try await expectRefused(fixture, "not a Rollcall cluster port: the peer answered with HTTP status 404") { $0.join = [client] }
        try await fixture.stop()
    }

    /// While the one asks the other has only its port, and says nothing but that it is starting.
    @Test("Of two nodes that refuse each other and start at once, at most one serves") func twoRefuse() async throws {
        let fixture = try await Fixture.start(nodes: 1)
        let folder = TemporaryFolder()
        let ports = try Self.freePorts(2)
        let start = { (index: Int) in
            var configuration = fixture.nodes[0].configuration
            configuration.nodeID = "n\(index)"
            configuration.dataDirectory = "\(folder.path)/\(index)"
            configuration.clusterSecret = "the secret of number \(index)"
            configuration.clusterListen.port = ports[index]
            configuration.join = ports.map { HostPort(host: "127.0.0.1", port: $0) }
            return configuration
        }
        let (first, second) = (start(0), start(1))
        async let one = Self.outcome(first)
        async let other = Self.outcome(second)
        var (serving, reasons): ([RollcallNode], [String]) = ([], [])
        for outcome in await [one, other] {
            do { serving.append(try outcome.get()) } catch let error as JoinError { reasons.append(error.reason) }
        }
        #expect(serving.count <= 1 && reasons.allSatisfy { $0.hasSuffix("its cluster secret differs from that of this node") })
        for node in serving { try await node.stop() }
        try await fixture.stop()
    }

    private static func outcome(_ configuration: NodeConfiguration) async -> Result<RollcallNode, any Error> {
        do { return .success(try await RollcallNode.start(configuration, logger: Logger(label: configuration.nodeID))) } catch {
            return .failure(error)
        }
    }

    /// Ports without a listener, found by listening on them.
    private static func freePorts(_ count: Int) throws -> [Int] {
        let listeners = try (0..<count).map { _ in
            try ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton).bind(host: "127.0.0.1", port: 0).wait()
        }
        defer { for listener in listeners { try? listener.close().wait() } }
        return listeners.compactMap { $0.localAddress?.port }
    }

    /// One more node, with a configuration that is to be changed.
    private func stranger(to fixture: Fixture) -> NodeConfiguration {
        var configuration = fixture.nodes[0].configuration
        configuration.nodeID = "stranger"
        configuration.dataDirectory += "-stranger"
        configuration.join = [HostPort(host: "127.0.0.1", port: fixture.nodes[0].ports.cluster)]
        return configuration
    }

    private func expectRefused(_ fixture: Fixture, _ reason: String, _ change: (inout NodeConfiguration) -> Void) async throws {
        var configuration = stranger(to: fixture)
        change(&configuration)
        let contact = configuration.join[0]
        await #expect(throws: JoinError(reason: "\(contact): \(reason)")) {
            try await RollcallNode.start(configuration, logger: Logger(label: "stranger"))
        }
        let members = "rollcall_members{state=\"alive\"} \(fixture.nodes.count)\n"
        #expect(try await fixture.nodes[0].metricsText().contains(members))
    }

    @Test("An answered change survives a restart") func restart() async throws {
        var first = try await Fixture.start()
        #expect(try await first.call("setSelfStatus", #"{"customStatus":"kept"}"#).status == 200)
        #expect(try await first.call("subscribeUserStatus", #"{"userIDs":["bob","carl"]}"#).status == 200)
        let folder = first.folder
        try await first.nodes[0].stop()
        first = try await Fixture.start(in: folder)
        let status = try await first.call("getUserStatus", #"{"userIDs":["ann"]}"#).json["userStatusList"]!.elements[0]
        #expect(status["customStatus"]?.text == "kept")
        #expect(try await first.call("getSubscribedUserStatus", "{}").json["total"]?.number == 2)
        try await first.stop()
    }

    @Test("A node with a damaged file comes back with the rows of the others") func damagedFile() async throws {
        let fixture = try await Fixture.start(nodes: 3)
        for user in 0..<60 {
            #expect(try await fixture.call("setSelfStatus", #"{"customStatus":"kept"}"#, as: "u\(user)").status == 200)
            #expect(try await fixture.call("subscribeUserStatus", #"{"userIDs":["bob","carl"]}"#, as: "u\(user)").status == 200)
        }
        let folders = fixture.nodes.map { $0.configuration.dataDirectory }
        var configuration = fixture.nodes[2].configuration
        try await fixture.nodes[2].stop()
        let file = URL(fileURLWithPath: "\(folders[2])/rollcall.sqlite")
        var content = try Data(contentsOf: file)
        for page in 2..<content.count / 4_096 where page % 2 == 0 { content[page * 4_096 + 3_000] ^= 0xFF }
        try content.write(to: file)
        configuration.join = []
        await #expect(throws: StoreError.self) { try await RollcallNode.start(configuration, logger: Logger(label: "alone")) }
        #expect(try Data(contentsOf: file) == content)
        configuration.join = [HostPort(host: "127.0.0.1", port: fixture.nodes[0].ports.cluster)]
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let node = try await RollcallNode.start(configuration, logger: logger)
        let metrics = try await node.metricsText()
        #expect(metrics.contains("rollcall_store_damaged_files_total 1\n") && metrics.contains("rollcall_store_incomplete 1\n"))
        try await fixture.until("the node is ready, because it has met the others") { try await Self.readiness(of: node) == 200 }
        try await fixture.until("it keeps what the others keep") {
            // 60 users. The two that they follow have no rows.
            let texts = [try await fixture.nodes[0].metricsText(), try await node.metricsText()]
            return texts.allSatisfy { text in
                let counts = text.split(separator: "\n").filter {
                    $0.hasPrefix("rollcall_users_owned ") || $0.hasPrefix("rollcall_users_replicated ")
                }
                return counts.compactMap { Int($0.split(separator: " ")[1]) }.reduce(0, +) >= 60
            }
        }
        try await node.stop()
        for other in fixture.nodes.prefix(2) { try await other.stop() }
        #expect(try Self.rows(in: folders[2], node: "n2") == Self.rows(in: folders[0], node: "n0"))
    }

    @Test("A node with a damaged file is not ready before it has met another node") func damagedFileAlone() async throws {
        let fixture = try await Fixture.start()
        #expect(try await fixture.call("setSelfStatus", #"{"customStatus":"kept"}"#).status == 200)
        var configuration = fixture.nodes[0].configuration
        try await fixture.nodes[0].stop()
        let file = URL(fileURLWithPath: "\(configuration.dataDirectory)/rollcall.sqlite")
        try Data(try Data(contentsOf: file).prefix(5_000)).write(to: file)
        configuration.join = [HostPort(host: "127.0.0.1", port: 1)]
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let node = try await RollcallNode.start(configuration, logger: logger)
        #expect(try await Self.readiness(of: node) == 503)
        try await node.stop()
    }

    private static func readiness(of node: RollcallNode) async throws -> Int {
        try await HTTPExchange.send(
            .get, host: "127.0.0.1", port: node.ports.ops, path: "/readyz", on: MultiThreadedEventLoopGroup.singleton.next()
        ).status
    }

    private static func rows(in folder: String, node: String) throws -> [Row] {
        let store = try SQLiteStore(directory: folder, nodeID: node, cluster: "rollcall", canBeCompleted: true)
        defer { store.close() }
        var rows: [Row] = []
        try store.load { rows.append($0) }
        return rows.filter { $0.kind != .member && $0.kind != .clock }
    }

    /// Over HTTP/1.1 a client says nothing once its stream is open.
    @Test("A user whose connection ends was last seen at that moment") func lastSeen() async throws {
        let fixture = try await Fixture.start { $0.core.offlineGrace = .zero }
        var asked = 0
        let ask = {
            asked += 1  // Somebody else each time: one user may not ask so often.
            return try await fixture.call("getUserStatus", #"{"userIDs":["ann"]}"#, as: "bob\(asked)").json
        }
        let token = try await TokenMint().token(user: "ann")
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
        let fixture = try await Fixture.start()
        let path = "/v1/events?platform=web&asUser=ann"
        let (port, loop) = (fixture.nodes[0].ports.client, MultiThreadedEventLoopGroup.singleton.next())
        var tokens: [String] = []
        for isAdmin in [false, true] { tokens.append("Bearer \(try await TokenMint().token(user: "bob", isAdmin: isAdmin))") }
        let refused = try await HTTPExchange.send(
            .get, host: "127.0.0.1", port: port, path: path, headers: [("authorization", tokens[0])], on: loop)
        #expect(refused.status == 400 && String(decoding: refused.body, as: UTF8.self).contains("asUser: only a token with role"))
        let stream = HTTPExchange.stream(host: "127.0.0.1", port: port, path: path, headers: [("authorization", tokens[1])], on: loop)
        for try await event in stream {
            #expect(String(decoding: event, as: UTF8.self).contains(#""userID":"ann""#))
            break
        }
        try await fixture.stop()
    }

    @Test("The session of a silent client is lost after the heartbeat timeout") func silentClient() async throws {
        let fixture = try await Fixture.start {
            $0.gateway.heartbeatInterval = .seconds(1)
            $0.core.heartbeatTimeout = .seconds(2)
            $0.core.offlineGrace = .zero
        }
        let socket = try SilentClient(port: fixture.nodes[0].ports.client, token: try await TokenMint().token(user: "ann"))
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
        let fixture = try await Fixture.start {
            $0.gateway.heartbeatInterval = .seconds(1)
            $0.core.policy.platformTimeouts = [Policy.PlatformTimeout(platform: "web", timeout: .seconds(2))]
            $0.core.offlineGrace = .zero
        }
        let token = try await TokenMint().token(user: "ann")
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
        let fixture = try await Fixture.start()
        for try await piece in try await fixture.events("ann") {
            let text = String(decoding: piece, as: UTF8.self)
            #expect(text.hasPrefix("event: onConnected\n"))
            #expect(text.contains(#""heartbeatTimeout":400"#))
            break
        }
        try await fixture.stop()
    }
}

/// Logs in by hand and then says nothing more, not even the answer to a PING.
final class SilentClient {
    private let connection: RawConnection

    /// Over HTTP/2.
    ///
    /// - Parameters:
    ///   - paths: of the streams that it opens.
    ///   - isReset: each is reset as soon as it is open.
    convenience init(port: Int, token: String, paths: [String] = ["/v1/events"], isReset: Bool = false) throws {
        var bytes = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + [0, 0, 0, 4, 0, 0, 0, 0, 0]
        for (number, path) in paths.enumerated() {
            var block: [UInt8] = [0x82, 0x86]  // :method GET, :scheme http
            for (name, value) in [(":path", path), (":authority", "x"), ("authorization", "Bearer \(token)")] {
                block.append(0)
                block += Self.string(name) + Self.string(value)
            }
            let length = block.count
            let stream = 2 * number + 1
            bytes += [
                UInt8(length >> 16), UInt8(length >> 8 & 255), UInt8(length & 255), 1, 5, 0, 0, UInt8(stream >> 8), UInt8(stream & 255),
            ]
            bytes += block
            if isReset { bytes += [0, 0, 4, 3, 0, 0, 0, UInt8(stream >> 8), UInt8(stream & 255), 0, 0, 0, 8] }
        }
        try self.init(port: port, sending: bytes)
    }

    /// Over HTTP/1.1.
    convenience init(port: Int, tokenOverHTTP1 token: String) throws {
        try self.init(port: port, sending: Array("GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(token)\r\n\r\n".utf8))
    }

    private init(port: Int, sending bytes: [UInt8]) throws {
        connection = try RawConnection(port: port)
        connection.send(bytes)
    }

    /// A string literal of HPACK (RFC 7541 §5.2), not Huffman-coded.
    private static func string(_ text: String) -> [UInt8] {
        var count = text.utf8.count
        guard count >= 127 else { return [UInt8(count)] + Array(text.utf8) }
        var length: [UInt8] = [127]
        count -= 127
        while count >= 128 {
            length.append(UInt8(count & 127 | 128))
            count >>= 7
        }
        return length + [UInt8(count)] + Array(text.utf8)
    }

    func close() { connection.close() }
}
