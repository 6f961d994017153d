import PresenceWire

/// Slots on their way to this node: which it may decide about, and what the other nodes have said they hold (design §5, "warming").
///
/// After every change of the members each node offers each other one what it holds of the slots that the other is to keep: a hash a slot.
/// The other asks for those that differ, a page at a time, and first for those that it owns: a slot that is new to its owner is cold until
/// all have been heard about it: nothing is said or written about its users, because what was acknowledged may be where nobody has asked
/// yet. Whoever is never heard of is not waited for longer than ``CoreSettings/takeoverTimeout``.
struct Handoff {
    /// Slots asked of one node at a time. The other answers about as many of them as ``rowsSentMax`` allows, and about one at least.
    static let slotsAskedMax = 256
    /// What is not urgent is taken in so many ticks, unless they are more than ``slotsPacedMin`` a tick: some seconds.
    static let pacedTicks = 100
    /// Some hundred rows: a millisecond or two of work.
    static let slotsPacedMin = 16
    /// Rows sent in answer to one question: a page of some hundred kilobytes.
    static let rowsSentMax = 2_048

    /// What one other node holds of this node's slots.
    private struct Offer {
        var ring: UInt64 = 0
        var round: UInt64 = 0
        var slots: [SlotHash] = []
        var isWhole = false
        /// The next of `slots` to look at: first for those that this node owns, then for the others.
        var next = (owned: 0, kept: 0)
        /// Slots that were asked for and have not come, in the order of the question: those that this node owns are in front.
        var asked: [Slot] = []
        /// How many of `asked` this node owns.
        var ownedAskedCount = 0

        /// Everything about the slots that this node owns is here.
        var isHeard: Bool { isWhole && next.owned == slots.count && ownedAskedCount == 0 }
        var isTaken: Bool { isHeard && next.kept == slots.count && asked.isEmpty }

        mutating func restart() { (next, asked, ownedAskedCount) = ((0, 0), [], 0) }
    }

    /// What has come is on disk before others are told that it has come: they forget it then.
    enum Writing: Equatable {
        /// The next bulk write is the last one to wait for.
        case due
        /// It has this ticket.
        case underWay(ticket: UInt64)
        /// The disk took nothing: due again when it does.
        case failed
        case done
    }

    /// Of whom a slot was asked, and what was offered.
    private struct Question {
        let peer: PeerIndex
        let hash: UInt64
        var isAnswered = false
    }

    /// The hash of the present members: nodes with the same view have the same.
    private(set) var ring: UInt64 = 0
    private var warmSlots = SlotSet()
    /// Slots of this node that are cold.
    private(set) var coldCount = 0
    /// Until then the others are waited for.
    private(set) var deadline = Instant.farFuture
    /// Everything that this node is to keep has come.
    private(set) var isSettled = true
    private(set) var writing = Writing.done
    /// Since when slots of this node have been cold; nil while none is.
    private var coldSince: Instant?
    /// How long slots of this node have been cold; while none is, how long the last ones were.
    private(set) var duration = Duration.zero
    /// Bytes of the rows that others have sent because they were asked for slots.
    private(set) var bytesReceived: UInt64 = 0
    private var offers: [Offer] = []
    /// What was asked for this ring: who offers the same need not be asked, too.
    private var questions: [Slot: Question] = [:]
    /// Numbers the times that this node has offered all of it to all: for every ring, and for strays. It goes on from process to process: 65,536
    /// for each millisecond between their generations.
    private(set) var round: UInt64 = 0
    /// What this node is not to keep has come since: what the others have said does not cover it.
    private(set) var hasStrays = false
    /// For each peer the round of which it has said that everything has come; 0 for none.
    private var settledRounds: [UInt64] = []

    /// - Parameter generation: that of this process: what it offers counts as later than all that those before it have offered.
    init(generation: UInt64) { round = generation &<< 16 }

    /// Whether this node may decide about a slot that it owns.
    func isWarm(_ slot: Slot) -> Bool { warmSlots.contains(slot) }

    /// A new ring: what is new to this node is cold.
    ///
    /// - Parameter isChilled: nothing that this node has decided about counts: it was the smaller side of a split, or has just begun.
    mutating func begin(ring: UInt64, isChilled: Bool, deadline: Instant, isOwned: SlotSet) {
        self.ring = ring
        beginRound()
        self.deadline = deadline
        (isSettled, writing) = (false, .done)
        if isChilled { warmSlots = SlotSet() } else { warmSlots.formIntersection(isOwned) }
        coldCount = isOwned.count - warmSlots.count
        questions = [:]
        for peer in offers.indices where offers[peer].ring == ring { offers[peer].restart() }
    }

