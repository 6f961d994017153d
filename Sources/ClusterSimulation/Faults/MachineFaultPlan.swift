import PresenceCore
import PresenceWire

/// The steps of histories in which one machine has a fault, or two have the same one.
enum MachineFaultPlan {
    static func steps(_ options: HistoryOptions) -> [Step] {
        var random = SplitMix64(seed: options.seed).split(351)
        switch options.kind {
        case .clockJump: return Plan.audience(options, &random) + clockJump(options, &random)
        case .fullDisk: return Plan.audience(options, &random) + fullDisk(options, &random)
        case .cutOff: return Plan.audience(options, &random) + cutOff(options, &random)
        case .wrongClocks: return Plan.audience(options, &random) + wrongClocks(options, &random)
        case .twin: return Plan.audience(options, &random) + twin(options, &random)
        case .lostRows: return Plan.audience(options, &random) + lostRows(options, &random)
        case .random, .befriending: return faultsAmongOthers(options, &random)
        default: return []
        }
    }

    /// One node, or in some histories two of four or more.
    private static func faultyNodes(_ options: HistoryOptions, _ random: inout SplitMix64) -> [Int] {
        let first = random.number(in: 0...options.nodesCount - 1)
        let isPair = options.nodesCount > 3 && random.isOnce(in: 3)
        return isPair ? [first, (first + random.number(in: 1...options.nodesCount - 1)) % options.nodesCount] : [first]
    }

    private static func jump(_ random: inout SplitMix64) -> Int {
        let jumps = [300_000, 3_600_000, -300_000, -3_600_000, random.number(in: 70_000...400_000)]
        return jumps[random.number(in: 0...jumps.count - 1)]
    }

    /// A clock jumps for three seconds. In some histories its process is killed meanwhile.
    private static func clockJump(_ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        let (nodes, at) = (faultyNodes(options, &random), random.number(in: 4_000...5_000))
        var steps = [Step(at: at, action: .jumpClocks(nodes: nodes, milliseconds: jump(&random), duration: 3_000))]
        if random.isOnce(in: 4) {
            let kill = Step.Action.kill(node: nodes[0], downMilliseconds: random.number(in: 10...2_000))
            steps.append(Step(at: at + random.number(in: 0...4_000), action: kill))
        }
        return steps + changes(options, from: at, &random)
    }

    /// The clocks of one node or two are wrong for many seconds, or all clocks jump alike and stay so.
    private static func wrongClocks(_ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        let at = random.number(in: 3_000...5_000)
        let changes = [0, 10_000, 33_000].flatMap { Self.changes(options, from: at + $0, &random) }
        if options.faults.contains(.clocks) {
            let ahead = random.isOnce(in: 2) ? 300_000 : random.number(in: 3_000...50_000)
            let all = Array(0..<options.nodesCount)
            return changes + [Step(at: at, action: .jumpClocks(nodes: all, milliseconds: ahead, duration: options.activeMilliseconds))]
        }
        let first = random.number(in: 0...options.nodesCount - 1)
        let second = (first + random.number(in: 1...options.nodesCount - 1)) % options.nodesCount
        let same = jump(&random)
        let isSame = random.isOnce(in: 2)
        // Two nodes of three must not follow one another, even after 30 s (`ClockCheck.commonJumpMin`). Of two nodes, all have jumped.
        let longest = options.nodesCount > 2 ? 40_000 : 25_000
        let steps = (random.isOnce(in: 2) ? [first, second] : [first]).map { node in
            let jump = Step.Action.jumpClocks(
                nodes: [node], milliseconds: isSame ? same : jump(&random), duration: random.number(in: 5_000...longest))
            return Step(at: at + random.number(in: 0...1_000), action: jump)
        }
        guard random.isOnce(in: 4) else { return changes + steps }
        let kill = Step.Action.kill(node: first, downMilliseconds: random.number(in: 10...2_000))
        return changes + steps + [Step(at: at + random.number(in: 0...20_000), action: kill)]
    }

    /// A second process with a member's node ID starts: while the member is alive, while it is cut off, or while nobody answers.
    private static func twin(_ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        guard let member = options.twinned else { return [] }
        let at = random.number(in: 4_000...6_000)
        let third = (member + random.number(in: 1...options.nodesCount - 1)) % options.nodesCount
        let isAlone = random.isOnce(in: 3)
        let start = Twins.Start(
            contact: random.isOnce(in: 4) ? member : third, hasDisk: random.isOnce(in: 2),
            cut: options.faults.contains(.partitions) ? .member : isAlone ? .newcomer : .none,
            cutMilliseconds: random.number(in: 8_000...14_000), delayMilliseconds: random.number(in: 0...4_000))
        var steps = [0, 8_000, 16_000].flatMap { changes(options, from: at + $0, &random) } + [Step(at: at, action: .startTwin(start))]
        // A member that is cut off may show what it knew. Its clients ask for it all the time.
        for moment in stride(from: at, to: at + 12_000, by: 250) where start.cut == .member {
            let targets = (0...3).map { _ in random.number(in: 0...options.usersCount - 1) }
            steps.append(Step(at: moment, action: .query(user: random.number(in: 0...options.usersCount - 1), targets: targets)))
        }
        return steps
    }

