import PresenceCore
import PresenceWire
import Testing

@testable import ClusterSimulation

/// The tables of the exceptions that checks make.
@Suite struct CheckExceptionTests {
    private var cluster: SimulatedCluster {
        var options = HistoryOptions(seed: 1)
        (options.nodesCount, options.usersCount, options.faults) = (2, 2, [])
        return SimulatedCluster(options, plan: Plan(steps: []))
    }

    @Test("A client reads a record of an answer as the policy of its app shows it") func answeredRecord() {
        var (cluster, policy) = (cluster, Policy())
        policy.exposesPlatforms = false
        var record = Record(blank: cluster.userID(1))
        record.version = Version(milliseconds: 1, counter: 0, node: 1)
        record.onlinePlatforms = ["ios"]
        Clients.take(record, by: 0, policy, &cluster)
        #expect(cluster.clients[0].view[1]?.looksLike(record, to: cluster.userID(0), policy, without: []) == true)
    }

    private func isComplete(_ row: Excuse) -> Bool { row.reason.utf8CodeUnitCount > 10 && !row.weakened.isEmpty }

    @Test("Each exception has a reason and weakens a guarantee", arguments: HistoryException.allCases)
    func rows(_ exception: HistoryException) {
        #expect(isComplete(exception.row(cluster.options)))
    }

    @Test("A history without faults excuses nothing from what its faults would excuse") func withoutFaults() {
        let ofKinds: Set<HistoryException> = [.policiesMayMeet, .repeatedCalls, .cutOffNode]
        let options = cluster.options
        #expect(Set(HistoryException.allCases.filter { $0.row(options).applies }).isSubset(of: ofKinds))
    }

    @Test("A split excuses its own checks, and messages that are late") func split() {
        var options = cluster.options
        options.faults = [.partitions]
        let applying = Set(HistoryException.allCases.filter { $0.row(options).applies })
        #expect(applying.isSuperset(of: [.split, .lateMessages, .lostLogouts, .faultsOfNodes, .uncheckedSplit]))
        #expect(applying.isDisjoint(with: [.pauses, .clockJumps, .kills, .drainsInSplit]))
    }

    @Test("The state of a cluster that has not begun excuses little") func state() {
        let cluster = cluster
        #expect(!cluster.isExcused(by: .healing, .crippled, .crippledAfterStart, .policyChanges, .policyKeepsStatus, .profileVersions))
        #expect(!cluster.isExcused(by: .hides(0, from: 1), .visibilityChanges(0), .uncertainList(0), .undeliveredLogout(0), .textEnds(0)))
        #expect(isComplete(UserException.hides(0, from: nil).row(cluster)) && isComplete(StateException.healing.row(cluster)))
    }
}
