import HTTP2
import NIOPosix
import NodeFixture
import Testing

/// `logFormat: json` on whole nodes: a reader of the log parses each line, from the first to the last.
@Suite(.timeLimit(.minutes(3))) struct JSONLogTests {
    /// The lines of a node's log as JSON. Fails for a line of another form.
    private func lines(_ node: ServedNode) throws -> [JSON] {
        try node.log.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map { line in
            let json = try #require(try? JSON(Array(line.utf8)), "not JSON: \(line)")
            let time = try #require(json["time"]?.text, "\(line)")
            #expect(time.wholeMatch(of: /2\d{3}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-6]\d\.\d{3}Z/) != nil, "\(line)")
            #expect(["trace", "debug", "info", "notice", "warning", "error", "critical"].contains(json["level"]?.text), "\(line)")
            #expect(json["label"]?.text != nil && json["message"]?.text?.isEmpty == false, "\(line)")
            guard case .object? = json["metadata"] else { throw TestFailure("metadata is not an object: \(line)") }
            return json
        }
    }

    /// A node without `--dev`, which prints nothing but its log.
    private func node(_ name: String, joining first: ServedNode? = nil, in folder: TemporaryFolder) async throws -> ServedNode {
        let join = first.map { ["--join", "127.0.0.1:\($0.ports.cluster)"] } ?? []
        let settings = ["ROLLCALL_LOG_FORMAT": "json", "ROLLCALL_LOG_LEVEL": "debug", "ROLLCALL_DRAIN_TIMEOUT": "1"]
        return try await ServedNode.serving(join, settings, named: name, in: folder)
    }

    @Test("Each line of three nodes is an object, from their start over refused calls and a death to their end")
    func wholeLogs() async throws {
        let folder = TemporaryFolder()
        let first = try await node("n0", in: folder)
        let nodes = [first, try await node("n1", joining: first, in: folder), try await node("n2", joining: first, in: folder)]
        let cluster = ServedCluster(nodes: nodes, folder: folder)
        try await cluster.untilComplete()
        let token = try first.token(user: "ann")
        for (bearer, body, status) in [(token + "x", "{}", 401), (token, #"{"userIDs":"line\nfeed"}"#, 400)] {
            let answer = try await HTTPExchange.send(
                .post, host: "127.0.0.1", port: first.ports.client, path: "/v1/getUserStatus",
                headers: [("authorization", "Bearer \(bearer)")], body: body, on: MultiThreadedEventLoopGroup.singleton.next())
            #expect(answer.status == status, "\(answer.text)")
        }
        try await nodes[2].kill()
        try await first.until("the death is logged") { first.log.contains("member declared dead") }
        try await first.until("both refusals are logged") { first.log.split(separator: "request refused").count == 3 }
        try await nodes[1].stop()
        try await first.stop()

        let all = try nodes.map { try lines($0) }
        let refused = all[0].filter { $0["message"]?.text == "request refused" }
        #expect(refused.map { $0["metadata"]?["code"]?.text } == ["6014", "6017"], "\(refused)")
        for line in refused {
            let id = line["metadata"]?["requestID"]?.text ?? ""
            #expect(id.wholeMatch(of: /[0-9a-f]{1,8}-[0-9a-f]{1,8}-[0-9a-f]{1,8}/) != nil && line["level"]?.text == "debug", "\(line)")
            #expect(line["metadata"]?["operation"]?.text == "getUserStatus" && line["metadata"]?["reason"]?.text?.isEmpty == false)
        }
        #expect(!first.log.contains(token.split(separator: ".")[2]))
        let died = all[0].first { $0["message"]?.text == "member declared dead" }
        #expect(died?["metadata"] == .object(["member": .string("n2")]), "\(String(describing: died))")
        #expect(all[1].contains { $0["message"]?.text == "stopping" })
    }

    @Test("A node that cannot start says why in JSON, with its exit code") func failedStart() async throws {
        let first = try await ServedNode.serving()
        let address = "127.0.0.1:\(first.ports.client)"
        let second = try ServedNode(["--listen", address, "--log-format", "json"])
        #expect(try await second.ended() == ExitCode.unavailable)
        let last = try #require(try lines(second).last, "\(second.log)")
        #expect(last["level"]?.text == "critical", "\(last)")
        #expect(last["message"]?.text?.hasPrefix("listen: cannot listen on \(address): ") == true, "\(last)")
        #expect(last["metadata"] == .object(["exitCode": .string("\(ExitCode.unavailable)")]), "\(last)")
        try await first.stop()
    }
}
