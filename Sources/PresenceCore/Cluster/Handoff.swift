import PresenceWire

/// The transfer of slots to this node by one ring: which slots are active, and what the other nodes have offered.
///
/// After every change of the members each node offers each other one what it holds of the slots that the other is to keep: a hash for each
/// slot. The other node requests those that differ, a page at a time, and first those that it owns. A slot that is new to its owner is
/// acquiring until the owner has received the answers of all members. It waits no longer than ``CoreSettings/takeoverTimeout``.
struct Handoff {
    /// Slots requested from one node at a time. The other answers about as many of them as ``rowsSentMax`` allows, and about one at least.
    static let slotsAskedMax = 256
    /// The number of ticks over which slots that are not urgent are requested, if that is at least ``slotsPacedMin`` a tick: some seconds.
    static let pacedTicks = 100
    /// The fewest slots requested at a tick: some hundred rows, a millisecond or two of work.
    static let slotsPacedMin = 16
    /// The rows sent in answer to one request: a page of some hundred kilobytes.
    static let rowsSentMax = 2_048

    /// The offer of one other node: the hashes of this node's slots there.
    private struct Offer {
        var ring: UInt64 = 0
        var offerSequence: UInt64 = 0
        var slots: [SlotHash] = []
        var isWhole = false
        /// The next of `slots` to check: first for those that this node owns, then for the others.
        var next = (owned: 0, kept: 0)
        /// The slots that were requested and have not arrived, in the order of the request. Those that this node owns come first.
        var requested: [Slot] = []
        /// The number of `requested` slots that this node owns.
        var ownedRequestedCount = 0

        /// Whether all rows of the slots that this node owns have arrived.
        var isOwnedReceived: Bool { isWhole && next.owned == slots.count && ownedRequestedCount == 0 }
        var isReceived: Bool { isOwnedReceived && next.kept == slots.count && requested.isEmpty }

        mutating func restart() { (next, requested, ownedRequestedCount) = ((0, 0), [], 0) }
    }

    /// How far this transfer is: the rows arrive, and then they are written.
    ///
    /// The rows must be on disk before this node sends the completion, because the other nodes delete theirs then.
    enum Progress: Equatable {
        /// Rows that this node keeps have still to arrive.
        case receiving
        /// All rows have arrived. The next bulk write is the last one to wait for.
        case received
        /// The last write to wait for has this ticket.
        case writing(ticket: UInt64)
        /// The disk has failed. The write is due again when the disk works.
        case failed
        /// All rows are on this node's disk.
        case written
    }

    /// The peer from which a slot was requested, and the hash that it offered.
    private struct Question {
        let peer: PeerIndex
        let hash: UInt64
        var isAnswered = false
    }

    /// A hash of the present members. Nodes with the same members have the same hash.
    private(set) var ring: UInt64 = 0
    private(set) var activeSlots = SlotSet()
    /// Slots of this node that are acquiring.
    private(set) var acquiringCount = 0
    /// The time until which this node waits for the others.
    private(set) var deadline = Instant.farFuture
    private(set) var progress = Progress.written
    /// The time since when slots of this node have been acquiring; nil if none is.
    private var acquiringSince: Instant?
    /// How long slots of this node have been acquiring. If none is, how long the last ones were.
    private(set) var duration = Duration.zero
    /// The bytes of the rows that others have sent for requested slots.
    private(set) var bytesReceived: UInt64 = 0
    private var offers: [Offer] = []
    /// The requests by this ring. A slot with the same hash is requested from one peer only.
    private var questions: [Slot: Question] = [:]
    /// The number of the current offer of this node to all others. Each ring and each return of misplaced rows starts a new one.
    ///
    /// It increases across processes too: there are 65,536 numbers for each millisecond between their generations.
    private(set) var offerSequence: UInt64 = 0
    /// Whether this node has received misplaced rows since. The completions of the other nodes do not cover them.
    private(set) var hasMisplacedRows = false
    /// For each peer the number of the offer whose rows it has received; 0 for none.
    private var completedOffers: [UInt64] = []

    /// - Parameter generation: that of this process. Its offers count as later than those of earlier processes.
    init(generation: UInt64) { offerSequence = generation &<< 16 }

    /// Whether this node may decide about a slot that it owns.
    func isActive(_ slot: Slot) -> Bool { activeSlots.contains(slot) }

