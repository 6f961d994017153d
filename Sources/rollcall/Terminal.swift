import Foundation

/// What a command says to a person.
enum Terminal {
    /// A line on standard output.
    static func line(_ text: String) { write(text + "\n", to: .standardOutput) }

    /// A line on standard error.
    static func error(_ text: String) { write(text + "\n", to: .standardError) }

    /// Text on standard output, as it is.
    static func write(_ text: String) { write(text, to: .standardOutput) }

    /// Whether standard output is a terminal.
    static var isInteractive: Bool { isatty(STDOUT_FILENO) == 1 }

    private static func write(_ text: String, to file: FileHandle) { file.write(Data(text.utf8)) }
}

/// Why a command failed, with its exit code.
struct CommandFailure: Error, CustomStringConvertible {
    let description: String
    let code: Int32
}

/// Ends the process.
func endProcess(_ code: Int32) -> Never { exit(code) }
