import PresenceWire

/// The steps of histories in which an app's back end also brings friends along: by force, by imports, and by deleting all friends.
///
/// They come beside the steps of ``GroupAndFollowPlan``. Calls of the back end about two users meet the users' own ones.
enum BackEndPlan {
    static func setUp(_ options: inout HistoryOptions, _ details: inout SplitMix64) {
        CrossPlan.setUp(&options, &details)
        var random = SplitMix64(seed: options.seed).split(12_719_095)
        options.settings.policy.chain.defaultAllowType = ChainPolicy.AllowType.drawn(&random)
        if random.isOnce(in: 2) { options.settings.policy.chain.friendsMax = Int64(random.number(in: 2...4)) }
    }

    static func steps(_ options: HistoryOptions) -> [Step] {
        var random = SplitMix64(seed: options.seed).split(12_719_096)
        var steps = GroupAndFollowPlan.steps(options)
        for burst in 0..<random.number(in: 4...12) {
            let user = options.user(&random)
            let other = (user + random.number(in: 1...options.usersCount - 1)) % options.usersCount
            var at = random.number(in: 1_000...options.activeMilliseconds)
            for call in 0..<random.number(in: 1...5) {
                let number = 100 * burst + 10 * call
                let pair = random.isOnce(in: 3) ? (other, user) : (user, other)
                let action =
                    random.isOnce(in: 3)
                    ? ownCall(pair, 2_000 + number, options, &random) : .backEnd(backEndCall(pair, number, options, &random))
                steps.add(at, action)
                // Two back ends may make the same call at once.
                if random.isOnce(in: 8) { steps.add(at + random.number(in: 0...5), action) }
                at += [0, 5, 60, 500, 1_500][random.number(in: 0...4)]
            }
            if random.isOnce(in: 3) { steps += ChainPlan.fault(at: at - random.number(in: 0...100), options, &random) }
        }
        return steps
    }

    private static func backEndCall(
        _ pair: (user: Int, other: Int), _ number: Int, _ options: HistoryOptions, _ random: inout SplitMix64
    ) -> BackEndAction {
        let group = random.isOnce(in: 3) ? random.number(in: 0...2) : nil
        let isTwoWay = !random.isOnce(in: 3)
        switch random.number(in: 0...7) {
        case 0...2: return .addByForce(user: pair.user, other: pair.other, isTwoWay: isTwoWay, group: group, number: number)
        case 3...5:
            var friends = [pair.other]
            if random.isOnce(in: 3) { friends += (0..<options.usersCount).filter { $0 != pair.user && $0 != pair.other } }
            return .importFriends(user: pair.user, friends: friends, group: group, isDated: random.isOnce(in: 2), number: number)
        default: return .deleteAll(user: pair.user, isTwoWay: isTwoWay)
        }
    }

    /// A call of one of the two users that meets those of the back end.
    private static func ownCall(
        _ pair: (user: Int, other: Int), _ number: Int, _ options: HistoryOptions, _ random: inout SplitMix64
    ) -> Step.Action {
        let (user, other) = pair
        switch random.number(in: 0...9) {
        case 0...2: return .chain(.add(user: user, other: other, isTwoWay: !random.isOnce(in: 4), number: number))
        case 3: return .chain(.accept(user: user, requester: other, isTwoWay: random.isOnce(in: 2)))
        case 4: return .chain(.delete(user: user, others: [other], isTwoWay: !random.isOnce(in: 3)))
        case 5: return .chain(.block(user: user, others: [other]))
        case 6: return .chain(.unblock(user: user, others: [other]))
        case 7: return .followFriends(user: user, targets: [other], sync: random.isOnce(in: 2))
        case 8: return .ownList(.remark(user: user, friend: other, number: number))
        default: return .ownList(.read(user: user))
        }
    }
}

extension ChainPolicy.AllowType {
    /// A setting under which a forced addition mostly differs from another one.
    fileprivate static func drawn(_ random: inout SplitMix64) -> Self { [.any, .confirm, .confirm, .deny][random.number(in: 0...3)] }
}
