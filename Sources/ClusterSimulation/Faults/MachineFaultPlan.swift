import PresenceCore
import PresenceWire

/// The steps of histories in which one machine has a fault, or two have the same one.
enum MachineFaultPlan {
    /// The stream that draws these histories and their options.
    static let stream: UInt64 = 350

    /// The stream that draws their steps.
    static let stepsStream: UInt64 = 351

    /// Sets up a history in which one machine has a fault, or two have, and nothing else fails. The checks are as strict as without it.
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        (options.nodesCount, options.usersCount) = (random.number(in: 3...5), random.number(in: 6...12))
        options.settings.linkMessagesMax = CoreSettings().linkMessagesMax
    }

    /// One node, or in some histories two of four or more.
    static func faultyNodes(_ options: HistoryOptions, _ random: inout SplitMix64) -> [Int] {
        let first = options.node(&random)
        let isPair = options.nodesCount > 3 && random.isOnce(in: 3)
        return isPair ? [first, (first + random.number(in: 1...options.nodesCount - 1)) % options.nodesCount] : [first]
    }

    static func jump(_ random: inout SplitMix64) -> Int {
        let jumps = [300_000, 3_600_000, -300_000, -3_600_000, random.number(in: 70_000...400_000)]
        return jumps[random.number(in: 0...jumps.count - 1)]
    }

    /// Each user sets a status and hides during a fault and after it.
    static func changes(_ options: HistoryOptions, from at: Int, _ random: inout SplitMix64) -> [Step] {
        (0..<options.stagedUsersCount).flatMap { user in
            let mode: Visibility.Mode = random.isOnce(in: 2) ? .nobody : .everyone
            let hide = Step.Action.setVisibility(user: user, mode: mode, listed: [], isInvisible: false)
            return [
                Step(at: at + random.number(in: 0...8_000), action: Plan.setStatus(of: user, &random)),
                Step(at: at + random.number(in: 0...8_000), action: hide),
            ]
        }
    }

    /// Large jumps and two full disks among the random faults of a history.
    static func steps(_ options: HistoryOptions) -> [Step] {
        var random = SplitMix64(seed: options.seed).split(stepsStream)
        guard options.nodesCount > 2, random.isOnce(in: 2) else { return [] }
        var steps: [Step] = []
        let at = random.number(in: 1_000...options.activeMilliseconds)
        if options.faults.contains(.clocks) {
            let nodes = faultyNodes(options, &random)
            let duration = random.number(in: 500...5_000)
            steps.add(at, .jumpClocks(nodes: nodes, milliseconds: jump(&random), duration: duration))
        }
        if options.faults.contains(.disks) {
            let first = options.node(&random)
            let duration = random.number(in: 500...5_000)
            for node in [first, (first + 1) % options.nodesCount] {
                steps.add(at, .fillDisk(node: node, milliseconds: duration))
            }
        }
        return steps
    }
}
