import PresenceWire

@testable import PresenceCore

/// Bugs of a node, each of which breaks one sentence of the page Terms. They stand around the state machine, which has no switches.
enum TermFault: String, CaseIterable {
    /// A promise, or an installation, is answered before the disk has it.
    case answersBeforeDisk
    /// The promised term is not in the record on disk.
    case losesPromises
    /// The majority of a claim is counted over the disks of the new ring.
    case countsNewSet
    /// A disk writes and acknowledges rows of a smaller term than it has promised.
    case acceptsOldRows
    /// A disk acknowledges rows of a term whose content it has not received.
    case acceptsRowsBeforeContent
    /// A disk joins the content of a term with its own rows instead of replacing them.
    case mergesContent
    /// A claimant installs what it holds, without what the other disks hold.
    case skipsCollecting
    /// A claimant joins the rows of all promising disks, whatever term their content is of.
    case joinsAllContent
    /// A promise does not name the replica set that another claimant has begun to install.
    case hidesAccepted
    /// A term is active before a majority of the old replica set knows the new one.
    case skipsBase
    /// A disk that is not in the new replica set deletes its rows before the term is installed.
    case deletesEarly
    /// A row is acknowledged when the owner's disk has it.
    case acknowledgesAlone
    /// A refusal counts as an acknowledgement.
    case countsRefusals
    /// A node that starts with an empty disk is the same member as before.
    case reusesDisk
    /// A node starts with an old copy of its disk.
    case returnsOldDisk
}

/// Compares what owners have acknowledged with the content of the terms that became active.
struct TermChecker {
    /// The content with which a term began.
    struct Start {
        let term: Term
        let rows: TermSimulation.Rows
    }

    private(set) var violations: [String] = []
    /// The content of each active term, in the order of the terms.
    private(set) var starts: [Start] = []
    private(set) var acknowledged: [TermSimulation.Entry] = []
    private var promises: [DiskID: Term] = [:]

    mutating func report(_ text: String) { violations.append(text) }

    /// A term has become active with these rows.
    mutating func activated(_ term: Term, _ rows: TermSimulation.Rows) {
        if starts.contains(where: { $0.term == term }) { report("\(term) became active twice") }
        compare(rows, in: term)
        let new = Start(term: term, rows: rows)
        for other in starts {
            if other.term < term { expect(new, toFollow: other) } else { expect(other, toFollow: new) }
        }
        starts.append(new)
    }

    /// Expects the rows that were acknowledged in smaller terms, or later ones.
    mutating func compare(_ rows: TermSimulation.Rows, in term: Term) {
        for entry in acknowledged where entry.term < term && rows[entry.key].map({ $0.isOlder(than: entry) }) ?? true {
            report("\(entry) was acknowledged, and \(term) begins with \(rows[entry.key].map { "\($0)" } ?? "no row")")
        }
    }

    /// A row that a term did not begin with, though it is of a smaller term, is not in a later term either.
    private mutating func expect(_ later: Start, toFollow earlier: Start) {
        for (key, entry) in later.rows.sorted(by: { $0.key < $1.key }) where entry.term < earlier.term && earlier.rows[key] != entry {
            report("\(entry) was not in \(earlier.term), and returns in \(later.term)")
        }
    }

    mutating func acknowledged(_ entry: TermSimulation.Entry) {
        acknowledged.append(entry)
        for later in starts where later.term > entry.term && later.rows[entry.key].map({ $0.isOlder(than: entry) }) ?? true {
            report("\(entry) is acknowledged, and is missing in \(later.term), which began before")
        }
    }

    mutating func promised(_ term: Term, by disk: DiskID) { promises[disk] = max(promises[disk] ?? .zero, term) }

    mutating func restarted(_ disk: DiskID, _ record: SlotRecord) {
        guard let promised = promises[disk], record.promised < promised else { return }
        report("\(disk) has promised \(promised), and starts with \(record)")
    }

    mutating func changed(_ disk: DiskID, from old: SlotRecord, to new: SlotRecord) {
        let isSmaller =
            new.promised < old.promised || new.installed?.term ?? .zero < old.installed?.term ?? .zero
            || (new.content.map { $0 < old.content ?? .zero } ?? false)
        if isSmaller { report("\(disk) goes from \(old) to \(new)") }
    }

    static func hash(_ rows: TermSimulation.Rows) -> UInt64 {
        rows.sorted { $0.key < $1.key }.reduce(0) { hash, row in
            let claimant = row.value.term.claimant
            let term = StableHash.mix(row.value.term.number &+ claimant.number << 32, StableHash.hash64(claimant.node.rawValue.utf8))
            return StableHash.mix(StableHash.mix(hash, UInt64(row.key)), StableHash.mix(term, UInt64(row.value.sequence)))
        }
    }

    /// Adds the newer rows of other rows.
    static func join(_ rows: inout TermSimulation.Rows, _ others: TermSimulation.Rows) {
        rows.merge(others) { $0.isOlder(than: $1) ? $1 : $0 }
    }
}
