import PresenceWire

@testable import PresenceCore

/// Nodes that keep one slot for facts, in a run that a seed decides: messages are lost, doubled and reordered, nodes crash and lose what is
/// not on disk, rings change at different times at different nodes, networks split, and a disk is destroyed.
///
/// The checker knows every row that an owner has acknowledged, and the content of every term that became active.
struct TermSimulation {
    /// A row: a key, the version of its value, and the value. Its version begins with the term of the owner that has written it.
    struct Entry: Hashable {
        let key: Int
        let term: Term
        let sequence: Int

        func isOlder(than other: Entry) -> Bool { term != other.term ? term < other.term : sequence < other.sequence }
    }

    typealias Rows = [Int: Entry]

    enum Body {
        case term(TermMessage)
        case rows(Entry)
        case rowStored(Entry)
        case fetch(Term)
        case content(Term, Rows)
    }

    struct Packet {
        let from: Int
        let sender: DiskID
        let to: DiskID
        let body: Body
    }

    /// A write that the disk has not finished.
    enum DiskWrite {
        /// A record, and the rows if they were replaced.
        case record(SlotRecord, write: UInt64, Rows?)
        case row(Entry, owner: DiskID)
    }

    struct Node {
        var disk: DiskID
        var slot: FactSlot
        var isUp = true
        var rows: Rows = [:]
        var durableRecord: SlotRecord
        var durableRows: Rows = [:]
        /// An earlier state of the disk, for a fault.
        var backup: (record: SlotRecord, rows: Rows)?
        var writes: [DiskWrite] = []
        var hasReplacedRows = false
        var collection: (term: Term, sources: [DiskID], parts: [DiskID: Rows])?
        var staged: Rows = [:]
        /// The acknowledgements of the rows of this node's term.
        var open: [Entry: [DiskID]] = [:]
        var sequence = 0
        /// The ring that the node knows, as a number of ``rings``.
        var ring = 0
    }

    private(set) var random: SplitMix64
    let fault: TermFault?
    var nodes: [Node] = []
    var packets: [Packet] = []
    private(set) var rings: [[DiskID]] = []
    /// Whether messages from one node to another are lost, by both nodes.
    private var isCut: [[Bool]] = []
    /// A node that has just begun to collect, to install or to decide: the next event may be a fault of it.
    private var aim: Int?
    private var removed: [DiskID] = []
    private let mayDestroy: Bool
    /// Whether most events are messages and writes, so that terms last longer.
    private let isCalm: Bool
    var checker = TermChecker()

    /// - Parameter fault: a bug of the nodes, which the checker is to find.
    init(seed: UInt64, fault: TermFault? = nil) {
        random = SplitMix64(seed: seed)
        self.fault = fault
        let count = [2, 3, 4, 5, 6, 6][Int.random(in: 0..<6, using: &random)]
        mayDestroy = Bool.random(using: &random)
        isCalm = Bool.random(using: &random)
        isCut = Array(repeating: Array(repeating: false, count: count), count: count)
        let disks = (0..<count).map { DiskID(node: NodeID("n\($0)"), number: 1) }
        let first = Array(disks.prefix(mayDestroy ? max(2, min(3, count)) : Int.random(in: 1...min(3, count), using: &random)))
        let genesis = ReplicaSet(term: .zero, disks: first)
        for disk in disks {
            var record = SlotRecord()
            if first.contains(disk) { (record.installed, record.content) = (genesis, .zero) }
            nodes.append(Node(disk: disk, slot: FactSlot(own: disk, record: record), durableRecord: record))
        }
        rings = [first]
    }

    // MARK: Running

    /// Runs events under faults, then heals everything. Returns what is wrong.
    mutating func run(events: Int) -> [String] {
        for node in nodes.indices { learnRing(node) }
        for _ in 0..<events where checker.violations.isEmpty { step() }
        guard checker.violations.isEmpty else { return checker.violations }
        settle()
        return checker.violations
    }

