import PresenceWire
import Testing

@testable import ClusterSimulation
@testable import PresenceCore

/// The time up to which a disk was complete, and the rows that the disk has lost since.
@Suite struct DiskCompletenessTests {
    private var cluster = TestCluster(nodes: 3)
    private let names: [String]
    /// The first node's disk before the users changed.
    private let earlier: SimulatedDisk

    init() {
        // A node renews the bound of its clock while it has sessions.
        cluster.login("viewer", on: 0)
        var names: [String] = []
        for number in 0..<6 { names.append(cluster.user(ownedBy: number % 3, number: number)) }
        self.names = names
        for name in names { cluster.setStatus(name, "first", on: 1) }
        cluster.advance(.seconds(1))
        earlier = cluster.processes[0].disk
        for name in names { cluster.setStatus(name, "second", on: 1) }
    }

    private var lostCount: UInt64 { cluster.processes[0].node.machines.receiver.lostCount }

    private func mark() -> DiskCompleteness.Mark? { cluster.processes[0].node.machines.replication.completeness.mark }

    /// The versions of the statuses on the first node's disk.
    private func versions() -> [Version?] { names.map { cluster.processes[0].disk.rows[SimulatedDisk.Key(user($0))]?.version } }

    /// Kills the first node, and starts it again without the statuses of some users, and with earlier ones of others.
    private mutating func restart(losing lost: Set<String> = [], old: Set<String> = []) throws {
        cluster.kill(0)
        var (held, disk) = (cluster.processes[0].disk, SimulatedDisk())
        for row in held.sortedRows() {
            let name = row.kind == .status ? String(row.user.id) : ""
            if lost.contains(name) { continue }
            let kept = old.contains(name) ? earlier.rows[SimulatedDisk.Key(row.user)] : row
            let isKept = disk.writesAtOnce(try #require(kept))
            #expect(isKept)
        }
        cluster.processes[0].disk = disk
        try cluster.restart(0)
        cluster.advance(.seconds(2))
    }

    @Test("Rows that a disk has lost, or has older ones of, are counted at the next start, and taken from the other nodes")
    mutating func lost() throws {
        cluster.advance(.seconds(125), step: .milliseconds(250))
        let right = versions()
        #expect(!right.contains(nil))
        try restart(losing: [names[0]], old: [names[1], names[2]])
        #expect(lostCount == 3 && versions() == right)
        try restart()
        #expect(lostCount == 0 && versions() == right)
    }

    @Test("A row that may have been on its way to the disk when the node died is not counted") mutating func young() throws {
        cluster.advance(.seconds(60), step: .milliseconds(250))
        let right = versions()
        try restart(losing: [names[0]], old: [names[1], names[2]])
        #expect(lostCount == 0 && versions() == right)
    }

    @Test("The mark moves while all members are there, and stands still while one is dead") mutating func deadMember() {
        cluster.advance(.seconds(2))
        #expect(mark() == DiskCompleteness.Mark(time: cluster.now.wall, ring: 0))
        cluster.kill(2)
        cluster.advance(.seconds(2))
        let still = mark()
        cluster.advance(.seconds(5))
        #expect(still != nil && mark() == still)
    }

    @Test("A row was on the disk if it is two minutes older than the mark, and if the node keeps its slots by the same ring")
    func rule() {
        func row(_ time: Milliseconds) -> Row {
            Row(user: user("ann"), kind: .status, key: "", version: Version(milliseconds: time, counter: 0, node: 1), value: [])
        }
        func completeness(_ mark: DiskCompleteness.Mark?) -> DiskCompleteness {
            var completeness = DiskCompleteness()
            completeness.load(Row(clockOf: NodeID("n"), bound: 1_003_000, complete: mark))
            return completeness
        }
        let ofRing = completeness(DiskCompleteness.Mark(time: 1_000_000, ring: 6))
        #expect(ofRing.former == DiskCompleteness.Mark(time: 1_000_000, ring: 6) && ofRing.mark == ofRing.former)
        #expect(ofRing.had(row(879_999), by: 6) && !ofRing.had(row(880_000), by: 6) && !ofRing.had(row(1), by: 8))
        #expect(completeness(DiskCompleteness.Mark(time: 1_000_000, ring: 0)).had(row(879_999), by: 8))
        #expect(completeness(nil).former == nil && !completeness(nil).had(row(1), by: 6))
    }
}
