import PresenceCore
import PresenceWire

/// The steps of a plan, and the healing of the cluster.
extension SimulatedCluster {
    /// The time that users whose gateway died may be away unseen.
    var graceAfterDeath: Nanoseconds { max(options.settings.reconnectGrace.wholeNanoseconds - .milliseconds(3_500), 0) }

    /// The time that users whose stream broke may be away unseen.
    var graceAfterLoss: Nanoseconds { max(options.settings.offlineGrace.wholeNanoseconds - .milliseconds(300), 0) }

    mutating func perform(_ action: Step.Action) {
        note(20, 0, 0, "step: \(action)")
        switch action {
        case .login(let client, let node, let resumes): login(client, node: node, resumes: resumes)
        case .logout(let client): logout(client)
        case .drop(let client, let comesBackAfter): drop(client, comesBackAfter: comesBackAfter)
        case .vanish(let client): vanish(client)
        case .stall(let client, let milliseconds): clients[client].stalledUntil = time + .milliseconds(milliseconds)
        case .setStatus(let user, let text, let seconds): call(.setSelfStatus(customStatus: text, seconds: seconds), by: user)
        case .subscribe(let user, let targets, let seconds, let sync):
            call(.subscribeUserStatus(targets.map(userID), seconds: seconds, sync: sync, subscribeType: 1), by: user)
        case .unsubscribe(let user, let targets): call(.unsubscribeUserStatus(targets?.map(userID)), by: user)
        case .query(let user, let targets): call(.getUserStatus(targets.map(userID)), by: user)
        case .request(let node, let user, let targets): MachineFaultChecks.request(targets, by: user, at: node, &self)
        case .list(let user): call(.getSubscribedUserStatus(only: nil, offset: 0, limit: 200), by: user)
        case .logoutEverywhere(let user): logoutEverywhere(user)
        case .setVisibility(let user, let mode, let listed, let blocked, let isInvisible):
            // No call names the blocked users if the blocklist says who they are.
            let change = Visibility.Change(
                mode: mode, isInvisible: isInvisible, listed: listed.map(userID),
                blocked: options.kind == .friendsHideAndBlock ? nil : blocked.map(userID))
            call(.setVisibility(change), by: user)
        case .kill(let node, let downMilliseconds):
            if isFullAndAlone(node) { return }
            kill(node)
            plan(.start(node: node), after: .milliseconds(downMilliseconds))
        case .drain(let node, let downMilliseconds): drain(node, downMilliseconds: downMilliseconds)
        case .reset(let from, let to): if from != to { breakLink(link(from, to)) }
        case .delay(let from, let to, let milliseconds, let duration):
            links[link(from, to)].delay = .milliseconds(milliseconds)
            links[link(from, to)].delayedUntil = time + .milliseconds(duration)
        case .isolate(let node, let duration):
            for other in nodes.indices where other != node {
                for link in [link(node, other), link(other, node)] { links[link].block(until: time + .milliseconds(duration)) }
            }
        case .blind(let from, let to, let duration): if from != to { links[link(from, to)].block(until: time + .milliseconds(duration)) }
        case .pause(let node, let milliseconds): pause(node, for: milliseconds)
        case .jumpClocks(let nodes, let milliseconds, let duration):
            for node in nodes {
                self.nodes[node].jump = Milliseconds(milliseconds)
                plan(.correctClock(node: node), after: .milliseconds(duration))
                for (check, after) in MachineFaultChecks.checks(of: node, .clock, for: duration, self) { plan(check, after: after) }
            }
        case .fillDisk(let node, let milliseconds):
            for (check, after) in MachineFaultChecks.checks(of: node, .disk, for: milliseconds, self) { plan(check, after: after) }
            if !nodes[node].disk.isFull { nodes[node].filledAt = nodes[node].worked(at: time) }
            nodes[node].disk.isFull = true
            plan(.emptyDisk(node: node), after: .milliseconds(milliseconds))
        case .slowDisk(let node, let milliseconds):
            nodes[node].disk.isSlow = true
            plan(.emptyDisk(node: node), after: .milliseconds(milliseconds))
        case .jumpClock(let node, let milliseconds):
            if nodes.count > 1 || !nodes[node].disk.isFull { nodes[node].systemOffset = Milliseconds(milliseconds) }
        case .startTwin(let start): Twins.start(start, &self)
        case .setPolicy(let change): if !truth.policy.isBusy { call(.setAppPolicy(Array(change.utf8)), by: 0) }
        case .publish, .loginReachable, .kick, .loseRows, .chain, .profile, .session, .ownList, .repeated: performApart(action)
        }
    }

