import PresenceCore
import PresenceWire

/// Histories whose faults are staged step by step. Random faults would hit the right moment once in many thousands of histories.
extension Plan {
    /// Logs in all users, who follow some others.
    static func audience(_ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        var steps: [Step] = []
        for user in 0..<options.stagedUsersCount {
            let client = user * SimulatedClient.devicesPerUser
            let targets = (0...3).map { _ in random.number(in: 0...options.usersCount - 1) }
            steps.append(Step(at: random.number(in: 0...200), action: .login(client: client, node: 0, resumes: false)))
            steps.append(
                Step(at: random.number(in: 300...800), action: .subscribe(user: user, targets: targets, seconds: nil, sync: false)))
        }
        return steps
    }

    static func setStatus(of user: Int, _ random: inout SplitMix64) -> Step.Action {
        .setStatus(user: user, text: "text \(random.number(in: 0...999_999))", seconds: nil)
    }

    /// Two nodes die while many changes wait for their slow disks, so that other nodes become replicas. Both come back at once.
    static func losing(_ options: HistoryOptions) -> [Step] {
        guard options.isLoss else { return [] }
        var random = SplitMix64(seed: options.seed).split(11)
        var steps = audience(options, &random)
        for round in 0..<2 {
            let at = 1_500 + round * 7_000 + random.number(in: 0...500)
            let died = at + random.number(in: 300...800)
            let first = random.number(in: 0...options.nodesCount - 1)
            let second = (first + random.number(in: 1...options.nodesCount - 1)) % options.nodesCount
            for node in [first, second] { steps.append(Step(at: at, action: .slowDisk(node: node, milliseconds: 2_500))) }
            // The remaining nodes receive each other's messages late.
            let left = (0..<options.nodesCount).filter { $0 != first && $0 != second }
            for from in left {
                for to in left where to != from {
                    let delay = Step.Action.delay(from: from, to: to, milliseconds: random.number(in: 300...800), duration: 1_500)
                    steps.append(Step(at: died - random.number(in: 0...60), action: delay))
                }
            }
            for user in 0..<options.stagedUsersCount {
                let mode: Visibility.Mode = round == 0 ? .nobody : .list
                let hide = Step.Action.setVisibility(user: user, mode: mode, listed: [], blocked: [], isInvisible: false)
                steps.append(Step(at: died - random.number(in: 1...150), action: hide))
                steps.append(Step(at: at + random.number(in: 1...400), action: setStatus(of: user, &random)))
                steps.append(Step(at: at + random.number(in: 3_000...6_000), action: setStatus(of: user, &random)))
            }
            let down = random.number(in: 1_500...5_500)
            steps.append(Step(at: died, action: .kill(node: first, downMilliseconds: down)))
            steps.append(Step(at: died + random.number(in: 0...20), action: .kill(node: second, downMilliseconds: down)))
        }
        return steps
    }

    /// A node is cut off, or paused, until the others have its slots. The changes made meanwhile are repeated when it is back, and reach it
    /// slowly.
    static func splitting(_ options: HistoryOptions) -> [Step] {
        guard options.isSplit else { return [] }
        var random = SplitMix64(seed: options.seed).split(12)
        var steps = audience(options, &random)
        let (at, duration) = (random.number(in: 1_500...3_000), random.number(in: 7_000...9_000))
        let apart = random.number(in: 0...options.nodesCount - 1)
        let isCutOff = options.faults.contains(.partitions)
        steps.append(
            Step(at: at, action: isCutOff ? .isolate(node: apart, duration: duration) : .pause(node: apart, milliseconds: duration)))
        let end = at + duration
        for user in 0..<options.stagedUsersCount {
            for _ in 0...1 { steps.append(Step(at: random.number(in: at + 5_000...end), action: setStatus(of: user, &random))) }
        }
        for node in 0..<options.nodesCount where node != apart {
            for (from, to) in [(apart, node), (node, apart)] {
                let milliseconds = isCutOff ? random.number(in: 5...60) : random.number(in: 50...400)
                let action = Step.Action.delay(from: from, to: to, milliseconds: milliseconds, duration: 3_500)
                steps.append(Step(at: end - 5, action: action))
            }
        }
        for delay in 0..<600 {
            let targets = (0...2).map { _ in random.number(in: 0...options.usersCount - 1) }
            let action = Step.Action.query(user: random.number(in: 0...options.usersCount - 1), targets: targets)
            steps.append(Step(at: end + delay * 5, action: action))
        }
        return steps
    }

