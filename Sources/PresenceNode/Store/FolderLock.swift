import Foundation

/// A lock on a data directory that excludes a second process.
final class FolderLock: Sendable {
    private let descriptor: Int32

    init(_ directory: String, of path: String) throws(StoreError) {
        descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .unusable(path: directory, problem: "cannot be opened: \(String(cString: strerror(errno)))") }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            close(descriptor)
            throw .unusable(path: path, problem: "is in use by another process; stop it, or use another --data-dir")
        }
    }

    /// Releases the lock. Closing the descriptor releases it as well, and no child process inherits the descriptor.
    func release() { flock(descriptor, LOCK_UN) }

    deinit { close(descriptor) }
}
