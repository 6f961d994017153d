import PresenceWire
import Testing

@testable import ClusterSimulation
@testable import PresenceCore

/// Webhook events about sessions: a receiver can pair each login with its end.
@Suite struct WebhookSessionTests {
    private static let ends = ["Logout", "Disconnect", "TokenExpired", "Kick", "Replaced"]
    private static let users = ["ann", "bob", "carl"]

    private static func cluster(_ multiClient: Policy.MultiClient) -> TestCluster {
        var settings = CoreSettings()
        settings.policy.webhook.url = "https://app.example.com/rollcall"
        settings.policy.webhook.secret = "0123456789abcdef"
        settings.policy.multiClient = multiClient
        return TestCluster(nodes: 3, settings: settings)
    }

    /// The sessions of a user that have begun and not ended, by the events. Each event must fit those before it.
    private static func openSessions(of user: String, in cluster: TestCluster) -> [String] {
        var open: [String] = []
        for event in cluster.webhooks.first(of: user) {
            guard let session = event.json["sessionID"]?.textValue else { continue }
            let isOpen = open.contains(session)
            if event.action == "Login" {
                #expect(!isOpen, "\(user) begins \(session) twice: \(cluster.webhooks.actions(of: user))")
                open.append(session)
            } else {
                #expect(ends.contains(event.action) && isOpen, "\(event.action) of \(session) of \(user), which is not open")
                open.removeAll { $0 == session }
            }
        }
        return open
    }

    /// One random thing that happens to a session, a user or a node.
    private static func disturb(_ cluster: inout TestCluster, _ random: inout SplitMix64) throws {
        let user = users[random.number(in: 0...users.count - 1)]
        let up = cluster.processes.indices.filter { cluster.processes[$0].isUp }
        let node = up[random.number(in: 0...up.count - 1)]
        let open = cluster.clients.indices.filter { cluster.clients[$0].isOpen }
        switch random.number(in: 0...11) {
        case 0...4:
            cluster.login(
                user, on: node, platform: ["ios", "web"][random.number(in: 0...1)], device: ["", "a", "b"][random.number(in: 0...2)])
        case 5...6 where !open.isEmpty: cluster.lose(open[random.number(in: 0...open.count - 1)])
        case 7 where !open.isEmpty: cluster.close(open[random.number(in: 0...open.count - 1)], .loggedOut)
        case 8 where !open.isEmpty: cluster.close(open[random.number(in: 0...open.count - 1)], .tokenExpired)
        case 9: cluster.call([.logout(nil), .kick(reason: "banned")][random.number(in: 0...1)], by: user, on: node, origin: .backEnd)
        case 10...11:
            if let dead = cluster.processes.indices.first(where: { !cluster.processes[$0].isUp }) {
                try cluster.restart(dead, settings: cluster.settings)
                cluster.advance(.seconds(12))
            } else {
                cluster.kill(node)
            }
        default: break
        }
        cluster.advance(.milliseconds([50, 300, 3_000][random.number(in: 0...2)]))
    }

    @Test("Each login has one end with its session, whatever ends the session, and although nodes die", arguments: 0..<40)
    func pairs(seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed))
        var cluster = Self.cluster([.all, .perPlatform, .single][seed % 3])
        for _ in 0..<40 { try Self.disturb(&cluster, &random) }
        for dead in cluster.processes.indices where !cluster.processes[dead].isUp { try cluster.restart(dead, settings: cluster.settings) }
        cluster.advance(.seconds(40))
        for user in Self.users {
            let open = cluster.clients.filter { $0.user == user && $0.isOpen }.map(\.session.description)
            #expect(Self.openSessions(of: user, in: cluster).sorted() == open.sorted(), "\(user) before the end")
        }
        for client in cluster.clients.indices { cluster.close(client, .loggedOut) }
        cluster.advance(.seconds(20))
        for user in Self.users { #expect(Self.openSessions(of: user, in: cluster) == [], "\(user): \(cluster.webhooks.actions(of: user))") }
    }

    @Test("A return after the death of owner and gateway ends the old session once, before the new one begins")
    func returnAfterDeath() {
        var cluster = Self.cluster(.all)
        let ann = cluster.user(ownedBy: 0)
        let first = cluster.login(ann, on: 0, device: "phone")
        cluster.advance(.milliseconds(200))
        cluster.kill(0)
        cluster.advance(.milliseconds(500))
        let second = cluster.login(ann, on: 1, device: "phone")
        cluster.advance(.seconds(20))
        let events = cluster.webhooks.first(of: ann)
        #expect(events.map(\.action) == ["Login", "Replaced", "Login"])
        let ids = [first, first, second].map { cluster.clients[$0].session.description }
        #expect(events.map { $0.json["sessionID"]?.textValue } == ids)
        #expect(events.allSatisfy { $0.json["deviceID"]?.textValue == "phone" })
    }
}
