import Foundation
import NodeFixture
import Testing

/// The errors of commands: plain texts that name the URL or the file, without the texts of libraries.
@Suite(.serialized, .timeLimit(.minutes(3))) struct CommandMessageTests {
    /// Parts of texts of Foundation, of BoringSSL and of JSON, and an escaped line feed.
    private static let raw = ["NSCocoa", "could not be completed", "SSL", ".build", "fopen", "failedTo", "{\"", #"\n"#]

    /// Runs a command that fails, and checks its exit code and its text.
    private func check(_ arguments: [String], _ code: Int32, _ text: String) async throws {
        let ended = try await RollcallBinary.run(arguments)
        #expect(ended.status == code && ended.output.contains(text), "\(arguments): \(ended.status) \(ended.output)")
        #expect(Self.raw.filter { ended.output.contains($0) } == [], "\(arguments): \(ended.output)")
    }

    /// A file of friends to import.
    private func friends(in folder: String) throws -> String {
        let file = "\(folder)/friends.csv"
        try Data("userID,friendID\nann,ben\n".utf8).write(to: URL(filePath: file))
        return file
    }

    /// Makes a certificate for `localhost`, and returns the paths of the certificate and its key.
    private func makeCertificate(_ name: String, in folder: String) async throws -> (certificate: String, key: String) {
        let (certificate, key) = ("\(folder)/\(name).pem", "\(folder)/\(name).key")
        let made = try await run(
            "openssl",
            [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate,
            ])
        try #require(made.status == 0, "\(made.output)")
        return (certificate, key)
    }

    // MARK: TLS

    @Test("A port without TLS that an https URL names is named with that URL, and http:// is offered") func noTLS() async throws {
        let fixture = try await ServedCluster.start()
        let client = "https://127.0.0.1:\(fixture.nodes[0].ports.client)"
        let file = try friends(in: fixture.directory)
        let text = "the port does not speak TLS (try http://)\n"
        for command in [["status", "ann"], ["watch", "--user", "ann"], ["watch", "--user", "ann", "ben"], ["import", file]] {
            try await check(command + ["--target", client], ExitCode.unavailable, "rollcall: \(client): \(text)")
        }
        try await check(["check-token", "x.y.z", "--target", client], ExitCode.unavailable, "rollcall: \(client): \(text)")
        let ops = "https://127.0.0.1:\(fixture.nodes[0].ports.ops)"
        try await check(["cluster", "members", "--ops", ops], ExitCode.unavailable, "rollcall: \(ops): \(text)")
        try await fixture.stop()
    }

    @Test("A certificate that is not trusted is said to be so with --ca, and one for another name is another error")
    func untrusted() async throws {
        let folder = TemporaryFolder()
        let made = try await makeCertificate("node", in: folder.path)
        let node = try await ServedNode.serving(
            ["--dev", "--tls-certificate", made.certificate, "--tls-key", made.key], in: folder)
        let url = "https://localhost:\(node.ports.client)"
        let text = "the certificate is not trusted: its authority is unknown, or it has expired (--ca names the file of an authority)\n"
        let file = try friends(in: folder.path)
        for command in [["status", "ann"], ["watch", "--user", "ann"], ["import", file]] {
            try await check(command + ["--target", url], ExitCode.unavailable, "rollcall: \(url): \(text)")
        }
        let trusting = ["status", "ann", "--ca", made.certificate, "--target"]
        let trusted = try await RollcallBinary.run(trusting + [url])
        #expect(trusted.status == 0, "\(trusted.output)")
        let address = "https://127.0.0.1:\(node.ports.client)"
        let otherName = "rollcall: \(address): the certificate is for another name or address\n"
        try await check(trusting + [address], ExitCode.unavailable, otherName)
        try await node.stop()
    }

    // MARK: Files

    /// The arguments of a node that does not start.
    private func serve(_ arguments: [String], in folder: String) -> [String] {
        let ports = ["--listen", "--cluster-listen", "--ops-listen"].flatMap { [$0, "127.0.0.1:0"] }
        return ["serve", "--dev", "--node-id", "n", "--data-dir", "\(folder)/n"] + ports + arguments
    }

    @Test("A folder in place of a file is named, and so is a data directory that cannot be created, with the system's reason")
    func folders() async throws {
        let folder = TemporaryFolder()
        let path = folder.path
        try await check(["import", path], ExitCode.usage, "rollcall: \(path): is a directory\n")
        let setting = "rollcall: bad setting: config: \(path): is a directory\n"
        try await check(["serve", "--config", path], ExitCode.usage, setting)
        try await check(["check-token", "x", "--config", path], ExitCode.usage, setting)
        try await check(
            ["serve", "--config", "\(path)/none"], ExitCode.usage,
            "rollcall: bad setting: config: \(path)/none: cannot be read: No such file or directory\n")
        try await check(
            ["token", "--user", "ann", "--secret-file", path], ExitCode.usage, "rollcall: --secret-file: \(path): is a directory\n")
        let latin = "\(path)/latin.yaml"
        try Data([0x23, 0x20, 0xFC, 0x0A]).write(to: URL(filePath: latin))
        try await check(["serve", "--config", latin], ExitCode.usage, "rollcall: bad setting: config: \(latin): is not UTF-8\n")
        try await check(
            serve(["--data-dir", "/dev/null/x"], in: path), ExitCode.inputOutput,
            "rollcall: data directory: /dev/null/x: cannot be created: Not a directory\n")
    }

    @Test("A node that cannot use a certificate or a key names the setting, the file and the reason") func certificates() async throws {
        let folder = TemporaryFolder()
        let (one, other) = (
            try await makeCertificate("one", in: folder.path), try await makeCertificate("other", in: folder.path)
        )
        let none = "\(folder.path)/none"
        let missing = "cannot be read: No such file or directory"
        let cases: [(certificate: String, key: String, setting: String, reason: String)] = [
            (none, none, "tls-certificate", "\(none): \(missing)"), (one.certificate, none, "tls-key", "\(none): \(missing)"),
            (folder.path, one.key, "tls-certificate", "\(folder.path): is a directory"),
            (one.key, one.key, "tls-certificate", "\(one.key): has no certificate in PEM"),
            (one.certificate, one.certificate, "tls-key", "\(one.certificate): has no private key in PEM without a passphrase"),
            (one.certificate, other.key, "tls-key", "\(other.key): is not the key of \(one.certificate)"),
        ]
        for (certificate, key, setting, reason) in cases {
            let arguments = serve(["--tls-certificate", certificate, "--tls-key", key], in: folder.path)
            try await check(arguments, ExitCode.usage, "rollcall: bad setting: \(setting): \(reason)\n")
        }
        let cluster = ["--cluster-tls-certificate", one.certificate, "--cluster-tls-key", one.key, "--cluster-tls-ca", none]
        try await check(
            serve(cluster, in: folder.path), ExitCode.usage, "rollcall: bad setting: cluster-tls-ca: \(none): \(missing)\n")
    }

    // MARK: Refusals

    @Test("A port that is not the right one is named with its answer's detail, and exits with 69 in each command")
    func otherPort() async throws {
        let fixture = try await ServedCluster.start()
        let ports = fixture.nodes[0].ports
        let (client, ops) = ("http://127.0.0.1:\(ports.client)", "http://127.0.0.1:\(ports.ops)")
        let calls: [(command: [String], path: String)] = [
            (["status", "ann"], "/v1/getUserStatus"), (["watch", "--user", "ann", "ben"], "/v1/subscribeUserStatus"),
            (["watch", "--user", "ann"], "/v1/events?platform=terminal"), (["check-token", "x.y.z"], "/v1/getUserStatus"),
        ]
        let advice = "\n--target must be the URL of a node's client port (7600 by default).\n"
        for (command, path) in calls {
            try await check(command + ["--target", ops], ExitCode.unavailable, "rollcall: \(ops)\(path) answered 404: no such path; ")
            try await check(command + ["--target", ops], ExitCode.unavailable, advice)
        }
        let members = ["cluster", "members", "--ops", client]
        try await check(members, ExitCode.unavailable, "rollcall: \(client)/admin/v1/clusterStatus answered 404: no such path; ")
        try await check(members, ExitCode.unavailable, "\n--ops must be the URL of a node's ops port (7602 by default).\n")
        try await fixture.stop()
    }

    @Test("A token that a node refuses is an error with the URL and the answer's detail in each command") func refusedToken()
        async throws
    {
        let fixture = try await ServedCluster.start()
        let (client, ops) = ("http://127.0.0.1:\(fixture.nodes[0].ports.client)", "http://127.0.0.1:\(fixture.nodes[0].ports.ops)")
        let calls: [(command: [String], url: String)] = [
            (["status", "ann", "--target", client], "\(client)/v1/getUserStatus"),
            (["watch", "--user", "ann", "ben", "--target", client], "\(client)/v1/subscribeUserStatus"),
            (["watch", "--user", "ann", "--target", client], "\(client)/v1/events?platform=terminal"),
            (["cluster", "members", "--ops", ops], "\(ops)/admin/v1/clusterStatus"),
        ]
        for (command, url) in calls {
            let text = "rollcall: \(url) answered 401: the token is not three parts in Base64url"
            try await check(command + ["--token", "garbage"], 1, text)
        }
        let facts = "\(fixture.directory)/facts.ndjson"
        let fact = #"{"userID":"ann","kind":"friend","key":"ben","value":{"addTime":1}}"#
        try Data("\(fact)\n".utf8).write(to: URL(filePath: facts))
        let imports: [(arguments: [String], url: String)] = [
            ([try friends(in: fixture.directory), "--target", client], "\(client)/v1/importFriends"),
            ([facts, "--ops", ops], "\(ops)/admin/v1/importFacts"),
        ]
        for (arguments, url) in imports {
            let text = "rollcall: \(url) answered 401: the token is not three parts in Base64url"
            try await check(["import"] + arguments + ["--token", "garbage"], ExitCode.unavailable, text)
        }
        try await fixture.stop()
    }

    @Test("The page of another program is not printed") func otherProgram() async throws {
        let server = try await TextServer.start("<html>hello</html>")
        let url = "http://127.0.0.1:\(server.port)"
        let text = "not an answer of Rollcall\n"
        let (status, members) = (["status", "ann", "--target", url], ["cluster", "members", "--ops", url])
        try await check(status, ExitCode.unavailable, "rollcall: \(url)/v1/getUserStatus answered 200: \(text)")
        try await check(members, ExitCode.unavailable, "rollcall: \(url)/admin/v1/clusterStatus answered 200: \(text)")
        server.set("<html>hello</html>", status: 403)
        let watch = ["watch", "--user", "ann", "--target", url]
        for (command, path) in [(status, "/v1/getUserStatus"), (watch, "/v1/events?platform=terminal")] {
            try await check(command, ExitCode.unavailable, "rollcall: \(url)\(path) answered 403: \(text)")
        }
        await server.stop()
    }
}