    /// Starts the transfer of a new ring. Slots that are new to this node are acquiring.
    ///
    /// - Parameter isDemoted: whether no decision of this node counts, because it was the smaller side of a split or has just started.
    mutating func begin(ring: UInt64, isDemoted: Bool, deadline: Instant, isOwned: SlotSet) {
        self.ring = ring
        beginOffer()
        self.deadline = deadline
        progress = .receiving
        if isDemoted { activeSlots = SlotSet() } else { activeSlots.formIntersection(isOwned) }
        acquiringCount = isOwned.count - activeSlots.count
        questions = [:]
        for peer in offers.indices where offers[peer].ring == ring { offers[peer].restart() }
    }

    /// Starts a new offer, because this node has more rows than the others have received.
    ///
    /// The ring may be one that they have completed: it returns after a node was declared dead, and the other node wrote rows meanwhile.
    mutating func beginOffer() {
        offerSequence += 1
        hasMisplacedRows = false
    }

    /// Records that this node has received misplaced rows.
    mutating func recordMisplacedRows() { hasMisplacedRows = true }

    /// Waits for former members up to `deadline`, because no member is alive. A running wait keeps its deadline.
    mutating func wait(until deadline: Instant) { if self.deadline == .farFuture { self.deadline = deadline } }

    /// Extends the wait for the others, if there is one.
    mutating func wait(for timeout: Duration, at instant: Instant) {
        if acquiringCount > 0, deadline != .farFuture { deadline = max(deadline, instant + timeout) }
    }

    /// Activates all slots of this node.
    mutating func activate(isOwned: SlotSet) {
        acquiringCount = 0
        deadline = .farFuture
        activeSlots = isOwned
    }

    /// Brings ``duration`` up to date. Called at every tick, and when the acquiring slots become active.
    ///
    /// A later change of the members does not reset it, because users have waited since the first.
    mutating func measure(at instant: Instant) {
        guard acquiringCount > 0 || acquiringSince != nil else { return }
        let start = acquiringSince ?? instant
        duration = instant - start
        acquiringSince = acquiringCount > 0 ? start : nil
    }

    /// Whether a peer has still to send requested slots.
    func awaits(_ peer: PeerIndex) -> Bool { peer < offers.count && !offers[peer].requested.isEmpty }

    /// Whether a slot was requested from a peer that has not sent all of it.
    func awaits(_ slot: Slot, from peer: PeerIndex) -> Bool {
        guard let question = questions[slot] else { return false }
        return question.peer == peer && !question.isAnswered
    }

    /// Counts a row of a requested slot.
    mutating func count(_ row: Row) { bytesReceived += UInt64(row.key.utf8.count + (row.value?.count ?? 0)) }

    /// Receives one page of a peer's offer.
    ///
    /// A page from an earlier link, of this process or an earlier one, may arrive after a page from the next link.
    mutating func offered(_ slots: [SlotHash], ring: UInt64, offerSequence: UInt64, isFirst: Bool, isLast: Bool, by peer: PeerIndex) {
        while offers.count <= peer { offers.append(Offer()) }
        guard offerSequence >= offers[peer].offerSequence else { return }
        if isFirst { offers[peer] = Offer(ring: ring, offerSequence: offerSequence) }
        // The peer may have used another ring meanwhile. It receives the completion again when the rows of this offer have arrived.
        if isFirst, ring == self.ring { progress = .receiving }
        guard offers[peer].ring == ring, offers[peer].offerSequence == offerSequence, !offers[peer].isWhole else { return }
        offers[peer].slots += slots
        offers[peer].isWhole = isLast
    }

    /// The slots to request next from a peer without open requests: their hashes differ from those here, and no other peer sends them.
    ///
    /// - Parameter isPaced: whether to request only a share now, and the rest at the next ticks.
    mutating func next(from peer: PeerIndex, isPaced: Bool, isOwned: (Slot) -> Bool, isWanted: (SlotHash) -> Bool) -> [Slot] {
        guard peer < offers.count, offers[peer].ring == ring, offers[peer].requested.isEmpty else { return [] }
        var offer = offers[peer]
        offers[peer].slots = []
        let end = isPaced ? offer.next.owned + max(offer.slots.count / Self.pacedTicks, Self.slotsPacedMin) : .max
        while offer.requested.count < Self.slotsAskedMax, offer.next.owned < min(offer.slots.count, end) {
            let offered = offer.slots[offer.next.owned]
            offer.next.owned += 1
            if isOwned(offered.slot), isNew(offered, from: peer), isWanted(offered) { question(offered, of: peer, in: &offer) }
        }
        offer.ownedRequestedCount = offer.requested.count
        // A later page may hold more slots that this node owns. Those come first.
        let isPast = offer.isWhole && offer.next.owned == offer.slots.count
        while isPast, offer.requested.count < Self.slotsAskedMax, offer.next.kept < offer.slots.count {
            let offered = offer.slots[offer.next.kept]
            offer.next.kept += 1
            if !isOwned(offered.slot), isNew(offered, from: peer), isWanted(offered) { question(offered, of: peer, in: &offer) }
        }
        offers[peer] = offer
        return offer.requested
    }

