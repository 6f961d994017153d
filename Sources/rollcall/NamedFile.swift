import Foundation
import PresenceNode

/// The files that flags of a command name.
enum NamedFile {
    /// Reads a text.
    static func text(_ path: String, _ flag: String) throws(CommandFailure) -> String {
        guard let file = FileHandle(forReadingAtPath: path) else { throw failure(path, flag, String(cString: strerror(errno))) }
        let content: Data
        do { content = try file.readToEnd() ?? Data() } catch { throw failure(path, flag, FileErrorText.problem(error, "cannot be read")) }
        guard let text = String(validating: content, as: UTF8.self) else { throw failure(path, flag, "is not UTF-8") }
        return text
    }

    /// Reads a secret, without the line end behind it.
    static func secret(_ path: String) throws(CommandFailure) -> String {
        try text(path, "--secret-file").trimmingCharacters(in: .newlines)
    }

    /// Makes sure that a file can be written before a long run, and creates it.
    static func open(_ path: String, _ flag: String) throws(CommandFailure) {
        let descriptor = Foundation.open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o666)
        guard descriptor >= 0 else { throw failure(path, flag, String(cString: strerror(errno))) }
        close(descriptor)
    }

    /// The file that a command writes beside and then renames, with links followed. Fails if anything but a file is there.
    ///
    /// A rename would put a file in the place of a pipe, a device or a link.
    static func replaceable(_ path: String, _ flag: String) throws(CommandFailure) -> String {
        var found = stat()
        guard stat(path, &found) == 0 else { return path }  // Nothing is there, or the file beside it cannot be created either.
        switch found.st_mode & S_IFMT {
        case S_IFREG: break
        case S_IFDIR: throw failure(path, flag, "is a directory")
        default: throw failure(path, flag, "is not a file")
        }
        guard let target = realpath(path, nil) else { return path }
        defer { free(target) }
        return String(cString: target)
    }

    /// Replaces the content of a file. Ends the process if the file is a pipe that nobody reads any more.
    static func write(_ content: Data, to path: String, _ flag: String) throws(CommandFailure) {
        do { try content.write(to: URL(fileURLWithPath: path)) } catch {
            if FileErrorText.systemError(error) == EPIPE { Terminal.endWithoutReader() }
            let problem = FileErrorText.problem(error, "cannot be written")
            throw CommandFailure(description: "\(flag): \(path): \(problem)", code: PresenceNode.ExitCode.inputOutput)
        }
    }

    private static func failure(_ path: String, _ flag: String, _ reason: String) -> CommandFailure {
        CommandFailure(description: "\(flag): \(path): \(reason)", code: PresenceNode.ExitCode.usage)
    }
}