    /// A disk is full for some seconds, or two are at once.
    private static func fullDisk(_ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        let at = random.number(in: 3_000...4_000)
        let isPair = random.isOnce(in: 4)
        let first = random.number(in: 0...options.nodesCount - 1)
        let duration = random.number(in: 4_000...10_000)
        var steps = [Step(at: at, action: .fillDisk(node: first, milliseconds: duration))]
        if isPair { steps.append(Step(at: at, action: .fillDisk(node: (first + 1) % options.nodesCount, milliseconds: duration))) }
        let policy = "{\"preset\":\"rollcall\",\"settings\":{\(Plan.keptSettings(options))}}"
        for _ in 0..<4 {
            steps.append(Step(at: random.number(in: at...at + duration), action: .setPolicy(policy)))
            steps.append(
                Step(at: random.number(in: at...at + duration), action: .kick(user: random.number(in: 0...options.usersCount - 1))))
        }
        return steps + changes(options, from: at, &random)
    }

    /// A node is cut off or stopped while users hide. Its clients ask for them all the time.
    private static func cutOff(_ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        let (at, duration) = (random.number(in: 3_000...4_000), random.number(in: 26_000...34_000))
        let faulty = faultyNodes(options, &random)
        var steps = faulty.map { node in
            let isolation = Step.Action.isolate(node: node, duration: duration)
            return Step(at: at, action: options.hasStoppedNode ? .pause(node: node, milliseconds: duration) : isolation)
        }
        for user in 0..<options.stagedUsersCount {
            let hide = Step.Action.setVisibility(user: user, mode: .nobody, listed: [], blocked: [], isInvisible: false)
            steps.append(Step(at: at + random.number(in: 0...10_000), action: hide))
        }
        // Most users are on nodes that stay reachable.
        for user in 0..<options.stagedUsersCount {
            let login = Step.Action.login(
                client: user * SimulatedClient.devicesPerUser + 1, node: user % options.nodesCount, resumes: false)
            steps.append(Step(at: random.number(in: 800...1_500), action: login))
            steps.append(Step(at: 1_600, action: .logout(client: user * SimulatedClient.devicesPerUser)))
        }
        for moment in stride(from: at, to: at + duration, by: 250) {
            let targets = (0...3).map { _ in random.number(in: 0...options.usersCount - 1) }
            let viewer = random.number(in: 0...options.usersCount - 1)
            steps.append(Step(at: moment, action: .query(user: viewer, targets: targets)))
            for node in faulty where options.hasStoppedNode {
                steps.append(Step(at: moment, action: .request(node: node, user: viewer, targets: targets)))
            }
        }
        return steps
    }

    /// Nodes lose facts of one user, of some or of all, until shortly before the end.
    private static func lostRows(_ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        let last = options.activeMilliseconds
        return (0...9).map { number in
            let user = random.number(in: 0...options.usersCount - 1)
            let users = [[user], Array(0...user), Array(0..<options.usersCount)][random.number(in: 0...2)]
            let facts = LostFacts.allCases[random.number(in: 0...LostFacts.allCases.count - 1)]
            let at = number < 4 ? last - random.number(in: 0...500) : random.number(in: 2_000...last)
            return Step(at: at, action: .loseRows(node: random.number(in: 0...options.nodesCount - 1), users: users, facts))
        } + changes(options, from: 2_000, &random)
    }

    /// The users of a history, by number. If replicas lose rows, all users are in one range of slots, or in one slot.
    ///
    /// A few users in 65,536 slots would differ in ranges of their own, and no comparison would go further.
    static func userIDs(_ options: HistoryOptions) -> [UserID] {
        let plain = (0..<options.usersCount).map { UserID(app: "default", id: "user-\($0)") }
        guard options.kind == .lostRows else { return plain }
        var random = SplitMix64(seed: options.seed).split(361)
        let bits = [10, 13, 13, 16][random.number(in: 0...3)]
        let place = HashBucket.Place(number: UInt64(plain[0].slot) >> UInt64(16 - bits), bits: bits)
        return plain.map { user in
            (0...).lazy.map { UserID("\(user.id).\($0)", besides: user) }.first { place.slots.contains($0.slot) }!
        }
    }

    /// Each user sets a status and hides during a fault and after it.
    private static func changes(_ options: HistoryOptions, from at: Int, _ random: inout SplitMix64) -> [Step] {
        (0..<options.stagedUsersCount).flatMap { user in
            let mode: Visibility.Mode = random.isOnce(in: 2) ? .nobody : .everyone
            let hide = Step.Action.setVisibility(user: user, mode: mode, listed: [], blocked: [], isInvisible: false)
            return [
                Step(at: at + random.number(in: 0...8_000), action: Plan.setStatus(of: user, &random)),
                Step(at: at + random.number(in: 0...8_000), action: hide),
            ]
        }
    }

    /// Large jumps and two full disks among the random faults of a history.
    private static func faultsAmongOthers(_ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        guard options.nodesCount > 2, random.isOnce(in: 2) else { return [] }
        var steps: [Step] = []
        let at = random.number(in: 1_000...options.activeMilliseconds)
        if options.faults.contains(.clocks) {
            let nodes = faultyNodes(options, &random)
            let duration = random.number(in: 500...5_000)
            steps.append(Step(at: at, action: .jumpClocks(nodes: nodes, milliseconds: jump(&random), duration: duration)))
        }
        if options.faults.contains(.disks) {
            let first = random.number(in: 0...options.nodesCount - 1)
            let duration = random.number(in: 500...5_000)
            for node in [first, (first + 1) % options.nodesCount] {
                steps.append(Step(at: at, action: .fillDisk(node: node, milliseconds: duration)))
            }
        }
        return steps
    }
}
