import PresenceWire

/// A second process with a member's node ID starts: while the member is alive, while it is cut off, or while nobody answers.
enum SecondProcess {
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        // A member that is cut off is on its own side of a split.
        options.faults = random.isOnce(in: 2) ? [.partitions] : []
        (options.activeMilliseconds, options.stepsCount) = (30_000, 30)
        MachineFaultPlan.setUp(&options, &random)
    }

    static func steps(_ options: HistoryOptions) -> [Step] {
        var (random, steps) = Plan.audience(options, MachineFaultPlan.stepsStream)
        guard let member = options.twinned else { return steps }
        let at = random.number(in: 4_000...6_000)
        let third = (member + random.number(in: 1...options.nodesCount - 1)) % options.nodesCount
        let isAlone = random.isOnce(in: 3)
        let start = Twins.Start(
            contact: random.isOnce(in: 4) ? member : third, hasDisk: random.isOnce(in: 2),
            cut: options.faults.contains(.partitions) ? .member : isAlone ? .newcomer : .none,
            cutMilliseconds: random.number(in: 8_000...14_000), delayMilliseconds: random.number(in: 0...4_000))
        for after in [0, 8_000, 16_000] { steps += MachineFaultPlan.changes(options, from: at + after, &random) }
        steps.add(at, .startTwin(start))
        // A member that is cut off may show what it knew. Its clients ask for it all the time.
        for moment in stride(from: at, to: at + 12_000, by: 250) where start.cut == .member {
            let targets = (0...3).map { _ in options.user(&random) }
            steps.add(moment, .query(user: options.user(&random), targets: targets))
        }
        return steps
    }
}
