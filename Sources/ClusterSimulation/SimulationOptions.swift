import PresenceCore
import PresenceWire

/// The options of a simulated history. Those that are not set are drawn from the seed, so the seed alone identifies a run.
public struct SimulationOptions: Sendable, CustomStringConvertible {
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
    /// Whether more histories are of the kinds below, and some clients come back late, never, or with the position of another cluster. That
    /// finds more errors.
    public let isHarder: Bool
    /// One node ends, and nothing else fails.
    public let isDeparture: Bool
    /// Clients come and go all the time, over links that are slow and break.
    public let isReturn: Bool
    /// Users hide and show themselves again and again.
    public let isSeeking: Bool
    /// Two nodes of four or more die at once, while disks and links are slow.
    public let isLoss: Bool
    /// One node is cut off or paused until it is declared dead, and receives calls when it is back.
    public let isSplit: Bool
    /// The nodes leave one after the other, until one is left.
    public let isShrinking: Bool
    /// The last event is the break of a link, and what was on its way is late.
    public let isLate: Bool
    /// Users set their visibility from two places at once.
    public let isContested: Bool
    /// Two nodes are cut off from two others, and all four accept changes.
    public let isHalved: Bool
    /// One node ends, and the messages to the new owners of its users wait there.
    public let isSuccession: Bool
    /// Processes end while disks are slow, and the next processes send requests at once.
    public let isHurry: Bool
    /// One node ends for good, and the others learn of it one after the other.
    public let isInheritance: Bool
    /// One node is cut off and restarts meanwhile, and receives calls as soon as the others are reachable.
    public let isRejoining: Bool
    /// Links break twice, and the answer to a question of the first time arrives after the second.
    public let isOutdated: Bool
    /// A change is lost with a link, and clients read a later position before that is found.
    public let isOvertaken: Bool
    /// The last remaining node is told to stop, and so is one that has just started.
    public let isStopping: Bool
    /// The policy removes users who have been away for seven seconds.
    public let isRemoval: Bool

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
        settings.subscriptionsMax = random.isOnce(in: 2) ? random.number(in: 2...5) : 3_000
        settings.digestInterval = .seconds(3)
        settings.watchLinger = .seconds(random.number(in: 1...20))
        if random.isOnce(in: 4) { settings.offlineGrace = .zero }
        if random.isOnce(in: 6) { settings.linkMessagesMax = random.number(in: 16...40) }
        if random.isOnce(in: 2) { settings.relayAbove = random.number(in: 1...2) }
        // The repair by digests would hide other errors. After a split it is needed.
        if faults.isDisjoint(with: [.partitions, .pauses]), random.isOnce(in: 2) { settings.digestInterval = .seconds(30) }
        // These kinds come first. The other kinds have the remaining histories, unchanged.
        var latest = SplitMix64(seed: seed).split(40)
        isInheritance = isHarder && latest.isOnce(in: 24)
        isRejoining = isHarder && !isInheritance && latest.isOnce(in: 24)
        var lossy = SplitMix64(seed: seed).split(30)
        let kind = isHarder && !isInheritance && !isRejoining ? lossy.number(in: 0...23) : .max
        (isOutdated, isOvertaken, isStopping) = (kind == 2, kind == 3, kind == 4)
        var removing = SplitMix64(seed: seed).split(341)
        let isLeft = isHarder && !isInheritance && !isRejoining && !isOutdated && !isOvertaken && !isStopping
        isRemoval = isLeft && removing.isOnce(in: 12)
        let isHarder = isLeft && !isRemoval
        var apart = SplitMix64(seed: seed).split(8)
        isDeparture = isHarder && apart.isOnce(in: 10) && nodesCount > 2
        isReturn = isHarder && !isDeparture && apart.isOnce(in: 10)
        isSeeking = isHarder && !isDeparture && !isReturn && apart.isOnce(in: 4)
        if isSeeking, apart.isOnce(in: 3) { settings.linkMessagesMax = 16 }
        if isReturn { faults = faults.intersection([.disks]).union([.resets, .delays]) }
        if isReturn, apart.isOnce(in: 2) { settings.relayAbove = 1 }
        var kinds = SplitMix64(seed: seed).split(10)
        let isFree = isHarder && !isDeparture && !isReturn && !isSeeking
        isLoss = isFree && kinds.isOnce(in: 6)
        isSplit = isFree && !isLoss && kinds.isOnce(in: 5)
        isShrinking = isFree && !isLoss && !isSplit && kinds.isOnce(in: 8)
        isLate = isFree && !isLoss && !isSplit && !isShrinking && kinds.isOnce(in: 5)
        var others = SplitMix64(seed: seed).split(16)
        let isOther = isFree && !isLoss && !isSplit && !isShrinking && !isLate
        isContested = isOther && others.isOnce(in: 3)
        if isContested { (nodesCount, faults) = (others.number(in: 3...5), [.delays]) }
        isHalved = isOther && !isContested && others.isOnce(in: 2)
        if isHalved {
            (nodesCount, faults, settings.subscriptionsMax) = (4, [.partitions], others.number(in: 2...4))
            activeMilliseconds = 16_000
        }
        isSuccession = isOther && !isContested && !isHalved && others.isOnce(in: 2)
        if isSuccession { (nodesCount, faults, activeMilliseconds) = (others.number(in: 4...5), [.kills, .resets, .delays], 20_000) }
        isHurry = isOther && !isContested && !isHalved && !isSuccession
        if isHurry { (nodesCount, faults) = (others.number(in: 3...4), [.kills, .disks]) }
        if isLate { (nodesCount, usersCount, faults) = (kinds.number(in: 3...5), kinds.number(in: 5...9), [.resets, .delays]) }
        if isLoss { (nodesCount, usersCount, faults) = (kinds.number(in: 4...5), 14, [.kills, .disks, .delays]) }
        if isSplit { (nodesCount, faults) = (3, [kinds.isOnce(in: 2) ? .partitions : .pauses, .delays]) }
        if isShrinking { (nodesCount, faults) = (kinds.number(in: 2...3), [.drains, .kills]) }
        if isLoss || isSplit { activeMilliseconds = max(activeMilliseconds, 16_000) }
        if isShrinking { activeMilliseconds = 24_000 }
        stageLatest(&latest)
        stageLossy(&lossy)
        if isStopping { (nodesCount, faults, stepsCount, activeMilliseconds) = (4, [.drains], 0, 14_000) }
        stageRemoval(&removing)
        guard isDeparture else { return }
        faults = [apart.isOnce(in: 2) ? .drains : .kills]
        activeMilliseconds = max(activeMilliseconds, 14_000)
        if apart.isOnce(in: 2) { settings.offlineGrace = .zero }
    }

    private mutating func stageLatest(_ random: inout SplitMix64) {
        if isInheritance {
            (nodesCount, usersCount, faults) = (random.number(in: 4...5), 24, [.kills, .resets, .delays])
            // The repair by digests would hide that a message is missing.
            (activeMilliseconds, stepsCount, settings.digestInterval) = (20_000, 20, .seconds(60))
        }
        if isRejoining {
            (nodesCount, usersCount, faults) = (3, 14, [.partitions, .kills, .delays])
            (activeMilliseconds, stepsCount) = (37_000, 20)
        }
    }

    private mutating func stageRemoval(_ random: inout SplitMix64) {
        guard isRemoval else { return }
        (nodesCount, usersCount, faults) = (random.number(in: 1...4), random.number(in: 4...9), [.kills, .resets, .disks])
        (activeMilliseconds, stepsCount) = (36_000, random.number(in: 0...10))
        settings.digestInterval = .seconds(random.isOnce(in: 2) ? 3 : 30)
        settings.policy.forgetAfterSeconds = 7
        (settings.blankHorizon, settings.watchLinger) = (.seconds(6), .seconds(random.number(in: 1...3)))
    }

    /// Sets up a history in which links break, and nothing else happens except the staged steps.
    private mutating func stageLossy(_ random: inout SplitMix64) {
        guard isOutdated || isOvertaken else { return }
        (stepsCount, activeMilliseconds, faults) = (0, 20_000, [.resets, .delays])
        (settings.subscriptionsMax, settings.relayAbove, settings.linkMessagesMax) = (3_000, 32, CoreSettings().linkMessagesMax)
        settings.digestInterval = .seconds(30)
        if isOutdated { (nodesCount, usersCount) = (random.number(in: 3...4), random.number(in: 8...12)) }
        if isOvertaken { (nodesCount, usersCount) = (random.number(in: 4...5), 50) }
    }

    /// Most users of a history that stages steps for each user and probes each one at the end. Beyond it the random steps take any user.
    static let stagedUsersMax = 50
    var stagedUsersCount: Int { min(usersCount, Self.stagedUsersMax) }

    /// Whether all faults of this history are staged.
    var isStaged: Bool {
        isDeparture || isLoss || isSplit || isShrinking || isLate || isContested || isHalved || isSuccession || isHurry
            || isInheritance || isRejoining || isOutdated || isOvertaken || isStopping || isRemoval
    }

    /// Whether a single node is cut off, so that the age of answers is known for calls made while all nodes know each other again.
    var asksKnownMembers: Bool { isSplit || isRejoining }

    /// Whether nothing delays messages between nodes for longer than a moment.
    ///
    /// Then no user who came back within the grace may be shown as OFFLINE, and a query is as new as it claims.
    var isCalm: Bool { faults.isDisjoint(with: [.partitions, .pauses, .delays, .clocks, .disks]) }

    public var description: String {
        let names = Fault.allCases.filter { faults.contains($0) }.map(\.rawValue).joined(separator: ",")
        return "seed \(seed): \(nodesCount) nodes of \(gatewaysCount) gateways, \(usersCount) users, \(stepsCount) steps in "
            + "\(activeMilliseconds) ms, faults \(names.isEmpty ? "none" : names), quota \(settings.subscriptionsMax), "
            + "grace \(settings.offlineGrace), queue \(settings.linkMessagesMax), relays above \(settings.relayAbove)"
    }
}
