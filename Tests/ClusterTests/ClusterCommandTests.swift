import Foundation
import NIOCore
import NIOPosix
import NIOSSL
import NodeFixture
import Testing

/// `rollcall cluster`: the operations of the ops port, for a terminal and for programs.
@Suite(.timeLimit(.minutes(2))) struct ClusterCommandTests {
    private static func words(_ line: Substring) -> [String] { line.split(separator: /\s{2,}/).map(String.init) }

    @Test("Members and ring have a header and aligned columns, and --json is the node's answer") func tables() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        let ops = ["--ops", "http://127.0.0.1:\(fixture.nodes[1].ports.ops)/"]
        let version = try await Self.version()
        try await Self.untilReleasesAreKnown(fixture)
        let members = try await RollcallBinary.run(["cluster", "members"] + ops)
        let lines = members.output.split(separator: "\n")
        #expect(members.status == 0 && lines.count == 4, "\(members.output)")
        #expect(Self.words(lines[0]) == ["NODE", "STATE", "ADDRESS", "STARTED", "VERSION"], "\(members.output)")
        let column = try #require(lines[0].range(of: "ADDRESS")).lowerBound.utf16Offset(in: lines[0])
        for node in fixture.nodes {
            let line = try #require(lines.first { $0.hasPrefix("\(node.nodeID) ") })
            let words = Self.words(line)
            #expect(words[1] == "alive" && words[2] == "127.0.0.1:\(node.ports.cluster)" && words[3].hasSuffix("Z"), "\(members.output)")
            #expect(words.last == version, "\(members.output)")
            #expect(line.dropFirst(column).hasPrefix("127.0.0.1:"), "the addresses are one below the other: \(members.output)")
        }
        let ring = try await RollcallBinary.run(["cluster", "ring"] + ops)
        let slots = ring.output.split(separator: "\n").dropFirst().compactMap { Int(Self.words($0)[2]) }
        #expect(ring.output.hasPrefix("NODE") && slots.reduce(0, +) == 65_536, "\(ring.output)")

        for command in ["members", "ring"] {
            let json = try await RollcallBinary.run(["cluster", command, "--json"] + ops)
            #expect(json.status == 0 && json.output.hasSuffix("}\n") && json.output.split(separator: "\n").count == 1, "\(json.output)")
            let answer = try JSON(Array(json.output.utf8))
            #expect(Set(answer["members"]?.elements.compactMap { $0["node"]?.text } ?? []) == Set(fixture.nodes.map(\.nodeID)))
        }
        let explained = try await RollcallBinary.run(["cluster", "explain", "--json", "--viewer", "ann", "--target", "ben\u{202E}"] + ops)
        #expect(try JSON(Array(explained.output.utf8))["target"]?.text == "ben\u{202E}")
        #expect(explained.output.contains(#"ben\u202e"#), "\(explained.output)")
        let refused = try await RollcallBinary.run(["cluster", "forget", "nobody"] + ops)
        let asked = "http://127.0.0.1:\(fixture.nodes[1].ports.ops)/admin/v1/forget"
        #expect(refused.status == 1, "\(refused.output)")
        #expect(refused.output.hasPrefix("rollcall: \(asked) answered 404: node: \"nobody\" is not a member"), "\(refused.output)")
        try await fixture.stop()
    }

    /// The version of the binary, from `rollcall --version`: "rollcall 1.2.3 (commit …)".
    private static func version() async throws -> String {
        let text = try await RollcallBinary.run(["--version"]).output
        return try #require(text.firstMatch(of: /^rollcall ([0-9]+\.[0-9]+\.[0-9]+\S*)/).map { String($0.1) }, "\(text)")
    }

    /// Waits until each node has heard the releases of all members: a link asks for it right after the member joins.
    private static func untilReleasesAreKnown(_ fixture: ServedCluster) async throws {
        try await fixture.until("each node knows the release of each member") {
            for node in fixture.nodes.indices {
                let members = try await fixture.admin("clusterStatus", "{}", node: node).json["members"]?.elements ?? []
                guard members.count == fixture.nodes.count, members.allSatisfy({ $0["version"] != nil }) else { return false }
            }
            return true
        }
    }

    @Test("Each node names the version and the start of each member, also after a member has restarted") func releases() async throws {
        let before = Int64(Date().timeIntervalSince1970 * 1_000)
        let fixture = try await ServedCluster.start(nodes: 3)
        let version = try await Self.version()
        try await Self.untilReleasesAreKnown(fixture)
        let after = Int64(Date().timeIntervalSince1970 * 1_000)
        var starts: [String: Set<Int64>] = [:]
        for node in fixture.nodes.indices {
            for member in try await fixture.admin("clusterStatus", "{}", node: node).json["members"]?.elements ?? [] {
                #expect(member["version"]?.text == version, "\(member)")
                let start = try #require(member["startTime"]?.number, "\(member)")
                #expect((before...after).contains(start), "\(start) is not between \(before) and \(after)")
                starts[member["node"]?.text ?? "?", default: []].insert(start)
            }
        }
        #expect(starts.keys.sorted() == ["n0", "n1", "n2"] && starts.values.allSatisfy { $0.count == 1 }, "all nodes agree: \(starts)")

        let (first, last) = (fixture.nodes[0], fixture.nodes[2])
        try await last.kill()
        let join = ["--join", "127.0.0.1:\(first.ports.cluster)", "--cluster-listen", "127.0.0.1:\(last.ports.cluster)"]
        let again = try await ServedNode.serving(
            ["--dev", "--loops", "1"] + join, ["ROLLCALL_DRAIN_TIMEOUT": "1"], named: "n2", in: fixture.folder)
        let old = try #require(starts["n2"]?.first)
        try await fixture.until("the others name the start of the new process") {
            for node in 0..<2 {
                let members = try await fixture.admin("clusterStatus", "{}", node: node).json["members"]?.elements ?? []
                let member = members.first { $0["node"]?.text == "n2" }
                guard member?["version"]?.text == version, let start = member?["startTime"]?.number, start > old else { return false }
            }
            return true
        }
        try await again.stop()
        for node in fixture.nodes.prefix(2) { try await node.stop() }
    }

    @Test("An ops port behind a proxy with TLS is reached with the authority of --ca, and not without it") func tls() async throws {
        let fixture = try await ServedCluster.start()
        let (certificate, key) = ("\(fixture.directory)/certificate.pem", "\(fixture.directory)/key.pem")
        let made = try await run(
            "openssl",
            [
                "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate,
            ])
        #expect(made.status == 0, "\(made.output)")
        let proxy = try await TLSProxy.start(to: fixture.nodes[0].ports.ops, certificate: certificate, key: key)
        let ops = ["cluster", "members", "--ops", "https://localhost:\(proxy.port)"]
        for trust in [["--ca", certificate], ["--insecure"]] {
            let answer = try await RollcallBinary.run(ops + trust)
            #expect(answer.status == 0 && answer.output.contains("alive"), "\(trust): \(answer.output)")
        }
        let strange = try await RollcallBinary.run(ops)
        let untrusted = "rollcall: https://localhost:\(proxy.port): the certificate is not trusted: "
        #expect(strange.status == ExitCode.unavailable && strange.output.hasPrefix(untrusted), "\(strange.output)")
        let bad = try await RollcallBinary.run(ops + ["--ca", key])
        #expect(bad.status == ExitCode.usage && bad.output == "rollcall: --ca: \(key): has no certificate in PEM\n", "\(bad.output)")
        try await proxy.stop()
        try await fixture.stop()
    }
}

