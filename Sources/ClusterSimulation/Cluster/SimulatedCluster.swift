import PresenceCore
import PresenceWire

/// A whole cluster in one thread and virtual time (<doc:SimulatorAsProof>).
///
/// The cores and gateways are those that ship. Network, disks, clocks and clients come from a seed, and checks follow every event.
///
/// Faults come first, together with the guarantees that hold under faults. Then everything is healed, and the cluster must come to rest.
public struct SimulatedCluster {
    /// The wall time at which every history starts.
    static let epoch: Milliseconds = 1_790_000_000_000
    /// The time that the nodes have to find one another before the first step.
    static let calmMilliseconds = 1_000
    /// The time after healing within which the views must be right. Everything must be at rest after ``restMilliseconds``.
    static let viewsMilliseconds = 6_000
    static let restMilliseconds = 19_000
    /// The time before a kill in which a node's last messages may not reach the others. Links under faults are slow by up to 0.8 s, and
    /// broken for some time.
    static let lastMessageMilliseconds = 2_000
    /// The interval of ticks. The shell ticks every 20 ms.
    static let tickInterval: Nanoseconds = .milliseconds(50)

    public let options: HistoryOptions
    let plan: Plan
    let nodes: [SimulatedNode]
    /// The ID of each user.
    let userIDs: [UserID]
    var stage: Stage
    var network: Network
    var clients: Clients
    var calls: OpenCalls
    var truth: Truth
    let rings: RingCache
    var journal: Journal { stage.journal }
    var time: Nanoseconds { stage.time }
    /// The first broken guarantee.
    public var violation: Violation? { journal.violation }
    /// Whether there is a ``violation``, without a copy of it.
    var isBroken: Bool { journal.isBroken }
    /// A hash of all events, and of every byte that crossed the boundary of a node, in order. Equal runs have equal hashes.
    public var trace: UInt64 { journal.trace.hash }
    /// ``trace`` as 16 hexadecimal digits.
    public var traceText: String { journal.trace.text }
    /// The virtual time that has passed.
    public var elapsedMilliseconds: Int { time.milliseconds }
    /// The events, in words or as for ``trace``. Kept only on request.
    public var log: [String] { journal.log ?? [] }
    public var counts: HistoryCounts { stage.counts }
    /// How far the history has come.
    enum Phase { case active, healed, resting }

    var phase = Phase.active
    /// Whether the faults are over.
    var isHealed: Bool { phase != .active }
    /// Whether users hide from one another in this history.
    let hidesUsers: Bool
    /// Whether users publish events in this history.
    let publishesEvents: Bool
    /// The time of the last start or end of a node, or of the healing.
    var disturbedAt: Nanoseconds = 0
    /// The time at which so many nodes were down that the others may lack acknowledged changes.
    var crippledAt: Nanoseconds = .min / 2
    /// The time of the last kill while another node was down.
    var manyKilledAt: Nanoseconds = .min / 2
    /// The subscriptions of each user when the history was over and ``probe()`` started.
    var probed: [[Int]]?

    /// - Parameters:
    ///   - plan: the steps; drawn from the seed if not given.
    ///   - isLogging: whether to keep a log in words, for a person to read.
    ///   - isLoggingTrace: whether the log has the content of the trace instead, to find where two builds differ.
    ///   - rings: a cache shared by the histories of one thread. It saves most of the time of each.
    public init(
        _ options: HistoryOptions, plan: Plan? = nil, isLogging: Bool = false, isLoggingTrace: Bool = false,
        rings: RingCache = RingCache()
    ) {
        self.options = options
        self.rings = rings
        self.plan = plan ?? Plan(options)
        let hostsCount = options.hostsCount
        nodes = (0..<hostsCount).map { SimulatedNode(index: $0, options: options) }
        stage = Stage(
            random: SplitMix64(seed: options.seed).split(3), Journal(isLogging: isLogging || isLoggingTrace, isOfTrace: isLoggingTrace))
        network = Network(hostsCount: hostsCount, SplitMix64(seed: options.seed).split(4))
        clients = Clients(usersCount: options.usersCount)
        calls = OpenCalls(nodesCount: hostsCount)
        userIDs = LostRows.userIDs(options)
        hidesUsers = options.kind.hasCrossPlan || self.plan.steps.contains(where: \.hidesUser)
        publishesEvents = self.plan.steps.contains { if case .publish = $0.action { true } else { false } }
        truth = Truth(usersCount: options.usersCount, settings: options.settings)
        // Each side of a split of four nodes or more accepts changes of lists. They are merged, so the lists are not exact.
        if isExcused(by: .split) { for user in truth.subscriptions.indices { truth.subscriptions[user].doubt() } }
    }

