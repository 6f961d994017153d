import PresenceWire

/// A link breaks while all last messages are on their way.
enum LastLinkBreak {
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        (options.nodesCount, options.usersCount) = (random.number(in: 3...5), random.number(in: 5...9))
        options.faults = [.resets, .delays]
    }

    static func steps(_ options: HistoryOptions) -> [Step] {
        var random = SplitMix64(seed: options.seed).split(15)
        let at = options.activeMilliseconds - 1_000
        let from = options.node(&random)
        let steps = Plan.audience(options, &random)
        return steps + (random.isOnce(in: 2) ? lateList(at, from, options, &random) : latePosition(at, from, options, &random))
    }

    /// Streams restart, and their slow subscription lists are on the way. The streams break, receive newer lists and additions, and then
    /// the old lists arrive.
    private static func lateList(_ at: Int, _ from: Int, _ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        var steps: [Step] = []
        for to in 0..<options.nodesCount where to != from {
            steps.add(at, .delay(from: from, to: to, milliseconds: 800, duration: 50))
            steps.add(at + random.number(in: 52...70), .reset(from: from, to: to))
        }
        for user in 0..<options.stagedUsersCount {
            let client = user * SimulatedClient.devicesPerUser
            let targets = (0...1).map { _ in options.user(&random) }
            steps.add(at + random.number(in: 1...10), .drop(client: client, comesBackAfter: random.number(in: 1...20)))
            steps.add(at + random.number(in: 80...200), .subscribe(user: user, targets: targets, seconds: nil, sync: false))
        }
        return steps
    }

    /// A change is lost with a link, and the receiver is slow to ask for it. Its clients receive other records meanwhile, and resume
    /// elsewhere from the later position.
    private static func latePosition(_ at: Int, _ from: Int, _ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        let to = (from + random.number(in: 1...options.nodesCount - 1)) % options.nodesCount
        var steps = [
            Step(at: at - 3, action: .delay(from: from, to: to, milliseconds: 800, duration: 8)),
            Step(at: at + 6, action: .reset(from: from, to: to)),
            Step(at: at + 8, action: .delay(from: to, to: from, milliseconds: 800, duration: 900)),
        ]
        for user in 0..<options.stagedUsersCount {
            let delay = user % 2 == 0 ? random.number(in: 0...4) : random.number(in: 260...450)
            steps.add(at + delay, Plan.setStatus(of: user, &random))
            let drop = Step.Action.drop(client: user * SimulatedClient.devicesPerUser, comesBackAfter: random.number(in: 1...20))
            steps.add(at + random.number(in: 300...600), drop)
        }
        return steps
    }
}
