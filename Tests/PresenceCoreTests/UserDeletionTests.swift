import PresenceWire
import Testing

@testable import PresenceCore

/// The deletion of a user on three nodes: what is left on each, and how it goes on without its caller.
@Suite struct UserDeletionTests {
    private var cluster = TestCluster(nodes: 3)

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

    /// The live facts of Ann and about her that nodes still keep, as owners or replicas.
    private func rest() -> [String] {
        var found: [String] = []
        for (index, process) in cluster.processes.enumerated() where process.isUp {
            for row in process.node.rows(of: 0...Slot.max) {
                guard let value = row.value else { continue }
                let isOwn = row.user == user("ann") && row.kind != .deletion && row.kind != .status
                let isAbout = row.key == "ann" || value.contains(user("ann").inJSON)
                if isOwn || isAbout { found.append("node \(index): \(row.user.id) \(row.kind) \(row.key)") }
            }
        }
        return found
    }

    @Test("A deletion leaves no node a fact of the user or about the user, and counts them once") mutating func everywhere() throws {
        fill()
        #expect(rest().count > 60)
        let deletion = try #require(delete(on: 2))
        #expect(deletion.completedAt != nil)
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
}
