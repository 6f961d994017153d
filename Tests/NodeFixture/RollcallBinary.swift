import Foundation

/// The command that the tests run.
package enum RollcallBinary {
    /// The top of the repository.
    package static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    /// The binary that the variable `ROLLCALL` names, else that of `make build`, else the one beside the tests' own binary.
    ///
    /// A relative path of the variable counts from the top of the repository.
    package static let path: String = {
        if let named = ProcessInfo.processInfo.environment["ROLLCALL"], !named.isEmpty {
            return URL(filePath: named, relativeTo: root).path
        }
        let release = root.appending(path: ".build-release/release/rollcall").path
        if FileManager.default.isExecutableFile(atPath: release) { return release }
        return URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent().appending(path: "rollcall").path
    }()

    /// The variables of the tests, without those that are settings of a node.
    static let environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("ROLLCALL") }

    /// Runs the command until it ends.
    package static func run(_ arguments: [String]) async throws -> (status: Int32, output: String) {
        try await NodeFixture.run(path, arguments)
    }
}
