import Foundation
import PresenceCore
import PresenceWire
import Testing

@testable import PresenceNode

@Suite struct AdminAPITests {
    private static let yaml = """
        heartbeatTimeout: 60
        offlineGrace: 5
        policies:
          shop: {preset: zim, settings: {query.batchMax: 7}}
          slow: {settings: {liveness.timeout: 400}}
          talk: {preset: tencent}
        """

    /// Nothing was said of `default`, other things of `shop`, a time of `slow`, and both by the document of which `talk` has the preset.
    @Test(
        "The shown times are those that the node applies",
        arguments: [("default", 60, 5), ("shop", 60, 5), ("slow", 400, 5), ("talk", 400, 0)])
    func times(app: String, timeout: Int, grace: Int) async throws {
        let file = NSTemporaryDirectory() + "rollcall-\(UUID().uuidString).yaml"
        defer { unlink(file) }
        try Self.yaml.write(toFile: file, atomically: true, encoding: .utf8)
        let configuration = try await NodeConfiguration.read(flags: [:], environment: [:], file: file)
        let peer = Peer(id: NodeID("n"), generation: 1, address: "127.0.0.1:1")
        let node = Node(selfPeer: peer, cluster: "c", gatewaysCount: 1, settings: configuration.core)

        let user = UserID(app: app, id: "x")
        let followed = node.owner.policy(of: user)
        #expect(followed.livenessTimeout == .seconds(timeout))
        #expect(followed.offlineGrace == .seconds(grace))
        var json = JSONWriter()
        GetAppPolicy.write(of: user, node.owner, into: &json)
        guard case .object(let shown) = try JSONReader.read(json.bytes)["settings"] else {
            Issue.record("no settings: \(String(decoding: json.bytes, as: UTF8.self))")
            return
        }
        #expect(shown.map(\.name) == Policy.settingNames)
        #expect(shown.first { $0.name == "liveness.timeout" }?.value == .integer(Int64(timeout)))
        #expect(shown.first { $0.name == "offlineGrace" }?.value == .integer(Int64(grace)))
    }
}