    private mutating func step() {
        if let node = aim {
            aim = nil
            switch Int.random(in: 0..<40, using: &random) {
            case 0: return crash(node)
            case 1: return cut { $0 == node || $1 == node }
            case 2: return cut { from, _ in from == node }
            case 3: return cut { _, to in to == node }
            default: break
            }
        }
        switch Int.random(in: 0..<1000, using: &random) {
        case ..<500: deliver(isLossy: true)
        case ..<700: finishWrite(of: randomNode())
        case ..<830: write(at: randomNode())
        case ..<875: handle(.tick, at: randomNode())
        case ..<997 where isCalm && Int.random(in: 0..<5, using: &random) > 0: deliver(isLossy: true)
        case ..<887: crash(randomNode())
        case ..<917: restart(randomNode())
        case ..<937: changeRing()
        case ..<980: learnRing(randomNode())
        case ..<995: split()
        default: destroy(randomNode())
        }
    }

    /// Ends all faults, and expects one owner with all acknowledged rows within a bounded number of rounds.
    private mutating func settle() {
        cut { _, _ in false }
        for node in nodes.indices { restart(node) }
        let disks = nodes.map(\.disk)
        let first = Int.random(in: 0..<disks.count, using: &random)
        rings.append((0..<min(3, disks.count)).map { disks[(first + $0) % disks.count] })
        for _ in 0..<60 {
            for node in nodes.indices {
                learnRing(node)
                handle(.tick, at: node)
            }
            while !packets.isEmpty || nodes.contains(where: { !$0.writes.isEmpty }) {
                while !packets.isEmpty { deliver(isLossy: false) }
                for node in nodes.indices { while !nodes[node].writes.isEmpty { finishWrite(of: node) } }
            }
            if isSettled || !checker.violations.isEmpty { break }
        }
        guard checker.violations.isEmpty else { return }
        if !isSettled { checker.report("no owner is active with the disks of the ring, \(nodes.map(\.slot.state))") }
        let owner = nodes.first { $0.disk == rings.last?.first }
        if let owner { checker.compare(owner.rows, in: .init(number: .max, claimant: owner.disk)) }
    }

    private var isSettled: Bool {
        let active = nodes.filter { $0.slot.writable != nil }
        guard let ring = rings.last, active.count == 1, active[0].disk == ring[0] else { return false }
        let set = active[0].slot.writable
        return set?.disks == ring.sorted() && nodes.filter { ring.contains($0.disk) }.allSatisfy { $0.slot.record.content == set?.term }
    }

    private mutating func randomNode() -> Int { Int.random(in: 0..<nodes.count, using: &random) }

    // MARK: Faults of machines and networks

    private mutating func crash(_ node: Int) {
        guard nodes[node].isUp else { return }
        nodes[node].isUp = false
        // The disk finishes some of what it has.
        for _ in 0..<Int.random(in: 0...nodes[node].writes.count, using: &random) { apply(nodes[node].writes.removeFirst(), at: node) }
        nodes[node].writes = []
        nodes[node].open = [:]
        nodes[node].collection = nil
        nodes[node].hasReplacedRows = false
    }

    private mutating func restart(_ node: Int) {
        guard !nodes[node].isUp else { return }
        if fault == .returnsOldDisk, let backup = nodes[node].backup {
            (nodes[node].durableRecord, nodes[node].durableRows) = (backup.record, backup.rows)
        }
        nodes[node].isUp = true
        nodes[node].rows = nodes[node].durableRows
        nodes[node].slot = FactSlot(own: nodes[node].disk, record: nodes[node].durableRecord)
        checker.restarted(nodes[node].disk, nodes[node].durableRecord)
        for disk in removed { handle(.removed(disk), at: node) }
        learnRing(node)
    }

