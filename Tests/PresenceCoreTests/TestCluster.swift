import PresenceWire

@testable import ClusterSimulation
@testable import PresenceCore

/// The processes of the simulator without its delays and faults. Messages arrive, writes end and rings are computed at once.
///
/// It keeps all events of each client.
struct TestCluster {
    private let rings = RingCache()
    /// The settings of all nodes at their first start.
    let settings: CoreSettings

    /// A client's open stream, and all its events.
    struct Client {
        let user: String
        let node: Int
        var index: Gateway.SessionIndex
        let session: SessionID
        var isOpen = true
        /// The newest received record of each user.
        var view: [String: JSONValue] = [:]
        /// Every event in order: its name and its data.
        var events: [(name: String, data: JSONValue)] = []
        var lastEventID: Milliseconds = 0
        /// Received records whose version was not newer than an earlier one.
        var wentBack = 0
        var repeated = 0
    }

    /// One process, and the answers to the calls that it performed.
    final class Process: ClusterProcess {
        var answers: [UInt64: CallAnswer] = [:]
    }

    var now = Now(instant: Instant(nanoseconds: 0), wall: 1_790_000_000_000)
    var processes: [Process] = []
    var clients: [Client] = []
    /// Every effect that left a node, in order: equal for equal runs.
    var trace: [String] = []
    /// Whether the disk takes writes.
    var isDiskFull = false { didSet { fillDisks() } }
    /// The processes whose own disk takes none.
    var fullDisks: Set<Int> = [] { didSet { fillDisks() } }
    /// The processes whose disk finishes no write.
    var heldDisks: Set<Int> = []
    /// How far the system clocks of some processes are ahead, in milliseconds.
    var systemAhead: [Int: Milliseconds] = [:]
    /// The processes that have followed their system clock. The test sets it back.
    var followed: [Int] = []
    /// The processes that stand still: no timer of theirs runs.
    var stopped: Set<Int> = []
    /// The links on which messages are lost, as when a connection breaks with batches in flight.
    var losing: [(from: Int, to: Int)] = []
    /// The messages between nodes since this was last emptied; nil while no test reads them.
    var heard: [(from: Int, to: Int, message: Message)]?
    var webhooks = WebhookReceiver()
    /// Bytes of batches sent, lost ones too.
    var bytesSent = 0
    private var nextToken: UInt64 = 0

    init(nodes: Int, settings: CoreSettings = CoreSettings()) {
        self.settings = settings
        for index in 0..<nodes { processes.append(Self.process(index, joins: nodes > 1, settings)) }
        for process in processes { try! process.start(generation: 1, at: now) { _ in } }
        for from in 0..<nodes { for to in 0..<nodes where from != to { link(from, to) } }
        advance(.milliseconds(500))
    }

    private static func process(_ index: Int, joins: Bool, _ settings: CoreSettings) -> Process {
        var setup = ClusterProcess.Setup(cluster: "test", joins: joins, settings: settings)
        setup.gatewaySettings.slowReaderTimeout = .seconds(60)
        return Process(NodeID("node-\(index)"), setup)
    }

    private func fillDisks() { for index in processes.indices { processes[index].disk.isFull = isDiskFull || fullDisks.contains(index) } }

    // MARK: Events

    /// Brings up the link from one node to another; the way back is a link of its own.
    mutating func link(_ from: Int, _ to: Int) {
        guard processes[from].isUp, processes[to].isUp else { return }
        let hello = processes[from].node.greeting(at: now)
        processes[to].node.greeted(by: hello, at: now)
        processes[from].node.linked(to: processes[to].node.cluster.hello(at: now), at: now)
        settle()
    }

    /// The newest connection from a node to another.
    func connection(from sender: NodeID, to index: Int) -> ConnectionID {
        let cluster = processes[index].node.cluster
        return cluster.peers.index(of: sender).map { cluster.links.connection(from: $0) }
            ?? ConnectionID(generation: 0, number: 0)
    }

