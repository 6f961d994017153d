import Foundation
import NIOCore
import NIOPosix
import PresenceWire
import Testing

@testable import PresenceNode

/// A store whose files are deleted or replaced while it is open.
@Suite final class OpenFilesTests {
    private let folder = NSTemporaryDirectory() + "rollcall-gone-\(UUID().uuidString)"
    private var file: String { folder + "/rollcall.sqlite" }

    deinit {
        do { try FileManager.default.removeItem(atPath: folder) } catch { return }  // The test removed it.
    }

    private func row(_ user: String) -> Row {
        Row(
            user: UserID(app: "default", id: user), kind: .status, key: "", version: Version(milliseconds: 1, counter: 0, node: 3),
            value: Array("{}".utf8))
    }

    private func persist(_ rows: [Row], in store: SQLiteStore) async -> Result<Void, StoreError> {
        await withCheckedContinuation { done in store.persist(rows) { done.resume(returning: $0) } }
    }

    private func open() throws -> SQLiteStore { try SQLiteStore(directory: folder, nodeID: "n1", cluster: "test") }

    /// The change of the files, and the files that the store then names.
    @Test(
        "Nothing is acknowledged once the files are gone",
        arguments: [
            ("rm rollcall.sqlite", ""), ("rm rollcall.sqlite-wal", "-wal"), ("rm -r ../$F", ""), ("mv ../$F ../$F.aside", ""),
            ("cp rollcall.sqlite a; mv a rollcall.sqlite", ""), ("ln rollcall.sqlite a; rm rollcall.sqlite", ""),
        ])
    func lostFiles(command: String, ending: String) async throws {
        let store = try open()
        try await persist([row("ann")], in: store).get()
        #expect(store.problem == nil)
        try shell("cd \(folder); F=$(basename \(folder)); \(command)")
        let result = await persist([row("bob")], in: store)
        guard case .failure(.failed(let problem)) = result else { return _ = Issue.record("\(result)") }
        #expect(problem.hasPrefix("\(file)\(ending) was "))
        #expect(store.problem == problem && store.statistics.rowsUnwritten == 1)
        store.close()
        try shell("rm -rf \(folder).aside")
    }

    /// `Tests/Chaos/deleted-files` measures the delay, on an otherwise idle machine.
    @Test("Missing files are detected even if nothing is written") func idle() async throws {
        let store = try open()
        try await persist([row("ann")], in: store).get()
        try FileManager.default.removeItem(atPath: file)
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let deadline = NIODeadline.now() + .seconds(30)
        try await loop.flatSubmit { loop.when({ store.problem != nil }, until: deadline) }.get()
        #expect(store.problem != nil)
        store.close()
    }

    @Test("Rows that came meanwhile are written when the files are back") func filesReturn() async throws {
        var store = try open()
        try await persist([row("ann")], in: store).get()
        try FileManager.default.moveItem(atPath: folder, toPath: folder + ".aside")
        guard case .failure = await persist([row("bob")], in: store) else { return _ = Issue.record("taken") }
        try FileManager.default.moveItem(atPath: folder + ".aside", toPath: folder)
        try await persist([row("carl")], in: store).get()
        #expect(store.problem == nil)
        store.close()
        store = try open()
        var users: [String] = []
        try store.load { users.append(String($0.user.id)) }
        #expect(users.sorted() == ["ann", "bob", "carl"])
        store.close()
    }

    private func shell(_ command: String) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = ["-c", command]
        try process.run()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0)
    }
}
