import PresenceWire

/// A disk is full for some seconds, or two are at once.
enum FullDisks {
    static func steps(_ options: HistoryOptions) -> [Step] {
        var (random, steps) = Plan.audience(options, MachineFaultPlan.stepsStream)
        let at = random.number(in: 3_000...4_000)
        let isPair = random.isOnce(in: 4)
        let first = options.node(&random)
        let duration = random.number(in: 4_000...10_000)
        steps.add(at, .fillDisk(node: first, milliseconds: duration))
        if isPair { steps.add(at, .fillDisk(node: (first + 1) % options.nodesCount, milliseconds: duration)) }
        let policy = "{\"preset\":\"rollcall\",\"settings\":{\(Publications.keptSettings(options))}}"
        for _ in 0..<4 {
            steps.add(random.number(in: at...at + duration), .setPolicy(policy))
            steps.add(random.number(in: at...at + duration), .kick(user: options.user(&random)))
        }
        return steps + MachineFaultPlan.changes(options, from: at, &random)
    }
}