    /// A batch arrives at a node, on the newest connection from `sender` unless another one is named. Returns whether it is taken.
    @discardableResult
    mutating func deliver(_ batch: [UInt8], from sender: NodeID, to index: Int, on connection: ConnectionID? = nil) throws -> Bool {
        let connection = connection ?? self.connection(from: sender, to: index)
        return try batch.withUnsafeBytes { try processes[index].node.receive(batch: $0, from: sender, on: connection, at: now) }
    }

    /// Breaks the link for good, as the node at its start sees it.
    mutating func unlink(_ from: Int, _ to: Int) {
        let peer = processes[to].node.cluster.own
        processes[from].node.unlinked(from: peer.id, evidence: .refused(generation: peer.generation), at: now)
        settle()
    }

    /// The process dies with everything but its disk; its clients lose their streams, the others their links to it.
    mutating func kill(_ index: Int) {
        processes[index].end(keepsGroup: false)
        for client in clients.indices where clients[client].node == index { clients[client].isOpen = false }
        for other in processes.indices where other != index && processes[other].isUp { unlink(other, index) }
    }

    /// The process says that it ends, and ends.
    mutating func leave(_ index: Int) {
        processes[index].node.leave(at: now)
        settle()
        kill(index)
    }

    /// The process is there again, without links.
    mutating func revive(_ index: Int, settings: CoreSettings = CoreSettings()) throws {
        let (disk, generation) = (processes[index].disk, processes[index].generation + 1)
        processes[index] = Self.process(index, joins: false, settings)
        processes[index].disk = disk
        try processes[index].start(generation: generation, at: now) { _ in }
    }

    mutating func restart(_ index: Int, settings: CoreSettings = CoreSettings()) throws {
        try revive(index, settings: settings)
        for other in processes.indices where other != index && processes[other].isUp {
            link(index, other)
            link(other, index)
        }
    }

    @discardableResult
    mutating func login(
        _ user: String, on node: Int, platform: String = "ios", device: String = "", resumeFrom: Milliseconds? = nil,
        customStatus: String? = nil, isPushReachable: Bool = false, until expiresAt: Milliseconds = .max, kind: Attach.Kind = .session
    ) -> Int {
        let session = processes[node].nextSession()
        var attach = Attach(
            session: session, user: UserID(app: "default", id: user), platform: platform, deviceID: device, customStatus: customStatus,
            isPushReachable: isPushReachable)
        attach.kind = kind
        let index = processes[node].open(attach, of: clients.count, at: 0, until: expiresAt, resumeFrom: resumeFrom, at: now)
        clients.append(Client(user: user, node: node, index: index, session: session))
        settle()
        return clients.count - 1
    }

    mutating func lose(_ client: Int) { close(client, .lost) }

    mutating func close(_ client: Int, _ cause: Detach.Cause) {
        guard clients[client].isOpen else { return }
        clients[client].isOpen = false
        processes[clients[client].node].close(clients[client].index, of: 0, cause: cause)
        settle()
    }

    /// Logs a user out on every device.
    mutating func logOut(_ user: String) {
        for client in clients.indices where clients[client].user == user { close(client, .loggedOut) }
    }

    /// Performs an operation on `node` and returns its answer, if it came without time passing.
    ///
    /// The limits of calls hold for the user's own token. A back end, which has no limit, is the `origin` of calls for it alone.
    @discardableResult
    mutating func call(
        _ call: Call, key: CallKey? = nil, by user: String, on node: Int, origin: Call.Origin = .caller,
        originSession: OriginSession = .unknown
    ) -> CallAnswer? {
        nextToken += 1
        let caller = UserID(app: "default", id: user)
        processes[node].node.perform(
            call, key: key, caller: caller, origin: origin, originSession: originSession, gateway: 0, token: nextToken, at: now)
        settle()
        if waitsForHides { endHides() }
        return processes[node].answers[nextToken]
    }

