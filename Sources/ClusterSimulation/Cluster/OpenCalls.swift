import PresenceCore
import PresenceWire

/// The calls for whose answers clients wait, and the steps of a call.
struct OpenCalls {
    private var lastToken: UInt64 = 0
    /// By node and token.
    private var calls: [[UInt64: SimulatedCall]]

    init(nodesCount: Int) { calls = Array(repeating: [:], count: nodesCount) }

    /// Keeps a call that a node is about to perform. Returns the token of its answer.
    mutating func add(_ call: SimulatedCall, at node: Int) -> UInt64 {
        lastToken += 1
        calls[node][lastToken] = call
        return lastToken
    }

    /// The call of an answer; nil if nobody waits for it.
    mutating func take(_ token: UInt64, of node: Int) -> SimulatedCall? { calls[node].removeValue(forKey: token) }

    /// The open calls of a node, in the order in which they were made.
    func all(of node: Int) -> [SimulatedCall] { calls[node].sorted { $0.key < $1.key }.map(\.value) }

    /// Forgets the calls of a node that has died. Returns them.
    mutating func takeAll(of node: Int) -> [SimulatedCall] {
        defer { calls[node] = [:] }
        return all(of: node)
    }

    // MARK: Operations

    /// Makes a call of a user at a node; nil for that of one of its sessions, or any other.
    static func make(_ call: Call, by user: Int, at node: Int? = nil, _ cluster: inout SimulatedCluster) {
        cluster.truth.concern(user)
        if case .subscribeUserStatus(let targets, _, _, _) = call {
            for target in targets.compactMap({ cluster.userIndex($0.id) }) { cluster.truth.concern(target) }
        }
        if call.changesSubscriptions {
            guard !cluster.truth.subscriptions[user].isBusy else { return }
            cluster.truth.subscriptions[user].begin(seconds: call.subscriptionSeconds, at: cluster.time)
        }
        if case .owner(.setVisibility(let change)) = call {
            guard !cluster.truth.oracles[user].isBusy || isLater(than: cluster.truth.oracles[user].askedAt, cluster) else { return }
            HiddenViewChecks.keepStill(of: user, after: change, &cluster)
            cluster.truth.oracles[user].ask(at: cluster.time)
        }
        let elsewhere = node ?? nodeElsewhere(call, by: user, cluster)
        let client = elsewhere == nil ? caller(user, &cluster) : nil
        guard let node = elsewhere ?? client.flatMap({ cluster.clients[$0].stream?.node }) ?? cluster.randomNode() else {
            if call.changesSubscriptions { cluster.truth.subscriptions[user].isBusy = false }
            if case .owner(.setVisibility) = call { cluster.truth.oracles[user].end() }
            return
        }
        guard !isSwitchedOff(call, at: node, cluster) else {
            if call.changesSubscriptions { cluster.truth.subscriptions[user].isBusy = false }
            return
        }
        noteAsked(call, by: user, &cluster)
        var call = call
        if client == nil, elsewhere == nil, case .subscribeUserStatus(let targets, let seconds, _, let type) = call {
            // The stream leaves out what an answer sends. Only the owner of the stream may request that.
            call = .subscribeUserStatus(targets, seconds: seconds, sync: false, subscribeType: type)
        }
        if case .owner(.setSelfStatus(let text, let seconds)) = call {
            cluster.truth.expectedStatuses[user].append(Truth.ExpectedStatus(text: text, expires: seconds != nil, version: nil))
        }
        let token = cluster.calls.add(
            SimulatedCall(
                user: user, client: client, call: call, at: cluster.time,
                isOfKnownMembers: [.nodeReturnsFromSplit, .nodeRestartsCutOff].contains(cluster.options.kind) && cluster.areAllMembersKnown),
            at: node)
        cluster.nodes[node].node.perform(
            call, caller: cluster.userID(user), gateway: 0, token: token, at: cluster.nodes[node].now(cluster.time))
        cluster.obey(node)
    }

