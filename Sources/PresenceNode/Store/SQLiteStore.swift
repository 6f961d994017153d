import CSQLite
import Foundation
import GRDB
import NIOConcurrencyHelpers
import NIOCore
import PresenceWire

/// Durable rows in SQLite, with a write-ahead log and `synchronous=FULL`, through GRDB.
///
/// One writer on its own thread writes all urgent rows in one transaction (group commit), because a synchronous write takes 0.3 to 4.5 ms.
/// Bulk rows are added a few at a time, at most to every other group. An urgent row therefore waits for at most one group of bulk rows.
public final class SQLiteStore: Store {
    /// Most rows that may wait for the disk. Beyond it, writes are refused with ``StoreError/overloaded``.
    public static let rowsWaitingMax = 1_000_000
    /// The name of the database file. The names of its log and of damaged files begin with it.
    static let fileName = "rollcall.sqlite"
    /// `PRAGMA application_id`: "Roll".
    static let applicationID = 0x526F_6C6C
    /// The maximum of bulk rows in one group commit. Writing so many takes some milliseconds.
    static let rowsInBulkOfGroup = 256
    /// Most slots of a group whose rows are deleted: about 250 of a million users.
    static let slotsDeletedAtOnce = 16
    /// The writer pauses this many times as long as a group of bulk rows took.
    ///
    /// After a change of the ring all nodes have much to write, and users wait for the urgent rows.
    static let restPerGroup: UInt64 = 3
    /// Longest pause, for any speed of the disk.
    static let restNanosecondsMax: UInt64 = 100_000_000
    /// Bulk rows that may wait during a pause. With more, the writer does not pause.
    static let rowsWaitingAtRestMax = 50_000

    /// Most rows of a transaction that retries failed writes: few, so that little free space on the disk suffices.
    private static let rowsRetriedAtOnce = 1_000
    /// SQLite's cache is released after this time with at most ``rowsInCalmMax`` rows written.
    private static let calmNanoseconds: UInt64 = 2_000_000_000
    /// Rows within ``calmNanoseconds`` for which the kernel's page cache is fast enough.
    private static let rowsInCalmMax = 500
    /// Time after a failure in which all writes fail without an attempt.
    private static let pauseNanoseconds: UInt64 = 200_000_000
    /// The length of the log, in pages, from which a write ends with a checkpoint. It is SQLite's own default.
    private static let framesMax = 1_000

    private struct Key: Hashable {
        let user: UserID
        let kind: PresenceWire.Row.Kind
        let key: String
    }

    private struct Pending {
        var rows: ArraySlice<PresenceWire.Row>
        let isUrgent: Bool
        let completion: (@Sendable (Result<Void, StoreError>) -> Void)?
        /// Whether the database is complete once this is on disk.
        var completes = false
        /// Whether the log is emptied once this is on disk.
        var truncatesLog = false
        /// Slots whose rows are deleted before ``rows`` are written.
        var deletedSlots: Set<Slot> = []
        /// Rows to delete if they still have these versions. ``rows`` have other versions.
        var deletedRows: ArraySlice<PresenceWire.Row> = []
        /// Damaged rows, and the rows in their place. They are written before all others of the group.
        var repair: (keys: [StoreDamage.Key], rows: [PresenceWire.Row])?

        var isEmpty: Bool { rows.isEmpty && deletedSlots.isEmpty && deletedRows.isEmpty }
        /// Rows to write or to delete.
        var rowsCount: Int { rows.count + deletedRows.count }
    }

    /// The work of the writer: the value of the condition lock.
    private enum Work { case idle, busy, ended }

    /// The state under the lock.
    private struct State {
        var urgent: [Pending] = []
        var bulk: CircularBuffer<Pending> = []
        /// Slots from ``deleteSlots(_:)`` that the writer has not taken. No row that was added later and waits is of their users.
        var slotsToDelete: Set<Slot> = []
        /// Whether the writer pauses, so that bulk rows wait.
        var isResting = false
        var isClosed = false
        var statistics = StoreStatistics()
        var completeness = Completeness.complete

        /// Whether the database has all rows that were acknowledged before it was damaged.
        enum Completeness {
            case complete
            /// Rows may be missing, and the database has the mark of it.
            case incomplete
            /// The other nodes have sent the missing rows. The next write removes the mark.
            case completing
        }