    private mutating func pause(_ node: Int, for milliseconds: Int) {
        guard nodes[node].isUp else { return }
        let until = max(nodes[node].pausedUntil, time + .milliseconds(milliseconds))
        nodes[node].stoodStill += until - max(nodes[node].pausedUntil, time)
        nodes[node].pausedUntil = until
        plan(.resume(node: node), at: nodes[node].pausedUntil)
    }

    /// Ends all faults: held messages arrive, paused nodes resume, and nodes that are down start.
    mutating func heal() {
        phase = .healed
        disturbedAt = time
        note(21, 0, 0, "healed")
        for link in links.indices { links[link].heal(at: time) }
        hasten()
        for node in nodes.indices {
            nodes[node].pausedUntil = min(nodes[node].pausedUntil, time)
            nodes[node].confirmClock()
            plan(.resume(node: node), after: 0)
            plan(.emptyDisk(node: node), after: 0)
            if !nodes[node].isUp, nodes[node].isInUse { plan(.start(node: node), after: random.microseconds(0...100_000)) }
        }
        for client in clients.indices { clients[client].stalledUntil = time }
    }

    // MARK: Operations

    /// Makes a call of a user at a node; nil for that of one of its sessions, or any other.
    mutating func call(_ call: Call, by user: Int, at node: Int? = nil) {
        truth.concern(user)
        if case .subscribeUserStatus(let targets, _, _, _) = call {
            for target in targets.compactMap({ userIndex($0.id) }) { truth.concern(target) }
        }
        if call.changesSubscriptions {
            guard !truth.subscriptions[user].isBusy else { return }
            truth.subscriptions[user].begin(seconds: call.subscriptionSeconds, at: time)
        }
        if case .setVisibility(let change) = call {
            guard !truth.oracles[user].isBusy || isLater(than: truth.oracles[user].askedAt) else { return }
            HiddenViewChecks.keepStill(of: user, after: change, &self)
            truth.oracles[user].ask(at: time)
        }
        let elsewhere = node ?? nodeElsewhere(call, by: user)
        let client = elsewhere == nil ? caller(user) : nil
        guard let node = elsewhere ?? client.flatMap({ clients[$0].stream?.node }) ?? randomNode() else {
            if call.changesSubscriptions { truth.subscriptions[user].isBusy = false }
            if case .setVisibility = call { truth.oracles[user].end() }
            return
        }
        guard !isSwitchedOff(call, at: node) else {
            if call.changesSubscriptions { truth.subscriptions[user].isBusy = false }
            return
        }
        noteAsked(call, by: user)
        var call = call
        if client == nil, elsewhere == nil, case .subscribeUserStatus(let targets, let seconds, _, let type) = call {
            // The stream leaves out what an answer sends. Only the owner of the stream may request that.
            call = .subscribeUserStatus(targets, seconds: seconds, sync: false, subscribeType: type)
        }
        if case .setSelfStatus(let text, let seconds) = call {
            truth.expectedStatuses[user].append(Truth.ExpectedStatus(text: text, expires: seconds != nil, version: nil))
        }
        nextToken += 1
        nodes[node].calls[nextToken] = SimulatedCall(
            user: user, client: client, call: call, at: time,
            isOfKnownMembers: [.nodeReturnsFromSplit, .nodeRestartsCutOff].contains(options.kind) && areAllMembersKnown)
        nodes[node].node.perform(call, caller: userID(user), gateway: 0, token: nextToken, at: nodes[node].now(time))
        obey(node)
    }

    /// Whether the call is later by all clocks. Of two concurrent changes of one visibility the later call wins.
    private func isLater(than other: Nanoseconds) -> Bool { options.kind == .visibilityIsSetTwice && time > other + .milliseconds(100) }

