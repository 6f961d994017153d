import PresenceCore
import PresenceWire

/// The steps of a plan, and the healing of the cluster.
extension SimulatedCluster {
    /// The time that users whose gateway died may be away unseen.
    var graceAfterDeath: Nanoseconds { max(options.settings.reconnectGrace.wholeNanoseconds - .milliseconds(3_500), 0) }

    /// The time that users whose stream broke may be away unseen.
    var graceAfterLoss: Nanoseconds { max(options.settings.policy.offlineGrace.wholeNanoseconds - .milliseconds(300), 0) }

    mutating func perform(_ action: Step.Action) {
        journal.note(20, 0, 0, "step: \(action)")
        switch action {
        case .login(let client, let node, let resumes): Clients.login(client, node: node, resumes: resumes, &self)
        case .logout(let client): Clients.logout(client, &self)
        case .drop(let client, let comesBackAfter): Clients.drop(client, comesBackAfter: comesBackAfter, &self)
        case .vanish(let client): Clients.vanish(client, &self)
        case .stall(let client, let milliseconds): clients[client].stalledUntil = time + .milliseconds(milliseconds)
        case .setStatus(let user, let text, let seconds): call(.setSelfStatus(customStatus: text, seconds: seconds), by: user)
        case .subscribe(let user, let targets, let seconds, let sync):
            call(.subscribeUserStatus(targets.map(userID), seconds: seconds, sync: sync, subscribeType: 1), by: user)
        case .unsubscribe(let user, let targets): call(.unsubscribeUserStatus(targets?.map(userID)), by: user)
        case .query(let user, let targets): call(.getUserStatus(targets.map(userID)), by: user)
        case .request(let node, let user, let targets): MachineFaultChecks.request(targets, by: user, at: node, &self)
        case .list(let user): call(.getSubscribedUserStatus(only: nil, offset: 0, limit: 200), by: user)
        case .logoutEverywhere(let user): Clients.logoutEverywhere(user, &self)
        case .setVisibility(let user, let mode, let listed, let isInvisible):
            call(.setVisibility(Visibility.Change(mode: mode, isInvisible: isInvisible, listed: listed.map(userID))), by: user)
        case .kill(let node, let downMilliseconds):
            if ProcessLife.isFullAndAlone(node, self) { return }
            ProcessLife.kill(node, &self)
            stage.plan(.start(node: node), after: .milliseconds(downMilliseconds))
        case .drain(let node, let downMilliseconds): ProcessLife.drain(node, downMilliseconds: downMilliseconds, &self)
        case .reset(let from, let to): if from != to { network.breakLink(network.link(from, to), &stage) }
        case .delay(let from, let to, let milliseconds, let duration):
            let link = network.link(from, to)
            network[link].delay = .milliseconds(milliseconds)
            network[link].delayedUntil = time + .milliseconds(duration)
        case .isolate(let node, let duration): network.isolate(node, until: time + .milliseconds(duration))
        case .blind(let from, let to, let duration):
            if from != to { network[network.link(from, to)].block(until: time + .milliseconds(duration)) }
        case .pause(let node, let milliseconds): ProcessLife.pause(node, for: milliseconds, &self)
        case .jumpClocks(let nodes, let milliseconds, let duration):
            for node in nodes {
                self.nodes[node].jump = Milliseconds(milliseconds)
                stage.plan(.correctClock(node: node), after: .milliseconds(duration))
                for (check, after) in MachineFaultChecks.checks(of: node, .clock, for: duration, self) { stage.plan(check, after: after) }
            }
        case .fillDisk(let node, let milliseconds):
            for (check, after) in MachineFaultChecks.checks(of: node, .disk, for: milliseconds, self) { stage.plan(check, after: after) }
            if !nodes[node].disk.isFull { nodes[node].filledAt = nodes[node].worked(at: time) }
            nodes[node].disk.isFull = true
            stage.plan(.emptyDisk(node: node), after: .milliseconds(milliseconds))
        case .slowDisk(let node, let milliseconds):
            nodes[node].disk.isSlow = true
            stage.plan(.emptyDisk(node: node), after: .milliseconds(milliseconds))
        case .jumpClock(let node, let milliseconds):
            if nodes.count > 1 || !nodes[node].disk.isFull { nodes[node].systemOffset = Milliseconds(milliseconds) }
        case .startTwin(let start): Twins.start(start, &self)
        case .setPolicy(let change): if !truth.policy.isBusy { call(.setAppPolicy(Array(change.utf8)), by: 0) }
        case .publish, .loginReachable, .kick, .loseRows, .chain, .backEnd, .profile, .session, .ownList, .repeated, .followFriends:
            performApart(action)
        }
    }

    /// Ends all faults: held messages arrive, paused nodes resume, and nodes that are down start.
    mutating func heal() {
        phase = .healed
        disturbedAt = time
        journal.note(21, 0, 0, "healed")
        network.heal(at: time)
        stage.hasten(&network)
        for node in nodes.indices {
            nodes[node].pausedUntil = min(nodes[node].pausedUntil, time)
            nodes[node].confirmClock()
            stage.plan(.resume(node: node), after: 0)
            stage.plan(.emptyDisk(node: node), after: 0)
            if !nodes[node].isUp, nodes[node].isInUse { stage.plan(.start(node: node), after: stage.random.microseconds(0...100_000)) }
        }
        for client in clients.indices { clients[client].stalledUntil = time }
    }

    /// A node that is up and not paused.
    mutating func randomNode() -> Int? {
        let open = hosts.filter { nodes[$0].isUp && time >= nodes[$0].pausedUntil && !nodes[$0].isLeaving }
        return open.isEmpty ? nil : open[stage.random.number(in: 0...open.count - 1)]
    }
}
