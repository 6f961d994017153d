import Foundation

/// The permissions of a node's folder and files: only its own user may use them, whatever the umask of the process.
///
/// The rows are private, because they contain subscriptions. Files of another user keep their permissions, for instance a volume that
/// Kubernetes gives to the group of the pod.
enum PrivateFiles {
    private static let folderRights: mode_t = 0o700
    private static let fileRights: mode_t = 0o600

    /// Creates the folder if it does not exist, and restricts its permissions.
    ///
    /// An existing folder is restricted only if it is empty or contains the database of a node. Any other may be given by mistake.
    ///
    /// - Parameter database: the name of a node's database file.
    static func makeFolder(_ folder: String, of database: String) throws(StoreError) {
        let isNew = !FileManager.default.fileExists(atPath: folder)
        do {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            let names = try FileManager.default.contentsOfDirectory(atPath: folder)
            if isNew || names.isEmpty || names.contains(database) { try restrict(folder, to: folderRights) }
            for name in names where name.hasPrefix(database) { try restrict("\(folder)/\(name)", to: fileRights) }
        } catch let error as StoreError {
            throw error
        } catch {
            throw .unusable(path: folder, problem: FileErrorText.problem(error, "cannot be created"))
        }
    }

    private static func restrict(_ path: String, to rights: mode_t) throws(StoreError) {
        var status = stat()
        guard stat(path, &status) == 0, status.st_uid == geteuid(), status.st_mode & 0o777 != rights else { return }
        guard chmod(path, rights) == 0 else {
            throw .unusable(path: path, problem: "its permissions cannot be restricted to this user: \(String(cString: strerror(errno)))")
        }
    }

    /// Creates an empty file. SQLite gives a log or journal the permissions of its database.
    static func make(_ path: String) throws(StoreError) {
        let descriptor = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, fileRights)
        guard descriptor >= 0 else { throw .unusable(path: path, problem: "cannot be created: \(String(cString: strerror(errno)))") }
        defer { close(descriptor) }
        guard fchmod(descriptor, fileRights) == 0 else {
            throw .unusable(path: path, problem: "its permissions cannot be restricted to this user: \(String(cString: strerror(errno)))")
        }
    }
}
