import Foundation
import GRDB
import PresenceWire
import Testing

@testable import PresenceNode

/// A disk that gives back something else than what was written: noticed, repaired where other nodes have the rows, never believed.
@Suite final class DamagedFileTests {
    private let folder = NSTemporaryDirectory() + "rollcall-damaged-\(UUID().uuidString)"
    private var directory: String { folder + "/n1" }
    private var file: String { directory + "/rollcall.sqlite" }
    private var original: [PresenceWire.Row] = []

    deinit {
        do { try FileManager.default.removeItem(atPath: folder) } catch { return }  // The test made none.
    }

    private func open(canBeCompleted: Bool = false) throws -> SQLiteStore {
        try SQLiteStore(directory: directory, nodeID: "n1", cluster: "test", canBeCompleted: canBeCompleted)
    }

    private func rows(in store: SQLiteStore) throws -> [PresenceWire.Row] {
        var rows: [PresenceWire.Row] = []
        try store.load { rows.append($0) }
        return rows
    }

    private static func row(_ number: Int, version: Milliseconds = 1) -> PresenceWire.Row {
        PresenceWire.Row(
            user: UserID(app: "default", id: "user\(number % 150)"), kind: number < 150 ? .status : .subscription,
            key: number < 150 ? "" : "friend\(number)", version: Version(milliseconds: version, counter: 0, node: 3),
            value: number % 7 == 0
                ? nil : Array("{\"customStatus\":\"\(String(repeating: "x", count: number % 90))\",\"n\":\(version)}".utf8),
            expiresAt: number % 3 == 0 ? Milliseconds(number) : nil)
    }

    private func persist(_ rows: [PresenceWire.Row], in store: SQLiteStore) async throws {
        try await withCheckedContinuation { done in store.persist(rows) { done.resume(returning: $0) } }.get()
    }

