import PresenceWire

/// The transfer of slots to this node by one ring: which slots are active, and what the other nodes have offered.
///
/// After every change of the members each node offers each other one what it holds of the slots that the other is to keep: a hash for each slot.
/// The other node requests those that differ, a page at a time, and first those that it owns. A slot that is new to its owner is acquiring until
/// the owner has received the answers of all members. It waits no longer than ``CoreSettings/takeoverTimeout``.
struct Handoff {
    /// Slots requested from one node at a time. The other answers about as many of them as ``rowsSentMax`` allows, and about one at least.
    static let slotsAskedMax = 256
    /// The ticks over which slots are requested that are not urgent, unless that is fewer than ``slotsPacedMin`` a tick: some seconds.
    static let pacedTicks = 100
    /// Some hundred rows: a millisecond or two of work.
    static let slotsPacedMin = 16
    /// Rows sent in answer to one question: a page of some hundred kilobytes.
    static let rowsSentMax = 2_048

    /// The offer of one other node: what it holds of this node's slots.
    private struct Offer {
        var ring: UInt64 = 0
        var round: UInt64 = 0
        var slots: [SlotHash] = []
        var isWhole = false
        /// The next of `slots` to look at: first for those that this node owns, then for the others.
        var next = (owned: 0, kept: 0)
        /// Slots that were requested and have not come, in the order of the question: those that this node owns are in front.
        var requested: [Slot] = []
        /// How many of `requested` this node owns.
        var ownedRequestedCount = 0

        /// Everything about the slots that this node owns is here.
        var isOwnedReceived: Bool { isWhole && next.owned == slots.count && ownedRequestedCount == 0 }
        var isReceived: Bool { isOwnedReceived && next.kept == slots.count && requested.isEmpty }

        mutating func restart() { (next, requested, ownedRequestedCount) = ((0, 0), [], 0) }
    }

    /// Received rows are on disk before the other nodes are sent the completion: they delete their rows then.
    enum Writing: Equatable {
        /// The next bulk write is the last one to wait for.
        case due
        /// It has this ticket.
        case underWay(ticket: UInt64)
        /// The disk took nothing: due again when it does.
        case failed
        case done
    }

    /// Of whom a slot was requested, and what was offered.
    private struct Question {
        let peer: PeerIndex
        let hash: UInt64
        var isAnswered = false
    }

    /// The hash of the present members: nodes with the same view have the same.
    private(set) var ring: UInt64 = 0
    private(set) var activeSlots = SlotSet()
    /// Slots of this node that are acquiring.
    private(set) var acquiringCount = 0
    /// Until then the others are waited for.
    private(set) var deadline = Instant.farFuture
    /// Everything that this node is to keep has come.
    private(set) var isComplete = true
    private(set) var writing = Writing.done
    /// Since when slots of this node have been acquiring; nil while none is.
    private var acquiringSince: Instant?
    /// How long slots of this node have been acquiring; while none is, how long the last ones were.
    private(set) var duration = Duration.zero
    /// Bytes of the rows that others have sent because they were requested slots.
    private(set) var bytesReceived: UInt64 = 0
    private var offers: [Offer] = []
    /// The requests by this ring. A slot with the same hash is requested from one peer only.
    private var questions: [Slot: Question] = [:]
    /// Numbers the times that this node has offered all of it to all: for every ring, and for strays. It goes on from process to process: 65,536
    /// for each millisecond between their generations.
    private(set) var round: UInt64 = 0
    /// This node has received misplaced rows since; the completions of the other nodes do not cover them.
    private(set) var hasStrays = false
    /// For each peer the round of which it has said that everything has come; 0 for none.
    private var completedRounds: [UInt64] = []

    /// - Parameter generation: that of this process: what it offers counts as later than all that those before it have offered.
    init(generation: UInt64) { round = generation &<< 16 }

    /// Whether this node may decide about a slot that it owns.
    func isActive(_ slot: Slot) -> Bool { activeSlots.contains(slot) }

