import Foundation
import GRDB
import NIOConcurrencyHelpers

/// Runs the scrub of an open database on a thread of its own, and makes the checkpoints that the scrub must know of.
final class StoreScrubber: Sendable {
    private let queue: DatabaseQueue
    /// Used only within the queue.
    private nonisolated(unsafe) var scrub: StoreScrub
    private nonisolated(unsafe) let log = LogLength()
    /// True once the scrub is to end.
    private let isEnded = ConditionLock(value: false)
    private let counts = NIOLockedValueBox((passes: UInt64(0), StoreScrub.Counters()))

    /// - Parameter queue: the one connection to the database.
    init(_ queue: DatabaseQueue, path: String) throws {
        self.queue = queue
        let pageBytes = try queue.read { try Int.fetchOne($0, sql: "PRAGMA page_size") } ?? 4_096
        scrub = try StoreScrub(path: path, pageBytes: pageBytes)
        queue.writeWithoutTransaction { [log] in log.follow($0) }
    }

    /// The pages of the write-ahead log after the last commit.
    var framesCount: Int { log.framesCount }

    /// Writes the log to the file. The scrub then takes its pages as unknown.
    func checkpoint(_ mode: Database.CheckpointMode) {
        do {
            try queue.writeWithoutTransaction { database in
                try scrub.forgetPages(ofFrames: log.framesCount)
                _ = try database.checkpoint(mode)
            }
        } catch { return }  // The log grows, and the next write tries again.
    }

    /// Begins the thread.
    func start(_ report: @escaping @Sendable (StoreDamage) -> Void) {
        let thread = Thread { [self] in
            while !isEnded.lock(whenValue: true, timeoutSeconds: StoreScrub.interval) { for damage in step() { report(damage) } }
            isEnded.unlock()
        }
        thread.name = "rollcall-scrub"
        thread.start()
    }

    /// Compares the next rows and pages with their checksums. Returns the damage that is new.
    func step() -> [StoreDamage] {
        do {
            // A transaction would begin with the first page, which may be damaged.
            return try queue.writeWithoutTransaction { database in
                let damage = try scrub.step(database)
                counts.withLockedValue { $0 = (scrub.passes, scrub.counters) }
                return damage
            }
        } catch { return [] }  // The store is closed, or the disk cannot be read now. The next step tries again.
    }

    /// Ends the thread after its step.
    func end() {
        isEnded.lock()
        isEnded.unlock(withValue: true)
    }

    func add(to statistics: inout StoreStatistics) {
        let (passes, counters) = counts.withLockedValue { $0 }
        statistics.scrubs = passes
        (statistics.scrubbedRowsDamaged, statistics.scrubbedPagesDamaged) = (counters.damagedRows, counters.damagedPages)
    }
}
