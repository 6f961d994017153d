import PresenceCore
import PresenceWire

/// Two nodes are cut off from two others, and all four accept changes.
enum SplitInHalves {
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        (options.nodesCount, options.faults) = (4, [.partitions])
        options.settings.subscriptionsMax = random.number(in: 2...4)
        options.activeMilliseconds = 16_000
    }

    /// Each half of a cluster accepts calls that the other half does not receive. Together a user's lists exceed the quota.
    ///
    /// Both devices of a user are online. One receives a change in an answer, the other by its stream.
    static func steps(_ options: HistoryOptions) -> [Step] {
        var random = SplitMix64(seed: options.seed).split(18)
        var steps = Plan.audience(options, &random)
        let (at, duration) = (random.number(in: 2_000...3_000), random.number(in: 7_000...9_000))
        for (from, to) in [(0, 2), (0, 3), (1, 2), (1, 3)] {
            steps.append(Step(at: at, action: .blind(from: from, to: to, duration: duration)))
            steps.append(Step(at: at, action: .blind(from: to, to: from, duration: duration)))
        }
        for user in 0..<options.stagedUsersCount {
            let second = user * SimulatedClient.devicesPerUser + 1
            steps.append(Step(at: random.number(in: 900...1_500), action: .login(client: second, node: 0, resumes: false)))
            let some = { (random: inout SplitMix64) in (0...1).map { _ in random.number(in: 0...options.usersCount - 1) } }
            for _ in 0...3 {
                let subscribe = Step.Action.subscribe(user: user, targets: some(&random), seconds: nil, sync: random.isOnce(in: 2))
                steps.append(Step(at: random.number(in: at + 3_500...at + duration), action: subscribe))
            }
            let alone = Step.Action.subscribe(user: user, targets: some(&random), seconds: nil, sync: true)
            let isBefore = random.isOnce(in: 2)
            steps.append(Step(at: isBefore ? random.number(in: 1_600...at) : options.activeMilliseconds - 500, action: alone))
            steps.append(Step(at: random.number(in: at...at + duration), action: Plan.setStatus(of: user, &random)))
        }
        return steps
    }
}
