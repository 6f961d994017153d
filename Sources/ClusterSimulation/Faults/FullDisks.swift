import PresenceCore
import PresenceWire

/// One disk is full, or two are, while users hide, are kicked and change the policy.
enum FullDisks {
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        (options.activeMilliseconds, options.stepsCount, options.faults) = (20_000, random.number(in: 20...80), [])
        MachineFaultPlan.setUp(&options, &random)
    }

    /// A disk is full for some seconds, or two are at once.
    static func steps(_ options: HistoryOptions) -> [Step] {
        var random = MachineFaultPlan.random(options)
        let audience = Plan.audience(options, &random)
        let at = random.number(in: 3_000...4_000)
        let isPair = random.isOnce(in: 4)
        let first = random.number(in: 0...options.nodesCount - 1)
        let duration = random.number(in: 4_000...10_000)
        var steps = [Step(at: at, action: .fillDisk(node: first, milliseconds: duration))]
        if isPair { steps.append(Step(at: at, action: .fillDisk(node: (first + 1) % options.nodesCount, milliseconds: duration))) }
        let policy = "{\"preset\":\"rollcall\",\"settings\":{\(Publications.keptSettings(options))}}"
        for _ in 0..<4 {
            steps.append(Step(at: random.number(in: at...at + duration), action: .setPolicy(policy)))
            steps.append(
                Step(at: random.number(in: at...at + duration), action: .kick(user: random.number(in: 0...options.usersCount - 1))))
        }
        return audience + steps + MachineFaultPlan.changes(options, from: at, &random)
    }
}