    /// Lets the time pass in which calls wait before they hide their users (``HidingTime``).
    mutating func endHides() {
        var stepsLeft = 60
        while stepsLeft > 0, processes.contains(where: { $0.isUp && $0.node.isHiding }) {
            advance(.milliseconds(50))
            stepsLeft -= 1
        }
    }

    /// Lets the time pass after which a user may make another call in a long series: the limit is 20 calls in 5 s.
    mutating func keepPace() { advance(.milliseconds(300)) }

    /// The answer to the last call, which may have needed time.
    func lastAnswer(on node: Int) -> CallAnswer? { processes[node].answers[nextToken] }

    @discardableResult
    mutating func subscribe(_ user: String, to targets: [String], on node: Int, sync: Bool = false, seconds: Int64? = nil) -> CallAnswer? {
        call(
            .subscribeUserStatus(targets.map { UserID(app: "default", id: $0) }, seconds: seconds, sync: sync, subscribeType: 1),
            by: user, on: node)
    }

    @discardableResult
    mutating func setStatus(_ user: String, _ text: String, on node: Int, seconds: Int64? = nil) -> CallAnswer? {
        call(.setSelfStatus(customStatus: text, seconds: seconds), by: user, on: node)
    }

    /// Whether ``call(_:key:by:on:origin:originSession:)`` lets the time pass until a user has hidden. Most tests are about what follows.
    var waitsForHides = true

    /// Lets time pass in steps. A step of more than 300 ms is a pause for all nodes. They are awake at the end, if they have a second.
    ///
    /// After a step of 10 s or more no node takes itself for dead: the test skips that time.
    mutating func advance(_ duration: Duration, step: Duration = .milliseconds(50)) {
        let end = now.instant + duration
        let wakesAt = step > .milliseconds(300) && duration >= step + .seconds(1) ? end + .seconds(-1) : end
        while now.instant < end {
            let step = wakesAt == end ? step : now.instant < wakesAt ? min(step, wakesAt - now.instant) : .milliseconds(50)
            now.instant += step
            now.wall += step.wholeMilliseconds
            for index in processes.indices where processes[index].isUp && !stopped.contains(index) {
                if step >= .seconds(10) { processes[index].node.skipTime() }
                processes[index].node.tick(at: now, systemAhead: systemAhead[index] ?? 0)
                processes[index].gateways[0].value.tick(at: now)
                processes[index].node.beat(at: now)
            }
            for attempt in webhooks.takeOverdue(at: now) where processes[attempt.node].isUp {
                processes[attempt.node].node.answered(WebhookAnswer(to: attempt.delivery, isAccepted: false), at: now)
            }
            settle()
        }
    }

    // MARK: Inspection

    func record(of user: String) -> Record {
        let id = UserID(app: "default", id: user)
        let owner = ownerIndex(of: user)
        return processes[owner].node.owner.record(of: id)
    }

    /// The process that owns a user, by the ring of the first process that is up.
    func ownerIndex(of user: String) -> Int {
        let first = processes.first { $0.isUp }!
        let id = first.node.cluster.ownerID(of: UserID(app: "default", id: user))
        return processes.firstIndex { $0.node.cluster.own.id == id }!
    }

    /// A user that is owned by `node`.
    func user(ownedBy node: Int, number: Int = 0) -> String {
        var found = -1
        for candidate in 0... {
            if ownerIndex(of: "user\(candidate)") == node { found += 1 }
            if found == number { return "user\(candidate)" }
        }
        preconditionFailure("the natural numbers have ended")
    }

    /// The status types that a client was told of a user, without repetitions that only mark a record as unsure, or end that.
    func statuses(told client: Int, of user: String) -> [String] {
        var last: JSONValue?
        return clients[client].events.filter { $0.name == "onUserStatusChanged" }.flatMap { event in
            event.data["userStatusList"]!.elements.filter { $0["userID"]?.textValue == user }
        }.compactMap { status in
            defer { last = status }
            let isRepeated = last?["statusType"] == status["statusType"] && last?["isUnsure"] != status["isUnsure"]
            return isRepeated ? nil : status["statusType"]!.textValue
        }
    }

