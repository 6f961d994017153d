import PresenceCore
import PresenceWire

/// The options of a simulated history. Those that are not set are drawn from the seed, so the seed alone identifies a run.
public struct HistoryOptions: Sendable, CustomStringConvertible {
    /// A kind of fault in a history.
    public enum Fault: String, CaseIterable, Sendable {
        /// A node dies by SIGKILL, loses the unsynced rows of its disk, and comes back.
        case kills
        /// A node drains, leaves and comes back.
        case drains
        /// Connections between nodes break. Messages on their way are lost, or arrive late.
        case resets
        /// A direction between two nodes is slow for a while, as under packet loss.
        case delays
        /// Nodes cannot reach one another, in both directions or in one.
        case partitions
        /// A node is paused for a while, and then goes on.
        case pauses
        /// A disk is full, or slow.
        case disks
        /// A wall clock jumps.
        case clocks
        /// Clients do not read, streams break, and devices disappear.
        case clients
    }

    public let seed: UInt64
    public private(set) var kind = HistoryKind.randomSteps
    /// The number of nodes, 1–50.
    public var nodesCount: Int
    /// Users, each with up to two devices.
    public var usersCount: Int
    public var faults: Set<Fault>
    /// The time of the steps, in virtual milliseconds. Then everything is healed and must come to rest.
    public var activeMilliseconds: Int
    /// The number of steps.
    public var stepsCount: Int
    /// The settings of the cores.
    public var settings: CoreSettings
    /// The gateways of each node.
    public var gatewaysCount: Int
    /// Whether the history is of a harder kind, and some clients come back late, never, or with the position of another cluster.
    public let isHarder: Bool

    /// - Parameter isHarder: see ``isHarder``.
    public init(seed: UInt64, isHarder: Bool = false) {
        self.seed = seed
        self.isHarder = isHarder
        var random = SplitMix64(seed: seed).split(1)
        nodesCount = [1, 2, 3, 3, 3, 4, 5][random.number(in: 0...6)]
        usersCount = random.number(in: 3...14)
        gatewaysCount = random.number(in: 1...2)
        faults = []
        for fault in Fault.allCases where random.isOnce(in: 3) { faults.insert(fault) }
        activeMilliseconds = random.number(in: 4_000...20_000)
        stepsCount = random.number(in: 20...120)
        settings = CoreSettings()
        settings.policy.subscriptionsMax = random.isOnce(in: 2) ? Int64(random.number(in: 2...5)) : 3_000
        settings.digestInterval = .seconds(3)
        settings.watchLinger = .seconds(random.number(in: 1...20))
        if random.isOnce(in: 4) { settings.policy.offlineGrace = .zero }
        if random.isOnce(in: 6) { settings.linkMessagesMax = random.number(in: 16...40) }
        if random.isOnce(in: 2) { settings.relayAbove = random.number(in: 1...2) }
        // The repair by digests would hide other errors. After a split it is needed.
        if faults.isDisjoint(with: [.partitions, .pauses]), random.isOnce(in: 2) { settings.digestInterval = .seconds(30) }
        var details: SplitMix64
        (kind, details) = HistoryKind.drawn(for: self)
        kind.row.setUp(&self, &details)
        // Users of a history seldom change as often as the preset allows. In some histories less is allowed, so that records wait.
        var pacing = SplitMix64(seed: seed).split(390)
        if pacing.isOnce(in: 4) { settings.policy.changesRate = Policy.Rate(calls: 2, seconds: 1) }
    }

    /// Most users of a history that stages steps for each user and probes each one at the end. Beyond it the random steps take any user.
    static let stagedUsersMax = 50
    var stagedUsersCount: Int { min(usersCount, Self.stagedUsersMax) }

    /// Draws a user, a node, and a moment before the end of the faults.
    func user(_ random: inout SplitMix64) -> Int { random.number(in: 0...usersCount - 1) }
    func node(_ random: inout SplitMix64) -> Int { random.number(in: 0...nodesCount - 1) }
    func moment(_ random: inout SplitMix64) -> Int { random.number(in: 0...activeMilliseconds) }

    /// The member whose node ID a second process has; nil in other histories.
    var twinned: Int? { kind == .twoProcessesShareID ? Int(seed % UInt64(nodesCount)) : nil }
    /// Whether the clocks of all nodes jump alike, and stay so.
    var hasCommonJump: Bool { kind == .clocksAreWrong && faults.contains(.clocks) }
    /// Whether a node is stopped for longer than a node that is cut off may show what it knew, and nothing else fails.
    var hasStoppedNode: Bool { kind == .nodeIsCutOff && faults.contains(.pauses) }
    /// Whether one node is cut off or stopped, and nothing else fails.
    var hasCutOffNode: Bool { kind == .nodeIsCutOff || (kind == .twoProcessesShareID && faults.contains(.partitions)) }
    /// The machines: one for each node, and one for the second process with a node ID.
    var hostsCount: Int { kind == .twoProcessesShareID ? nodesCount + 1 : nodesCount }

    public var description: String {
        let names = Fault.allCases.filter { faults.contains($0) }.map(\.rawValue).joined(separator: ",")
        return "seed \(seed): \(nodesCount) nodes of \(gatewaysCount) gateways, \(usersCount) users, \(stepsCount) steps in "
            + "\(activeMilliseconds) ms, faults \(names.isEmpty ? "none" : names), quota \(settings.policy.subscriptionsMax), "
            + "grace \(settings.policy.offlineGrace), queue \(settings.linkMessagesMax), relays above \(settings.relayAbove)"
    }
}