    /// Nodes leave for good, and the last one restarts alone, without former members to wait for.
    static func shrinking(_ options: HistoryOptions) -> [Step] {
        guard options.isShrinking else { return [] }
        var random = SplitMix64(seed: options.seed).split(13)
        var steps = audience(options, &random)
        let last = random.number(in: 0...options.nodesCount - 1)
        var at = 2_000
        for node in 0..<options.nodesCount where node != last {
            steps.append(Step(at: at, action: .drain(node: node, downMilliseconds: 60_000)))
            at += random.number(in: 4_000...6_500)
        }
        if random.isOnce(in: 2) { steps.append(Step(at: at, action: .kill(node: last, downMilliseconds: random.number(in: 10...1_000)))) }
        for _ in 0..<20 {
            let action = setStatus(of: random.number(in: 0...options.usersCount - 1), &random)
            steps.append(Step(at: random.number(in: at...options.activeMilliseconds), action: action))
        }
        return steps
    }

    /// A link breaks while all last messages are on their way.
    static func late(_ options: HistoryOptions) -> [Step] {
        guard options.isLate else { return [] }
        var random = SplitMix64(seed: options.seed).split(15)
        let at = options.activeMilliseconds - 1_000
        let from = random.number(in: 0...options.nodesCount - 1)
        let steps = audience(options, &random)
        return steps + (random.isOnce(in: 2) ? lateList(at, from, options, &random) : latePosition(at, from, options, &random))
    }

    /// Streams restart, and their slow subscription lists are on the way. The streams break, receive newer lists and additions, and then
    /// the old lists arrive.
    private static func lateList(_ at: Int, _ from: Int, _ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        var steps: [Step] = []
        for to in 0..<options.nodesCount where to != from {
            steps.append(Step(at: at, action: .delay(from: from, to: to, milliseconds: 800, duration: 50)))
            steps.append(Step(at: at + random.number(in: 52...70), action: .reset(from: from, to: to)))
        }
        for user in 0..<options.stagedUsersCount {
            let client = user * SimulatedClient.devicesPerUser
            let targets = (0...1).map { _ in random.number(in: 0...options.usersCount - 1) }
            steps.append(Step(at: at + random.number(in: 1...10), action: .drop(client: client, comesBackAfter: random.number(in: 1...20))))
            let subscribe = Step.Action.subscribe(user: user, targets: targets, seconds: nil, sync: false)
            steps.append(Step(at: at + random.number(in: 80...200), action: subscribe))
        }
        return steps
    }

    /// A change is lost with a link, and the receiver is slow to ask for it. Its clients receive other records meanwhile, and resume
    /// elsewhere from the later position.
    private static func latePosition(_ at: Int, _ from: Int, _ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        let to = (from + random.number(in: 1...options.nodesCount - 1)) % options.nodesCount
        var steps = [
            Step(at: at - 3, action: .delay(from: from, to: to, milliseconds: 800, duration: 8)),
            Step(at: at + 6, action: .reset(from: from, to: to)),
            Step(at: at + 8, action: .delay(from: to, to: from, milliseconds: 800, duration: 900)),
        ]
        for user in 0..<options.stagedUsersCount {
            let isLost = user % 2 == 0
            steps.append(
                Step(at: at + (isLost ? random.number(in: 0...4) : random.number(in: 260...450)), action: setStatus(of: user, &random)))
            let drop = Step.Action.drop(client: user * SimulatedClient.devicesPerUser, comesBackAfter: random.number(in: 1...20))
            steps.append(Step(at: at + random.number(in: 300...600), action: drop))
        }
        return steps
    }
}
