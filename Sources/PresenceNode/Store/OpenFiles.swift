import Dispatch
import Foundation
import NIOConcurrencyHelpers

/// Sees whether a database and its log still are the files at their paths. SQLite goes on writing to files that were deleted or replaced, and
/// says that all is well; nothing of it would be there after a restart.
///
/// A file that is held open keeps its inode, so another file at its path has another one.
final class OpenFiles: Sendable {
    /// How often the paths are looked at while nothing is written.
    static let interval = DispatchTimeInterval.milliseconds(250)

    private struct Identity: Equatable {
        let device: dev_t
        let inode: ino_t

        /// Nil where there is no file, or none that can be looked at.
        init?(_ path: String) {
            var status = stat()
            guard stat(path, &status) == 0 else { return nil }
            (device, inode) = (status.st_dev, status.st_ino)
        }
    }

    private struct State {
        /// The file that was at each path when it was opened; the log's is nil until there is one.
        var identities: [Identity?]
        var problem: String?
    }

    private let paths: [String]
    private let state: NIOLockedValueBox<State>
    private nonisolated(unsafe) let timer: any DispatchSourceTimer

    /// - Parameter path: of a database that is open. Its log has the same name with `-wal` behind it.
    init(database path: String) {
        paths = [path, path + "-wal"]
        state = NIOLockedValueBox(State(identities: paths.map { Identity($0) }))
        timer = DispatchSource.makeTimerSource(queue: .global(qos: .utility))
        timer.schedule(deadline: .now() + Self.interval, repeating: Self.interval)
        timer.setEventHandler { [weak self] in _ = self?.look() }
        timer.resume()
    }

    deinit { timer.cancel() }

    /// The fault that the last look found; nil for none.
    var problem: String? { state.withLockedValue { $0.problem } }

    /// Looks now: two system calls. Returns what is wrong, and nil again once the files are back.
    func look() -> String? {
        let found = paths.map { Identity($0) }
        return state.withLockedValue { state in
            state.problem = nil
            for place in paths.indices {
                guard let opened = state.identities[place] else {
                    state.identities[place] = found[place]
                    continue
                }
                if found[place] == opened { continue }
                let what = found[place] == nil ? "was deleted" : "was replaced by another file"
                state.problem =
                    "\(paths[place]) \(what) while the node has it open; stop the node, restore the files or empty the data directory, and start it again"
                break
            }
            return state.problem
        }
    }
}
