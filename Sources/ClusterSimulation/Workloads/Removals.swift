import PresenceWire

/// Users log in, are followed for a while, go, and come back around their removal (`users.forgetAfter`) or the removal of their blank
/// records.
///
/// Nodes are killed for less than these times, links break, and disks are slow.
enum Removals {
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        (options.nodesCount, options.usersCount) = (random.number(in: 1...4), random.number(in: 4...9))
        options.faults = [.kills, .resets, .disks]
        (options.activeMilliseconds, options.stepsCount) = (36_000, random.number(in: 0...10))
        options.settings.digestInterval = .seconds(random.isOnce(in: 2) ? 3 : 30)
        options.settings.policy.forgetAfterSeconds = 7
        (options.settings.blankHorizon, options.settings.watchLinger) = (.seconds(6), .seconds(random.number(in: 1...3)))
    }

    static func steps(_ options: HistoryOptions) -> [Step] {
        var random = SplitMix64(seed: options.seed).split(340)
        var steps: [Step] = []
        for user in 0..<options.usersCount { steps += visits(of: user, options, &random) }
        return steps + disturbances(options, &random)
    }

    private static func visits(of user: Int, _ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        let removalMilliseconds = Int(options.settings.policy.forgetAfterSeconds) * 1_000
        let client = user * SimulatedClient.devicesPerUser
        var steps: [Step] = []
        var at = random.number(in: 0...3_000)
        while at < options.activeMilliseconds {
            let node = options.node(&random)
            switch random.number(in: 0...5) {
            case 0: steps.add(at, .setStatus(user: user, text: random.isOnce(in: 2) ? "" : "text \(at)", seconds: 1))
            case 1: steps += follow(user, at: at, options, &random)
            default:
                steps.add(at, .login(client: client, node: node, resumes: random.isOnce(in: 2)))
                if random.isOnce(in: 2) { steps += follow(user, at: at + random.number(in: 0...400), options, &random) }
                let end = at + random.number(in: 50...2_000)
                let isLogout = random.isOnce(in: 3)
                steps.add(end, isLogout ? .logout(client: client) : .drop(client: client, comesBackAfter: nil))
            }
            // Most come back around their removal, or around the removal of their blank records.
            let keptMilliseconds = random.isOnce(in: 2) ? 0 : Int(options.settings.blankHorizon.wholeMilliseconds)
            let removedAt = at + removalMilliseconds
            at =
                random.isOnce(in: 4)
                ? at + random.number(in: 500...5_000) : removedAt + keptMilliseconds + random.number(in: -2_000...4_000)
            if keptMilliseconds > 0, random.isOnce(in: 2) {
                steps += watch(
                    user, at: removedAt + random.number(in: 1_500...keptMilliseconds + 1_000), until: at + 3_000, options, &random)
            }
        }
        return steps
    }

    /// Subscribes a user to the target, with a session or without, mostly for a short time.
    private static func follow(_ user: Int, at: Int, _ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        let follower = options.user(&random)
        var steps = [Step(at: at, action: .subscribe(user: follower, targets: [user], seconds: nil, sync: random.isOnce(in: 2)))]
        guard !random.isOnce(in: 4) else { return steps }
        steps.add(at + random.number(in: 100...6_000), .unsubscribe(user: follower, targets: nil))
        return steps
    }

    /// Subscribes a user with a session to a target of whom only a blank record is kept. The subscription may last until the target comes
    /// back.
    private static func watch(_ user: Int, at: Int, until end: Int, _ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        let follower = options.user(&random)
        let (client, node) = (follower * SimulatedClient.devicesPerUser + 1, options.node(&random))
        return [
            Step(at: at, action: .login(client: client, node: node, resumes: false)),
            Step(at: at + 50, action: .subscribe(user: follower, targets: [user], seconds: nil, sync: false)),
            Step(at: end, action: .unsubscribe(user: follower, targets: [user])),
            Step(at: end, action: .drop(client: client, comesBackAfter: nil)),
        ]
    }

    private static func disturbances(_ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        guard random.isOnce(in: 2) else { return [] }
        return (0..<random.number(in: 1...5)).map { _ in
            let at = options.moment(&random)
            let node = options.node(&random)
            switch random.number(in: 0...3) {
            case 0: return Step(at: at, action: .reset(from: node, to: options.node(&random)))
            case 1: return Step(at: at, action: .slowDisk(node: node, milliseconds: random.number(in: 100...1_500)))
            default: return Step(at: at, action: .kill(node: node, downMilliseconds: random.number(in: 10...1_500)))
            }
        }
    }
}