        /// Whether there is nothing to write now.
        var isIdle: Bool { urgent.isEmpty && (isResting || hasNothingInBulk) }
        private var hasNothingInBulk: Bool { bulk.isEmpty && slotsToDelete.isEmpty }

        /// Deletes the rows of these slots before rows that are added later.
        mutating func deleteFirst(_ slots: Set<Slot>) {
            guard !slots.isEmpty else { return }
            slotsToDelete.subtract(slots)
            urgent.append(Pending(rows: [], isUrgent: true, completion: nil, deletedSlots: slots))
        }

        mutating func count(_ parts: [Pending], _ sign: Int) {
            for part in parts {
                statistics.rowsWaiting += sign * part.rowsCount
                if !part.isUrgent { statistics.rowsInBulkWaiting += sign * part.rowsCount }
            }
        }

        /// Takes the next group. A group has all urgent rows, so that no urgent row is left behind newer bulk rows.
        mutating func nextGroup() -> [Pending] {
            var group = urgent
            urgent = []
            guard !isResting || isClosed else { return group }
            var room = SQLiteStore.rowsInBulkOfGroup
            while let next = bulk.first, next.rowsCount <= room {
                room -= next.rowsCount
                group.append(bulk.removeFirst())
            }
            if !isClosed, !slotsToDelete.isEmpty {
                let slots = Set(slotsToDelete.prefix(SQLiteStore.slotsDeletedAtOnce))
                slotsToDelete.subtract(slots)
                group.append(Pending(rows: [], isUrgent: false, completion: nil, deletedSlots: slots))
            }
            return group
        }
    }

    public let salvage: StoreSalvage?
    public let lastGeneration: UInt64
    private let queue: DatabaseQueue
    private let state = ConditionLock(value: Work.idle)
    private nonisolated(unsafe) var shared = State()
    /// Rows of failed writes, the newest of each key. Used only on the writer's thread.
    private nonisolated(unsafe) var unwritten: [Key: PresenceWire.Row] = [:]
    /// Slots whose rows could not be deleted. Used only on the writer's thread.
    private nonisolated(unsafe) var slotsUndeleted: Set<Slot> = []
    private nonisolated(unsafe) var lastFailure: (error: StoreError, at: UInt64)?
    /// End of the pause of bulk rows. Used only on the writer's thread.
    private nonisolated(unsafe) var restsUntil: UInt64 = 0
    /// Rows written since a time; nil after a time without any. Used only on the writer's thread.
    private nonisolated(unsafe) var recent: (rowsCount: Int, since: UInt64)?
    private let scrubber: StoreScrubber
    private let wipe: StoreWipe
    private let backup: StoreBackup
    private let path: String
    private let files: OpenFiles
    /// Whether this start created the file.
    private let isNew: Bool
    /// The lock on the folder.
    private let folder: FolderLock

    /// Opens or creates `rollcall.sqlite` in `directory`. A file that cannot be used stays as it is.
    ///
    /// - Parameter canBeCompleted: whether other nodes may have the missing rows. Then a damaged file is moved aside, its readable rows are
    ///   copied to a new file, and ``isIncomplete`` is true.
    /// - Parameter report: is told of a ``StoreWipe``.
    public init(
        directory: String, nodeID: String, cluster: String, canBeCompleted: Bool = false, report: (StoreWipe.Report) -> Void = { _ in }
    ) throws(StoreError) {
        let path = "\(directory)/\(Self.fileName)"
        self.path = path
        try PrivateFiles.makeFolder(directory, of: Self.fileName)
        folder = try FolderLock(directory, of: path)
        isNew = !FileManager.default.fileExists(atPath: path)
        do {
            salvage = try Self.prepare(path, nodeID: nodeID, cluster: cluster, canBeCompleted: canBeCompleted)
            queue = try Self.open(path)
            wipe = StoreWipe(path: path)
            wipe.run(on: queue, report: report)
            backup = StoreBackup(queue, database: path)
            let meta = try queue.read { try StoreMeta($0) }
            scrubber = try StoreScrubber(queue, path: path)
            // The first read opens the log.
            files = OpenFiles(database: path)
            lastGeneration = meta["generation"].flatMap { UInt64($0) } ?? 0
            let isMarked = meta["incomplete"] != nil
            shared.completeness = isMarked ? .incomplete : .complete
            if isMarked, !canBeCompleted {
                throw StoreError.unusable(
                    path: path,
                    problem: "was damaged and is not complete yet; start with --join, so that the other nodes can send the missing rows")
            }
        } catch let error as StoreError {
            throw error
        } catch {
            throw .unusable(path: path, problem: SQLiteInspection.explain(error))
        }
        let thread = Thread { [self] in write() }
        thread.name = "rollcall-store"
        thread.start()
    }

