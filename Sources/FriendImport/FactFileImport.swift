import Foundation
import PresenceWire

/// `rollcall import` of the facts that `rollcall export` has written: friends, groups, requests, blocks, profiles and subscriptions.
///
/// Facts of one user that follow one another go into one call, and the calls of one user are made in their order. Many users are imported
/// at once. After each window of calls the place in the file is stored, so that a run which was stopped goes on there. A fact that was sent
/// twice changes nothing.
public struct FactFileImport: Sendable {
    /// The options of an import; ``FriendImport/Options/target`` is the URL of a node's ops port.
    private let options: FriendImport.Options
    /// Whether the nodes only say what would become of each fact.
    private let isDryRun: Bool
    private let calls: ImportCalls

    /// - Parameter isDryRun: whether nothing is imported. The report is written all the same, and no place is stored.
    public init(_ options: FriendImport.Options, isDryRun: Bool) {
        (self.options, self.isDryRun) = (options, isDryRun)
        calls = ImportCalls(options)
    }

    /// Whether a file has facts, and not the rows of a CSV file: its first byte besides blanks is that of an object.
    public static func isFactFile(_ path: String) throws -> Bool {
        var isFolder: ObjCBool = false
        if FileManager.default.fileExists(atPath: path, isDirectory: &isFolder), isFolder.boolValue {
            throw ImportError("\(path): is a directory")
        }
        guard let file = FileHandle(forReadingAtPath: path) else {
            throw ImportError("\(path): cannot be read: \(String(cString: strerror(errno)))")
        }
        defer { file.closeFile() }
        let beginning = try file.read(upToCount: 1_024) ?? Data()
        return beginning.first { !" \t\r\n".utf8.contains($0) } == UInt8(ascii: "{")
    }

    /// The path of the report about refused lines.
    public static func reportPath(beside file: String) -> String { file + ".refused.ndjson" }

    /// Imports the file, from the place where an earlier run has stopped.
    ///
    /// Throws ``ImportError`` if the file cannot be read, or if no node answers for half a minute.
    public func run(onProgress: (FriendImport.Progress) -> Void) async throws -> ImportCounts {
        try await calls.closed(after: { try await importAll(onProgress) })
    }

    private func importAll(_ onProgress: (FriendImport.Progress) -> Void) async throws -> ImportCounts {
        guard let file = FileHandle(forReadingAtPath: options.file) else {
            throw ImportError("\(options.file): cannot be read: \(String(cString: strerror(errno)))")
        }
        defer { file.closeFile() }
        var position = try ImportPosition(of: options.file)
        if !isDryRun { position = try ImportPosition.resumed(options.file, restarts: options.restarts) ?? position }
        let earlier = position.counts.rows
        var lines = try FactLines(file, from: position.offset, number: earlier)
        let report = try FactReport(beside: options.file, bytes: position.reportBytes)
        position.reportBytes = try report.append([])
        if !isDryRun { try position.save(beside: options.file) }
        var memory = DryRunMemory()
        while let window = try FactWindow(from: &lines, linesMax: options.callsCount * FactBatch.linesMax) {
            var refused = window.refused
            let batches = window.batches(isDryRun: isDryRun, &memory)
            for (line, outcome) in try await send(batches) {
                switch outcome {
                case .imported: position.counts.imported += 1
                case .present: position.counts.present += 1
                case .refused(let refusal): refused.append((line, refusal))
                }
            }
            refused.sort { $0.line.number < $1.line.number }
            position.counts.refused += refused.count
            position.counts.rows = position.counts.imported + position.counts.present + position.counts.refused
            position.reportBytes = try report.append(refused)
            position.offset = window.end
            if !isDryRun { try position.save(beside: options.file) }
            let share = Double(position.offset) / Double(max(position.fileBytes, 1))
            onProgress(FriendImport.Progress(counts: position.counts, share: share, earlierRows: earlier))
        }
        try report.close()
        if position.counts.refused == 0 { try FileManager.default.removeItem(atPath: Self.reportPath(beside: options.file)) }
        if !isDryRun { try FileManager.default.removeItem(atPath: ImportPosition.path(beside: options.file)) }
        return position.counts
    }

    // MARK: Calls

    private enum Outcome: Sendable {
        case imported
        case present
        case refused(RowRefusal)
    }

    /// Sends the batches of many users at once, and those of each user one after the other.
    private func send(_ users: [[FactBatch]]) async throws -> [(line: FactLine, outcome: Outcome)] {
        try await withThrowingTaskGroup(of: [(line: FactLine, outcome: Outcome)].self) { group in
            var (rest, outcomes) = (users[...], [(line: FactLine, outcome: Outcome)]())
            for _ in 0..<min(options.callsCount, users.count) {
                if let batches = rest.popFirst() { group.addTask { try await sendInOrder(batches) } }
            }
            while let done = try await group.next() {
                outcomes += done
                if let batches = rest.popFirst() { group.addTask { try await sendInOrder(batches) } }
            }
            return outcomes
        }
    }

