import Foundation
import NIOSSL
import PresenceWire

/// `rollcall import`: brings the friend lists of a CSV file into a cluster.
///
/// Rows of one user that follow one another go into one call, and many calls are under way at once. After each window of calls the place
/// in the file is stored, so that a run which was stopped goes on there. No row is lost: a row that was sent twice changes nothing.
public struct FriendImport: Sendable {
    /// The options of an import.
    public struct Options: Sendable {
        /// The path of the CSV file.
        public var file: String
        /// The URL of a node's client port.
        public var target: String
        /// A token with role admin.
        public var token: String
        /// The certificates of nodes that are accepted.
        public var tls = TLSConfiguration.makeClientConfiguration()
        /// Calls under way at once, 1 to 256.
        public var callsCount = 16
        /// Whether the position of an earlier run is ignored.
        public var restarts = false
        /// Told when a call has had no answer, and is repeated for half a minute; with the reason.
        public var onSilence: @Sendable (String) -> Void = { _ in }
        /// Returns the reason why a connection failed, in words for a person.
        public var reason: @Sendable (any Error) -> String = { "\($0)" }
        /// Whether an error of a connection ends the import at once. After any other error a call is repeated for half a minute.
        public var isLasting: @Sendable (any Error) -> Bool = { _ in false }

        public init(file: String, target: String, token: String) { (self.file, self.target, self.token) = (file, target, token) }
    }

    /// The state of a run.
    public struct Progress: Sendable {
        public let counts: ImportCounts
        /// The part of the file that is done, 0 to 1.
        public let share: Double
        /// Rows that an earlier run has imported.
        public let earlierRows: Int
    }

    /// Rows of one user for one call.
    struct Batch: Sendable {
        static let rowsMax = Limits.chainBatchMax

        let user: String
        var rows: [(record: CSVRecords.Record, row: FriendRow)]
    }

    private let options: Options
    private let calls: ImportCalls

    public init(_ options: Options) {
        self.options = options
        calls = ImportCalls(options)
    }

    /// The path of the report about refused rows.
    public static func reportPath(beside file: String) -> String { file + ".refused.csv" }

    /// Imports the file, from the place where an earlier run has stopped.
    ///
    /// Throws ``ImportError`` if the file is no list of friends, or if no node answers for half a minute.
    public func run(onProgress: (Progress) -> Void) async throws -> ImportCounts {
        try await calls.closed(after: { try await importAll(onProgress) })
    }

    private func importAll(_ onProgress: (Progress) -> Void) async throws -> ImportCounts {
        guard let file = FileHandle(forReadingAtPath: options.file) else {
            throw ImportError("\(options.file): cannot be read: \(String(cString: strerror(errno)))")
        }
        defer { file.closeFile() }
        var records = try CSVRecords(file)
        guard let header = try records.next() else { throw ImportError("\(options.file): is empty") }
        if let fault = header.fault { throw ImportError("\(options.file): row 0: \(fault)") }
        let columns = try FriendColumns(header.fields)
        var position = try position(after: header)
        let earlier = position.counts.rows
        records = try CSVRecords(file, from: position.offset, number: earlier + 1)
        let report = try Report(beside: options.file, columns, bytes: position.reportBytes)
        // A folder in which no place can be stored is noticed before the first call.
        position.reportBytes = try report.append([])
        try position.save(beside: options.file)
        while let window = try Self.window(of: &records, columns, batchesMax: options.callsCount) {
            var refused = window.refused
            let outcomes = try await send(window.batches)
            for (batch, results) in zip(window.batches, outcomes) {
                for (row, result) in zip(batch.rows, results) {
                    switch result {
                    case .imported: position.counts.imported += 1
                    case .present: position.counts.present += 1
                    case .refused(let refusal): refused.append((row.record, refusal))
                    }
                }
            }
            refused.sort { $0.record.number < $1.record.number }
            position.counts.refused += refused.count
            position.counts.rows = position.counts.imported + position.counts.present + position.counts.refused
            position.reportBytes = try report.append(refused)
            position.offset = window.end
            try position.save(beside: options.file)
            let share = Double(position.offset) / Double(max(position.fileBytes, 1))
            onProgress(Progress(counts: position.counts, share: share, earlierRows: earlier))
        }
        try report.close()
        if position.counts.refused == 0 { try FileManager.default.removeItem(atPath: Self.reportPath(beside: options.file)) }
        // The next import of the file begins at its beginning.
        try FileManager.default.removeItem(atPath: ImportPosition.path(beside: options.file))
        return position.counts
    }

    private func position(after header: CSVRecords.Record) throws -> ImportPosition {
        var new = try ImportPosition(of: options.file)
        new.offset = header.end
        return try ImportPosition.resumed(options.file, restarts: options.restarts) ?? new
    }

    // MARK: Windows

    private struct Window {
        var batches: [Batch] = []
        var refused: [(record: CSVRecords.Record, refusal: RowRefusal)] = []
        var end: UInt64 = 0
    }

