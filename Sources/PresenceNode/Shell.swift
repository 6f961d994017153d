import Dispatch
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOSSL
import PresenceCore
import PresenceWire

/// Carries out the core's effects with gateways, links and the store. It runs on one event loop, and only that loop uses the core.
///
/// A gateway on the same loop is called at once. Messages between loops cross in one batch a turn: a hop that wakes a loop costs 28 µs, and
/// an item of a batch 0.02 µs.
final class Shell: @unchecked Sendable {
    /// A message of a gateway on another loop to the core.
    private enum CoreInput {
        case messages([GatewayMessage])
        case call(Call, CallKey?, UserID, Call.Origin, originSession: OriginSession, token: UInt64, TraceContext?)
    }

    /// A message of the core to a gateway on another loop.
    private enum GatewayInput {
        case message(NodeMessage)
        case answer(UInt64, CallAnswer)
    }

    let peer: Peer
    let eventLoop: any EventLoop
    let tracer: Tracer
    var logger: Logger { tracer.logger }
    let secret: ClusterSecret
    /// TLS for links to other nodes; nil without certificates.
    let tls: NIOSSLContext?
    private(set) var node: Node
    private static let tickInterval = Duration.milliseconds(20)
    private var nextTick = Instant(nanoseconds: 0)
    private var isReviewScheduled = false
    private var disk: Disk
    private var store: any Store { disk.store }
    private var gateways: [GatewayLoop] = []
    private(set) var links: OutgoingLinks!
    /// Whether each gateway runs on this loop.
    private var isHere: [Bool] = []
    private var isObeying = false
    /// The core was changed after its effects were taken last. Asking the core each time costs 1 % of a request.
    private var mayHaveEffects = false
    /// The effects that are being carried out. The array is exchanged with the core's, to use its memory again.
    private var spare: [Node.Effect] = []
    private var crossing: [[GatewayInput]] = []
    /// For each gateway its messages of this turn. Only that gateway's loop uses them.
    private var inputs: [CrossingQueue] = []
    private let completions = NIOLockedValueBox<[(ticket: UInt64, result: Result<Void, StoreError>)]>([])
    private(set) var isStarted = false
    private var isStopped = false
    /// Whether the loop still accepts work. NIO ends a process that schedules work on a loop that has ended.
    private let takesUp = NIOLockedValueBox(true)
    let faults: MachineFaults
    /// Sends webhooks; nil in a node that serves no clients.
    private let webhooks: WebhookSender?
    private var adminCalls = AdminCalls()

    /// The calls of operators that wait for an answer, by token.
    private struct AdminCalls {
        private var waiting: [UInt64: (CallAnswer) -> Void] = [:]
        private var last: UInt64 = 0

        /// Adds a call. Returns its token.
        mutating func add(_ body: @escaping (CallAnswer) -> Void) -> UInt64 {
            last += 1
            waiting[last] = body
            return last
        }

        mutating func take(_ token: UInt64) -> ((CallAnswer) -> Void)? { waiting.removeValue(forKey: token) }
    }

    /// The messages of one gateway in a turn.
    private final class CrossingQueue: @unchecked Sendable {
        var inputs: [CoreInput] = []
        var isScheduled = false
    }

    init(
        peer: Peer, cluster: String, joins: Bool, secret: ClusterSecret, tls: NIOSSLContext?, gatewaysCount: Int, settings: CoreSettings,
        eventLoop: any EventLoop,
        store: any Store, webhooks: WebhookSender? = nil, spans: SpanExporter? = nil, logger: Logger
    ) {
        self.peer = peer
        self.eventLoop = eventLoop
        disk = Disk(store: store)
        self.webhooks = webhooks
        tracer = Tracer(logger: logger, exporter: spans)
        faults = MachineFaults(logger: logger)
        self.secret = secret
        self.tls = tls
        node = Node(selfPeer: peer, cluster: cluster, gatewaysCount: gatewaysCount, joins: joins, settings: settings)
        links = OutgoingLinks(shell: self)
    }

