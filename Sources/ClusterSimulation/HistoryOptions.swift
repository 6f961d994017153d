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

    /// A history whose faults are staged step by step, or the random one.
    public enum Kind: String, CaseIterable, Sendable {
        /// Work and faults at random times.
        case random
        /// One node ends, and nothing else fails.
        case departure
        /// Clients come and go all the time, over links that are slow and break.
        case returning
        /// Users hide and show themselves again and again.
        case seeking
        /// Two nodes of four or more die at once, while disks and links are slow.
        case loss
        /// One node is cut off or paused until it is declared dead, and receives calls when it is back.
        case split
        /// The nodes leave one after the other, until one is left.
        case shrinking
        /// The last event is the break of a link, and what was on its way is late.
        case late
        /// Users set their visibility from two places at once.
        case contested
        /// Two nodes are cut off from two others, and all four accept changes.
        case halved
        /// One node ends, and the messages to the new owners of its users wait there.
        case succession
        /// Processes end while disks are slow, and the next processes send requests at once.
        case hurry
        /// One node ends for good, and the others learn of it one after the other.
        case inheritance
        /// One node is cut off and restarts meanwhile, and receives calls as soon as the others are reachable.
        case rejoining
        /// Links break twice, and the answer to a question of the first time arrives after the second.
        case outdated
        /// A change is lost with a link, and clients read a later position before that is found.
        case overtaken
        /// The last remaining node is told to stop, and so is one that has just started.
        case stopping
        /// The policy removes users who have been away for seven seconds.
        case removal
        /// A clock jumps on one node or two, and comes back.
        case clockJump
        /// One disk is full, or two are, while users hide, are kicked and change the policy.
        case fullDisk
        /// A node is cut off or stopped for half a minute, while users hide from its clients.
        case cutOff
        /// Clocks are wrong for many seconds: of one node, of two, or of all alike.
        case wrongClocks
        /// A second process with a member's node ID starts. In some histories the member is cut off meanwhile.
        case twin
        /// Replicas lose rows of users whose slots are neighbors. Nothing but the repair brings them back.
        case lostRows
        /// Few users add, answer and delete one another, with lists that are soon full.
        case befriending
        /// Few users befriend, block, hide from and follow one another, and their sessions end in every way.
        case crossing
        /// Clients repeat calls by their keys, because an answer was lost or an owner has ended.
        case repeating
    }

    public let seed: UInt64
    public let kind: Kind
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
        var draws = KindDraws(seed: seed)
        kind = draws.kind(ofSeed: seed, isHarder: isHarder, nodesCount: nodesCount)
        stage(&draws)
        // Users of a history seldom change as often as the preset allows. In some histories less is allowed, so that records wait.
        var pacing = SplitMix64(seed: seed).split(390)
        if pacing.isOnce(in: 4) { settings.policy.changesRate = Policy.Rate(calls: 2, seconds: 1) }
    }

    /// Sets up a history of its kind. Each kind draws its details from one of the streams that determined it.
    private mutating func stage(_ draws: inout KindDraws) {
        switch kind {
        case .random: break
        case .clockJump, .fullDisk, .cutOff, .wrongClocks, .twin, .lostRows: stageMachineFault(&draws.machine)
        case .befriending: ChainPlan.stage(&self)
        case .crossing: CrossPlan.stage(&self)
        case .repeating: RepeatPlan.stage(&self)
        case .inheritance, .rejoining: stageInheritance(&draws.inheritance)
        case .outdated, .overtaken, .stopping: stageLossy(&draws.lossy)
        case .removal: stageRemoval(&draws.removal)
        case .departure, .returning, .seeking: stageDeparture(&draws.apart)
        case .loss, .split, .shrinking, .late: stageDeaths(&draws.deaths)
        case .contested, .halved, .succession, .hurry: stageOwners(&draws.owners)
        }
    }

    /// Sets up a history in which one machine has a fault, or two have, and nothing else fails. The checks are as strict as without it.
    private mutating func stageMachineFault(_ random: inout SplitMix64) {
        switch kind {
        case .clockJump, .fullDisk: (activeMilliseconds, stepsCount, faults) = (20_000, random.number(in: 20...80), [])
        case .cutOff:
            var pauses = SplitMix64(seed: seed).split(391)
            (activeMilliseconds, stepsCount, faults) = (42_000, 0, [pauses.isOnce(in: 3) ? .pauses : .partitions])
        // A common jump is followed, so the nodes have another time than the clients.
        case .wrongClocks: (activeMilliseconds, stepsCount, faults) = (45_000, 30, random.isOnce(in: 3) ? [.clocks] : [])
        // A member that is cut off is on its own side of a split.
        case .twin: (activeMilliseconds, stepsCount, faults) = (30_000, 30, random.isOnce(in: 2) ? [.partitions] : [])
        case .lostRows:
            (activeMilliseconds, stepsCount, faults) = (12_000, random.number(in: 20...80), [])
            settings.digestInterval = .seconds(3)
        default: return
        }
        (nodesCount, usersCount) = (random.number(in: 3...5), random.number(in: 6...12))
        settings.linkMessagesMax = CoreSettings().linkMessagesMax
    }

    private mutating func stageInheritance(_ random: inout SplitMix64) {
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
        (nodesCount, usersCount, faults) = (random.number(in: 1...4), random.number(in: 4...9), [.kills, .resets, .disks])
        (activeMilliseconds, stepsCount) = (36_000, random.number(in: 0...10))
        settings.digestInterval = .seconds(random.isOnce(in: 2) ? 3 : 30)
        settings.policy.forgetAfterSeconds = 7
        (settings.blankHorizon, settings.watchLinger) = (.seconds(6), .seconds(random.number(in: 1...3)))
    }

    /// Sets up a history in which links break, or nodes are told to stop, and nothing else happens except the staged steps.
    private mutating func stageLossy(_ random: inout SplitMix64) {
        if isStopping {
            (nodesCount, faults, stepsCount, activeMilliseconds) = (4, [.drains], 0, 14_000)
            return
        }
        (stepsCount, activeMilliseconds, faults) = (0, 20_000, [.resets, .delays])
        (settings.subscriptionsMax, settings.relayAbove, settings.linkMessagesMax) = (3_000, 32, CoreSettings().linkMessagesMax)
        settings.digestInterval = .seconds(30)
        if isOutdated { (nodesCount, usersCount) = (random.number(in: 3...4), random.number(in: 8...12)) }
        if isOvertaken { (nodesCount, usersCount) = (random.number(in: 4...5), 50) }
    }

    /// Sets up a history in which one node ends, clients come and go, or users hide and show themselves.
    private mutating func stageDeparture(_ random: inout SplitMix64) {
        if isSeeking, random.isOnce(in: 3) { settings.linkMessagesMax = 16 }
        if isReturn {
            faults = faults.intersection([.disks]).union([.resets, .delays])
            if random.isOnce(in: 2) { settings.relayAbove = 1 }
        }
        guard isDeparture else { return }
        faults = [random.isOnce(in: 2) ? .drains : .kills]
        activeMilliseconds = max(activeMilliseconds, 14_000)
        if random.isOnce(in: 2) { settings.offlineGrace = .zero }
    }

    /// Sets up a history in which nodes die, are cut off or leave, or a link breaks last.
    private mutating func stageDeaths(_ random: inout SplitMix64) {
        if isLate { (nodesCount, usersCount, faults) = (random.number(in: 3...5), random.number(in: 5...9), [.resets, .delays]) }
        if isLoss { (nodesCount, usersCount, faults) = (random.number(in: 4...5), 14, [.kills, .disks, .delays]) }
        if isSplit { (nodesCount, faults) = (3, [random.isOnce(in: 2) ? .partitions : .pauses, .delays]) }
        if isShrinking { (nodesCount, faults, activeMilliseconds) = (random.number(in: 2...3), [.drains, .kills], 24_000) }
        if isLoss || isSplit { activeMilliseconds = max(activeMilliseconds, 16_000) }
    }

    /// Sets up a history in which changes meet at owners, or owners change.
    private mutating func stageOwners(_ random: inout SplitMix64) {
        if isContested { (nodesCount, faults) = (random.number(in: 3...5), [.delays]) }
        if isHalved {
            (nodesCount, faults, settings.subscriptionsMax) = (4, [.partitions], random.number(in: 2...4))
            activeMilliseconds = 16_000
        }
        if isSuccession { (nodesCount, faults, activeMilliseconds) = (random.number(in: 4...5), [.kills, .resets, .delays], 20_000) }
        if isHurry { (nodesCount, faults) = (random.number(in: 3...4), [.kills, .disks]) }
    }

    /// Most users of a history that stages steps for each user and probes each one at the end. Beyond it the random steps take any user.
    static let stagedUsersMax = 50
    var stagedUsersCount: Int { min(usersCount, Self.stagedUsersMax) }

    /// Whether all faults of this history are staged.
    var isStaged: Bool {
        switch kind {
        case .random, .returning, .seeking, .befriending, .crossing: false
        default: true
        }
    }

    /// The member whose node ID a second process has; nil in other histories.
    var twinned: Int? { kind == .twin ? Int(seed % UInt64(nodesCount)) : nil }
    /// Whether the clocks of all nodes jump alike, and stay so.
    var hasCommonJump: Bool { kind == .wrongClocks && faults.contains(.clocks) }
    /// Whether a node is stopped for longer than a node that is cut off may show what it knew, and nothing else fails.
    var hasStoppedNode: Bool { kind == .cutOff && faults.contains(.pauses) }
    /// Whether one node is cut off or stopped, and nothing else fails.
    var hasCutOffNode: Bool { kind == .cutOff || (kind == .twin && faults.contains(.partitions)) }
    /// The machines: one for each node, and one for the second process with a node ID.
    var hostsCount: Int { kind == .twin ? nodesCount + 1 : nodesCount }

    /// Whether a single node is cut off, so that the age of answers is known for calls made while all nodes know each other again.
    var asksKnownMembers: Bool { isSplit || isRejoining }

    /// Whether nothing but clients fails. Then each node follows a policy before the next one is set.
    var hasClientFaultsAlone: Bool { kind == .random && faults.isSubset(of: [.clients]) }

    /// The setting `rate.changes` as JSON.
    var changesRate: String {
        settings.policy.changesRate.map { "{\"calls\":\($0.calls),\"seconds\":\($0.seconds)}" } ?? "false"
    }

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

