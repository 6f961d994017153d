import ArgumentParser
import Foundation
import NIOPosix
import PresenceNode
import PresenceWire

/// `rollcall check-token TOKEN`: says what a node says of a token, claim by claim.
struct CheckTokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check-token", abstract: "Say whether a node accepts a token, and why, claim by claim.",
        discussion: """
            Without --target the command decides with the keys of the configuration, as `rollcall serve` reads it: --config, and the \
            ROLLCALL_… variables. With --target it asks a node, which also knows who was kicked. Exit codes: 0 accepted, 1 refused. \
            A token of "-" is read from standard input, so that it stands in no list of processes.
            """)

    @Argument(help: "The token, or \"-\".") var token: String
    @Option(help: "URL of a node's client port.") var target: String?
    @Option(help: "YAML file with settings of a node.") var config: String?
    @OptionGroup var trust: TrustOptions

    func validate() throws {
        guard target == nil || config == nil else {
            throw ValidationError("--config: has no effect with --target, because the node decides")
        }
    }

    func run() async throws {
        let token = try self.token == "-" ? Self.standardInput() : self.token
        if let target {
            let report = TokenReport.ofClaims(token)
            Self.show(report)
            let problem = try await Self.problem(of: token, report, at: target, trust)
            let verdict = problem.map { "invalid: \(target) refuses the token: \($0)" } ?? "valid: \(target) accepts the token"
            Terminal.line(PrintableText.escaped(verdict))
            if problem != nil { endProcess(1) }
            return
        }
        let configuration = try await NodeConfiguration.read(
            flags: [:], environment: ProcessInfo.processInfo.environment, file: config)
        let report = try await TokenReport.of(token, with: configuration, on: MultiThreadedEventLoopGroup.singleton.next())
        Self.show(report)
        if let refusal = report.refusal {
            Terminal.line(PrintableText.escaped("invalid: \(refusal)"))
            endProcess(1)
        }
        Terminal.line("valid, unless a node knows that the user was kicked later")
    }

    /// Prints a line for each part of the token, in columns.
    private static func show(_ report: TokenReport) {
        let rows = report.lines.map { line in
            [line.name, line.value, line.verdict.rawValue, line.note].map(PrintableText.escaped)
        }
        let widths = (0..<3).map { column in rows.map { $0[column].count }.max() ?? 0 }
        for row in rows {
            let cells = row.enumerated().map { index, cell in
                index < 3 ? cell + String(repeating: " ", count: widths[index] - cell.count) : cell
            }
            Terminal.line(String(cells.joined(separator: "  ").reversed().drop { $0 == " " }.reversed()))
        }
    }

    /// The reason why a node refuses a token; nil if it accepts the token.
    ///
    /// The node is asked for the status of the token's own user, which needs no right and counts towards no limit.
    private static func problem(
        of token: String, _ report: TokenReport, at target: String, _ trust: TrustOptions
    ) async throws -> String? {
        let port = try ClientPort(target, trust)
        let path = "/v1/getUserStatus"
        var json = JSONWriter()
        json.object { json in
            json.key("userIDs")
            json.array { $0.string(report.user?.id ?? "unknown") }
        }
        let response = try await port.call(path, "Bearer \(token)", json)
        let answer = try? JSONReader.read(response.body)
        switch response.status {
        case 200 where answer?["userStatusList"] != nil: return nil
        case 401 where answer?["code"] != nil: return answer?["detail"]?.text ?? "the node gives no reason"
        // A node that refuses the call for another reason, such as a limit, knows the caller.
        case let status where [400, 403, 429].contains(status) && answer?["code"] != nil: return nil
        default: throw CommandFailure(refused: response.status, response.body, from: port.url(path), .client)
        }
    }

    private static func standardInput() throws -> String {
        guard let line = readLine() else { throw ValidationError("TOKEN: standard input is empty") }
        return line.trimmingCharacters(in: .whitespaces)
    }
}
