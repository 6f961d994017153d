import PresenceCore
import PresenceWire

/// One step of a plan at a moment, whatever the nodes do.
///
/// A step that is impossible when its time comes is skipped. So any part of a plan is a plan, and a failing plan can be reduced.
public struct Step: Sendable, CustomStringConvertible {
    /// The action of a step. Numbers name users, clients and nodes in the order of their creation.
    public enum Action: Sendable {
        case login(client: Int, node: Int, resumes: Bool)
        /// The client logs out, and stays away.
        case logout(client: Int)
        /// The stream breaks with a FIN. The client comes back after so many milliseconds, or never.
        case drop(client: Int, comesBackAfter: Int?)
        /// The device disappears without a FIN. Its gateway notices after the heartbeat's timeout.
        case vanish(client: Int)
        /// The client does not read for so many milliseconds.
        case stall(client: Int, milliseconds: Int)
        case setStatus(user: Int, text: String, seconds: Int64?)
        case subscribe(user: Int, targets: [Int], seconds: Int64?, sync: Bool)
        /// Subscribes to friends (type 3). Others are refused, and the subscription ends with the friendship.
        case followFriends(user: Int, targets: [Int], sync: Bool)
        case unsubscribe(user: Int, targets: [Int]?)
        case query(user: Int, targets: [Int])
        /// A query in a socket of a node that may be paused, which then reads it when it resumes.
        case request(node: Int, user: Int, targets: [Int])
        case list(user: Int)
        case logoutEverywhere(user: Int)
        case setVisibility(user: Int, mode: Visibility.Mode, listed: [Int], isInvisible: Bool)
        case kill(node: Int, downMilliseconds: Int)
        case drain(node: Int, downMilliseconds: Int)
        case reset(from: Int, to: Int)
        case delay(from: Int, to: Int, milliseconds: Int, duration: Int)
        case isolate(node: Int, duration: Int)
        case blind(from: Int, to: Int, duration: Int)
        case pause(node: Int, milliseconds: Int)
        case fillDisk(node: Int, milliseconds: Int)
        case slowDisk(node: Int, milliseconds: Int)
        case jumpClock(node: Int, milliseconds: Int)
        /// The system clocks of some nodes jump, and come back after `duration` milliseconds.
        case jumpClocks(nodes: [Int], milliseconds: Int, duration: Int)
        /// A process with the node ID of a member starts on another machine.
        case startTwin(Twins.Start)
        /// A user publishes an event. Each event of a history has another value.
        case publish(user: Int, value: Int64, seconds: Int64, onlineOnly: Bool, synced: Bool)
        /// A login that reports that vendor push reaches the device.
        case loginReachable(client: Int, node: Int)
        /// A change of the app's policy, as an administrator writes it.
        case setPolicy(String)
        /// The app ends all sessions of a user. Earlier tokens are void.
        case kick(user: Int)
        /// A node loses facts of users that it keeps for another owner.
        case loseRows(node: Int, users: [Int], LostFacts)
        /// A decision of a user about others, or a read of its friend list.
        case chain(ChainAction)
        /// A call of an app's back end about a user's friends.
        case backEnd(BackEndAction)
        /// A call about profiles.
        case profile(ProfileAction)
        /// A login or a renewal with a token that ends, or another login of the same device.
        case session(SessionAction)
        /// A call of a user about its own lists.
        case ownList(OwnListAction)
        /// An attempt of a call with a key, or the end of the owner that performs it.
        case repeated(RepeatAction)

        /// The node in whose socket a request waits while the node is paused; nil for other steps.
        var requestedNode: Int? { if case .request(let node, _, _) = self { node } else { nil } }
    }

    /// The time of the step, in virtual milliseconds after the start.
    public let at: Int
    public let action: Action

    public var description: String { "at \(at) ms: \(action)" }

    /// Whether a user may hide from another.
    var hidesUser: Bool { if case .setVisibility = action { true } else { false } }
}

extension [Step] {
    /// Adds a step. Of its moment and its action that which is drawn first comes first.
    mutating func add(_ at: Int, _ action: Step.Action) { append(Step(at: at, action: action)) }
    mutating func add(_ action: Step.Action, at: Int) { append(Step(at: at, action: action)) }
}

/// The steps of one history, in the order of their times.
public struct Plan: Sendable {
    public var steps: [Step]

    public init(steps: [Step]) { self.steps = steps }

