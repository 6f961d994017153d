import PresenceWire

@testable import PresenceCore

/// Many memberships in one thread and virtual time: a discrete-event simulation with delay, loss, partitions, deaths and slow nodes.
struct MembershipSimulation {
    struct Node {
        var membership: Membership
        let peer: Peer
        var isUp = true
        /// Whether it lives, but cannot be missed when it is called dead: a node made slow.
        var isSlow = false
        /// Neither ticks nor messages before this time: the process is stopped.
        var asleepUntil: Int64 = 0
        /// Messages are neither sent nor taken in before this time, but the clock goes on (Lifeguard §V).
        var blockedUntil: Int64 = 0
        var bytesSent = 0
        var messagesSent = 0
        /// Nodes of different groups do not reach one another.
        var group = 0
    }

    struct Death {
        let node: Int
        let at: Int64
        /// The nodes that do not know it yet.
        var unaware: Set<Int>
        var firstSuspectedAt: Int64?
        var firstKnownAt: Int64?
        var knownToAllAt: Int64?
    }

    private enum Content {
        case tick
        case message(MembershipMessage, from: Int)
        case linked(Peer)
        case unlinked(NodeID, Membership.LinkLoss)
    }

    private struct Event {
        let at: Int64
        let order: UInt64
        let node: Int
        let content: Content
    }

    static let tickInterval: Int64 = 40_000_000
    static let overheadBytes = 30

    var settings: Membership.Settings
    var nodes: [Node] = []
    var time: Int64 = 0
    var random: SplitMix64
    /// The share of messages that is lost, in per mille.
    var lossPerMille = 0
    /// Messages lost in one direction.
    var cut: [(from: Int, to: Int)] = []
    var deaths: [Death] = []
    /// Living nodes declared dead: everywhere; of these, healthy ones; of these, where the node that says so is healthy.
    var falseDeaths = 0
    var falseDeathsOfHealthy = 0
    var falseDeathsAmongHealthy = 0
    /// Folds every effect of every node in; equal for equal runs.
    var trace: UInt64 = 0
    var isTracing = false
    /// Whether each message goes through the codec; its bytes are counted in any case.
    var isDecoding = false
    var eventsCount = 0
    private var indices: [NodeID: Int] = [:]
    private var heap: [Event] = []
    private var order: UInt64 = 0

    /// - Parameter isKnown: whether all nodes know each other from the start; otherwise all know node 0's address.
    init(nodes count: Int, seed: UInt64, settings: Membership.Settings = Membership.Settings(), isKnown: Bool = true) {
        self.settings = settings
        random = SplitMix64(seed: seed)
        for index in 0..<count { start(index, generation: 1) }
        for index in 0..<count where isKnown { introduceAll(to: index) }
        for index in 1..<max(1, count) where !isKnown {
            nodes[index].membership.learn(Peer(id: nodes[0].peer.id, generation: 0, address: nodes[0].peer.address), at: now)
            flush(index)
        }
    }

    var now: Now { Now(instant: Instant(nanoseconds: time), wall: 1_790_000_000_000 + time / 1_000_000) }

    private mutating func start(_ index: Int, generation: UInt64) {
        let peer = Peer(id: NodeID("node-\(index)"), generation: generation, address: "10.0.\(index / 250).\(index % 250):7601")
        let membership = Membership(own: peer, settings: settings, seed: random.next())
        if index == nodes.count {
            nodes.append(Node(membership: membership, peer: peer))
            indices[peer.id] = index
        } else {
            let group = nodes[index].group
            nodes[index] = Node(membership: membership, peer: peer, group: group)
        }
        schedule(.tick, on: index, after: Int64.random(in: 0..<Self.tickInterval, using: &random))
    }

    private mutating func introduceAll(to index: Int) {
        for other in nodes.indices where other != index {
            nodes[index].membership.apply(
                MembershipUpdate(member: nodes[other].peer, incarnation: 0, state: .alive), at: now)
        }
        nodes[index].membership.queue = UpdateQueue()
        nodes[index].membership.effects = []
    }

    // MARK: Events

