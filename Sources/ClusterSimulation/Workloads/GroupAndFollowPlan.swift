import PresenceWire

/// The steps of histories in which clients also change groups often, read groups and blocklists, and in which some users follow only their
/// friends.
///
/// They come beside the steps of ``CrossPlan``, which stay as they are in its own histories.
enum GroupAndFollowPlan {
    static func steps(_ options: HistoryOptions) -> [Step] {
        var random = SplitMix64(seed: options.seed).split(129_564)
        let followers = (0..<options.usersCount).filter { _ in random.isOnce(in: 2) }
        // Another subscription would outlive the friendship.
        let cross = CrossPlan.steps(options).filter { step in
            if case .subscribe(let user, _, _, _) = step.action { !followers.contains(user) } else { true }
        }
        let followed = followers.flatMap { follows(of: $0, options, &random) }
        return cross + followed + groups(options) + reads(options)
    }

    /// A user follows all others, of whom those are refused who are not friends. Then it makes friends, follows them, and may lose them.
    private static func follows(of user: Int, _ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        let others = (0..<options.usersCount).filter { $0 != user }
        var steps: [Step] = []
        let first = random.number(in: 1_000...options.activeMilliseconds)
        steps.add(first, .followFriends(user: user, targets: others, sync: random.isOnce(in: 2)))
        for number in 0..<random.number(in: 2...5) {
            let friend = others[random.number(in: 0...others.count - 1)]
            let isAsked = random.isOnce(in: 2)
            let (asker, asked) = isAsked ? (friend, user) : (user, friend)
            var at = random.number(in: 1_000...options.activeMilliseconds)
            func advance() { at += [5, 60, 500, 1_500][random.number(in: 0...3)] }
            steps.add(at, .chain(.add(user: asker, other: asked, isTwoWay: true, number: 1_000 + 10 * user + number)))
            advance()
            steps.add(at, .followFriends(user: user, targets: [friend], sync: random.isOnce(in: 2)))
            advance()
            switch random.number(in: 0...6) {
            case 0...1: steps.add(at, .chain(.delete(user: asker, others: [asked], isTwoWay: true)))
            case 2: steps.add(at, .chain(.block(user: asker, others: [asked])))
            case 3: steps.add(at, .unsubscribe(user: user, targets: [friend]))
            default: break
            }
        }
        return steps
    }

    /// Calls about groups, which follow each other closely.
    private static func groups(_ options: HistoryOptions) -> [Step] {
        var random = SplitMix64(seed: options.seed).split(129_562)
        return (0..<random.number(in: 3...8)).flatMap { _ -> [Step] in
            let user = options.user(&random)
            let friends = (0..<options.usersCount).filter { $0 != user }
            let group = random.number(in: 0...2)
            var at = random.number(in: 1_000...options.activeMilliseconds)
            return (0..<random.number(in: 1...4)).map { _ in
                // A creation is twice as likely as each other change.
                let kind = max(random.number(in: 0...5) - 1, 0)
                let action = OwnListAction.groupChange(kind, group: group, of: user, friends: friends, &random)
                at += [5, 60, 500, 1_500][random.number(in: 0...3)]
                return Step(at: at, action: .ownList(action))
            }
        }
    }

    private static func reads(_ options: HistoryOptions) -> [Step] {
        var random = SplitMix64(seed: options.seed).split(129_563)
        return (0..<random.number(in: 20...50)).map { _ in
            let user = options.user(&random)
            return Step(at: random.number(in: 1_000...options.activeMilliseconds), action: .ownList(.readOthers(user: user)))
        }
    }
}
