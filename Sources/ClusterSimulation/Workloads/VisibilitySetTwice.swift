import PresenceWire

/// Users set their visibility, and a moment later, from another node, the opposite or the earlier one.
///
/// All messages of one node are slow, so the earlier call may be carried out last.
enum VisibilitySetTwice {
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        (options.nodesCount, options.faults) = (random.number(in: 3...5), [.delays])
    }

    static func steps(_ options: HistoryOptions) -> [Step] {
        var (random, steps) = Plan.audience(options, 17)
        var modes = Array(repeating: Visibility.Mode.everyone, count: options.usersCount)
        for at in stride(from: 1_500, to: options.activeMilliseconds - 1_500, by: 2_500) {
            let slow = options.node(&random)
            for node in 0..<options.nodesCount where node != slow {
                steps.add(at, .delay(from: slow, to: node, milliseconds: random.number(in: 500...800), duration: 120))
            }
            for user in 0..<options.stagedUsersCount {
                let first = Visibility.Mode.allCases[random.number(in: 0...Visibility.Mode.allCases.count - 1)]
                let second = random.isOnce(in: 2) ? modes[user] : random.isOnce(in: 2) ? .nobody : .everyone
                for (mode, delay) in [(first, random.number(in: 1...60)), (second, random.number(in: 200...400))] {
                    steps.add(at + delay, .setVisibility(user: user, mode: mode, listed: [], isInvisible: false))
                }
                modes[user] = second
                // A viewer who may not see the user would notice a change.
                for _ in 0...1 { steps.add(at + random.number(in: 400...2_300), Plan.setStatus(of: user, &random)) }
            }
        }
        return steps
    }
}