    /// A node for a call of a user whose two devices are both on other nodes. Their streams then leave nothing out.
    private func nodeElsewhere(_ call: Call, by user: Int) -> Int? {
        guard options.isHarder, case .subscribeUserStatus(_, _, true, _) = call else { return nil }
        let first = user * SimulatedClient.devicesPerUser
        let streams = clients[first..<first + SimulatedClient.devicesPerUser].compactMap(\.stream)
        guard streams.count == SimulatedClient.devicesPerUser else { return nil }
        return nodes.indices.first { node in nodes[node].isUp && streams.allSatisfy { $0.node != node } }
    }

    /// A device of the user with a stream, whose calls take the same path; nil if there is none.
    private mutating func caller(_ user: Int) -> Int? {
        let first = user * SimulatedClient.devicesPerUser
        let open = (first..<first + SimulatedClient.devicesPerUser).filter { client in
            clients[client].stream.map { nodes[$0.node].isUp && time >= nodes[$0.node].pausedUntil } ?? false
        }
        return open.isEmpty ? nil : open[random.number(in: 0...open.count - 1)]
    }

    /// A node that is up and not paused.
    mutating func randomNode() -> Int? {
        let open = hosts.filter { nodes[$0].isUp && time >= nodes[$0].pausedUntil && !nodes[$0].isLeaving }
        return open.isEmpty ? nil : open[random.number(in: 0...open.count - 1)]
    }

    private mutating func logoutEverywhere(_ user: Int) {
        truth.reach.doubt(user, at: time)
        let first = user * SimulatedClient.devicesPerUser
        for client in first..<first + SimulatedClient.devicesPerUser { clients[client].isWanted = false }
        truth.presences[user].excusedUntil = time + .milliseconds(8_000)
        (truth.presences[user].endedByLogout, truth.presences[user].lastEndAt) = (nil, time)
        call(.logout(nil), by: user)
    }

    mutating func answered(_ node: Int, _ token: UInt64, _ answer: CallAnswer) {
        guard let call = nodes[node].calls.removeValue(forKey: token) else {
            return violate(.everyCallIsAnswered, "\(nodes[node].id) answers token \(token), which nobody waits for: \(answer)")
        }
        note(22, node, Int(token), "\(nodes[node].id) answers user-\(call.user) \(call.call): \(answer.words)")
        note(.answer, node, Int(token)) { $0.answer(answer) }
        let limit = Nanoseconds(options.settings.callTimeout.wholeNanoseconds) + .milliseconds(500)
        if !isExcused(by: .pauses), time - call.at > limit {
            violate(.everyCallIsAnswered, "\(call.call) is answered after \((time - call.at).milliseconds) ms")
        }
        if case .refused(let refusal) = answer {
            counts[.refused] += 1
            StreamChecks.checkRefusal(refusal, of: call, by: node, self)
            return refusal.mayTakeEffect ? truth.unanswered(call) : truth.refused(call, at: time)
        }
        if case .rateLimited = answer {
            counts[.refused] += 1
            return truth.refused(call, at: time)
        }
        counts[.acknowledged] += 1
        EventChecks.checkContents(of: answer, &self)
        let isAlone = isExcused(by: .alone(node: node))
        if call.call.changesSubscriptions, isExcused(by: .aloneSince(call.at, node: node)) { truth.subscriptions[call.user].doubt() }
        if let attempt = call.attempt { return RepeatChecks.answered(answer, to: attempt, isAlone: isAlone, &self) }
        switch (call.call, answer) {
        case (let asked, _) where OwnListChecks.concern(asked): OwnListChecks.answered(answer, to: call, &self)
        case (let asked, _) where ProfileChecks.concern(asked): ProfileChecks.answered(answer, to: call, isAlone: isAlone, &self)
        case (.setSelfStatus(let text, let seconds), .userStatus(let record)):
            RestChecks.checkDisks(of: record, self)
            truth.expectedStatuses[call.user].append(
                Truth.ExpectedStatus(
                    text: text, expires: seconds != nil, endsBy: seconds.map { time + ($0 + 3) * 1_000_000_000 },
                    version: isAlone ? nil : record.version, changedAt: record.lastUpdateTime, acknowledgedAt: time))
        case (.subscribeUserStatus(let targets, let seconds, _, _), .subscribed(let evicted, _, _, _, _, let records, _)):
            subscribed(call, targets, seconds, evicted: evicted)
            VisibilityChecks.checkVisibility(of: records ?? [], inAnswerTo: call, &self)
            receive(records ?? [], inAnswerTo: call)
        case (.unsubscribeUserStatus(let targets, _), .done):
            truth.subscriptions[call.user].isBusy = false
            truth.subscriptions[call.user].unsubscribe(targets?.compactMap { userIndex($0.id) }, at: time)
        case (.getUserStatus, .userStatusList(let records, _, let asOf)):
            VisibilityChecks.checkVisibility(of: records, inAnswerTo: call, &self)
            StreamChecks.checkAsOf(records, asOf: asOf, of: call, by: nodes[node].id, self)
            SightChecks.check(records, inAnswerTo: call, by: nodes[node].id, self)
        case (.getSubscribedUserStatus, .subscriptions(let page, let records, _)):
            VisibilityChecks.checkVisibility(of: records, inAnswerTo: call, &self)
            StreamChecks.checkList(page, of: call, self)
        case (.setVisibility, .visibility(let rule, let remnant)):
            // A later call may be on the disks by now.
            if call.at == truth.oracles[call.user].askedAt { VisibilityChecks.checkRule(of: rule, askedBy: call, &self) }
            truth.oracles[call.user].acknowledge(rule, askedAt: call.at, at: MachineFaultChecks.time(after: remnant, by: node, self))
            if isAlone || isExcused(by: .overruled(call.user)) { truth.oracles[call.user].doubt() }
        case (.publishEvent, .userStatus(let record)): EventChecks.published(call, record, isAlone: isAlone, &self)
        case (.setAppPolicy(let change), .done): PolicyChecks.policyAcknowledged(change, isAlone: isAlone, &self)
        case (.kick, .done): PolicyChecks.kicked(call, &self)
        case (.renew(let session, let expiresAt), .done): SessionChecks.renewed(session, until: expiresAt, &self)
        case (.chain, .chained), (.chain, .blocked), (.getFriendList, .listed):
            ChainChecks.answered(answer, to: call, isAlone: isAlone, &self)
        case (.logout(let session), .done):
            truth.presences[call.user].excusedUntil = max(truth.presences[call.user].excusedUntil, time + .milliseconds(5_000))
            if session == nil { noteReachEnded(call.user) }
        default: violate(.everyCallIsAnswered, "\(call.call) is answered with \(answer)")
        }
    }