    /// Draws a plan.
    public init(_ options: HistoryOptions) {
        var random = SplitMix64(seed: options.seed).split(2)
        let hasFaults = options.kind.row.hasRandomFaults
        var steps: [Step] = []
        for _ in 0..<options.stepsCount {
            let at = options.moment(&random)
            let isFault = random.isOnce(in: 4) && hasFaults
            let action = isFault ? Self.fault(options, &random) : Self.work(options, &random)
            steps.add(at, action)
        }
        let apart = options.kind.row.scripts.flatMap { $0(options) }
        // After the end everything is healed, and no more faults follow.
        steps += apart.filter { (0...options.activeMilliseconds).contains($0.at) }
        self.steps = steps.enumerated().sorted { ($0.element.at, $0.offset) < ($1.element.at, $1.offset) }.map(\.element)
    }

    /// The steps that log in all users, who follow some others, and the generator of the steps that come next.
    static func audience(_ options: HistoryOptions, _ stream: UInt64) -> (random: SplitMix64, steps: [Step]) {
        var random = SplitMix64(seed: options.seed).split(stream)
        let steps = audience(options, &random)
        return (random, steps)
    }

    static func audience(_ options: HistoryOptions, _ random: inout SplitMix64) -> [Step] {
        (0..<options.stagedUsersCount).flatMap { user -> [Step] in
            let targets = (0...3).map { _ in options.user(&random) }
            let login = Step.Action.login(client: user * SimulatedClient.devicesPerUser, node: 0, resumes: false)
            let follow = Step.Action.subscribe(user: user, targets: targets, seconds: nil, sync: false)
            return [Step(at: random.number(in: 0...200), action: login), Step(at: random.number(in: 300...800), action: follow)]
        }
    }

    static func setStatus(of user: Int, _ random: inout SplitMix64) -> Step.Action {
        .setStatus(user: user, text: "text \(random.number(in: 0...999_999))", seconds: nil)
    }

    private static func work(_ options: HistoryOptions, _ random: inout SplitMix64) -> Step.Action {
        let user = options.user(&random)
        let client = user * SimulatedClient.devicesPerUser + random.number(in: 0...SimulatedClient.devicesPerUser - 1)
        let node = options.node(&random)
        let some = { (random: inout SplitMix64) in (0..<random.number(in: 1...4)).map { _ in options.user(&random) }
        }
        switch random.number(in: 0...19) {
        case 0...5: return .login(client: client, node: node, resumes: random.isOnce(in: 2))
        case 6: return .logout(client: client)
        case 7: return .drop(client: client, comesBackAfter: random.isOnce(in: 2) ? nil : random.number(in: 1...4_000))
        case 8...11:
            let seconds: Int64? = random.isOnce(in: 4) ? Int64(random.number(in: 1...8)) : nil
            return .setStatus(user: user, text: random.isOnce(in: 8) ? "" : "text \(random.number(in: 0...999_999))", seconds: seconds)
        case 12...15:
            let seconds: Int64? = random.isOnce(in: 5) ? Int64(random.number(in: 2...10)) : nil
            return .subscribe(user: user, targets: some(&random), seconds: seconds, sync: random.isOnce(in: 2))
        case 16: return .unsubscribe(user: user, targets: random.isOnce(in: 4) ? nil : some(&random))
        case 17: return .query(user: user, targets: some(&random))
        case 18: return random.isOnce(in: 2) ? .list(user: user) : .query(user: user, targets: some(&random))
        default: return .logoutEverywhere(user: user)
        }
    }

    private static func fault(_ options: HistoryOptions, _ random: inout SplitMix64) -> Step.Action {
        let enabled = HistoryOptions.Fault.allCases.filter { options.faults.contains($0) }
        guard !enabled.isEmpty else { return work(options, &random) }
        let node = options.node(&random)
        let other = options.node(&random)
        let client = random.number(in: 0...options.usersCount * SimulatedClient.devicesPerUser - 1)
        switch enabled[random.number(in: 0...enabled.count - 1)] {
        case .kills: return .kill(node: node, downMilliseconds: random.number(in: 10...9_000))
        case .drains: return .drain(node: node, downMilliseconds: random.number(in: 10...4_000))
        case .resets: return .reset(from: node, to: other)
        case .delays:
            return .delay(from: node, to: other, milliseconds: random.number(in: 5...800), duration: random.number(in: 100...5_000))
        case .partitions:
            let duration = random.number(in: 100...15_000)
            return random.isOnce(in: 2) ? .isolate(node: node, duration: duration) : .blind(from: node, to: other, duration: duration)
        case .pauses: return .pause(node: node, milliseconds: random.number(in: 20...6_000))
        case .disks:
            let duration = random.number(in: 100...6_000)
            return random.isOnce(in: 2) ? .fillDisk(node: node, milliseconds: duration) : .slowDisk(node: node, milliseconds: duration)
        case .clocks: return .jumpClock(node: node, milliseconds: random.number(in: -20_000...20_000))
        case .clients:
            return random.isOnce(in: 2)
                ? .vanish(client: client) : .stall(client: client, milliseconds: random.number(in: 50...5_000))
        }
    }
}
