import PresenceWire

/// A process ends while its clients' calls wait for slow disks. The next one starts at once and receives other calls.
///
/// The one after it follows soon, and sends as many requests as that one did.
enum RestartsWithSlowDisks {
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        (options.nodesCount, options.faults) = (random.number(in: 3...4), [.kills, .disks])
    }

    static func steps(_ options: HistoryOptions) -> [Step] {
        var (random, steps) = Plan.audience(options, 20)
        for at in stride(from: 1_500, to: options.activeMilliseconds - 2_500, by: 4_000) {
            for node in 0..<options.nodesCount { steps.add(at, .slowDisk(node: node, milliseconds: 2_000)) }
            let node = options.node(&random)
            let first = at + random.number(in: 100...300)
            for ended in [first, first + random.number(in: 300...600)] {
                steps.add(ended, .kill(node: node, downMilliseconds: random.number(in: 10...60)))
                for user in 0..<options.stagedUsersCount {
                    steps.add(ended - random.number(in: 1...90), Plan.setStatus(of: user, &random))
                    for _ in 0...2 {
                        let targets = (0...1).map { _ in options.user(&random) }
                        let other = Step.Action.subscribe(user: user, targets: targets, seconds: nil, sync: false)
                        let action = random.isOnce(in: 2) ? other : Plan.setStatus(of: user, &random)
                        steps.add(ended + random.number(in: 20...900), action)
                    }
                }
            }
        }
        return steps
    }
}
