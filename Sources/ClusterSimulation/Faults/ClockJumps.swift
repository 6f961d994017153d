import PresenceWire

/// A clock jumps for three seconds. In some histories its process is killed meanwhile.
enum ClockJumps {
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        (options.activeMilliseconds, options.stepsCount, options.faults) = (20_000, random.number(in: 20...80), [])
        MachineFaultPlan.setUp(&options, &random)
    }

    static func steps(_ options: HistoryOptions) -> [Step] {
        var (random, steps) = Plan.audience(options, MachineFaultPlan.stepsStream)
        let (nodes, at) = (MachineFaultPlan.faultyNodes(options, &random), random.number(in: 4_000...5_000))
        steps.add(at, .jumpClocks(nodes: nodes, milliseconds: MachineFaultPlan.jump(&random), duration: 3_000))
        if random.isOnce(in: 4) {
            steps.add(.kill(node: nodes[0], downMilliseconds: random.number(in: 10...2_000)), at: at + random.number(in: 0...4_000))
        }
        return steps + MachineFaultPlan.changes(options, from: at, &random)
    }
}
