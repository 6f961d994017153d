import PresenceCore
import PresenceWire

extension Plan {
    /// Users say who may see them, and a moment later, from somewhere else, the contrary or what was so before. From one node everything is
    /// slow, so what was said first may be carried out last.
    static func contested(_ options: SimulationOptions) -> [Step] {
        guard options.isContested else { return [] }
        var random = SplitMix64(seed: options.seed).split(17)
        var steps = audience(options, &random)
        var modes = Array(repeating: Visibility.Mode.everyone, count: options.usersCount)
        for at in stride(from: 1_500, to: options.activeMilliseconds - 1_500, by: 2_500) {
            let slow = random.number(in: 0...options.nodesCount - 1)
            for node in 0..<options.nodesCount where node != slow {
                let delay = Step.Action.delay(from: slow, to: node, milliseconds: random.number(in: 500...800), duration: 120)
                steps.append(Step(at: at, action: delay))
            }
            for user in 0..<options.stagedUsersCount {
                let first = Visibility.Mode.allCases[random.number(in: 0...Visibility.Mode.allCases.count - 1)]
                let second = random.isOnce(in: 2) ? modes[user] : random.isOnce(in: 2) ? .nobody : .everyone
                for (mode, delay) in [(first, random.number(in: 1...60)), (second, random.number(in: 200...400))] {
                    let action = Step.Action.setVisibility(user: user, mode: mode, listed: [], blocked: [], isInvisible: false)
                    steps.append(Step(at: at + delay, action: action))
                }
                modes[user] = second
                // Seen by who may not, it would be by a change.
                for _ in 0...1 { steps.append(Step(at: at + random.number(in: 400...2_300), action: setStatus(of: user, &random))) }
            }
        }
        return steps
    }

    /// Each half of a cluster takes what the other one does not hear of: together a user's lists are longer than the quota. Both devices of a
    /// user are there, and what one of them is told in an answer the other one is told by its stream.
    static func halved(_ options: SimulationOptions) -> [Step] {
        guard options.isHalved else { return [] }
        var random = SplitMix64(seed: options.seed).split(18)
        var steps = audience(options, &random)
        let (at, duration) = (random.number(in: 2_000...3_000), random.number(in: 7_000...9_000))
        for (from, to) in [(0, 2), (0, 3), (1, 2), (1, 3)] {
            steps.append(Step(at: at, action: .blind(from: from, to: to, duration: duration)))
            steps.append(Step(at: at, action: .blind(from: to, to: from, duration: duration)))
        }
        for user in 0..<options.stagedUsersCount {
            let second = user * SimulatedClient.devicesPerUser + 1
            steps.append(Step(at: random.number(in: 900...1_500), action: .login(client: second, node: 0, resumes: false)))
            let some = { (random: inout SplitMix64) in (0...1).map { _ in random.number(in: 0...options.usersCount - 1) } }
            for _ in 0...3 {
                let subscribe = Step.Action.subscribe(user: user, targets: some(&random), seconds: nil, sync: random.isOnce(in: 2))
                steps.append(Step(at: random.number(in: at + 3_500...at + duration), action: subscribe))
            }
            let alone = Step.Action.subscribe(user: user, targets: some(&random), seconds: nil, sync: true)
            let isBefore = random.isOnce(in: 2)
            steps.append(Step(at: isBefore ? random.number(in: 1_600...at) : options.activeMilliseconds - 500, action: alone))
            steps.append(Step(at: random.number(in: at...at + duration), action: setStatus(of: user, &random)))
        }
        return steps
    }

    /// A node ends, and what the others say to the new owners of its users waits there, because one is slow to say what it holds. Meanwhile
    /// another one that has said something ends, or says all anew; nobody comes back.
    static func succeeding(_ options: SimulationOptions) -> [Step] {
        guard options.isSuccession else { return [] }
        var random = SplitMix64(seed: options.seed).split(19)
        var steps = audience(options, &random)
        let at = options.activeMilliseconds - 17_000
        let first = random.number(in: 0...options.nodesCount - 1)
        let place = { (count: Int) in (first + count) % options.nodesCount }
        let (slow, ended, other) = (place(0), place(1), place(2))
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

    /// A process ends while what its clients asked for waits for slow disks; the next one is there at once, and asked for other things; so
    /// is the one after it, soon after, which has asked for as much as it did.
    static func hurrying(_ options: SimulationOptions) -> [Step] {
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
