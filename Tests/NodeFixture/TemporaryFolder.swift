import Foundation

/// A folder of a test, removed when nothing holds it any more.
package final class TemporaryFolder: Sendable {
    package let path = NSTemporaryDirectory() + "rollcall-\(UUID().uuidString)"

    package init() {
        do { try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true) } catch {
            preconditionFailure("no folder for a test: \(error)")
        }
    }

    deinit {
        do { try FileManager.default.removeItem(atPath: path) } catch { return }  // The test removed it.
    }
}

/// Runs a program and returns what it prints. It waits on a thread of its own: the pool that tests run on has a thread a core,
/// and a node in this process needs it to answer.
package func run(_ program: String, _ arguments: [String]) async throws -> (status: Int32, output: String) {
    try await withCheckedThrowingContinuation { done in
        Thread.detachNewThread {
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
            process.arguments = [program] + arguments
            let pipe = Pipe()
            process.standardInput = FileHandle.nullDevice
            process.standardOutput = pipe
            process.standardError = pipe
            do { try process.run() } catch { return done.resume(throwing: error) }
            let output = pipe.fileHandleForReading.readDataToEndOfFile()
            process.waitUntilExit()
            done.resume(returning: (process.terminationStatus, String(decoding: output, as: UTF8.self)))
        }
    }
}
