import PresenceWire

/// The steps of histories that cross friends, blocks, visibilities, subscriptions, sessions and tokens of a few users.
///
/// Mostly few kinds of faults happen, or none, so that the answers of calls are certain.
enum CrossPlan {
    private static let faults: [Set<HistoryOptions.Fault>] = [
        [], [], [], [], [], [.clients], [.clients], [.resets], [.resets, .delays], [.drains], [.kills], [.kills, .resets],
    ]

    static func setUp(_ options: inout HistoryOptions, _: inout SplitMix64) {
        var random = SplitMix64(seed: options.seed).split(381)
        options.nodesCount = [1, 2, 3, 3, 3, 4][random.number(in: 0...5)]
        options.usersCount = random.number(in: 3...5)
        options.faults = faults[random.number(in: 0...faults.count - 1)]
        options.stepsCount = random.number(in: 0...10)
        options.activeMilliseconds = random.number(in: 9_000...16_000)
        options.settings.policy.tokenGrace = .seconds(1)
        options.settings.policy.chain.rate = nil
        options.settings.policy.chain.blockHidesStatus = true
        options.settings.policy.chain.defaultAllowType = random.isOnce(in: 4) ? .confirm : .any
        options.settings.policy.chain.autoNotifiesFriends = random.isOnce(in: 2)
        options.settings.policy.subscriptionsMax = 3_000
    }

    static func steps(_ options: HistoryOptions) -> [Step] {
        var random = SplitMix64(seed: options.seed).split(382)
        return logins(options, &random) + relations(options, &random) + visibilities(options, &random) + statuses(options, &random)
            + sessions(options, &random) + lists(options, &random)
    }

    /// Logs in most devices at the start. Their users follow one another.
    private static func logins(_ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        var steps: [Step] = []
        for user in 0..<options.usersCount {
            let client = user * SimulatedClient.devicesPerUser
            steps.add(random.number(in: 0...300), .login(client: client, node: 0, resumes: false))
            if !random.isOnce(in: 3) {
                steps.add(random.number(in: 0...400), .login(client: client + 1, node: 0, resumes: false))
            }
            let others = (0..<options.usersCount).filter { $0 != user }
            steps.add(
                random.number(in: 500...900), .subscribe(user: user, targets: others, seconds: nil, sync: random.isOnce(in: 2)))
        }
        return steps
    }

    private static func relations(_ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        (1...random.number(in: 6...16)).map { number in
            let user = options.user(&random)
            let other = (user + random.number(in: 1...options.usersCount - 1)) % options.usersCount
            let action: ChainAction
            switch random.number(in: 0...11) {
            case 0...4: action = .add(user: user, other: other, isTwoWay: !random.isOnce(in: 4), number: number)
            case 5: action = .accept(user: user, requester: other, isTwoWay: true)
            case 6: action = .delete(user: user, others: [other], isTwoWay: random.isOnce(in: 2))
            case 7...10: action = .block(user: user, others: [other])
            default: action = .unblock(user: user, others: [other])
            }
            return Step(at: at(options, &random), action: .chain(action))
        }
    }

    private static func visibilities(_ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        (0..<random.number(in: 3...12)).map { _ in
            let mode = Visibility.Mode.allCases[random.number(in: 0...Visibility.Mode.allCases.count - 1)]
            let listed = (0..<random.number(in: 0...2)).map { _ in options.user(&random) }
            return Step(
                at: at(options, &random),
                action: .setVisibility(
                    user: options.user(&random), mode: mode, listed: listed, isInvisible: random.isOnce(in: 6)))
        }
    }

    private static func statuses(_ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        (0..<random.number(in: 4...14)).map { number in
            Step(at: at(options, &random), action: .setStatus(user: options.user(&random), text: "cross \(number)", seconds: nil))
        }
    }

    private static func sessions(_ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        var steps: [Step] = []
        for _ in 0..<random.number(in: 6...16) {
            let client = random.number(in: 0...options.usersCount * SimulatedClient.devicesPerUser - 1)
            let at = at(options, &random)
            switch random.number(in: 0...11) {
            case 0...2:
                let seconds = random.number(in: 2...5)
                steps.add(at, .drop(client: client, comesBackAfter: nil))
                steps.add(at + 50, .session(.loginUntil(client: client, seconds: seconds)))
                guard random.isOnce(in: 2) else { continue }
                let renewal = SessionAction.renew(client: client, seconds: random.number(in: 1...6))
                steps.add(at + random.number(in: 300...seconds * 1_000), .session(renewal))
            case 3...6: steps.add(at, .session(.loginAgain(client: client)))
            case 7: steps.add(at, .drop(client: client, comesBackAfter: random.number(in: 1...4_000)))
            case 8: steps.add(at, .drop(client: client, comesBackAfter: nil))
            case 9: steps.add(at, .logout(client: client))
            case 10: steps.add(at, .login(client: client, node: 0, resumes: random.isOnce(in: 2)))
            default:
                let user = client / SimulatedClient.devicesPerUser
                steps.add(at, random.isOnce(in: 2) ? .kick(user: user) : .logoutEverywhere(user: user))
            }
        }
        return steps + (random.isOnce(in: 2) ? ChainPlan.fault(at: at(options, &random), options, &random) : [])
    }

    private static func lists(_ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        (0..<random.number(in: 12...30)).map { number in
            let user = options.user(&random)
            let friends = (0..<options.usersCount).filter { $0 != user }
            let group = random.number(in: 0...2)
            let action: OwnListAction
            let kind = random.number(in: 0...11)
            switch kind {
            case 0...4: action = .groupChange(kind, group: group, of: user, friends: friends, &random)
            case 5: action = .remark(user: user, friend: friends[random.number(in: 0...friends.count - 1)], number: number)
            default: action = .read(user: user)
            }
            return Step(at: at(options, &random), action: .ownList(action))
        }
    }

    private static func at(_ options: HistoryOptions, _ random: inout SplitMix64) -> Int {
        random.number(in: 1_000...options.activeMilliseconds)
    }
}
