import Foundation
import NIOCore
import NIOPosix
import PresenceWire
import Synchronization
import Testing

@testable import PresenceNode

@Suite final class SQLiteStoreTests {
    /// Removed when the test ends, however it ends.
    private let folder = NSTemporaryDirectory() + "rollcall-store-\(UUID().uuidString)"
    var directory: String { folder + "/n1" }
    var file: String { directory + "/rollcall.sqlite" }

    deinit {
        do { try FileManager.default.removeItem(atPath: folder) } catch { return }  // The test made none.
    }

    private func open(node: String = "n1", cluster: String = "test") throws -> SQLiteStore {
        try SQLiteStore(directory: directory, nodeID: node, cluster: cluster)
    }

    private func row(_ user: String, version: Milliseconds, value: String?) -> Row {
        Row(
            user: UserID(app: "default", id: user), kind: .status, key: "", version: Version(milliseconds: version, counter: 0, node: 3),
            value: value.map { Array($0.utf8) }, expiresAt: 9)
    }

    private func persist(_ rows: [Row], in store: SQLiteStore) async -> Result<Void, StoreError> {
        await withCheckedContinuation { done in store.persist(rows) { done.resume(returning: $0) } }
    }

    private func rows(in store: SQLiteStore) throws -> [Row] {
        var rows: [Row] = []
        try store.load { rows.append($0) }
        return rows
    }

    @Test("Rows survive, and an older version does not replace a newer one") func versions() async throws {
        var store = try open()
        try await persist([row("ann", version: 2, value: "two"), row("bob", version: 1, value: nil)], in: store).get()
        try await persist([row("ann", version: 1, value: "one")], in: store).get()
        store.close()
        store = try open()
        let found = try rows(in: store).sorted { $0.user < $1.user }
        #expect(found == [row("ann", version: 2, value: "two"), row("bob", version: 1, value: nil)])
        store.close()
    }

    @Test("The store gives SQLite's pages back once little or nothing is written", arguments: [false, true])
    func pagesAreGivenBackInCalm(isWriting: Bool) async throws {
        let store = try open()
        for batch in 0..<10 {
            try await persist((0..<600).map { row("user\(batch)-\($0)", version: 1, value: "online") }, in: store).get()
        }
        let busyBytes = try store.cachedBytes
        #expect(busyBytes > 300_000)
        let deadline = ContinuousClock.now + .seconds(30)
        var writes: Milliseconds = 0
        while try store.cachedBytes > busyBytes / 4, ContinuousClock.now < deadline {
            if isWriting {
                writes += 1
                try await persist([row("ann", version: 1 + writes, value: "away")], in: store).get()
            }
            // A write each 50 ms is little.
            try await MultiThreadedEventLoopGroup.singleton.any().scheduleTask(in: .milliseconds(50)) {}.futureResult.get()
        }
        #expect(try store.cachedBytes <= busyBytes / 4)
        store.close()
    }

    @Test("A process has a later generation than the one before even if the clock went back") func generations() throws {
        var store = try open()
        #expect(store.lastGeneration == 0)
        for wall: Milliseconds in [1_000_000, 990_000, 990_000, 1_000_500] {
            let generation = RollcallNode.generation(after: store.lastGeneration, at: wall)
            #expect(generation > store.lastGeneration)
            #expect(generation <= 1_003_000)
            try store.keep(generation: generation)
            store.close()
            store = try open()
            #expect(store.lastGeneration == generation)
        }
        #expect(RollcallNode.generation(after: 5_000_000, at: 1_000_000) == 1_000_000)
        store.close()
    }

    @Test("Rows that wait together are committed together and in order") func groupCommit() async throws {
        let store = try open()
        let order = OrderedNumbers()
        await withCheckedContinuation { (done: CheckedContinuation<Void, Never>) in
            for number in 0..<500 {
                store.persist([row("u\(number)", version: 1, value: "x")]) { _ in
                    order.append(number)
                    if number == 499 { done.resume() }
                }
            }
        }
        #expect(order.numbers == Array(0..<500))
        #expect(store.statistics.rows == 500)
        #expect(store.statistics.commits < 250)
        store.close()
    }

    /// The writer stands still in the first completion until everything waits.
    @Test("An urgent row overtakes a backlog of bulk rows") func urgentRow() async throws {
        let store = try open()
        let (order, gate) = (OrderedNumbers(), DispatchSemaphore(value: 0))
        let late = row("ann", version: 1, value: "urgent")
        await withCheckedContinuation { (done: CheckedContinuation<Void, Never>) in
            store.persist([row("first", version: 1, value: "x")]) { _ in gate.wait() }
            for page in 0..<100 {
                let rows = (0..<200).map { row("u\(page * 200 + $0)", version: 2, value: "bulk") }
                store.persist(rows, isUrgent: false) { _ in
                    order.append(page)
                    // The next group has this one alone, or what the group of this page began with.
                    if page == 50 { store.persist([late]) { _ in order.append(1_000) } }
                    if page == 99 { done.resume() }
                }
            }
            store.persist([row("u19999", version: 3, value: "urgent")]) { _ in order.append(2_000) }
            #expect(store.statistics.rowsInBulkWaiting > 19_000)
            gate.signal()
        }
        #expect(order.numbers.firstIndex(of: 2_000)! <= 1)
        #expect(order.numbers.firstIndex(of: 1_000)! - order.numbers.firstIndex(of: 50)! <= 2)
        #expect(order.numbers.filter { $0 < 1_000 } == Array(0..<100))
        #expect(store.statistics.commits >= 20_000 / UInt64(SQLiteStore.rowsInBulkOfGroup))
        #expect(store.statistics.rowsWaiting == 0 && store.statistics.rowsInBulkWaiting == 0)
        #expect(store.statistics.rows == 20_003)
        store.close()
    }

