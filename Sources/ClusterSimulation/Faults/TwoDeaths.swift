import PresenceWire

/// Two nodes die while many changes wait for their slow disks, so that other nodes become replicas. Both come back at once.
enum TwoDeaths {
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        (options.nodesCount, options.usersCount) = (random.number(in: 4...5), 14)
        options.faults = [.kills, .disks, .delays]
        options.activeMilliseconds = max(options.activeMilliseconds, 16_000)
    }

    static func steps(_ options: HistoryOptions) -> [Step] {
        var (random, steps) = Plan.audience(options, 11)
        for round in 0..<2 {
            let at = 1_500 + round * 7_000 + random.number(in: 0...500)
            let died = at + random.number(in: 300...800)
            let first = options.node(&random)
            let second = (first + random.number(in: 1...options.nodesCount - 1)) % options.nodesCount
            for node in [first, second] { steps.add(at, .slowDisk(node: node, milliseconds: 2_500)) }
            // The remaining nodes receive each other's messages late.
            let left = (0..<options.nodesCount).filter { $0 != first && $0 != second }
            for from in left {
                for to in left where to != from {
                    let delay = Step.Action.delay(from: from, to: to, milliseconds: random.number(in: 300...800), duration: 1_500)
                    steps.add(died - random.number(in: 0...60), delay)
                }
            }
            for user in 0..<options.stagedUsersCount {
                let mode: Visibility.Mode = round == 0 ? .nobody : .list
                let hide = Step.Action.setVisibility(user: user, mode: mode, listed: [], isInvisible: false)
                steps.add(died - random.number(in: 1...150), hide)
                steps.add(at + random.number(in: 1...400), Plan.setStatus(of: user, &random))
                steps.add(at + random.number(in: 3_000...6_000), Plan.setStatus(of: user, &random))
            }
            let down = random.number(in: 1_500...5_500)
            steps.add(died, .kill(node: first, downMilliseconds: down))
            steps.add(died + random.number(in: 0...20), .kill(node: second, downMilliseconds: down))
        }
        return steps
    }
}
