import PresenceWire

/// Each half of a cluster accepts calls that the other half does not receive. Together a user's lists exceed the quota.
///
/// Both devices of a user are online. One receives a change in an answer, the other by its stream.
enum SplitInHalves {
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        (options.nodesCount, options.faults) = (4, [.partitions])
        options.settings.policy.subscriptionsMax = Int64(random.number(in: 2...4))
        options.activeMilliseconds = 16_000
    }

    static func steps(_ options: HistoryOptions) -> [Step] {
        var (random, steps) = Plan.audience(options, 18)
        let (at, duration) = (random.number(in: 2_000...3_000), random.number(in: 7_000...9_000))
        for (from, to) in [(0, 2), (0, 3), (1, 2), (1, 3)] {
            steps.add(at, .blind(from: from, to: to, duration: duration))
            steps.add(at, .blind(from: to, to: from, duration: duration))
        }
        for user in 0..<options.stagedUsersCount {
            let second = user * SimulatedClient.devicesPerUser + 1
            steps.add(random.number(in: 900...1_500), .login(client: second, node: 0, resumes: false))
            let some = { (random: inout SplitMix64) in (0...1).map { _ in options.user(&random) } }
            for _ in 0...3 {
                let subscribe = Step.Action.subscribe(user: user, targets: some(&random), seconds: nil, sync: random.isOnce(in: 2))
                steps.add(random.number(in: at + 3_500...at + duration), subscribe)
            }
            let alone = Step.Action.subscribe(user: user, targets: some(&random), seconds: nil, sync: true)
            let isBefore = random.isOnce(in: 2)
            steps.add(isBefore ? random.number(in: 1_600...at) : options.activeMilliseconds - 500, alone)
            steps.add(random.number(in: at...at + duration), Plan.setStatus(of: user, &random))
        }
        return steps
    }
}
