import Foundation
import PresenceWire
import Testing

@testable import PresenceNode

/// The scrub of an open database: each flipped bit is noticed, and damaged rows are written again.
@Suite final class StoreScrubTests {
    private let folder = NSTemporaryDirectory() + "rollcall-scrub-\(UUID().uuidString)"
    private var file: String { folder + "/n1/rollcall.sqlite" }

    deinit {
        do { try FileManager.default.removeItem(atPath: folder) } catch { return }  // The test made none.
    }

    private func open() throws -> SQLiteStore { try SQLiteStore(directory: folder + "/n1", nodeID: "n1", cluster: "test") }

    private func row(_ number: Int, version: Milliseconds = 1) -> PresenceWire.Row {
        PresenceWire.Row(
            user: UserID(app: "default", id: "user\(number)"), kind: .status, key: "",
            version: Version(milliseconds: version, counter: 0, node: 3),
            value: Array("{\"customStatus\":\"\(String(repeating: "x", count: number % 90))\"}".utf8))
    }

    private func persist(_ rows: [PresenceWire.Row], in store: SQLiteStore) async throws {
        try await withCheckedContinuation { done in store.persist(rows) { done.resume(returning: $0) } }.get()
    }

    /// An open store with rows in its file, and without a log.
    private func filledStore(_ rows: [PresenceWire.Row]) async throws -> SQLiteStore {
        let store = try open()
        try await persist(rows, in: store)
        store.close()
        return try open()
    }

    /// Looks at everything once more. Returns the damage that is new.
    private func pass(_ store: SQLiteStore) -> [StoreDamage] {
        var damage: [StoreDamage] = []
        let passes = store.statistics.scrubs + 2
        for _ in 0..<10_000 where store.statistics.scrubs < passes { damage += store.scrubStep() }
        return damage
    }

    private func flip(_ bit: Int) throws {
        let handle = try FileHandle(forUpdating: URL(fileURLWithPath: file))
        try handle.seek(toOffset: UInt64(bit / 8))
        let byte = try #require(try handle.read(upToCount: 1)?.first)
        try handle.seek(toOffset: UInt64(bit / 8))
        try handle.write(contentsOf: Data([byte ^ 1 << (bit % 8)]))
        try handle.close()
    }

    @Test("A scrub notices each of 200 single flipped bits, wherever they are") func flippedBits() async throws {
        let store = try await filledStore((0..<300).map { row($0) })
        let bits = try Data(contentsOf: URL(fileURLWithPath: file)).count * 8
        #expect(pass(store).isEmpty)
        var random = SplitMix64(seed: 17)
        var noticed = 0
        for _ in 0..<200 {
            let bit = Int.random(in: 0..<bits, using: &random)
            try flip(bit)
            let page = "page \(bit / 8 / 4_096 + 1) "
            if pass(store).contains(where: { $0.problem.hasPrefix(page) }) { noticed += 1 }
            try flip(bit)
            _ = pass(store)
        }
        #expect(noticed == 200)
        store.close()
    }

    @Test("A step of a scrub looks at 256 rows at most, so its rate is bounded") func steps() async throws {
        let store = try await filledStore((0..<2_000).map { row($0) })
        var stepsCount = 0
        while store.statistics.scrubs == 0, stepsCount < 10_000 {
            _ = store.scrubStep()
            stepsCount += 1
        }
        #expect(store.statistics.scrubs == 1 && stepsCount >= 8, "\(stepsCount)")
        store.close()
    }

    @Test("Damaged rows are written again, and the next start finds every row") func repair() async throws {
        let rows = (0..<2_000).map { row($0) }
        let store = try await filledStore(rows)
        let content = try Data(contentsOf: URL(fileURLWithPath: file))
        for number in [89, 179, 989] {
            let range = try #require(content.range(of: Data("user\(number)".utf8)))
            try flip(range.upperBound * 8 + 3)
        }
        let damage = pass(store)
        #expect(store.statistics.scrubbedRowsDamaged >= 1)
        for found in damage {
            guard let slots = found.slots else { continue }
            store.repair(found, with: rows.filter { slots.contains($0.user.slot) })
        }
        try await persist([], in: store)
        _ = pass(store)
        #expect(pass(store).isEmpty)
        store.close()
        let again = try open()
        var loaded: Set<PresenceWire.Row> = []
        try again.load { loaded.insert($0) }
        again.close()
        #expect(loaded == Set(rows))
    }

    @Test("What the store writes itself is no damage") func checkpoints() async throws {
        let store = try await filledStore((0..<500).map { row($0) })
        for version in 2...30 {
            try await persist((0..<500).map { row($0 * 7 % 3_000, version: Milliseconds(version)) }, in: store)
            for _ in 0..<5 { #expect(store.scrubStep().isEmpty) }
        }
        #expect(pass(store).isEmpty && pass(store).isEmpty)
        store.close()
    }
}