    /// Begins the transfer by a new ring: slots that are new to this node are acquiring.
    ///
    /// - Parameter isDemoted: nothing that this node has decided about counts: it was the smaller side of a split, or has just begun.
    mutating func begin(ring: UInt64, isDemoted: Bool, deadline: Instant, isOwned: SlotSet) {
        self.ring = ring
        beginRound()
        self.deadline = deadline
        (isComplete, writing) = (false, .done)
        if isDemoted { activeSlots = SlotSet() } else { activeSlots.formIntersection(isOwned) }
        acquiringCount = isOwned.count - activeSlots.count
        questions = [:]
        for peer in offers.indices where offers[peer].ring == ring { offers[peer].restart() }
    }

    /// Begins a new sequence of offers: from now on this node offers more than the others have received. The ring may be the same, which they have
    /// completed: it comes back when a node was declared dead, and the other one wrote rows meanwhile.
    mutating func beginRound() {
        round += 1
        hasStrays = false
    }

    /// Something has come that this node is not to keep.
    mutating func noteStrays() { hasStrays = true }

    /// No member is alive. Waits for former members up to `deadline`, unless it waits already.
    mutating func wait(until deadline: Instant) { if self.deadline == .farFuture { self.deadline = deadline } }

    /// Extends the wait for the others, if there is one.
    mutating func wait(for timeout: Duration, at instant: Instant) {
        if acquiringCount > 0, deadline != .farFuture { deadline = max(deadline, instant + timeout) }
    }

    /// This node may decide about all its slots.
    mutating func activate(isOwned: SlotSet) {
        acquiringCount = 0
        deadline = .farFuture
        activeSlots = isOwned
    }

    /// Brings ``duration`` up to date. Called at every tick, and when the acquiring slots become active. It goes on when the members
    /// change again meanwhile: users have waited since.
    mutating func measure(at instant: Instant) {
        guard acquiringCount > 0 || acquiringSince != nil else { return }
        let start = acquiringSince ?? instant
        duration = instant - start
        acquiringSince = acquiringCount > 0 ? start : nil
    }

    /// Whether a peer has still to send slots that were requested from it.
    func awaits(_ peer: PeerIndex) -> Bool { peer < offers.count && !offers[peer].requested.isEmpty }

    /// Whether a slot was requested from a peer, which has not said yet that all of it has been sent.
    func awaits(_ slot: Slot, from peer: PeerIndex) -> Bool {
        guard let question = questions[slot] else { return false }
        return question.peer == peer && !question.isAnswered
    }

    /// A row has come of a slot that was requested.
    mutating func count(_ row: Row) { bytesReceived += UInt64(row.key.utf8.count + (row.value?.count ?? 0)) }

    /// A peer says what it holds, page by page. What it, or the process before it, has said on a link of before may come
    /// after what it says on the next one.
    mutating func offered(_ slots: [SlotHash], ring: UInt64, round: UInt64, isFirst: Bool, isLast: Bool, by peer: PeerIndex) {
        while offers.count <= peer { offers.append(Offer()) }
        guard round >= offers[peer].round else { return }
        if isFirst { offers[peer] = Offer(ring: ring, round: round) }
        // It may have gone by another ring meanwhile: it is told again that everything has come, when what it offers now has.
        if isFirst, ring == self.ring { (isComplete, writing) = (false, .done) }
        guard offers[peer].ring == ring, offers[peer].round == round, !offers[peer].isWhole else { return }
        offers[peer].slots += slots
        offers[peer].isWhole = isLast
    }

