import Foundation
import PresenceWire

/// The output of a command.
enum Terminal {
    /// Prints a line on standard output.
    static func line(_ text: String) { write(text + "\n", to: .standardOutput) }

    /// Prints a line on standard error.
    static func error(_ text: String) { write(text + "\n", to: .standardError) }

    /// Prints fields as a line on standard output, with tabs between them. Control characters in a field are escaped.
    static func row(_ fields: [String]) { line(fields.map(PrintableText.escaped).joined(separator: "\t")) }

    /// Prints a text of several lines on standard output, without a further line end. Other control characters are escaped.
    static func lines(_ text: String) {
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        write(lines.map { PrintableText.escaped(String($0)) }.joined(separator: "\n"))
    }

    /// Prints text on standard output without a line end.
    static func write(_ text: String) { write(text, to: .standardOutput) }

    /// Whether standard output is a terminal.
    static var isInteractive: Bool { isatty(STDOUT_FILENO) == 1 }

    private static func write(_ text: String, to file: FileHandle) { file.write(Data(text.utf8)) }
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