    /// Whether the call is later by all clocks. Of two concurrent changes of one visibility the later call wins.
    private static func isLater(than other: Nanoseconds, _ cluster: SimulatedCluster) -> Bool {
        cluster.options.kind == .visibilityIsSetTwice && cluster.time > other + .milliseconds(100)
    }

    /// A node for a call of a user whose two devices are both on other nodes. Their streams then leave nothing out.
    private static func nodeElsewhere(_ call: Call, by user: Int, _ cluster: SimulatedCluster) -> Int? {
        guard cluster.options.isHarder, case .subscribeUserStatus(_, _, true, _) = call else { return nil }
        let streams = cluster.clients.devices(of: user).compactMap { cluster.clients[$0].stream }
        guard streams.count == SimulatedClient.devicesPerUser else { return nil }
        return cluster.nodes.indices.first { node in cluster.nodes[node].isUp && streams.allSatisfy { $0.node != node } }
    }

    /// A device of the user with a stream, whose calls take the same path; nil if there is none.
    private static func caller(_ user: Int, _ cluster: inout SimulatedCluster) -> Int? {
        let open = cluster.clients.devices(of: user).filter { client in
            cluster.clients[client].stream.map { cluster.nodes[$0.node].isUp && cluster.time >= cluster.nodes[$0.node].pausedUntil }
                ?? false
        }
        return open.isEmpty ? nil : open[cluster.stage.random.number(in: 0...open.count - 1)]
    }