    /// Records that an answer with `sync` sends records to the only session of its user, whose stream leaves them out. Several sessions
    /// receive them by stream.
    private mutating func receive(_ records: [Record?], inAnswerTo call: SimulatedCall) {
        guard let client = call.client else { return }
        for record in records.compactMap({ $0 }) { take(record, by: client) }
    }

    private mutating func subscribed(_ call: SimulatedCall, _ targets: [UserID], _ seconds: Int64?, evicted: [UserID]) {
        truth.subscriptions[call.user].isBusy = false
        // The expiry counts from when the owner stored it: between call and answer.
        let expiresAt = seconds.map { time + $0 * 1_000_000_000 }
        if seconds != nil { truth.subscriptions[call.user].doubt() }
        let wasCertain = truth.subscriptions[call.user].isCertain
        let expected = truth.subscriptions[call.user].subscribe(targets.compactMap { userIndex($0.id) }, at: time, expiresAt: expiresAt)
        guard wasCertain, truth.subscriptions[call.user].isCertain else { return }
        if expected.sorted() != evicted.compactMap({ userIndex($0.id) }).sorted() {
            if isExcused(by: .listsMayBeIncomplete) { return truth.subscriptions[call.user].doubt() }
            violate(.listsAreExact, "user-\(call.user) subscribes to \(targets): evicted are \(evicted), right would be \(expected)")
        }
    }
}

extension Call {
    /// Whether the call changes the caller's subscriptions to statuses.
    var changesSubscriptions: Bool {
        switch self {
        case .subscribeUserStatus, .unsubscribeUserStatus: !ProfileChecks.concern(self)
        default: false
        }
    }

    /// The validity of the subscriptions that it adds; nil for unlimited.
    fileprivate var subscriptionSeconds: Int64? {
        if case .subscribeUserStatus(_, let seconds, _, _) = self { seconds } else { nil }
    }
}