    /// Loads the gateways and the durable rows, then starts the timers. Call it once, on the loop.
    func start(_ gateways: [GatewayLoop]) throws {
        isStarted = true
        self.gateways = gateways
        isHere = gateways.map { $0.eventLoop === eventLoop }
        crossing = Array(repeating: [], count: gateways.count)
        inputs = gateways.map { _ in CrossingQueue() }
        try store.load { try node.load($0, at: Clock.now()) }
        if let absence = node.owner.absence(in: node.cluster, at: Clock.now()) {
            logger.warning(
                """
                the data directory was last written \(absence.components.seconds / 86_400) days ago; if the cluster was running meanwhile, ended \
                subscriptions may return: stop this node, delete its data directory, and start it again
                """)
        }
        node.loaded(at: Clock.now()) { row in
            let result = store.persistAndWait([row])
            faults.note(result, isDurable: (try? result.get()) != nil)
            return faults.isStoreSound
        }
        obey()
        schedule(every: TimeAmount(Self.tickInterval)) { shell in
            shell.nextTick = Clock.now().instant + Self.tickInterval
            let systemAhead = shell.followSystemClock()
            shell.node.tick(at: Clock.now(), systemAhead: systemAhead)
            shell.faults.note(shell.node.condition, othersStay: shell.node.cluster.othersStay)
            shell.scheduleReview()
        }
        schedule(every: .milliseconds(250)) { shell in
            shell.node.beat(at: Clock.now())
            if shell.links.hasTriedAll { shell.node.joinedNobody(at: Clock.now()) }
            shell.links.watch()
            // An empty write fails now, so that the core learns of the problem before the next change, and the log has it.
            if shell.store.problem != nil, shell.faults.isStoreSound { shell.persist([], ticket: Self.unusedTicket, isUrgent: true) }
        }
        for gateway in gateways {
            gateway.eventLoop.execute { gateway.scheduleTicks() }
        }
    }

    private func schedule(every interval: TimeAmount, _ body: @escaping (Shell) -> Void) {
        eventLoop.assumeIsolated().scheduleTask(in: interval) { [weak self] in
            guard let self, !self.isStopped else { return }
            body(self)
            self.obey()
            self.schedule(every: interval, body)
        }
    }

    /// Reads the system clock. Returns how far it is ahead (``SteadyClock/follow(_:)``).
    ///
    /// If every node that answers refuses this node because of its clock, a jump may correct that clock. This node follows it at once.
    private func followSystemClock() -> Milliseconds {
        let ahead = Clock.follow()
        guard ahead != 0, links.refusal?.kind == .clockSkew else { return ahead }
        logger.notice("clock: the other nodes refuse this node's time, so this node follows a jump of the system clock")
        Clock.adopt()
        return 0
    }

