import PresenceCore
import PresenceWire

/// Clocks are wrong for many seconds: of one node, of two, or of all alike.
enum WrongClocks {
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        // A common jump is followed, so the nodes have another time than the clients.
        options.faults = random.isOnce(in: 3) ? [.clocks] : []
        (options.activeMilliseconds, options.stepsCount) = (45_000, 30)
        MachineFaultPlan.setUp(&options, &random)
    }

    /// The clocks of one node or two are wrong for many seconds, or all clocks jump alike and stay so.
    static func steps(_ options: HistoryOptions) -> [Step] {
        var random = MachineFaultPlan.random(options)
        let audience = Plan.audience(options, &random)
        let at = random.number(in: 3_000...5_000)
        let changes = [0, 10_000, 33_000].flatMap { MachineFaultPlan.changes(options, from: at + $0, &random) }
        if options.faults.contains(.clocks) {
            let ahead = random.isOnce(in: 2) ? 300_000 : random.number(in: 3_000...50_000)
            let all = Step.Action.jumpClocks(
                nodes: Array(0..<options.nodesCount), milliseconds: ahead, duration: options.activeMilliseconds)
            return audience + changes + [Step(at: at, action: all)]
        }
        let first = random.number(in: 0...options.nodesCount - 1)
        let second = (first + random.number(in: 1...options.nodesCount - 1)) % options.nodesCount
        let same = MachineFaultPlan.jump(&random)
        let isSame = random.isOnce(in: 2)
        // Two nodes of three must not follow one another, even after 30 s (`ClockCheck.commonJumpMin`). Of two nodes, all have jumped.
        let longest = options.nodesCount > 2 ? 40_000 : 25_000
        let steps = (random.isOnce(in: 2) ? [first, second] : [first]).map { node in
            let jump = Step.Action.jumpClocks(
                nodes: [node], milliseconds: isSame ? same : MachineFaultPlan.jump(&random), duration: random.number(in: 5_000...longest))
            return Step(at: at + random.number(in: 0...1_000), action: jump)
        }
        guard random.isOnce(in: 4) else { return audience + changes + steps }
        let kill = Step.Action.kill(node: first, downMilliseconds: random.number(in: 10...2_000))
        return audience + changes + steps + [Step(at: at + random.number(in: 0...20_000), action: kill)]
    }
}
