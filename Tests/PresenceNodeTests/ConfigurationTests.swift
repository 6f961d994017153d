import Foundation
import Testing

@testable import PresenceNode

@Suite struct ConfigurationTests {
    private func read(_ flags: [String: String] = [:], _ environment: [String: String] = [:], file: String? = nil) async throws
        -> NodeConfiguration
    {
        try await NodeConfiguration.read(flags: flags, environment: environment, file: file)
    }

    @Test func withoutSettingsANodeIsForDevelopmentOnLoopback() async throws {
        let configuration = try await read()
        #expect(configuration.isDevelopment)
        #expect(configuration.listen == HostPort(host: "127.0.0.1", port: 7600))
    }

    @Test func flagsWinOverTheEnvironmentAndThatOverTheFile() async throws {
        let file = NSTemporaryDirectory() + "rollcall-\(UUID().uuidString).yaml"
        defer { unlink(file) }
        try "cluster: from-file\nnodeId: from-file\ndataDir: from-file\nheartbeatTimeout: 60\n".write(
            toFile: file, atomically: true, encoding: .utf8)
        let environment = ["ROLLCALL_CLUSTER": "from-environment", "ROLLCALL_NODE_ID": "from-environment"]
        let configuration = try await read(["nodeId": "from-flag"], environment, file: file)
        #expect(configuration.nodeID == "from-flag")
        #expect(configuration.cluster == "from-environment")
        #expect(configuration.dataDirectory == "from-file")
        #expect(configuration.core.heartbeatTimeout == .seconds(60))
    }

    @Test(arguments: [
        ("nodeID: n1", "nodeID"), ("lisen: 127.0.0.1:0", "lisen"), ("apps: [a]\njwt:\n  a:\n    hs265: x", "jwt.a.hs265"),
        ("- a list", "config"), ("a: [", "config"),
    ])
    func aFileWithAnUnknownSettingIsRefusedByItsName(text: String, setting: String) async throws {
        let file = NSTemporaryDirectory() + "rollcall-\(UUID().uuidString).yaml"
        defer { unlink(file) }
        try text.write(toFile: file, atomically: true, encoding: .utf8)
        await #expect { _ = try await read(file: file) } throws: { ($0 as? ConfigurationError)?.setting == setting }
    }

    @Test(arguments: [
        (["listen": "nonsense"], "listen"), (["listen": "127.0.0.1:99999"], "listen"), (["dev": "true", "listen": "0.0.0.0:1"], "listen"),
        (["listen": "127.0.0.1:0"], "apps"), (["loops": "0"], "loops"), (["loops": "many"], "loops"), (["nodeId": ""], "node-id"),
        (["join": "a:1,b"], "join"), (["tlsCertificate": "x", "dev": "true"], "tls-certificate"),
        (["logFormat": "xml", "dev": "true"], "log-format"),
        (["heartbeatTimeout": "10", "dev": "true"], "heartbeatTimeout"),
        (["dev": "true", "listen": "127.example.com:1"], "listen"), (["dev": "true", "listen": "127.0.0.1.evil:1"], "listen"),
    ])
    func aBadSettingIsNamed(flags: [String: String], setting: String) async {
        do {
            _ = try await read(flags)
            Issue.record("taken: \(flags)")
        } catch let error as ConfigurationError {
            #expect(error.setting == setting)
        } catch { Issue.record("another error: \(error)") }
    }
}
