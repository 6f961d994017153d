import NodeFixture
import Testing

/// The 400 seconds of Tencent's document, waited for in full.
///
/// The suite is a step of its own in `make test`, beside the others, because it only waits.
@Suite(.cluster, .timeLimit(.minutes(9))) struct SilentDeviceTests {
    @Test("T6 A device that falls silent without FIN or RST stays ONLINE for 400 s, and is OFFLINE then")
    func silence() async throws {
        let app = try await App("tencent")
        #expect(try await app.call("subscribeUserStatus", users(["ann"]), as: "bob").code == 0)
        let bob = try await app.login("bob", node: 2)
        let device = try SilentClient(port: app.cluster.nodes[0].ports.client, token: try app.token("ann"))
        try await bob.status(of: "ann") { $0.general == "ONLINE" }
        let fellSilent = ContinuousClock.now

        try await bob.until("ann is OFFLINE for bob", within: .seconds(430)) { events in
            events.contains { event in
                event.name == "onUserStatusChanged"
                    && event.json["userStatusList"]?.elements.contains { $0.user == "ann" && $0.general == "OFFLINE" } == true
            }
        }
        // The device fell silent shortly before bob was told that it is there. The node looks for silent devices every few seconds.
        let silence = ContinuousClock.now - fellSilent
        #expect(silence > .seconds(399) && silence < .seconds(410), "\(silence)")
        #expect(bob.statuses(of: "ann").suffix(2).map(\.general) == ["ONLINE", "OFFLINE"])
        #expect(try await app.status(of: "ann", as: "carl", node: 1).general == "OFFLINE")
        device.close()
    }
}
