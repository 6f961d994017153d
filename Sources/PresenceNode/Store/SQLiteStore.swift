import CSQLite
import Foundation
import GRDB
import NIOConcurrencyHelpers
import NIOCore
import PresenceWire

/// Durable rows in SQLite, WAL and `synchronous=FULL`, through GRDB. One writer on its own thread takes all that is urgent into one
/// transaction (group commit): a synchronous write takes 0.3 to 4.5 ms, so rows that come together go together (design §6). What is not
/// goes along a few rows at a time, in every other group at most: what is urgent waits for one such group and no longer.
public final class SQLiteStore: Store {
    /// Rows that may wait for the disk; beyond it a write is refused with ``StoreError/overloaded``.
    public static let rowsWaitingMax = 1_000_000
    /// The database in a node's folder; its log and what is put aside have names that begin with this one.
    static let fileName = "rollcall.sqlite"
    /// `PRAGMA application_id`: "Roll".
    static let applicationID = 0x526F_6C6C
    /// Rows of a group that are not urgent: some milliseconds of writing.
    static let rowsInBulkOfGroup = 256
    /// Slots of a group that are discarded: of a million users some 250.
    static let slotsDiscardedAtOnce = 16
    /// After what is not urgent the writer rests so many times as long as that took: when a ring changes all nodes have much to write, and
    /// users wait for what is decided meanwhile.
    static let restPerGroup: UInt64 = 3
    /// It does not rest longer, however slow the disk is.
    static let restNanosecondsMax: UInt64 = 100_000_000
    /// When so many rows wait it does not rest: they come faster than it writes.
    static let rowsWaitingAtRestMax = 50_000

    /// Rows of one transaction that catches up with what failed: few, so that a little room is enough to get on.
    private static let rowsRetriedAtOnce = 1_000
    /// When no more than ``rowsInCalmMax`` rows were written in so long, SQLite's pages are given back.
    private static let calmNanoseconds: UInt64 = 2_000_000_000
    /// A writer with so few rows does as well with the pages that the kernel holds.
    private static let rowsInCalmMax = 500
    /// After a failure the disk is left alone for so long, and what comes fails at once.
    private static let pauseNanoseconds: UInt64 = 200_000_000

    private struct Key: Hashable {
        let user: UserID
        let kind: PresenceWire.Row.Kind
        let key: String
    }

    private struct Pending {
        var rows: ArraySlice<PresenceWire.Row>
        let isUrgent: Bool
        let completion: (@Sendable (Result<Void, StoreError>) -> Void)?
        /// Once it is on disk nothing is missing.
        var completes = false
        /// What is there of these is removed before the rows are written.
        var discarded: Set<Slot> = []
        /// Removed where they are still of these versions; the rows above are of other ones.
        var forgotten: ArraySlice<PresenceWire.Row> = []

        var isEmpty: Bool { rows.isEmpty && discarded.isEmpty && forgotten.isEmpty }
        /// Rows to write or to remove.
        var rowsCount: Int { rows.count + forgotten.count }
    }

    /// What the writer waits for.
    private enum Work { case idle, busy, ended }

    /// Touched under the lock only.
    private struct State {
        var urgent: [Pending] = []
        var bulk: CircularBuffer<Pending> = []
        /// Given to ``discard(_:)`` and not yet to the writer; nothing that was given later and waits is of their users.
        var discarding: Set<Slot> = []
        /// The writer rests: what is not urgent waits.
        var isResting = false
        var isClosed = false
        var statistics = StoreStatistics()
        var isIncomplete = false
        /// The mark is to be removed with the next write.
        var isCompleting = false

        /// Nothing is to be written now.
        var isIdle: Bool { urgent.isEmpty && (isResting || hasNothingInBulk) }
        private var hasNothingInBulk: Bool { bulk.isEmpty && discarding.isEmpty }

        /// These of the slots that are to be discarded are so before anything that comes now.
        mutating func discardFirst(_ slots: Set<Slot>) {
            guard !slots.isEmpty else { return }
            discarding.subtract(slots)
            urgent.append(Pending(rows: [], isUrgent: true, completion: nil, discarded: slots))
        }

