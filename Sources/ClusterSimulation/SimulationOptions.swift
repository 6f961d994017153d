import PresenceCore
import PresenceWire

/// What a simulated history is like. Everything that is not set is drawn from the seed, so the seed alone names a run.
public struct SimulationOptions: Sendable, CustomStringConvertible {
    /// What may go wrong in a history.
    public enum Fault: String, CaseIterable, Sendable {
        /// A node dies by SIGKILL, with what its disk had not synced, and comes back.
        case kills
        /// A node drains, leaves and comes back.
        case drains
        /// Connections between nodes break; what was on the way is lost, or arrives late.
        case resets
        /// A direction between two nodes is slow for a while, as under packet loss.
        case delays
        /// Nodes cannot reach one another, in both directions or in one.
        case partitions
        /// A node stands still for a while, then goes on where it was.
        case pauses
        /// A disk is full, or slow.
        case disks
        /// A wall clock jumps.
        case clocks
        /// Clients that do not read, streams that break, devices that vanish.
        case clients
    }

    public let seed: UInt64
    /// Nodes of the cluster, 1–50.
    public var nodesCount: Int
    /// Users, each with up to two devices.
    public var usersCount: Int
    public var faults: Set<Fault>
    /// How long things happen, in virtual milliseconds; then everything is healed and must come to rest.
    public var activeMilliseconds: Int
    /// Things that happen.
    public var stepsCount: Int
    /// What the cores are told.
    public var settings: CoreSettings
    /// Gateways of each node.
    public var gatewaysCount: Int
    /// Some clients come back late, never, or with the position of another cluster, and most histories are of the kinds below: that finds
    /// more.
    public let isHarder: Bool
    /// One node ends, and nothing else goes wrong.
    public let isDeparture: Bool
    /// Clients come and go all the time, over links that are slow and break.
    public let isReturn: Bool
    /// Users hide and show themselves again and again.
    public let isSeeking: Bool
    /// Two nodes of four or more die at once, when disks and links are slow.
    public let isLoss: Bool
    /// One node is cut off or stands still, so long that it is missed, and is asked when it is there again.
    public let isSplit: Bool
    /// One node after the other leaves, until one is left.
    public let isShrinking: Bool
    /// The last that happens is that a link breaks, and what was on its way is late.
    public let isLate: Bool
    /// Users say who may see them from two places at once.
    public let isContested: Bool
    /// Two nodes are cut off from two others, and all four take changes.
    public let isHalved: Bool
    /// One node ends, and what is said to those that have its users waits there.
    public let isSuccession: Bool
    /// Processes end while disks are slow, and the next ones ask at once.
    public let isHurry: Bool
    /// One node ends for good, and the others hear of it one after the other.
    public let isInheritance: Bool
    /// One node is cut off and begins anew meanwhile, and is asked at once when the others are there again.
    public let isRejoining: Bool
    /// Links break twice, and the answer to what was asked after the first time comes after the second.
    public let isOutdated: Bool
    /// A change is lost with a link, and clients read a later position before that is found.
    public let isOvertaken: Bool
    /// The last node that stays is told to stop, and so is one that has just begun.
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
        // What the digests repair would hide what else is wrong; after a split they are needed.
        if faults.isDisjoint(with: [.partitions, .pauses]), random.isOnce(in: 2) { settings.digestInterval = .seconds(30) }
        // These come first, and the others have what is left, as it was.
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
            // What the digests repair would hide that it was not said.
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

    /// Links break, and nothing else happens but what is staged.
    private mutating func stageLossy(_ random: inout SplitMix64) {
        guard isOutdated || isOvertaken else { return }
        (stepsCount, activeMilliseconds, faults) = (0, 20_000, [.resets, .delays])
        (settings.subscriptionsMax, settings.relayAbove, settings.linkMessagesMax) = (3_000, 32, CoreSettings().linkMessagesMax)
        settings.digestInterval = .seconds(30)
        if isOutdated { (nodesCount, usersCount) = (random.number(in: 3...4), random.number(in: 8...12)) }
        if isOvertaken { (nodesCount, usersCount) = (random.number(in: 4...5), 50) }
    }

    /// Users of whom a history stages something each, and of whom each is tried at the end: those of more than these are there, and what is
    /// drawn happens to any of them.
    static let stagedUsersMax = 50
    var stagedUsersCount: Int { min(usersCount, Self.stagedUsersMax) }

    /// What goes wrong in this history is planned, and nothing else does.
    var isStaged: Bool {
        isDeparture || isLoss || isSplit || isShrinking || isLate || isContested || isHalved || isSuccession || isHurry
            || isInheritance || isRejoining || isOutdated || isOvertaken || isStopping || isRemoval
    }

    /// One node alone is cut off: of what is asked while all know one another again it is known how new the answers must be.
    var asksKnownMembers: Bool { isSplit || isRejoining }

    /// Nothing happens that may delay what one node says to another for longer than a moment: then nobody may be shown as OFFLINE who
    /// came back within the grace, and a query is as new as it says.
    var isCalm: Bool { faults.isDisjoint(with: [.partitions, .pauses, .delays, .clocks, .disks]) }

    public var description: String {
        let names = Fault.allCases.filter { faults.contains($0) }.map(\.rawValue).joined(separator: ",")
        return "seed \(seed): \(nodesCount) nodes of \(gatewaysCount) gateways, \(usersCount) users, \(stepsCount) steps in "
            + "\(activeMilliseconds) ms, faults \(names.isEmpty ? "none" : names), quota \(settings.subscriptionsMax), "
            + "grace \(settings.offlineGrace), queue \(settings.linkMessagesMax), relays above \(settings.relayAbove)"
    }
}
