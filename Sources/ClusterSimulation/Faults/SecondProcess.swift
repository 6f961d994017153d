import PresenceCore
import PresenceWire

/// A second process with a member's node ID starts. In some histories the member is cut off meanwhile.
enum SecondProcess {
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        // A member that is cut off is on its own side of a split.
        options.faults = random.isOnce(in: 2) ? [.partitions] : []
        (options.activeMilliseconds, options.stepsCount) = (30_000, 30)
        MachineFaultPlan.setUp(&options, &random)
    }

    /// A second process with a member's node ID starts: while the member is alive, while it is cut off, or while nobody answers.
    static func steps(_ options: HistoryOptions) -> [Step] {
        var random = MachineFaultPlan.random(options)
        let audience = Plan.audience(options, &random)
        guard let member = options.twinned else { return audience }
        let at = random.number(in: 4_000...6_000)
        let third = (member + random.number(in: 1...options.nodesCount - 1)) % options.nodesCount
        let isAlone = random.isOnce(in: 3)
        let start = Twins.Start(
            contact: random.isOnce(in: 4) ? member : third, hasDisk: random.isOnce(in: 2),
            cut: options.faults.contains(.partitions) ? .member : isAlone ? .newcomer : .none,
            cutMilliseconds: random.number(in: 8_000...14_000), delayMilliseconds: random.number(in: 0...4_000))
        var steps = audience + [0, 8_000, 16_000].flatMap { MachineFaultPlan.changes(options, from: at + $0, &random) }
        steps.append(Step(at: at, action: .startTwin(start)))
        // A member that is cut off may show what it knew. Its clients ask for it all the time.
        for moment in stride(from: at, to: at + 12_000, by: 250) where start.cut == .member {
            let targets = (0...3).map { _ in random.number(in: 0...options.usersCount - 1) }
            steps.append(Step(at: moment, action: .query(user: random.number(in: 0...options.usersCount - 1), targets: targets)))
        }
        return steps
    }
}