    /// Whether the same slot was not requested from another peer.
    private func isNew(_ offered: SlotHash, from peer: PeerIndex) -> Bool {
        guard let question = questions[offered.slot] else { return true }
        return question.peer == peer || question.hash != offered.hash
    }

    private mutating func question(_ offered: SlotHash, of peer: PeerIndex, in offer: inout Offer) {
        offer.requested.append(offered.slot)
        questions[offered.slot] = Question(peer: peer, hash: offered.hash)
    }

    /// Records that a peer has sent all rows of the first `count` requested slots.
    ///
    /// - Returns: the slots to request again, because there was no room for them.
    mutating func sent(_ count: Int, ring: UInt64, by peer: PeerIndex) -> [Slot] {
        guard ring == self.ring, peer < offers.count, offers[peer].ring == ring else { return [] }
        for slot in offers[peer].requested.prefix(count) where questions[slot]?.peer == peer { questions[slot]?.isAnswered = true }
        offers[peer].requested.removeFirst(min(count, offers[peer].requested.count))
        offers[peer].ownedRequestedCount = max(offers[peer].ownedRequestedCount - count, 0)
        return offers[peer].requested
    }

    /// Whether all rows that a peer has of the slots that this node owns have arrived, or are on their way from another peer.
    func isOwnedReceived(from peer: PeerIndex) -> Bool { peer < offers.count && offers[peer].ring == ring && offers[peer].isOwnedReceived }

    /// Whether all rows that a peer has of this node's slots have arrived.
    func isReceived(from peer: PeerIndex) -> Bool { peer < offers.count && offers[peer].ring == ring && offers[peer].isReceived }

    /// Whether a peer's current offer is for this ring.
    func isOffered(_ ring: UInt64, by peer: PeerIndex) -> Bool { peer < offers.count && offers[peer].ring == ring }

    /// Starts the requests to a peer again, because a request or its answer may be lost.
    mutating func restart(_ peer: PeerIndex) {
        if peer < offers.count { offers[peer].restart() }
    }

    /// Drops the offer of a peer that is gone or was restarted.
    mutating func lose(_ peer: PeerIndex) {
        if peer < completedOffers.count { completedOffers[peer] = 0 }
        guard peer < offers.count else { return }
        offers[peer] = Offer()
        // Slots that other peers offered too were not requested from them.
        let requested = questions.count
        questions = questions.filter { $0.value.peer != peer || $0.value.isAnswered }
        if questions.count < requested { for other in offers.indices { offers[other].next = (0, 0) } }
    }

    /// Drops the offers of all peers.
    mutating func loseAll() { for peer in 0..<max(offers.count, completedOffers.count) { lose(peer) } }

    /// Whether all rows that this node keeps have arrived.
    var isComplete: Bool { progress != .receiving }

    /// Whether all rows that this node keeps are on its disk.
    var isWritten: Bool { progress == .written }

    /// Records that all rows have arrived.
    mutating func complete() { progress = .received }

    /// Records that the bulk write with this ticket has all rows that have arrived until now.
    mutating func write(with ticket: UInt64) { progress = .writing(ticket: ticket) }

    /// Records the end of a write. Returns whether all arrived rows are now on disk.
    mutating func written(_ ticket: UInt64, isDurable: Bool) -> Bool {
        if isDurable, progress == .failed { progress = .received }
        guard progress == .writing(ticket: ticket) else { return false }
        progress = isDurable ? .written : .failed
        return isDurable
    }

    /// The message to a peer that this node has received all rows that the peer and all others have offered.
    func transferComplete(to peer: PeerIndex) -> Message {
        let isOffered = peer < offers.count && offers[peer].ring == ring
        return .transferComplete(ring: ring, offerSequence: isOffered ? offers[peer].offerSequence : 0)
    }

    /// Records that a peer has received all rows, if they include those of this node's last offer.
    mutating func completed(_ ring: UInt64, offerSequence: UInt64, peer: PeerIndex) {
        guard ring == self.ring, offerSequence == self.offerSequence else { return }
        while completedOffers.count <= peer { completedOffers.append(0) }
        completedOffers[peer] = offerSequence
    }

    /// Whether a peer has all rows that it keeps by the present ring, also those that this node has offered.
    func isComplete(at peer: PeerIndex) -> Bool {
        peer < completedOffers.count && offerSequence > 0 && completedOffers[peer] == offerSequence
    }
}
