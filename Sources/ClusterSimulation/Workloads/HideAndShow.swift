import PresenceWire

/// A few users hide and show themselves again and again, by visibilities that they had before, while many others look.
enum HideAndShow {
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        if random.isOnce(in: 3) { options.settings.linkMessagesMax = 16 }
    }

    static func steps(_ options: HistoryOptions) -> [Step] {
        var random = SplitMix64(seed: options.seed).split(7)
        let stars = (0...1).map { _ in options.user(&random) }
        var steps: [Step] = []
        for user in 0..<options.stagedUsersCount {
            let client = user * SimulatedClient.devicesPerUser
            steps.add(random.number(in: 0...200), .login(client: client, node: 0, resumes: false))
            steps.add(random.number(in: 300...800), .subscribe(user: user, targets: stars, seconds: nil, sync: false))
        }
        for _ in 0..<options.stepsCount / 4 {
            let at = random.number(in: 1_000...options.activeMilliseconds)
            steps += search(for: stars[random.number(in: 0...1)], at, options, &random)
        }
        let ends = !options.faults.isDisjoint(with: [.kills, .drains]) && options.faults.contains(.delays) && options.nodesCount > 2
        if ends, random.isOnce(in: 2) { steps += takeover(from: stars, options, &random) }
        if options.faults.isSuperset(of: [.kills, .drains]), options.nodesCount > 2 { steps += lastReplicas(options, &random) }
        if options.faults.contains(.partitions), random.isOnce(in: 2) { steps += split(stars, options, &random) }
        return steps
    }

    /// One node drains and another one dies while many users set their visibility. Few replicas are left.
    private static func lastReplicas(_ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        let at = random.number(in: 1_000...max(options.activeMilliseconds - 4_000, 1_000))
        let first = options.node(&random)
        let died = at + random.number(in: 100...1_300)
        var steps = [
            Step(at: at, action: .drain(node: first, downMilliseconds: 6_000)),
            Step(at: died, action: .kill(node: (first + 1) % options.nodesCount, downMilliseconds: 6_000)),
        ]
        for delay in 0..<24 {
            let user = options.user(&random)
            let listed = (0...2).map { _ in options.user(&random) }
            steps.add(died - 200 + delay * 100, .setVisibility(user: user, mode: .list, listed: listed, isInvisible: false))
        }
        return steps
    }

    /// Cuts a node off, with a visibility that a user sets there. The other side receives the earlier visibility, or none.
    ///
    /// Some clients of the other side receive the user's changes meanwhile.
    private static func split(_ stars: [Int], _ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        // A user without later calls.
        let star = (stars.max()! + 1) % options.usersCount
        let at = max(options.activeMilliseconds - random.number(in: 2_500...8_000), 1_500)
        let asks = { (at: Int, mode: Visibility.Mode) in
            Step(at: at, action: .setVisibility(user: star, mode: mode, listed: [], isInvisible: false))
        }
        let (before, meanwhile): (Visibility.Mode, Visibility.Mode) = random.isOnce(in: 2) ? (.everyone, .nobody) : (.nobody, .everyone)
        let isolated = options.node(&random)
        var steps = [
            asks(at - 500, before), Step(at: at, action: .isolate(node: isolated, duration: 9_000)),
            asks(at + random.number(in: 10...1_500), meanwhile),
        ]
        if random.isOnce(in: 2) { for delay in [2_600, 3_600, 4_600, 5_600] { steps.append(asks(at + delay, before)) } }
        for user in 0..<options.stagedUsersCount {
            steps.add(at - 600, .subscribe(user: user, targets: [star], seconds: nil, sync: false))
            for _ in 0...2 {
                let drop = Step.Action.drop(client: user * SimulatedClient.devicesPerUser, comesBackAfter: random.number(in: 1...40))
                steps.add(at + random.number(in: 0...7_000), drop)
            }
        }
        for _ in 0...5 {
            steps.add(Plan.setStatus(of: star, &random), at: at + random.number(in: 100...7_000))
        }
        return steps
    }

    /// One node ends, and another receives messages late. Users whose slots have just become active at a new owner hide meanwhile.
    private static func takeover(from stars: [Int], _ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        let at = random.number(in: 1_000...max(options.activeMilliseconds - 3_000, 1_000))
        let slow = options.node(&random)
        var steps: [Step] = []
        for node in 0..<options.nodesCount where node != slow {
            for (from, to) in [(slow, node), (node, slow)] {
                steps.add(at, .delay(from: from, to: to, milliseconds: random.number(in: 200...800), duration: 5_000))
            }
        }
        let (ended, down) = (options.node(&random), random.number(in: 10...4_000))
        let end =
            options.faults.contains(.kills)
            ? Step.Action.kill(node: ended, downMilliseconds: down) : .drain(node: ended, downMilliseconds: down)
        steps.add(at + random.number(in: 1...300), end)
        for delay in 0..<8 {
            for star in stars {
                let mode: Visibility.Mode = delay % 2 == 1 ? .nobody : .everyone
                let action = Step.Action.setVisibility(user: star, mode: mode, listed: [], isInvisible: false)
                steps.add(at + delay * 500 + random.number(in: 0...499), action)
            }
        }
        for delay in 0..<80 { steps += glance(at + delay * 60, options, &random) }
        return steps
    }

    /// Logs in a device that knows nothing, and logs it out.
    private static func glance(_ at: Int, _ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        let client = options.user(&random) * SimulatedClient.devicesPerUser + 1
        return [
            Step(at: at, action: .login(client: client, node: 0, resumes: false)),
            Step(at: at + random.number(in: 15...55), action: .drop(client: client, comesBackAfter: nil)),
        ]
    }

    private static func search(for star: Int, _ at: Int, _ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        let node = { (random: inout SplitMix64) in options.node(&random) }
        let user = { (random: inout SplitMix64) in options.user(&random) }
        let mode: Visibility.Mode = random.isOnce(in: 2) ? .nobody : .everyone
        var steps = [Step(at: at, action: .setVisibility(user: star, mode: mode, listed: [], isInvisible: false))]
        if options.faults.contains(.delays) {
            let action = Step.Action.delay(
                from: node(&random), to: node(&random), milliseconds: random.number(in: 300...800), duration: 900)
            steps.add(at - random.number(in: 0...400), action)
        }
        if options.faults.contains(.resets) {
            steps.add(at + random.number(in: -4...2), .reset(from: node(&random), to: node(&random)))
        }
        for _ in 0...2 {
            let delay = random.isOnce(in: 2) ? random.number(in: 1...20) : random.number(in: 1...600)
            steps.add(at + delay, .query(user: user(&random), targets: [star]))
        }
        for _ in 0...1 {
            let drop = Step.Action.drop(
                client: user(&random) * SimulatedClient.devicesPerUser, comesBackAfter: random.number(in: 1...20))
            steps.add(at + random.number(in: -10...300), drop)
        }
        for _ in 0...2 { steps += glance(at + random.number(in: 0...300), options, &random) }
        steps.add(Plan.setStatus(of: star, &random), at: at + random.number(in: -20...300))
        return steps
    }
}
