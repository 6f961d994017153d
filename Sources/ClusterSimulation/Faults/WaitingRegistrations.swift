import PresenceWire

/// A node ends, and the registrations at the new owners of its users wait, because one node sends its rows slowly.
///
/// Meanwhile another node with a registration ends, or registers again. No node comes back.
enum WaitingRegistrations {
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        (options.nodesCount, options.faults) = (random.number(in: 4...5), [.kills, .resets, .delays])
        options.activeMilliseconds = 20_000
    }

    static func steps(_ options: HistoryOptions) -> [Step] {
        var (random, steps) = Plan.audience(options, 19)
        let at = options.activeMilliseconds - 17_000
        let first = options.node(&random)
        let node = { (count: Int) in (first + count) % options.nodesCount }
        let (slow, ended, other) = (node(0), node(1), node(2))
        for node in 0..<options.nodesCount where node != slow {
            steps.add(at - 20, .delay(from: slow, to: node, milliseconds: random.number(in: 700...800), duration: 1_000))
        }
        steps.add(at, .kill(node: ended, downMilliseconds: 60_000))
        let end = at + random.number(in: 60...300)
        let dies = random.isOnce(in: 2)
        if dies {
            steps.add(end, .kill(node: other, downMilliseconds: 60_000))
        } else {
            for node in 0..<options.nodesCount where node != other { steps.add(end, .reset(from: other, to: node)) }
        }
        for client in 0..<options.stagedUsersCount * SimulatedClient.devicesPerUser {
            let delay = dies ? 2_000 : random.number(in: -2...8)
            steps.add(end + delay, .drop(client: client, comesBackAfter: nil))
        }
        return steps
    }
}
