import PresenceWire
import Testing

@testable import PresenceCore

/// Streams that hear without being seen (`presence=none`).
@Suite struct ListenerTests {
    var cluster = TestCluster(nodes: 3)

    private mutating func listen(_ user: String, on node: Int, device: String = "") -> Int {
        cluster.login(user, on: node, platform: "bot", device: device, kind: .listener)
    }

    private mutating func settle() { cluster.advance(.milliseconds(200)) }

    private func names(_ client: Int) -> [String] { cluster.clients[client].events.map(\.name) }

    @Test("A listener hears the users that its user follows, before and after a change of the list, and changes no status")
    mutating func hears() {
        let watcher = cluster.login("watcher", on: 2)
        cluster.subscribe("watcher", to: ["ann"], on: 2)
        cluster.setStatus("bob", "hello", on: 0)
        cluster.subscribe("ann", to: ["bob"], on: 0)
        settle()
        let version = cluster.record(of: "ann").version
        let bot = listen("ann", on: 1)
        settle()
        #expect(names(bot).contains("onSubscriptionSyncCompleted"))
        #expect(cluster.clients[bot].view["bob"]?["customStatus"] == .string("hello"))
        cluster.setStatus("bob", "again", on: 2)
        cluster.subscribe("ann", to: ["carl"], on: 2)
        cluster.setStatus("carl", "new", on: 0)
        settle()
        #expect(cluster.clients[bot].view["bob"]?["customStatus"] == .string("again"))
        #expect(cluster.clients[bot].view["carl"]?["customStatus"] == .string("new"))
        cluster.lose(bot)
        cluster.advance(.seconds(20))
        #expect(cluster.record(of: "ann").version == version && cluster.record(of: "ann").statusType != .online)
        #expect(cluster.statuses(told: watcher, of: "ann").allSatisfy { $0 != "ONLINE" })
        #expect(cluster.processes.map { $0.node.statistics.logins }.reduce(0, +) == 1)
    }

    @Test("A listener is in no list of sessions, and does not keep its user ONLINE") mutating func isNoSession() {
        let phone = cluster.login("ann", on: 0)
        let bot = listen("ann", on: 1)
        settle()
        cluster.call(.owner(.sessions([user("ann")])), by: "ann", on: 2)
        guard case .ownSessions(let sessions, _) = cluster.lastAnswer(on: 2) else { return _ = Issue.record("no answer") }
        #expect(sessions.map(\.id) == [cluster.clients[phone].session])
        #expect(!names(phone).contains("onSessionsChanged") && !names(bot).contains("onSessionsChanged"))
        cluster.close(phone, .loggedOut)
        settle()
        #expect(cluster.record(of: "ann").statusType == .unlogined)
        #expect(cluster.statuses(told: bot, of: "ann").last == "UNLOGINED" && cluster.clients[bot].isOpen)
        cluster.call(.logout(nil), by: "ann", on: 0)
        settle()
        #expect(cluster.clients[bot].isOpen)
        cluster.call(.logout(cluster.clients[bot].session), by: "ann", on: 0)
        settle()
        #expect(!cluster.clients[bot].isOpen && names(bot).last == "onLogout")
    }

    @Test("A listener goes on hearing after the death of its user's owner, and ends with its node without a trace")
    mutating func nodeDies() {
        let ann = cluster.user(ownedBy: 0)
        let bot = listen(ann, on: 1)
        let other = listen(ann, on: 0)
        cluster.subscribe(ann, to: ["bob"], on: 1)
        settle()
        cluster.kill(0)
        cluster.advance(.seconds(15))
        cluster.setStatus("bob", "after", on: 2)
        cluster.subscribe(ann, to: ["carl"], on: 2)
        cluster.setStatus("carl", "too", on: 2)
        settle()
        #expect(cluster.clients[bot].view["bob"]?["customStatus"] == .string("after"))
        #expect(cluster.clients[bot].view["carl"]?["customStatus"] == .string("too"))
        #expect(cluster.clients[bot].isOpen && !cluster.clients[other].isOpen)
        #expect(cluster.record(of: ann).statusType != .online)
        for process in cluster.processes where process.isUp { process.node.checkInvariants(alsoUsers: true) }
    }

    @Test("A user has at most 16 listeners; the first one ends, or that of the same device") mutating func bounds() {
        var bots: [Int] = []
        for number in 0..<16 {
            bots.append(listen("ann", on: number % 3, device: "d\(number)"))
            settle()
        }
        #expect(bots.allSatisfy { cluster.clients[$0].isOpen })
        let again = listen("ann", on: 0, device: "d5")
        settle()
        #expect(!cluster.clients[bots[5]].isOpen && bots.count { cluster.clients[$0].isOpen } == 15)
        let last = listen("ann", on: 1, device: "d16")
        settle()
        #expect(!cluster.clients[bots[0]].isOpen && names(bots[0]).last == "onKickedOffline")
        #expect(cluster.clients[again].isOpen && cluster.clients[last].isOpen)
    }

    @Test("A kick ends listeners as well, and webhooks have no event of a listener") func kick() {
        var settings = CoreSettings()
        settings.policy.webhook.url = "https://app.example.com/rollcall"
        settings.policy.webhook.secret = "0123456789abcdef"
        var cluster = TestCluster(nodes: 3, settings: settings)
        let bot = cluster.login("ann", on: 1, platform: "bot", kind: .listener)
        cluster.advance(.seconds(1))
        cluster.call(.kick(reason: "banned"), by: "ann", on: 0)
        cluster.advance(.seconds(1))
        #expect(!cluster.clients[bot].isOpen)
        #expect(cluster.webhooks.actions(of: "ann") == ["Kick"])
    }
}
