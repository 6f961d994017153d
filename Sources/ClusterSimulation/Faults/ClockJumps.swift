import PresenceCore
import PresenceWire

/// A clock jumps on one node or two, and comes back.
enum ClockJumps {
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        (options.activeMilliseconds, options.stepsCount, options.faults) = (20_000, random.number(in: 20...80), [])
        MachineFaultPlan.setUp(&options, &random)
    }

    /// A clock jumps for three seconds. In some histories its process is killed meanwhile.
    static func steps(_ options: HistoryOptions) -> [Step] {
        var random = MachineFaultPlan.random(options)
        let audience = Plan.audience(options, &random)
        let (nodes, at) = (MachineFaultPlan.faultyNodes(options, &random), random.number(in: 4_000...5_000))
        var steps = [Step(at: at, action: .jumpClocks(nodes: nodes, milliseconds: MachineFaultPlan.jump(&random), duration: 3_000))]
        if random.isOnce(in: 4) {
            let kill = Step.Action.kill(node: nodes[0], downMilliseconds: random.number(in: 10...2_000))
            steps.append(Step(at: at + random.number(in: 0...4_000), action: kill))
        }
        return audience + steps + MachineFaultPlan.changes(options, from: at, &random)
    }
}
