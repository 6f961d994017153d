import Dispatch
import Foundation
import NIOConcurrencyHelpers

/// Checks that a database and its log are still the files at their paths.
///
/// SQLite keeps writing to files that were deleted or replaced, and reports success. After a restart those rows would be lost.
/// An open file keeps its inode, so a different inode at the path means a different file.
final class OpenFiles: Sendable {
    /// Time between two checks while nothing is written.
    static let interval = DispatchTimeInterval.milliseconds(250)

    private struct Identity: Equatable {
        let device: dev_t
        let inode: ino_t

        /// Nil if there is no file, or none that can be examined.
        init?(_ path: String) {
            var status = stat()
            guard stat(path, &status) == 0 else { return nil }
            (device, inode) = (status.st_dev, status.st_ino)
        }
    }

    private struct State {
        /// The file at each path when it was opened. The log's is nil until the log exists.
        var identities: [Identity?]
        var problem: String?
    }

    private let paths: [String]
    private let state: NIOLockedValueBox<State>
    private nonisolated(unsafe) let timer: any DispatchSourceTimer

    /// - Parameter path: the path of an open database. Its log has the same name followed by `-wal`.
    init(database path: String) {
        paths = [path, path + "-wal"]
        state = NIOLockedValueBox(State(identities: paths.map { Identity($0) }))
        timer = DispatchSource.makeTimerSource(queue: .global(qos: .utility))
        timer.schedule(deadline: .now() + Self.interval, repeating: Self.interval)
        timer.setEventHandler { [weak self] in _ = self?.look() }
        timer.resume()
    }

    deinit { timer.cancel() }

    /// The fault that the last check found; nil for none.
    var problem: String? { state.withLockedValue { $0.problem } }

    /// Checks now, with two system calls. Returns the fault, or nil if there is none or the files are back.
    func look() -> String? {
        let found = paths.map { Identity($0) }
        return state.withLockedValue { state in
            state.problem = nil
            for index in paths.indices {
                guard let opened = state.identities[index] else {
                    state.identities[index] = found[index]
                    continue
                }
                if found[index] == opened { continue }
                let what = found[index] == nil ? "was deleted" : "was replaced by another file"
                state.problem =
                    "\(paths[index]) \(what) while the node has it open; stop the node, restore the files or empty the data directory, and start it again"
                break
            }
            return state.problem
        }
    }
}