    private mutating func changeRing() {
        let sizeMin = mayDestroy ? 2 : 1
        let size = Int.random(in: min(sizeMin, nodes.count)...min(3, nodes.count), using: &random)
        rings.append(Array(nodes.map(\.disk).shuffled(using: &random).prefix(size)))
    }

    private mutating func learnRing(_ node: Int) {
        guard nodes[node].isUp else { return }
        nodes[node].ring = rings.count - 1
        let ring = rings[nodes[node].ring]
        let (slot, isIdle) = (nodes[node].slot, nodes[node].writes.isEmpty)
        if fault == .countsNewSet, ring.first == slot.own, isIdle, let installed = slot.record.installed {
            nodes[node].slot = slot.replacing { $0.installed = ReplicaSet(term: installed.term, disks: ring) }
        }
        handle(.ringChanged(ring, others: nodes.map(\.disk)), at: node)
    }

    /// Splits the network into two sides, or heals it.
    private mutating func split() {
        let isSplit = Int.random(in: 0..<3, using: &random) == 0
        let sides = nodes.indices.map { _ in isSplit ? Int.random(in: 0...1, using: &random) : 0 }
        cut { sides[$0] != sides[$1] }
    }

    private mutating func cut(_ isLost: (Int, Int) -> Bool) {
        for from in nodes.indices { for to in nodes.indices { isCut[from][to] = from != to && isLost(from, to) } }
    }

    /// Destroys one disk in a run. An operator removes it at once; the node starts again with an empty one.
    private mutating func destroy(_ node: Int) {
        guard mayDestroy, removed.isEmpty else { return }
        crash(node)
        let old = nodes[node].disk
        let isReused = fault == .reusesDisk
        let new = isReused ? old : DiskID(node: old.node, number: old.number + 1)
        nodes[node] = Node(disk: new, slot: FactSlot(own: new, record: SlotRecord()), isUp: false, durableRecord: SlotRecord())
        rings.append(rings[rings.count - 1].map { $0 == old ? new : $0 })
        removed = [old]
        guard !isReused else { return }
        for node in nodes.indices where nodes[node].isUp { handle(.removed(old), at: node) }
    }

    // MARK: Messages

    private func index(of disk: DiskID) -> Int? { nodes.firstIndex { $0.disk == disk } }

    private mutating func deliver(isLossy: Bool) {
        guard !packets.isEmpty else { return }
        let position = isLossy ? Int.random(in: 0..<packets.count, using: &random) : 0
        let packet = packets[position]
        let fate = isLossy ? Int.random(in: 0..<100, using: &random) : 50
        if fate >= 6 || packets.count > 300 { packets.remove(at: position) }
        guard fate < 94, let node = index(of: packet.to), nodes[node].isUp, !isCut[packet.from][node] else { return }
        receive(packet.body, from: packet.sender, at: node)
    }

    mutating func send(_ body: Body, to disk: DiskID, from node: Int) {
        packets.append(Packet(from: node, sender: nodes[node].disk, to: disk, body: body))
    }

    private mutating func receive(_ body: Body, from disk: DiskID, at node: Int) {
        switch body {
        case .term(let message): receive(message, from: disk, at: node)
        case .rows(let entry): receive(entry, from: disk, at: node)
        case .rowStored(let entry): acknowledge(entry, by: disk, at: node)
        case .fetch(let term):
            let promised = nodes[node].slot.record.promised
            let answer = nodes[node].slot.serves(term) ? Body.content(term, nodes[node].rows) : .term(.refusal(promised: promised))
            send(answer, to: disk, from: node)
        case .content(let term, let rows):
            guard nodes[node].collection?.term == term else { return }
            nodes[node].collection?.parts[disk] = rows
            finishCollection(at: node)
        }
    }

