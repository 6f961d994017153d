import Dispatch
import Foundation
import GRDB

/// Writes all pages of a database anew, at the next start after users were deleted: `secure_delete` does not reach the copies of rows in
/// unused parts of pages. A file beside the database says that it is to be done.
public struct StoreWipe: Sendable {
    /// The news of a wipe.
    public enum Report: Sendable {
        /// The node serves once it is done, after some seconds for each gigabyte.
        case begins
        /// It is done; the time in seconds.
        case done(seconds: Double)
        /// The database is as it was. The next start tries again.
        case failed(any Error)
    }

    /// The path of the database.
    let path: String

    private var file: String { path + "-wipe" }

    /// Has the next start write all pages anew.
    func mark() {
        if FileManager.default.fileExists(atPath: file) { return }
        do { try PrivateFiles.make(file) } catch { return }  // The next deletion tries again.
    }

    /// Writes all pages anew, without anything that was removed, if users were deleted since the last start.
    func run(on queue: DatabaseQueue, report: (Report) -> Void) {
        guard FileManager.default.fileExists(atPath: file) else { return }
        let start = DispatchTime.now().uptimeNanoseconds
        report(.begins)
        do {
            // Otherwise the copy, which is as large as the database, may be in memory.
            setenv("SQLITE_TMPDIR", (path as NSString).deletingLastPathComponent, 1)
            try queue.vacuum()
            _ = try queue.writeWithoutTransaction { try $0.checkpoint(.truncate) }
            try FileManager.default.removeItem(atPath: file)
            report(.done(seconds: Double(DispatchTime.now().uptimeNanoseconds - start) / 1e9))
        } catch { report(.failed(error)) }
    }
}
