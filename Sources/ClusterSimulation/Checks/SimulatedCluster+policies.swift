import PresenceCore
import PresenceWire

/// Kicks and policies, which every node stores and applies.
extension SimulatedCluster {
    /// The time after its answer within which every node applies a kick or a policy.
    private static let everywhereMilliseconds = 1_000

    // MARK: Kicks

    /// Excuses a user's absence for some time, because the user was asked to go, or was kicked.
    mutating func excuseAbsence(of user: Int) {
        truth.presences[user].excusedUntil = time + .milliseconds(8_000)
        (truth.presences[user].endedByLogout, truth.presences[user].lastEndAt) = (nil, time)
    }

    mutating func kicked(_ call: SimulatedCall) {
        counts[.kicks] += 1
        excuseAbsence(of: call.user)
        noteReachEnded(call.user)
        let wall = Self.epoch + call.at / 1_000_000
        // The owner dates the kick by its own clock, and a token has whole seconds.
        let offset: Milliseconds = isExcused(by: .clockJumps) ? 46_000 : 1_100
        truth.kicks.append(Kick(user: call.user, askedAt: call.at, acknowledgedAt: time, voidBefore: wall - offset))
        guard !isExcused(by: .disturbed(since: time)) else { return }
        plan(.expectKick(truth.kicks.count - 1), after: .milliseconds(Self.everywhereMilliseconds))
    }

    /// Whether a gateway accepts a client's token.
    mutating func isTokenTaken(of client: Int, _ node: Int, _ gateway: Int) -> Bool {
        let user = clients[client].user
        return !nodes[node].gateways[gateway].value.isVoid(userID(user), issuedAt: clients[client].tokenIssuedAt)
    }

    /// Issues another token to the client.
    mutating func renewToken(of client: Int) {
        counts[.tokensRefused] += 1
        note(40, client, 0, "the token of user-\(clients[client].user) device \(clients[client].device) is void")
        clients[client].tokenIssuedAt = trueWall
        guard clients[client].stream == nil else { return }
        clients[client].attempt += 1
        clients[client].isWanted = !isHealed
        guard !isHealed else { return }
        plan(.connectClient(client: client, attempt: clients[client].attempt), after: random.microseconds(200_000...800_000))
    }

    /// Checks a kick some time after its acknowledgement. On healthy links its sessions are gone, and every node refuses its tokens.
    mutating func checkKick(_ kick: Kick) {
        guard !isExcused(by: .disturbed(since: kick.acknowledgedAt)) else { return }
        checkKickHolds(kick)
        guard violation == nil, truth.presences[kick.user].openCount == 0, truth.presences[kick.user].lastOpenedAt < kick.askedAt,
            let owner = owner(of: kick.user)
        else { return }
        let record = nodes[owner].kept(userID(kick.user)).record
        if record.statusType == .online || !record.pushDevices.isEmpty {
            violate(.kicksHold, "user-\(kick.user) was kicked and is gone, its record is \(record.words)")
        }
    }

    /// Checks that every live node refuses tokens from before a kick, and has no session that was opened with one.
    private mutating func checkKickHolds(_ kick: Kick) {
        let id = userID(kick.user)
        for node in nodes where node.isUp && node.isInUse {
            for gateway in node.gateways.indices where !node.gateways[gateway].value.isVoid(id, issuedAt: kick.voidBefore - 1) {
                violate(
                    .kicksHold,
                    "\(node.id) gateway \(gateway) takes tokens of user-\(kick.user), who was kicked at \(kick.askedAt.milliseconds) ms")
            }
        }
        let first = kick.user * SimulatedClient.devicesPerUser
        for client in first..<first + SimulatedClient.devicesPerUser where clients[client].tokenIssuedAt < kick.voidBefore {
            guard let stream = clients[client].stream else { continue }
            violate(
                .kicksHold,
                "user-\(kick.user) was kicked at \(kick.askedAt.milliseconds) ms, \(nodes[stream.node].id) still has \(stream.session)")
        }
    }

