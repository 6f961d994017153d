import Foundation
import Testing

@testable import PresenceCore
@testable import PresenceNode

@Suite struct ConfigurationTests {
    /// As long as an HS256 secret must be.
    private static let secret = String(repeating: "k", count: 32)

    private func read(_ flags: [String: String] = [:], _ environment: [String: String] = [:], file: String? = nil) async throws
        -> NodeConfiguration
    {
        try await NodeConfiguration.read(flags: flags, environment: environment, file: file)
    }

    /// Reads a file with this text, and variables.
    private func read(yaml text: String, _ environment: [String: String] = [:]) async throws -> NodeConfiguration {
        let file = NSTemporaryDirectory() + "rollcall-\(UUID().uuidString).yaml"
        defer { unlink(file) }
        try text.write(toFile: file, atomically: true, encoding: .utf8)
        return try await read([:], environment, file: file)
    }

    /// Why these settings are refused; nil if they are taken.
    private func refusal(of settings: () async throws -> NodeConfiguration) async throws -> ConfigurationError? {
        do { _ = try await settings() } catch let error as ConfigurationError { return error }
        return nil
    }

    @Test("Without settings a node is for development on loopback") func defaults() async throws {
        let configuration = try await read()
        #expect(configuration.isDevelopment)
        #expect(configuration.listen == HostPort(host: "127.0.0.1", port: 7600))
    }

    @Test("Flags override the environment, which overrides the file") func precedence() async throws {
        let file = NSTemporaryDirectory() + "rollcall-\(UUID().uuidString).yaml"
        defer { unlink(file) }
        try "cluster: from-file\nnodeId: from-file\ndataDir: from-file\nheartbeatTimeout: 60\n".write(
            toFile: file, atomically: true, encoding: .utf8)
        let environment = ["ROLLCALL_CLUSTER": "from-environment", "ROLLCALL_NODE_ID": "from-environment"]
        let configuration = try await read(["nodeId": "from-flag"], environment, file: file)
        #expect(configuration.nodeID == "from-flag")
        #expect(configuration.cluster == "from-environment")
        #expect(configuration.dataDirectory == "from-file")
        #expect(configuration.core.policy.livenessTimeout == .seconds(60))
    }

    @Test(
        "The error names an unknown setting in a file",
        arguments: [
            ("nodeID: n1", "nodeID"), ("lisen: 127.0.0.1:0", "lisen"), ("apps: [a]\njwt:\n  a:\n    hs265: x", "jwt.a.hs265"),
            ("- a list", "config"), ("a: [", "config"),
        ])
    func unknownSetting(text: String, setting: String) async throws {
        let file = NSTemporaryDirectory() + "rollcall-\(UUID().uuidString).yaml"
        defer { unlink(file) }
        try text.write(toFile: file, atomically: true, encoding: .utf8)
        await #expect { _ = try await read(file: file) } throws: { ($0 as? ConfigurationError)?.setting == setting }
    }

    @Test(
        "The error names an invalid setting",
        arguments: [
            (["listen": "nonsense"], "listen"), (["listen": "127.0.0.1:99999"], "listen"),
            (["dev": "true", "listen": "0.0.0.0:1"], "listen"),
            (["listen": "127.0.0.1:0"], "apps"), (["loops": "0"], "loops"), (["loops": "many"], "loops"), (["nodeId": ""], "node-id"),
            (["join": "a:1,b"], "join"), (["join": "127.0.0.1:0"], "join"), (["join": "a:1,b:0"], "join"),
            (["advertise": "127.0.0.1:0"], "advertise"),
            (["tlsCertificate": "x", "dev": "true"], "tls-certificate"),
            (["logFormat": "xml", "dev": "true"], "log-format"),
            (["otlpEndpoint": "collector:4318", "dev": "true"], "otlpEndpoint"),
            (["otlpEndpoint": "http://", "dev": "true"], "otlpEndpoint"),
            (["otlpEndpoint": "http://key@collector:4318", "dev": "true"], "otlpEndpoint"),
            (["otlpEndpoint": "http://collector:4318?x=1", "dev": "true"], "otlpEndpoint"),
            (["heartbeatTimeout": "10", "dev": "true"], "heartbeatTimeout"),
            (["dev": "true", "listen": "127.example.com:1"], "listen"), (["dev": "true", "listen": "127.0.0.1.evil:1"], "listen"),
        ])
    func invalidSetting(flags: [String: String], setting: String) async {
        do {
            _ = try await read(flags)
            Issue.record("taken: \(flags)")
        } catch let error as ConfigurationError {
            #expect(error.setting == setting)
        } catch { Issue.record("another error: \(error)") }
    }

