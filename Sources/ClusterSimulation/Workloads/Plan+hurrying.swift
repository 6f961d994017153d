import PresenceCore
import PresenceWire

extension Plan {
    /// A process ends while its clients' calls wait for slow disks. The next one starts at once and receives other calls.
    ///
    /// The one after it follows soon, and sends as many requests as that one did.
    static func hurrying(_ options: HistoryOptions) -> [Step] {
        guard options.isHurry else { return [] }
        var random = SplitMix64(seed: options.seed).split(20)
        var steps = audience(options, &random)
        for at in stride(from: 1_500, to: options.activeMilliseconds - 2_500, by: 4_000) {
            for node in 0..<options.nodesCount { steps.append(Step(at: at, action: .slowDisk(node: node, milliseconds: 2_000))) }
            let node = random.number(in: 0...options.nodesCount - 1)
            let first = at + random.number(in: 100...300)
            for ended in [first, first + random.number(in: 300...600)] {
                steps.append(Step(at: ended, action: .kill(node: node, downMilliseconds: random.number(in: 10...60))))
                for user in 0..<options.stagedUsersCount {
                    steps.append(Step(at: ended - random.number(in: 1...90), action: setStatus(of: user, &random)))
                    for _ in 0...2 {
                        let targets = (0...1).map { _ in random.number(in: 0...options.usersCount - 1) }
                        let other = Step.Action.subscribe(user: user, targets: targets, seconds: nil, sync: false)
                        let action = random.isOnce(in: 2) ? other : setStatus(of: user, &random)
                        steps.append(Step(at: ended + random.number(in: 20...900), action: action))
                    }
                }
            }
        }
        return steps
    }
}