    /// Prepares a file that can be used: creates it, or replaces a damaged file.
    private static func prepare(_ path: String, nodeID: String, cluster: String, canBeCompleted: Bool) throws -> StoreSalvage? {
        let salvage = SQLiteSalvage(path: path)
        try salvage.resume(time: Clock.now().wall)
        guard FileManager.default.fileExists(atPath: path) else {
            if FileManager.default.fileExists(atPath: path + "-wal") {
                let problem = "is missing, but its log \(path)-wal exists"
                guard canBeCompleted else {
                    throw StoreError.unusable(path: path, problem: "\(problem); restore a backup or delete the log")
                }
                let damage = SQLiteInspection.Damage(problem: problem)
                return try salvage.salvage(damage, nodeID: nodeID, cluster: cluster, time: Clock.now().wall)
            }
            try create(path, nodeID: nodeID, cluster: cluster)
            return nil
        }
        guard let damage = try SQLiteInspection.damage(path: path, nodeID: nodeID, cluster: cluster) else { return nil }
        guard canBeCompleted else {
            throw StoreError.unusable(
                path: path,
                problem:
                    "\(damage.problem); restore a backup, or start with --join: the node then moves the file aside and copies the rows from the other nodes"
            )
        }
        return try salvage.salvage(damage, nodeID: nodeID, cluster: cluster, time: Clock.now().wall)
    }

    private static func open(_ path: String) throws -> DatabaseQueue {
        var configuration = GRDB.Configuration()
        configuration.busyMode = .timeout(1)
        configuration.prepareDatabase { database in
            try database.execute(sql: "PRAGMA locking_mode = EXCLUSIVE")
            try database.execute(sql: "PRAGMA journal_mode = WAL")
            try database.execute(sql: "PRAGMA synchronous = FULL")
            // Deleted and replaced rows leave no bytes in free pages: users may have been deleted.
            try database.execute(sql: "PRAGMA secure_delete = ON")
            // In KiB: the inner pages of the tree of some million rows, which every write reads.
            try database.execute(sql: "PRAGMA cache_size = -16384")
        }
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        let isOld = try queue.read { try Int.fetchOne($0, sql: "PRAGMA user_version") } != RowTable.schemaVersion
        if isOld {
            try queue.write { try RowTable.migrate($0) }
            // An older binary reads the version in the header of the file.
            _ = try queue.writeWithoutTransaction { try $0.checkpoint(.truncate) }
        }
        return queue
    }

    /// Creates the file under another name and without a write-ahead log, then renames it.
    ///
    /// If the node is killed meanwhile, a file with the final name has a complete header.
    private static func create(_ path: String, nodeID: String, cluster: String) throws {
        try draft(path + "-new", nodeID: nodeID, cluster: cluster).close()
        try FileManager.default.moveItem(atPath: path + "-new", toPath: path)
    }

    /// Creates a file without rows. Deletes a file of this name that an earlier attempt left.
    static func draft(_ path: String, nodeID: String, cluster: String) throws -> DatabaseQueue {
        for leftover in [path, path + "-journal"] where FileManager.default.fileExists(atPath: leftover) {
            try FileManager.default.removeItem(atPath: leftover)
        }
        try PrivateFiles.make(path)
        let queue = try DatabaseQueue(path: path)
        try queue.write { database in
            try RowTable.create(in: database)
            try StoreMeta.set("node", nodeID, in: database)
            try StoreMeta.set("cluster", cluster, in: database)
        }
        return queue
    }

    public func load(_ body: (PresenceWire.Row) throws -> Void) throws {
        try queue.read { database in
            let sql = RowTable.select(version: RowTable.schemaVersion) + " ORDER BY slot, user, kind, key"
            let rows = try GRDB.Row.fetchCursor(database, sql: sql)
            while let row = try rows.next() {
                guard let row = RowTable.read(row) else {
                    throw StoreError.unusable(path: path, problem: "a row was damaged while the node started; start it again")
                }
                try body(row)
            }
        }
    }

