import PresenceWire
import Testing

@testable import PresenceCore

/// `login.multiClient` (T34): which sessions of a user may be open at a time.
@Suite struct MultiClientTests {
    private func cluster(_ multiClient: Policy.MultiClient) -> TestCluster {
        var settings = CoreSettings()
        settings.policy.multiClient = multiClient
        return TestCluster(nodes: 3, settings: settings)
    }

    private func reason(_ client: TestCluster.Client) -> String? {
        client.events.last { $0.name == "onKickedOffline" }?.data["reason"]?.textValue
    }

    @Test("T34 A newer login ends the older session, on whichever node, as the policy says", arguments: Policy.MultiClient.allCases)
    func aNewerLoginEndsTheOlderSession(multiClient: Policy.MultiClient) {
        var cluster = cluster(multiClient)
        let phone = cluster.login("ann", on: 0, platform: "ios")
        let desk = cluster.login("ann", on: 1, platform: "web")
        let tablet = cluster.login("ann", on: 2, platform: "ios")
        #expect(reason(cluster.clients[phone]) == (multiClient == .all ? nil : "replaced"))
        #expect(reason(cluster.clients[desk]) == (multiClient == .single ? "replaced" : nil))
        #expect(reason(cluster.clients[tablet]) == nil && cluster.clients[tablet].isOpen)
        #expect(cluster.record(of: "ann").statusType == .online)
        let gone = [phone, desk].flatMap { cluster.statuses(told: $0, of: "ann") }
        #expect(!gone.contains("OFFLINE") && !gone.contains("UNLOGINED"))
    }

    /// The owner died with the word that ended the older session.
    @Test("A new owner ends the older of two sessions that are registered again") func newOwner() {
        var cluster = cluster(.all)
        let ann = cluster.user(ownedBy: 2)
        let phone = cluster.login(ann, on: 0)
        cluster.advance(.milliseconds(100))
        let tablet = cluster.login(ann, on: 1)
        for process in cluster.processes.indices {
            cluster.processes[process].node.machines.owner.policies = Policies(
                standard: { () -> Policy in
                    var policy = Policy()
                    policy.multiClient = .single
                    return policy
                }(), configured: [:])
        }
        cluster.kill(2)
        cluster.advance(.seconds(5))
        #expect(reason(cluster.clients[phone]) == "replaced" && cluster.clients[tablet].isOpen)
        #expect(reason(cluster.clients[tablet]) == nil)
    }
}
