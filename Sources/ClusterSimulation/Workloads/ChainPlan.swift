import PresenceWire

/// The steps of histories in which few users befriend one another (<doc:Architecture#Relationship-chain>).
///
/// The lists are short, so that they are full. Calls about the same two users come at once, and faults meet them.
enum ChainPlan {
    /// The faults of a history: mostly few kinds, so that the answers of calls are certain.
    private static let faults: [Set<HistoryOptions.Fault>] = [
        [], [], [.kills], [.kills], [.kills, .resets], [.resets, .delays], [.drains], [.drains, .kills], [.partitions], [.pauses],
        [.disks], [.disks, .kills], [.clocks], [.clocks, .kills], [.partitions, .kills], [.resets, .delays, .kills],
    ]

    static func setUp(_ options: inout HistoryOptions, _: inout SplitMix64) {
        var random = SplitMix64(seed: options.seed).split(371)
        options.nodesCount = [1, 2, 3, 3, 3, 4, 4, 5][random.number(in: 0...7)]
        options.usersCount = random.number(in: 3...5)
        if !random.isOnce(in: 6) { options.faults = faults[random.number(in: 0...faults.count - 1)] }
        options.stepsCount = random.number(in: 0...30)
        options.activeMilliseconds = random.number(in: 8_000...20_000)
        options.settings.policy.chain.friendsMax = Int64(random.number(in: 2...4))
        options.settings.policy.chain.defaultAllowType = allowType(&random)
        options.settings.policy.chain.rate = nil
        // The checks of hidden users know what users hide themselves.
        options.settings.policy.chain.blockHidesStatus = false
        random = SplitMix64(seed: options.seed).split(373)
        options.settings.policy.chain.autoNotifiesFriends = !random.isOnce(in: 4)
    }

    static func allowType(_ random: inout SplitMix64) -> ChainPolicy.AllowType {
        [.any, .any, .any, .confirm, .confirm, .confirm, .deny][random.number(in: 0...6)]
    }

    static func steps(_ options: HistoryOptions) -> [Step] {
        var random = SplitMix64(seed: options.seed).split(372)
        var (steps, number): ([Step], Int) = ([], 0)
        // In a history without blocks no event may overtake another one.
        let hasBlocks = random.isOnce(in: 2)
        for _ in 0..<random.number(in: 8...24) {
            let at = options.moment(&random)
            let span = [0, 10, 60, 400][random.number(in: 0...3)]
            let (first, second) = pair(options, &random)
            for _ in 0..<random.number(in: 1...4) {
                number += 1
                let isFirst = random.isOnce(in: 2)
                let action = decision(
                    isFirst ? first : second, isFirst ? second : first, number, mayBlock: hasBlocks, options, &random)
                steps.add(at + random.number(in: 0...span), .chain(action))
            }
            if random.isOnce(in: 2) { steps += fault(at: at + random.number(in: 0...60), options, &random) }
            if random.isOnce(in: 12) { steps.append(setAllowType(at: at + random.number(in: 0...400), options, &random)) }
        }
        for _ in 0..<random.number(in: 10...30) {
            let choice = random.isOnce(in: 4) ? nil : random.number(in: 0...99)
            let sync = ChainAction.sync(
                user: options.user(&random), choice: choice, limit: random.number(in: 1...3))
            steps.add(options.moment(&random), .chain(sync))
        }
        return steps + policies(options, &random) + hiding(options)
    }

    /// Steps by which users show themselves to friends alone, and to everyone again, in some histories.
    private static func hiding(_ options: HistoryOptions) -> [Step] {
        var random = SplitMix64(seed: options.seed).split(374)
        guard random.isOnce(in: 2) else { return [] }
        return (0..<random.number(in: 1...6)).map { _ in
            let mode: Visibility.Mode = random.isOnce(in: 4) ? .everyone : .friends
            let user = options.user(&random)
            return Step(
                at: options.moment(&random),
                action: .setVisibility(user: user, mode: mode, listed: [], isInvisible: false))
        }
    }

