import Foundation
import PresenceNode
import PresenceWire

/// The output of a command.
enum Terminal {
    /// Prints a line on standard output.
    static func line(_ text: String) { write(text + "\n") }

    /// Prints a line on standard error, if anybody reads it.
    static func error(_ text: String) { _ = writeAll(text + "\n", to: STDERR_FILENO) }

    /// Prints a line with texts of others on standard error. Control characters are escaped.
    static func warning(_ text: String) { error(PrintableText.escaped(text)) }

    /// Prints fields as a line on standard output, with tabs between them. Control characters in a field are escaped.
    static func row(_ fields: [String]) { line(fields.map(PrintableText.escaped).joined(separator: "\t")) }

    /// Prints a text of several lines on standard output, without a further line end. Other control characters are escaped.
    static func lines(_ text: String) {
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        write(lines.map { PrintableText.escaped(String($0)) }.joined(separator: "\n"))
    }

    /// Prints text on standard output without a line end. Ends the process if nobody reads the text any more.
    static func write(_ text: String) {
        switch writeAll(text, to: STDOUT_FILENO) {
        case 0: return
        case EPIPE: endWithoutReader()
        case let number:
            error("rollcall: the output cannot be written: \(String(cString: strerror(number)))")
            endProcess(PresenceNode.ExitCode.inputOutput)
        }
    }

    /// Prints text of a command that goes on without a reader. Returns false if nobody reads the text any more.
    @discardableResult static func offer(_ text: String) -> Bool { writeAll(text, to: STDOUT_FILENO) == 0 }

    /// Ends the process, whose output nobody reads any more, with the exit code that a shell gives a command which SIGPIPE has ended.
    static func endWithoutReader() -> Never { endProcess(141) }

    /// Makes a write to a pipe without a reader an error. Otherwise SIGPIPE ends the process, and a node with it.
    static func ignoreBrokenPipes() { signal(SIGPIPE, SIG_IGN) }

    /// Takes the places of standard descriptors that are closed, before a file or a socket takes one and receives what is printed.
    ///
    /// The places are opened for reading only, so that a command whose output is closed still fails.
    static func fillClosedDescriptors() {
        for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) < 0 {
            // The lowest free descriptor is this one.
            _ = open("/dev/null", O_RDONLY)
        }
    }

    /// Whether standard output is a terminal.
    static var isInteractive: Bool { isatty(STDOUT_FILENO) == 1 }

    /// Whether standard output is a terminal on which text can be drawn over other text.
    static var isDrawable: Bool { isInteractive && ProcessInfo.processInfo.environment["TERM"] ?? "dumb" != "dumb" }

    /// Whether text may have colors: not if NO_COLOR is set (https://no-color.org).
    static var isColored: Bool { isDrawable && ProcessInfo.processInfo.environment["NO_COLOR"] ?? "" == "" }

    /// The size of a terminal.
    struct Size: Equatable {
        var columns: Int
        var rows: Int
    }

    /// The size of the terminal at standard output. A terminal that does not know its size counts as 80 by 24.
    static var size: Size {
        var found = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &found) == 0, found.ws_col > 0, found.ws_row > 0 else {
            return Size(columns: 80, rows: 24)
        }
        return Size(columns: Int(found.ws_col), rows: Int(found.ws_row))
    }
}

/// Writes a text to a descriptor. Returns the number of the error, or 0.
private func writeAll(_ text: String, to descriptor: Int32) -> Int32 {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
        let count = rest.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
        if count >= 0 {
            rest = rest.dropFirst(count)
        } else if errno == EAGAIN {
            // Another process has set the terminal to writes that do not wait.
            var waiting = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
            _ = poll(&waiting, 1, -1)
        } else if errno != EINTR {
            return errno
        }
    }
    return 0
}

/// The error of a command, with its exit code. Control characters in its text are escaped.
struct CommandFailure: Error, CustomStringConvertible {
    let description: String
    let code: Int32
    /// A second line, which says what to do.
    var advice: String?
}

/// Ends the process with an exit code.
func endProcess(_ code: Int32) -> Never { exit(code) }
