import PresenceCore
import PresenceWire

/// The state of the whole cluster that checks and clients read, and the steps about events, kicks and lists.
extension SimulatedCluster {
    /// Excuses a user's absence for some time, because the user was asked to go, or was kicked.
    mutating func excuseAbsence(of user: Int) {
        truth.presences[user].excusedUntil = time + .milliseconds(8_000)
        (truth.presences[user].endedByLogout, truth.presences[user].lastEndAt) = (nil, time)
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

    /// The policy that all nodes follow at the end.
    var policyAtRest: Policy { nodes[hosts[0]].look { $0.owner.policy(of: userIDs[0]) } }

    var forgetAfterMilliseconds: Milliseconds { options.settings.policy.forgetAfterSeconds * 1_000 }

    /// The wall time of a correct clock.
    var trueWall: Milliseconds { Self.epoch + time / 1_000_000 }

    mutating func performApart(_ action: Step.Action) {
        switch action {
        case .publish(let user, let value, let seconds, let onlineOnly, let synced):
            call(.publishEvent(value: value, ext: "", seconds: seconds, isForOnlineOnly: onlineOnly, isSynced: synced), by: user)
        case .loginReachable(let client, let node):
            if !clients[client].isWanted { counts[.reachableLogins] += 1 }
            login(client, node: node, resumes: true, isPushReachable: true)
        case .kick(let user):
            excuseAbsence(of: user)
            call(.kick(reason: "kicked"), by: user)
        case .loseRows(let node, let users, let part): MachineFaultChecks.lose(part, of: users, on: node, self)
        case .chain(let action): ChainChecks.perform(action, &self)
        case .profile(let action): ProfileChecks.perform(action, &self)
        case .session(let action): SessionChecks.perform(action, &self)
        case .ownList(let action): OwnListChecks.perform(action, &self)
        case .repeated(let action): RepeatChecks.perform(action, &self)
        default: break
        }
    }

    /// Records that a call is about to be made.
    mutating func noteAsked(_ call: Call, by user: Int) {
        SessionChecks.asked(call, by: user, &self)
        switch call {
        case .publishEvent(let value, _, let seconds, let isForOnlineOnly, let isSynced):
            truth.events[user].ask(
                ExpectedEvents.Published(
                    value: value, askedAt: time, seconds: seconds, isForOnlineOnly: isForOnlineOnly, isSynced: isSynced))
        case .setAppPolicy(let change): PolicyChecks.notePolicyAsked(change, &self)
        case .kick: truth.reach.doubt(user, at: time)
        case .chain, .getFriendList, .friendCall: ChainChecks.asked(call, by: user, &self)
        default: break
        }
    }

    /// Whether the HTTP API would answer the call with 72001.
    func isSwitchedOff(_ call: Call, at node: Int) -> Bool {
        guard truth.policy.hasBeenOff, !nodes[node].look({ $0.owner.policy(of: userIDs[0]).publishesOthers }) else { return false }
        switch call {
        case .publishEvent, .getUserStatus, .subscribeUserStatus, .unsubscribeUserStatus, .getSubscribedUserStatus: return true
        default: return false
        }
    }

    /// The certainty that the device of an open session counts as reachable.
    func certainReach(of client: SimulatedClient) -> Reach.Word {
        if isExcused(by: .disturbed(since: time)) { return .unknown }
        guard client.isPushReachable else { return .no }
        let words = truth.policy.policies.map(\.pushReachableStaysOnline)
        return isExcused(by: .policyChanges) || words.contains(!words[0]) ? .unknown : words[0] ? .yes : .no
    }

    /// Records that an acknowledged call has just ended all sessions of a user.
    mutating func noteReachEnded(_ user: Int) {
        guard !isExcused(by: .disturbed(since: time)) else { return }
        for client in clients where client.user == user && client.stream == nil { truth.reach.loggedOut(client, isCertain: true, at: time) }
    }

    /// The devices that certainly keep the user ONLINE, and those that possibly do.
    func reachedDevices(of user: Int) -> (certain: [Int], possible: [Int]) {
        let isLost = !truth.reach.isUnused(by: user) && isExcused(by: .undeliveredLogout(user))
        let lostLogouts = isLost ? clients.filter { $0.user == user && $0.isPushReachable }.map(\.device) : []
        return truth.reach.devices(of: user, killsAt: truth.killsAt, lostLogouts: lostLogouts)
    }

    /// Whether every node knows all others, and has received their rows.
    var areAllMembersKnown: Bool {
        nodes.allSatisfy { node in
            node.isUp && node.look { $0.cluster.isWarm && !$0.owner.listsMayBeIncomplete && $0.cluster.memberIDs.count == nodes.count }
        }
    }

    /// The users that a user follows by its owner's list, the friends of whom it is told, and the user itself.
    func followed(by user: Int) -> [Int] {
        guard let owner = owner(of: user) else { return [] }
        let listed = nodes[owner].kept(userID(user)).subscriptions.compactMap { userIndex($0.target.id) }
        return Set(listed + VisibilityChecks.followed(by: user, self)).sorted() + [user]
    }

    /// The node that owns a user, by the ring of the first node that is up.
    func owner(of user: Int) -> Int? {
        guard let first = nodes.first(where: { $0.isUp && $0.isInUse }) else { return nil }
        let id = first.look { $0.cluster.ownerID(of: userID(user)) }
        return nodes.firstIndex { $0.id == id && $0.isInUse }
    }

    /// The number of disks with an acknowledged change.
    var disksExpected: Int {
        // A node that has just started is not a member yet. A node that drains counts as long as any other node knows that it is there.
        // Slow and breaking links may make it seem gone, which it is about to be. Rows written before it is met again were written
        // without it.
        let membersCount = nodes.count { node in
            let isMet = time - node.metAt > .milliseconds(4_000)
            return node.isUp && time - node.startedAt > .milliseconds(4_000)
                && (!node.isLeaving
                    || (isMet && nodes.contains { $0.id != node.id && $0.isUp && $0.look { $0.cluster.isMember(node.id) } }))
        }
        return isExcused(by: .drainsInSplit) ? 1 : max(min(membersCount, 2), 1)
    }
}
