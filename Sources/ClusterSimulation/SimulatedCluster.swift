import PresenceCore
import PresenceWire

/// A whole cluster in one thread and virtual time: the cores and gateways that ship, with a network, disks, clocks and clients that
/// come from a seed, and checkers that look after everything that happens.
///
/// Faults run first, and what may not break then is checked all the time; then everything is healed and must come to rest.
public struct SimulatedCluster {
    /// The wall time at which every history begins.
    static let epoch: Milliseconds = 1_790_000_000_000
    /// So long the nodes find one another before anything happens.
    static let calmMilliseconds = 1_000
    /// After healing the views must be right after so long (issue: 5 s), and everything must be at rest after ``restMilliseconds``.
    static let viewsMilliseconds = 6_000
    static let restMilliseconds = 19_000
    /// What a node told so shortly before it was killed may be unknown to the others: links under faults are slow by up to 0.8 s, and
    /// broken for some time.
    static let lastWordMilliseconds = 2_000
    /// How often the cores are told the time; the shell does it every 20 ms.
    static let tickInterval: Nanoseconds = .milliseconds(50)

    public let options: SimulationOptions
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
    /// The first promise that was broken.
    public var violation: Violation? { journal.violation }
    /// Whether there is a ``violation``, without a copy of it.
    var isBroken: Bool { journal.isBroken }
    /// A hash of everything that happened, and of every byte that crossed the boundary of a node, in order: equal for equal runs.
    public var trace: UInt64 { journal.trace.hash }
    /// ``trace`` as 16 hexadecimal digits.
    public var traceText: String { journal.trace.text }
    /// How much virtual time has passed.
    public var elapsedMilliseconds: Int { time.milliseconds }
    /// What happened, in words or by ``trace``; kept only when asked for.
    public var log: [String] { journal.log ?? [] }
    /// Counts of what the history did, to see that faults really happen.
    public internal(set) var counts = Counts()
    var nextToken: UInt64 = 0
    var isHealed = false
    /// Users hide from one another in this history.
    let hidesUsers: Bool
    /// Users publish events in this history.
    let publishesEvents: Bool
    /// When a node last started or ended, or everything was healed.
    var disturbedAt: Nanoseconds = 0
    /// When so many nodes were down at once that what was acknowledged may have been on none of the others.
    var crippledAt: Nanoseconds = .min / 2
    /// When a node was last killed while another one was down.
    var manyKilledAt: Nanoseconds = .min / 2
    /// Whom each user followed when the history was over and ``probe()`` began.
    var probed: [[Int]]?
    private var agenda = Agenda()
    private var order: UInt64 = 0

    /// What is written down, by whoever looks: apart from what it is written about.
    private final class Journal {
        var violation: Violation? { didSet { isBroken = violation != nil } }
        private(set) var isBroken = false
        var trace = Trace()
        var log: [String]?
        /// The log has what the trace is made of, instead of words.
        let isOfTrace: Bool

        init(isLogging: Bool, isOfTrace: Bool) {
            log = isLogging ? [] : nil
            self.isOfTrace = isOfTrace
        }
    }

    /// What a history did.
    public struct Counts: Equatable, Sendable {
        public var occurrences = 0
        public var batches = 0
        public var pushes = 0
        public var recordsTold = 0
        public var acknowledged = 0
        public var refused = 0
        public var kills = 0
        public var drains = 0
        public var resets = 0
        public var logins = 0
        /// Records passed on for their owners, and those asked of them because nobody had passed them on; of the processes at the end.
        public var relayed = 0
        public var relaysMissed = 0
        /// Ranges in which a gateway and an owner differed.
        public var viewDifferences = 0
        /// Events that were acknowledged, and how often a session was looked at that was to be told one.
        public var published = 0
        public var eventsExpected = 0
        /// Acknowledged kicks, streams that they ended, and tokens that were refused because they are void.
        public var kicks = 0
        public var streamsKicked = 0
        public var tokensRefused = 0
        /// Acknowledged changes of the app's policy.
        public var policyChanges = 0
        /// Users removed, by each node that kept them.
        public var removals = 0
        /// Logins of devices that vendor push reaches, and users that were ONLINE by such a device alone at the end.
        public var reachableLogins = 0
        public var onlineByPush = 0

        public init() {}