        mutating func count(_ parts: [Pending], _ sign: Int) {
            for part in parts {
                statistics.rowsWaiting += sign * part.rowsCount
                if !part.isUrgent { statistics.rowsInBulkWaiting += sign * part.rowsCount }
            }
        }

        /// What is written next. Bulk never goes without all that is urgent: so nothing older than it is left.
        mutating func nextGroup() -> [Pending] {
            var group = urgent
            urgent = []
            guard !isResting || isClosed else { return group }
            var room = SQLiteStore.rowsInBulkOfGroup
            while let next = bulk.first, next.rowsCount <= room {
                room -= next.rowsCount
                group.append(bulk.removeFirst())
            }
            if !isClosed, !discarding.isEmpty {
                let slots = Set(discarding.prefix(SQLiteStore.slotsDiscardedAtOnce))
                discarding.subtract(slots)
                group.append(Pending(rows: [], isUrgent: false, completion: nil, discarded: slots))
            }
            return group
        }
    }

    public let salvage: StoreSalvage?
    public let lastGeneration: UInt64
    private let queue: DatabaseQueue
    private let state = ConditionLock(value: Work.idle)
    private nonisolated(unsafe) var shared = State()
    /// What failed, the newest of each key; touched on the writer's thread only.
    private nonisolated(unsafe) var unwritten: [Key: PresenceWire.Row] = [:]
    /// What was to be discarded and could not be; touched on the writer's thread only.
    private nonisolated(unsafe) var undiscarded: Set<Slot> = []
    private nonisolated(unsafe) var lastFailure: (error: StoreError, at: UInt64)?
    /// When the writer goes on with what is not urgent; touched on its thread only.
    private nonisolated(unsafe) var restsUntil: UInt64 = 0
    /// Rows that were written since a moment, nil after a time without any; touched on the writer's thread only.
    private nonisolated(unsafe) var recent: (rowsCount: Int, since: UInt64)?
    private let path: String
    private let files: OpenFiles
    /// This start has made the file.
    private let isNew: Bool
    /// Holds the lock on the folder.
    private let folder: FolderLock

