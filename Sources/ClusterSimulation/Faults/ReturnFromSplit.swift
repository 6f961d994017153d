import PresenceWire

/// A node is cut off, or paused, until the others have its slots. The changes made meanwhile are repeated when it is back, and reach it
/// slowly.
enum ReturnFromSplit {
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        (options.nodesCount, options.faults) = (3, [random.isOnce(in: 2) ? .partitions : .pauses, .delays])
        options.activeMilliseconds = max(options.activeMilliseconds, 16_000)
    }

    static func steps(_ options: HistoryOptions) -> [Step] {
        var (random, steps) = Plan.audience(options, 12)
        let (at, duration) = (random.number(in: 1_500...3_000), random.number(in: 7_000...9_000))
        let apart = options.node(&random)
        let isCutOff = options.faults.contains(.partitions)
        steps.add(at, isCutOff ? .isolate(node: apart, duration: duration) : .pause(node: apart, milliseconds: duration))
        let end = at + duration
        for user in 0..<options.stagedUsersCount {
            for _ in 0...1 { steps.add(random.number(in: at + 5_000...end), Plan.setStatus(of: user, &random)) }
        }
        for node in 0..<options.nodesCount where node != apart {
            for (from, to) in [(apart, node), (node, apart)] {
                let milliseconds = isCutOff ? random.number(in: 5...60) : random.number(in: 50...400)
                steps.add(end - 5, .delay(from: from, to: to, milliseconds: milliseconds, duration: 3_500))
            }
        }
        for delay in 0..<600 {
            let targets = (0...2).map { _ in options.user(&random) }
            steps.add(end + delay * 5, .query(user: options.user(&random), targets: targets))
        }
        return steps
    }
}
