import Foundation

/// Keeps a second process away from a data directory, whatever state its files are in.
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

    /// Lets others in; the lock goes with the last descriptor of this opening, and no child inherits it.
    func release() { flock(descriptor, LOCK_UN) }

    deinit { close(descriptor) }
}