    public func persist(_ rows: [PresenceWire.Row], isUrgent: Bool, completion: @escaping @Sendable (Result<Void, StoreError>) -> Void) {
        let parts = isUrgent ? [Pending(rows: rows[...], isUrgent: true, completion: completion)] : Self.parts(of: rows, completion)
        if let refusal = append(parts) { completion(.failure(refusal)) }
    }

    /// Splits bulk rows into parts of at most one group. When the last part is on disk, the others are as well.
    private static func parts(
        of rows: [PresenceWire.Row], _ completion: @escaping @Sendable (Result<Void, StoreError>) -> Void
    ) -> [Pending] {
        var parts: [Pending] = []
        var rest = rows[...]
        repeat {
            let part = rest.prefix(rowsInBulkOfGroup)
            rest = rest.dropFirst(part.count)
            parts.append(Pending(rows: part, isUrgent: false, completion: rest.isEmpty ? completion : nil))
        } while !rest.isEmpty
        return parts
    }

    /// Adds parts to the queues. Returns why they are refused; nil if they are accepted.
    private func append(_ parts: [Pending]) -> StoreError? {
        let rowsCount = parts.reduce(0) { $0 + $1.rowsCount }
        state.lock()
        defer { unlockForWork() }
        if shared.isClosed { return .closed }
        let rowsHeld = shared.statistics.rowsWaiting + shared.statistics.rowsUnwritten
        guard rowsHeld + rowsCount <= Self.rowsWaitingMax else { return .overloaded }
        if !shared.slotsToDelete.isEmpty {
            shared.deleteFirst(shared.slotsToDelete.intersection(parts.lazy.flatMap(\.rows).filter(\.kind.isOfUser).map(\.user.slot)))
        }
        for part in parts { if part.isUrgent { shared.urgent.append(part) } else { shared.bulk.append(part) } }
        shared.count(parts, 1)
        return nil
    }

    /// Releases the lock and wakes the writer if there is work. A closed store keeps the value that ``close()`` waits for.
    private func unlockForWork() {
        if shared.isClosed { state.unlock() } else { state.unlock(withValue: shared.isIdle ? .idle : .busy) }
    }

    public func deleteSlots(_ slots: [Slot]) {
        let slots = Set(slots)
        state.lock()
        for index in shared.bulk.indices {
            shared.count([shared.bulk[index]], -1)
            shared.bulk[index].rows.removeAll { $0.kind.isOfUser && slots.contains($0.user.slot) }
            shared.count([shared.bulk[index]], 1)
        }
        shared.slotsToDelete.formUnion(slots)
        unlockForWork()
    }

    public func deleteRows(_ rows: [PresenceWire.Row]) {
        var rest = rows[...]
        while !rest.isEmpty {
            let part = Pending(rows: [], isUrgent: false, completion: nil, deletedRows: rest.prefix(Self.rowsInBulkOfGroup))
            guard append([part]) == nil else { return }  // The rows stay until the next start.
            rest = rest.dropFirst(Self.rowsInBulkOfGroup)
        }
    }

    public func truncateLog() {
        // Bulk, so that it follows all rows that wait.
        _ = append([Pending(rows: [], isUrgent: false, completion: nil, truncatesLog: true)])
    }

    public var isIncomplete: Bool {
        state.lock()
        defer { state.unlock() }
        return shared.completeness != .complete
    }

    public var problem: String? { files.problem }

    public func keep(generation: UInt64) throws {
        try queue.write { try StoreMeta.set("generation", String(generation), in: $0) }
    }

    public func complete() {
        // The rows of the other nodes are bulk rows, so this part is written after them.
        _ = append([Pending(rows: [], isUrgent: false, completion: nil, completes: true)])
    }

    public func close() {
        state.lock()
        let wasClosed = shared.isClosed
        shared.isClosed = true
        if wasClosed { return state.unlock() }
        state.unlock(withValue: .busy)
        state.lock(whenValue: .ended)
        state.unlock(withValue: .ended)
        scrubber.end()
        backup.end()
        do { try queue.close() } catch {}  // All rows are in the file or its log.
        folder.release()
    }

    public func backUp(
        isWanted: @escaping @Sendable () -> Bool, _ completion: @escaping @Sendable (Result<StoreBackup.Copy, StoreError>) -> Void
    ) throws(StoreError) {
        try backup.start(isWanted: isWanted, completion)
    }

    public func scrub(_ report: @escaping @Sendable (StoreDamage) -> Void) { scrubber.start(report) }

