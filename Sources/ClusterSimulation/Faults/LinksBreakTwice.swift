import PresenceCore
import PresenceWire

/// A node asks on new links for the view digests of the others, and their answers are slow.
///
/// The links break before the answers arrive, and so do the next links, with the changes made since. The nodes ask again, slowly, so
/// that the first answer arrives next. One node receives everything, so that the changes are acknowledged.
///
/// The plan starts when all users have been online for long. The answer about a view is then certain.
enum LinksBreakTwice {
    static func setUp(_ options: inout HistoryOptions, _ random: inout SplitMix64) {
        setUpLinks(&options)
        (options.nodesCount, options.usersCount) = (random.number(in: 3...4), random.number(in: 8...12))
    }

    /// Sets up a history in which links break, and nothing else happens except the staged steps.
    static func setUpLinks(_ options: inout HistoryOptions) {
        (options.stepsCount, options.activeMilliseconds, options.faults) = (0, 20_000, [.resets, .delays])
        (options.settings.policy.subscriptionsMax, options.settings.relayAbove) = (3_000, 32)
        options.settings.linkMessagesMax = CoreSettings().linkMessagesMax
        options.settings.digestInterval = .seconds(30)
    }

    static func steps(_ options: HistoryOptions) -> [Step] {
        var (random, steps) = Plan.audience(options, 31)
        for at in stride(from: 11_500, to: options.activeMilliseconds - 1_200, by: 1_300) {
            let from = options.node(&random)
            let spared = (from + random.number(in: 1...options.nodesCount - 1)) % options.nodesCount
            for to in 0..<options.nodesCount where to != from && to != spared { steps += twice(at, from, to) }
            for user in 0..<options.stagedUsersCount {
                steps.add(at + random.number(in: 25...33), Plan.setStatus(of: user, &random))
                for _ in 0...1 {
                    let targets = (0...3).map { _ in options.user(&random) }
                    steps.add(at + random.number(in: 400...1_200), .query(user: user, targets: targets))
                }
            }
        }
        return steps
    }

    /// Reconnects `to`, which asks. Then its link from `from` breaks with the answer on it, and so does the next one, with the changes.
    private static func twice(_ at: Int, _ from: Int, _ to: Int) -> [Step] {
        [
            Step(at: at, action: .delay(from: from, to: to, milliseconds: 800, duration: 15)),
            Step(at: at + 1, action: .reset(from: to, to: from)),
            Step(at: at + 10, action: .delay(from: to, to: from, milliseconds: 800, duration: 900)),
            Step(at: at + 16, action: .reset(from: from, to: to)),
            Step(at: at + 24, action: .delay(from: from, to: to, milliseconds: 800, duration: 12)),
            Step(at: at + 37, action: .reset(from: from, to: to)),
        ]
    }
}
