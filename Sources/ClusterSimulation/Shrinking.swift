/// Finds a smaller plan that breaks the same guarantee, so that a person has less to read.
public enum Shrinking {
    /// The reduced plan.
    public struct Result {
        public let plan: Plan
        public let violation: Violation
        public let log: [String]
    }

    /// The smallest plan found that breaks `guarantee`, with its violation and its log.
    public static func shortest(_ options: HistoryOptions, guarantee: Violation.Guarantee) -> Result {
        let rings = RingCache()
        let plan = smallest(Plan(options)) { run(options, $0, isLogging: false, rings).violation?.guarantee == guarantee }
        let last = run(options, plan, isLogging: true, rings)
        guard let violation = last.violation else { preconditionFailure("\(options) breaks nothing") }
        return Result(plan: plan, violation: violation, log: last.log)
    }

    /// Leaves out steps, first many at once and then one by one, as long as `isBroken` holds (Zeller, "Simplifying and Isolating
    /// Failure-Inducing Input", 2002).
    ///
    /// It calls `isBroken` at most a few hundred times.
    static func smallest(_ plan: Plan, isBroken: (Plan) -> Bool) -> Plan {
        var plan = plan
        var size = max(plan.steps.count / 2, 1)
        var runsLeft = 400
        while size >= 1, runsLeft > 0 {
            var start = 0
            while start < plan.steps.count, runsLeft > 0 {
                var smaller = plan
                smaller.steps.removeSubrange(start..<min(start + size, plan.steps.count))
                runsLeft -= 1
                if isBroken(smaller) { plan = smaller } else { start += size }
            }
            size /= 2
        }
        return plan
    }

    private static func run(_ options: HistoryOptions, _ plan: Plan, isLogging: Bool, _ rings: RingCache) -> SimulatedCluster {
        var cluster = SimulatedCluster(options, plan: plan, isLogging: isLogging, rings: rings)
        cluster.run()
        return cluster
    }
}