    @Test("A store closes under a continuous load") func closing() throws {
        let late = row("ann", version: 1, value: "late")
        for _ in 0..<20 {
            let store = try open()
            let hasEnded = Mutex(false)
            let isClosed = DispatchSemaphore(value: 0)
            for _ in 0..<3 {
                Thread.detachNewThread {
                    while !hasEnded.withLock({ $0 }) {
                        store.persist([late]) { _ in }
                        store.deleteSlots([1])
                    }
                }
            }
            Thread.detachNewThread {
                store.close()
                isClosed.signal()
            }
            let outcome = isClosed.wait(timeout: .now() + 20)
            hasEnded.withLock { $0 = true }
            try #require(outcome == .success)
        }
    }

    /// A bulk row was read before an urgent one of the same version: it does not replace it, whichever comes first to the disk.
    @Test("A bulk row replaces only an older row") func bulkRow() async throws {
        let store = try open()
        for (version, value) in [(2, "kept"), (1, "older"), (2, "equal")] as [(Milliseconds, String)] {
            await withCheckedContinuation { done in
                store.persist([row("ann", version: version, value: value)], isUrgent: value == "kept") { _ in done.resume() }
            }
        }
        #expect(try rows(in: store) == [row("ann", version: 2, value: "kept")])
        store.close()
    }

    @Test("Bulk writes leave most of the time to others") func rest() async throws {
        let store = try open()
        let clock = ContinuousClock()
        let start = clock.now
        let result = await withCheckedContinuation { done in
            store.persist((0..<5_000).map { row("u\($0)", version: 1, value: "x") }, isUrgent: false) { done.resume(returning: $0) }
        }
        try result.get()
        let took = (clock.now - start) / .seconds(1)
        // The last group's rest does not count, and no rest is longer than its bound.
        let (commits, writing) = (store.statistics.commits, store.statistics.commitSeconds.sum)
        #expect(commits >= 19)
        let rests = min(writing * Double(SQLiteStore.restPerGroup), Double(SQLiteStore.restNanosecondsMax) / 1e9 * Double(commits))
        #expect(took > rests / 2)
        store.close()
    }

    @Test("Closing writes the waiting bulk rows") func closingWithBulk() throws {
        var store = try open()
        store.persist((0..<2_000).map { row("u\($0)", version: 1, value: "x") }, isUrgent: false) { _ in }
        store.persist([row("ann", version: 1, value: "x")]) { _ in }
        store.close()
        store = try open()
        #expect(try rows(in: store).count == 2_001)
        store.close()
    }

    @Test("Deleted slots lose earlier rows and keep later ones") func deletedSlots() async throws {
        var store = try open()
        let (moved, stays) = (user("ann"), user("bob"))
        let rule = Row(user: moved, kind: .policy, key: "", version: Version(milliseconds: 1, counter: 0, node: 3), value: [1])
        try await persist([row("ann", version: 5, value: "old"), row("bob", version: 1, value: "stays"), rule], in: store).get()
        store.persist([row("ann", version: 6, value: "waits")], isUrgent: false) { _ in }
        store.deleteSlots([moved.slot])
        try await persist([row("ann", version: 2, value: "came back")], in: store).get()
        try await settle(store)
        let kept = [row("ann", version: 2, value: "came back"), row("bob", version: 1, value: "stays"), rule]
        #expect(Set(try rows(in: store)) == Set(kept), "and a fact of all is none of the user's")
        store.deleteSlots([moved.slot, stays.slot])
        try await settle(store)
        store.close()
        store = try open()
        #expect(try rows(in: store) == [rule])
        store.close()
    }

    @Test("All slots are deleted a few at a time, and closing waits for none") func deletingAllSlots() async throws {
        let store = try open()
        let users = (0..<1_000).map { "u\($0)" }
        try await persist(users.map { row($0, version: 1, value: "x") }, in: store).get()
        let before = store.statistics.commits
        store.deleteSlots(users.map { user($0).slot })
        try await settle(store)
        #expect(try rows(in: store) == [])
        #expect(store.statistics.commits - before > 1_000 / UInt64(SQLiteStore.slotsDeletedAtOnce) / 2)
        store.deleteSlots((0..<65_535).map { Slot($0) })
        store.close()
    }