    /// What is offered from now on is more than what the others have heard. The ring that they have settled may be the same: it comes back
    /// when a node was taken for dead, and rows were written by the other one meanwhile (seed 392335).
    mutating func beginRound() {
        round += 1
        hasStrays = false
    }

    /// Something has come that this node is not to keep.
    mutating func noteStrays() { hasStrays = true }

    /// Nobody is there to be heard: they are waited for up to `deadline`, if nobody is waited for already.
    mutating func wait(until deadline: Instant) { if self.deadline == .farFuture { self.deadline = deadline } }

    /// The others will be heard of later: they are waited for so long, if they are waited for.
    mutating func wait(for timeout: Duration, at instant: Instant) {
        if coldCount > 0, deadline != .farFuture { deadline = max(deadline, instant + timeout) }
    }

    /// This node may decide about all its slots.
    mutating func warm(isOwned: SlotSet) {
        coldCount = 0
        deadline = .farFuture
        warmSlots = isOwned
    }

    /// Brings ``duration`` up to date. Called at every tick, and when the cold slots have become warm. Where the members change again
    /// meanwhile it goes on: users have waited since.
    mutating func measure(at instant: Instant) {
        guard coldCount > 0 || coldSince != nil else { return }
        let start = coldSince ?? instant
        duration = instant - start
        coldSince = coldCount > 0 ? start : nil
    }

    /// Whether a peer has still to send slots that were asked of it.
    func awaits(_ peer: PeerIndex) -> Bool { peer < offers.count && !offers[peer].asked.isEmpty }

    /// Whether a slot was asked of a peer, which has not said yet that all of it has been sent.
    func awaits(_ slot: Slot, from peer: PeerIndex) -> Bool {
        guard let question = questions[slot] else { return false }
        return question.peer == peer && !question.isAnswered
    }

    /// A row has come of a slot that was asked for.
    mutating func count(_ row: Row) { bytesReceived += UInt64(row.key.utf8.count + (row.value?.count ?? 0)) }

    /// A peer says what it holds, page by page. What it, or the process before it, has said on a link of before may come
    /// after what it says on the next one (seeds 8043772 and 1231).
    mutating func offered(_ slots: [SlotHash], ring: UInt64, round: UInt64, isFirst: Bool, isLast: Bool, by peer: PeerIndex) {
        while offers.count <= peer { offers.append(Offer()) }
        guard round >= offers[peer].round else { return }
        if isFirst { offers[peer] = Offer(ring: ring, round: round) }
        // It may have gone by another ring meanwhile: it is told again that everything has come, when what it offers now has.
        if isFirst, ring == self.ring { (isSettled, writing) = (false, .done) }
        guard offers[peer].ring == ring, offers[peer].round == round, !offers[peer].isWhole else { return }
        offers[peer].slots += slots
        offers[peer].isWhole = isLast
    }

    /// What to ask of a peer, if nothing is asked of it: slots that differ from what is here and are not on their way from another one.
    ///
    /// - Parameter isPaced: what is asked for is a share of the whole: the rest is asked for at the next ticks.
    mutating func next(from peer: PeerIndex, isPaced: Bool, isOwned: (Slot) -> Bool, isWanted: (SlotHash) -> Bool) -> [Slot] {
        guard peer < offers.count, offers[peer].ring == ring, offers[peer].asked.isEmpty else { return [] }
        var offer = offers[peer]
        offers[peer].slots = []
        let end = isPaced ? offer.next.owned + max(offer.slots.count / Self.pacedTicks, Self.slotsPacedMin) : .max
        while offer.asked.count < Self.slotsAskedMax, offer.next.owned < min(offer.slots.count, end) {
            let offered = offer.slots[offer.next.owned]
            offer.next.owned += 1
            if isOwned(offered.slot), isNew(offered, from: peer), isWanted(offered) { question(offered, of: peer, in: &offer) }
        }
        offer.ownedAskedCount = offer.asked.count
        // A later page may hold more that this node owns: those come first.
        let isPast = offer.isWhole && offer.next.owned == offer.slots.count
        while isPast, offer.asked.count < Self.slotsAskedMax, offer.next.kept < offer.slots.count {
            let offered = offer.slots[offer.next.kept]
            offer.next.kept += 1
            if !isOwned(offered.slot), isNew(offered, from: peer), isWanted(offered) { question(offered, of: peer, in: &offer) }
        }
        offers[peer] = offer
        return offer.asked
    }

