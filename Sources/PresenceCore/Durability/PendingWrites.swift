import DequeModule
import PresenceWire

/// Changes whose answers wait for disks: this node's disk, and one replica's disk for each user (2 of 3 disks, <doc:DurableRows>).
struct PendingWrites {
    /// The acknowledgements that one ticket waits for.
    struct Write {
        let ticket: UInt64
        /// The ticket that its replicas acknowledge. It changes when the write goes to other replicas, so that earlier acknowledgements do
        /// not count.
        var replicaTicket: UInt64
        /// The ticket of its barrier acknowledgements; nil without a barrier.
        var barrierTicket: UInt64?
        /// The actions that wait for the disks.
        var continuations: [Continuation] = []
        /// The rows of users that this node owns. They are sent again when the replicas change.
        let rows: [Row]
        /// The nodes that keep each row. One acknowledgement of each group is enough.
        var needs: [[PeerIndex]] = []
        /// The nodes that must each send a barrier acknowledgement.
        var barrierPeers: [PeerIndex] = []
        var isStored = false
        let deadline: Instant

        var isComplete: Bool { isStored && needs.isEmpty && barrierPeers.isEmpty }
        /// Whether somebody waits for the disks.
        var isAwaited: Bool { !continuations.isEmpty }
        /// Whether some of the actions wait for a replica as well.
        var waitsForReplicas: Bool { continuations.waitForReplicas }
        var isOver: Bool { !isAwaited && isStored }
    }

    /// The messages that a finished write releases.
    enum Outcome {
        case done(Write)
        case failed(Write, Refusal)

        var chainSteps: (steps: [ChainStep], areDurable: Bool) {
            switch self {
            case .done(let write): (write.continuations.steps, true)
            case .failed(let write, _): (write.continuations.steps, false)
            }
        }
    }

    private var writes: Deque<Write> = []
    /// The write's ticket for each ticket that other nodes acknowledge, if it is another one.
    private var tickets: [UInt64: UInt64] = [:]
    /// The time of the last tick.
    private var tickedAt = Instant(nanoseconds: 0)

    /// The number of changes that somebody waits for.
    var count: Int { writes.count { $0.isAwaited } }

    /// How long, up to the last tick, the oldest change has waited for a replica; zero if none waits.
    ///
    /// - Parameter timeout: from a change to its deadline.
    func replicaLag(timeout: Duration) -> Duration {
        guard let oldest = writes.first(where: { !$0.needs.isEmpty }) else { return .zero }
        return max(tickedAt - oldest.deadline + timeout, .zero)
    }

    mutating func add(_ write: Write) {
        writes.append(write)
        if let ticket = write.barrierTicket { tickets[ticket] = write.ticket }
    }

    /// Has an action wait with the newest write of rows of its users. Returns whether there is one that is not over.
    mutating func hold(_ deferred: DeferredContinuation) -> Bool {
        let newest = writes.lastIndex { write in
            !write.isComplete && write.rows.contains { $0.kind != .status && deferred.users.contains($0.user) }
        }
        guard let newest else { return false }
        writes[newest].continuations.append(deferred.action.continuation)
        return true
    }

    /// Records that the store has finished with `ticket`.
    mutating func stored(_ ticket: UInt64, isDurable: Bool) -> Outcome? {
        guard let index = index(of: ticket) else { return nil }
        writes[index].isStored = true
        if !isDurable { return end(index) { .failed($0, .notDurable.afterPassingOn) } }
        return complete(index)
    }

    /// Removes and returns the acknowledgements of a write. They wait for this node's disk alone.
    ///
    /// An acknowledgement that waited for the replicas of this node's own users would come after those of later rows.
    mutating func takeAcknowledgements(of ticket: UInt64) -> [(peer: PeerIndex, ticket: UInt64)] {
        guard let index = index(of: ticket) else { return [] }
        return writes[index].continuations.takeAcknowledgements()
    }

    /// Records that a replica has the rows of `ticket` on disk, or that a node has sent a barrier acknowledgement.
    mutating func replicated(_ ticket: UInt64, by peer: PeerIndex) -> Outcome? {
        guard let index = index(of: tickets[ticket] ?? ticket) else { return nil }
        if ticket == writes[index].replicaTicket { writes[index].needs.removeAll { $0.contains(peer) } }
        if ticket == writes[index].barrierTicket { writes[index].barrierPeers.removeAll { $0 == peer } }
        return complete(index)
    }