    /// Reads the rows of the next calls; nil at the end of the file.
    private static func window(of records: inout CSVRecords, _ columns: FriendColumns, batchesMax: Int) throws -> Window? {
        var window = Window()
        var count = 0
        while count < batchesMax * Batch.rowsMax, let record = try records.next() {
            (count, window.end) = (count + 1, record.end)
            let row: FriendRow
            do throws(RowRefusal) { row = try FriendRow(record, columns) } catch {
                window.refused.append((record, error))
                continue
            }
            if let last = window.batches.last, last.hasRoom(for: row) {
                window.batches[window.batches.count - 1].rows.append((record, row))
            } else {
                window.batches.append(Batch(user: row.user, rows: [(record, row)]))
            }
            // The last batch may still grow by rows of its user.
            if window.batches.count > batchesMax { break }
        }
        return count == 0 ? nil : window
    }

    // MARK: Calls

    private enum Outcome: Sendable {
        case imported
        case present
        case refused(RowRefusal)
    }

    private func send(_ batches: [Batch]) async throws -> [[Outcome]] {
        try await withThrowingTaskGroup(of: (Int, [Outcome]).self) { group in
            for (index, batch) in batches.enumerated() { group.addTask { (index, try await send(batch)) } }
            var outcomes = [[Outcome]](repeating: [], count: batches.count)
            for try await (index, result) in group { outcomes[index] = result }
            return outcomes
        }
    }

    private func send(_ batch: Batch) async throws -> [Outcome] {
        var outcomes = [Outcome?](repeating: nil, count: batch.rows.count)
        let failures = try await createGroups(of: batch)
        for (index, row) in batch.rows.enumerated() {
            if let failure = row.row.groups.lazy.compactMap({ failures[$0] }).first { outcomes[index] = .refused(failure) }
        }
        while true {
            let rest = outcomes.indices.filter { outcomes[$0] == nil }
            guard !rest.isEmpty else { return outcomes.compactMap { $0 } }
            do {
                let results = try await calls.importFriends(rest.map { batch.rows[$0].row }, of: batch.user)
                guard results.count == rest.count else { throw ImportError("importFriends: the answer lacks results") }
                for (index, result) in zip(rest, results) { outcomes[index] = Self.outcome(of: result) }
            } catch let error as ImportCalls.Refused where error.isOfRow {
                if let place = Self.place(namedBy: error, rowsCount: rest.count) {
                    outcomes[rest[place]] = .refused(Self.refusal(error))
                } else {
                    // The refusal of a single call is about its row.
                    for index in rest { outcomes[index] = try await send(batch.rows[index].row, of: batch.user) }
                }
            } catch let error as ImportCalls.Refused { throw error.ofImport }
        }
    }

    private func send(_ row: FriendRow, of user: String) async throws -> Outcome {
        do {
            guard let result = try await calls.importFriends([row], of: user).first else {
                throw ImportError("importFriends: the answer lacks results")
            }
            return Self.outcome(of: result)
        } catch let error as ImportCalls.Refused {
            guard error.isOfRow else { throw error.ofImport }
            return .refused(Self.refusal(error))
        }
    }

    private static func outcome(of result: RowRefusal) -> Outcome {
        switch result.code {
        case 0: .imported
        // The groups of the row exist.
        case Int(ChainCode.alreadyFriend.rawValue): .present
        default: .refused(result)
        }
    }

    /// The place of the row that a refused call names: `friends[3].remark: …`.
    private static func place(namedBy error: ImportCalls.Refused, rowsCount: Int) -> Int? {
        guard error.detail.hasPrefix("friends["), let end = error.detail.firstIndex(of: "]") else { return nil }
        return Int(error.detail[..<end].dropFirst("friends[".count)).flatMap { (0..<rowsCount).contains($0) ? $0 : nil }
    }

    private static func refusal(_ error: ImportCalls.Refused) -> RowRefusal {
        guard error.detail.hasPrefix("friends["), let end = error.detail.firstIndex(of: "]") else {
            return RowRefusal(code: error.code, reason: error.detail)
        }
        return RowRefusal(code: error.code, reason: String(error.detail[end...].dropFirst().drop { $0 == "." }))
    }

    /// Creates the groups that a batch names. Returns the reasons for those that cannot be.
    private func createGroups(of batch: Batch) async throws -> [String: RowRefusal] {
        var failures: [String: RowRefusal] = [:]
        for name in Set(batch.rows.flatMap(\.row.groups)).sorted() {
            do { failures[name] = try await calls.createGroup(name, of: batch.user) } catch let error as ImportCalls.Refused {
                // A name that is too long is the fault of its rows, and so is a user that does not exist.
                guard error.isOfRow else { throw error.ofImport }
                failures[name] = RowRefusal(code: error.code, reason: error.detail)
            }
        }
        return failures
    }
}

extension FriendImport.Batch {
    /// Whether the row may go into the same call: it is about another friend of the same user.
    fileprivate func hasRoom(for row: FriendRow) -> Bool {
        row.user == user && rows.count < Self.rowsMax && !rows.contains { $0.row.friend == row.friend }
    }
}
