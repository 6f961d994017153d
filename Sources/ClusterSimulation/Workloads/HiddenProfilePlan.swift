import PresenceWire

/// The steps of users who change their profiles while they block a follower or are invisible. The follower may be away meanwhile.
///
/// A separate generator draws them, for some of the histories of ``CrossPlan``. The others keep their steps.
enum HiddenProfilePlan {
    static func steps(_ options: HistoryOptions) -> [Step] {
        var random = SplitMix64(seed: options.seed).split(383)
        guard random.isOnce(in: 2) else { return [] }
        var steps = (0..<options.usersCount).map { user in
            let others = (0..<options.usersCount).filter { $0 != user }
            let action = ProfileAction.subscribe(user: user, targets: others, ofFriends: false)
            return Step(at: random.number(in: 400...1_000), action: .profile(action))
        }
        for number in 0..<random.number(in: 2...6) { steps += sequence(options, number: 100 * number, &random) }
        return steps
    }

    /// A user hides, changes the profile, and shows itself again.
    private static func sequence(_ options: HistoryOptions, number: Int, _ random: inout SplitMix64) -> [Step] {
        let user = options.user(&random)
        let follower = (user + random.number(in: 1...options.usersCount - 1)) % options.usersCount
        let device = follower * SimulatedClient.devicesPerUser + random.number(in: 0...SimulatedClient.devicesPerUser - 1)
        var at = random.number(in: 1_200...options.activeMilliseconds)
        let isBlock = !random.isOnce(in: 3)
        func change(hides: Bool) -> Step {
            let show = Step.Action.setVisibility(user: user, mode: .everyone, listed: [], isInvisible: hides)
            let list = ChainAction.block(user: user, others: [follower])
            return Step(at: at, action: isBlock ? .chain(hides ? list : .unblock(user: user, others: [follower])) : show)
        }
        func advance() { at += [5, 60, 500, 1_500][random.number(in: 0...3)] }
        var steps = [change(hides: true)]
        let comesBackAfter = random.number(in: 300...4_000)
        if random.isOnce(in: 2) { steps.add(at, .drop(client: device, comesBackAfter: comesBackAfter)) }
        for change in 0..<random.number(in: 0...2) {
            advance()
            let action = ProfileAction.setFields(user: user, [ProfilePlan.fields[0]], number: 1_000 + number + change)
            steps.add(at, .profile(action))
        }
        advance()
        if random.isOnce(in: 4) { steps.add(at, .drop(client: device, comesBackAfter: comesBackAfter)) }
        advance()
        if !random.isOnce(in: 6) { steps.append(change(hides: false)) }
        return steps
    }
}