    /// Assigns the writes to the new replicas, which `keepers` names for each row. Returns the writes to send again, in order.
    mutating func replan(nextTicket: () -> UInt64, _ keepers: (Row) -> [PeerIndex]) -> [Write] {
        for index in writes.indices where !writes[index].needs.isEmpty {
            let needs = Self.needs(of: writes[index].rows, keepers)
            guard needs != writes[index].needs else { continue }
            let ticket = nextTicket()
            writes[index].needs = needs
            writes[index].replicaTicket = ticket
            tickets[ticket] = writes[index].ticket
        }
        return writes.filter { !$0.needs.isEmpty }
    }

    /// Removes dead nodes from the pending barriers, and returns the writes that this completes.
    mutating func dropPeers(where isGone: (PeerIndex) -> Bool) -> [Outcome] {
        var outcomes: [Outcome] = []
        for index in writes.indices.reversed() where writes[index].barrierPeers.contains(where: isGone) {
            writes[index].barrierPeers.removeAll(where: isGone)
            if let outcome = complete(index) { outcomes.append(outcome) }
        }
        return outcomes.reversed()
    }

    /// Ends the writes that have waited for too long. Deadlines follow the order of the writes. Called at every tick.
    mutating func overdue(at now: Instant) -> [Outcome] {
        tickedAt = now
        var outcomes: [Outcome] = []
        let count = writes.insertionIndex { $0.deadline <= now }
        for index in (0..<count).reversed() where writes[index].waitsForReplicas {
            if let outcome = end(index, { .failed($0, .unavailable.afterPassingOn) }) { outcomes.append(outcome) }
        }
        return outcomes.reversed()
    }

    /// The groups of nodes of which one each must acknowledge `rows`. Equal groups occur once.
    static func needs(of rows: [Row], _ keepers: (Row) -> [PeerIndex]) -> [[PeerIndex]] {
        var needs: [[PeerIndex]] = []
        for peers in rows.lazy.map(keepers) where !needs.contains(peers) { needs.append(peers) }
        return needs
    }

    private mutating func complete(_ index: Int) -> Outcome? {
        guard writes[index].isComplete else { return nil }
        return end(index) { .done($0) }
    }

    private mutating func end(_ index: Int, _ outcome: (Write) -> Outcome) -> Outcome? {
        takeEarlierNotices(index)
        let write = writes[index]
        writes[index].continuations = []
        writes[index].needs = []
        writes[index].barrierPeers = []
        if !tickets.isEmpty { tickets = tickets.filter { $0.value != write.ticket } }
        while let first = writes.first, first.isOver { writes.removeFirst() }
        return write.isAwaited ? outcome(write) : nil
    }

    /// Moves the notices of earlier writes about the same users to a write that ends. Without that a client would miss the earlier ones.
    ///
    /// The earlier rows of these users are on the same disks by now: links and disks keep their order. Their write waits for something
    /// else, such as a barrier or the rows of other users.
    private mutating func takeEarlierNotices(_ index: Int) {
        let users = Set(writes[index].continuations.lazy.compactMap { $0.notified })
        guard !users.isEmpty else { return }
        var earlier: [Continuation] = []
        for position in 0..<index where !writes[position].continuations.isEmpty {
            let isEarlier = { (continuation: Continuation) in continuation.notified.map(users.contains) ?? false }
            earlier += writes[position].continuations.filter(isEarlier)
            writes[position].continuations.removeAll(where: isEarlier)
        }
        if !earlier.isEmpty { writes[index].continuations = earlier + writes[index].continuations }
    }

    /// The index of a ticket, found by binary search: tickets increase.
    private func index(of ticket: UInt64) -> Int? {
        let index = writes.insertionIndex { $0.ticket < ticket }
        return index < writes.count && writes[index].ticket == ticket ? index : nil
    }
}

extension Continuation {
    /// The user to whose clients it sends notices; nil if it sends none.
    fileprivate var notified: UserID? {
        guard case .listUpdate(let listUpdate, _) = self, !listUpdate.notices.isEmpty else { return nil }
        return listUpdate.user
    }
}
