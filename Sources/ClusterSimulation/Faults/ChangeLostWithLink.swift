import PresenceCore
import PresenceWire

/// A change is lost with a link, and clients read a later position before that is found.
enum ChangeLostWithLink {
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        LinksBreakTwice.setUpLinks(&options)
        (options.nodesCount, options.usersCount) = (random.number(in: 4...5), 50)
    }

    /// A change is lost with a link, and the receiver is slow to ask for it.
    ///
    /// Its clients receive other records meanwhile, and resume elsewhere from the later position. The clients are so few that a node has
    /// views of the other's users, but no sessions.
    static func steps(_ options: HistoryOptions) -> [Step] {
        var random = SplitMix64(seed: options.seed).split(32)
        let watchers = 0...1
        let targets = Array(watchers.upperBound + 1..<options.stagedUsersCount)
        let rounds = Array(stride(from: 2_000, to: options.activeMilliseconds - 1_000, by: 1_300))
        var steps: [Step] = []
        for user in watchers {
            let client = user * SimulatedClient.devicesPerUser
            steps.append(Step(at: random.number(in: 0...200), action: .login(client: client, node: 0, resumes: false)))
            steps.append(Step(at: 500 + user, action: .subscribe(user: user, targets: targets, seconds: nil, sync: false)))
            for at in rounds {
                // The user's own stream receives it, too.
                steps.append(Step(at: at + random.number(in: 260...400), action: Plan.setStatus(of: user, &random)))
                let drop = Step.Action.drop(client: client, comesBackAfter: random.number(in: 1...20))
                steps.append(Step(at: at + random.number(in: 410...600), action: drop))
            }
        }
        for (round, at) in rounds.enumerated() {
            let from = random.number(in: 0...options.nodesCount - 1)
            let spared = (from + random.number(in: 1...options.nodesCount - 1)) % options.nodesCount
            for to in 0..<options.nodesCount where to != from && to != spared {
                steps.append(Step(at: at - 3, action: .delay(from: from, to: to, milliseconds: 800, duration: 8)))
                steps.append(Step(at: at + 6, action: .reset(from: from, to: to)))
                steps.append(Step(at: at + 8, action: .delay(from: to, to: from, milliseconds: 800, duration: 900)))
            }
            // In each round other users change, so that no later change repairs the loss.
            for (index, user) in targets.enumerated() where index % rounds.count == round {
                steps.append(Step(at: at + random.number(in: 0...4), action: Plan.setStatus(of: user, &random)))
            }
        }
        return steps
    }
}