extension HistoryOptions {
    /// The faults that may keep a custom status beyond its end.
    static let faultsOfEnds: Set<Fault> = [.partitions, .pauses, .clocks]
    static let faultsOfLogouts = faultsOfEnds.union([.kills, .drains, .disks, .clients])

    var isDeparture: Bool { kind == .departure }
    var isReturn: Bool { kind == .returning }
    var isSeeking: Bool { kind == .seeking }
    var isLoss: Bool { kind == .loss }
    var isSplit: Bool { kind == .split }
    var isShrinking: Bool { kind == .shrinking }
    var isLate: Bool { kind == .late }
    var isContested: Bool { kind == .contested }
    var isHalved: Bool { kind == .halved }
    var isSuccession: Bool { kind == .succession }
    var isHurry: Bool { kind == .hurry }
    var isInheritance: Bool { kind == .inheritance }
    var isRejoining: Bool { kind == .rejoining }
    var isOutdated: Bool { kind == .outdated }
    var isOvertaken: Bool { kind == .overtaken }
    var isStopping: Bool { kind == .stopping }
    var isRemoval: Bool { kind == .removal }
    var isBefriending: Bool { kind == .befriending }
    var isCrossing: Bool { kind == .crossing }
    var isRepeating: Bool { kind == .repeating }
    /// Whether the steps are about the relationship chain.
    var hasChain: Bool { isBefriending || isCrossing || isRepeating }
}
