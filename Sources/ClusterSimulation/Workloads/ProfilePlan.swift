import PresenceWire

/// The steps about profiles, in histories in which few users befriend one another (<doc:Architecture#Relationship-chain>).
///
/// Several calls of one user set fields at once, and faults meet them. A separate generator draws them.
enum ProfilePlan {
    /// The fields that steps set. Each is merged apart from the others.
    static let fields: [Profile.Standard] = [.nick, .selfSignature, .level]

    static func steps(_ options: HistoryOptions) -> [Step] {
        var random = SplitMix64(seed: options.seed).split(373)
        // The other histories show the chain alone.
        guard !random.isOnce(in: 3) else { return [] }
        let steps = writes(options, &random) + allowTypes(options, &random) + subscriptions(options, &random)
        return steps + queries(options, &random) + devices(options, &random)
    }

    private static func writes(_ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        var (steps, number): ([Step], Int) = ([], 0)
        for _ in 0..<random.number(in: 3...12) {
            let at = options.moment(&random)
            let span = [0, 10, 60, 400][random.number(in: 0...3)]
            let user = options.user(&random)
            for _ in 0..<random.number(in: 1...3) {
                number += 1
                let some = fields.filter { _ in random.isOnce(in: 2) }
                let action = ProfileAction.setFields(user: user, some.isEmpty ? [.nick] : some, number: number)
                steps.add(at + random.number(in: 0...span), .profile(action))
            }
            if random.isOnce(in: 3) { steps += ChainPlan.fault(at: at + random.number(in: 0...60), options, &random) }
        }
        return steps
    }

    /// The users' own settings of who may add them, in some histories. In the others the answers of additions follow the app's setting.
    private static func allowTypes(_ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        guard random.isOnce(in: 2) else { return [] }
        return (0..<random.number(in: 1...8)).map { _ in
            let action = ProfileAction.setAllowType(user: options.user(&random), ChainPlan.allowType(&random))
            return Step(at: options.moment(&random), action: .profile(action))
        }
    }

    private static func subscriptions(_ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        (0..<random.number(in: 0...8)).map { _ in
            let (user, ofFriends) = (options.user(&random), random.isOnce(in: 3))
            let targets = (0..<random.number(in: 1...3)).map { _ in options.user(&random) }.filter { $0 != user }
            let action: ProfileAction =
                random.isOnce(in: 4)
                ? .unsubscribe(user: user, targets: random.isOnce(in: 2) ? nil : targets, ofFriends: ofFriends)
                : .subscribe(user: user, targets: targets.isEmpty ? [(user + 1) % options.usersCount] : targets, ofFriends: ofFriends)
            return Step(at: options.moment(&random), action: .profile(action))
        }
    }

    private static func queries(_ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        (0..<random.number(in: 2...10)).map { _ in
            let action = ProfileAction.query(user: options.user(&random), targets: Array(0..<options.usersCount))
            return Step(at: options.moment(&random), action: .profile(action))
        }
    }

    /// Devices that come, and streams that break and resume.
    private static func devices(_ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        (0..<random.number(in: 2...10)).map { _ in
            let client = random.number(in: 0...options.usersCount * SimulatedClient.devicesPerUser - 1)
            let action: Step.Action =
                random.isOnce(in: 2)
                ? .login(client: client, node: 0, resumes: random.isOnce(in: 2))
                : .drop(client: client, comesBackAfter: random.number(in: 1...4_000))
            return Step(at: options.moment(&random), action: action)
        }
    }
}
