import PresenceWire

/// The clocks of one node or two are wrong for many seconds, or all clocks jump alike and stay so.
enum WrongClocks {
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        // A common jump is followed, so the nodes have another time than the clients.
        options.faults = random.isOnce(in: 3) ? [.clocks] : []
        (options.activeMilliseconds, options.stepsCount) = (45_000, 30)
        MachineFaultPlan.setUp(&options, &random)
    }

    static func steps(_ options: HistoryOptions) -> [Step] {
        var (random, steps) = Plan.audience(options, MachineFaultPlan.stepsStream)
        let at = random.number(in: 3_000...5_000)
        for after in [0, 10_000, 33_000] { steps += MachineFaultPlan.changes(options, from: at + after, &random) }
        if options.faults.contains(.clocks) {
            let ahead = random.isOnce(in: 2) ? 300_000 : random.number(in: 3_000...50_000)
            let all = Array(0..<options.nodesCount)
            steps.add(at, .jumpClocks(nodes: all, milliseconds: ahead, duration: options.activeMilliseconds))
            return steps
        }
        let first = options.node(&random)
        let second = (first + random.number(in: 1...options.nodesCount - 1)) % options.nodesCount
        let same = MachineFaultPlan.jump(&random)
        let isSame = random.isOnce(in: 2)
        // Two nodes of three must not follow one another, even after 30 s (`ClockCheck.commonJumpMin`). Of two nodes, all have jumped.
        let longest = options.nodesCount > 2 ? 40_000 : 25_000
        for node in random.isOnce(in: 2) ? [first, second] : [first] {
            let milliseconds = isSame ? same : MachineFaultPlan.jump(&random)
            let duration = random.number(in: 5_000...longest)
            steps.add(at + random.number(in: 0...1_000), .jumpClocks(nodes: [node], milliseconds: milliseconds, duration: duration))
        }
        guard random.isOnce(in: 4) else { return steps }
        steps.add(.kill(node: first, downMilliseconds: random.number(in: 10...2_000)), at: at + random.number(in: 0...20_000))
        return steps
    }
}
