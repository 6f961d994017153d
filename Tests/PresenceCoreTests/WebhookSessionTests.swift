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
    /// The user is unconfirmed for 10 s, because the node of another session has died.
    @Test("A session that a new owner knows ends after its grace, although another session has died with its node")
    func graceAtNewOwner() {
        var cluster = Self.cluster(.all)
        let ann = cluster.user(ownedBy: 1)
        cluster.login(ann, on: 1, device: "tablet")
        let phone = cluster.login(ann, on: 0, device: "phone")
        cluster.advance(.milliseconds(200))
        cluster.kill(1)
        cluster.advance(.milliseconds(500))
        cluster.lose(phone)
        cluster.advance(.seconds(3))
        let ends = cluster.webhooks.first(of: ann).filter { $0.action != "Login" }
        #expect(ends.map(\.action) == ["Disconnect"])
        #expect(ends.first?.json["sessionID"]?.textValue == cluster.clients[phone].session.description)
        cluster.advance(.seconds(10))
        #expect(Self.openSessions(of: ann, in: cluster) == [])
    }

    @Test("A logout that an owner has answered before it knew the session ends the session, and no login is left without an end")
    func logoutBeforeRegistration() {
        var cluster = Self.cluster(.all)
        let ann = cluster.user(ownedBy: 1)
        // The messages of the session's node to the owner are lost, as they would be late at a new owner.
        cluster.losing = [(0, 1)]
        let phone = cluster.login(ann, on: 0, device: "phone")
        cluster.call(.logout(cluster.clients[phone].session), by: ann, on: 2)
        cluster.advance(.milliseconds(200))
        #expect(cluster.lastAnswer(on: 2) == .done)
        #expect(!cluster.clients[phone].isOpen)
        cluster.losing = []
        cluster.advance(.seconds(15))
        #expect(cluster.record(of: ann).statusType != .online)
        #expect(Self.openSessions(of: ann, in: cluster) == [])
    }
    @Test("A user who names the session of somebody else ends nothing, wherever that session is")
    func sessionOfSomebodyElse() {
        var cluster = Self.cluster(.all)
        let clients = (0..<3).map { cluster.login("ann", on: $0, device: "phone \($0)") }
        let others = (0..<3).map { cluster.login("bob", on: $0, device: "phone \($0)") }
        cluster.advance(.seconds(1))
        for other in others {
            for node in 0..<3 { cluster.call(.logout(cluster.clients[other].session), by: "ann", on: node, origin: .backEnd) }
        }
        cluster.advance(.seconds(15))
        #expect((clients + others).allSatisfy { cluster.clients[$0].isOpen })
        for user in ["ann", "bob"] { #expect(cluster.webhooks.actions(of: user) == ["Login", "Login", "Login"]) }
    }
}
