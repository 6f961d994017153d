import PresenceWire
import Testing

@testable import PresenceCore

/// Calls that all nodes must know, while the disk of one of three nodes is full.
@Suite struct FullDiskTests {
    enum Change: CaseIterable { case visibility, kick, policy }

    var cluster = TestCluster(nodes: 3)

    private func call(_ change: Change) -> Call {
        switch change {
        case .visibility: .setVisibility(.init(mode: .nobody))
        case .kick: .kick(reason: "banned")
        case .policy: .setAppPolicy(Array(#"{"preset":"zim"}"#.utf8))
        }
    }

    /// The node that decides about a change by "ann".
    private func owner(of change: Change) -> Int {
        let user = change == .policy ? UserID.policyUser(of: "default") : user("ann")
        let id = cluster.processes[0].node.cluster.ownerID(of: user)
        return cluster.processes.firstIndex { $0.node.cluster.own.id == id }!
    }

    private func isDone(_ answer: CallAnswer?) -> Bool {
        switch answer {
        case .done?, .owner(.visibility)?: true
        default: false
        }
    }

    /// The disks that have a row of the change.
    private func disks(with change: Change) -> Int {
        let kinds: [Change: Row.Kind] = [.visibility: .visibility, .kick: .kick, .policy: .policy]
        return cluster.processes.count { process in process.disk.rows.values.contains { $0.kind == kinds[change] } }
    }

    @Test("A full disk of a node that keeps a copy delays no call that all nodes must know", arguments: Change.allCases, [1, 2])
    mutating func fullCopy(change: Change, distance: Int) {
        cluster.fullDisks = [(owner(of: change) + distance) % 3]
        for node in 0..<3 { #expect(isDone(cluster.call(call(change), by: "ann", on: node))) }
        #expect(disks(with: change) == 2)
    }

    @Test("A call that all nodes must know goes on once the node with the full disk is impaired", arguments: Change.allCases)
    mutating func fullOwner(change: Change) {
        let full = owner(of: change)
        cluster.fullDisks = [full]
        #expect(cluster.call(call(change), by: "ann", on: full) == .refused(.notDurable.afterPassingOn))
        cluster.advance(.seconds(1))
        #expect(owner(of: change) != full)
        for node in 0..<3 {
            cluster.call(call(change), by: "ann", on: node)
            cluster.advance(.milliseconds(100))
            #expect(isDone(cluster.lastAnswer(on: node)))
        }
        #expect(disks(with: change) == 2)
    }

    @Test("A change that all nodes know is not answered before a second disk has it", arguments: Change.allCases)
    mutating func secondDisk(change: Change) {
        let owner = owner(of: change)
        cluster.fullDisks = Set([0, 1, 2]).subtracting([owner])
        #expect(cluster.call(call(change), by: "ann", on: owner) == nil)
        #expect(disks(with: change) == 1)
        cluster.advance(CoreSettings().replicationTimeout + .milliseconds(100))
        #expect(cluster.lastAnswer(on: owner) == .refused(.unavailable.afterPassingOn))
    }

    @Test("A change that two disks have is not answered before all nodes know it", arguments: Change.allCases)
    mutating func unreachedNode(change: Change) {
        let owner = owner(of: change)
        let deaf = (owner + 1) % 3
        cluster.losing = [(owner, deaf)]
        #expect(cluster.call(call(change), by: "ann", on: owner) == nil)
        #expect(disks(with: change) == 2)
    }

    @Test("A kick ends the sessions on a node whose disk is full, and voids the tokens there") mutating func kickedThere() {
        let full = (owner(of: .kick) + 1) % 3
        let phone = cluster.login("ann", on: full)
        cluster.fullDisks = [full]
        cluster.advance(.milliseconds(50))
        let issuedAt = cluster.now.wall - 1_000
        #expect(cluster.call(call(.kick), by: "ann", on: full) == .done)
        #expect(cluster.clients[phone].events.last?.name == "onKickedOffline")
        let isVoid = cluster.processes[full].gateways[0].value.isVoid(user("ann"), issuedAt: issuedAt)
        #expect(isVoid)
    }

    @Test("A node whose disk is full shows nobody a user who has hidden") mutating func hiddenThere() {
        let full = (owner(of: .visibility) + 1) % 3
        cluster.login("ann", on: owner(of: .visibility))
        let bob = cluster.login("bob", on: full)
        cluster.subscribe("bob", to: ["ann"], on: full)
        cluster.fullDisks = [full]
        #expect(isDone(cluster.call(call(.visibility), by: "ann", on: full)))
        #expect(cluster.statuses(told: bob, of: "ann") == ["ONLINE", "OFFLINE"])
    }
}
