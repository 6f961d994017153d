import DequeModule
import PresenceWire

/// Changes whose answers wait for disks: this node's own, and one replica's for each user (2 of 3 disks).
struct PendingWrites {
    /// An answer that is held back.
    typealias HeldAnswer = (peer: PeerIndex, id: UInt64, answer: Answer)

    /// What one ticket waits for.
    struct Write {
        let ticket: UInt64
        /// What its replicas answer with: another one when it goes to others, so that what they say of something else does not count.
        var replicaTicket: UInt64
        /// What its witnesses answer with.
        var witnessTicket: UInt64 = 0
        var answers: [HeldAnswer]
        /// To be said before the answers.
        var interests: [(peer: PeerIndex, interest: Interest)] = []
        /// To be said to owners once the rows, which this node keeps for them, are on disk.
        var acknowledgements: [(peer: PeerIndex, ticket: UInt64)]
        /// The rows of users that this node owns; sent again when the replicas change.
        let rows: [Row]
        /// One list for each user: any of these replicas is enough.
        var needs: [[PeerIndex]] = []
        /// Each of these must have heard of it.
        var witnesses: [PeerIndex] = []
        var isStored = false
        let deadline: Instant

        var isComplete: Bool { isStored && needs.isEmpty && witnesses.isEmpty }
        var isOver: Bool { answers.isEmpty && acknowledgements.isEmpty && isStored }
    }

    /// What is to be said.
    enum Outcome {
        case done(Write)
        case failed(Write, Refusal)
    }

    private var writes: Deque<Write> = []
    /// Of what other nodes answer with: the write's ticket, where it is another one.
    private var tickets: [UInt64: UInt64] = [:]
    /// The last tick.
    private var tickedAt = Instant(nanoseconds: 0)

    /// Changes for which somebody waits.
    var count: Int { writes.count { !$0.answers.isEmpty || !$0.acknowledgements.isEmpty } }

    /// How long, up to the last tick, the oldest change has waited that waits for a replica; zero when none does.
    ///
    /// - Parameter timeout: from a change to its deadline.
    func replicaLag(timeout: Duration) -> Duration {
        guard let oldest = writes.first(where: { !$0.needs.isEmpty }) else { return .zero }
        return max(tickedAt - oldest.deadline + timeout, .zero)
    }

    mutating func add(_ write: Write) {
        writes.append(write)
        if write.witnessTicket != 0 { tickets[write.witnessTicket] = write.ticket }
    }

    /// The store has finished with `ticket`.
    mutating func stored(_ ticket: UInt64, isDurable: Bool) -> Outcome? {
        guard let place = place(of: ticket) else { return nil }
        writes[place].isStored = true
        if !isDurable { return end(place) { .failed($0, .notDurable.afterPassingOn) } }
        return complete(place)
    }

    /// A replica has the rows that were sent with `ticket` on its disk, or a witness has heard.
    mutating func replicated(_ ticket: UInt64, by peer: PeerIndex) -> Outcome? {
        guard let place = place(of: tickets[ticket] ?? ticket) else { return nil }
        if ticket == writes[place].replicaTicket { writes[place].needs.removeAll { $0.contains(peer) } }
        if ticket == writes[place].witnessTicket { writes[place].witnesses.removeAll { $0 == peer } }
        return complete(place)
    }

    /// The replicas of users have changed: `needs` names them anew for each row. Returns what is to be sent again, in order.
    mutating func replan(nextTicket: () -> UInt64, _ needs: (Row) -> [[PeerIndex]]) -> [Write] {
        for place in writes.indices where !writes[place].needs.isEmpty {
            let needs = Self.needs(of: writes[place].rows, needs)
            guard needs != writes[place].needs else { continue }
            let ticket = nextTicket()
            writes[place].needs = needs
            writes[place].replicaTicket = ticket
            tickets[ticket] = writes[place].ticket
        }
        return writes.filter { !$0.needs.isEmpty }
    }

    /// Removes dead nodes from the pending barriers, and returns the writes that this completes.
    mutating func forget(where isGone: (PeerIndex) -> Bool) -> [Outcome] {
        var outcomes: [Outcome] = []
        for place in writes.indices.reversed() where writes[place].witnesses.contains(where: isGone) {
            writes[place].witnesses.removeAll(where: isGone)
            if let outcome = complete(place) { outcomes.append(outcome) }
        }
        return outcomes.reversed()
    }

    /// Ends what has waited for too long. Deadlines come in the order of the writes. Called at every tick.
    mutating func overdue(at now: Instant) -> [Outcome] {
        tickedAt = now
        var outcomes: [Outcome] = []
        let count = writes.firstPlace { $0.deadline <= now }
        for place in (0..<count).reversed() where !writes[place].answers.isEmpty {
            if let outcome = end(place, { .failed($0, .unavailable.afterPassingOn) }) { outcomes.append(outcome) }
        }
        return outcomes.reversed()
    }

    /// For each of `rows` the groups of nodes of each of which one must answer; equal groups once.
    static func needs(of rows: [Row], _ keepers: (Row) -> [[PeerIndex]]) -> [[PeerIndex]] {
        var needs: [[PeerIndex]] = []
        for row in rows { for peers in keepers(row) where !needs.contains(peers) { needs.append(peers) } }
        return needs
    }

    private mutating func complete(_ place: Int) -> Outcome? {
        guard writes[place].isComplete else { return nil }
        return end(place) { .done($0) }
    }

    private mutating func end(_ place: Int, _ outcome: (Write) -> Outcome) -> Outcome? {
        let write = writes[place]
        writes[place].answers = []
        writes[place].interests = []
        writes[place].acknowledgements = []
        writes[place].needs = []
        writes[place].witnesses = []
        if !tickets.isEmpty { tickets = tickets.filter { $0.value != write.ticket } }
        while let first = writes.first, first.isOver { writes.removeFirst() }
        return write.answers.isEmpty && write.acknowledgements.isEmpty ? nil : outcome(write)
    }

    /// Tickets are counted up, so a place is found by halving.
    private func place(of ticket: UInt64) -> Int? {
        let place = writes.firstPlace { $0.ticket < ticket }
        return place < writes.count && writes[place].ticket == ticket ? place : nil
    }
}