    private func sendInOrder(_ batches: [FactBatch]) async throws -> [(line: FactLine, outcome: Outcome)] {
        var outcomes: [(line: FactLine, outcome: Outcome)] = []
        for batch in batches { outcomes += zip(batch.lines, try await send(batch)).map { (line: $0, outcome: $1) } }
        return outcomes
    }

    private func send(_ batch: FactBatch) async throws -> [Outcome] {
        do { return try await outcomes(of: batch) } catch let error as ImportCalls.Refused {
            guard error.isOfRow else { throw error.ofImport }
            // The refusal of a call with one fact is about this fact.
            guard batch.lines.count > 1 else { return [.refused(RowRefusal(code: error.code, reason: error.detail))] }
        }
        var all: [Outcome] = []
        for line in batch.lines { all += try await send(FactBatch(user: batch.user, assumed: batch.assumed, lines: [line])) }
        return all
    }

    private func outcomes(of batch: FactBatch) async throws -> [Outcome] {
        let facts = batch.assumed + batch.lines.map(\.bytes)
        let results = try await calls.importFacts(facts, of: batch.user, isDryRun: isDryRun)
        guard results.count == facts.count else { throw ImportError("importFacts: the answer lacks results") }
        return results.dropFirst(batch.assumed.count).map { result in
            if result.refusal.code != 0 { return .refused(result.refusal) }
            return result.isNew ? .imported : .present
        }
    }
}

/// Facts of one user for one call.
struct FactBatch: Sendable {
    static let linesMax = PortableFact.callMax
    /// Most lines of a call of a dry run. It also has the facts that they need.
    static let dryRunLinesMax = 32

    let user: String
    /// Facts of earlier lines that a dry run has not written, and that these lines need.
    var assumed: [[UInt8]] = []
    var lines: [FactLine]

    /// The bytes of all lines.
    var bytesCount: Int { lines.reduce(0) { $0 + $1.bytes.count } }
}

/// The lines of the next calls.
struct FactWindow {
    private var lines: [FactLine] = []
    private(set) var refused: [(line: FactLine, refusal: RowRefusal)] = []
    private(set) var end: UInt64 = 0

    /// Reads the next lines; nil at the end of the file.
    init?(from file: inout FactLines, linesMax: Int) throws {
        var count = 0
        while count < linesMax, let line = try file.next() {
            (count, end) = (count + 1, line.end)
            if let refusal = line.refusal { refused.append((line, refusal)) } else { lines.append(line) }
        }
        if count == 0 { return nil }
    }

    /// The calls of each user, in the order of the lines.
    ///
    /// - Parameter memory: the facts that a dry run has seen. An import leaves it empty.
    func batches(isDryRun: Bool, _ memory: inout DryRunMemory) -> [[FactBatch]] {
        var users: [[FactBatch]] = []
        var places: [String: Int] = [:]
        let linesMax = isDryRun ? FactBatch.dryRunLinesMax : FactBatch.linesMax
        for line in lines {
            let place = places[line.user] ?? users.count
            if place == users.count {
                places[line.user] = place
                users.append([])
            }
            let last = users[place].last
            if let last, last.lines.count < linesMax, last.bytesCount + line.bytes.count <= PortableFact.callBytesMax {
                users[place][users[place].count - 1].lines.append(line)
            } else {
                users[place].append(FactBatch(user: line.user, lines: [line]))
            }
        }
        guard isDryRun else { return users }
        for user in users.indices {
            for batch in users[user].indices {
                users[user][batch].assumed = memory.needed(by: users[user][batch].lines, of: users[user][batch].user)
            }
        }
        return users
    }
}

/// The groups and the friends of a user in the lines before, which a dry run has not written.
struct DryRunMemory {
    private var user = ""
    private var groups: [[UInt8]] = []
    private var friends: Set<String> = []

    /// The facts that these lines need and earlier lines have. Remembers those of these lines.
    mutating func needed(by lines: [FactLine], of user: String) -> [[UInt8]] {
        if self.user != user { self = DryRunMemory(user: user) }
        let named = lines.filter(\.needsFriend).map(\.key).filter(friends.contains)
        let needed = groups + Set(named).sorted().map(Self.friend)
        for line in lines {
            if line.kind == Row.Kind.friendGroup.name, groups.count < Limits.friendGroupsMax { groups.append(line.bytes) }
            if line.kind == Row.Kind.friend.name { friends.insert(line.key) }
        }
        return needed
    }

    private static func friend(_ key: String) -> [UInt8] {
        var json = JSONWriter(reserving: 128)
        json.object { json in
            json.member("kind", Row.Kind.friend.name)
            json.member("key", key)
            json.key("value")
            json.object { $0.member("addTime", 0) }
        }
        return json.bytes
    }
}

extension DryRunMemory {
    private init(user: String) {
        self.init()
        self.user = user
    }
}
