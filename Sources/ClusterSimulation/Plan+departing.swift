import PresenceCore
import PresenceWire

/// In some histories nothing goes wrong but that one node ends, when all have been there for long: then what is seen is certain.
extension Plan {
    /// Everybody follows some, then the node ends. Just before it other devices come: some have not been told all when they must go on.
    static func departing(_ options: SimulationOptions) -> [Step] {
        guard options.isDeparture, !options.faults.isDisjoint(with: [.drains, .kills]) else { return [] }
        var random = SplitMix64(seed: options.seed).split(9)
        var steps: [Step] = []
        let end = random.number(in: 9_000...options.activeMilliseconds - 1_000)
        let node = random.number(in: 0...options.nodesCount - 1)
        var apart = SplitMix64(seed: options.seed).split(14)
        // In some the next process is there before anybody has found nobody.
        let downMilliseconds = random.number(in: 10...9_000) * (options.faults.contains(.kills) && apart.isOnce(in: 2) ? 0 : 1)
        steps.append(
            Step(
                at: end,
                action: options.faults.contains(.drains)
                    ? .drain(node: node, downMilliseconds: downMilliseconds) : .kill(node: node, downMilliseconds: downMilliseconds)))
        for user in 0..<options.stagedUsersCount {
            let client = user * SimulatedClient.devicesPerUser
            let targets = (0...3).map { _ in random.number(in: 0...options.usersCount - 1) }
            steps.append(Step(at: random.number(in: 0...200), action: .login(client: client, node: 0, resumes: false)))
            steps.append(
                Step(at: random.number(in: 300...800), action: .subscribe(user: user, targets: targets, seconds: nil, sync: false)))
            guard random.isOnce(in: 3) else { continue }
            steps.append(Step(at: end - random.number(in: 0...6), action: .login(client: client + 1, node: 0, resumes: false)))
        }
        return steps
    }
}
