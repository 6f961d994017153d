import Foundation

/// The rights of what a node keeps: its folder and files are for its own user only, whatever the process's umask, because the rows say who
/// follows whom.
///
/// Files of another user stay as they are, for instance a volume that Kubernetes gives to the pod's group.
enum PrivateFiles {
    private static let folderRights: mode_t = 0o700
    private static let fileRights: mode_t = 0o600

    /// Makes the folder, if it is not there. One that is there is taken from other users if nothing or a database of a node is in it: another
    /// one may have been named by mistake.
    ///
    /// - Parameter database: the name of the file of a node.
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
            throw .unusable(path: folder, problem: "cannot be created: \(error.localizedDescription)")
        }
    }

    private static func restrict(_ path: String, to rights: mode_t) throws(StoreError) {
        var status = stat()
        guard stat(path, &status) == 0, status.st_uid == geteuid(), status.st_mode & 0o777 != rights else { return }
        guard chmod(path, rights) == 0 else {
            throw .unusable(path: path, problem: "its permissions cannot be restricted to this user: \(String(cString: strerror(errno)))")
        }
    }

    /// Makes an empty file. SQLite gives a log or journal the rights of its database.
    static func make(_ path: String) throws(StoreError) {
        let descriptor = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, fileRights)
        guard descriptor >= 0 else { throw .unusable(path: path, problem: "cannot be created: \(String(cString: strerror(errno)))") }
        defer { close(descriptor) }
        guard fchmod(descriptor, fileRights) == 0 else {
            throw .unusable(path: path, problem: "its permissions cannot be restricted to this user: \(String(cString: strerror(errno)))")
        }
    }
}