    private mutating func receive(_ message: TermMessage, from disk: DiskID, at node: Int) {
        var message = message
        if case .promise(let promise) = message { message = .promise(altered(promise)) }
        if case .refusal = message, fault == .countsRefusals {
            for entry in nodes[node].open.keys.sorted(by: { $0.isOlder(than: $1) }) { acknowledge(entry, by: disk, at: node) }
        }
        handle(.received(message, from: disk), at: node)
        if fault == .deletesEarly, case .install(let installation) = message, !installation.set.contains(nodes[node].disk) {
            nodes[node].slot = nodes[node].slot.replacing { $0.content = nil }
            (nodes[node].rows, nodes[node].durableRows, nodes[node].durableRecord.content) = ([:], [:], nil)
        }
    }

    private func altered(_ promise: Promise) -> Promise {
        switch fault {
        case .hidesAccepted:
            Promise(term: promise.term, base: promise.base, accepted: nil, content: promise.content, hash: promise.hash)
        case .joinsAllContent:
            Promise(
                term: promise.term, base: promise.base, accepted: promise.accepted, content: promise.content.map { _ in promise.base },
                hash: promise.hash)
        default: promise
        }
    }

    // MARK: Rows

    private mutating func write(at node: Int) {
        guard nodes[node].isUp, let set = nodes[node].slot.writable else { return }
        nodes[node].sequence += 1
        let entry = Entry(key: Int.random(in: 0..<3, using: &random), term: set.term, sequence: nodes[node].sequence)
        nodes[node].open[entry] = []
        receive(entry, from: nodes[node].disk, at: node)
        for disk in set.disks where disk != nodes[node].disk { send(.rows(entry), to: disk, from: node) }
    }

    private mutating func receive(_ entry: Entry, from owner: DiskID, at node: Int) {
        switch nodes[node].slot.answer(toRowsOf: entry.term) {
        case .store: break
        case .refuse(let promised):
            if fault == .acceptsOldRows { break }
            return send(.term(.refusal(promised: promised)), to: owner, from: node)
        case .ignore: if fault != .acceptsRowsBeforeContent { return }
        }
        if nodes[node].rows[entry.key].map({ $0.isOlder(than: entry) }) ?? true { nodes[node].rows[entry.key] = entry }
        nodes[node].writes.append(.row(entry, owner: owner))
    }

    private mutating func acknowledge(_ entry: Entry, by disk: DiskID, at node: Int) {
        guard nodes[node].open[entry] != nil else { return }
        if nodes[node].open[entry]?.contains(disk) == false { nodes[node].open[entry]?.append(disk) }
        let disks = nodes[node].open[entry] ?? []
        let isAlone = fault == .acknowledgesAlone && disks.contains(nodes[node].disk)
        guard nodes[node].slot.isAcknowledged(by: disks) || isAlone else { return }
        nodes[node].open[entry] = nil
        checker.acknowledged(entry)
    }

    // MARK: Disks

    mutating func finishWrite(of node: Int) {
        guard nodes[node].isUp, !nodes[node].writes.isEmpty else { return }
        let write = nodes[node].writes.removeFirst()
        apply(write, at: node)
        switch write {
        case .record(_, let number, _): if fault != .answersBeforeDisk { handle(.stored(write: number, isDurable: true), at: node) }
        case .row(let entry, let owner):
            if owner == nodes[node].disk { acknowledge(entry, by: owner, at: node) } else { send(.rowStored(entry), to: owner, from: node) }
        }
    }

    private mutating func apply(_ write: DiskWrite, at node: Int) {
        switch write {
        case .record(var record, _, let rows):
            if fault == .losesPromises {
                record.promised = max(record.content ?? .zero, record.installed?.term ?? .zero, record.accepted?.term ?? .zero)
            }
            if nodes[node].backup == nil, record.content != nil { nodes[node].backup = (record, nodes[node].durableRows) }
            nodes[node].durableRecord = record
            if let rows { nodes[node].durableRows = rows }
        case .row(let entry, _):
            if nodes[node].durableRows[entry.key].map({ $0.isOlder(than: entry) }) ?? true { nodes[node].durableRows[entry.key] = entry }
        }
    }

