import PresenceWire

/// The records of one range of 64 slots as bytes: one row on disk.
///
/// Slots that were claimed together have few terms and replica sets. Each name, disk, term and set is in the page once.
struct TermPage: Equatable {
    static let slotsCount = 64
    /// Most entries of one table of a page.
    private static let tableMax = 1_024

    /// The records by the position of the slot in the range; nil for a slot without any.
    private(set) var records: [SlotRecord?]

    init(_ records: [SlotRecord?] = Array(repeating: nil, count: slotsCount)) {
        precondition(records.count == Self.slotsCount, "\(records.count) records, a page has \(Self.slotsCount)")
        self.records = records
    }

    subscript(slot: Slot) -> SlotRecord? {
        get { records[Int(slot) % Self.slotsCount] }
        set { records[Int(slot) % Self.slotsCount] = newValue }
    }

    /// The values of a page, each once, in the order in which they first occur.
    private struct Table<Value: Hashable> {
        private(set) var elements: [Value] = []
        private var indices: [Value: UInt64] = [:]

        mutating func index(of value: Value) -> UInt64 {
            if let index = indices[value] { return index }
            indices[value] = UInt64(elements.count)
            elements.append(value)
            return UInt64(elements.count - 1)
        }
    }

    // MARK: Bytes

    var bytes: [UInt8] {
        var names = Table<NodeID>()
        var disks = Table<DiskID>()
        var terms = Table<Term>()
        var sets = Table<ReplicaSet>()
        for record in records.compactMap(\.self) {
            for set in [record.installed, record.accepted].compactMap(\.self) { _ = sets.index(of: set) }
            for term in [record.promised, record.content].compactMap(\.self) { _ = terms.index(of: term) }
        }
        for set in sets.elements {
            _ = terms.index(of: set.term)
            for disk in set.disks { _ = disks.index(of: disk) }
        }
        for term in terms.elements { _ = disks.index(of: term.claimant) }
        for disk in disks.elements { _ = names.index(of: disk.node) }
        var writer = WireWriter()
        writer.list(names.elements) { $0.text($1.rawValue) }
        writer.list(disks.elements) { writer, disk in
            writer.unsigned(names.index(of: disk.node))
            writer.unsigned(disk.number)
        }
        writer.list(terms.elements) { writer, term in
            writer.unsigned(disks.index(of: term.claimant))
            writer.unsigned(term.number)
        }
        writer.list(sets.elements) { writer, set in
            writer.unsigned(terms.index(of: set.term))
            writer.list(set.disks) { $0.unsigned(disks.index(of: $1)) }
        }
        for record in records {
            writer.optional(record) { writer, record in
                writer.unsigned(terms.index(of: record.promised))
                writer.optional(record.installed) { $0.unsigned(sets.index(of: $1)) }
                writer.optional(record.accepted) { $0.unsigned(sets.index(of: $1)) }
                writer.optional(record.content) { $0.unsigned(terms.index(of: $1)) }
            }
        }
        return writer.bytes
    }

    /// Reads ``bytes``.
    init(bytes: [UInt8]) throws(DecodeError) {
        let page: Result<TermPage, DecodeError> = bytes.withUnsafeBytes { bytes in
            var reader = WireReader(bytes)
            do throws(DecodeError) {
                let page = try TermPage(&reader)
                try reader.expectEnd()
                return .success(page)
            } catch {
                return .failure(error)
            }
        }
        self = try page.get()
    }

    private init(_ reader: inout WireReader) throws(DecodeError) {
        let names = try reader.list(countMax: Self.tableMax) { (reader) throws(DecodeError) in NodeID(try reader.text(bytesMax: 64)) }
        let disks = try reader.list(countMax: Self.tableMax) { (reader) throws(DecodeError) in
            DiskID(node: try reader.element(of: names), number: try reader.unsigned())
        }
        let terms = try reader.list(countMax: Self.tableMax) { (reader) throws(DecodeError) in
            let claimant = try reader.element(of: disks)
            return Term(number: try reader.unsigned(), claimant: claimant)
        }
        let sets = try reader.list(countMax: Self.tableMax) { (reader) throws(DecodeError) in
            let term = try reader.element(of: terms)
            let members = try reader.list(countMax: Self.tableMax) { (reader) throws(DecodeError) in try reader.element(of: disks) }
            return ReplicaSet(term: term, disks: members)
        }
        records = []
        for _ in 0..<Self.slotsCount {
            let record = try reader.optional { (reader) throws(DecodeError) in
                var record = SlotRecord(promised: try reader.element(of: terms))
                record.installed = try reader.optional { (reader) throws(DecodeError) in try reader.element(of: sets) }
                record.accepted = try reader.optional { (reader) throws(DecodeError) in try reader.element(of: sets) }
                record.content = try reader.optional { (reader) throws(DecodeError) in try reader.element(of: terms) }
                return record
            }
            records.append(record)
        }
    }
}

extension WireReader {
    /// Reads the position of an element of a table.
    fileprivate mutating func element<Element>(of table: [Element]) throws(DecodeError) -> Element {
        let index = try unsigned()
        guard index < UInt64(table.count) else { throw .outOfRange(Int64(clamping: index)) }
        return table[Int(index)]
    }
}
