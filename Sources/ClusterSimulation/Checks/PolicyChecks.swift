import PresenceCore
import PresenceWire

/// Checks kicks and policies, which every node stores and applies.
enum PolicyChecks {
    /// The time after its answer within which every node applies a kick or a policy.
    private static let everywhereMilliseconds = 1_000

    static func kicked(_ call: SimulatedCall, _ cluster: inout SimulatedCluster) {
        cluster.stage.counts[.kicks] += 1
        cluster.truth.excuseAbsence(of: call.user, at: cluster.time)
        OpenCalls.noteReachEnded(call.user, &cluster)
        let wall = SimulatedCluster.epoch + call.at / 1_000_000
        // The owner dates the kick by its own clock, and a token has whole seconds.
        let offset: Milliseconds = cluster.isExcused(by: .clockJumps) ? 46_000 : 1_100
        cluster.truth.kicks.append(Kick(user: call.user, askedAt: call.at, acknowledgedAt: cluster.time, voidBefore: wall - offset))
        guard !cluster.isExcused(by: .disturbed(since: cluster.time)) else { return }
        cluster.stage.plan(.expectKick(cluster.truth.kicks.count - 1), after: .milliseconds(Self.everywhereMilliseconds))
    }

    /// Checks a kick some time after its acknowledgement. On healthy links its sessions are gone, and every node refuses its tokens.
    static func checkKick(_ kick: Kick, _ cluster: SimulatedCluster) {
        guard !cluster.isExcused(by: .disturbed(since: kick.acknowledgedAt)) else { return }
        checkKickHolds(kick, cluster)
        guard cluster.violation == nil, cluster.truth.presences[kick.user].openCount == 0,
            cluster.truth.presences[kick.user].lastOpenedAt < kick.askedAt,
            let owner = cluster.owner(of: kick.user)
        else { return }
        let record = cluster.nodes[owner].kept(cluster.userID(kick.user)).record
        if record.statusType == .online || !record.pushDevices.isEmpty {
            cluster.violate(.kicksHold, "user-\(kick.user) was kicked and is gone, its record is \(record.words)")
        }
    }

    /// Checks that every live node refuses tokens from before a kick, and has no session that was opened with one.
    private static func checkKickHolds(_ kick: Kick, _ cluster: SimulatedCluster) {
        let (id, words) = (cluster.userID(kick.user), "user-\(kick.user), who was kicked at \(kick.askedAt.milliseconds) ms")
        for node in cluster.nodes where node.isUp && node.isInUse {
            for gateway in node.gateways.indices where !node.gateways[gateway].value.isVoid(id, issuedAt: kick.voidBefore - 1) {
                cluster.violate(.kicksHold, "\(node.id) gateway \(gateway) takes tokens of \(words)")
            }
        }
        let first = kick.user * SimulatedClient.devicesPerUser
        for client in first..<first + SimulatedClient.devicesPerUser where cluster.clients[client].tokenIssuedAt < kick.voidBefore {
            guard let stream = cluster.clients[client].stream else { continue }
            cluster.violate(.kicksHold, "\(cluster.nodes[stream.node].id) still has \(stream.session) of \(words)")
        }
    }

    /// Checks the end of a stream by its gateway: the client receives the reason, and nothing after it. Returns the name of that event.
    static func checkFarewell(
        of session: Gateway.SessionIndex, by client: Int, in output: Gateway.Output, _ cluster: SimulatedCluster
    ) -> Substring? {
        let last = output.pushes.last { $0.session == session }.map { output.payloads[Int($0.payload)] }
        let name = last.flatMap { SimulatedClient.Event($0) }?.name
        if name != "onKickedOffline", name != "onLogout" {
            cluster.violate(.kicksHold, "a stream ends, and the last that it tells is \(name ?? "nothing")")
        }
        SessionChecks.checkFarewell(of: session, cluster.clients[client].stream, by: client, isHalfOpen: false, in: output, cluster)
        return name
    }

    // MARK: Policies