    /// Schedules a review of users whose grace ends before the next tick. Reviews that are due within a millisecond are done together.
    private func scheduleReview() {
        let now = Clock.now().instant
        let next = max(node.nextReview, now + .milliseconds(1))
        guard !isReviewScheduled, next < nextTick else { return }
        isReviewScheduled = true
        eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(next - now)) { [weak self] in
            guard let self, !self.isStopped else { return }
            self.isReviewScheduled = false
            self.node.review(at: Clock.now())
            self.obey()
            self.scheduleReview()
        }
    }

    /// Ends the timers. No more effects are carried out.
    func stop() { isStopped = true }

    /// Runs work of another thread on the loop; drops it after ``end()``. Call it on any thread.
    func takeUp(_ work: @escaping @Sendable () -> Void) {
        takesUp.withLockedValue { if $0 { eventLoop.execute(work) } }
    }

    /// Rejects further work. Called last, before the loop ends.
    func end() { takesUp.withLockedValue { $0 = false } }

    // MARK: From gateways

    /// Receives messages of a gateway. Called on the gateway's loop.
    func receive(_ messages: [GatewayMessage], from gateway: GatewayLoop) {
        guard !isHere[gateway.index] else {
            for message in messages { node.receive(message, from: gateway.index, at: Clock.now()) }
            return obey()
        }
        cross(.messages(messages), from: gateway)
    }

    /// Performs a call of a gateway's client. Called on the gateway's loop.
    func perform(
        _ call: Call, key: CallKey?, caller: UserID, origin: Call.Origin, originSession: OriginSession, from gateway: GatewayLoop,
        token: UInt64, trace: TraceContext? = nil, at now: Now
    ) {
        guard !isHere[gateway.index] else {
            node.perform(
                call, key: key, caller: caller, origin: origin, originSession: originSession, gateway: gateway.index, token: token,
                trace: trace, at: now)
            return obey()
        }
        cross(.call(call, key, caller, origin, originSession: originSession, token: token, trace), from: gateway)
    }

    /// Performs a call of an operator, and answers it on this loop.
    ///
    /// - Parameter seesAll: whether the answer has whole records, whatever their visibility.
    func perform(
        _ call: Call, key: CallKey? = nil, caller: UserID, seesAll: Bool = true, trace: TraceContext? = nil,
        then body: @escaping (CallAnswer) -> Void
    ) {
        let token = adminCalls.add(body)
        node.perform(
            call, key: key, caller: caller, origin: .backEnd, seesAll: seesAll, gateway: nil, token: token, trace: trace, at: Clock.now())
        obey()
    }

    /// A ticket without a meaning. The core counts its tickets from 1.
    private static let unusedTicket: UInt64 = 0

    private func cross(_ input: CoreInput, from gateway: GatewayLoop) {
        let queue = inputs[gateway.index]
        queue.inputs.append(input)
        guard !queue.isScheduled else { return }
        queue.isScheduled = true
        gateway.eventLoop.execute { [self] in
            let batch = queue.inputs
            queue.inputs = []
            queue.isScheduled = false
            eventLoop.execute { self.take(batch, from: gateway.index) }
        }
    }

    private func take(_ batch: [CoreInput], from gateway: Int) {
        let now = Clock.now()
        for input in batch {
            switch input {
            case .messages(let messages): for message in messages { node.receive(message, from: gateway, at: now) }
            case .call(let call, let key, let caller, let origin, let originSession, let token, let trace):
                node.perform(
                    call, key: key, caller: caller, origin: origin, originSession: originSession, gateway: gateway, token: token,
                    trace: trace, at: now)
            }
        }
        obey()
    }

    // MARK: From links

    /// Changes the core, and carries out the effects.
    func update<Result>(_ body: (inout Node, Now) throws -> Result) rethrows -> Result {
        defer { obey() }
        return try body(&node, Clock.now())
    }

    /// The release of a member; nil if its node has not told it, as nodes of earlier releases do not.
    func release(of member: Peer) -> NodeRelease? { member == peer ? links.releases.own : links.releases.release(of: member) }

    func nextBatch(for peer: PeerIndex) -> [UInt8]? {
        mayHaveEffects = true
        return node.nextBatch(for: peer, at: Clock.now())
    }

    // MARK: Effects

    /// Carries out the core's effects in order until there are none.
    private func obey() {
        mayHaveEffects = true
        guard !isObeying else { return }
        isObeying = true
        while mayHaveEffects, node.takeEffects(into: &spare) {
            mayHaveEffects = false
            for index in spare.indices { obey(spare[index]) }
            spare.removeAll(keepingCapacity: true)
            for gateway in gateways where isHere[gateway.index] { gateway.flush() }
        }
        isObeying = false
        sendCrossing()
        guard !disk.actions.isEmpty else { return }
        let actions = disk.actions
        disk.actions.removeAll(keepingCapacity: true)
        for action in actions { obey(action) }
    }

    private func obey(_ action: Disk.Action) {
        switch action {
        case .persist(let rows, let ticket, let isUrgent): persist(rows, ticket: ticket, isUrgent: isUrgent)
        case .deleteSlots(let slots): store.deleteSlots(slots)
        case .deleteRows(let rows): store.deleteRows(rows)
        case .truncateLog: store.truncateLog()
        }
    }

    private func obey(_ effect: Node.Effect) {
        switch effect {
        case .send(let gateway, let message):
            if isHere[gateway] {
                gateways[gateway].receive(message)
            } else {
                crossing[gateway].append(.message(message))
            }
        case .answer(nil, let token, let answer): adminCalls.take(token)?(answer)
        case .answer(let gateway?, let token, let answer):
            if isHere[gateway] {
                gateways[gateway].answer(token, answer)
            } else {
                crossing[gateway].append(.answer(token, answer))
            }
        case .persist(let rows, let ticket, let isUrgent): disk.actions.append(.persist(rows, ticket: ticket, isUrgent: isUrgent))
        case .deleteSlots(let slots): disk.actions.append(.deleteSlots(slots))
        case .deleteRows(let rows): disk.actions.append(.deleteRows(rows))
        case .truncateLog: disk.actions.append(.truncateLog)
        case .resumeDeletion(let user): resumeDeletion(of: user)
        case .connect(let peer): links.connect(to: peer)
        case .transmit(let peer): links.transmit(to: peer, id: node.cluster.peerID(peer))
        case .computeRing(let members): computeRing(members)
        case .deliver(let delivery): deliver(delivery)
        case .traced(let trace, let operation, let node): tracer.arrived(trace, operation, from: node)
        case .followSystemClock:
            logger.notice("clock: the other nodes confirm that the system clock is right; this node follows it")
            Clock.adopt()
        case .superseded(let other):
            links.refusalNoticed?(LinkRefusal(reason: "\(HelloRefusal.superseded(by: other))", kind: .superseded))
        case .membership(let id, let isAlive):
            logger.notice(
                isAlive ? "member joined" : node.cluster.hasLeft(id) ? "member left" : "member declared dead", metadata: ["member": "\(id)"]
            )
        }
    }

    /// Brings the deletion of a user to its end, because its caller did not.
    private func resumeDeletion(of user: UserID) {
        perform(.deleteUser, caller: user) { [logger] answer in
            if case .userDeleted(let deletion) = answer, deletion.completedAt != nil {
                logger.notice("deletion: a user's deletion is complete", metadata: ["receiptID": "\(deletion.receiptID)"])
            } else {
                logger.notice("deletion: a user's deletion is not complete yet, and goes on later", metadata: ["app": "\(user.app)"])
            }
        }
    }

    /// Sends a delivery, and reports the receiver's answer to the core.
    private func deliver(_ delivery: WebhookDelivery) {
        guard let webhooks else { return }
        let wall = Clock.now().wall
        Task { [self] in
            let isAccepted = await webhooks.send(delivery, at: wall)
            takeUp {
                self.update { node, now in node.answered(WebhookAnswer(to: delivery, isAccepted: isAccepted), at: now) }
            }
        }
    }

    private func sendCrossing() {
        for index in crossing.indices where !crossing[index].isEmpty {
            let batch = crossing[index]
            crossing[index] = []
            let gateway = gateways[index]
            gateway.eventLoop.execute {
                for input in batch {
                    switch input {
                    case .message(let message): gateway.receive(message)
                    case .answer(let token, let answer): gateway.answer(token, answer)
                    }
                }
                gateway.flush()
            }
        }
    }

    /// Computes a ring on another thread. At 100 nodes that takes about 30 ms, too long for a loop.
    private func computeRing(_ members: [Ring.Member]) {
        DispatchQueue.global(qos: .userInitiated).async { [self] in
            let ring = Ring(members: members)
            takeUp { self.ringComputed(ring) }
        }
    }

    private func ringComputed(_ ring: Ring) {
        node.ringComputed(ring, at: Clock.now())
        obey()
    }

    /// Writes rows. The store answers on its own thread, group by group. One hop takes all answers.
    private func persist(_ rows: [Row], ticket: UInt64, isUrgent: Bool) {
        store.persist(rows, isUrgent: isUrgent) { [self] result in
            let isFirst = completions.withLockedValue { completions in
                completions.append((ticket, result))
                return completions.count == 1
            }
            if isFirst { takeUp { self.takeCompletions() } }
        }
    }

    private func takeCompletions() {
        let taken = completions.withLockedValue { completions in
            defer { completions = [] }
            return completions
        }
        let now = Clock.now()
        for (ticket, result) in taken {
            let isDurable = (try? result.get()) != nil
            // A closed store stores nothing. That is not a failure of the disk.
            if !isStopped { faults.note(result, isDurable: isDurable) }
            node.stored(ticket, isDurable: isDurable, at: now)
        }
        obey()
    }
}

/// The store of a node, and what the core has for it.
private struct Disk {
    /// An effect of the core for the disk: see ``PresenceCore/Effect``.
    enum Action {
        case persist([Row], ticket: UInt64, isUrgent: Bool)
        case deleteSlots([Slot])
        case deleteRows([Row])
        case truncateLog
    }

    let store: any Store
    /// The actions of this turn, in order. They follow when the gateways have written: a call that hides a user writes rows, and these must
    /// not delay what viewers are told.
    var actions: [Action] = []
}
