import PresenceWire

/// The state machine of one slot for facts, at one node: who may write in which term (<doc:Terms>).
///
/// It does no I/O, reads no clock and holds no rows. The caller carries out the outputs in order: it sends messages, writes records, and
/// collects rows. Nothing uses the machine in a running node yet.
struct FactSlot {
    /// The state of the slot at this node.
    enum State: Equatable {
        /// The disk holds no rows of the slot.
        case none
        /// The disk holds the content of this term, and another node decides.
        case replica(Term)
        /// The node asks the last installed replica set for promises.
        case claiming(Claim)
        /// The node fetches what the promising disks hold.
        case collecting(Collection)
        /// The node sends the content to the new replica set.
        case installing(Installing)
        /// The node decides about the slot.
        case active(Tenure)

        /// The term that this node claims or has; nil if it has none.
        var ownTerm: Term? {
            switch self {
            case .none, .replica: nil
            case .claiming(let claim): claim.term
            case .collecting(let collection): collection.claim.term
            case .installing(let installing): installing.set.term
            case .active(let tenure): tenure.set.term
            }
        }
    }

    /// An event that the caller reports.
    enum Input {
        /// The ring names the disks of the slot, the owner first. `others` may know the last installed set if this disk does not.
        case ringChanged([DiskID], others: [DiskID])
        case received(TermMessage, from: DiskID)
        /// The rows of ``Output/collect(_:from:)`` have arrived, and their content has this hash.
        case collected(Term, hash: UInt64)
        /// The rows of a disk cannot be fetched now.
        case unreachable(DiskID)
        /// The disk has finished a write. Writes end in their order.
        case stored(write: UInt64, isDurable: Bool)
        /// An operator has given up a disk for ever.
        case removed(DiskID)
        /// Some time has passed: what has no answer is sent again.
        case tick
    }

    /// An action that the caller carries out.
    enum Output: Equatable {
        case send(TermMessage, to: DiskID)
        /// Make a record durable together with all rows that were kept before it, and report with ``Input/stored(write:isDurable:)``.
        case store(SlotRecord, write: UInt64)
        /// Fetch the content of a slot for a term, beside the rows of this disk: that of the first disk, joined with the newer rows of the
        /// others. A disk sends it only while it ``FactSlot/serves(_:)`` the term.
        case collect(Term, from: [DiskID])
        /// Replace the rows of this disk by those that were collected for this term.
        case keep(Term)
        /// Delete the rows of the slot from this disk. Others keep it.
        case deleteContent
        case activate(Term)
        /// Answer open calls of this term with 50001. They may have taken effect.
        case deactivate(Term)
    }

    /// A record that is being written, and the messages that wait for it.
    private struct Write {
        let number: UInt64
        let record: SlotRecord
        var answers: [(message: TermMessage, to: DiskID)] = []
    }

    let own: DiskID
    private(set) var record: SlotRecord
    private(set) var state = State.none
    /// The disks that the ring names. Only its first disk claims.
    private(set) var ring: [DiskID] = []
    private var others: [DiskID] = []
    /// Disks that an operator has given up.
    private(set) var removed: [DiskID] = []
    /// The largest number of a term that this node has seen.
    private var numberSeen: UInt64 = 0
    /// A term whose content this disk fetches, and the disk that waits for the answer.
    private var incoming: (set: ReplicaSet, from: DiskID, answer: TermMessage)?
    private var durable: SlotRecord
    private var writesCount: UInt64 = 0
    private var writes: [Write] = []

    /// Makes the state after a start.
    ///
    /// - Parameter record: the last durable one.
    init(own: DiskID, record: SlotRecord) {
        (self.own, self.record, durable) = (own, record, record)
        rest()
    }

    /// Handles an input.
    ///
    /// - Parameter hash: the hash of the rows that this disk holds now.
    mutating func handle(_ input: Input, hash: () -> UInt64, into outputs: inout [Output]) {
        switch input {
        case .ringChanged(let disks, let others): changeRing(disks, others, hash, &outputs)
        case .received(let message, let disk): receive(message, from: disk, hash, &outputs)
        case .collected(let term, let hash): collected(term, hash, &outputs)
        case .unreachable(let disk): lose(disk, &outputs)
        case .stored(let write, let isDurable): stored(write, isDurable, &outputs)
        case .removed(let disk): remove(disk, &outputs)
        case .tick: tick(hash, &outputs)
        }
    }