        public static func += (left: inout Counts, right: Counts) {
            left.occurrences += right.occurrences
            left.batches += right.batches
            left.pushes += right.pushes
            left.recordsTold += right.recordsTold
            left.acknowledged += right.acknowledged
            left.refused += right.refused
            left.kills += right.kills
            left.drains += right.drains
            left.resets += right.resets
            left.logins += right.logins
            left.relayed += right.relayed
            left.relaysMissed += right.relaysMissed
            left.viewDifferences += right.viewDifferences
            left.published += right.published
            left.eventsExpected += right.eventsExpected
            left.kicks += right.kicks
            left.streamsKicked += right.streamsKicked
            left.tokensRefused += right.tokensRefused
            left.policyChanges += right.policyChanges
            left.removals += right.removals
            left.reachableLogins += right.reachableLogins
            left.onlineByPush += right.onlineByPush
        }
    }

    /// - Parameters:
    ///   - plan: what happens; drawn from the seed when it is not given.
    ///   - isLogging: whether to keep a log in words, for a person to read.
    ///   - isLoggingTrace: whether the log has what the trace is made of instead, to find where two builds differ.
    ///   - rings: shared by histories of one thread, it saves most of the time of each.
    public init(
        _ options: SimulationOptions, plan: Plan? = nil, isLogging: Bool = false, isLoggingTrace: Bool = false,
        rings: RingCache = RingCache()
    ) {
        self.options = options
        self.rings = rings
        self.plan = plan ?? Plan(options)
        random = SplitMix64(seed: options.seed).split(3)
        nodes = (0..<options.nodesCount).map { SimulatedNode(index: $0, options: options) }
        let seeds = SplitMix64(seed: options.seed).split(4)
        links = (0..<options.nodesCount * options.nodesCount).map { index in
            SimulatedLink(from: index / options.nodesCount, to: index % options.nodesCount, random: seeds.split(UInt64(index)))
        }
        clients = (0..<options.usersCount * SimulatedClient.devicesPerUser).map { index in
            SimulatedClient(user: index / SimulatedClient.devicesPerUser, device: index % SimulatedClient.devicesPerUser)
        }
        userIDs = (0..<options.usersCount).map { UserID(app: "default", id: "user-\($0)") }
        hidesUsers = self.plan.steps.contains(where: \.hidesUser)
        publishesEvents = self.plan.steps.contains(where: \.publishesEvent)
        truth = Truth(usersCount: options.usersCount, settings: options.settings)
        // Each side of a split of four nodes or more takes changes of lists; together they are merged, not exact.
        if !options.faults.isDisjoint(with: [.partitions, .pauses]) { for user in truth.books.indices { truth.books[user].doubt() } }
        journal = Journal(isLogging: isLogging || isLoggingTrace, isOfTrace: isLoggingTrace)
    }

    /// Runs the whole history, or up to the first broken promise.
    public mutating func run() {
        begin()
        let end = Self.calmMilliseconds + options.activeMilliseconds
        advance(to: .milliseconds(end))
        guard violation == nil else { return }
        if options.isSuccession { checkGhosts() }
        if options.isInheritance { twice { $0.checkInheritance() } }
        heal()
        rest(Self.viewsMilliseconds)
        if violation == nil { twice { $0.checkViews() } }
        rest(Self.restMilliseconds)
        if violation == nil { twice { $0.checkRest() } }
        if violation == nil { probe() }
        for node in nodes {
            let statistics = node.look { $0.statistics }
            counts.relayed += Int(statistics.relaysPassedOn)
            counts.relaysMissed += Int(statistics.relaysMissed)
            counts.viewDifferences += Int(statistics.viewDigestDifferences)
        }
    }

    /// What is wrong at one moment and right soon after was a change under way: something ends by itself at any time.
    mutating func twice(_ check: (inout SimulatedCluster) -> Void) {
        check(&self)
        guard violation != nil else { return }
        journal.violation = nil
        advance(to: time + .milliseconds(300))
        if violation == nil { check(&self) }
    }

    /// Lets time pass until nothing was disturbed for so long.
    private mutating func rest(_ milliseconds: Int) {
        while violation == nil, time < disturbedAt + .milliseconds(milliseconds) { advance(to: disturbedAt + .milliseconds(milliseconds)) }
    }

