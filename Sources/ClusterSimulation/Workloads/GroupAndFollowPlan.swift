import PresenceWire

/// The steps of histories in which clients also change groups often, and read their groups and their blocklists.
///
/// They come beside the steps of ``CrossPlan``, which stay as they are in its own histories.
enum GroupAndFollowPlan {
    static func steps(_ options: HistoryOptions) -> [Step] {
        CrossPlan.steps(options) + groups(options) + reads(options)
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
                let action: OwnListAction
                switch random.number(in: 0...5) {
                case 0...1: action = .createGroup(user: user, group: group, friends: friends)
                case 2: action = .renameGroup(user: user, group: group, to: random.number(in: 0...2))
                case 3: action = .deleteGroup(user: user, group: group)
                case 4: action = .addToGroup(user: user, group: group, friends: friends)
                default: action = .removeFromGroup(user: user, group: group, friends: [friends[0]])
                }
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
