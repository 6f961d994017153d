import PresenceWire
import Testing

@testable import PresenceCore

/// Random graphs of users, visibilities and changes: no viewer sees hidden fields in any record, answer or push.
@Suite struct VisibilityPropertyTests {
    /// The users of one graph, and the first view of each excluded viewer.
    private struct Graph {
        let users: [String]
        var clients: [Int] = []
        var rules: [Visibility]
        var friends: [Set<Int>]
        var shown: [[Record?]]
        var told: [Int]

        init(number: Int, size: Int) {
            users = (0..<size).map { "g\(number)-\($0)" }
            rules = Array(repeating: Visibility(), count: size)
            friends = Array(repeating: [], count: size)
            shown = Array(repeating: Array(repeating: nil, count: size), count: size)
            told = Array(repeating: 0, count: size)
        }

        /// Records the visibility of a user, with the friends that the user has now.
        mutating func rule(_ rule: Visibility, of target: Int) {
            let old = rules[target]
            rules[target] = rule
            if rule.mode == .friends { rules[target].friends = friends[target].map { user(users[$0]) }.sorted() }
            for viewer in users.indices where rules[target].lets(user(users[viewer])) || old.lets(user(users[viewer])) {
                shown[viewer][target] = nil
            }
        }
    }

    @Test("No random graph of visibilities leaks a field, an answer or a push", arguments: 0..<10) func randomGraphs(part: Int) {
        var cluster = TestCluster(nodes: 3)
        var random = SplitMix64(seed: UInt64(part))
        for number in 0..<100 { play(Graph(number: number, size: 3 + number % 4), in: &cluster, &random) }
    }

    private func play(_ start: Graph, in cluster: inout TestCluster, _ random: inout SplitMix64) {
        var graph = start
        for name in graph.users {
            graph.clients.append(cluster.login(name, on: random.number(below: 3)))
            cluster.subscribe(name, to: graph.users.filter { $0 != name }, on: random.number(below: 3))
        }
        for _ in 0..<8 {
            step(&graph, in: &cluster, &random)
            look(&graph, in: &cluster, &random)
        }
        for client in graph.clients { cluster.close(client, .loggedOut) }
    }

    private func step(_ graph: inout Graph, in cluster: inout TestCluster, _ random: inout SplitMix64) {
        let actor = random.number(below: graph.users.count)
        let (name, node) = (graph.users[actor], random.number(below: 3))
        switch random.number(below: 10) {
        case 0...3:
            let users = graph.users
            let some = { (random: inout SplitMix64) in users.filter { _ in random.number(below: 3) == 0 }.map { user($0) } }
            let change = Visibility.Change(
                mode: Visibility.Mode.allCases[random.number(below: 4)], isInvisible: random.number(below: 4) == 0, listed: some(&random),
                blocked: some(&random))
            cluster.call(.setVisibility(change), by: name, on: node)
            var answered = graph.rules[actor].changed(by: change)
            answered.friends = nil
            #expect(cluster.lastAnswer(on: node)?.shown == ShownVisibility(visibility: answered))
            graph.rule(answered, of: actor)
        case 4: cluster.setStatus(name, "secret \(random.number(below: 1_000))", on: node)
        case 5: cluster.call(.publishEvent(value: 10_000, ext: "e", seconds: 60, isForOnlineOnly: true, isSynced: true), by: name, on: node)
        case 6: cluster.login(name, on: node, platform: "web")
        case 7...8:
            let friend = (actor + 1 + random.number(below: graph.users.count - 1)) % graph.users.count
            let isAdded = graph.friends[actor].insert(friend).inserted
            if !isAdded { graph.friends[actor].remove(friend) }
            let other = user(graph.users[friend])
            cluster.call(
                isAdded ? .friendCall(.importFriends([FriendImport(user: other)])) : .chain(.delete([other], isTwoWay: false)), by: name,
                on: node)
            graph.rule(graph.rules[actor], of: actor)
        default:
            if let client = cluster.clients.lastIndex(where: { $0.user == name && $0.isOpen }) { cluster.close(client, .loggedOut) }
            graph.clients.append(cluster.login(name, on: node, customStatus: "back"))
        }
    }

    /// Every answer about a hiding user stays the same and shows no ONLINE, and no push differs from it.
    private func look(_ graph: inout Graph, in cluster: inout TestCluster, _ random: inout SplitMix64) {
        let viewers = (0..<2).map { _ in random.number(below: graph.users.count) }
        for viewer in viewers {
            let asked = graph.users.map { user($0) }
            guard
                case .userStatusList(let records, _, _) = cluster.call(
                    .getUserStatus(asked), by: graph.users[viewer], on: random.number(below: 3))
            else { continue }  // Called too often.
            for target in graph.users.indices where target != viewer {
                guard let record = records[target] else { continue }
                check(record, of: target, by: viewer, &graph)
            }
        }
        for viewer in viewers {
            for client in cluster.clients.indices
            where cluster.clients[client].user == graph.users[viewer] && cluster.clients[client].isOpen {
                for target in graph.users.indices where target != viewer {
                    guard let seen = cluster.clients[client].view[graph.users[target]], let right = graph.shown[viewer][target] else {
                        continue
                    }
                    #expect(seen["statusType"] == .string(right.statusType.name), "\(graph.users[viewer]) looks at \(graph.users[target])")
                    #expect(seen["customStatus"] == .string(right.customStatus))
                    #expect(seen["version"]?.textValue ?? "" <= right.version.text)
                }
            }
        }
    }

    private func check(_ record: Record, of target: Int, by viewer: Int, _ graph: inout Graph) {
        #expect(!record.hasPrivacy)
        guard !graph.rules[target].lets(user(graph.users[viewer])) else { return }
        #expect(record.statusType != .online && record.onlinePlatforms.isEmpty)
        if let right = graph.shown[viewer][target] {
            #expect(record == right, "\(graph.users[viewer]) looks at \(graph.users[target])")
        } else {
            graph.shown[viewer][target] = record
        }
    }
}

extension SplitMix64 {
    fileprivate mutating func number(below bound: Int) -> Int { Int.random(in: 0..<bound, using: &self) }
}