    // MARK: Loops

    @Test("There is a loop for each core, up to the maximum", arguments: [(1, 1), (64, 64), (65, 64), (192, 64)])
    func loops(cores: Int, loops: Int) {
        #expect(NodeConfiguration.loops(ofCores: cores) == loops)
        #expect(NodeConfiguration.loopsMax == FanOut.gatewaysMax)
    }

    @Test("A number of loops beyond the maximum is refused", arguments: [0, 65]) func tooManyLoops(loops: Int) {
        var configuration = NodeConfiguration()
        configuration.isDevelopment = true
        configuration.loopsCount = loops
        #expect(throws: ConfigurationError(setting: "loops", problem: "\(loops) is not in 1...64")) { try configuration.validate() }
    }

    // MARK: Keys

    @Test("With a key in the file its app is served, and the development key is not accepted") func keyInFile() async throws {
        let yaml = "apps: [default]\njwt: {default: {hs256: \(Self.secret)}, shop: {hs256: \(Self.secret)}}"
        let both = try await read(yaml: yaml)
        #expect(both.appKeys.keys.sorted() == ["default", "shop"] && !both.isDevelopment)
        let one = try await read(yaml: "jwt: {shop: {hs256: \(Self.secret)}}")
        #expect(one.appKeys.keys.sorted() == ["shop"] && !one.isDevelopment)
    }

