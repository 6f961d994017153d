import PresenceWire

/// A change is lost with a link, and the receiver is slow to ask for it.
///
/// Its clients receive other records meanwhile, and resume elsewhere from the later position. The clients are so few that a node has
/// views of the other's users, but no sessions.
enum ChangeLostWithLink {
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        LinksBreakTwice.setUpLinks(&options)
        (options.nodesCount, options.usersCount) = (random.number(in: 4...5), 50)
    }

    static func steps(_ options: HistoryOptions) -> [Step] {
        var random = SplitMix64(seed: options.seed).split(32)
        let watchers = 0...1
        let targets = Array(watchers.upperBound + 1..<options.stagedUsersCount)
        let rounds = Array(stride(from: 2_000, to: options.activeMilliseconds - 1_000, by: 1_300))
        var steps: [Step] = []
        for user in watchers {
            let client = user * SimulatedClient.devicesPerUser
            steps.add(random.number(in: 0...200), .login(client: client, node: 0, resumes: false))
            steps.add(500 + user, .subscribe(user: user, targets: targets, seconds: nil, sync: false))
            for at in rounds {
                // The user's own stream receives it, too.
                steps.add(at + random.number(in: 260...400), Plan.setStatus(of: user, &random))
                steps.add(.drop(client: client, comesBackAfter: random.number(in: 1...20)), at: at + random.number(in: 410...600))
            }
        }
        for (round, at) in rounds.enumerated() {
            let from = options.node(&random)
            let spared = (from + random.number(in: 1...options.nodesCount - 1)) % options.nodesCount
            for to in 0..<options.nodesCount where to != from && to != spared {
                steps.add(at - 3, .delay(from: from, to: to, milliseconds: 800, duration: 8))
                steps.add(at + 6, .reset(from: from, to: to))
                steps.add(at + 8, .delay(from: to, to: from, milliseconds: 800, duration: 900))
            }
            // In each round other users change, so that no later change repairs the loss.
            for (index, user) in targets.enumerated() where index % rounds.count == round {
                steps.add(at + random.number(in: 0...4), Plan.setStatus(of: user, &random))
            }
        }
        return steps
    }
}