    private static func policy(after change: [UInt8], _ cluster: SimulatedCluster) -> Policy? {
        guard let json = try? JSONReader.read(change), let app = try? AppPolicy().changed(by: json) else { return nil }
        return app.policy
    }

    static func notePolicyAsked(_ change: [UInt8], _ cluster: inout SimulatedCluster) {
        guard let policy = policy(after: change, cluster) else {
            return cluster.violate(.policiesHold, "no policy: \(String(decoding: change, as: UTF8.self))")
        }
        let isPushChanged = cluster.truth.policy.policies.contains { $0.pushReachableStaysOnline != policy.pushReachableStaysOnline }
        cluster.truth.ask(policy, at: cluster.time)
        if isPushChanged { for user in cluster.userIDs.indices { cluster.truth.reach.doubt(user, at: cluster.time) } }
    }

    static func policyAcknowledged(_ change: [UInt8], isAlone: Bool, _ cluster: inout SimulatedCluster) {
        guard let policy = policy(after: change, cluster) else { return }
        cluster.stage.counts[.policyChanges] += 1
        let isPushChanged = cluster.truth.policy.policies.contains { $0.pushReachableStaysOnline != policy.pushReachableStaysOnline }
        cluster.truth.policy.acknowledge(policy, isCertain: !isAlone && !cluster.isExcused(by: .lateMessages), at: cluster.time)
        guard isPushChanged else { return }
        let isCertain = !cluster.isExcused(by: .disturbed(since: cluster.time))
        cluster.truth.reach.policyChanged(to: policy.pushReachableStaysOnline, of: cluster.clients, isCertain: isCertain, at: cluster.time)
    }

    /// Checks bytes that a gateway sends to a client's stream now: nothing of other users while the policy forbids it.
    static func checkPolicy(of payload: [UInt8], for client: Int, on node: Int, _ cluster: SimulatedCluster) {
        guard cluster.truth.policy.hasBeenOff,
            cluster.truth.policy.isOff(for: .milliseconds(Self.everywhereMilliseconds), at: cluster.time),
            !cluster.isExcused(by: .disturbed(since: cluster.time)), let event = SimulatedClient.Event(payload),
            event.name == "onUserStatusChanged"
        else { return }
        let own = cluster.userID(cluster.clients[client].user).id
        for status in event.data["userStatusList"]?.elements ?? [] where status["userID"]?.text.map({ $0 != own }) ?? true {
            cluster.violate(.policiesHold, "user-\(cluster.clients[client].user) is told \(status), which the policy forbids")
        }
    }

    /// Checks that every node, its gateways and its disk have every kick and the acknowledged policy.
    static func checkWhatAllKeep(_ cluster: SimulatedCluster) {
        for kick in cluster.truth.kicks { checkKickHolds(kick, cluster) }
        guard cluster.truth.policy.policies.count > 1 || cluster.truth.policy.acknowledgedAt > 0 else { return }
        let key = SimulatedDisk.Key(UserID(app: "default", id: "policy"), .policy)
        let first = cluster.nodes[cluster.hosts[0]]
        let right = first.look { $0.owner.appPolicy("default") }
        for node in cluster.hosts.map({ cluster.nodes[$0] }) {
            let known = node.look { $0.owner.appPolicy("default") }
            if known?.version != right?.version || known?.policy != right?.policy || node.disk.rows[key]?.version != right?.version {
                let words = "\(first.id) \(right?.version.text ?? "none")"
                cluster.violate(.policiesHold, "\(node.id) has policy \(known?.version.text ?? "none"), \(words)")
            }
            for gateway in node.gateways
            where gateway.value.policy(of: cluster.userIDs[0]) != node.look({ $0.owner.policy(of: cluster.userIDs[0]) }) {
                cluster.violate(.policiesHold, "a gateway of \(node.id) follows another policy than its node")
            }
        }
        let app = right?.policy.policy ?? cluster.options.settings.policy
        if !cluster.truth.policy.policies.contains(app) {
            cluster.violate(.policiesHold, "the nodes follow a policy that nobody has set last: \(right?.version.text ?? "none")")
        }
    }
}
