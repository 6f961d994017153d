import PresenceCore
import PresenceWire

/// One node is cut off or paused until it is declared dead, and receives calls when it is back.
enum ReturnFromSplit {
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        (options.nodesCount, options.faults) = (3, [random.isOnce(in: 2) ? .partitions : .pauses, .delays])
        options.activeMilliseconds = max(options.activeMilliseconds, 16_000)
    }

    /// A node is cut off, or paused, until the others have its slots. The changes made meanwhile are repeated when it is back, and reach it
    /// slowly.
    static func steps(_ options: HistoryOptions) -> [Step] {
        var random = SplitMix64(seed: options.seed).split(12)
        var steps = Plan.audience(options, &random)
        let (at, duration) = (random.number(in: 1_500...3_000), random.number(in: 7_000...9_000))
        let apart = random.number(in: 0...options.nodesCount - 1)
        let isCutOff = options.faults.contains(.partitions)
        steps.append(
            Step(at: at, action: isCutOff ? .isolate(node: apart, duration: duration) : .pause(node: apart, milliseconds: duration)))
        let end = at + duration
        for user in 0..<options.stagedUsersCount {
            for _ in 0...1 { steps.append(Step(at: random.number(in: at + 5_000...end), action: Plan.setStatus(of: user, &random))) }
        }
        for node in 0..<options.nodesCount where node != apart {
            for (from, to) in [(apart, node), (node, apart)] {
                let milliseconds = isCutOff ? random.number(in: 5...60) : random.number(in: 50...400)
                let action = Step.Action.delay(from: from, to: to, milliseconds: milliseconds, duration: 3_500)
                steps.append(Step(at: end - 5, action: action))
            }
        }
        for delay in 0..<600 {
            let targets = (0...2).map { _ in random.number(in: 0...options.usersCount - 1) }
            let action = Step.Action.query(user: random.number(in: 0...options.usersCount - 1), targets: targets)
            steps.append(Step(at: end + delay * 5, action: action))
        }
        return steps
    }
}