    /// See ``StoreScrubber/step()``.
    func scrubStep() -> [StoreDamage] { scrubber.step() }

    public func repair(_ damage: StoreDamage, with rows: [PresenceWire.Row]) {
        _ = append([Pending(rows: [], isUrgent: true, completion: nil, repair: (damage.keys, rows))])
    }

    /// Deletes the file if this start created it. Call after ``close()``, and only if no row was acknowledged.
    func removeNew() throws {
        guard isNew, salvage == nil else { return }
        for file in [path, path + "-wal", path + "-shm"] where FileManager.default.fileExists(atPath: file) {
            try FileManager.default.removeItem(atPath: file)
        }
    }

    public var statistics: StoreStatistics {
        state.lock()
        defer { state.unlock() }
        var statistics = shared.statistics
        statistics.slotsDiscarding = shared.slotsToDelete.count
        scrubber.add(to: &statistics)
        return statistics
    }

    // MARK: The writer's thread

    private func write() {
        while true {
            lockForWork()
            let group = shared.nextGroup()
            if shared.completeness == .incomplete, group.contains(where: \.completes) { shared.completeness = .completing }
            let isLast = shared.isClosed && group.isEmpty
            state.unlock(withValue: isLast ? .ended : shared.isClosed || !shared.isIdle ? .busy : .idle)
            if isLast {
                do { try catchUp() } catch { return }  // The disk still fails. Replicas have the rows, if there are any.
                return
            }
            let rowsCount = group.reduce(0) { $0 + $1.rows.count }
            let start = DispatchTime.now().uptimeNanoseconds
            let result = commit(group)
            let nanoseconds = DispatchTime.now().uptimeNanoseconds - start
            let seconds = Double(nanoseconds) / 1e9
            state.lock()
            shared.count(group, -1)
            if !group.allSatisfy(\.isUrgent) { restFromBulk(taking: nanoseconds) }
            shared.statistics.commitSeconds.observe(seconds: seconds)
            shared.statistics.rowsUnwritten = unwritten.count
            if case .success = result {
                shared.statistics.commits += 1
                shared.statistics.rows += UInt64(rowsCount)
            } else {
                shared.statistics.failures += 1
            }
            state.unlock()
            for pending in group { pending.completion?(result) }
            slim(after: rowsCount, at: start + nanoseconds)
        }
    }

