import PresenceCore
import PresenceWire

/// One node ends, and the messages to the new owners of its users wait there.
enum WaitingRegistrations {
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        (options.nodesCount, options.faults) = (random.number(in: 4...5), [.kills, .resets, .delays])
        options.activeMilliseconds = 20_000
    }

    /// A node ends, and the registrations at the new owners of its users wait, because one node sends its rows slowly.
    ///
    /// Meanwhile another node with a registration ends, or registers again. No node comes back.
    static func steps(_ options: HistoryOptions) -> [Step] {
        var random = SplitMix64(seed: options.seed).split(19)
        var steps = Plan.audience(options, &random)
        let at = options.activeMilliseconds - 17_000
        let first = random.number(in: 0...options.nodesCount - 1)
        let node = { (count: Int) in (first + count) % options.nodesCount }
        let (slow, ended, other) = (node(0), node(1), node(2))
        for node in 0..<options.nodesCount where node != slow {
            let delay = Step.Action.delay(from: slow, to: node, milliseconds: random.number(in: 700...800), duration: 1_000)
            steps.append(Step(at: at - 20, action: delay))
        }
        steps.append(Step(at: at, action: .kill(node: ended, downMilliseconds: 60_000)))
        let end = at + random.number(in: 60...300)
        let dies = random.isOnce(in: 2)
        if dies {
            steps.append(Step(at: end, action: .kill(node: other, downMilliseconds: 60_000)))
        } else {
            for node in 0..<options.nodesCount where node != other { steps.append(Step(at: end, action: .reset(from: other, to: node))) }
        }
        for client in 0..<options.stagedUsersCount * SimulatedClient.devicesPerUser {
            let delay = dies ? 2_000 : random.number(in: -2...8)
            steps.append(Step(at: end + delay, action: .drop(client: client, comesBackAfter: nil)))
        }
        return steps
    }
}
