import Foundation
import HTTP2
import NIOPosix
import NodeFixture
import Testing

/// Properties of a process: exit codes, signals, permissions of files, and ports that two processes need.
@Suite(.serialized, .timeLimit(.minutes(5))) struct ServedNodeTests {
    // MARK: Ports

    @Test(
        "A node whose port is taken ends, and the error names the port",
        arguments: ["--listen", "--cluster-listen", "--ops-listen"])
    func takenPort(flag: String) async throws {
        let first = try await ServedNode.serving()
        let ports = ["--listen": first.ports.client, "--cluster-listen": first.ports.cluster, "--ops-listen": first.ports.ops]
        let address = "127.0.0.1:\(try #require(ports[flag]))"
        let second = try ServedNode([flag, address])
        #expect(try await second.ended() == ExitCode.unavailable)
        #expect(second.log.contains("rollcall: \(flag.dropFirst(2)): cannot listen on \(address): "), "\(second.log)")
        #expect(try await first.call("getUserStatus", #"{"userIDs":["ann"]}"#) == 200)
    }

    @Test("Of several nodes that need one port, one serves") func contestedPort() async throws {
        for _ in 0..<5 {
            let free = try await ServedNode.serving()
            let address = "127.0.0.1:\(free.ports.client)"
            free.signal(SIGKILL)
            _ = try await free.ended()
            let nodes = try (0..<4).map { _ in try ServedNode(["--listen", address]) }
            try await nodes[0].until("all but one have ended") { nodes.count(where: \.isRunning) <= 1 }
            let running = nodes.filter(\.isRunning)
            let serving = try #require(running.first)
            try await serving.until("the last one serves") { serving.log.contains("serving") }
            for node in nodes where node !== serving { #expect(try await node.ended() == ExitCode.unavailable) }
        }
    }

    @Test("The commands that a node on an IPv6 address prints work when they are pasted") func welcome() async throws {
        let node = try await ServedNode.serving(["--dev", "--listen", "[::1]:0"])
        try await node.until("it prints them") { node.log.contains(/\n *curl [^\n]*setSelfStatus[^\n]*\n/) }
        let commands = node.log.split(separator: "\n").map { $0.drop(while: { $0 == " " }) }.filter { $0.hasPrefix("curl ") }
        #expect(commands.count == 2 && commands.allSatisfy { $0.contains(/'http:\/\/\[::1\]:[1-9][0-9]*\/v1\//) }, "\(commands)")
        let change = try #require(commands.last)
        let done = try await run("bash", ["-c", "\(change) -sS -o /dev/null -w '%{http_code}'"])
        #expect(done.output == "200")
        try await node.stop()
    }

    // MARK: Descriptors

    @Test("A node without free descriptors waits for them and goes on serving") func noDescriptors() async throws {
        let node = try await ServedNode.serving()
        let port = node.ports.client
        let early = try RawConnection(port: port)
        let request = Array("GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n".utf8)
        early.send(request)
        try await early.receive(until: "HTTP/1.1 200")
        try await node.limitDescriptors(to: try node.descriptorsCount + 1)
        let late = try (0..<20).map { _ in try RawConnection(port: port) }
        for connection in late { connection.send(request) }
        try await node.until("it says that it has none") { node.log.contains("reason=noDescriptor") }
        early.send(request)
        try await early.receive(until: "HTTP/1.1 200")
        let before = try node.processorSeconds
        try await MultiThreadedEventLoopGroup.singleton.any().scheduleTask(in: .seconds(1)) {}.futureResult.get()
        #expect(try node.processorSeconds - before < 0.5, "it does not spin")
        try await node.limitDescriptors(to: 20_000)
        for connection in late {
            try await connection.receive(until: "HTTP/1.1 200")
            connection.close()
        }
        early.close()
        #expect(node.log.split(separator: "\n").count { $0.contains("noDescriptor") } == 1)
        let metrics = try await node.ops("/metrics").text
        #expect(metrics.contains(/rollcall_connections_refused_total\{port="clients",reason="noDescriptor"\} [1-9]/))
    }

    @Test("One address may use half of the connections, the others have the rest") func addressShare() async throws {
        let node = try await ServedNode.serving([], [:], descriptors: 256)
        let port = node.ports.client
        var held: [RawConnection] = []
        // 256 less 64, 12 for three loops, 46 for nodes and 12 for operators: 122, of which one address has half.
        for _ in 0..<200 { held.append(try RawConnection(port: port, from: "127.0.0.2")) }
        try await node.until("the log tells it") { node.log.contains("reason=connectionsPerAddressMax") }
        #expect(node.log.contains("connectionsPerAddressMax=61"), "\(node.log)")
        for _ in 0..<50 { #expect(try await node.call("getUserStatus", #"{"userIDs":["ann"]}"#) == 200) }
        for _ in 0..<200 { held.append(try RawConnection(port: port, from: "127.0.0.3")) }
        try await node.until("the log tells it") { node.log.contains("reason=connectionsMax") }
        // Operators and nodes are not touched.
        #expect(try await node.ops("/readyz").status == 200)
        for connection in held { connection.close() }
        // Until then a call is reset, which is an error of the connection.
        try await node.until("there is room again", asking: { (try? await node.call("getUserStatus", #"{"userIDs":["ann"]}"#)) == 200 })
    }

    @Test("With proxyProtocol the limits count the clients that the proxy names, and a connection that names none is closed")
    func clientsBehindProxy() async throws {
        let node = try await ServedNode.serving([], ["ROLLCALL_PROXY_PROTOCOL": "true", "ROLLCALL_LOGINS_PER_ADDRESS": "2"])
        // The header of the PROXY protocol, version 2, with the client 192.0.2.`number`.
        let header = { (number: UInt8) -> [UInt8] in
            Array("\r\n\r\n\0\r\nQUIT\n".utf8) + [0x21, 0x11, 0, 12, 192, 0, 2, number, 127, 0, 0, 1, 0x9C, 0x40, 0x1D, 0xB0]
        }
        var held: [RawConnection] = []
        func login(from number: UInt8) async throws -> String {
            held.append(try RawConnection(port: node.ports.client))
            let token = try node.token(user: "user\(held.count)")
            let request = "GET /v1/events?platform=web HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(token)\r\n\r\n"
            held[held.count - 1].send(header(number) + Array(request.utf8))
            return String(try await held[held.count - 1].receive(until: "\r\n").prefix(12))
        }
        for number in [1, 2] as [UInt8] {
            for _ in 0..<2 { #expect(try await login(from: number) == "HTTP/1.1 200") }
            #expect(try await login(from: number) == "HTTP/1.1 429")
        }
        let direct = try RawConnection(port: node.ports.client)
        direct.send(Array("GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n".utf8))
        try await node.until("the connection is counted") {
            try await node.ops("/metrics").text.contains(#"reason="noProxyHeader"} 1"#)
        }
        for connection in held + [direct] { connection.close() }
    }

    // MARK: Files

    @Test("No other user of the machine may read a node's files, whatever the umask", arguments: ["000", "022", "0777"])
    func filePermissions(umask: String) async throws {
        let node = try await ServedNode.serving(umask: umask)
        #expect(try await node.call("setSelfStatus", #"{"customStatus":"kept"}"#) == 200)
        let files = try FileManager.default.contentsOfDirectory(atPath: node.dataDirectory)
        #expect(files.contains("rollcall.sqlite-wal"))
        #expect(try Self.rights(node.dataDirectory) == 0o700)
        for file in files { #expect(try Self.rights("\(node.dataDirectory)/\(file)") == 0o600, "\(file)") }
    }

    static func rights(_ path: String) throws -> Int {
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        return try #require(attributes[.posixPermissions] as? Int)
    }

    @Test("A node whose files are deleted is not ready, and refuses durable changes") func deletedFiles() async throws {
        let node = try await ServedNode.serving()
        #expect(try await node.call("setSelfStatus", #"{"customStatus":"kept"}"#) == 200)
        #expect(try await node.ops("/readyz").status == 200)
        try FileManager.default.removeItem(atPath: node.dataDirectory)
        try await node.until("it is not ready", asking: { try await node.ops("/readyz").status == 503 })
        #expect(try await node.ops("/readyz").text.contains("rollcall.sqlite was deleted"))
        let verbose = try await node.ops("/readyz?verbose")
        #expect(verbose.status == 503 && verbose.text.contains(/\ndisk: [^\n]*rollcall.sqlite was deleted/), "\(verbose.text)")
        #expect(verbose.text.contains("\nstart: ok\n"), "\(verbose.text)")
        try await node.until("it logs that") { node.log.contains("rollcall.sqlite was deleted") }
        #expect(try await node.call("setSelfStatus", #"{"customStatus":"lost"}"#) == 503)
        #expect(try await node.call("getUserStatus", #"{"userIDs":["ann"]}"#) == 200)
        #expect(try await node.ops("/metrics").text.contains("\nrollcall_store_files_missing 1\n"))
        #expect(node.log.split(separator: "\n").count { $0.contains("was deleted") } == 1)
        node.signal(SIGTERM)
        #expect(try await node.ended() == 0)
    }

    // MARK: A cluster port that strangers reach

    @Test("An open cluster port needs its setting, and is logged") func openClusterPort() async throws {
        let refused = try ServedNode(["--cluster-listen", "0.0.0.0:0"])
        #expect(try await refused.ended() == ExitCode.usage)
        #expect(refused.log.contains("bad setting: cluster-listen: "), "\(refused.log)")
        let open = try await ServedNode.serving(["--cluster-listen", "0.0.0.0:0", "--insecure-cluster"])
        #expect(open.log.contains("warning") && open.log.contains("the cluster port accepts every node"), "\(open.log)")
        let closed = try await ServedNode.serving(["--cluster-listen", "0.0.0.0:0"], ["ROLLCALL_CLUSTER_SECRET": ServedNode.secret])
        #expect(!closed.log.contains("warning"), "\(closed.log)")
    }

    @Test("A value cannot forge a line of the log") func logLines() async throws {
        let node = try await ServedNode.serving(["--join", "evil\u{1B}[31m\nfaked line\r:7601"])
        try await node.until("the name that leads nowhere is logged") {
            node.log.contains("name of a contact point (join) does not resolve")
        }
        #expect(node.log.contains(#"name=evil\u{1B}[31m\nfaked line\r "#), "\(node.log)")
        #expect(!node.log.contains("\u{1B}") && !node.log.contains("\nfaked"))
    }

    /// The text of `/readyz?verbose` of a node that is ready.
    private static func checked(_ links: String) -> String {
        let names = ["start", "completeness", "drain", "supersession", "acceptance", "clock", "disk"]
        return "ready\n" + names.map { "\($0): ok\n" }.joined() + "links: \(links)\n"
    }

    @Test("A node that finds nobody at the addresses of join serves, and says that it is alone, until another comes")
    func alone() async throws {
        // A port that was free a moment ago.
        let other = try await ServedNode.serving(["--dev"], named: "n1")
        let port = other.ports.cluster
        try await other.stop()
        let node = try await ServedNode.serving(["--dev", "--join", "127.0.0.1:\(port)"], named: "n0")
        #expect(try await node.ops("/readyz").status == 200)
        try await node.until("it warns") { node.log.contains("this node is alone: no other node answers at these addresses") }
        #expect(node.log.contains("addresses=127.0.0.1:\(port) (Connection refused)"), "\(node.log)")
        let verbose = try await node.ops("/readyz?verbose")
        #expect(verbose.status == 200)
        #expect(verbose.text == Self.checked("this node is alone; no other node answers at 127.0.0.1:\(port) (Connection refused)"))
        for query in ["verbose=1", "verbose=", "a=1&verbose", "verbose&a=1"] {
            #expect(try await node.ops("/readyz?\(query)").text == verbose.text, "\(query)")
        }
        for query in ["averbose", "a=verbose", "verbosely"] {
            #expect(try await node.ops("/readyz?\(query)").text == "ready\n", "\(query)")
        }
        #expect(try await node.ops("/readyz").text == "ready\n")
        #expect(try await node.metricsText().contains("\nrollcall_links_unanswered 1\n"))
        let late = try await ServedNode.serving(["--dev", "--cluster-listen", "127.0.0.1:\(port)"], named: "n1")
        try await node.until("it is not alone", asking: { try await node.metricsText().contains("\nrollcall_links_unanswered 0\n") })
        #expect(try await node.ops("/readyz?verbose").text == Self.checked("ok"))
        #expect(node.log.split(separator: "\n").count { $0.contains("this node is alone") } == 1)
        try await late.stop()
        try await node.stop()
    }

    @Test("A node that is alone names each address of join with its last error, also in JSON") func aloneAtSeveralAddresses() async throws {
        // A port that was free a moment ago, and a name without an address.
        let other = try await ServedNode.serving(["--dev"], named: "n1")
        let port = other.ports.cluster
        try await other.stop()
        let join = "127.0.0.1:\(port),nowhere.invalid:7601"
        let node = try await ServedNode.serving(["--join", join, "--log-format", "json"], named: "n0")
        let addresses = "127.0.0.1:\(port) (Connection refused), nowhere.invalid:7601 (the name does not resolve)"
        try await node.until(
            "/readyz?verbose names both",
            asking: {
                try await node.ops("/readyz?verbose").text == Self.checked("this node is alone; no other node answers at \(addresses)")
            })
        try await node.until("the log names both") { node.log.contains("\"addresses\":\"\(addresses)\"") }
        let line = try #require(node.log.split(separator: "\n").first { $0.contains("this node is alone") })
        #expect(try JSON(Array(line.utf8))["level"]?.text == "warning", "\(line)")
        try await node.stop()
    }

    @Test("A node that stays alone warns every 30 seconds, and names the address each time") func aloneForLong() async throws {
        let node = try await ServedNode.serving(["--join", "nowhere.invalid:7601", "--log-format", "json"], named: "n0")
        let lines = { try node.log.split(separator: "\n").filter { $0.contains("this node is alone") }.map { try JSON(Array($0.utf8)) } }
        try await node.until("it warns") { try lines().count == 1 }
        // A wait ends after 30 seconds.
        let start = ContinuousClock.now
        try await node.until("half of the time is over", asking: { ContinuousClock.now - start > .seconds(15) })
        #expect(try lines().count == 1)
        try await node.until("it warns again") { try lines().count == 2 }
        let warnings = try lines()
        let formatter = ISO8601DateFormatter()
        formatter.formatOptions = [.withInternetDateTime, .withFractionalSeconds]
        let times = warnings.compactMap { $0["time"]?.text.flatMap { formatter.date(from: $0) } }
        #expect(times.count == 2 && (29...35).contains(times[1].timeIntervalSince(times[0])), "\(warnings)")
        for warning in warnings {
            #expect(warning["level"]?.text == "warning")
            #expect(warning["metadata"]?["addresses"]?.text == "nowhere.invalid:7601 (the name does not resolve)", "\(warning)")
        }
        try await node.stop()
    }

    // MARK: Signals

    @Test("SIGHUP does not end a node") func hangUp() async throws {
        let node = try await ServedNode.serving()
        for _ in 0..<3 { node.signal(SIGHUP) }
        try await node.until("it says that there is nothing to read again") { node.log.contains("no certificates are configured") }
        #expect(try await node.call("getUserStatus", #"{"userIDs":["ann"]}"#) == 200)
        node.signal(SIGTERM)
        node.signal(SIGHUP)
        #expect(try await node.ended() == 0)
    }

    @Test("SIGHUP loads new certificates, and an invalid file changes nothing") func reload() async throws {
        let folder = TemporaryFolder()
        for name in ["first", "second", "third"] { try await Self.makeCertificate(name, in: folder.path) }
        let use = { (name: String) in
            for ending in ["pem", "key"] {
                let content = try Data(contentsOf: URL(fileURLWithPath: "\(folder.path)/\(name).\(ending)"))
                try content.write(to: URL(fileURLWithPath: "\(folder.path)/used.\(ending)"), options: .atomic)
            }
        }
        try use("first")
        let files = ["\(folder.path)/used.pem", "\(folder.path)/used.key"]
        let node = try await ServedNode.serving(
            [
                "--tls-certificate", files[0], "--tls-key", files[1], "--cluster-tls-certificate", files[0], "--cluster-tls-key", files[1],
                "--cluster-tls-ca", "\(folder.path)/first.pem",
            ], in: folder)
        let names = {
            try await [Self.name(at: node.ports.client), Self.name(at: node.ports.cluster, as: "\(folder.path)/first")]
        }
        #expect(try await names() == ["first", "first"])
        try use("second")
        node.signal(SIGHUP)
        try await node.until("both ports show the new certificate", asking: { try await names() == ["second", "second"] })
        try "no key".write(toFile: files[1], atomically: true, encoding: .utf8)
        node.signal(SIGHUP)
        try await node.until("the broken file is logged, for each port") {
            node.log.split(separator: "\n").count { $0.contains("error") && $0.contains(files[1]) } == 2
        }
        #expect(try await names() == ["second", "second"])
        try use("third")
        node.signal(SIGHUP)
        try await node.until("a file that is whole again is taken", asking: { try await names() == ["third", "third"] })
        node.signal(SIGTERM)
        #expect(try await node.ended() == 0)
    }

    private static func makeCertificate(_ name: String, in folder: String) async throws {
        let made = try await run(
            "openssl",
            [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=\(name)",
                "-keyout", "\(folder)/\(name).key", "-out", "\(folder)/\(name).pem",
            ])
        try #require(made.status == 0, "\(made.output)")
    }

    /// The subject of the certificate that a port presents.
    ///
    /// - Parameter client: the files of the caller's own certificate and key, without their endings.
    private static func name(at port: Int, as client: String? = nil) async throws -> String {
        let own = client.map { ["-cert", "\($0).pem", "-key", "\($0).key"] } ?? []
        let shown = try await run("openssl", ["s_client", "-connect", "127.0.0.1:\(port)", "-alpn", "h2"] + own)
        return shown.output.firstMatch(of: /subject=CN ?= ?(\w+)/).map { String($0.1) } ?? shown.output
    }
}