    /// Checks the end of a stream by its gateway: the client receives the reason, and nothing after it. Returns the name of that event.
    mutating func checkFarewell(of session: Gateway.SessionIndex, by client: Int, in output: Gateway.Output) -> Substring? {
        let last = output.pushes.last { $0.session == session }.map { output.payloads[Int($0.payload)] }
        let name = last.flatMap { SimulatedClient.Event($0) }?.name
        if name != "onKickedOffline", name != "onLogout" {
            violate(.kicksHold, "a stream ends, and the last that it tells is \(name ?? "nothing")")
        }
        SessionChecks.checkFarewell(of: session, clients[client].stream, by: client, isHalfOpen: false, in: output, self)
        return name
    }

    // MARK: Policies

    private func policy(after change: [UInt8]) -> Policy? {
        guard let json = try? JSONReader.read(change), let app = try? AppPolicy().changed(by: json) else { return nil }
        return app.policy
    }

    mutating func notePolicyAsked(_ change: [UInt8]) {
        guard let policy = policy(after: change) else {
            return violate(.policiesHold, "no policy: \(String(decoding: change, as: UTF8.self))")
        }
        let isPushChanged = truth.policy.policies.contains { $0.pushReachableStaysOnline != policy.pushReachableStaysOnline }
        truth.ask(policy, at: time)
        if isPushChanged { for user in userIDs.indices { truth.reach.doubt(user, at: time) } }
    }

    mutating func policyAcknowledged(_ change: [UInt8], isAlone: Bool) {
        guard let policy = policy(after: change) else { return }
        counts[.policyChanges] += 1
        let isPushChanged = truth.policy.policies.contains { $0.pushReachableStaysOnline != policy.pushReachableStaysOnline }
        truth.policy.acknowledge(policy, isCertain: !isAlone && !isExcused(by: .lateMessages), at: time)
        guard isPushChanged else { return }
        let isCertain = !isExcused(by: .disturbed(since: time))
        truth.reach.policyChanged(to: policy.pushReachableStaysOnline, of: clients, isCertain: isCertain, at: time)
    }

    /// Checks bytes that a gateway sends to a client's stream now: nothing of other users while the policy forbids it.
    mutating func checkPolicy(of payload: [UInt8], for client: Int, on node: Int) {
        guard truth.policy.hasBeenOff, truth.policy.isOff(for: .milliseconds(Self.everywhereMilliseconds), at: time),
            !isExcused(by: .disturbed(since: time)), let event = SimulatedClient.Event(payload),
            event.name == "onUserStatusChanged"
        else { return }
        let own = userID(clients[client].user).id
        for status in event.data["userStatusList"]?.elements ?? [] where status["userID"]?.text.map({ $0 != own }) ?? true {
            violate(.policiesHold, "user-\(clients[client].user) is told \(status), which the policy forbids")
        }
    }

    /// The policy that all nodes follow at the end.
    var policyAtRest: Policy { nodes[hosts[0]].look { $0.owner.policy(of: userIDs[0]) } }

    /// Checks that every node, its gateways and its disk have every kick and the acknowledged policy.
    mutating func checkWhatAllKeep() {
        for kick in truth.kicks { checkKickHolds(kick) }
        guard truth.policy.policies.count > 1 || truth.policy.acknowledgedAt > 0 else { return }
        let key = SimulatedDisk.Key(user: UserID(app: "default", id: "policy"), kind: .policy, key: "")
        let right = nodes[hosts[0]].look { $0.owner.appPolicy("default") }
        for node in hosts.map({ nodes[$0] }) {
            let known = node.look { $0.owner.appPolicy("default") }
            if known?.version != right?.version || known?.policy != right?.policy || node.disk.rows[key]?.version != right?.version {
                violate(
                    .policiesHold,
                    "\(node.id) has policy \(known?.version.text ?? "none"), \(nodes[hosts[0]].id) \(right?.version.text ?? "none")")
            }
            for gateway in node.gateways where gateway.value.policy(of: userIDs[0]) != node.look({ $0.owner.policy(of: userIDs[0]) }) {
                violate(.policiesHold, "a gateway of \(node.id) follows another policy than its node")
            }
        }
        let app = right?.policy.policy ?? options.settings.policy
        if !truth.policy.policies.contains(app) {
            violate(.policiesHold, "the nodes follow a policy that nobody has set last: \(right?.version.text ?? "none")")
        }
    }
}