    static func answered(_ node: Int, _ token: UInt64, _ answer: CallAnswer, _ cluster: inout SimulatedCluster) {
        guard let call = cluster.calls.take(token, of: node) else {
            return cluster.violate(
                .everyCallIsAnswered, "\(cluster.nodes[node].id) answers token \(token), which nobody waits for: \(answer)")
        }
        let name = cluster.nodes[node].id
        cluster.journal.note(22, node, Int(token), "\(name) answers user-\(call.user) \(call.call.words): \(answer.words)")
        cluster.journal.note(.answer, node, Int(token)) { $0.answer(answer) }
        let limit = Nanoseconds(cluster.options.settings.callTimeout.wholeNanoseconds) + .milliseconds(500)
        if !cluster.isExcused(by: .pauses), cluster.time - call.at > limit {
            cluster.violate(.everyCallIsAnswered, "\(call.call) is answered after \((cluster.time - call.at).milliseconds) ms")
        }
        if case .refused(let refusal) = answer {
            cluster.stage.counts[.refused] += 1
            StreamChecks.checkRefusal(refusal, of: call, by: node, cluster)
            return refusal.mayTakeEffect ? cluster.truth.unanswered(call) : cluster.truth.refused(call, at: cluster.time)
        }
        if case .rateLimited = answer {
            cluster.stage.counts[.refused] += 1
            return cluster.truth.refused(call, at: cluster.time)
        }
        cluster.stage.counts[.acknowledged] += 1
        EventChecks.checkContents(of: answer, &cluster)
        let isAlone = cluster.isExcused(by: .alone(node: node))
        if call.call.changesSubscriptions, cluster.isExcused(by: .aloneSince(call.at, node: node)) {
            cluster.truth.subscriptions[call.user].doubt()
        }
        if let attempt = call.attempt { return RepeatChecks.answered(answer, to: attempt, isAlone: isAlone, &cluster) }
        switch (call.call, answer) {
        case (let asked, _) where OwnListChecks.concern(asked): OwnListChecks.answered(answer, to: call, isAlone: isAlone, &cluster)
        case (let asked, _) where ProfileChecks.concern(asked): ProfileChecks.answered(answer, to: call, isAlone: isAlone, &cluster)
        case (.owner(.setSelfStatus(let text, let seconds)), .owner(.record(let record))):
            RestChecks.checkDisks(of: record, cluster)
            cluster.truth.expectedStatuses[call.user].append(
                Truth.ExpectedStatus(
                    text: text, expires: seconds != nil, endsBy: seconds.map { cluster.time + ($0 + 3) * 1_000_000_000 },
                    version: isAlone ? nil : record.version, changedAt: record.lastUpdateTime, acknowledgedAt: cluster.time))
        case (.subscribeUserStatus(let targets, let seconds, _, _), .subscribed(let evicted, _, _, _, _, let records, _)):
            subscribed(answer, to: call, targets, seconds, evicted: evicted, isAlone: isAlone, &cluster)
            VisibilityChecks.checkVisibility(of: records ?? [], inAnswerTo: call, &cluster)
            receive(records ?? [], inAnswerTo: call, by: node, &cluster)
        case (.unsubscribeUserStatus(let targets, _), .done):
            cluster.truth.subscriptions[call.user].isBusy = false
            cluster.truth.subscriptions[call.user].unsubscribe(targets?.compactMap { cluster.userIndex($0.id) }, at: cluster.time)
        case (.getUserStatus, .userStatusList(let records, _, let asOf)):
            VisibilityChecks.checkVisibility(of: records, inAnswerTo: call, &cluster)
            StreamChecks.checkAsOf(records, asOf: asOf, of: call, by: cluster.nodes[node].id, cluster)
            SightChecks.check(records, inAnswerTo: call, by: cluster.nodes[node].id, cluster)
        case (.getSubscribedUserStatus, .subscriptions(let page, let records, _)):
            VisibilityChecks.checkVisibility(of: records, inAnswerTo: call, &cluster)
            StreamChecks.checkList(page, of: call, cluster)
        case (.owner(.setVisibility), .owner(.visibility(let privacy, let remnant))):
            let rule = privacy.visibility
            // A later call may be on the disks by now.
            if call.at == cluster.truth.oracles[call.user].askedAt { VisibilityChecks.checkRule(of: rule, askedBy: call, &cluster) }
            cluster.truth.oracles[call.user].acknowledge(
                rule, askedAt: call.at, at: MachineFaultChecks.time(after: remnant, by: node, cluster))
            if isAlone || cluster.isExcused(by: .overruled(call.user)) { cluster.truth.oracles[call.user].doubt() }
        case (.publishEvent, .owner(.record(let record))): EventChecks.published(call, record, isAlone: isAlone, &cluster)
        case (.setAppPolicy(let change), .done): PolicyChecks.policyAcknowledged(change, isAlone: isAlone, &cluster)
        case (.owner(.kick), .done): PolicyChecks.kicked(call, &cluster)
        case (.owner(.renew(let session, let expiresAt)), .done): SessionChecks.renewed(session, until: expiresAt, &cluster)
        case (.owner(.chain), .owner(.chained)), (.owner(.chain), .owner(.blocked)), (.getFriendList, .owner(.listed)):
            ChainChecks.answered(answer, to: call, isAlone: isAlone, &cluster)
        case (.owner(.logout(let session)), .done):
            cluster.truth.presences[call.user].excusedUntil = max(
                cluster.truth.presences[call.user].excusedUntil, cluster.time + .milliseconds(5_000))
            if session == nil { noteReachEnded(call.user, &cluster) }
        default: cluster.violate(.everyCallIsAnswered, "\(call.call) is answered with \(answer)")
        }
    }

    /// Records that an answer with `sync` sends records to the only session of its user, whose stream leaves them out. Several sessions
    /// receive them by stream.
    private static func receive(_ records: [Record?], inAnswerTo call: SimulatedCall, by node: Int, _ cluster: inout SimulatedCluster) {
        guard let client = call.client else { return }
        // As in the shell, the gateway that took the call writes the answer by the policy that it follows.
        let policy = cluster.nodes[node].gateways[0].value.policy(of: cluster.userID(call.user))
        for record in records.compactMap({ $0 }) { Clients.take(record, by: client, policy, &cluster) }
    }

