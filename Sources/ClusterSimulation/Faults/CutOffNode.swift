import PresenceWire

/// A node is cut off or stopped while users hide. Its clients ask for them all the time.
enum CutOffNode {
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        var pauses = SplitMix64(seed: options.seed).split(391)
        (options.activeMilliseconds, options.stepsCount) = (42_000, 0)
        options.faults = [pauses.isOnce(in: 3) ? .pauses : .partitions]
        MachineFaultPlan.setUp(&options, &random)
    }

    static func steps(_ options: HistoryOptions) -> [Step] {
        var (random, steps) = Plan.audience(options, MachineFaultPlan.stepsStream)
        let (at, duration) = (random.number(in: 3_000...4_000), random.number(in: 26_000...34_000))
        let faulty = MachineFaultPlan.faultyNodes(options, &random)
        for node in faulty {
            steps.add(at, options.hasStoppedNode ? .pause(node: node, milliseconds: duration) : .isolate(node: node, duration: duration))
        }
        for user in 0..<options.stagedUsersCount {
            let hide = Step.Action.setVisibility(user: user, mode: .nobody, listed: [], isInvisible: false)
            steps.add(at + random.number(in: 0...10_000), hide)
        }
        // Most users are on nodes that stay reachable.
        for user in 0..<options.stagedUsersCount {
            let login = Step.Action.login(
                client: user * SimulatedClient.devicesPerUser + 1, node: user % options.nodesCount, resumes: false)
            steps.add(random.number(in: 800...1_500), login)
            steps.add(1_600, .logout(client: user * SimulatedClient.devicesPerUser))
        }
        for moment in stride(from: at, to: at + duration, by: 250) {
            let targets = (0...3).map { _ in options.user(&random) }
            let viewer = options.user(&random)
            steps.add(moment, .query(user: viewer, targets: targets))
            for node in faulty where options.hasStoppedNode { steps.add(moment, .request(node: node, user: viewer, targets: targets)) }
        }
        return steps
    }
}
