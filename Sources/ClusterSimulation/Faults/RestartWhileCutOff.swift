import PresenceWire

/// A node is cut off until the others have its slots. Meanwhile another process starts there, alone, which the others never declare
/// dead.
///
/// It receives calls as soon as the others are reachable: it uses the common ring before them, or after. In some histories their
/// changes arrive slowly.
enum RestartWhileCutOff {
    static func setUp(_ options: inout HistoryOptions, _: inout SplitMix64) {
        (options.nodesCount, options.usersCount, options.faults) = (3, 14, [.partitions, .kills, .delays])
        (options.activeMilliseconds, options.stepsCount) = (37_000, 20)
    }

    static func steps(_ options: HistoryOptions) -> [Step] {
        var (random, steps) = Plan.audience(options, 43)
        for round in stride(from: 1_500, to: options.activeMilliseconds - 11_000, by: 12_000) {
            steps += rejoining(options, after: round + random.number(in: 0...500), &random)
        }
        return steps
    }

    private static func rejoining(_ options: HistoryOptions, after at: Int, _ random: inout SplitMix64) -> [Step] {
        let apart = options.node(&random)
        let end = at + random.number(in: 8_000...8_500)
        let down = random.number(in: 10...300)
        var steps = [
            Step(at: at, action: .isolate(node: apart, duration: end - at)),
            Step(at: at + random.number(in: 50...300), action: .kill(node: apart, downMilliseconds: down)),
        ]
        if random.isOnce(in: 2) {
            // The links break in turns, so that some reconnect at once and their messages are late.
            for begin in stride(from: end, to: end + 2_000, by: 50) {
                for node in 0..<options.nodesCount where node != apart {
                    steps.add(begin, .delay(from: node, to: apart, milliseconds: 250, duration: 25))
                }
            }
        }
        for user in 0..<options.stagedUsersCount {
            steps.add(random.number(in: end - 2_000...end), Plan.setStatus(of: user, &random))
        }
        for delay in 0..<800 {
            let targets = (0...2).map { _ in options.user(&random) }
            steps.add(end + delay * 5 / 2, .query(user: options.user(&random), targets: targets))
        }
        return steps
    }
}