/// Ends TLS in front of a port on loopback, as a proxy does.
private struct TLSProxy {
    private let channel: any Channel
    let port: Int

    static func start(to target: Int, certificate: String, key: String) async throws -> TLSProxy {
        let chain = try NIOSSLCertificate.fromPEMFile(certificate).map { NIOSSLCertificateSource.certificate($0) }
        let context = try NIOSSLContext(
            configuration: .makeServerConfiguration(
                certificateChain: chain, privateKey: .privateKey(try NIOSSLPrivateKey(file: key, format: .pem))))
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { client in
                ClientBootstrap(group: client.eventLoop).connect(host: "127.0.0.1", port: target).flatMapThrowing { node in
                    try client.pipeline.syncOperations.addHandlers([NIOSSLServerHandler(context: context), Forwarding(to: node)])
                    try node.pipeline.syncOperations.addHandler(Forwarding(to: client))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        return TLSProxy(channel: channel, port: channel.localAddress?.port ?? 0)
    }

    func stop() async throws { try await channel.close() }
}

/// Writes all that it reads to another channel, and closes it at the end.
private final class Forwarding: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let other: any Channel

    init(to other: any Channel) { self.other = other }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) { other.writeAndFlush(unwrapInboundIn(data), promise: nil) }

    func channelInactive(context: ChannelHandlerContext) { other.close(promise: nil) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
