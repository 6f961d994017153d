import PresenceWire

/// Many changes and many reconnections, in which a stream decides what it sends again and what it leaves out.
enum Reconnections {
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        options.faults = options.faults.intersection([.disks]).union([.resets, .delays])
        if random.isOnce(in: 2) { options.settings.relayAbove = 1 }
    }

    /// The steps of these histories, and of one in three others: the two devices of a user come and go, and replace each other's news.
    static func steps(_ options: HistoryOptions) -> [Step] {
        var random = SplitMix64(seed: options.seed).split(6)
        guard random.isOnce(in: 3) || options.kind == .clientsReconnect else { return [] }
        var steps: [Step] = []
        for user in 0..<options.stagedUsersCount {
            let client = user * SimulatedClient.devicesPerUser
            steps.add(random.number(in: 0...200), .login(client: client, node: 0, resumes: false))
            let targets = (0..<4).map { _ in options.user(&random) }
            steps.add(random.number(in: 300...800), .subscribe(user: user, targets: targets, seconds: nil, sync: false))
        }
        for _ in 0..<options.stepsCount / 2 {
            let at = options.moment(&random)
            steps += random.isOnce(in: 3) ? missedWrite(at, options, &random) : missedChange(at, options, &random)
        }
        return steps
    }

    private static func client(_ options: HistoryOptions, _ random: inout SplitMix64) -> Int {
        options.user(&random) * SimulatedClient.devicesPerUser
    }

    /// A change travels on a link that is slow or breaks. Another change, on another link, sends a later position. Then a stream breaks.
    private static func missedChange(_ at: Int, _ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        let user = { (random: inout SplitMix64) in options.user(&random) }
        let from = options.node(&random)
        let to = (from + random.number(in: 1...max(options.nodesCount - 1, 1))) % options.nodesCount
        let isBroken = options.faults.contains(.resets) && random.isOnce(in: 2)
        var steps: [Step] = []
        if options.faults.contains(.delays), !random.isOnce(in: 3) {
            var ways = isBroken ? [(from, to), (to, from)] : [(from, to)]
            // The receiver of a late message asks the others, and those questions are slow.
            if random.isOnce(in: 2) { ways += (0..<options.nodesCount).filter { $0 != to }.map { (to, $0) } }
            for (from, to) in ways {
                steps.add(at, .delay(from: from, to: to, milliseconds: random.number(in: 100...800), duration: 1_000))
            }
        }
        let changes = (0...5).map { _ in user(&random) }
        for (index, user) in changes.enumerated() {
            let text = "text \(random.number(in: 0...999_999))"
            let delay = index * random.number(in: 0...150)
            steps.add(at + 1 + delay, .setStatus(user: user, text: text, seconds: nil))
        }
        if isBroken { steps.add(at + random.number(in: 1...60), .reset(from: from, to: to)) }
        for _ in 0...2 {
            let drop = Step.Action.drop(client: client(options, &random), comesBackAfter: random.number(in: 1...40))
            steps.add(at + random.number(in: 5...900), drop)
        }
        steps.add(at + random.number(in: 1...300), .query(user: user(&random), targets: Array(changes.prefix(3))))
        return steps
    }

    /// A user subscribes, and its stream breaks and reconnects before the subscription is on disk.
    private static func missedWrite(_ at: Int, _ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        guard options.faults.contains(.disks) else { return missedChange(at, options, &random) }
        let client = client(options, &random)
        let user = client / SimulatedClient.devicesPerUser
        let targets = (0...1).map { _ in options.user(&random) }
        var steps = (0..<options.nodesCount).map { Step(at: at, action: .slowDisk(node: $0, milliseconds: 2_000)) }
        steps.add(at + 1, .subscribe(user: user, targets: targets, seconds: nil, sync: false))
        for delay in [60, 120] {
            steps.add(Plan.setStatus(of: user, &random), at: at + delay)
        }
        steps.add(.drop(client: client, comesBackAfter: random.number(in: 1...20)), at: at + random.number(in: 100...400))
        return steps
    }
}
