import PresenceWire

/// The terms of all slots at one node: it gives each input to the slots that it concerns, and joins their outputs to batches (<doc:Terms>).
///
/// Nothing uses it in a running node yet.
struct Terms {
    /// An action for many slots. The outputs of one input are carried out in their order.
    enum Output: Equatable {
        /// Answer the open calls of these slots: this node's terms have ended.
        case deactivate([Slot])
        /// Replace the rows of these slots by those that were collected.
        case keep([Slot])
        case deleteContent([Slot])
        /// Make records durable in one transaction with the rows that were kept or deleted, and report with
        /// ``Terms/stored(_:isDurable:hash:)``.
        case store([Stored], write: UInt64)
        case send(TermBatch, to: DiskID)
        /// Fetch the content of these slots for a term, see ``FactSlot/Output/collect(_:from:)``.
        case collect([Slot], Term, from: [DiskID])
        case activate([Slot])
    }

    /// A record of a slot.
    struct Stored: Equatable {
        let slot: Slot
        let record: SlotRecord
    }

    let own: DiskID
    private var slots: [Slot: FactSlot] = [:]
    /// Disks that an operator has given up. Slots that appear later know them too.
    private var removed: [DiskID] = []
    private var writesCount: UInt64 = 0
    /// The writes of slots that one transaction has.
    private var writes: [UInt64: [(slot: Slot, write: UInt64)]] = [:]

    /// - Parameter records: the durable ones.
    init(own: DiskID, records: [Stored] = []) {
        self.own = own
        for stored in records { slots[stored.slot] = FactSlot(own: own, record: stored.record) }
    }

    subscript(slot: Slot) -> FactSlot { slots[slot] ?? FactSlot(own: own, record: SlotRecord()) }

    // MARK: Inputs

    /// Handles one input for each of some slots, in ascending order.
    mutating func handle(_ inputs: [(slot: Slot, input: FactSlot.Input)], hash: (Slot) -> UInt64) -> [Output] {
        var turn = TermTurn()
        for (slot, input) in inputs {
            var outputs: [FactSlot.Output] = []
            var machine = slots.removeValue(forKey: slot) ?? new
            machine.handle(input, hash: { hash(slot) }, into: &outputs)
            slots[slot] = machine
            for output in outputs { turn.add(output, slot) }
        }
        return finish(turn)
    }

    mutating func receive(_ batch: TermBatch, from disk: DiskID, hash: (Slot) -> UInt64) -> [Output] {
        var inputs: [(slot: Slot, input: FactSlot.Input)] = []
        batch.forEach { inputs.append(($0, .received($1, from: disk))) }
        return handle(inputs, hash: hash)
    }

    /// Records the end of a transaction.
    mutating func stored(_ write: UInt64, isDurable: Bool, hash: (Slot) -> UInt64) -> [Output] {
        let parts = writes.removeValue(forKey: write) ?? []
        return handle(parts.map { ($0.slot, .stored(write: $0.write, isDurable: isDurable)) }, hash: hash)
    }

    /// Has every slot take an input, for example a tick.
    mutating func handleAll(_ input: FactSlot.Input, hash: (Slot) -> UInt64) -> [Output] {
        if case .removed(let disk) = input { removed.append(disk) }
        return handle(slots.keys.sorted().map { ($0, input) }, hash: hash)
    }

    private var new: FactSlot {
        var slot = FactSlot(own: own, record: SlotRecord())
        var outputs: [FactSlot.Output] = []
        for disk in removed { slot.handle(.removed(disk), hash: { 0 }, into: &outputs) }
        return slot
    }

    // MARK: Outputs

    private mutating func finish(_ turn: TermTurn) -> [Output] {
        var outputs: [Output] = []
        if !turn.deactivated.isEmpty { outputs.append(.deactivate(turn.deactivated)) }
        if !turn.kept.isEmpty { outputs.append(.keep(turn.kept)) }
        if !turn.deleted.isEmpty { outputs.append(.deleteContent(turn.deleted)) }
        if !turn.records.isEmpty {
            writesCount += 1
            writes[writesCount] = turn.records.map { ($0.slot, $0.write) }
            outputs.append(.store(turn.records.map { Stored(slot: $0.slot, record: $0.record) }, write: writesCount))
        }
        for disk in turn.messages.keys.sorted() {
            outputs += TermBatch.batches(of: turn.messages[disk] ?? []).map { .send($0, to: disk) }
        }
        for fetch in turn.fetches { outputs.append(.collect(fetch.slots, fetch.term, from: fetch.sources)) }
        if !turn.activated.isEmpty { outputs.append(.activate(turn.activated)) }
        return outputs
    }
}

/// The outputs of the slots in one turn, by their kind. Those of one slot do not depend on one another across kinds, but for the order of
/// ``Terms/Output``.
private struct TermTurn {
    var deactivated: [Slot] = []
    var kept: [Slot] = []
    var deleted: [Slot] = []
    var activated: [Slot] = []
    var records: [(slot: Slot, record: SlotRecord, write: UInt64)] = []
    var messages: [DiskID: [(slot: Slot, message: TermMessage)]] = [:]
    var fetches: [(term: Term, sources: [DiskID], slots: [Slot])] = []

    mutating func add(_ output: FactSlot.Output, _ slot: Slot) {
        switch output {
        case .send(let message, let disk): messages[disk, default: []].append((slot, message))
        case .store(let record, let write):
            // A later record of the same turn includes the earlier one.
            if records.last?.slot == slot { records.removeLast() }
            records.append((slot, record, write))
        case .collect(let term, let sources):
            if let index = fetches.lastIndex(where: { $0.term == term && $0.sources == sources }) {
                fetches[index].slots.append(slot)
            } else {
                fetches.append((term, sources, [slot]))
            }
        case .keep: kept.append(slot)
        case .deleteContent: deleted.append(slot)
        case .activate: activated.append(slot)
        case .deactivate: deactivated.append(slot)
        }
    }
}
