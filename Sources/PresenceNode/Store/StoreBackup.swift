import CSQLite
import Foundation
import GRDB

/// Copies the database of a running node, some pages at a time (SQLite's online backup). The writer goes on between two steps, and a page
/// that it changes is copied again. So the copy has all rows that were on disk when it ended.
public final class StoreBackup: @unchecked Sendable {
    /// A copy. Its file has no name any more, so that nothing is left of it if the node dies.
    public final class Copy: Sendable {
        private let descriptor: Int32

        fileprivate init(_ descriptor: Int32) { self.descriptor = descriptor }

        /// Reads up to `count` bytes from where the last read has ended; none at the end.
        func read(upTo count: Int) throws -> [UInt8] {
            var failure: Int32 = 0
            let bytes = [UInt8](unsafeUninitializedCapacity: count) { memory, filled in
                let found = Foundation.read(descriptor, memory.baseAddress, count)
                (filled, failure) = found < 0 ? (0, errno) : (found, 0)
            }
            guard failure == 0 else { throw StoreError.failed("the copy cannot be read: \(String(cString: strerror(failure)))") }
            return bytes
        }

        deinit { close(descriptor) }
    }

    /// Pages of a step: 1 MiB, which takes some milliseconds.
    private static let pagesAtOnce: Int32 = 256
    /// Free bytes that are left to the node, beside the copy.
    private static let reserveBytes: UInt64 = 64 << 20
    /// The pause between two steps, in which the writer has the database for itself.
    private static let pause: TimeInterval = 0.002

    private let queue: DatabaseQueue
    private let path: String
    /// Guards the next two.
    private let condition = NSCondition()
    private var isRunning = false
    private var isEnded = false

    /// - Parameter database: the path of the database.
    init(_ queue: DatabaseQueue, database: String) {
        self.queue = queue
        path = database + "-backup"
        // A node that died has left it.
        unlink(path)
    }

    /// Makes a copy on a thread of its own. Throws while another one is made, if the disk has too little room, and once the store closes.
    ///
    /// - Parameter isWanted: asked between two steps. A copy that nobody wants any more fails.
    func start(
        isWanted: @escaping @Sendable () -> Bool, _ completion: @escaping @Sendable (Result<Copy, StoreError>) -> Void
    ) throws(StoreError) {
        try checkSpace()
        condition.lock()
        let refusal: StoreError? = isEnded ? .closed : isRunning ? .failed("another backup of this node is being made") : nil
        if refusal == nil { isRunning = true }
        condition.unlock()
        if let refusal { throw refusal }
        let thread = Thread { [self] in
            let result: Result<Copy, StoreError>
            do { result = .success(try copy(isWanted)) } catch {
                result = .failure(error as? StoreError ?? .failed("the copy \(SQLiteInspection.explain(error))"))
            }
            unlink(path)
            condition.lock()
            isRunning = false
            condition.broadcast()
            condition.unlock()
            completion(result)
        }
        thread.name = "rollcall-backup"
        thread.start()
    }

    private func checkSpace() throws(StoreError) {
        let database = path.dropLast("-backup".count)
        var (status, needed) = (stat(), Self.reserveBytes)
        for file in [String(database), database + "-wal"] where stat(file, &status) == 0 { needed += UInt64(status.st_size) }
        var disk = statvfs()
        guard statvfs(String(database), &disk) == 0 else { return }
        let free = UInt64(disk.f_bavail) * UInt64(disk.f_frsize)
        guard free < needed else { return }
        throw .failed("the copy needs \(needed) bytes on the disk of the data directory, and \(free) are free")
    }

    /// Ends a copy that is being made, and makes no other one.
    func end() {
        condition.lock()
        isEnded = true
        while isRunning { condition.wait() }
        condition.unlock()
    }

    private func copy(_ isWanted: () -> Bool) throws -> Copy {
        try PrivateFiles.make(path)
        var opened: OpaquePointer?
        let status = sqlite3_open_v2(path, &opened, SQLITE_OPEN_READWRITE, nil)
        defer { sqlite3_close(opened) }
        guard status == SQLITE_OK, let target = opened else { throw DatabaseError(resultCode: ResultCode(rawValue: status)) }
        // Nobody uses the copy if the node dies meanwhile.
        sqlite3_exec(target, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF", nil, nil, nil)
        let begun = queue.writeWithoutTransaction { sqlite3_backup_init(target, "main", $0.sqliteConnection, "main") }
        guard let begun else { throw DatabaseError(resultCode: ResultCode(rawValue: sqlite3_errcode(target))) }
        var step = SQLITE_OK
        while step == SQLITE_OK, mayGoOn, isWanted() {
            step = queue.writeWithoutTransaction { _ in sqlite3_backup_step(begun, Self.pagesAtOnce) }
            if step == SQLITE_OK { Thread.sleep(forTimeInterval: Self.pause) }
        }
        _ = queue.writeWithoutTransaction { _ in sqlite3_backup_finish(begun) }
        guard step != SQLITE_OK else { throw StoreError.closed }
        guard step == SQLITE_DONE else { throw DatabaseError(resultCode: ResultCode(rawValue: step)) }
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw StoreError.failed("\(path): \(String(cString: strerror(errno)))") }
        return Copy(descriptor)
    }

    private var mayGoOn: Bool {
        condition.lock()
        defer { condition.unlock() }
        return !isEnded
    }
}
