import PresenceCore
import PresenceWire

/// The checks that a machine's fault stays with that machine.
enum MachineFaultChecks {
    enum Fault { case clock, disk }

    /// The moments at which the effect of a fault is checked.
    enum Phase {
        /// The node knows of its fault.
        case noticed(Fault)
        /// The node's users have other owners.
        case handedOver(Fault)
        /// The fault is over, and the node has slots again.
        case over(Fault)
    }

    /// The largest difference of a version from the true time: clocks differ by 20 s, and a process that starts again goes on at the end of
    /// its clock's lease, 60 s ahead.
    private static let versionAheadMax: Milliseconds = 90_000

    /// The time after which a jump of all clocks is followed, in milliseconds (`ClockCheck.commonJumpMin`).
    private static let commonJumpMin = 30_000

    /// The largest jump that is followed at once, in milliseconds: the other nodes' clocks agree with it (`ClockCheck.mayAdopt`).
    private static let followedJumpMax = 30_000

    /// The checks of a fault, each with its time after the start; none if something else can delay its effects.
    static func checks(
        of node: Int, _ fault: Fault, for milliseconds: Int, _ cluster: SimulatedCluster
    ) -> [(SimulationEvent.What, after: Nanoseconds)] {
        guard [.clocksJump, .disksFill, .clocksAreWrong].contains(cluster.options.kind), cluster.nodes[node].isUp else { return [] }
        // A jump of all clocks is followed, and is over then.
        let over = cluster.options.hasCommonJump ? commonJumpMin + 8_000 : milliseconds + 10_000
        let phases: [(Phase, Int)] = [(.noticed(fault), 1_000), (.handedOver(fault), 2_000), (.over(fault), over)]
        return phases.map { phase, after in
            (.checkFault(node: node, run: cluster.nodes[node].run, phase), .milliseconds(after))
        }
    }

    /// The effect of a fault that is missing by now; nil if all is right, or if something else delays it.
    static func problem(of node: Int, _ run: Int, in phase: Phase, _ cluster: SimulatedCluster) -> String? {
        guard cluster.isRunning(node, run), !cluster.nodes[node].isLeaving, cluster.nodes.allSatisfy(\.isUp),
            cluster.time - cluster.disturbedAt > .milliseconds(5_000)
        else { return nil }
        let faulty = cluster.nodes[node]
        let condition = faulty.node.condition
        let slots = faulty.look { $0.statistics.slotsOwned }
        let faultyCount = cluster.nodes.count { $0.jump != 0 || $0.disk.isFull }
        switch phase {
        case .noticed(.clock) where !condition.isClockWrong && abs(faulty.jump) > followedJumpMax:
            return "the clock of \(faulty.id) has jumped, and it does not know"
        case .handedOver where slots > 0 && faultyCount < cluster.nodes.count:
            return "\(faulty.id) has a fault and still owns \(slots) slots"
        case .over where condition.isDraining || slots == 0: return "the fault of \(faulty.id) is over, and it owns \(slots) slots"
        default: return nil
        }
    }

    /// Why a call may not be refused: only one disk is full, and its node has given its slots away.
    static func problem(of refusal: Refusal, to call: SimulatedCall, by node: Int, _ cluster: SimulatedCluster) -> String? {
        guard cluster.options.kind == .disksFill, refusal.code == 50001, cluster.nodes.count(where: \.disk.isFull) == 1,
            let full = cluster.nodes.first(where: \.disk.isFull), call.at - full.filledAt > .milliseconds(2_500),
            cluster.nodes.allSatisfy(\.isUp)
        else { return nil }
        return "\(cluster.nodes[node].id) refuses \(call.call) of user-\(call.user), \(refusal), while only the disk of \(full.id) is full"
    }

    /// The row whose version is far ahead of the true time. The others would refuse it, and all later ones.
    static func problem(of rows: [Row], by node: Int, _ cluster: SimulatedCluster) -> String? {
        let most = cluster.trueWall + versionAheadMax + (cluster.options.hasCommonJump ? cluster.nodes.map(\.clockOffset).max() ?? 0 : 0)
        return rows.first { $0.kind != .clock && $0.version.milliseconds > most }.map { row in
            let ahead = row.version.milliseconds - cluster.trueWall
            return "\(cluster.nodes[node].id) writes a \(row.kind) of \(row.user.id) that is \(ahead) ms ahead"
        }
    }

