import PresenceWire

/// Nodes leave for good, and the last one restarts alone, without former members to wait for.
enum NodesLeave {
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        (options.nodesCount, options.faults) = (random.number(in: 2...3), [.drains, .kills])
        options.activeMilliseconds = 24_000
    }

    static func steps(_ options: HistoryOptions) -> [Step] {
        var (random, steps) = Plan.audience(options, 13)
        let last = options.node(&random)
        var at = 2_000
        for node in 0..<options.nodesCount where node != last {
            steps.add(at, .drain(node: node, downMilliseconds: 60_000))
            at += random.number(in: 4_000...6_500)
        }
        if random.isOnce(in: 2) { steps.add(at, .kill(node: last, downMilliseconds: random.number(in: 10...1_000))) }
        for _ in 0..<20 {
            steps.add(Plan.setStatus(of: options.user(&random), &random), at: random.number(in: at...options.activeMilliseconds))
        }
        return steps
    }
}
