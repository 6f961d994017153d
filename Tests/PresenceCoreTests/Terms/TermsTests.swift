import PresenceWire
import Testing

@testable import PresenceCore

/// The terms of many slots: batches of messages, one write for all, and the records on disk.
@Suite struct TermsTests {
    private static let disks = ["a", "b", "c"].map { DiskID(node: NodeID($0), number: 1) }
    private static let slots: [Slot] = Array(0..<3_000) + [7_000, 65_534, 65_535]

    private static func term(_ number: UInt64, _ disk: Int = 0) -> Term { Term(number: number, claimant: disks[disk]) }

    /// A disk that holds all slots since a first term.
    private static func terms(_ disk: Int) -> Terms {
        let record = SlotRecord(
            promised: .zero, installed: ReplicaSet(term: .zero, disks: disks), content: .zero)
        return Terms(own: disks[disk], records: slots.map { Terms.Stored(slot: $0, record: record) })
    }

    /// Carries out the outputs of all disks until nothing is left. Returns the numbers of messages and writes.
    private func run(_ nodes: inout [Terms], _ first: [Terms.Output], at disk: Int) -> (messages: Int, writes: Int, active: [Slot]) {
        var waiting = first.map { (disk, $0) }
        var (messages, writes) = (0, 0)
        var active: [Slot] = []
        while !waiting.isEmpty {
            let (node, output) = waiting.removeFirst()
            var (receiver, next): (Int, [Terms.Output]) = (node, [])
            switch output {
            case .send(let batch, let disk):
                messages += 1
                receiver = Self.disks.firstIndex(of: disk) ?? 0
                next = nodes[receiver].receive(batch, from: Self.disks[node]) { UInt64($0) }
            case .store(_, let write):
                writes += 1
                next = nodes[node].stored(write, isDurable: true) { UInt64($0) }
            case .collect(let slots, let term, _):
                next = nodes[node].handle(slots.map { ($0, .collected(term, hash: UInt64($0))) }) { UInt64($0) }
            case .activate(let slots): active += slots
            case .deactivate, .keep, .deleteContent: break
            }
            waiting += next.map { (receiver, $0) }
        }
        return (messages, writes, active)
    }

    @Test("An owner claims and installs thousands of slots in a few batches and writes") func batches() {
        var nodes = [0, 1, 2].map(Self.terms)
        let ring = Self.disks
        let claims = nodes[0].handle(Self.slots.map { ($0, .ringChanged(ring, others: [])) }) { UInt64($0) }
        let (messages, writes, active) = run(&nodes, claims, at: 0)
        #expect(active == Self.slots)
        // Claims, promises, installations, their answers, and the news of both with their answers.
        #expect(messages == 12)
        #expect(writes <= 12)
        #expect(nodes.allSatisfy { node in Self.slots.allSatisfy { node[$0].record.content == Self.term(1) } })
        #expect(nodes[0][5].writable == ReplicaSet(term: Self.term(1), disks: Self.disks))
    }

    @Test("Slots with equal messages are ranges of one part, and hashes stay with their slots") func ranges() {
        let promise = { (hash: UInt64) in
            TermMessage.promise(Promise(term: Self.term(2), base: .zero, accepted: nil, content: .zero, hash: hash))
        }
        let messages: [(slot: Slot, message: TermMessage)] =
            (0..<10).map { ($0, promise(UInt64($0))) } + [(12, .refusal(promised: Self.term(3)))] + [(13, promise(13))]
        let batches = TermBatch.batches(of: messages)
        #expect(batches.count == 1)
        #expect(batches[0].parts.map(\.slots) == [[0...9, 13...13], [12...12]])
        var read: [Slot: TermMessage] = [:]
        batches[0].forEach { read[$0] = $1 }
        #expect(read == Dictionary(uniqueKeysWithValues: messages.map { ($0.slot, $0.message) }))
    }

    @Test("A batch has at most 4,096 slots") func pages() {
        let messages = (0..<10_000).map { (slot: Slot($0), message: TermMessage.stored(Self.term(1))) }
        let batches = TermBatch.batches(of: messages)
        #expect(batches.count == 3)
        #expect(batches.map { $0.parts.map(\.slots) } == [[[0...4_095]], [[4_096...8_191]], [[8_192...9_999]]])
    }

    @Test("A failed write is written again at the next tick") func failedWrite() throws {
        let record = SlotRecord(installed: ReplicaSet(term: .zero, disks: [Self.disks[0]]), content: .zero)
        var node = Terms(
            own: Self.disks[0],
            records: [Terms.Stored(slot: 1, record: record)])
        let outputs = node.handle([(1, .ringChanged([Self.disks[0]], others: []))]) { _ in 0 }
        let write = try #require(outputs.compactMap { if case .store(_, let write) = $0 { write } else { nil } }.first)
        #expect(node.stored(write, isDurable: false) { _ in 0 } == [])
        let again = node.handleAll(.tick) { _ in 0 }
        let next = try #require(again.compactMap { if case .store(_, let write) = $0 { write } else { nil } }.first)
        #expect(node.stored(next, isDurable: true) { _ in 0 } == [.collect([1], Self.term(1), from: [Self.disks[0]])])
    }

    @Test("Slots that appear after the removal of a disk do not count it") func removal() {
        var node = Terms(own: Self.disks[0])
        _ = node.handleAll(.removed(Self.disks[2])) { _ in 0 }
        _ = node.handle([(4, .tick)]) { _ in 0 }
        #expect(node[4].removed == [Self.disks[2]])
    }

    // MARK: Records

    @Test("The records of 64 slots are read as they were written", arguments: 1...50) func page(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let term = {
            Term(number: UInt64.random(in: 0...5, using: &random), claimant: Self.disks[Int.random(in: 0..<3, using: &random)])
        }
        let set = { ReplicaSet(term: term(), disks: Self.disks.filter { _ in Bool.random(using: &random) }) }
        var page = TermPage()
        for slot in Slot(640)..<704 where Int.random(in: 0...3, using: &random) > 0 {
            var record = SlotRecord(promised: term())
            if Bool.random(using: &random) { record.installed = set() }
            if Bool.random(using: &random) { record.accepted = set() }
            if Bool.random(using: &random) { record.content = term() }
            page[slot] = record
        }
        #expect(try TermPage(bytes: page.bytes) == page)
    }

    @Test("A page that was cut or has another byte is refused, or is another page") func damagedPage() throws {
        var page = TermPage()
        for slot in Slot(0)..<64 {
            page[slot] = SlotRecord(
                promised: Self.term(3), installed: ReplicaSet(term: Self.term(2), disks: Self.disks), content: Self.term(2))
        }
        let bytes = page.bytes
        #expect(bytes.count < 64 * 8, "equal records name their terms and sets once")
        for count in 0..<bytes.count { #expect(throws: DecodeError.self) { try TermPage(bytes: Array(bytes[..<count])) } }
        for index in bytes.indices {
            var damaged = bytes
            damaged[index] ^= 0xFF
            if let read = try? TermPage(bytes: damaged) { #expect(read != page) }
        }
    }
}