    // MARK: Obeying effects

    /// Carries out all effects until every node is silent.
    mutating func settle() {
        var isBusy = true
        while isBusy {
            isBusy = false
            for index in processes.indices where processes[index].isUp {
                isBusy = processes[index].turn(at: now) { carryOut($0, of: index) } || isBusy
            }
        }
    }

    private mutating func carryOut(_ output: ClusterProcess.Output, of index: Int) {
        switch output {
        case .gateway(_, let output): carryOut(output, of: index)
        case .effect(let effect, _): carryOut(effect, of: index)
        case .turnEnded: write(index)
        case .toCore, .toGateway: preconditionFailure("a process has one gateway")
        }
    }

    private mutating func carryOut(_ output: Gateway.Output, of index: Int) {
        for push in output.pushes {
            let payload = output.payloads[Int(push.payload)]
            trace.append("push \(index) \(push.session) \(String(decoding: payload, as: UTF8.self))")
            if let client = processes[index].client(of: push.session, at: 0) { clients[client].receive(payload) }
        }
        for ended in output.ended + output.cutOff {
            if let client = processes[index].client(of: ended, at: 0) { close(client, .lost) }
        }
    }

    private mutating func carryOut(_ effect: Node.Effect, of index: Int) {
        switch effect {
        case .answer(_, let token, let answer): processes[index].answers[token] = answer
        case .transmit(let peer): transmit(from: index, to: peer)
        case .computeRing(let members): processes[index].node.ringComputed(rings.ring(of: members), at: now)
        case .followSystemClock: followed.append(index)
        case .deliver(let delivery):
            guard let isAccepted = webhooks.receive(delivery, from: index, at: now) else { return }
            processes[index].node.answered(WebhookAnswer(to: delivery, isAccepted: isAccepted), at: now)
        case .resumeDeletion(let user):
            processes[index].node.perform(.deleteUser, caller: user, origin: .backEnd, seesAll: true, gateway: nil, token: 1 << 40, at: now)
        case .send, .persist, .deleteSlots, .deleteRows, .connect, .membership, .superseded, .traced, .truncateLog: break
        }
    }

    /// Writes all that waits for the disk of a process.
    private mutating func write(_ index: Int) {
        while !heldDisks.contains(index), processes[index].disk.begin() {
            let (tickets, isDurable) = processes[index].disk.commit()
            for ticket in tickets { processes[index].node.stored(ticket, isDurable: isDurable, at: now) }
        }
    }

    private mutating func listen(to batch: [UInt8], from: Int, to: Int) {
        guard heard != nil else { return }
        batch.withUnsafeBytes { bytes in
            var reader = WireReader(bytes)
            reader.rules = ReceivedRules(withoutConnection: Privacy())
            while reader.remainingBytes > 0, let message = try? reader.message() { heard?.append((from, to, message)) }
        }
    }

    private mutating func transmit(from index: Int, to peer: PeerIndex) {
        let id = processes[index].peerID(peer)
        let target = processes.firstIndex { $0.id == id }!
        while let batch = processes[index].node.nextBatch(for: peer, at: now) {
            trace.append("send \(index) \(target) \(batch.count)")
            bytesSent += batch.count
            listen(to: batch, from: index, to: target)
            guard processes[target].isUp else { return }
            if losing.contains(where: { $0 == (index, target) }) { continue }
            do { try deliver(batch, from: processes[index].id, to: target) } catch { trace.append("junk: \(error)") }
            processes[index].node.acknowledged(by: peer, at: now)
        }
    }
}

