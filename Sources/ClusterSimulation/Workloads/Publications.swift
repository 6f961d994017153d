import PresenceWire

/// Users publish events, devices report that vendor push reaches them, the app's policy changes, and users are kicked.
enum Publications {
    /// The settings that each change of the policy keeps, because the checks of lists and logins rely on them. A preset would replace them.
    static func keptSettings(_ options: HistoryOptions) -> String {
        let rate = options.settings.policy.changesRate.map { "{\"calls\":\($0.calls),\"seconds\":\($0.seconds)}" } ?? "false"
        return "\"subscription.maxPerSubscriber\":\(options.settings.policy.subscriptionsMax),\"subscription.overflow\":\"evictOldest\""
            + ",\"subscription.initialSnapshot\":\"always\",\"subscription.replayOnLogin\":\"all\",\"errors.shape\":\"perUser\""
            + ",\"users.mustBeRegistered\":false,\"offlineGrace\":\(options.settings.policy.offlineGrace.components.seconds)"
            + ",\"login.multiClient\":\"all\",\"rate.setStatus\":false,\"rate.changes\":\(rate)"
    }

    /// The settings that a change of the policy may name.
    private static let changes = [
        "\"userStatus.enabled\":false", "\"device.exposePlatforms\":false", "\"customStatus.clearOnOffline\":false",
        "\"self.reportStatus\":\"unknown\"", "\"customStatus.needsSession\":true",
    ]

    /// The steps, in one history of three. Setting a policy would switch the removal of users off, and make friend lists long.
    static func steps(_ options: HistoryOptions) -> [Step] {
        var random = SplitMix64(seed: options.seed).split(50)
        guard random.isOnce(in: 3) else { return [] }
        let count = max(options.stepsCount / 4, 12)
        var steps = viewers(options, &random) + events(count, options, &random)
        let (isReachable, changesPolicy) = (random.isOnce(in: 3), random.isOnce(in: 2))
        if isReachable || changesPolicy { steps += policies(isReachable: isReachable, changes: changesPolicy, options, &random) }
        if isReachable { steps += reachableLogins(options, &random) }
        if random.isOnce(in: 2) { steps += kicks(options, &random) }
        return steps
    }

    /// Logs in some users at the start, who follow the publishers.
    private static func viewers(_ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        (0..<min(options.usersCount, 8)).flatMap { user -> [Step] in
            let targets = (0...2).map { _ in random.number(in: 0...min(options.usersCount, publishersMax) - 1) }
            let login = Step.Action.login(client: user * SimulatedClient.devicesPerUser, node: 0, resumes: false)
            return [
                Step(at: random.number(in: 0...200), action: login),
                Step(at: random.number(in: 300...800), action: .subscribe(user: user, targets: targets, seconds: nil, sync: false)),
            ]
        }
    }

    /// Most users who publish. They are few, so that several events meet at one user.
    private static let publishersMax = 6

    /// Has users publish, some of them together with a custom status or a second event.
    private static func events(_ count: Int, _ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        var (steps, value): ([Step], Int64) = ([], PresenceWire.Limits.eventValueMin)
        let usersCount = min(options.usersCount, publishersMax)
        for _ in 0..<count {
            let at = options.moment(&random)
            let user = random.number(in: 0...usersCount - 1)
            for index in 0..<(random.isOnce(in: 3) ? 2 : 1) {
                value += 1
                let seconds = random.isOnce(in: 2) ? Int64(random.number(in: 1...10)) : 300
                let action = Step.Action.publish(
                    user: user, value: value, seconds: seconds, onlineOnly: random.isOnce(in: 2), synced: random.isOnce(in: 2))
                steps.add(at + index * random.number(in: 0...300), action)
            }
            guard random.isOnce(in: 2) else { continue }
            steps.add(Plan.setStatus(of: user, &random), at: at + random.number(in: 0...2))
        }
        return steps
    }

    private static func policies(isReachable: Bool, changes: Bool, _ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        let push = ",\"state.pushReachableStaysOnline\":\(isReachable)"
        let kept = keptSettings(options)
        let begin = "{\"preset\":\"rollcall\",\"settings\":{\(kept)\(push)}}"
        var steps = [Step(at: 0, action: .setPolicy(begin))]
        guard changes else { return steps }
        var at = random.number(in: 500...3_000)
        while at < options.activeMilliseconds {
            let preset = Policy.Preset.allCases[random.number(in: 0...Policy.Preset.allCases.count - 1)].rawValue
            let change = Self.changes[random.isOnce(in: 2) ? 0 : random.number(in: 1...Self.changes.count - 1)]
            let hasPush = isReachable && random.isOnce(in: 4) ? ",\"state.pushReachableStaysOnline\":false" : push
            let body = "{\"preset\":\"\(preset)\",\"settings\":{\(kept)\(hasPush),\(change)}}"
            steps.add(at, .setPolicy(body))
            at += random.number(in: 1_000...5_000)
            // Half of the changes are taken back, some shortly before the end.
            if random.isOnce(in: 2) { steps.add(at, .setPolicy(begin)) }
            at += random.number(in: 1_000...5_000)
        }
        return steps
    }

    /// Logs in devices that vendor push reaches, and loses most of their sessions.
    private static func reachableLogins(_ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        var steps: [Step] = []
        for _ in 0..<min(options.usersCount, 8) {
            let client = random.number(in: 0...options.usersCount * SimulatedClient.devicesPerUser - 1)
            var at = random.number(in: 300...options.activeMilliseconds)
            steps.add(at, .drop(client: client, comesBackAfter: nil))
            at += random.number(in: 0...1_000)
            steps.add(at, .loginReachable(client: client, node: options.node(&random)))
            at += random.number(in: 500...6_000)
            let end = random.number(in: 0...5)
            if end < 3 { steps.add(at, .drop(client: client, comesBackAfter: nil)) }
            if end == 3 { steps.add(at, .logout(client: client)) }
        }
        return steps
    }

    private static func kicks(_ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        (0..<random.number(in: 1...4)).map { _ in
            let at = random.number(in: 500...max(options.activeMilliseconds, 600))
            return Step(at: at, action: .kick(user: options.user(&random)))
        }
    }
}