    /// Ends a process. If silent, no link breaks; otherwise the host refuses the others' links at once.
    mutating func kill(_ index: Int, isSilent: Bool) {
        nodes[index].isUp = false
        let unaware = Set(nodes.indices.filter { nodes[$0].isUp })
        for death in deaths.indices { learned(death, index) }
        deaths.append(Death(node: index, at: time, unaware: unaware))
        guard !isSilent else { return }
        for other in nodes.indices where nodes[other].isUp && reaches(other, index) {
            schedule(.unlinked(nodes[index].peer.id, .refused(generation: nodes[index].peer.generation)), on: other, after: drawDelay() * 2)
        }
    }

    mutating func restart(_ index: Int) {
        start(index, generation: nodes[index].peer.generation + 1)
        let contact = nodes.indices.first { $0 != index && nodes[$0].isUp && reaches($0, index) && reaches(index, $0) }
        if let contact { nodes[index].membership.learn(nodes[contact].peer, at: now) }
        flush(index)
    }

    mutating func sleep(_ index: Int, for duration: Duration) { nodes[index].asleepUntil = time + duration.wholeNanoseconds }

    mutating func block(_ index: Int, for duration: Duration) { nodes[index].blockedUntil = time + duration.wholeNanoseconds }

    mutating func act(on index: Int, _ body: (inout Membership, Now) -> Void) {
        body(&nodes[index].membership, now)
        flush(index)
    }

    func reaches(_ from: Int, _ to: Int) -> Bool {
        nodes[from].group == nodes[to].group && (cut.isEmpty || !cut.contains { $0 == (from, to) })
    }

    /// Passes time.
    mutating func run(for duration: Duration) {
        let end = time + duration.wholeNanoseconds
        while let next = heap.first, next.at <= end {
            removeFirst()
            time = next.at
            eventsCount += 1
            take(next)
        }
        time = end
    }

    /// Passes time until `isDone`, looked at every 50 ms; returns how long it took, nil if it took too long.
    mutating func run(atMost limit: Duration, until isDone: (MembershipSimulation) -> Bool) -> Duration? {
        let start = time
        while time - start < limit.wholeNanoseconds {
            if isDone(self) { return .nanoseconds(time - start) }
            run(for: .milliseconds(50))
        }
        return isDone(self) ? .nanoseconds(time - start) : nil
    }

    /// Whether all live nodes agree: every live node is alive to all, and every other is alive to none.
    var isAgreed: Bool {
        let up = nodes.filter(\.isUp)
        let living = up.map(\.peer).sorted { $0.id < $1.id }
        return up.allSatisfy { node in
            let members = node.membership.members.filter { $0.state.isLive }
            return members.map(\.member) == living && members.allSatisfy { $0.state == .alive }
        }
    }

    // MARK: Events

    private mutating func take(_ event: Event) {
        guard nodes[event.node].isUp else { return }
        if case .tick = event.content, nodes[event.node].asleepUntil <= time {
            schedule(.tick, on: event.node, after: Self.tickInterval)
        } else {
            let wake = max(nodes[event.node].asleepUntil, nodes[event.node].blockedUntil)
            if wake > time { return push(event.content, on: event.node, at: wake) }
        }
        switch event.content {
        case .tick: nodes[event.node].membership.tick(at: now)
        case .message(let message, let from): nodes[event.node].membership.receive(message, from: nodes[from].peer.id, at: now)
        case .linked(let peer): nodes[event.node].membership.linked(peer, at: now)
        case .unlinked(let id, let loss): nodes[event.node].membership.unlinked(id, evidence: loss, at: now)
        }
        flush(event.node)
    }

    private mutating func flush(_ index: Int) {
        for effect in nodes[index].membership.takeEffects() {
            switch effect {
            case .send(let message, let id): send(message, from: index, to: indices[id]!)
            case .changed(let peer, let state, _): note(peer, state, at: index)
            case .connect(let peer): connect(index, to: indices[peer.id]!)
            case .superseded, .wasDeclaredDead: break
            }
        }
    }