    /// Releases SQLite's cache, up to 16 MiB, while few rows are written.
    private func slim(after rowsCount: Int, at now: UInt64) {
        guard let recent, now >= recent.since + Self.calmNanoseconds else {
            return self.recent = ((self.recent?.rowsCount ?? 0) + rowsCount, self.recent?.since ?? now)
        }
        self.recent = recent.rowsCount + rowsCount == 0 ? nil : (0, now)
        guard recent.rowsCount + rowsCount <= Self.rowsInCalmMax else { return }
        do { try queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA shrink_memory") } } catch { return }  // The cache stays.
    }

    /// Bytes of SQLite's cache.
    var cachedBytes: Int {
        get throws {
            try queue.read { database in
                var (bytes, most): (CInt, CInt) = (0, 0)
                sqlite3_db_status(database.sqliteConnection, SQLITE_DBSTATUS_CACHE_USED, &bytes, &most, 0)
                return Int(bytes)
            }
        }
    }

    /// Waits for work and returns with the lock held.
    private func lockForWork() {
        let now = DispatchTime.now().uptimeNanoseconds
        if restsUntil > now, state.lock(whenValue: .busy, timeoutSeconds: Double(restsUntil - now) / 1e9) { return }
        if restsUntil > 0 {
            restsUntil = 0
            state.lock()
            shared.isResting = false
            unlockForWork()
        }
        while recent != nil {
            if state.lock(whenValue: .busy, timeoutSeconds: Double(Self.calmNanoseconds) / 1e9) { return }
            slim(after: 0, at: DispatchTime.now().uptimeNanoseconds)
        }
        state.lock(whenValue: .busy)
    }

    /// Starts a pause of bulk rows after a group with bulk rows took `nanoseconds`. Called under the lock.
    private func restFromBulk(taking nanoseconds: UInt64) {
        shared.isResting = !shared.isClosed && shared.statistics.rowsInBulkWaiting <= Self.rowsWaitingAtRestMax
        let rest = min(nanoseconds * Self.restPerGroup, Self.restNanosecondsMax)
        restsUntil = shared.isResting ? DispatchTime.now().uptimeNanoseconds + rest : 0
    }

    private func commit(_ group: [Pending]) -> Result<Void, StoreError> {
        do {
            if let lastFailure, DispatchTime.now().uptimeNanoseconds < lastFailure.at + Self.pauseNanoseconds { throw lastFailure.error }
            try checkFiles()
            try catchUp()
            repair(group)
            try put(group)
            if group.contains(where: \.truncatesLog) {
                wipe.mark()
                scrubber.checkpoint(.truncate)
            }
            try removeMark()
            // Rows in deleted files are on no disk.
            try checkFiles()
            lastFailure = nil
            return .success(())
        } catch {
            let failure = error as? StoreError ?? .failed(SQLiteInspection.explain(error))
            for pending in group {
                keep(deletedSlots: pending.deletedSlots)
                for row in pending.rows { keep(row, isUrgent: pending.isUrgent) }
            }
            if !(error is StoreError) { rest(after: failure) }
            return .failure(failure)
        }
    }

    private func checkFiles() throws(StoreError) {
        if let problem = files.look() { throw .failed(problem) }
    }

    private func put(_ group: [Pending]) throws {
        guard group.contains(where: { !$0.isEmpty }) else { return }
        try queue.write { database in
            for pending in group {
                try RowTable.deleteSlots(pending.deletedSlots, in: database)
                try RowTable.deleteRows(pending.deletedRows, in: database)
                let statement = try database.cachedStatement(sql: pending.isUrgent ? RowTable.upsert : RowTable.upsertOverOlder)
                for row in pending.rows { try statement.execute(arguments: RowTable.arguments(row)) }
            }
        }
        if scrubber.framesCount >= Self.framesMax { scrubber.checkpoint(.passive) }
    }

    /// Writes rows over damaged ones, each time in a transaction of its own. A repair that fails fails no other write.
    private func repair(_ group: [Pending]) {
        for case let repair? in group.map(\.repair) {
            do {
                try queue.write { database in
                    try RowTable.deleteDamagedRows(repair.keys, in: database)
                    let statement = try database.cachedStatement(sql: RowTable.upsert)
                    for row in repair.rows { try statement.execute(arguments: RowTable.arguments(row)) }
                }
            } catch { continue }  // More than rows is damaged. The next start puts the file aside.
        }
    }

    // MARK: A disk that takes nothing

    private func keep(_ row: PresenceWire.Row, isUrgent: Bool) {
        let key = Key(user: row.user, kind: row.kind, key: row.key)
        if let kept = unwritten[key], kept.version > row.version || (kept.version == row.version && !isUrgent) { return }
        unwritten[key] = row
    }

    private func keep(deletedSlots slots: Set<Slot>) {
        guard !slots.isEmpty else { return }
        unwritten = unwritten.filter { !$0.key.kind.isOfUser || !slots.contains($0.key.user.slot) }
        slotsUndeleted.formUnion(slots)
    }

    /// Writes the rows of failed writes. Writing a row twice changes nothing.
    private func catchUp() throws {
        while !slotsUndeleted.isEmpty {
            let slots = Set(slotsUndeleted.prefix(Self.slotsDeletedAtOnce))
            try queue.write { try RowTable.deleteSlots(slots, in: $0) }
            slotsUndeleted.subtract(slots)
        }
        while !unwritten.isEmpty {
            let keys = Array(unwritten.keys.prefix(Self.rowsRetriedAtOnce))
            let rows = keys.compactMap { unwritten[$0] }
            try put([Pending(rows: rows[...], isUrgent: true, completion: nil)])
            for key in keys { unwritten[key] = nil }
        }
    }

    /// Pauses writes after a failure, and restarts the log from its beginning.
    ///
    /// A log that was copied into the database is overwritten and needs no more space. If that fails too, only an operator can free space.
    private func rest(after failure: StoreError) {
        lastFailure = (failure, DispatchTime.now().uptimeNanoseconds)
        scrubber.checkpoint(.restart)
    }

    private func removeMark() throws {
        state.lock()
        let isCompleting = shared.completeness == .completing
        state.unlock()
        guard isCompleting else { return }
        try queue.write { try StoreMeta.set("incomplete", nil, in: $0) }
        state.lock()
        shared.completeness = .complete
        state.unlock()
    }
}
