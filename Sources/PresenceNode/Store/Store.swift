import Dispatch
import NIOConcurrencyHelpers
import PresenceWire

/// Why rows cannot be read or written.
public enum StoreError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The data directory cannot be used; the file was left as it was.
    case unusable(path: String, problem: String)
    /// A write failed, for instance because the disk is full; later ones may succeed.
    case failed(String)
    /// Too much is waiting for the disk.
    case overloaded
    /// The store has been closed, or is about to be.
    case closed

    public var description: String {
        switch self {
        case .unusable(let path, let problem): "data directory: \(path): \(problem)"
        case .failed(let problem): "write failed: \(problem)"
        case .overloaded: "too many rows wait for the disk"
        case .closed: "the store is closed"
        }
    }
}

/// What a store has done, for the metrics.
public struct StoreStatistics: Equatable, Sendable {
    public var commits: UInt64 = 0
    public var rows: UInt64 = 0
    public var failures: UInt64 = 0
    public var rowsWaiting = 0
    /// Those of them that give way to the others.
    public var rowsInBulkWaiting = 0
    /// Rows that a write left behind because it failed; the next one that succeeds takes them.
    public var rowsUnwritten = 0
    /// Slots of which nothing is to be kept, and something may be there yet. At most all of them.
    public var slotsDiscarding = 0
    public var commitSeconds = LatencyHistogram()

    package init() {}
}

/// What was done about a damaged file when it was opened.
public struct StoreSalvage: Equatable, Sendable {
    /// What was wrong with it.
    public let problem: String
    /// Where it was put.
    public let damagedFile: String
    /// Rows whose checksum was right.
    public let rowsKept: Int
    /// Rows found whose checksum was wrong, and pages of rows that could not be read.
    public let rowsDamaged: Int
}

/// Where durable rows live (design §6).
public protocol Store: AnyObject, Sendable {
    /// Reads every row, in key order, tombstones included; before the first ``persist(_:completion:)``.
    func load(_ body: (Row) throws -> Void) throws
    /// Makes rows durable. A row never replaces a newer one of its key. `completion` is called on the store's thread, once they are on
    /// disk or have failed. Rows that failed are kept and written before any others: an empty call that succeeds says that nothing of
    /// them is left behind.
    ///
    /// - Parameter isUrgent: somebody waits for it. Urgent calls are done in their order and pass the others, which are done a few rows at
    ///   a time: one that succeeds says that all urgent calls before it are on disk. One that is not urgent gives way, and says when it
    ///   succeeds that all calls before it are on disk. A row of it does not replace one of the same version either, which may have come
    ///   later.
    func persist(_ rows: [Row], isUrgent: Bool, completion: @escaping @Sendable (Result<Void, StoreError>) -> Void)
    /// Removes what there is of the users of these slots, little by little. What waits to be written of them goes too; what is given to
    /// ``persist(_:isUrgent:completion:)`` later stays. What is left when the store is closed is there at the next start.
    func discard(_ slots: [Slot])
    /// Removes these rows where they are still of these versions, little by little and behind what is written. What is left when the store
    /// is closed, or when the disk takes nothing, is there at the next start.
    func forget(_ rows: [Row])
    /// Writes what waits, and closes.
    func close()
    var statistics: StoreStatistics { get }
    /// What was done about a damaged file at this start.
    var salvage: StoreSalvage? { get }
    /// Rows may be missing that other nodes have: those of a damaged file, at this start or an earlier one.
    var isIncomplete: Bool { get }
    /// Why nothing that is written would be there after a restart, for instance because somebody deleted the files: then every call fails.
    /// Nil when all is well; noticed within half a second though nothing is written.
    var problem: String? { get }
    /// The ``PresenceWire/Peer/generation`` of the process that used the store before; 0 if there was none.
    var lastGeneration: UInt64 { get }
    /// This process goes by `generation`. Throws when the disk takes nothing.
    func keep(generation: UInt64) throws
    /// The other nodes have given what was missing: so it is once all that they gave is on disk.
    func complete()
}

extension Store {
    /// Makes rows durable for which somebody waits.
    public func persist(_ rows: [Row], completion: @escaping @Sendable (Result<Void, StoreError>) -> Void) {
        persist(rows, isUrgent: true, completion: completion)
    }

    /// Makes rows durable while the caller waits: for the start, before anything else is done. Not for a store that completes on the
    /// caller's thread.
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
