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
    var time: Nanoseconds = 0
    let nodes: [SimulatedNode]
    /// The ID of each user.
    let userIDs: [UserID]
    var links: [SimulatedLink]
    var clients: [SimulatedClient]
    var truth: Truth
    var random: SplitMix64
    let rings: RingCache
    private let journal: Journal
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
    public internal(set) var counts = HistoryCounts()
    var nextToken: UInt64 = 0
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
    private var agenda = Agenda()
    private var order: UInt64 = 0

    /// The log and the trace, separate from the simulated state, so that nonmutating checks can write them.
    private final class Journal {
        var violation: Violation? { didSet { isBroken = violation != nil } }
        private(set) var isBroken = false
        var trace = Trace()
        var log: [String]?
        /// Whether the log has the content of the trace, instead of words.
        let isOfTrace: Bool

        init(isLogging: Bool, isOfTrace: Bool) {
            log = isLogging ? [] : nil
            self.isOfTrace = isOfTrace
        }
    }

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
        random = SplitMix64(seed: options.seed).split(3)
        let hostsCount = options.hostsCount
        nodes = (0..<hostsCount).map { SimulatedNode(index: $0, options: options) }
        let seeds = SplitMix64(seed: options.seed).split(4)
        links = (0..<hostsCount * hostsCount).map { index in
            SimulatedLink(from: index / hostsCount, to: index % hostsCount, random: seeds.split(UInt64(index)))
        }
        clients = (0..<options.usersCount * SimulatedClient.devicesPerUser).map { index in
            SimulatedClient(user: index / SimulatedClient.devicesPerUser, device: index % SimulatedClient.devicesPerUser)
        }
        userIDs = LostRows.userIDs(options)
        hidesUsers = options.kind == .friendsHideAndBlock || self.plan.steps.contains(where: \.hidesUser)
        publishesEvents = self.plan.steps.contains { if case .publish = $0.action { true } else { false } }
        truth = Truth(usersCount: options.usersCount, settings: options.settings)
        journal = Journal(isLogging: isLogging || isLoggingTrace, isOfTrace: isLoggingTrace)
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
        if violation == nil, options.kind == .friendsHideAndBlock { SightChecks.finish(&self) }
        if violation == nil { ProbeChecks.probe(&self) }
        for node in nodes {
            let statistics = node.look { $0.statistics }
            counts[.relayed] += Int(statistics.relays.forwarded)
            counts[.relaysFetched] += Int(statistics.relays.fetched)
            counts[.viewDifferences] += Int(statistics.viewDigestDifferences)
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
            nodes[node].systemOffset = Milliseconds(random.number(in: -30...30))
            plan(.start(node: node), after: random.microseconds(0...50_000))
        }
        for (index, step) in plan.steps.enumerated() { plan(.step(index), after: .milliseconds(Self.calmMilliseconds + step.at)) }
    }

    /// Handles all events up to a moment, as long as no guarantee is broken.
    mutating func advance(to end: Nanoseconds) {
        while !isBroken, let at = agenda.nextAt, at <= end, let next = agenda.popFirst() {
            time = max(time, next.at)
            counts[.events] += 1
            handle(next.what)
            checkInvariants()
        }
        time = max(time, end)
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

    /// Delivers at once, in order, what a fault that has ended held up.
    mutating func hasten() {
        var kept = Agenda()
        while let next = agenda.popFirst() {
            var at = next.at
            switch next.what {
            case .arrive(let link, _, _, _, _):
                at = min(at, links[link].arrival(at: time))
            case .acknowledge: at = min(at, time + .milliseconds(1))
            default: break
            }
            kept.insert(SimulationEvent(at: at, order: next.order, what: next.what))
        }
        agenda = kept
    }

    mutating func plan(_ what: SimulationEvent.What, after delay: Nanoseconds) { plan(what, at: time + delay) }

    mutating func plan(_ what: SimulationEvent.What, at moment: Nanoseconds) {
        order += 1
        agenda.insert(SimulationEvent(at: max(moment, time), order: order, what: what))
    }

    // MARK: Journal

    func violate(_ guarantee: Violation.Guarantee, _ what: @autoclosure () -> String) {
        guard journal.violation == nil else { return }
        journal.violation = Violation(guarantee: guarantee, what: what(), at: time.milliseconds)
    }

    /// Adds an event to the trace, and in words to the log if there is one.
    func note(_ kind: UInt64, _ first: Int, _ second: Int, _ words: @autoclosure () -> String) {
        journal.trace.add(kind, first, second, at: time)
        guard journal.log != nil else { return }
        if journal.isOfTrace { logTrace("\(kind) \(first) \(second)") } else { journal.log?.append("\(time.milliseconds) ms  \(words())") }
    }

    /// Adds bytes that cross the boundary of a node to the trace.
    func note(_ boundary: Trace.Boundary, _ first: Int, _ second: Int, _ bytes: [UInt8]) {
        journal.trace.add(boundary.rawValue, first, second, at: time)
        journal.trace.add(bytes)
        if journal.isOfTrace { logTrace("\(boundary) \(first) \(second) \(Trace.readable(bytes))") }
    }

    /// Adds the output of the cluster's codec that crosses the boundary of a node to the trace.
    func note(_ boundary: Trace.Boundary, _ first: Int, _ second: Int, _ write: (inout WireWriter) -> Void) {
        journal.trace.add(boundary.rawValue, first, second, at: time)
        let bytes = journal.trace.add(write)
        if journal.isOfTrace { logTrace("\(boundary) \(first) \(second) \(Trace.readable(bytes))") }
    }

    private func logTrace(_ what: String) { journal.log?.append("\(time) ns  \(journal.trace.text)  \(what)") }

    // MARK: Names

    func userID(_ user: Int) -> UserID { userIDs[user] }

    /// The number of a user of the simulation: see ``LostRows/userIDs(_:)``.
    func userIndex(_ id: some StringProtocol) -> Int? { Int(id.dropFirst("user-".count).prefix { $0 != "." }) }

    func link(_ from: Int, _ to: Int) -> Int { from * nodes.count + to }

    /// The machines of the members.
    var hosts: [Int] { nodes.indices.filter { nodes[$0].isInUse } }

    /// The node of a cluster address.
    func nodeIndex(_ address: String) -> Int? { Int(address.dropFirst("node-".count).dropLast(":7601".count)) }
}
