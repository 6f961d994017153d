import Foundation
import NodeFixture
import Testing

/// The metric of calls that a policy rejects (<doc:Metrics>). A cluster of its own, because the counters are the node's.
@Suite struct RejectionTests {
    static func count(_ rule: String, _ fixture: ServedCluster) async throws -> Int? {
        let name = "rollcall_policy_rejections_total{rule=\"\(rule)\"} "
        let line = try await fixture.nodes[0].metricsText().split(separator: "\n").first { $0.hasPrefix(name) }
        return line.flatMap { Int($0.dropFirst(name.count)) }
    }

    /// A call that each rule refuses: the settings, the operation, its body, and how much of it is refused.
    static let refused: [(rule: String, settings: String, operation: String, body: String, count: Int)] = [
        ("plan", #"{"plan":"basic"}"#, "getUserStatus", users(["bob"]), 1),
        ("switch", #"{"userStatus.enabled":false}"#, "getUserStatus", users(["bob", "carl"]), 1),
        ("batch", #"{"query.batchMax":2}"#, "getUserStatus", users(["u1", "u2", "u3"]), 1),
        ("ttl", #"{"subscription.ttlMax":90}"#, "subscribeUserStatus", users(["bob"], #""expiry":91"#), 1),
        ("ttl", #"{"subscription.ttlRequired":true}"#, "subscribeUserStatus", users(["bob"]), 1),
        ("customStatus", #"{"customStatus.maxBytes":3}"#, "setSelfStatus", #"{"customStatus":"four"}"#, 1),
        ("self", #"{"query.selfAllowed":false}"#, "getUserStatus", users(["ann", "bob"]), 1),
        ("self", #"{"query.selfAllowed":false,"errors.shape":"wholeCall"}"#, "getUserStatus", users(["ann", "bob"]), 1),
        ("list", #"{"subscription.list":false}"#, "getSubscribedUserStatus", "{}", 1),
        (
            "quota", #"{"subscription.maxPerSubscriber":1,"subscription.overflow":"reject"}"#, "subscribeUserStatus",
            users(["bob", "carl", "dora"]), 2
        ),
        (
            "quota", #"{"subscription.maxPerSubscriber":1,"subscription.overflow":"reject","errors.shape":"wholeCall"}"#,
            "subscribeUserStatus", users(["bob", "carl", "dora"]), 1
        ),
    ]

    @Test("Every refusal is counted once, by its rule") func countsByRule() async throws {
        let folder = TemporaryFolder()
        // JSON is YAML. The limit of calls is one that a busy machine does not leave behind.
        var policies = [
            #""default":{"settings":{"rate.setStatus":{"calls":1,"seconds":3600}}}"#,
            #""crowd":{"settings":{"subscription.maxPerTarget":1}}"#,
            #""crowdWhole":{"settings":{"subscription.maxPerTarget":1,"errors.shape":"wholeCall"}}"#,
        ]
        for (number, refused) in Self.refused.enumerated() { policies.append("\"app\(number)\":{\"settings\":\(refused.settings)}") }
        let file = "\(folder.path)/rollcall.yaml"
        try "policies: {\(policies.joined(separator: ", "))}\n".write(toFile: file, atomically: true, encoding: .utf8)
        let fixture = try await ServedCluster.start(in: folder, arguments: ["--config", file])
        var expected: [String: Int] = [:]
        for (number, refused) in Self.refused.enumerated() {
            _ = try await fixture.call(refused.operation, refused.body, app: "app\(number)")
            expected[refused.rule, default: 0] += refused.count
            for (rule, count) in expected { #expect(try await Self.count(rule, fixture) == count, "\(rule) after \(refused.settings)") }
        }
        for _ in 0..<3 { _ = try await fixture.call("setSelfStatus", #"{"customStatus":""}"#) }
        #expect(try await Self.count("rate", fixture) == 2)
        for fan in ["ann", "bob", "carl"] { _ = try await fixture.call("subscribeUserStatus", users(["star"]), as: fan, app: "crowd") }
        #expect(try await Self.count("maxPerTarget", fixture) == 2)
        _ = try await fixture.call("subscribeUserStatus", users(["star"]), as: "fan", app: "crowdWhole")
        let whole = try await fixture.call("subscribeUserStatus", users(["bob", "star"]), as: "ann", app: "crowdWhole")
        #expect(whole.status == 400 && whole.json["errorUserList"]?.elements.map { $0["userID"] } == [.string("star")])
        #expect(try await Self.count("maxPerTarget", fixture) == 3)
        try await fixture.stop()
    }
}