    /// The slots to request next from a peer without open requests: they differ from what is here, and no other peer is sending them.
    ///
    /// - Parameter isPaced: what is requested is a share of the whole: the rest is requested at the next ticks.
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
        // A later page may hold more that this node owns: those come first.
        let isPast = offer.isWhole && offer.next.owned == offer.slots.count
        while isPast, offer.requested.count < Self.slotsAskedMax, offer.next.kept < offer.slots.count {
            let offered = offer.slots[offer.next.kept]
            offer.next.kept += 1
            if !isOwned(offered.slot), isNew(offered, from: peer), isWanted(offered) { question(offered, of: peer, in: &offer) }
        }
        offers[peer] = offer
        return offer.requested
    }

    /// Whether nobody else was requested the same.
    private func isNew(_ offered: SlotHash, from peer: PeerIndex) -> Bool {
        guard let question = questions[offered.slot] else { return true }
        return question.peer == peer || question.hash != offered.hash
    }

    private mutating func question(_ offered: SlotHash, of peer: PeerIndex, in offer: inout Offer) {
        offer.requested.append(offered.slot)
        questions[offered.slot] = Question(peer: peer, hash: offered.hash)
    }

    /// A peer has sent all that it holds of the first `count` slots that were requested from it.
    ///
    /// - Returns: the slots to ask for again, because there was no room for them.
    mutating func sent(_ count: Int, ring: UInt64, by peer: PeerIndex) -> [Slot] {
        guard ring == self.ring, peer < offers.count, offers[peer].ring == ring else { return [] }
        for slot in offers[peer].requested.prefix(count) where questions[slot]?.peer == peer { questions[slot]?.isAnswered = true }
        offers[peer].requested.removeFirst(min(count, offers[peer].requested.count))
        offers[peer].ownedRequestedCount = max(offers[peer].ownedRequestedCount - count, 0)
        return offers[peer].requested
    }

    /// Whether everything that a peer holds of the slots that this node owns is here, or on its way from another one.
    func isOwnedReceived(from peer: PeerIndex) -> Bool { peer < offers.count && offers[peer].ring == ring && offers[peer].isOwnedReceived }

    /// Whether everything that a peer holds of this node's slots is here.
    func isReceived(from peer: PeerIndex) -> Bool { peer < offers.count && offers[peer].ring == ring && offers[peer].isReceived }

    /// Whether a peer has begun to offer by a ring, and by none since.
    func isOffered(_ ring: UInt64, by peer: PeerIndex) -> Bool { peer < offers.count && offers[peer].ring == ring }

    /// A request to a peer, or its answer, may be lost.
    mutating func restart(_ peer: PeerIndex) {
        if peer < offers.count { offers[peer].restart() }
    }

    /// A peer is gone, or was restarted: what it said is void.
    mutating func lose(_ peer: PeerIndex) {
        if peer < completedRounds.count { completedRounds[peer] = 0 }
        guard peer < offers.count else { return }
        offers[peer] = Offer()
        // Slots that other peers offered, too, were not requested from them.
        let requested = questions.count
        questions = questions.filter { $0.value.peer != peer || $0.value.isAnswered }
        if questions.count < requested { for other in offers.indices { offers[other].next = (0, 0) } }
    }

    /// All that the peers have said is void.
    mutating func loseAll() { for peer in 0..<max(offers.count, completedRounds.count) { lose(peer) } }

    /// All has come.
    mutating func complete() { (isComplete, writing) = (true, .due) }

    /// Everything that this node is to keep is on its disk.
    var isWritten: Bool { isComplete && writing == .done }

    /// The bulk write with this ticket has all that has come so far.
    mutating func write(with ticket: UInt64) { writing = .underWay(ticket: ticket) }

    /// A write has ended. Returns whether now everything that has come is on disk.
    mutating func written(_ ticket: UInt64, isDurable: Bool) -> Bool {
        if isDurable, writing == .failed { writing = .due }
        guard writing == .underWay(ticket: ticket) else { return false }
        writing = isDurable ? .done : .failed
        return isDurable
    }

    /// The message that this node has received all that this peer and all others have offered.
    func transferComplete(to peer: PeerIndex) -> Message {
        let isOffered = peer < offers.count && offers[peer].ring == ring
        return .settled(ring: ring, round: isOffered ? offers[peer].round : 0)
    }

    /// A peer has received all. This counts if the peer has received what this node offered last.
    mutating func completed(_ ring: UInt64, round: UInt64, peer: PeerIndex) {
        guard ring == self.ring, round == self.round else { return }
        while completedRounds.count <= peer { completedRounds.append(0) }
        completedRounds[peer] = round
    }

    /// Whether a peer has all that it is to keep by the present ring, also of what this node has offered.
    func isComplete(at peer: PeerIndex) -> Bool { peer < completedRounds.count && round > 0 && completedRounds[peer] == round }
}