    /// The most messages with clocks on one link in a second: four questions, four reports, and as many answers.
    private static let clocksMax = 20

    /// The link with too many messages about clocks, when one more batch arrives on it.
    static func problem(with batch: [UInt8], on index: Int, _ cluster: inout SimulatedCluster) -> String? {
        guard cluster.options.kind == .clocksAreWrong else { return nil }
        if cluster.time - cluster.network[index].clocks.since > .milliseconds(1_000) { cluster.network[index].clocks = (cluster.time, 0) }
        for case .clocks in Message.all(in: batch) { cluster.network[index].clocks.count += 1 }
        guard cluster.network[index].clocks.count > clocksMax else { return nil }
        let (from, to) = (cluster.network[index].from, cluster.network[index].to)
        return "\(cluster.nodes[from].id) sends \(cluster.nodes[to].id) more than \(clocksMax) messages about clocks in a second"
    }

    /// The time from which no node may show hidden fields, by an answer that a node gives now.
    static func time(after remnant: Remnant, by node: Int, _ cluster: SimulatedCluster) -> Nanoseconds {
        switch remnant {
        case .none: cluster.time
        case .until(let wall):
            max(cluster.time, Nanoseconds(wall - SimulatedCluster.epoch - cluster.nodes[node].clockOffset) * 1_000_000)
        case .whileCutOff: .max
        }
    }

    /// Takes the events that waited for a paused node, in the order in which it handles them.
    ///
    /// In histories that stop a node, it reads its sockets before its timers run.
    static func takeDeferred(of node: SimulatedNode, _ options: HistoryOptions) -> [SimulationEvent.What] {
        let deferred = node.deferred
        node.deferred = []
        guard options.hasStoppedNode else { return deferred }
        let isTimer = { (what: SimulationEvent.What) in if case .tick = what { true } else { false } }
        return deferred.filter { !isTimer($0) } + deferred.filter(isTimer)
    }

    /// Handles a query that has arrived at a node, by any of its users.
    static func request(_ targets: [Int], by user: Int, at node: Int, _ cluster: inout SimulatedCluster) {
        guard cluster.nodes[node].isUp else { return }
        cluster.call(.getUserStatus(targets.map(cluster.userID)), by: user, at: node)
    }

    /// Makes a replica lose facts of users, though nothing else fails. The owners of the users have them.
    static func lose(_ facts: LostFacts, of users: [Int], on node: Int, _ cluster: SimulatedCluster) {
        guard cluster.nodes[node].isUp else { return }
        for user in users { cluster.nodes[node].node.lose(facts, ofReplica: cluster.userID(user)) }
    }

    /// Whether a user has a session on a node that is cut off, or had one until a moment ago. That node serves what it can reach. It also
    /// goes on to believe that vendor push reaches a device.
    static func isOnCutOffNode(_ user: Int, _ cluster: SimulatedCluster) -> Bool {
        let isRecent = cluster.time - cluster.truth.presences[user].lastEndAt < cluster.options.settings.reconnectGrace.wholeNanoseconds
        if isRecent || !cluster.truth.reach.isUnused(by: user) { return true }
        let first = user * SimulatedClient.devicesPerUser
        return cluster.clients[first..<first + SimulatedClient.devicesPerUser].compactMap(\.stream).contains { stream in
            isCutOff(stream.node, cluster)
        }
    }

    /// Whether no other node can receive a node's messages. Until it has met the others again, it goes on as the owner of all users.
    private static func isCutOff(_ node: Int, _ cluster: SimulatedCluster) -> Bool {
        let alone = cluster.nodes[node]
        let others = cluster.nodes.indices.filter { cluster.nodes[$0].id != alone.id }
        let isBlocked = others.allSatisfy { cluster.network[cluster.network.link(node, $0)].isBlocked(at: cluster.time) }
        return isBlocked || alone.owners.allSatisfy { $0 == alone.id } || cluster.time - alone.metAt < .milliseconds(1_000)
    }
}