    // MARK: Rows

    /// The decision of a disk about rows of a term.
    enum RowsAnswer: Equatable {
        /// Write them, and acknowledge them after the disk.
        case store
        /// Refuse them: a larger term is promised.
        case refuse(promised: Term)
        /// Ignore them: the content that they belong to is not here yet.
        case ignore
    }

    /// Decides about rows of a term that another node, or this one, sends.
    func answer(toRowsOf term: Term) -> RowsAnswer {
        if record.promised > term { return .refuse(promised: record.promised) }
        return record.content == term ? .store : .ignore
    }

    /// Whether this disk sends its content to the claimant of a term, or as its owner to the other disks. Otherwise it answers with
    /// ``TermMessage/refusal(promised:)``.
    func serves(_ term: Term) -> Bool { record.promised == term }

    /// The term in which this node may write, and the disks to which each row goes; nil if it may not.
    var writable: ReplicaSet? { if case .active(let tenure) = state { tenure.set } else { nil } }

    /// Whether rows of this node's term are acknowledged: this disk and a majority of the installed set have them.
    func isAcknowledged(by disks: [DiskID]) -> Bool {
        guard let set = writable else { return false }
        return disks.contains(own) && set.hasMajority(of: disks, without: removed)
    }

    // MARK: Shared steps

    /// Whether this node is to decide about the slot.
    var isOwner: Bool { ring.first == own }

    /// Returns to the state that the record describes. No term of this node goes on.
    mutating func rest() { state = record.content.map { .replica($0) } ?? .none }

    mutating func enter(_ state: State) { self.state = state }

    /// Ends this node's term or claim.
    mutating func leave(_ outputs: inout [Output]) {
        if case .active(let tenure) = state { outputs.append(.deactivate(tenure.set.term)) }
        rest()
    }

    /// Changes the record in memory. ``save(_:to:_:)`` writes it.
    mutating func modify<Result>(_ change: (inout SlotRecord) -> Result) -> Result { change(&record) }

    mutating func see(_ term: Term) { numberSeen = max(numberSeen, term.number) }

    /// The next term that this node may claim.
    var nextTerm: Term { Term(number: max(numberSeen, record.promised.number) + 1, claimant: own) }

    /// The disks that may know the last installed set.
    var informants: [DiskID] { Set(ring + others).subtracting([own]).subtracting(removed).sorted() }

    /// Promises a term, which ends this node's smaller ones.
    mutating func promise(_ term: Term, _ outputs: inout [Output]) {
        guard term > record.promised else { return }
        record.promised = term
        see(term)
        incoming = nil
        if let ownTerm = state.ownTerm, ownTerm < term { leave(&outputs) }
    }

    /// Writes the record unless it is on disk, and sends a message when it is.
    mutating func save(_ answer: TermMessage?, to disk: DiskID, _ outputs: inout [Output]) {
        if writes.isEmpty, record == durable {
            if let answer { deliver(answer, to: disk, &outputs) }
            return
        }
        if writes.last?.record != record {
            writesCount += 1
            writes.append(Write(number: writesCount, record: record))
            outputs.append(.store(record, write: writesCount))
        }
        if let answer { writes[writes.count - 1].answers.append((answer, disk)) }
    }

    /// Releases the messages that waited for a write. Those of a failed write are lost, and their receivers ask again.
    private mutating func stored(_ number: UInt64, _ isDurable: Bool, _ outputs: inout [Output]) {
        guard let index = writes.firstIndex(where: { $0.number == number }) else { return }
        guard isDurable else {
            writes.remove(at: index)
            return
        }
        durable = writes[index].record
        let answers = writes[...index].flatMap(\.answers)
        writes.removeSubrange(...index)
        for (message, disk) in answers { deliver(message, to: disk, &outputs) }
    }