extension TestCluster.Client {
    fileprivate mutating func receive(_ payload: [UInt8]) {
        let lines = String(decoding: payload, as: UTF8.self).split(separator: "\n")
        let name = String(lines[0].dropFirst("event: ".count))
        lastEventID = Milliseconds(lines[1].dropFirst("id: ".count))!
        let data = try! JSONReader.read(Array(lines[2].dropFirst("data: ".count).utf8))
        events.append((name, data))
        for status in data["userStatusList"]?.elements ?? [] {
            let user = status["userID"]!.textValue
            let version = status["version"]!.textValue
            if let old = view[user]?["version"]?.textValue {
                if version < old { wentBack += 1 }
                if version == old { repeated += 1 }
            }
            view[user] = status
        }
    }
}

extension JSONValue {
    var elements: [JSONValue] { if case .array(let elements) = self { elements } else { [] } }
    var textValue: String { if case .string(let text) = self { text } else { "" } }
    var number: Int64 { if case .integer(let number) = self { number } else { -1 } }
}

func user(_ id: String) -> UserID { UserID(app: "default", id: id) }

extension Node {
    /// Whether a call waits before it hides its user.
    var isHiding: Bool { machines.calls.hides.count > 0 || !machines.chain.hiding.isEmpty }

    /// Has the time until the next tick not count as a pause after which this node doubts what it knows.
    mutating func skipTime() { machines.cluster.membership.ticks.doubtedFrom = .farFuture }

    /// Registers everything that this node hosts with one owner, as after a lost link.
    mutating func registerAgain(with peer: PeerIndex) { machines.edge.resync(peer, ranges: .all, machines.owner, &machines.cluster) }

    /// Sends a record to the nodes that watch it.
    mutating func publish(_ record: Record, to watchers: [PeerIndex]) {
        machines.edge.relays.publish(record, to: Audience(of: record, watchers: watchers), machines.owner, &machines.cluster)
    }

    /// Sends the messages that a finished write releases.
    mutating func carryOut(_ outcome: PendingWrites.Outcome, at now: Now) { machines.carryOut(outcome, at: now) }

    /// The part of a tick that concerns relays.
    mutating func verifyRelayed(at now: Now) { machines.edge.verifyRelayed(machines.owner, &machines.cluster, at: now) }

    /// Asks all members again, by the present ring, as after a split.
    mutating func beginTransfer(isDemoted: Bool, at now: Now) {
        machines.cluster.ownership.beginTransfer(isDemoted: isDemoted, clock: owner.clock.current(at: now.wall), at: now)
        machines.perform(SlotTransfer.begin(&machines.owner, &machines.cluster, at: now), at: now)
    }

    mutating func offerMisplacedRows() { SlotTransfer.offerMisplacedRows(machines.owner, &machines.cluster) }

    /// Acknowledges the barriers that wait for no stale view.
    mutating func releaseBarriers() {
        machines.replication.releaseBarriers(staleCount: machines.edge.fanOut.staleCount, &machines.cluster.outbox)
    }

    /// Makes a ring the present one.
    mutating func changePlacement(to placement: Placement, at now: Now) { machines.perform([.change(to: placement)], at: now) }

    mutating func joinPreparation(at now: Now) { machines.perform(SlotTransfer.joinPreparation(&machines.cluster, at: now), at: now) }

    mutating func onTransferComplete(ring: UInt64, offerSequence: UInt64, from peer: PeerIndex) {
        let outputs = SlotTransfer.onTransferComplete(ring: ring, offerSequence: offerSequence, from: peer, &machines.cluster)
        machines.perform(outputs, at: Now(instant: Instant(nanoseconds: 0), wall: 0))
    }
}

extension SimulatedDisk {
    /// Deletes the rows for which `isGone` holds.
    mutating func remove(where isGone: (Row) -> Bool) {
        deleteRows(rows.values.filter(isGone))
        while begin() { _ = commit() }
    }
}

/// The answer to a call about the visibility, as its user is told it.
struct ShownVisibility: Equatable {
    let visibility: Visibility
    var remnant = Remnant.none
}

extension CallAnswer {
    /// The visibility of the answer; nil for an answer without one.
    var shown: ShownVisibility? {
        VisibilityAnswer(self).map { ShownVisibility(visibility: $0.privacy.visibility, remnant: $0.remnant) }
    }
}