    /// Runs the whole history, or up to the first broken guarantee.
    public mutating func run() {
        begin()
        let end = Self.calmMilliseconds + options.activeMilliseconds
        advance(to: .milliseconds(end))
        guard violation == nil else { return }
        if options.kind == .registrationsWait { RestChecks.checkGhosts(self) }
        if options.kind == .deathIsLearnedInTurn { twice { RestChecks.checkInheritance($0) } }
        heal()
        rest(Self.viewsMilliseconds)
        if violation == nil { twice { ViewChecks.checkViews($0) } }
        rest(Self.restMilliseconds)
        if violation == nil { twice { RestChecks.checkRest(&$0) } }
        if violation == nil { ChainChecks.finish(&self) }
        if violation == nil, options.kind.hasCrossPlan { SightChecks.finish(&self) }
        if violation == nil { ProbeChecks.probe(&self) }
        for node in nodes {
            let statistics = node.look { $0.statistics }
            stage.counts[.relayed] += Int(statistics.relays.forwarded)
            stage.counts[.relaysFetched] += Int(statistics.relays.fetched)
            stage.counts[.viewDifferences] += Int(statistics.viewDigestDifferences)
        }
    }

    /// Runs a check again before it counts: a change under way is wrong at one moment and right soon after, because something may end by
    /// itself at any time.
    mutating func twice(_ check: (inout SimulatedCluster) -> Void) {
        check(&self)
        guard violation != nil else { return }
        journal.violation = nil
        advance(to: time + .milliseconds(300))
        if violation == nil { check(&self) }
    }

    /// Advances the time until nothing was disturbed for so long.
    private mutating func rest(_ milliseconds: Int) {
        while violation == nil, time < disturbedAt + .milliseconds(milliseconds) { advance(to: disturbedAt + .milliseconds(milliseconds)) }
    }

    /// Starts the nodes and schedules the steps.
    mutating func begin() {
        for node in hosts {
            nodes[node].systemOffset = Milliseconds(stage.random.number(in: -30...30))
            stage.plan(.start(node: node), after: stage.random.microseconds(0...50_000))
        }
        for (index, step) in plan.steps.enumerated() { stage.plan(.step(index), after: .milliseconds(Self.calmMilliseconds + step.at)) }
    }

    /// Handles all events up to a moment, as long as no guarantee is broken.
    mutating func advance(to end: Nanoseconds) {
        while !isBroken, let next = stage.next(until: end) {
            handle(next)
            checkInvariants()
        }
        stage.advance(to: end)
    }

    /// Gives the nodes the time that they need at rest to answer a call.
    mutating func awaitAnswer() { advance(to: time + .milliseconds(200)) }

    /// The events of each node between two checks of its machines.
    ///
    /// A wrong derived value stays wrong, so a rare check finds it, too. A check after each event would take most of the time.
    private static let checkInterval = 32

    /// Checks the machines of one node, another one after each event.
    private func checkInvariants() {
        let node = nodes[counts[.events] % nodes.count]
        guard node.isUp, counts[.events] / nodes.count % Self.checkInterval == 0 else { return }
        node.look { $0.checkInvariants(alsoUsers: true) }
        for gateway in node.gateways { gateway.value.checkInvariants() }
    }

    /// Makes a call of a user at a node; nil for that of one of its sessions, or any other.
    mutating func call(_ call: Call, by user: Int, at node: Int? = nil) { OpenCalls.make(call, by: user, at: node, &self) }

    func violate(_ guarantee: Violation.Guarantee, _ what: @autoclosure () -> String) { journal.violate(guarantee, what()) }

    // MARK: Names

    func userID(_ user: Int) -> UserID { userIDs[user] }

    /// The number of a user of the simulation: see ``LostRows/userIDs(_:)``.
    func userIndex(_ id: some StringProtocol) -> Int? { Int(id.dropFirst("user-".count).prefix { $0 != "." }) }

    /// The machines of the members.
    var hosts: [Int] { nodes.indices.filter { nodes[$0].isInUse } }

    /// The node of a cluster address.
    func nodeIndex(_ address: String) -> Int? { Int(address.dropFirst("node-".count).dropLast(":7601".count)) }
}