    private static func subscribed(
        _ answer: CallAnswer, to call: SimulatedCall, _ targets: [UserID], _ seconds: Int64?, evicted: [UserID], isAlone: Bool,
        _ cluster: inout SimulatedCluster
    ) {
        FriendFollowChecks.answered(answer, to: call, isAlone: isAlone, &cluster)
        cluster.truth.subscriptions[call.user].isBusy = false
        // The expiry counts from when the owner stored it: between call and answer.
        let expiresAt = seconds.map { cluster.time + $0 * 1_000_000_000 }
        if seconds != nil { cluster.truth.subscriptions[call.user].doubt() }
        let wasCertain = cluster.truth.subscriptions[call.user].isCertain
        let expected = cluster.truth.subscriptions[call.user].subscribe(
            targets.compactMap { cluster.userIndex($0.id) }, at: cluster.time, expiresAt: expiresAt)
        guard wasCertain, cluster.truth.subscriptions[call.user].isCertain else { return }
        if expected.sorted() != evicted.compactMap({ cluster.userIndex($0.id) }).sorted() {
            if cluster.isExcused(by: .listsMayBeIncomplete) { return cluster.truth.subscriptions[call.user].doubt() }
            cluster.violate(
                .listsAreExact, "user-\(call.user) subscribes to \(targets): evicted are \(evicted), right would be \(expected)")
        }
    }

    /// Records that a call is about to be made.
    static func noteAsked(_ call: Call, by user: Int, _ cluster: inout SimulatedCluster) {
        SessionChecks.asked(call, by: user, &cluster)
        switch call {
        case .publishEvent(let value, _, let seconds, let isForOnlineOnly, let isSynced):
            cluster.truth.events[user].ask(
                ExpectedEvents.Published(
                    value: value, askedAt: cluster.time, seconds: seconds, isForOnlineOnly: isForOnlineOnly, isSynced: isSynced))
        case .setAppPolicy(let change): PolicyChecks.notePolicyAsked(change, &cluster)
        case .owner(.kick): cluster.truth.reach.doubt(user, at: cluster.time)
        case .owner(.chain), .getFriendList, .owner(.friendCall): ChainChecks.asked(call, by: user, &cluster)
        case .subscribeUserStatus, .unsubscribeUserStatus: FriendFollowChecks.asked(call, by: user, &cluster)
        default: break
        }
    }

    /// Whether the HTTP API would answer the call with 72001.
    static func isSwitchedOff(_ call: Call, at node: Int, _ cluster: SimulatedCluster) -> Bool {
        guard cluster.truth.policy.hasBeenOff, !cluster.nodes[node].look({ $0.owner.policy(of: cluster.userIDs[0]).publishesOthers }) else {
            return false
        }
        switch call {
        case .publishEvent, .getUserStatus, .subscribeUserStatus, .unsubscribeUserStatus, .getSubscribedUserStatus: return true
        default: return false
        }
    }

    /// Records that an acknowledged call has just ended all sessions of a user.
    static func noteReachEnded(_ user: Int, _ cluster: inout SimulatedCluster) {
        guard !cluster.isExcused(by: .disturbed(since: cluster.time)) else { return }
        for client in cluster.clients where client.user == user && client.stream == nil {
            cluster.truth.reach.loggedOut(client, isCertain: true, at: cluster.time)
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

/// A call under way, and its caller.
struct SimulatedCall {
    let user: Int
    /// The calling device; nil for a part of the app without a stream.
    let client: Int?
    let call: Call
    let at: Nanoseconds
    /// Whether every node knew all others, and had received their rows, when the call was made.
    var isOfKnownMembers = false
    /// The attempt of a call with a key; nil for a call without one.
    var attempt: RepeatedAttempt?
}