    /// Opens, or makes, `rollcall.sqlite` in `directory`. A file that cannot be used is left as it was.
    ///
    /// - Parameter canBeCompleted: there are other nodes that may have what is missing: a damaged file is put aside, what can be read of it
    ///   goes to a new one, and ``isIncomplete`` says so.
    public init(directory: String, nodeID: String, cluster: String, canBeCompleted: Bool = false) throws(StoreError) {
        let path = "\(directory)/\(Self.fileName)"
        self.path = path
        try PrivateFiles.makeFolder(directory, of: Self.fileName)
        folder = try FolderLock(directory, of: path)
        isNew = !FileManager.default.fileExists(atPath: path)
        do {
            salvage = try Self.prepare(path, nodeID: nodeID, cluster: cluster, canBeCompleted: canBeCompleted)
            queue = try Self.open(path)
            let generation = try queue.read { try String.fetchOne($0, sql: "SELECT value FROM meta WHERE name = 'generation'") }
            // The first read has opened the log.
            files = OpenFiles(database: path)
            lastGeneration = generation.flatMap { UInt64($0) } ?? 0
            shared.isIncomplete = try queue.read { try Row.fetchOne($0, sql: "SELECT 1 FROM meta WHERE name = 'incomplete'") != nil }
            if shared.isIncomplete, !canBeCompleted {
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

    /// Sees to it that there is a file that can be used.
    private static func prepare(_ path: String, nodeID: String, cluster: String, canBeCompleted: Bool) throws -> StoreSalvage? {
        let salvage = SQLiteSalvage(path: path)
        try salvage.resume(time: Clock.now().wall)
        guard FileManager.default.fileExists(atPath: path) else {
            guard !FileManager.default.fileExists(atPath: path + "-wal") else {
                throw StoreError.unusable(
                    path: path, problem: "is missing, but its log \(path)-wal exists; restore a backup or delete the log")
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
            // In KiB: the pages above the leaves of some million rows, which every write goes through.
            try database.execute(sql: "PRAGMA cache_size = -16384")
        }
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        let isOld = try queue.read { try Int.fetchOne($0, sql: "PRAGMA user_version") } != RowTable.schemaVersion
        if isOld {
            try queue.write { try RowTable.migrate($0) }
            // The version in the file's head is what an older binary looks at.
            _ = try queue.writeWithoutTransaction { try $0.checkpoint(.truncate) }
        }
        return queue
    }

    /// Makes the file under another name and without a write-ahead log, then gives it its own: whatever kills the node, a file that is
    /// there says in its header what it is.
    private static func create(_ path: String, nodeID: String, cluster: String) throws {
        try draft(path + "-new", nodeID: nodeID, cluster: cluster).close()
        try FileManager.default.moveItem(atPath: path + "-new", toPath: path)
    }

    /// A new file without rows; one of this name that an earlier try left is removed.
    static func draft(_ path: String, nodeID: String, cluster: String) throws -> DatabaseQueue {
        for leftover in [path, path + "-journal"] where FileManager.default.fileExists(atPath: leftover) {
            try FileManager.default.removeItem(atPath: leftover)
        }
        try PrivateFiles.make(path)
        let queue = try DatabaseQueue(path: path)
        try queue.write { database in
            try RowTable.create(in: database)
            try database.execute(sql: "INSERT INTO meta VALUES ('node', ?), ('cluster', ?)", arguments: [nodeID, cluster])
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

    /// Rows that are not urgent, in parts of a group each: when the last one is on disk the others are, too.
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

    /// Returns why they are not taken; nil if they are.
    private func append(_ parts: [Pending]) -> StoreError? {
        let rowsCount = parts.reduce(0) { $0 + $1.rowsCount }
        state.lock()
        defer { unlockForWork() }
        if shared.isClosed { return .closed }
        let rowsHeld = shared.statistics.rowsWaiting + shared.statistics.rowsUnwritten
        guard rowsHeld + rowsCount <= Self.rowsWaitingMax else { return .overloaded }
        if !shared.discarding.isEmpty {
            shared.discardFirst(shared.discarding.intersection(parts.lazy.flatMap(\.rows).filter(\.kind.isOfUser).map(\.user.slot)))
        }
        for part in parts { if part.isUrgent { shared.urgent.append(part) } else { shared.bulk.append(part) } }
        shared.count(parts, 1)
        return nil
    }

    /// Wakes the writer if there is something to do. A store that is closed has its end as its value, for which ``close()`` waits.
    private func unlockForWork() {
        if shared.isClosed { state.unlock() } else { state.unlock(withValue: shared.isIdle ? .idle : .busy) }
    }

    public func discard(_ slots: [Slot]) {
        let slots = Set(slots)
        state.lock()
        for place in shared.bulk.indices {
            shared.count([shared.bulk[place]], -1)
            shared.bulk[place].rows.removeAll { $0.kind.isOfUser && slots.contains($0.user.slot) }
            shared.count([shared.bulk[place]], 1)
        }
        shared.discarding.formUnion(slots)
        unlockForWork()
    }

    public func forget(_ rows: [PresenceWire.Row]) {
        var rest = rows[...]
        while !rest.isEmpty {
            let part = Pending(rows: [], isUrgent: false, completion: nil, forgotten: rest.prefix(Self.rowsInBulkOfGroup))
            guard append([part]) == nil else { return }  // They stay until the next start.
            rest = rest.dropFirst(Self.rowsInBulkOfGroup)
        }
    }

    public var isIncomplete: Bool {
        state.lock()
        defer { state.unlock() }
        return shared.isIncomplete
    }

    public var problem: String? { files.problem }

    public func keep(generation: UInt64) throws {
        try queue.write { try $0.execute(sql: "INSERT OR REPLACE INTO meta VALUES ('generation', ?)", arguments: [String(generation)]) }
    }

    public func complete() {
        // What the others gave is not urgent, and so this goes behind it.
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
        do { try queue.close() } catch {}  // Everything is in the file or its log.
        folder.release()
    }

    /// Removes the file if this start has made it. Call after ``close()``, and only if nothing was acknowledged.
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
        statistics.slotsDiscarding = shared.discarding.count
        return statistics
    }

    // MARK: The writer's thread

    private func write() {
        while true {
            lockForWork()
            let group = shared.nextGroup()
            if shared.isIncomplete, group.contains(where: \.completes) { shared.isCompleting = true }
            let isLast = shared.isClosed && group.isEmpty
            state.unlock(withValue: isLast ? .ended : shared.isClosed || !shared.isIdle ? .busy : .idle)
            if isLast {
                do { try catchUp() } catch { return }  // The disk still takes nothing; replicas have the rows, if there are any.
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

    /// Gives back the pages that SQLite keeps, up to 16 MiB, once little is written.
    private func slim(after rowsCount: Int, at now: UInt64) {
        guard let recent, now >= recent.since + Self.calmNanoseconds else {
            return self.recent = ((self.recent?.rowsCount ?? 0) + rowsCount, self.recent?.since ?? now)
        }
        self.recent = recent.rowsCount + rowsCount == 0 ? nil : (0, now)
        guard recent.rowsCount + rowsCount <= Self.rowsInCalmMax else { return }
        do { try queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA shrink_memory") } } catch { return }  // It keeps them.
    }

    /// Bytes of pages that SQLite keeps.
    var cachedBytes: Int {
        get throws {
            try queue.read { database in
                var (bytes, most): (CInt, CInt) = (0, 0)
                sqlite3_db_status(database.sqliteConnection, SQLITE_DBSTATUS_CACHE_USED, &bytes, &most, 0)
                return Int(bytes)
            }
        }
    }

    /// Waits for something to write; the lock is held then.
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

    /// What is not urgent has taken so long; under the lock.
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
            try put(group)
            try removeMark()
            // Rows written to files that are gone are on no disk.
            try checkFiles()
            lastFailure = nil
            return .success(())
        } catch {
            let failure = error as? StoreError ?? .failed(SQLiteInspection.explain(error))
            for pending in group {
                keep(discarded: pending.discarded)
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
                try RowTable.discard(pending.discarded, in: database)
                try RowTable.forget(pending.forgotten, in: database)
                let statement = try database.cachedStatement(sql: pending.isUrgent ? RowTable.upsert : RowTable.upsertOverOlder)
                for row in pending.rows { try statement.execute(arguments: RowTable.arguments(row)) }
            }
        }
    }

    // MARK: A disk that takes nothing

    private func keep(_ row: PresenceWire.Row, isUrgent: Bool) {
        let key = Key(user: row.user, kind: row.kind, key: row.key)
        if let kept = unwritten[key], kept.version > row.version || (kept.version == row.version && !isUrgent) { return }
        unwritten[key] = row
    }

    private func keep(discarded slots: Set<Slot>) {
        guard !slots.isEmpty else { return }
        unwritten = unwritten.filter { !$0.key.kind.isOfUser || !slots.contains($0.key.user.slot) }
        undiscarded.formUnion(slots)
    }

    /// Writes what earlier writes left behind. A row that is written twice is the same row.
    private func catchUp() throws {
        while !undiscarded.isEmpty {
            let slots = Set(undiscarded.prefix(Self.slotsDiscardedAtOnce))
            try queue.write { try RowTable.discard(slots, in: $0) }
            undiscarded.subtract(slots)
        }
        while !unwritten.isEmpty {
            let keys = Array(unwritten.keys.prefix(Self.rowsRetriedAtOnce))
            let rows = keys.compactMap { unwritten[$0] }
            try put([Pending(rows: rows[...], isUrgent: true, completion: nil)])
            for key in keys { unwritten[key] = nil }
        }
    }

    /// A log that has been copied into the database is written again from its beginning, which takes no room; where that fails too, only
    /// somebody else can make room.
    private func rest(after failure: StoreError) {
        lastFailure = (failure, DispatchTime.now().uptimeNanoseconds)
        do { _ = try queue.writeWithoutTransaction { try $0.checkpoint(.restart) } } catch { return }
    }

    private func removeMark() throws {
        state.lock()
        let isCompleting = shared.isCompleting
        state.unlock()
        guard isCompleting else { return }
        try queue.write { try $0.execute(sql: "DELETE FROM meta WHERE name = 'incomplete'") }
        state.lock()
        shared.isIncomplete = false
        shared.isCompleting = false
        state.unlock()
    }
}
