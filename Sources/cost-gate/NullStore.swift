import PresenceNode
import PresenceWire

/// A store that reports at once that rows are on disk. The cost of a disk depends on the number of rows that it writes at a time.
final class NullStore: Store {
    func load(_ body: (Row) throws -> Void) throws {}

    func persist(_ rows: [Row], isUrgent: Bool, completion: @escaping @Sendable (Result<Void, StoreError>) -> Void) {
        completion(.success(()))
    }

    func deleteSlots(_ slots: [Slot]) {}
    func truncateLog() {}
    func deleteRows(_ rows: [Row]) {}
    func close() {}
    func keep(generation: UInt64) throws {}
    func complete() {}
    func scrub(_ report: @escaping @Sendable (StoreDamage) -> Void) {}
    func repair(_ damage: StoreDamage, with rows: [Row]) {}

    var statistics: StoreStatistics { StoreStatistics() }
    var salvage: StoreSalvage? { nil }
    var isIncomplete: Bool { false }
    var problem: String? { nil }
    var lastGeneration: UInt64 { 0 }
}
