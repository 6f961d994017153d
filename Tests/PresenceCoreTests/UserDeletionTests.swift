import PresenceWire
import Testing

@testable import PresenceCore

/// The deletion of a user on three nodes: what is left on each, and how it goes on without its caller.
@Suite struct UserDeletionTests {
    private var cluster: TestCluster

    /// All tests have a webhook, whose events are facts about users as well.
    init() {
        var settings = CoreSettings()
        settings.policy.webhook.url = "https://app.example.com/rollcall"
        settings.policy.webhook.secret = "0123456789abcdef"
        settings.policy.webhook.events = WebhookPolicy.EventType.allCases
        cluster = TestCluster(nodes: 3, settings: settings)
    }

    private func user(_ name: String) -> UserID { UserID(app: "default", id: name) }

    private mutating func take(_ kind: Row.Kind, _ key: String, _ value: String, by name: String) {
        let fact = PortableFact(kind: kind, key: key, value: Array(value.utf8))
        _ = cluster.call(.owner(.importFacts(FactImportRequest([fact], isDryRun: false))), by: name, on: 1, origin: .backEnd)
    }

    /// Ann has facts of her own, and some of 60 others have facts about her.
    private mutating func fill() {
        take(.profile, "", #"{"Nick":"Ann"}"#, by: "ann")
        take(.friend, "ben", #"{"addTime":1}"#, by: "ann")
        take(.blocked, "eve", #"{"since":1}"#, by: "ann")
        take(.subscription, "fay", #"{"subscribeType":1,"subscribedAt":1}"#, by: "ann")
        for number in 0..<60 {
            let (name, kinds) = ("u\(number)", [Row.Kind.friend, .pendencyIn, .pendencyOut, .blocked, .profileSubscription, .subscription])
            let kind = kinds[number % kinds.count]
            let value =
                switch kind {
                case .blocked: #"{"since":1}"#
                case .profileSubscription: #"{"subscribeType":2,"subscribedAt":1}"#
                case .subscription: #"{"subscribeType":1,"subscribedAt":1}"#
                default: #"{"addTime":1}"#
                }
            take(kind, "ann", value, by: name)
        }
        cluster.advance(.seconds(1))
    }

    private mutating func delete(on node: Int) -> Deletion? {
        let answer = cluster.call(.deleteUser, by: "ann", on: node, origin: .backEnd)
        guard case .userDeleted(let deletion)? = answer else { return nil }
        return deletion
    }

    /// Repeats the deletion until it is complete, as an operator does. Returns nil if that takes two minutes.
    private mutating func deleteCompletely(on node: Int) -> Deletion? {
        for _ in 0..<12 {
            if let deletion = delete(on: node), deletion.completedAt != nil { return deletion }
            cluster.advance(.seconds(10))
        }
        return nil
    }

    /// The live facts of Ann and about her that nodes still keep, as owners or replicas.
    private func rest() -> [String] {
        var found: [String] = []
        for (index, process) in cluster.processes.enumerated() where process.isUp {
            for row in process.node.rows(of: 0...Slot.max) {
                guard let value = row.value else { continue }
                var isOwn = row.user == user("ann") && row.kind != .deletion && row.kind != .status
                // The versions of removed events stay for two days.
                if row.kind == .webhookLog, let log = try? WebhookLog(row), log.isEmpty { isOwn = false }
                let isAbout = row.key == "ann" || value.contains(user("ann").inJSON)
                if isOwn || isAbout { found.append("node \(index): \(row.user.id) \(row.kind) \(row.key)") }
            }
        }
        return found
    }

    @Test("A deletion leaves no node a fact of the user or about the user, and counts them once") mutating func everywhere() throws {
        fill()
        #expect(rest().count > 60)
        let deletion = try #require(deleteCompletely(on: 2))
        let counts = Dictionary(uniqueKeysWithValues: deletion.removed.map { ($0.kind, $0.count) })
        #expect(
            counts == [
                .profile: 1, .friend: 11, .blocked: 11, .subscription: 11, .pendencyIn: 10, .pendencyOut: 10,
                .profileSubscription: 10, .visibility: 11, .status: 1,
            ])
        cluster.advance(.seconds(1))
        #expect(rest() == [])
        let again = delete(on: 0)
        #expect(again == deletion)
    }

    @Test("A repetition removes what others have written about the user since then, and answers the same receipt")
    mutating func again() throws {
        let first = try #require(deleteCompletely(on: 0))
        cluster.subscribe("ben", to: ["ann"], on: 1)
        _ = cluster.call(.owner(.setVisibility(Visibility.Change(mode: .list, listed: [user("ann")]))), by: "cid", on: 2)
        cluster.advance(.seconds(1))
        #expect(!rest().isEmpty)
        let second = delete(on: 1)
        cluster.advance(.seconds(1))
        #expect(second == first && rest() == [])
    }

    @Test("A deletion that its caller has left goes on by itself, whichever node dies meanwhile, and a node that returns has nothing left")
    mutating func goesOn() throws {
        for dead in 0..<3 {
            fill()
            let begun = cluster.call(.owner(.deleteUser(.begin(removed: [], nodes: []))), by: "ann", on: (dead + 1) % 3, origin: .backEnd)
            guard case .owner(.deleted(let answer))? = begun, let deletion = answer.deletion else {
                Issue.record("\(String(describing: begun))")
                return
            }
            #expect(deletion.completedAt == nil && !rest().isEmpty)
            cluster.kill(dead)
            cluster.advance(.seconds(30))
            try cluster.restart(dead)
            cluster.advance(.seconds(30))
            #expect(rest() == [], "after the death of node \(dead)")
            let found = cluster.call(.owner(.deleteUser(.find)), by: "ann", on: dead, origin: .backEnd)
            guard case .owner(.deleted(let end))? = found else {
                Issue.record("\(String(describing: found))")
                return
            }
            #expect(end.deletion?.receiptID == deletion.receiptID && end.deletion?.completedAt != nil)
        }
    }

    @Test(
        "The webhook events of a deleted user, and those that name the user, leave all nodes, whether the receiver takes them or not",
        arguments: [WebhookReceiver.Mode.accepts, .fails])
    mutating func webhookEvents(mode: WebhookReceiver.Mode) throws {
        cluster.webhooks.mode = mode
        cluster.login("ann", on: 0, device: "d")
        _ = cluster.call(.chain(.add(user("ann"), SentRequest(addTime: 0), isTwoWay: true)), by: "ben", on: 1)
        cluster.advance(.seconds(2))
        for name in ["ann", "ben"] { #expect(rest().filter { $0.hasSuffix(": \(name) webhookLog ") }.count > 1) }
        #expect(deleteCompletely(on: 2) != nil)
        cluster.advance(.seconds(40))
        #expect(rest() == [])
        for node in 0..<3 {
            cluster.kill(node)
            cluster.advance(.seconds(20))
            try cluster.restart(node)
            cluster.advance(.seconds(20))
            #expect(rest() == [], "after the death of node \(node)")
        }
    }

    // MARK: Faults

    /// A random change of what is known about Ann and five others.
    private mutating func change(_ random: inout SplitMix64, on node: Int) {
        let names = ["ann", "ben", "cid", "dan", "eve", "fay"]
        let (name, other) = (names[random.number(below: 6)], names[random.number(below: 6)])
        if name == other { return }
        switch random.number(below: 6) {
        case 0: _ = cluster.call(.chain(.add(user(other), SentRequest(addTime: 0), isTwoWay: true)), by: name, on: node)
        case 1: _ = cluster.call(.chain(.setBlocked([user(other)], random.number(below: 2) == 0)), by: name, on: node)
        case 2: cluster.subscribe(name, to: [other], on: node)
        case 3: cluster.setStatus(name, "text \(random.number(below: 100))", on: node)
        case 4:
            let change = Visibility.Change(mode: random.number(below: 2) == 0 ? .list : .everyone, listed: [user(other)])
            _ = cluster.call(.owner(.setVisibility(change)), by: name, on: node)
        default: cluster.login(name, on: node, device: "d\(random.number(below: 3))")
        }
    }

    /// The rows that a node keeps, without tombstones, which the nodes need not forget at once.
    private func live(_ index: Int) -> Set<String> {
        let rows = cluster.processes[index].node.rows(of: 0...Slot.max).filter { $0.value != nil }
        return Set(rows.map { "\($0.user.id) \($0.kind) \($0.key) \($0.version.text)" })
    }

    private mutating func heal(_ dead: Int?) throws {
        if let dead { try cluster.restart(dead) }
        cluster.losing = []
        for from in 0..<3 { for to in 0..<3 where from != to { cluster.link(from, to) } }
        cluster.advance(.seconds(5))
    }

    @Test(
        "Whatever dies or is cut off meanwhile, a deletion ends, and all nodes keep the same facts, none of them about the user",
        arguments: 1...12 as ClosedRange<UInt64>)
    mutating func faults(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        var dead: Int?
        for _ in 0..<40 {
            let up = cluster.processes.indices.filter { cluster.processes[$0].isUp }
            let node = up[random.number(below: up.count)]
            switch random.number(below: 13) {
            case 0..<6: change(&random, on: node)
            case 6: _ = delete(on: node)
            case 7:
                if let index = dead {
                    (dead, _) = (nil, try cluster.restart(index))
                } else {
                    dead = node
                    cluster.kill(node)
                }
            case 8: cluster.losing = [(node, (node + 1) % 3), ((node + 1) % 3, node)]
            case 9:
                try heal(dead)
                dead = nil
            case 10: cluster.webhooks.mode = cluster.webhooks.mode == .fails ? .accepts : .fails
            default: cluster.advance(.milliseconds(20 + random.number(below: 2_500)))
            }
        }
        try heal(dead)
        // Not the receipt of an earlier deletion, after whose search the user may have come back.
        #expect(deleteCompletely(on: 0) != nil)
        take(.friend, "gus", #"{"addTime":1}"#, by: "ann")
        #expect(deleteCompletely(on: 1) != nil)
        cluster.advance(.seconds(40))
        #expect(rest() == [])
        for index in 1...2 { #expect(live(index).symmetricDifference(live(0)).sorted() == [], "node \(index)") }
        for process in cluster.processes { process.node.owner.checkInvariants() }
    }
}

extension SplitMix64 {
    fileprivate mutating func number(below bound: Int) -> Int { Int.random(in: 0..<bound, using: &self) }
}
