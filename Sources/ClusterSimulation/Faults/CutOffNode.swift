import PresenceCore
import PresenceWire

/// A node is cut off or stopped for half a minute, while users hide from its clients.
enum CutOffNode {
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        var pauses = SplitMix64(seed: options.seed).split(391)
        (options.activeMilliseconds, options.stepsCount) = (42_000, 0)
        options.faults = [pauses.isOnce(in: 3) ? .pauses : .partitions]
        MachineFaultPlan.setUp(&options, &random)
    }

    /// A node is cut off or stopped while users hide. Its clients ask for them all the time.
    static func steps(_ options: HistoryOptions) -> [Step] {
        var random = MachineFaultPlan.random(options)
        let audience = Plan.audience(options, &random)
        let (at, duration) = (random.number(in: 3_000...4_000), random.number(in: 26_000...34_000))
        let faulty = MachineFaultPlan.faultyNodes(options, &random)
        var steps = faulty.map { node in
            let isolation = Step.Action.isolate(node: node, duration: duration)
            return Step(at: at, action: options.hasStoppedNode ? .pause(node: node, milliseconds: duration) : isolation)
        }
        for user in 0..<options.stagedUsersCount {
            let hide = Step.Action.setVisibility(user: user, mode: .nobody, listed: [], blocked: [], isInvisible: false)
            steps.append(Step(at: at + random.number(in: 0...10_000), action: hide))
        }
        // Most users are on nodes that stay reachable.
        for user in 0..<options.stagedUsersCount {
            let login = Step.Action.login(
                client: user * SimulatedClient.devicesPerUser + 1, node: user % options.nodesCount, resumes: false)
            steps.append(Step(at: random.number(in: 800...1_500), action: login))
            steps.append(Step(at: 1_600, action: .logout(client: user * SimulatedClient.devicesPerUser)))
        }
        for moment in stride(from: at, to: at + duration, by: 250) {
            let targets = (0...3).map { _ in random.number(in: 0...options.usersCount - 1) }
            let viewer = random.number(in: 0...options.usersCount - 1)
            steps.append(Step(at: moment, action: .query(user: viewer, targets: targets)))
            for node in faulty where options.hasStoppedNode {
                steps.append(Step(at: moment, action: .request(node: node, user: viewer, targets: targets)))
            }
        }
        return audience + steps
    }
}
