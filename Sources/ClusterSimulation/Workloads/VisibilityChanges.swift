import PresenceWire

/// Users hide and show themselves at random times, in one history of three.
enum VisibilityChanges {
    static func steps(_ options: HistoryOptions) -> [Step] {
        var random = SplitMix64(seed: options.seed).split(5)
        guard random.isOnce(in: 3) else { return [] }
        let hadBlocklist = options.kind.hasCrossPlan || [.usersBefriend, .clientsRepeatCalls].contains(options.kind)
        return (0..<options.stepsCount / 6).map { _ in
            let at = options.moment(&random)
            let users = options.usersCount - 1
            let some = { (random: inout SplitMix64) in (0..<random.number(in: 0...3)).map { _ in random.number(in: 0...users) } }
            let mode = Visibility.Mode.allCases[random.number(in: 0...Visibility.Mode.allCases.count - 1)]
            let (user, listed) = (random.number(in: 0...users), some(&random))
            // These draws named blocked users, which no call can name. Without them the known seeds would be other histories.
            if random.isOnce(in: 2), !hadBlocklist { _ = some(&random) }
            let isInvisible = random.isOnce(in: 4)
            return Step(at: at, action: .setVisibility(user: user, mode: mode, listed: listed, isInvisible: isInvisible))
        }
    }
}
