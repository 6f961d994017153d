import PresenceCore
import PresenceWire

/// Makes calls with keys, and checks that a repeated call has the first answer and takes effect once: see ``RepeatOracle``.
enum RepeatChecks {
    /// The time without a start of a node before the next owner ends.
    private static let calmMilliseconds = 3_000

    static func perform(_ action: RepeatAction, _ cluster: inout SimulatedCluster) {
        switch action {
        case .attempt(let attempt): make(attempt, &cluster)
        case .endOwner(let user, let isDrain, let downMilliseconds):
            let calmSince = cluster.time - .milliseconds(calmMilliseconds)
            let isCalm = cluster.hosts.map { cluster.nodes[$0] }.allSatisfy { $0.isUp && !$0.isLeaving && $0.startedAt < calmSince }
            guard isCalm, let owner = cluster.owner(of: user) else { return }
            if isDrain { return ProcessLife.drain(owner, downMilliseconds: downMilliseconds, &cluster) }
            ProcessLife.kill(owner, &cluster)
            cluster.stage.plan(.start(node: owner), after: .milliseconds(downMilliseconds))
        }
    }

    private static func make(_ attempt: RepeatedAttempt, _ cluster: inout SimulatedCluster) {
        let call = attempt.call
        let isRepetition = cluster.truth.repeats.isRepetition(call)
        guard let node = cluster.randomNode(), cluster.truth.repeats.attempt(call, at: cluster.time) else { return }
        for user in [call.user, call.other].compactMap(\.self) { cluster.truth.concern(user) }
        if isRepetition {
            cluster.stage.counts[.repetitions] += 1
        } else if case .publish(let value) = call.operation {
            cluster.truth.events[call.user].ask(
                ExpectedEvents.Published(
                    value: value, askedAt: cluster.time, seconds: RepeatedCall.eventSeconds, isForOnlineOnly: true, isSynced: true))
        }
        let (operation, caller) = (call.call(cluster.userID), cluster.userID(call.user))
        BackEndChecks.asked(operation, by: call.user, &cluster)
        let token = cluster.calls.add(
            SimulatedCall(user: call.user, client: nil, call: operation, at: cluster.time, attempt: attempt), at: node)
        let now = cluster.nodes[node].now(cluster.time)
        cluster.nodes[node].node.perform(operation, key: call.key, caller: caller, gateway: 0, token: token, at: now)
        cluster.obey(node)
    }

    /// Handles an answer that is neither a refusal nor a limit of calls.
    static func answered(_ answer: CallAnswer, to attempt: RepeatedAttempt, isAlone: Bool, _ cluster: inout SimulatedCluster) {
        let call = attempt.call
        let begunAt = cluster.truth.repeats.stories[call.story]?.begunAt ?? 0
        if !ChainChecks.isTrusted(isAlone: isAlone, cluster) || cluster.isExcused(by: .crippledSince(begunAt)) {
            cluster.truth.repeats.doubt(call.story)
        }
        let problem = cluster.truth.repeats.answered(
            answer, to: call, allowType: allowType(cluster), isRead: !attempt.losesAnswer)
        guard let problem else { return acknowledge(call, &cluster) }
        cluster.violate(
            .repeatedCallsHaveOneAnswer,
            "user-\(call.user) makes the call \(call.position) of story \(call.story), \(call.operation), and is answered \(answer); \(problem)"
        )
    }

    private static func acknowledge(_ call: RepeatedCall, _ cluster: inout SimulatedCluster) {
        guard case .publish = call.operation, let story = cluster.truth.repeats.stories[call.story], !story.isDoubted else { return }
        if let event = story.events[call.position] { cluster.truth.events[call.user].acknowledge(event) }
    }

    private static func allowType(_ cluster: SimulatedCluster) -> ChainPolicy.AllowType {
        cluster.options.settings.policy.chain.defaultAllowType
    }

    // MARK: At rest

    /// Checks that the last call of each story has taken effect last: no repetition of an earlier call has.
    static func finish(_ cluster: inout SimulatedCluster) {
        guard !cluster.truth.repeats.stories.isEmpty else { return }
        cluster.twice { cluster in
            for story in cluster.truth.repeats.sorted where !story.isDoubted {
                guard let call = story.lastCall, let wrong = problem(after: call, of: story, cluster) else { continue }
                cluster.violate(
                    .repeatedCallsHaveOneAnswer, "the last call of story \(call.story) of user-\(call.user) is \(call.operation); \(wrong)")
            }
        }
    }

    private static func problem(after call: RepeatedCall, of story: RepeatOracle.Story, _ cluster: SimulatedCluster) -> String? {
        guard let other = call.other else { return problem(withEventsOf: call.user, story, cluster) }
        let makesFriends = call.makesFriends(allowType(cluster))
        for (user, friend, isFriend) in [(call.user, other, makesFriends.own), (other, call.user, makesFriends.other)]
        where lists(.friend, friend, of: user, cluster) != isFriend {
            return "user-\(user) \(isFriend ? "does not have" : "has") the friend user-\(friend)"
        }
        if lists(.blocked, other, of: call.user, cluster) != call.blocks {
            return "user-\(call.user) \(call.blocks ? "does not block" : "blocks") user-\(other)"
        }
        return nil
    }

    private static func lists(_ kind: Row.Kind, _ other: Int, of user: Int, _ cluster: SimulatedCluster) -> Bool {
        ChainChecks.rows(kind, of: user, cluster).contains { cluster.userIndex($0.key) == other }
    }

    private static func problem(withEventsOf user: Int, _ story: RepeatOracle.Story, _ cluster: SimulatedCluster) -> String? {
        guard let owner = cluster.owner(of: user), let right = story.lastEvent else { return nil }
        let held = cluster.nodes[owner].kept(cluster.userID(user)).record.events.newest
        return held == right ? nil : "its record has the event \(held.map { "\($0)" } ?? "of nobody"), right is \(right)"
    }
}
