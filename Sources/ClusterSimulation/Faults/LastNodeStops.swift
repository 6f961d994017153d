import PresenceWire

/// Two nodes of four leave, and then all users follow some others.
///
/// One more node leaves, and the last one is told to stop. A second node starts, and is told to stop before it can have received the
/// rows of the last one. The last one ends. A third node starts, and all lists are emptied there.
enum LastNodeStops {
    static func setUp(_ options: inout HistoryOptions, _: inout SplitMix64) {
        (options.nodesCount, options.faults, options.stepsCount, options.activeMilliseconds) = (4, [.drains], 0, 14_000)
    }

    static func steps(_ options: HistoryOptions) -> [Step] {
        var random = SplitMix64(seed: options.seed).split(32)
        var steps: [Step] = []
        // The earliest time at which a node ends after it was told to stop.
        let stop = 1_500
        let (secondStops, secondStarts) = (1_000, 5_000)
        let lastStops = secondStarts - random.number(in: 300...1_200)
        let thirdStarts = lastStops + stop + random.number(in: 60...200)
        let first = random.number(in: 0...3)
        let nodes = (0..<4).map { (first + $0) % 4 }
        steps += [
            Step(at: secondStops, action: .drain(node: nodes[2], downMilliseconds: thirdStarts - secondStops - stop)),
            Step(at: secondStops, action: .drain(node: nodes[1], downMilliseconds: secondStarts - secondStops - stop)),
            Step(at: 3_300, action: .drain(node: nodes[3], downMilliseconds: 6_000)),
            Step(at: lastStops, action: .drain(node: nodes[0], downMilliseconds: 2_500)),
            Step(at: secondStarts + random.number(in: 2...30), action: .drain(node: nodes[1], downMilliseconds: 2_500)),
        ]
        for user in 0..<options.stagedUsersCount {
            let client = user * SimulatedClient.devicesPerUser
            steps.add(random.number(in: 0...200), .login(client: client, node: 0, resumes: false))
            let targets = (0...3).map { _ in options.user(&random) }
            let at = random.number(in: 2_700...3_200)
            steps.add(at, .subscribe(user: user, targets: targets, seconds: nil, sync: false))
            steps.add(thirdStarts + random.number(in: 60...200), .unsubscribe(user: user, targets: nil))
        }
        return steps
    }
}