    private static func pair(_ options: HistoryOptions, _ random: inout SplitMix64) -> (Int, Int) {
        let first = options.user(&random)
        return (first, (first + random.number(in: 1...options.usersCount - 1)) % options.usersCount)
    }

    private static func decision(
        _ user: Int, _ other: Int, _ number: Int, mayBlock: Bool, _ options: HistoryOptions, _ random: inout SplitMix64
    ) -> ChainAction {
        switch random.number(in: 0...(mayBlock ? 14 : 11)) {
        case 0...4: return .add(user: user, other: other, isTwoWay: !random.isOnce(in: 5), number: number)
        case 5...6: return .accept(user: user, requester: other, isTwoWay: !random.isOnce(in: 3))
        case 7: return .reject(user: user, requester: other)
        case 8: return .delete(user: user, others: Array(0..<options.usersCount).filter { $0 != user }, isTwoWay: random.isOnce(in: 2))
        case 9...11: return .delete(user: user, others: [other], isTwoWay: !random.isOnce(in: 3))
        case 12: return .unblock(user: user, others: [other])
        default:
            let isForAll = random.isOnce(in: 8)
            return .block(user: user, others: isForAll ? Array(0..<options.usersCount).filter { $0 != user } : [other])
        }
    }

    /// A fault in the middle of some calls, of a kind that the history has.
    static func fault(at: Int, _ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        let kinds = HistoryOptions.Fault.allCases.filter { options.faults.contains($0) }
        guard !kinds.isEmpty else { return [] }
        let node = options.node(&random)
        let other = options.node(&random)
        switch kinds[random.number(in: 0...kinds.count - 1)] {
        case .kills: return [Step(at: at, action: .kill(node: node, downMilliseconds: random.number(in: 10...3_000)))]
        case .drains: return [Step(at: at, action: .drain(node: node, downMilliseconds: random.number(in: 10...2_000)))]
        case .resets: return [Step(at: at, action: .reset(from: node, to: other))]
        case .delays:
            let delay = Step.Action.delay(from: node, to: other, milliseconds: random.number(in: 50...800), duration: 2_000)
            return [Step(at: at, action: delay)]
        case .partitions: return [Step(at: at, action: .isolate(node: node, duration: random.number(in: 500...9_000)))]
        case .pauses: return [Step(at: at, action: .pause(node: node, milliseconds: random.number(in: 100...6_000)))]
        case .disks:
            let milliseconds = random.number(in: 500...4_000)
            if random.isOnce(in: 2) { return [Step(at: at, action: .fillDisk(node: node, milliseconds: milliseconds))] }
            return [Step(at: at, action: .slowDisk(node: node, milliseconds: milliseconds))]
        case .clocks: return [Step(at: at, action: .jumpClock(node: node, milliseconds: random.number(in: -20_000...20_000)))]
        case .clients: return []
        }
    }

    /// Changes who may add users without an approval, in some histories.
    private static func policies(_ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        guard random.isOnce(in: 4) else { return [] }
        return (0..<random.number(in: 1...3)).map { _ in
            setAllowType(at: options.moment(&random), options, &random)
        }
    }

    /// Changes who may add the users of the app without an approval.
    private static func setAllowType(at: Int, _ options: HistoryOptions, _ random: inout SplitMix64) -> Step {
        var other = SplitMix64(seed: options.seed).split(375 + UInt64(at))
        let settings =
            "\"friends.autoNotify\":\(other.isOnce(in: 2)),\"rate.chain\":false,\"block.hidesStatus\":false,\"friends.max\":\(options.settings.policy.chain.friendsMax),"
            + "\"profile.defaultAllowType\":\"\(allowType(&random).rawValue)\",\(Publications.keptSettings(options))"
        return Step(at: at, action: .setPolicy("{\"preset\":\"rollcall\",\"settings\":{\(settings)}}"))
    }
}
