import Foundation

/// The output of a command.
enum Terminal {
    /// Prints a line on standard output.
    static func line(_ text: String) { write(text + "\n", to: .standardOutput) }

    /// Prints a line on standard error.
    static func error(_ text: String) { write(text + "\n", to: .standardError) }

    /// Prints text on standard output without a line end.
    static func write(_ text: String) { write(text, to: .standardOutput) }

    /// Whether standard output is a terminal.
    static var isInteractive: Bool { isatty(STDOUT_FILENO) == 1 }

    private static func write(_ text: String, to file: FileHandle) { file.write(Data(text.utf8)) }
}

/// The error of a command, with its exit code.
struct CommandFailure: Error, CustomStringConvertible {
    let description: String
    let code: Int32
}

/// Ends the process with an exit code.
func endProcess(_ code: Int32) -> Never { exit(code) }
