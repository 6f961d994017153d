import Dispatch
import NIOConcurrencyHelpers
import PresenceWire

/// A failure to read or write rows.
public enum StoreError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The data directory cannot be used. The file is unchanged.
    case unusable(path: String, problem: String)
    /// A file is no intact backup.
    case notABackup(path: String, problem: String)
    /// A write failed, for instance because the disk is full. A later write may succeed.
    case failed(String)
    /// Too many rows wait for the disk.
    case overloaded
    /// The store is closed or closing.
    case closed

    public var description: String {
        switch self {
        case .unusable(let path, let problem): "data directory: \(path): \(problem)"
        case .notABackup(let path, let problem): "\(path): \(problem)"
        case .failed(let problem): "write failed: \(problem)"
        case .overloaded: "too many rows wait for the disk"
        case .closed: "the store is closed"
        }
    }
}

/// Counters and queue lengths of a store, for the metrics.
public struct StoreStatistics: Equatable, Sendable {
    public var commits: UInt64 = 0
    public var rows: UInt64 = 0
    public var failures: UInt64 = 0
    public var rowsWaiting = 0
    /// Bulk rows among ``rowsWaiting``. Urgent rows are written first.
    public var rowsInBulkWaiting = 0
    /// Rows of failed writes. The next write that succeeds includes them.
    public var rowsUnwritten = 0
    /// Slots that moved away and may still have rows on disk. At most all slots.
    public var slotsDiscarding = 0
    public var commitSeconds = LatencyHistogram()
    /// Passes of the scrub over all rows and pages that have ended.
    public var scrubs: UInt64 = 0
    /// Damaged rows that scrubs have found.
    public var scrubbedRowsDamaged: UInt64 = 0
    /// Pages with bytes that were never written, which scrubs have found.
    public var scrubbedPagesDamaged: UInt64 = 0

    package init() {}
}

/// The result of replacing a damaged file at the start.
public struct StoreSalvage: Equatable, Sendable {
    /// The damage.
    public let problem: String
    /// The new path of the damaged file.
    public let damagedFile: String
    /// Rows with a correct checksum, which were copied.
    public let rowsKept: Int
    /// Rows with a wrong checksum, and unreadable pages of rows.
    public let rowsDamaged: Int
}

/// The durable rows of a node.
public protocol Store: AnyObject, Sendable {
    /// Reads every row in key order, tombstones included. Called before the first ``persist(_:completion:)``.
    func load(_ body: (Row) throws -> Void) throws
    /// Makes rows durable. A row never replaces a newer row of its key.
    ///
    /// `completion` is called on the store's thread, after the rows are on disk or the write failed. Rows of failed writes are kept and
    /// written before any others. An empty call that succeeds therefore means that no failed row is left.
    ///
    /// - Urgent writes may overtake bulk writes. Otherwise writes complete in submission order.
    /// - An urgent write that succeeds means that all urgent writes before it are on disk.
    /// - A bulk write that succeeds means that all writes before it are on disk. A row of it does not replace a row of the same version.
    ///
    /// - Parameter isUrgent: whether a caller waits for the rows.
    func persist(_ rows: [Row], isUrgent: Bool, completion: @escaping @Sendable (Result<Void, StoreError>) -> Void)
    /// Deletes the rows of the users of these slots, a few at a time, also rows that wait to be written.
    ///
    /// Rows of later calls of ``persist(_:isUrgent:completion:)`` stay. Rows that are left when the store closes are there at the next
    /// start.
    func deleteSlots(_ slots: [Slot])
    /// Deletes these rows if they still have these versions, a few at a time and after the rows that wait to be written.
    ///
    /// Rows that are left when the store closes, or when a write fails, are there at the next start.
    func deleteRows(_ rows: [Row])
    /// Empties the log soon after the rows that wait now, so that it has no rows as they were before. The next start writes all pages anew.
    func truncateLog()
    /// Writes all rows that wait, and closes.
    func close()
    var statistics: StoreStatistics { get }
    /// The result of replacing a damaged file at this start; nil if the file was intact.
    var salvage: StoreSalvage? { get }
    /// Whether rows may be missing that other nodes have, because the file was damaged at this start or an earlier one.
    var isIncomplete: Bool { get }
    /// Why written rows would be lost at a restart, for instance because the files were deleted; nil for no problem.
    ///
    /// Every call fails while there is a problem. The store detects it within half a second, also while nothing is written.
    var problem: String? { get }
    /// The ``PresenceWire/Peer/generation`` of the previous process that used the store; 0 for none.
    var lastGeneration: UInt64 { get }
    /// Stores the generation of this process. Throws if the write fails.
    func keep(generation: UInt64) throws
    /// Compares all rows and pages on disk with their checksums from now on, a few at a time.
    ///
    /// - Parameter report: called on a thread of its own. The caller answers damage of rows with ``repair(_:with:)``.
    func scrub(_ report: @escaping @Sendable (StoreDamage) -> Void)
    /// Writes the rows of damaged slots again, as the node has them in memory.
    func repair(_ damage: StoreDamage, with rows: [Row])
    /// Copies the database while the node goes on. The copy has all rows that are on disk now.
    ///
    /// Throws if no copy can be made now.
    ///
    /// - Parameters:
    ///   - isWanted: asked from time to time on another thread. A copy that nobody wants any more fails.
    ///   - completion: called on another thread.
    func backUp(
        isWanted: @escaping @Sendable () -> Bool, _ completion: @escaping @Sendable (Result<StoreBackup.Copy, StoreError>) -> Void
    ) throws(StoreError)
    /// Marks the database as complete, after all rows that wait are on disk. Called when the other nodes have sent the missing rows.
    func complete()
}

extension Store {
    /// Fails: the rows are in no file.
    public func backUp(
        isWanted: @escaping @Sendable () -> Bool, _ completion: @escaping @Sendable (Result<StoreBackup.Copy, StoreError>) -> Void
    ) throws(StoreError) {
        throw .failed("the rows of this node are in no file")
    }

    /// Makes urgent rows durable.
    public func persist(_ rows: [Row], completion: @escaping @Sendable (Result<Void, StoreError>) -> Void) {
        persist(rows, isUrgent: true, completion: completion)
    }

    /// Makes rows durable and blocks until they are. Used only at the start, and not with a store that completes on the caller's thread.
    public func persistAndWait(_ rows: [Row]) -> Result<Void, StoreError> {
        let outcome = NIOLockedValueBox<Result<Void, StoreError>>(.failure(.closed))
        let done = DispatchSemaphore(value: 0)
        persist(rows) { result in
            outcome.withLockedValue { $0 = result }
            done.signal()
        }
        done.wait()
        return outcome.withLockedValue { $0 }
    }
}