    /// Starts the nodes and plans the steps.
    mutating func begin() {
        for node in nodes.indices {
            nodes[node].clockOffset = Milliseconds(random.number(in: -30...30))
            plan(.start(node: node), after: random.microseconds(0...50_000))
        }
        for (index, step) in plan.steps.enumerated() { plan(.step(index), after: .milliseconds(Self.calmMilliseconds + step.at)) }
    }

    /// Lets everything happen up to a moment, as long as no promise is broken.
    mutating func advance(to end: Nanoseconds) {
        while !isBroken, let at = agenda.nextAt, at <= end, let next = agenda.popFirst() {
            time = max(time, next.at)
            counts.occurrences += 1
            happen(next.what)
            checkInvariants()
        }
        time = max(time, end)
    }

    /// Occurrences, for each node, between two checks of its machines. A wrong derived value stays wrong, so that a rare check finds it, too; a check
    /// after each occurrence would take most of the time.
    private static let checkInterval = 32

    /// Checks the machines of one node, another one after each occurrence.
    private func checkInvariants() {
        let node = nodes[counts.occurrences % nodes.count]
        guard node.isUp, counts.occurrences / nodes.count % Self.checkInterval == 0 else { return }
        node.look { $0.checkInvariants(alsoUsers: true) }
        for gateway in node.gateways { gateway.value.checkInvariants() }
    }

    /// What was held up on its way by a fault that has ended arrives now, in its order.
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
            kept.insert(Occurrence(at: at, order: next.order, what: next.what))
        }
        agenda = kept
    }

    mutating func plan(_ what: Occurrence.What, after delay: Nanoseconds) { plan(what, at: time + delay) }

    mutating func plan(_ what: Occurrence.What, at moment: Nanoseconds) {
        order += 1
        agenda.insert(Occurrence(at: max(moment, time), order: order, what: what))
    }

    // MARK: Telling

    func violate(_ promise: Violation.Promise, _ what: @autoclosure () -> String) {
        guard journal.violation == nil else { return }
        journal.violation = Violation(promise: promise, what: what(), at: time.milliseconds)
    }

    /// Notes something for the trace, and in words if there is a log.
    func note(_ kind: UInt64, _ first: Int, _ second: Int, _ words: @autoclosure () -> String) {
        journal.trace.add(kind, first, second, at: time)
        guard journal.log != nil else { return }
        if journal.isOfTrace { logTrace("\(kind) \(first) \(second)") } else { journal.log?.append("\(time.milliseconds) ms  \(words())") }
    }

    /// Notes bytes that cross the boundary of a node, for the trace.
    func note(_ boundary: Trace.Boundary, _ first: Int, _ second: Int, _ bytes: [UInt8]) {
        journal.trace.add(boundary.rawValue, first, second, at: time)
        journal.trace.add(bytes)
        if journal.isOfTrace { logTrace("\(boundary) \(first) \(second) \(Self.readable(bytes))") }
    }

    /// Notes what crosses the boundary of a node as the cluster's codec writes it, for the trace.
    func note(_ boundary: Trace.Boundary, _ first: Int, _ second: Int, _ write: (inout WireWriter) -> Void) {
        journal.trace.add(boundary.rawValue, first, second, at: time)
        let bytes = journal.trace.add(write)
        if journal.isOfTrace { logTrace("\(boundary) \(first) \(second) \(Self.readable(bytes))") }
    }

    private func logTrace(_ what: String) { journal.log?.append("\(time) ns  \(journal.trace.text)  \(what)") }

    /// Bytes on one line: those of printable ASCII as they are, the others in hexadecimal.
    private static func readable(_ bytes: [UInt8]) -> String {
        bytes.map { (0x20..<0x7F).contains($0) && $0 != 0x5C ? String(UnicodeScalar($0)) : "\\" + String($0, radix: 16) + ";" }.joined()
    }

    // MARK: Names

    func userID(_ user: Int) -> UserID { userIDs[user] }

    /// The number of a user of the simulation.
    func userIndex(_ id: some StringProtocol) -> Int? { Int(id.dropFirst("user-".count)) }

    func link(_ from: Int, _ to: Int) -> Int { from * nodes.count + to }

    /// The node of a cluster address.
    func nodeIndex(_ address: String) -> Int? { Int(address.dropFirst("node-".count).dropLast(":7601".count)) }
}
