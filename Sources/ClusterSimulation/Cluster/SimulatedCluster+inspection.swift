import PresenceCore
import PresenceWire

/// The state of the whole cluster that checks and clients read, and the steps about events, kicks and lists.
extension SimulatedCluster {
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
            if !clients[client].isWanted { stage.counts[.reachableLogins] += 1 }
            Clients.login(client, node: node, resumes: true, isPushReachable: true, &self)
        case .kick(let user):
            truth.excuseAbsence(of: user, at: time)
            call(.kick(reason: "kicked"), by: user)
        case .loseRows(let node, let users, let part): MachineFaultChecks.lose(part, of: users, on: node, self)
        case .chain(let action): ChainChecks.perform(action, &self)
        case .backEnd(let action): BackEndChecks.perform(action, &self)
        case .profile(let action): ProfileChecks.perform(action, &self)
        case .session(let action): SessionChecks.perform(action, &self)
        case .ownList(let action): OwnListChecks.perform(action, &self)
        case .repeated(let action): RepeatChecks.perform(action, &self)
        case .followFriends(let user, let targets, let sync):
            let type = Subscription.friendOnlineStatus
            call(.subscribeUserStatus(targets.map(userID), seconds: nil, sync: sync, subscribeType: type), by: user)
        default: break
        }
    }

    /// The certainty that the device of an open session counts as reachable.
    func certainReach(of client: SimulatedClient) -> Reach.Word {
        if isExcused(by: .disturbed(since: time)) { return .unknown }
        guard client.isPushReachable else { return .no }
        let words = truth.policy.policies.map(\.pushReachableStaysOnline)
        return isExcused(by: .policyChanges) || words.contains(!words[0]) ? .unknown : words[0] ? .yes : .no
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