    // MARK: The machine

    mutating func handle(_ input: FactSlot.Input, at node: Int) {
        guard nodes[node].isUp else { return }
        let before = nodes[node].slot.record
        let hash = TermChecker.hash(nodes[node].rows)
        var outputs: [FactSlot.Output] = []
        nodes[node].slot.handle(input, hash: { hash }, into: &outputs)
        if fault == nil { nodes[node].slot.checkInvariants() }
        checker.changed(nodes[node].disk, from: before, to: nodes[node].slot.record)
        if outputs.contains(where: { $0.isPhase }) { aim = node }
        for output in outputs { carryOut(output, at: node) }
    }

    private mutating func carryOut(_ output: FactSlot.Output, at node: Int) {
        switch output {
        case .send(let message, let disk):
            if case .promise(let promise) = message { checker.promised(promise.term, by: nodes[node].disk) }
            send(.term(message), to: disk, from: node)
        case .store(let record, let write):
            let rows = nodes[node].hasReplacedRows ? nodes[node].rows : nil
            nodes[node].hasReplacedRows = false
            nodes[node].writes.append(.record(record, write: write, rows))
            if fault == .answersBeforeDisk { handle(.stored(write: write, isDurable: true), at: node) }
        case .collect(let term, let sources):
            let ownRows: [DiskID: Rows] = sources.contains(nodes[node].disk) ? [nodes[node].disk: nodes[node].rows] : [:]
            nodes[node].collection = (term, sources, ownRows)
            for disk in sources where disk != nodes[node].disk { send(.fetch(term), to: disk, from: node) }
            finishCollection(at: node)
        case .keep: keep(at: node)
        case .deleteContent: (nodes[node].rows, nodes[node].hasReplacedRows) = ([:], true)
        case .activate(let term): checker.activated(term, nodes[node].rows)
        case .deactivate: nodes[node].open = [:]
        }
        if case .send(.install(let installation), _) = output, fault == .skipsBase {
            for disk in installation.base.disks where !installation.set.contains(disk) {
                handle(.received(.stored(installation.set.term), from: disk), at: node)
            }
        }
    }

    private mutating func finishCollection(at node: Int) {
        guard let collection = nodes[node].collection else { return }
        let isOwnEnough = fault == .skipsCollecting && nodes[node].slot.isOwner
        guard isOwnEnough || collection.sources.allSatisfy({ collection.parts[$0] != nil }) else { return }
        nodes[node].collection = nil
        var rows = collection.sources.first.flatMap { collection.parts[$0] } ?? [:]
        if isOwnEnough { rows = nodes[node].rows }
        for disk in collection.sources.dropFirst() { TermChecker.join(&rows, collection.parts[disk] ?? [:]) }
        nodes[node].staged = rows
        handle(.collected(collection.term, hash: TermChecker.hash(rows)), at: node)
    }

    private mutating func keep(at node: Int) {
        var rows = nodes[node].staged
        if fault == .mergesContent { TermChecker.join(&rows, nodes[node].rows) }
        (nodes[node].rows, nodes[node].hasReplacedRows) = (rows, true)
    }
}

extension FactSlot.Output {
    /// Whether a claimant has reached its next state.
    fileprivate var isPhase: Bool {
        switch self {
        case .collect, .keep, .activate: true
        case .send, .store, .deleteContent, .deactivate: false
        }
    }
}

extension FactSlot {
    /// A machine with another record, as after a start, and with the same ring.
    func replacing(_ change: (inout SlotRecord) -> Void) -> FactSlot {
        var changed = record
        change(&changed)
        var slot = FactSlot(own: own, record: changed)
        var outputs: [Output] = []
        for disk in removed { slot.handle(.removed(disk), hash: { 0 }, into: &outputs) }
        return slot
    }
}
