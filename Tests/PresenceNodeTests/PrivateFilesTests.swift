import Foundation
import Testing

@testable import PresenceNode

@Suite final class PrivateFilesTests {
    private let folder = NSTemporaryDirectory() + "rollcall-rights-\(UUID().uuidString)"

    deinit {
        do { try FileManager.default.removeItem(atPath: folder) } catch { return }  // The test made none.
    }

    private func rights(_ path: String) throws -> Int {
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        return try #require(attributes[.posixPermissions] as? Int)
    }

    private func make(_ name: String, rights: Int) throws -> String {
        let path = "\(folder)/\(name)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try Data().write(to: URL(fileURLWithPath: path))
        try FileManager.default.setAttributes([.posixPermissions: rights], ofItemAtPath: path)
        return path
    }

    @Test("The folder and files of an earlier version become private") func earlierVersion() throws {
        let store = try SQLiteStore(directory: folder, nodeID: "n1", cluster: "test")
        store.close()
        for path in [folder, "\(folder)/rollcall.sqlite"] {
            try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: path)
        }
        let aside = try make("rollcall.sqlite.damaged-7", rights: 0o644)
        try SQLiteStore(directory: folder, nodeID: "n1", cluster: "test").close()
        #expect(try rights(folder) == 0o700)
        #expect(try [rights("\(folder)/rollcall.sqlite"), rights(aside)] == [0o600, 0o600])
    }

    /// For instance `/tmp`, or a user's home.
    @Test("A folder with other files stays unchanged") func otherFolder() throws {
        let other = try make("letter.txt", rights: 0o644)
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: folder)
        try SQLiteStore(directory: folder, nodeID: "n1", cluster: "test").close()
        #expect(try [rights(folder), rights(other), rights("\(folder)/rollcall.sqlite")] == [0o755, 0o644, 0o600])
    }
}