    @Test(
        "The documented variable of a key is the one that is read", arguments: ["default", "my-shop", "myShop", "shop.2"],
        ["es256PublicKeyFile", "hs256", "rs256PublicKeyFile"])
    func keyVariable(app: String, key: String) async throws {
        let configuration = try await read([:], ["ROLLCALL_APPS": app, KnownSettings.variable(of: app, key): #filePath])
        #expect(configuration.appKeys[app]?.keys.count == 1 && !configuration.isDevelopment)
    }

    @Test(
        "A key in the environment of an app that is not configured is refused",
        arguments: [[:], ["dev": "true"], ["listen": "127.0.0.1:0"], ["dataDir": "x"]] as [[String: String]])
    func keyWithoutApp(flags: [String: String]) async throws {
        let name = "ROLLCALL_JWT_SHOP_HS256"
        let alone = try await refusal { try await read(flags, [name: Self.secret]) }
        #expect(alone?.setting == name && alone?.problem.hasSuffix("ROLLCALL_APPS=shop") == true)
        let variables = ["ROLLCALL_APPS": "default", "ROLLCALL_JWT_DEFAULT_HS256": Self.secret, name: Self.secret]
        let besides = try await refusal { try await read(flags, variables) }
        #expect(besides?.setting == name && besides?.problem.hasSuffix("ROLLCALL_APPS=default,shop") == true)
    }

    @Test(
        "The error names a variable that is not a key",
        arguments: ["ROLLCALL_JWT_HS256", "ROLLCALL_JWT_DEFAULT_HS265", "ROLLCALL_JWT_DEFAULT_ES256_PUBLIC_KEY_FILE"])
    func unknownKey(name: String) async throws {
        let variables = ["ROLLCALL_APPS": "default", "ROLLCALL_JWT_DEFAULT_HS256": Self.secret, name: Self.secret]
        let refusal = try await refusal { try await read([:], variables) }
        #expect(refusal?.setting == name && refusal?.problem.contains("ROLLCALL_JWT_<APP>_ES256PUBLIC_KEY_FILE") == true)
    }

    @Test("An app may have several keys, a key set, and what its tokens must say") func severalKeys() async throws {
        let other = String(repeating: "o", count: 32)
        let set = NSTemporaryDirectory() + "rollcall-\(UUID().uuidString).json"
        defer { unlink(set) }
        let encoded = Data(Self.secret.utf8).base64EncodedString().replacing("=", with: "")
        try #"{"keys":[{"kty":"oct","kid":"k1","k":"\#(encoded)"},{"kty":"OKP","crv":"Ed25519","x":"a"}]}"#.write(
            toFile: set, atomically: true, encoding: .utf8)
        let rules = try await read(
            yaml: """
                jwt:
                  a:
                    hs256: [\(Self.secret), \(other)]
                    jwksFile: \(set)
                    jwksUrl: https://idp.example/jwks
                    audience: [chat, shop]
                    issuer: https://idp.example
                """
        ).appKeys["a"]
        #expect(rules?.keys.map(\.description) == ["HS256 key of hs256", "HS256 key of hs256", "HS256 key \"k1\" of jwksFile"])
        #expect(rules?.keys.last?.material == .secret(Array(Self.secret.utf8)))
        #expect(rules?.keySetURL == "https://idp.example/jwks")
        #expect(rules?.audiences == ["chat", "shop"] && rules?.issuers == ["https://idp.example"])
        let variables = ["ROLLCALL_APPS": "a", "ROLLCALL_JWT_A_JWKS_URL": "https://10.1.2.3/k", "ROLLCALL_JWT_A_AUDIENCE": "one,two"]
        let variable = try await read([:], variables).appKeys["a"]
        #expect(variable?.keySetURL == "https://10.1.2.3/k" && variable?.audiences == ["one,two"] && variable?.keys == [])
    }

    @Test(
        "The URL of a key set needs TLS, except on loopback with --dev, and has no password",
        arguments: [
            ("https://idp.example/k", false, true), ("http://idp.example/k", false, false), ("http://idp.example/k", true, false),
            ("http://127.0.0.1:1/k", false, false), ("http://127.0.0.1:1/k", true, true), ("https://a:b@idp.example/k", false, false),
            ("idp.example", false, false),
        ])
    func keySetURL(url: String, isDevelopment: Bool, isAccepted: Bool) async throws {
        let refusal = try await refusal { try await read(yaml: "dev: \(isDevelopment)\njwt: {a: {jwksUrl: \"\(url)\"}}") }
        #expect((refusal == nil) == isAccepted)
        if let refusal { #expect(refusal.setting == "jwt.a.jwksUrl") }
    }

    @Test("The error of a file that is not a key set says why") func badKeySet() async throws {
        let set = NSTemporaryDirectory() + "rollcall-\(UUID().uuidString).json"
        defer { unlink(set) }
        for text in ["nonsense", "{}", #"{"keys":{}}"#, #"{"keys":[]}"#, #"{"keys":[{"kty":"oct","use":"enc","k":"YQ"}]}"#] {
            try text.write(toFile: set, atomically: true, encoding: .utf8)
            let refusal = try await refusal { try await read(yaml: "jwt: {a: {jwksFile: \(set)}}") }
            #expect(refusal?.setting == "jwt.a.jwksFile" && refusal?.problem.hasPrefix(set) == true, "\(text)")
        }
    }

    @Test("The error of a file that is not YAML names the place, and nothing of the lines around it") func brokenFile() async throws {
        let refusal = try await refusal { try await read(yaml: "jwt:\n  a:\n    hs256: \(Self.secret)\n   b: [") }
        #expect(refusal?.setting == "config" && refusal?.problem.contains("line ") == true)
        #expect(refusal?.problem.contains(Self.secret) == false)
    }

    @Test("The error names an app of 65 bytes") func longApp() async throws {
        let name = String(repeating: "a", count: 65)
        let inFile = try await refusal { try await read(yaml: "jwt: {\(name): {hs256: \(Self.secret)}}") }
        #expect(inFile?.setting == "jwt.\(name)")
        let variables = ["ROLLCALL_APPS": name, "ROLLCALL_JWT_\(name.uppercased())_HS256": Self.secret]
        let inVariable = try await refusal { try await read([:], variables) }
        #expect(inVariable?.setting == "jwt.\(name)")
        let longest = String(name.dropLast())
        #expect(try await read(yaml: "jwt: {\(longest): {hs256: \(Self.secret)}}").appKeys.count == 1)
    }

    // MARK: Variables

    @Test(
        "The error names a variable that is not a setting",
        arguments: ["ROLLCALL_LISTN", "ROLLCALL_NODEID", "ROLLCALL_node_id", "ROLLCALL_POLICIES", "ROLLCALL_JWT", "ROLLCALL_"])
    func unknownVariable(name: String) async throws {
        let refusal = try await refusal { try await read([:], [name: "x"]) }
        #expect(refusal?.setting == name && refusal?.problem.contains("ROLLCALL_NODE_ID") == true)
    }

    @Test("The variables of all settings, and those of other commands, are accepted") func knownVariables() async throws {
        for name in ["ROLLCALL_HS256", "ROLLCALL_SECRET", "ROLLCALL", "ROLLCALLER", "PATH"] {
            #expect(try await read([:], [name: "x"]).isDevelopment)
        }
        let values = [
            "ROLLCALL_NODE_ID": "n", "ROLLCALL_LISTEN": "127.0.0.1:1", "ROLLCALL_CLUSTER_LISTEN": "127.0.0.1:2", "ROLLCALL_LOOPS": "1",
            "ROLLCALL_STREAMS_PER_CONNECTION": "7", "ROLLCALL_APPS": "a", "ROLLCALL_JWT_A_HS256": Self.secret,
            "ROLLCALL_CLUSTER_SECRET": Self.secret,
        ]
        #expect(try await read([:], values).streamsPerConnectionMax == 7)
    }

    // MARK: The cluster port

    @Test(
        "A cluster port that other machines reach needs a secret or certificates",
        arguments: ["0.0.0.0:7601", "192.0.2.1:7601", "[::]:7601", "a.example.net:7601"])
    func openClusterPort(address: String) async throws {
        let flags = ["clusterListen": address, "apps": "a"]
        let key = ["ROLLCALL_JWT_A_HS256": Self.secret]
        let refusal = try await refusal { try await read(flags, key) }
        #expect(refusal?.setting == "cluster-listen" && refusal?.problem.contains("insecure-cluster") == true)
        #expect(try await read(flags, key.merging(["ROLLCALL_CLUSTER_SECRET": Self.secret]) { $1 }).isClusterOpen == false)
        let certificates = ["clusterTlsCertificate": "c", "clusterTlsKey": "k", "clusterTlsCa": "a"]
        #expect(try await read(flags.merging(certificates) { $1 }, key).isClusterOpen == false)
        #expect(try await read(flags.merging(["insecureCluster": "true"]) { $1 }, key).isClusterOpen)
        #expect(try await read(flags, key.merging(["ROLLCALL_INSECURE_CLUSTER": "true"]) { $1 }).isClusterOpen)
        let file = "clusterListen: \"\(address)\"\ninsecureCluster: true\njwt: {a: {hs256: \(Self.secret)}}"
        #expect(try await read(yaml: file).isClusterOpen)
    }

    @Test("A cluster port on loopback needs neither", arguments: ["127.0.0.1:7601", "localhost:7601", "[::1]:7601"])
    func loopbackClusterPort(address: String) async throws {
        #expect(try await read(["clusterListen": address, "apps": "a"], ["ROLLCALL_JWT_A_HS256": Self.secret]).isClusterOpen == false)
    }

    // MARK: Shapes

    @Test("An empty file is a file without settings", arguments: ["", "\n", "# nothing but a comment\n", "---\n", "{}\n"]) func emptyFile(
        text: String
    )
        async throws
    {
        #expect(try await read(yaml: text).isDevelopment)
    }

    @Test(
        "The error names the setting whose value has the wrong shape",
        arguments: [
            ("listen: [0.0.0.0:7600]", "listen"), ("heartbeatTimeout: [60]", "heartbeatTimeout"), ("nodeId: {a: b}", "nodeId"),
            ("dev: [true]", "dev"), ("join: {a: b}", "join"), ("join: [{a: b}]", "join"), ("apps: [[a]]", "apps"), ("jwt: [a]", "jwt"),
            ("jwt: secret", "jwt"), ("jwt: {a: secret}", "jwt.a"), ("jwt: {a: {hs256: {b: c}}}", "jwt.a.hs256"),
            ("jwt: {a: {hs256: [[x]]}}", "jwt.a.hs256"),
            ("jwt: {a: {jwksUrl: [x]}}", "jwt.a.jwksUrl"), ("policies: [a]", "policies"),
            ("policies: zim", "policies"), ("policies: {a: zim}", "policies.a"),
        ])
    func wrongShape(text: String, setting: String) async throws {
        let refusal = try await refusal { try await read(yaml: text) }
        #expect(refusal?.setting == setting)
    }

    @Test("A list may be a list or one value with commas") func lists() async throws {
        let list = try await read(yaml: "join: [\"a:1\", \"b:2\"]\njwt:\npolicies:\n")
        let value = try await read(yaml: "join: a:1,b:2")
        #expect(list.join == [HostPort(host: "a", port: 1), HostPort(host: "b", port: 2)] && value.join == list.join)
    }
}