    private mutating func send(_ message: MembershipMessage, from: Int, to: Int) {
        var writer = WireWriter(reserving: 64)
        writer.membership(message)
        nodes[from].bytesSent += writer.bytes.count + Self.overheadBytes
        nodes[from].messagesSent += 1
        if isTracing { trace = StableHash.mix(trace, StableHash.hash64(writer.bytes) ^ UInt64(time) ^ UInt64(to)) }
        guard reaches(from, to), nodes[to].isUp, lossPerMille == 0 || Int.random(in: 0..<1_000, using: &random) >= lossPerMille else {
            return
        }
        let delay = max(0, nodes[from].blockedUntil - time) + drawDelay()
        schedule(.message(isDecoding ? Self.decode(writer.bytes) : message, from: from), on: to, after: delay)
    }

    static func decode(_ bytes: [UInt8]) -> MembershipMessage {
        bytes.withUnsafeBytes { buffer in
            var reader = WireReader(buffer)
            guard let message = try? reader.membership(), (try? reader.expectEnd()) != nil else { preconditionFailure("\(bytes)") }
            return message
        }
    }

    private mutating func connect(_ from: Int, to: Int) {
        guard nodes[to].isUp, reaches(from, to), reaches(to, from) else { return }
        schedule(.linked(nodes[to].peer), on: from, after: 2 * drawDelay())
        schedule(.linked(nodes[from].peer), on: to, after: 2 * drawDelay())
    }

    private mutating func note(_ peer: Peer, _ state: MemberState, at observer: Int) {
        if isTracing { trace = StableHash.mix(trace, UInt64(observer) << 8 | UInt64(state.rawValue)) }
        let index = indices[peer.id]!
        if nodes[index].isUp {
            guard state == .dead, peer.generation == nodes[index].peer.generation else { return }
            falseDeaths += 1
            if !nodes[index].isSlow { falseDeathsOfHealthy += 1 }
            if !nodes[index].isSlow, !nodes[observer].isSlow { falseDeathsAmongHealthy += 1 }
            return
        }
        guard let death = deaths.lastIndex(where: { $0.node == index }) else { return }
        if state == .suspect, deaths[death].firstSuspectedAt == nil { deaths[death].firstSuspectedAt = time }
        guard state == .dead else { return }
        if deaths[death].firstKnownAt == nil { deaths[death].firstKnownAt = time }
        learned(death, observer)
    }

    private mutating func learned(_ death: Int, _ observer: Int) {
        guard deaths[death].unaware.remove(observer) != nil, deaths[death].unaware.isEmpty else { return }
        deaths[death].knownToAllAt = time
    }

    // MARK: The queue, a binary heap

    private mutating func drawDelay() -> Int64 { Int64.random(in: 500_000...5_000_000, using: &random) }

    private mutating func schedule(_ content: Content, on node: Int, after delay: Int64) { push(content, on: node, at: time + delay) }

    private mutating func push(_ content: Content, on node: Int, at: Int64) {
        order += 1
        heap.append(Event(at: at, order: order, node: node, content: content))
        var child = heap.count - 1
        while child > 0, isBefore(child, (child - 1) / 2) {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    private mutating func removeFirst() {
        heap.swapAt(0, heap.count - 1)
        heap.removeLast()
        var parent = 0
        while true {
            var least = parent
            let left = 2 * parent + 1
            if left < heap.count, isBefore(left, least) { least = left }
            if left + 1 < heap.count, isBefore(left + 1, least) { least = left + 1 }
            if least == parent { return }
            heap.swapAt(parent, least)
            parent = least
        }
    }

    private func isBefore(_ left: Int, _ right: Int) -> Bool {
        (heap[left].at, heap[left].order) < (heap[right].at, heap[right].order)
    }
}

extension Membership {
    /// The updates of all known members, this node and the dead included, by ID.
    var members: [MembershipUpdate] {
        table.indices.filter { table[$0].state != nil }.map(update).sorted { $0.member.id < $1.member.id }
    }

    /// The members of the ring: alive or suspect and serving, this node included, by ID.
    var ringMembers: [Peer] {
        table.filter { $0.state?.isLive == true && $0.role == .serving }.map(\.peer).sorted { $0.id < $1.id }
    }
}
