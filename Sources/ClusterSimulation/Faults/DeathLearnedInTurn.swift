import PresenceWire

/// One node ends for good, and the others learn of it one after the other.
enum DeathLearnedInTurn {
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        (options.nodesCount, options.usersCount) = (random.number(in: 4...5), 24)
        options.faults = [.kills, .resets, .delays]
        (options.activeMilliseconds, options.stepsCount) = (20_000, 20)
        // The repair by digests would hide that a message is missing.
        options.settings.digestInterval = .seconds(60)
    }

    /// The first node registers sessions and views with the new owners before these know that they own the users.
    ///
    /// In some histories one node sends its rows slowly, so that the registrations wait at the new owners. Then the registrations end, and
    /// the message of the end is lost with the link that carries it.
    static func steps(_ options: HistoryOptions) -> [Step] {
        var (random, steps) = Plan.audience(options, 41)
        for user in 0..<options.stagedUsersCount {
            let second = user * SimulatedClient.devicesPerUser + 1
            steps.add(random.number(in: 0...800), .login(client: second, node: 0, resumes: false))
        }
        let at = options.activeMilliseconds - 17_000
        let ended = options.node(&random)
        steps.add(at, .kill(node: ended, downMilliseconds: 60_000))
        if random.isOnce(in: 2) { return steps + unsaying(at, ended, options, &random) }
        for user in 0..<options.stagedUsersCount {
            for _ in 0...1 { steps.add(at + random.number(in: 500...13_000), Plan.setStatus(of: user, &random)) }
        }
        return steps
    }

    /// Breaks the links so that each reconnects within some milliseconds. A millisecond after the break no link is up.
    private static func unsaying(_ at: Int, _ ended: Int, _ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        var steps: [Step] = []
        let slow = (ended + random.number(in: 1...options.nodesCount - 1)) % options.nodesCount
        let quick = (0..<options.nodesCount).filter { $0 != slow && $0 != ended }
        let end = at + random.number(in: 150...250)
        for node in quick {
            steps.add(at - 20, .delay(from: slow, to: node, milliseconds: 1_000, duration: 1_000))
            for other in quick where other != node { steps.add(end, .reset(from: node, to: other)) }
        }
        for client in 0..<options.stagedUsersCount * SimulatedClient.devicesPerUser {
            steps.add(end + 1, .drop(client: client, comesBackAfter: nil))
        }
        return steps
    }
}
