import Glibc
import PresenceNode

/// The work that `Benchmarks/gate` counts: `cost-gate FIGURE`, under callgrind, or `cost-gate session`, under jemalloc.
///
/// It prints the number of operations, or for `session` the bytes of one session.
@main
struct CostGate {
    @MainActor
    static func main() async {
        do {
            guard let name = CommandLine.arguments.dropFirst().first else { return fail("usage: cost-gate FIGURE", 64) }
            if name == "session" { return tell("\(try await SessionMemory.bytesPerSession())", STDOUT_FILENO) }
            guard let figure = Figure(rawValue: name) else { return fail("no such figure: \(name)", 64) }
            let mint = try await TokenMint()
            var tokens: [String: String] = [:]
            for user in figure.users { tokens[user] = try await mint.token(user: user) }
            let authenticator = try await Authenticator(apps: [:], isDevelopment: true)
            tell("\(try count(figure, authenticator, tokens))", STDOUT_FILENO)
            // Exits without ending the loop, because timers are still set.
            exit(0)
        } catch { fail("\(error)", 1) }
    }

    /// Counts a figure without an `await`, and therefore on one thread.
    private static func count(_ figure: Figure, _ authenticator: Authenticator, _ tokens: [String: String]) throws -> Int {
        try figure.count(World(authenticator, tokens: tokens))
    }

    private static func fail(_ problem: String, _ code: Int32) {
        tell("cost-gate: \(problem)", STDERR_FILENO)
        exit(code)
    }

    private static func tell(_ line: String, _ descriptor: Int32) { write(descriptor, line + "\n", line.utf8.count + 1) }
}
