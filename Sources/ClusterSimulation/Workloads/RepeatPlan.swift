import PresenceCore
import PresenceWire

/// The steps of histories in which clients or an app's back end repeat calls by their keys, because an answer was lost or an owner has
/// ended.
///
/// All decisions and events of such a history have keys. So nothing but a repetition could change the facts of a story in between.
enum RepeatPlan {
    private static let faults: [Set<HistoryOptions.Fault>] = [
        [], [.kills], [.kills], [.kills], [.drains], [.drains], [.resets], [.resets, .delays], [.kills, .resets],
    ]

    static func setUp(_ options: inout HistoryOptions, _: inout SplitMix64) {
        var random = SplitMix64(seed: options.seed).split(396)
        options.nodesCount = random.number(in: 3...4)
        options.usersCount = 2 * random.number(in: 2...3)
        options.faults = faults[random.number(in: 0...faults.count - 1)]
        options.stepsCount = 0
        options.activeMilliseconds = random.number(in: 14_000...24_000)
        options.settings.policy.chain.rate = nil
        options.settings.policy.chain.defaultAllowType = random.isOnce(in: 3) ? .confirm : .any
        // The checks of views know nothing of these friends and blocks.
        options.settings.policy.chain.blockHidesStatus = false
        options.settings.policy.chain.autoNotifiesFriends = false
        options.settings.policy.subscriptionsMax = 3_000
    }

    static func steps(_ options: HistoryOptions) -> [Step] {
        var random = SplitMix64(seed: options.seed).split(397)
        var steps: [Step] = []
        for user in 0..<options.usersCount {
            let login = Step.Action.login(client: user * SimulatedClient.devicesPerUser, node: 0, resumes: false)
            let others = (0..<options.usersCount).filter { $0 != user }
            steps.add(random.number(in: 0...300), login)
            steps.add(random.number(in: 400...800), .subscribe(user: user, targets: others, seconds: nil, sync: false))
        }
        let pairsCount = options.usersCount / 2
        for story in 0..<pairsCount { steps += attempts(of: decisions(story, options), options, &random) }
        for user in 0..<2 { steps += attempts(of: events(story: pairsCount + user, user), options, &random) }
        return steps
    }

    /// The decisions of a user about another one. No other story is about these two.
    private static func decisions(_ story: Int, _ options: HistoryOptions) -> [RepeatedCall] {
        let (user, other) = (2 * story, 2 * story + 1)
        var calls: [(Int, RepeatedCall.Operation)] = [(user, .add(other))]
        if options.settings.policy.chain.defaultAllowType == .confirm { calls = [(other, .add(user)), (user, .accept(other))] }
        if options.kind == .backEndsRepeatCalls {
            calls += [(user, .deleteAll(other)), (user, .bring(other)), (user, .deleteAll(other)), (user, .force(other))]
        } else {
            calls += [(user, .delete(other)), (user, .block(other)), (user, .unblock(other)), (user, .add(other))]
        }
        return calls.enumerated().map { RepeatedCall(story: story, position: $0, user: $1.0, operation: $1.1) }
    }

    private static func events(story: Int, _ user: Int) -> [RepeatedCall] {
        (0..<4).map { position in
            let value = PresenceWire.Limits.eventValueMin + Int64(10 * story + position)
            return RepeatedCall(story: story, position: position, user: user, operation: .publish(value))
        }
    }

    /// The attempts of the calls of a story. Each call has some in short intervals, and one that certainly reads its answer.
    private static func attempts(of calls: [RepeatedCall], _ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        var steps: [Step] = []
        func attempt(_ call: RepeatedCall, at: Int, losesAnswer: Bool) {
            steps.add(at, .repeated(.attempt(RepeatedAttempt(call: call, losesAnswer: losesAnswer))))
        }
        var at = random.number(in: 900...3_000)
        for call in calls {
            attempt(call, at: at, losesAnswer: random.isOnce(in: 2))
            let faultAt = at + [0, 1, 4, 20, 100, 400][random.number(in: 0...5)]
            if random.isOnce(in: 2) { steps += fault(at: faultAt, call.user, options, &random) }
            for wait in [random.number(in: 1...60), random.number(in: 150...900), random.number(in: 1_000...2_500)] {
                if random.isOnce(in: 2) { attempt(call, at: at + wait, losesAnswer: random.isOnce(in: 2)) }
            }
            at += random.number(in: 2_600...4_000)
            attempt(call, at: at, losesAnswer: false)
            if call.position > 0, random.isOnce(in: 2) {
                let earlier = calls[random.number(in: 0...call.position - 1)]
                attempt(earlier, at: at + random.number(in: 0...1_500), losesAnswer: random.isOnce(in: 2))
            }
            at += random.number(in: 200...1_500)
        }
        return steps
    }

    private static func fault(at: Int, _ user: Int, _ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        let kinds = HistoryOptions.Fault.allCases.filter { options.faults.contains($0) }
        guard !kinds.isEmpty else { return [] }
        let (node, other) = (options.node(&random), options.node(&random))
        let downMilliseconds = random.number(in: 10...3_000)
        let action: Step.Action =
            switch kinds[random.number(in: 0...kinds.count - 1)] {
            case .kills: .repeated(.endOwner(user: user, isDrain: false, downMilliseconds: downMilliseconds))
            case .drains: .repeated(.endOwner(user: user, isDrain: true, downMilliseconds: downMilliseconds))
            case .delays: .delay(from: node, to: other, milliseconds: random.number(in: 50...800), duration: 2_000)
            default: .reset(from: node, to: other)
            }
        return [Step(at: at, action: action)]
    }
}
