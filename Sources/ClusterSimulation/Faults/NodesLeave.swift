import PresenceCore
import PresenceWire

/// The nodes leave one after the other, until one is left.
enum NodesLeave {
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        (options.nodesCount, options.faults) = (random.number(in: 2...3), [.drains, .kills])
        options.activeMilliseconds = 24_000
    }

    /// Nodes leave for good, and the last one restarts alone, without former members to wait for.
    static func steps(_ options: HistoryOptions) -> [Step] {
        var random = SplitMix64(seed: options.seed).split(13)
        var steps = Plan.audience(options, &random)
        let last = random.number(in: 0...options.nodesCount - 1)
        var at = 2_000
        for node in 0..<options.nodesCount where node != last {
            steps.append(Step(at: at, action: .drain(node: node, downMilliseconds: 60_000)))
            at += random.number(in: 4_000...6_500)
        }
        if random.isOnce(in: 2) { steps.append(Step(at: at, action: .kill(node: last, downMilliseconds: random.number(in: 10...1_000)))) }
        for _ in 0..<20 {
            let action = Plan.setStatus(of: random.number(in: 0...options.usersCount - 1), &random)
            steps.append(Step(at: random.number(in: at...options.activeMilliseconds), action: action))
        }
        return steps
    }
}