    @Test("Deleted rows are gone unless another version has replaced them") func deletedRows() async throws {
        var store = try open()
        let many = (0..<1_000).map { row("u\($0)", version: 1, value: "x") }
        try await persist(many + [row("ann", version: 2, value: "newer"), row("bob", version: 1, value: "stays")], in: store).get()
        store.deleteRows(many + [row("ann", version: 1, value: "older")])
        store.persist([row("ann", version: 3, value: "waits")], isUrgent: false) { _ in }
        store.deleteRows([row("ann", version: 3, value: "waits"), row("cat", version: 1, value: "unknown")])
        while store.statistics.rowsWaiting > 0 { try await persist([], in: store).get() }
        #expect(try rows(in: store) == [row("bob", version: 1, value: "stays")])
        store.deleteRows([row("bob", version: 1, value: "stays")])
        store.close()
        store = try open()
        #expect(try rows(in: store) == [], "closing waits for what is to be forgotten")
        store.close()
    }

    @Test("A write after the store was closed fails with that reason") func closed() async throws {
        let store = try open()
        store.close()
        await #expect(throws: StoreError.closed) { try await persist([row("ann", version: 1, value: "late")], in: store).get() }
        #expect(throws: StoreError.closed) { try store.persistAndWait([row("ann", version: 1, value: "late")]).get() }
    }

    private func user(_ id: String) -> UserID { UserID(app: "default", id: id) }

    /// Waits for all that is to be discarded, a write at a time.
    private func settle(_ store: SQLiteStore) async throws {
        repeat { try await persist([], in: store).get() } while store.statistics.slotsDiscarding > 0
        try await persist([], in: store).get()
        try await persist([], in: store).get()
    }

    /// The files after a SIGKILL: those of an open store.
    @Test("Stored rows survive a kill before the first checkpoint") func kill() async throws {
        let store = try open()
        try await persist([row("ann", version: 1, value: "kept")], in: store).get()
        let copy = directory + "-killed"
        try FileManager.default.copyItem(atPath: directory, toPath: copy)
        store.close()
        let again = try SQLiteStore(directory: copy, nodeID: "n1", cluster: "test")
        #expect(try rows(in: again) == [row("ann", version: 1, value: "kept")])
        again.close()
    }

    @Test("A directory of another node stays unchanged, even after a kill") func otherNodeAfterKill() async throws {
        let store = try open()
        defer { store.close() }
        try await persist([row("ann", version: 1, value: "1")], in: store).get()
        let killed = directory + "-killed #1 50%?"
        try FileManager.default.copyItem(atPath: directory, toPath: killed)
        let files = ["/rollcall.sqlite", "/rollcall.sqlite-wal"]
        let before = files.map { FileManager.default.contents(atPath: killed + $0) }
        #expect(throws: StoreError.self) { try SQLiteStore(directory: killed, nodeID: "n2", cluster: "test") }
        #expect(files.map { FileManager.default.contents(atPath: killed + $0) } == before)
        let own = try SQLiteStore(directory: killed, nodeID: "n1", cluster: "test")
        #expect(try rows(in: own).count == 1)
        own.close()
        own.close()
    }

    @Test("A directory in use is refused") func inUse() throws {
        let store = try open()
        #expect(throws: StoreError.self) { try open() }
        store.close()
    }

    @Test("A directory of another node or cluster is refused", arguments: [("n2", "test"), ("n1", "other")]) func otherNode(
        node: String, cluster: String
    ) throws {
        try open().close()
        #expect(throws: StoreError.self) { try open(node: node, cluster: cluster) }
        try open().close()
    }

    @Test(
        "A damaged file is refused and stays unchanged",
        arguments: ["no database at all", "SQLite format 3\0 and then nothing that makes sense"])
    func damagedFile(content: String) throws {
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        try Data(content.utf8).write(to: URL(fileURLWithPath: file))
        #expect(throws: StoreError.self) { try open() }
        #expect(try Data(contentsOf: URL(fileURLWithPath: file)) == Data(content.utf8))
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory) == ["rollcall.sqlite"])
    }

    @Test("A file of a newer schema is refused and stays unchanged") func newerSchema() throws {
        try open().close()
        var bytes = try Data(contentsOf: URL(fileURLWithPath: file))
        bytes[63] = 99
        try bytes.write(to: URL(fileURLWithPath: file))
        for suffix in ["-wal", "-shm"] where FileManager.default.fileExists(atPath: file + suffix) {
            try FileManager.default.removeItem(atPath: file + suffix)
        }
        do {
            _ = try open()
            Issue.record("opened")
        } catch let error as StoreError {
            #expect(error.description.contains("schema version 99"))
        }
        #expect(try Data(contentsOf: URL(fileURLWithPath: file)) == bytes)
    }
}

/// Collects numbers from other threads.
final class OrderedNumbers: @unchecked Sendable {
    private let lock = NSLock()
    private var stored: [Int] = []
    var numbers: [Int] { lock.withLock { stored } }
    func append(_ number: Int) { lock.withLock { stored.append(number) } }
}
