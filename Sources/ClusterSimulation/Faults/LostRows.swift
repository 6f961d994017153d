import PresenceCore
import PresenceWire

/// Nodes lose facts of one user, of some or of all, until shortly before the end.
enum LostRows {
    /// Draws the details from the stream of the other faults of machines.
    static func setUp(_ options: inout HistoryOptions, _: inout SplitMix64) {
        var random = SplitMix64(seed: options.seed).split(MachineFaultPlan.stream)
        _ = random.next()
        (options.activeMilliseconds, options.stepsCount, options.faults) = (12_000, random.number(in: 20...80), [])
        options.settings.digestInterval = .seconds(3)
        MachineFaultPlan.setUp(&options, &random)
    }

    static func steps(_ options: HistoryOptions) -> [Step] {
        var (random, steps) = Plan.audience(options, MachineFaultPlan.stepsStream)
        let last = options.activeMilliseconds
        for number in 0...9 {
            let user = options.user(&random)
            let users = [[user], Array(0...user), Array(0..<options.usersCount)][random.number(in: 0...2)]
            let facts = LostFacts.allCases[random.number(in: 0...LostFacts.allCases.count - 1)]
            let at = number < 4 ? last - random.number(in: 0...500) : random.number(in: 2_000...last)
            steps.add(at, .loseRows(node: options.node(&random), users: users, facts))
        }
        return steps + MachineFaultPlan.changes(options, from: 2_000, &random)
    }

    /// The users of a history, by number. If replicas lose rows, all users are in one range of slots, or in one slot.
    ///
    /// A few users in 65,536 slots would differ in ranges of their own, and no comparison would go further.
    static func userIDs(_ options: HistoryOptions) -> [UserID] {
        let plain = (0..<options.usersCount).map { UserID(app: "default", id: "user-\($0)") }
        guard options.kind == .replicasLoseRows else { return plain }
        var random = SplitMix64(seed: options.seed).split(361)
        let bits = [10, 13, 13, 16][random.number(in: 0...3)]
        let place = HashBucket.Place(number: UInt64(plain[0].slot) >> UInt64(16 - bits), bits: bits)
        return plain.map { user in
            (0...).lazy.map { UserID("\(user.id).\($0)", besides: user) }.first { place.slots.contains($0.slot) }!
        }
    }
}
