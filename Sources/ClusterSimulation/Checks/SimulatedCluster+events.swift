import PresenceCore
import PresenceWire

/// Published events, the streams that receive them, and devices that vendor push reaches.
extension SimulatedCluster {
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
        case .setAppPolicy(let change): notePolicyAsked(change)
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

    // MARK: Events

    /// Records an acknowledged event and its record.
    mutating func published(_ call: SimulatedCall, _ record: Record, isAlone: Bool) {
        guard case .publishEvent(let value, let ext, let seconds, let isForOnlineOnly, let isSynced) = call.call else { return }
        checkDisks(of: record)
        guard let event = record.events.newest, event.value == value, event.ext == ext, event.isForOnlineOnly == isForOnlineOnly,
            event.isSynced == isSynced, event.expiresAt - event.publishedAt == seconds * 1_000
        else {
            return violate(.nothingAcknowledgedIsLost, "user-\(call.user) published \(call.call), is answered \(record.events)")
        }
        counts[.published] += 1
        guard !isAlone else { return }
        truth.events[call.user].acknowledge(event)
        guard !isExcused(by: .disturbed(since: time)), !isExcused(by: .hides(call.user, from: nil)) else { return }
        for client in clients.indices where clients[client].isSynced {
            guard let stream = clients[client].stream, follows(call.user, client, since: time) else { continue }
            truth.expectations.append(
                Expectation(client: client, session: stream.session, user: call.user, event: event, acknowledgedAt: time))
            plan(.expectEvent(truth.expectations.count - 1), after: .milliseconds(3_000))
        }
    }

    /// Whether a session certainly receives a user's changes since `moment`.
    private func follows(_ user: Int, _ client: Int, since moment: Nanoseconds) -> Bool {
        if clients[client].user == user { return true }
        return !isExcused(by: .uncertainList(clients[client].user))
            && truth.subscriptions[clients[client].user]
                .settledTargets(since: moment - .milliseconds(2_000), until: time + .milliseconds(1_000)).contains(user)
    }

    /// Checks that a session that was synced when an event was acknowledged has received it by now, or a newer one.
    mutating func checkExpectation(_ index: Int) {
        let expected = truth.expectations[index]
        let client = expected.client
        guard let stream = clients[client].stream, stream.session == expected.session,
            !isExcused(by: .disturbed(since: expected.acknowledgedAt)), !clients[client].pipe.isBlocked,
            !isExcused(by: .stalled(until: clients[client].stalledUntil, since: time - .milliseconds(500))),
            !isExcused(by: .hides(expected.user, from: nil))
        else { return }
        let isOwn = clients[client].user == expected.user
        let since = expected.acknowledgedAt - .milliseconds(2_000)
        guard isOwn || (!isExcused(by: .policyHides(since: since)) && follows(expected.user, client, since: expected.acknowledgedAt)) else {
            return
        }
        counts[.eventsExpected] += 1
        let view = clients[client].view[expected.user]
        let seen = view.map { "\($0.status)" } ?? "nothing"
        let words = "user-\(clients[client].user) sees \(seen) of user-\(expected.user), \(expected.event) was acknowledged"
        guard let view, view.version >= expected.event.id.text else { return violate(.eventsAreDelivered, words) }
        let told = view.status["event"]?["eventID"]?.text ?? ""
        let mayHaveEnded =
            expected.event.expiresAt < trueWall + 1_000
            || truth.events[expected.user].mayBeReplaced(expected.event, at: trueWall, mayLag: 1_000)
        if !mayHaveEnded, told < expected.event.id.text { violate(.eventsAreDelivered, words) }
    }

    /// Checks that the record has the events in force.
    mutating func checkEvents(_ user: Int, _ record: Record, owner: Int) {
        guard !truth.events[user].isEmpty || record.hasEvents else { return }
        let mayLag: Milliseconds = isExcused(by: .clockJumps) ? 45_000 : 1_000
        let problem = truth.events[user].problem(with: record.events, at: nodes[owner].now(time).wall, mayLag: mayLag)
        if let problem { violate(.nothingAcknowledgedIsLost, "events of user-\(user): \(problem); its record is \(record.words)") }
    }

    // MARK: Contents

    /// Checks a status that a client receives.
    mutating func checkContent(_ status: JSONValue, _ version: String, of user: Int) {
        guard !isExcused(by: .hides(user, from: nil)), let before = truth.contents[user].problem(with: status, version) else { return }
        violate(.oneVersionHasOneContent, "of user-\(user) \(status) is told, under this version \(before) was told before")
    }

    /// Checks the records of an answer.
    mutating func checkContents(of answer: CallAnswer) {
        switch answer {
        case .userStatus(let record): checkContents(of: [record])
        case .userStatusList(let records, _, _): checkContents(of: records)
        case .subscribed(_, _, _, _, _, let records, _): checkContents(of: records ?? [])
        case .subscriptions(_, let records, _): checkContents(of: records)
        default: break
        }
    }

    mutating func checkContents(of records: [Record?]) {
        let records = records.compactMap(\.self)
        guard !records.isEmpty else { return }
        let event = SimulatedClient.Event(EventText.statusChanged(records, id: 1))
        for status in event?.data["userStatusList"]?.elements ?? [] {
            guard let user = status["userID"]?.text.flatMap({ userIndex($0) }), let version = status["version"]?.text else { continue }
            checkContent(status, version, of: user)
        }
    }

    // MARK: Devices that push reaches

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
}