    /// A closed file of some 35 pages, without a log.
    private func makeFile() async throws -> Data {
        let store = try open()
        try await persist((0..<800).map { Self.row($0) }, in: store)
        original = try rows(in: store)
        store.close()
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory) == ["rollcall.sqlite"])
        return try Data(contentsOf: URL(fileURLWithPath: file))
    }

    private func put(_ files: [String: Data]) throws {
        if FileManager.default.fileExists(atPath: directory) { try FileManager.default.removeItem(atPath: directory) }
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        for (name, content) in files { try content.write(to: URL(fileURLWithPath: directory + "/" + name)) }
    }

    private func contents() throws -> [String: Data] {
        var found: [String: Data] = [:]
        for name in try FileManager.default.contentsOfDirectory(atPath: directory) {
            found[name] = try Data(contentsOf: URL(fileURLWithPath: directory + "/" + name))
        }
        return found
    }

    /// The outcome of a damaged file.
    private enum Outcome { case harmless, refused, salvaged }

    /// Opens `files` without and with other nodes, and checks what each may do.
    ///
    /// - Parameters:
    ///   - states: what the rows may be where nothing is noticed: the whole, and for a log what was so some commits ago.
    ///   - known: every row that was ever written.
    private func outcome(
        _ files: [String: Data], states: [[PresenceWire.Row]], known: Set<PresenceWire.Row>, _ what: String
    ) throws -> Outcome {
        try put(files)
        do {
            let store = try open()
            let found = try rows(in: store)
            store.close()
            let isRight = states.contains(found)
            #expect(isRight, "\(what): not noticed, and \(found.count) rows are not what was written")
            return .harmless
        } catch let error as StoreError {
            #expect(try contents() == files, "\(what): refused, but changed")
            #expect(error.description.contains(file), "\(what): \(error) does not name the file")
        }
        let store: SQLiteStore
        do { store = try open(canBeCompleted: true) } catch is StoreError {
            #expect(try contents() == files, "\(what): refused with other nodes, but changed")
            return .refused
        }
        let found = try rows(in: store)
        let strangers = found.count { !known.contains($0) }
        #expect(strangers == 0, "\(what): salvaged rows that were never written")
        #expect(store.isIncomplete && (store.salvage?.rowsKept ?? -1) >= found.count, "\(what)")
        store.close()
        // The damaged file is kept as it was.
        let aside = try contents().filter { $0.key.contains(".damaged-") }
        #expect(aside.count == files.count && Set(aside.values) == Set(files.values), "\(what): \(aside.keys)")
        return .salvaged
    }

    @Test("A flipped byte is detected or harmless") func flippedByte() async throws {
        let whole = try await makeFile()
        var random = SplitMix64(seed: 7)
        var counts: [Outcome: Int] = [:]
        for page in 0..<whole.count / 4_096 {
            // The first page has the header and the schema.
            for _ in 0..<(page == 0 ? 60 : 3) {
                var damaged = whole
                let offset = page * 4_096 + Int.random(in: 0..<(page == 0 && Bool.random(using: &random) ? 100 : 4_096), using: &random)
                damaged[offset] ^= UInt8.random(in: 1...255, using: &random)
                let found = try outcome(
                    ["rollcall.sqlite": damaged], states: [original], known: Set(original),
                    "byte \(offset), \(whole[offset]) to \(damaged[offset])")
                counts[found, default: 0] += 1
            }
        }
        #expect(counts[.salvaged, default: 0] > 60 && counts[.refused] == nil, "\(counts)")
    }

    @Test("A torn page is detected") func tornPage() async throws {
        let whole = try await makeFile()
        for page in 0..<whole.count / 4_096 {
            for half in [0, 2_048] {
                var damaged = whole
                let range = page * 4_096 + half..<page * 4_096 + half + 2_048
                damaged.replaceSubrange(range, with: Data(count: 2_048))
                let found = try outcome(
                    ["rollcall.sqlite": damaged], states: [original], known: Set(original), "page \(page), half \(half)")
                #expect(found != .harmless || damaged == whole || page == 0, "page \(page), half \(half)")
            }
        }
    }

    @Test("A truncated file is detected") func truncatedFile() async throws {
        let whole = try await makeFile()
        var random = SplitMix64(seed: 9)
        for count in [0, 1, 99, 100, 4_095, 4_096] + (0..<20).map({ _ in Int.random(in: 4_097..<whole.count, using: &random) }) {
            let found = try outcome(["rollcall.sqlite": whole.prefix(count)], states: [original], known: Set(original), "cut at \(count)")
            #expect(found != .harmless, "cut at \(count)")
        }
    }

    /// Ten commits in the log, none in the file: what a kill leaves.
    private func makeLog() async throws -> (files: [String: Data], states: [[PresenceWire.Row]]) {
        let store = try open()
        var states = [try rows(in: store)]
        for commit in 1...10 {
            try await persist((0..<40).map { Self.row($0 * commit % 200, version: Milliseconds(commit)) }, in: store)
            states.append(try rows(in: store))
        }
        let files = try contents()
        store.close()
        #expect(files["rollcall.sqlite-wal"]?.isEmpty == false)
        return (files, states)
    }

    @Test("A truncated log gives an earlier state") func truncatedLog() async throws {
        let (files, states) = try await makeLog()
        let log = try #require(files["rollcall.sqlite-wal"])
        var random = SplitMix64(seed: 11)
        for _ in 0..<25 {
            var damaged = files
            let count = Int.random(in: 0..<log.count, using: &random)
            damaged["rollcall.sqlite-wal"] = log.prefix(count)
            let found = try outcome(damaged, states: states, known: Set(states.joined()), "log cut at \(count)")
            #expect(found == .harmless, "log cut at \(count)")
        }
    }

    @Test("A flipped byte in the log is detected unless it is in the last commit") func flippedByteInLog() async throws {
        let (files, states) = try await makeLog()
        let log = try #require(files["rollcall.sqlite-wal"])
        var random = SplitMix64(seed: 13)
        var noticed = 0
        for offset in [0, 5, 9, 17, 25, 31] + (0..<60).map({ _ in Int.random(in: 0..<log.count, using: &random) }) {
            var changed = log
            changed[offset] ^= UInt8.random(in: 1...255, using: &random)
            var damaged = files
            damaged["rollcall.sqlite-wal"] = changed
            // The last commit but one is the earliest state that looks like a crash.
            let found = try outcome(damaged, states: states.suffix(2), known: Set(states.joined()), "byte \(offset) of the log")
            if found == .salvaged { noticed += 1 }
        }
        #expect(noticed > 40, "\(noticed)")
    }

    @Test("A log without its database is refused without other nodes, and put aside with them") func logAlone() async throws {
        var (files, _) = try await makeLog()
        files["rollcall.sqlite"] = nil
        try put(files)
        #expect(throws: StoreError.self) { try self.open() }
        #expect(try contents() == files)
        let store = try open(canBeCompleted: true)
        #expect(try store.isIncomplete && rows(in: store).isEmpty)
        store.close()
        #expect(try contents().contains { $0.key.contains(".damaged-") && $0.value == files["rollcall.sqlite-wal"] })
    }

    @Test("With other nodes a file starts whatever single bit of its first pages is flipped") func flippedBits() async throws {
        let whole = try await makeFile()
        // The second page has the names of the node and of the cluster.
        let bits = Array(stride(from: 16 * 8, to: 100 * 8, by: 5)) + stride(from: (8_192 - 100) * 8, to: 8_192 * 8, by: 7)
        for bit in bits {
            var damaged = whole
            damaged[bit / 8] ^= 1 << (bit % 8)
            try put(["rollcall.sqlite": damaged])
            #expect(throws: Never.self, "bit \(bit)") { try self.open(canBeCompleted: true).close() }
        }
    }

    @Test("A file of another node or cluster is refused, also with other nodes, and stays as it is") func foreign() async throws {
        let whole = try await makeFile()
        for (node, cluster) in [("n2", "test"), ("n1", "other")] {
            #expect(throws: StoreError.self) {
                try SQLiteStore(directory: self.directory, nodeID: node, cluster: cluster, canBeCompleted: true)
            }
        }
        #expect(try Data(contentsOf: URL(fileURLWithPath: file)) == whole)
    }

    @Test("A file of a version without a checksum of its names is opened") func withoutSum() async throws {
        _ = try await makeFile()
        let queue = try DatabaseQueue(path: file)
        try await queue.write { try $0.execute(sql: "DELETE FROM meta WHERE name = 'sum'") }
        try queue.close()
        let store = try open()
        #expect(try rows(in: store) == original)
        store.close()
    }

    @Test("The next start finishes an interrupted salvage") func interruptedSalvage() async throws {
        let whole = try await makeFile()
        var damaged = whole
        damaged.replaceSubrange(16_384..<20_480, with: Data(count: 4_096))
        try put(["rollcall.sqlite": damaged])
        try open(canBeCompleted: true).close()
        let new = try Data(contentsOf: URL(fileURLWithPath: file))
        // Killed before the damaged file had lost its name; after; and after its log had, too.
        for files in [["rollcall.sqlite": damaged, "rollcall.sqlite-wal": Data([1])], ["rollcall.sqlite-wal": Data([1])], [:]] {
            try put(files.merging(["rollcall.sqlite-salvaged": new]) { $1 })
            let store = try open(canBeCompleted: true)
            #expect(store.isIncomplete)
            #expect(try rows(in: store).count > 300)
            store.close()
            #expect(try contents().keys.contains("rollcall.sqlite-salvaged") == false)
        }
    }

    @Test("An incomplete file starts only with other nodes until it is completed") func incompleteFile() async throws {
        var damaged = try await makeFile()
        damaged.replaceSubrange(16_384..<20_480, with: Data(count: 4_096))
        try put(["rollcall.sqlite": damaged])
        try open(canBeCompleted: true).close()
        #expect(throws: StoreError.self) { try self.open() }
        let store = try open(canBeCompleted: true)
        #expect(store.isIncomplete && store.salvage == nil)
        store.complete()
        try await persist([], in: store)
        #expect(!store.isIncomplete)
        store.close()
        try open().close()
    }

    @Test("Rows of version 1 get their checksums") func migration() async throws {
        _ = try await makeFile()
        try put([:])
        let queue = try DatabaseQueue(path: file)
        let rows = original
        try await queue.write { database in
            try RowTable.create(in: database, version: 1)
            try database.execute(sql: "INSERT INTO meta VALUES ('node', 'n1'), ('cluster', 'test')")
            for row in rows {
                try database.execute(
                    sql: "INSERT INTO row VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    arguments: [
                        Int(row.user.slot), row.user.withBytes { Data($0) }, Int(row.kind.rawValue), row.key,
                        Int64(bitPattern: row.version.stamp), Int64(row.version.node), row.value.map { Data($0) }, row.expiresAt,
                    ])
            }
        }
        try queue.close()
        for _ in 0..<2 {
            let store = try open()
            #expect(try self.rows(in: store) == original)
            store.close()
        }
        #expect(try Data(contentsOf: URL(fileURLWithPath: file))[60..<64].elementsEqual([0, 0, 0, 2]))
    }

    @Test("The checksum covers every field") func checksum() {
        let row = Self.row(151)
        var others = [row, row, row, row, row, row, row, row]
        others[0].user = UserID(app: "default", id: "other")
        others[1].kind = .status
        others[2].key += "x"
        others[3].version.stamp += 1
        others[4].version.node += 1
        others[5].value = nil
        others[6].value = []
        others[7].expiresAt = (row.expiresAt ?? 0) + 1
        #expect(Set(others.map(RowTable.checksum) + [RowTable.checksum(of: row)]).count == 9)
    }
}
