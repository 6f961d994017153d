import PresenceWire
import Testing

@testable import PresenceCore

/// The rows that additions leave with other users, who may be unknown: how many a user may leave.
@Suite struct LeftRowsTests {
    private var cluster = TestCluster(nodes: 3)
    private let ann: String
    private let nobody: String

    init() {
        ann = cluster.user(ownedBy: 0)
        nobody = cluster.user(ownedBy: 1)
    }

    private mutating func add(_ target: String, isTwoWay: Bool = true, isForced: Bool = false) -> UInt32? {
        var request = SentRequest(addTime: 0)
        request.isForced = isForced
        cluster.call(.chain(.add(user(target), request, isTwoWay: isTwoWay)), by: ann, on: 2)
        cluster.advance(.milliseconds(50))
        return cluster.lastAnswer(on: 2)?.outcomes?.first?.code.rawValue
    }

    private func hasRows(_ name: String) -> Bool {
        cluster.processes.contains { process in process.disk.rows.values.contains { $0.user == user(name) } }
    }

    @Test(
        "A user who has decided about 4,096 users leaves nothing with a further one, unless a back end forces the addition",
        arguments: [true, false], ["any", "confirm"])
    mutating func bound(isTwoWay: Bool, allowType: String) {
        cluster.call(.setAppPolicy(Array(#"{"settings":{"profile.defaultAllowType":"\#(allowType)"}}"#.utf8)), by: ann, on: 0)
        cluster.advance(.milliseconds(100))
        cluster.processes[0].node.decide(about: (0..<RowList.tombstonesMax).map { "gone\($0)" }, by: ann, at: cluster.now)
        #expect(add(nobody, isTwoWay: isTwoWay) == 30_012)
        #expect(!hasRows(nobody))
        let added: UInt32 = allowType == "any" ? 0 : 30_539
        #expect(add("gone7", isTwoWay: isTwoWay) == added, "the user has a tombstone, which this decision replaces")
        #expect(add(nobody, isTwoWay: isTwoWay) == 30_012)
        #expect(add(nobody, isTwoWay: isTwoWay, isForced: true) == 0)
        #expect(hasRows(nobody))
    }

    @Test("Decisions count for seven days, and no longer") mutating func expired() {
        let old = Now(instant: cluster.now.instant, wall: cluster.now.wall - CoreSettings.tombstoneHorizon + 5_000)
        cluster.processes[0].node.decide(about: (0..<RowList.tombstonesMax).map { "gone\($0)" }, by: ann, at: old)
        #expect(add(nobody) == 30_012)
        cluster.advance(.seconds(6))
        #expect(add(nobody) == 0)
    }
}

extension Node {
    /// The outbox of a user has the tombstones of decisions about these users.
    fileprivate mutating func decide(about others: [String], by name: String, at now: Now) {
        let rows = others.enumerated().map { number, other in
            let version = Version(milliseconds: now.wall, counter: UInt16(number), node: 1)
            return Row(user: user(name), kind: .chainOutbox, key: other, version: version, value: nil)
        }
        let index = machines.owner.index(of: user(name))
        machines.owner.modifyLists(index) { lists in
            for row in rows { _ = lists.merge(row) }
        }
    }
}
