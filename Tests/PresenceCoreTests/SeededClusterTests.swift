import PresenceWire
import Testing

@testable import PresenceCore

/// Random histories of a cluster: logins, losses, changes, subscriptions, deaths and restarts; then quiet.
@Suite struct SeededClusterTests {
    /// SplitMix64.
    struct Random: RandomNumberGenerator {
        var state: UInt64
        mutating func next() -> UInt64 {
            state &+= 0x9E37_79B9_7F4A_7C15
            var mixed = state
            mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
            mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
            return mixed ^ (mixed >> 31)
        }
    }

    private func history(_ seed: UInt64) throws -> TestCluster {
        var random = Random(state: seed)
        var cluster = TestCluster(nodes: 3)
        let users = (0..<8).map { "u\($0)" }
        for _ in 0..<60 {
            let up = cluster.processes.indices.filter { cluster.processes[$0].isUp }
            let node = up.randomElement(using: &random)!
            let user = users.randomElement(using: &random)!
            switch Int.random(in: 0..<12, using: &random) {
            case 0..<3: cluster.login(user, on: node, device: "d\(Int.random(in: 0..<2, using: &random))")
            case 3:
                if let open = cluster.clients.indices.filter({ cluster.clients[$0].isOpen }).randomElement(using: &random) {
                    cluster.lose(open)
                }
            case 4..<7: cluster.setStatus(user, "s\(Int.random(in: 0..<100, using: &random))", on: node)
            case 7..<9: cluster.subscribe(user, to: [users.randomElement(using: &random)!, users.randomElement(using: &random)!], on: node)
            case 9: cluster.call(.logout(nil), by: user, on: node)
            case 10: if up.count == 3 { cluster.kill(node) }
            default: if let down = cluster.processes.indices.first(where: { !cluster.processes[$0].isUp }) { try cluster.restart(down) }
            }
            cluster.advance(.milliseconds(Int.random(in: 0...1_500, using: &random)))
        }
        for down in cluster.processes.indices where !cluster.processes[down].isUp { try cluster.restart(down) }
        cluster.advance(.seconds(15), step: .milliseconds(250))
        return cluster
    }

    @Test(arguments: 1...8) func afterQuietEveryViewEqualsTheOwnersRecord(seed: UInt64) throws {
        let cluster = try history(seed)
        for client in cluster.clients where client.isOpen {
            #expect(client.wentBack == 0, "seed \(seed)")
            for (user, status) in client.view.sorted(by: { $0.key < $1.key }) {
                let record = cluster.record(of: user)
                guard status["version"]!.textValue != record.version.text else { continue }
                let follows = cluster.subscriptions(of: client.user).contains(user) || user == client.user
                #expect(!follows, "seed \(seed): \(client.user) holds \(status) of \(user), the owner \(record)")
            }
        }
        for user in (0..<8).map({ "u\($0)" }) {
            let isOpen = cluster.clients.contains { $0.isOpen && $0.user == user }
            #expect((cluster.record(of: user).statusType == .online) == isOpen, "seed \(seed), \(user)")
        }
    }

    /// A node that has left is met again while it dies, then comes back; its links come up in any order, with time between.
    @Test(arguments: 1...12) func afterARestartEveryChangeReachesEveryWatcher(seed: UInt64) throws {
        var random = Random(state: seed)
        var cluster = TestCluster(nodes: 3)
        let users = (0..<30).map { "u\($0)" }
        var watchers: [Int] = []
        for node in 1..<3 {
            watchers.append(cluster.login("watcher\(node)", on: node))
            cluster.subscribe("watcher\(node)", to: users, on: node)
        }
        for (place, user) in users.enumerated() { cluster.login(user, on: 1 + place % 2) }
        let now = cluster.now
        _ = cluster.processes[0].node.drain(at: now)
        cluster.settle()
        cluster.advance(.milliseconds(Int.random(in: 0...700, using: &random)), step: .milliseconds(10))
        let then = cluster.now
        cluster.processes[0].node.leave(at: then)
        cluster.settle()
        if Bool.random(using: &random) { cluster.link(Int.random(in: 1...2, using: &random), 0) }
        cluster.advance(.milliseconds(Int.random(in: 0...30, using: &random)), step: .milliseconds(10))
        cluster.kill(0)
        cluster.advance(.milliseconds(Int.random(in: 0...1_000, using: &random)), step: .milliseconds(10))
        try cluster.revive(0)
        for (from, to) in [(0, 1), (0, 2), (1, 0), (2, 0)].shuffled(using: &random) {
            cluster.link(from, to)
            cluster.advance(.milliseconds(Int.random(in: 0...30, using: &random)), step: .milliseconds(10))
        }
        cluster.advance(.seconds(1), step: .milliseconds(20))
        for user in users { cluster.setStatus(user, "after", on: 2) }
        cluster.advance(.seconds(2), step: .milliseconds(50))
        for watcher in watchers {
            for user in users {
                let seen = cluster.clients[watcher].view[user]?["customStatus"]?.textValue
                #expect(
                    seen == "after", "seed \(seed): \(cluster.clients[watcher].user) sees \(user), of node \(cluster.ownerIndex(of: user))")
            }
        }
    }

    @Test(arguments: [3]) func theSameSeedGivesTheSameTrace(seed: UInt64) throws {
        #expect(try history(seed).trace == history(seed).trace)
    }
}

extension TestCluster {
    /// Whom a user follows, by its owner's book.
    func subscriptions(of id: String) -> Set<String> {
        let owners = processes[ownerIndex(of: id)].node.owners
        guard let index = owners.index(ofKnown: UserID(app: "default", id: id)) else { return [] }
        return Set(owners.users[index].subscriptions.live.map { String($0.target.id) })
    }
}