    /// Whether nobody else was asked for the same.
    private func isNew(_ offered: SlotHash, from peer: PeerIndex) -> Bool {
        guard let question = questions[offered.slot] else { return true }
        return question.peer == peer || question.hash != offered.hash
    }

    private mutating func question(_ offered: SlotHash, of peer: PeerIndex, in offer: inout Offer) {
        offer.asked.append(offered.slot)
        questions[offered.slot] = Question(peer: peer, hash: offered.hash)
    }

    /// A peer has sent all that it holds of the first `count` slots that were asked of it.
    ///
    /// - Returns: the slots to ask for again, because there was no room for them.
    mutating func sent(_ count: Int, ring: UInt64, by peer: PeerIndex) -> [Slot] {
        guard ring == self.ring, peer < offers.count, offers[peer].ring == ring else { return [] }
        for slot in offers[peer].asked.prefix(count) where questions[slot]?.peer == peer { questions[slot]?.isAnswered = true }
        offers[peer].asked.removeFirst(min(count, offers[peer].asked.count))
        offers[peer].ownedAskedCount = max(offers[peer].ownedAskedCount - count, 0)
        return offers[peer].asked
    }

    /// Whether everything that a peer holds of the slots that this node owns is here, or on its way from another one.
    func isHeard(from peer: PeerIndex) -> Bool { peer < offers.count && offers[peer].ring == ring && offers[peer].isHeard }

    /// Whether everything that a peer holds of this node's slots is here.
    func isTaken(from peer: PeerIndex) -> Bool { peer < offers.count && offers[peer].ring == ring && offers[peer].isTaken }

    /// Whether a peer has begun to offer by a ring, and by none since.
    func isOffered(_ ring: UInt64, by peer: PeerIndex) -> Bool { peer < offers.count && offers[peer].ring == ring }

    /// What was asked of a peer, or its answer, may be lost.
    mutating func restart(_ peer: PeerIndex) {
        if peer < offers.count { offers[peer].restart() }
    }

    /// A peer is gone, or was restarted: what it said is void.
    mutating func lose(_ peer: PeerIndex) {
        if peer < settledRounds.count { settledRounds[peer] = 0 }
        guard peer < offers.count else { return }
        offers[peer] = Offer()
        // What others offered, too, was not asked of them.
        let asked = questions.count
        questions = questions.filter { $0.value.peer != peer || $0.value.isAnswered }
        if questions.count < asked { for other in offers.indices { offers[other].next = (0, 0) } }
    }

    /// All has come.
    mutating func settle() { (isSettled, writing) = (true, .due) }

    /// Everything that this node is to keep is on its disk.
    var isWritten: Bool { isSettled && writing == .done }

    /// The bulk write with this ticket has all that has come so far.
    mutating func write(with ticket: UInt64) { writing = .underWay(ticket: ticket) }

    /// A write has ended. Returns whether now everything that has come is on disk.
    mutating func written(_ ticket: UInt64, isDurable: Bool) -> Bool {
        if isDurable, writing == .failed { writing = .due }
        guard writing == .underWay(ticket: ticket) else { return false }
        writing = isDurable ? .done : .failed
        return isDurable
    }

    /// The word that everything has come which a peer has offered, and everybody else: `settled`.
    func settled(to peer: PeerIndex) -> Message {
        let isOffered = peer < offers.count && offers[peer].ring == ring
        return .settled(ring: ring, round: isOffered ? offers[peer].round : 0)
    }

    /// A peer says that all has come to it. It counts if it has heard what this node offered last.
    mutating func settled(_ ring: UInt64, round: UInt64, peer: PeerIndex) {
        guard ring == self.ring, round == self.round else { return }
        while settledRounds.count <= peer { settledRounds.append(0) }
        settledRounds[peer] = round
    }

    /// Whether a peer has all that it is to keep by the present ring, also of what this node has offered.
    func isSettled(_ peer: PeerIndex) -> Bool { peer < settledRounds.count && round > 0 && settledRounds[peer] == round }
}