    /// Sends a message. This disk handles its own answers at once.
    private mutating func deliver(_ message: TermMessage, to disk: DiskID, _ outputs: inout [Output]) {
        guard disk == own else { return outputs.append(.send(message, to: disk)) }
        switch message {
        case .promise(let promise): onPromise(promise, from: own, &outputs)
        case .stored(let term): onStored(term, from: own, &outputs)
        case .claim, .refusal, .outdated, .install, .installed, .heard: preconditionFailure("a disk sends itself \(message)")
        }
    }

    private mutating func receive(_ message: TermMessage, from disk: DiskID, _ hash: () -> UInt64, _ outputs: inout [Output]) {
        switch message {
        case .claim(let term, let base): onClaim(term, base, from: disk, hash, &outputs)
        case .promise(let promise): onPromise(promise, from: disk, &outputs)
        case .refusal(let promised): onRefusal(promised, &outputs)
        case .outdated(let set): onOutdated(set, hash, &outputs)
        case .install(let installation): onInstall(installation, from: disk, hash, &outputs)
        case .stored(let term): onStored(term, from: disk, &outputs)
        case .installed(let set): onInstalled(set, from: disk, hash, &outputs)
        case .heard(let term): onHeard(term, from: disk)
        }
    }

    private mutating func changeRing(_ disks: [DiskID], _ others: [DiskID], _ hash: () -> UInt64, _ outputs: inout [Output]) {
        (ring, self.others) = (disks, others)
        guard isOwner else {
            // An active term goes on until a larger one ends it: the next owner may be unable to claim.
            if case .active(let tenure) = state { confirm(tenure, &outputs) } else { leave(&outputs) }
            return
        }
        switch state {
        case .active(let tenure) where tenure.set.disks == disks.sorted(): confirm(tenure, &outputs)
        case .installing(let installing) where installing.set.disks == disks.sorted(): break
        case .collecting: break
        case .claiming(let claim) where claim.base != nil: break
        case .none, .replica, .claiming, .installing, .active: claim(hash, &outputs)
        }
    }

    private mutating func collected(_ term: Term, _ hash: UInt64, _ outputs: inout [Output]) {
        if case .collecting(let collection) = state, collection.claim.term == term { return install(collection.claim, hash, &outputs) }
        guard let incoming, incoming.set.term == term, record.promised == term else { return }
        self.incoming = nil
        record.content = term
        if case .heard = incoming.answer { _ = record.learn(incoming.set) } else { record.accepted = incoming.set }
        outputs.append(.keep(term))
        rest()
        save(incoming.answer, to: incoming.from, &outputs)
    }

    /// Fetches the content of a term from its claimant or owner.
    mutating func fetch(_ set: ReplicaSet, from disk: DiskID, then answer: TermMessage, _ outputs: inout [Output]) {
        incoming = (set, disk, answer)
        outputs.append(.collect(set.term, from: [disk]))
    }

    private mutating func remove(_ disk: DiskID, _ outputs: inout [Output]) {
        guard !removed.contains(disk) else { return }
        removed = (removed + [disk]).sorted()
        lose(disk, &outputs)
        advance(&outputs)
    }

    /// Stops the process at a state that cannot occur. For simulations and tests.
    func checkInvariants() {
        precondition(record.promised >= record.content ?? .zero, "a disk holds the content of a term that it has not promised")
        precondition(record.promised >= record.accepted?.term ?? .zero, "a disk has accepted a term that it has not promised")
        precondition(record.promised >= record.installed?.term ?? .zero, "a disk knows an installed term that it has not promised")
        if let accepted = record.accepted {
            precondition(accepted.term > record.installed?.term ?? .zero, "a disk has accepted a term that is over")
        }
        switch state {
        case .none, .replica: break
        case .claiming(let claim):
            precondition(claim.base == nil || record.promised == claim.term, "a node claims a term that it has not promised itself")
        case .collecting, .installing, .active:
            precondition(state.ownTerm == record.promised, "a node goes on with a term that is over")
        }
    }
}
