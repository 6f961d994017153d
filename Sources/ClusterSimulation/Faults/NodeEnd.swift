import PresenceWire

/// All users follow some others, then the node ends. Just before it new devices log in, and must move on before they have received
/// everything.
enum NodeEnd {
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        options.faults = [random.isOnce(in: 2) ? .drains : .kills]
        options.activeMilliseconds = max(options.activeMilliseconds, 14_000)
        if random.isOnce(in: 2) { options.settings.policy.offlineGrace = .zero }
    }

    static func steps(_ options: HistoryOptions) -> [Step] {
        guard !options.faults.isDisjoint(with: [.drains, .kills]) else { return [] }
        var random = SplitMix64(seed: options.seed).split(9)
        var steps: [Step] = []
        let end = random.number(in: 9_000...options.activeMilliseconds - 1_000)
        let node = options.node(&random)
        var apart = SplitMix64(seed: options.seed).split(14)
        // In some histories the next process starts before the others notice that the node is down.
        let down = random.number(in: 10...9_000) * (options.faults.contains(.kills) && apart.isOnce(in: 2) ? 0 : 1)
        let isDrain = options.faults.contains(.drains)
        steps.add(end, isDrain ? .drain(node: node, downMilliseconds: down) : .kill(node: node, downMilliseconds: down))
        for user in 0..<options.stagedUsersCount {
            let client = user * SimulatedClient.devicesPerUser
            let targets = (0...3).map { _ in options.user(&random) }
            steps.add(random.number(in: 0...200), .login(client: client, node: 0, resumes: false))
            steps.add(random.number(in: 300...800), .subscribe(user: user, targets: targets, seconds: nil, sync: false))
            guard random.isOnce(in: 3) else { continue }
            steps.add(end - random.number(in: 0...6), .login(client: client + 1, node: 0, resumes: false))
        }
        return steps
    }
}
