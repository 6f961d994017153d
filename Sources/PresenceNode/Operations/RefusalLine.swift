import HTTP2
import Logging
import PresenceCore
import PresenceWire

extension Logger {
    /// Logs a refused request at the level `debug`, with the ID that the answer carries in the field `Request-ID`.
    ///
    /// - Parameters:
    ///   - operation: the operation; nil for a request that names none.
    ///   - trace: the span of the request in the client's trace; nil for a request without one.
    func refused(
        _ problem: @autoclosure () -> Problem, _ operation: String?, _ stream: StreamID, on connection: HTTPServerConnection,
        trace: TraceContext? = nil
    ) {
        guard logLevel <= .debug else { return }
        let problem = problem()
        var metadata: Metadata = [
            "requestID": "\(connection.requestID(of: stream))", "operation": "\(operation ?? "none")", "status": "\(problem.status)",
            "code": "\(problem.code)", "reason": "\(RefusalLine.reason(problem))", "peer": "\(connection.remoteAddress)",
        ]
        if let trace { metadata.merge(["trace_id": "\(trace.traceIDText)", "span_id": "\(trace.spanIDText)"]) { $1 } }
        debug("request refused", metadata: metadata)
    }
}

/// The text of a refusal as the log may have it.
enum RefusalLine {
    /// Most characters in a row of a name in a log. A token, a ticket or a key is longer.
    static let runMax = 24

    /// The detail of a problem without what the caller has written into the request: a client may put a secret into any field.
    ///
    /// The reason for which a token is refused quotes only the app.
    static func reason(_ problem: Problem) -> String {
        problem.status == 401 ? problem.detail : masked(problem.detail)
    }

    /// Replaces quoted text, and each longer run of characters that tokens and keys consist of, by `…`.
    static func masked(_ text: String) -> String {
        var masked = ""
        var run = ""
        var isQuoted = false
        for character in text {
            if character == "\"" {
                masked += (run.count > runMax ? "…" : run) + (isQuoted ? "…\"" : "\"")
                (run, isQuoted) = ("", !isQuoted)
            } else if isQuoted {
                continue
            } else if character.isLetter || character.isNumber || "-_.+/=".contains(character) {
                run.append(character)
            } else {
                masked += (run.count > runMax ? "…" : run) + String(character)
                run = ""
            }
        }
        return masked + (run.count > runMax ? "…" : run) + (isQuoted ? "…" : "")
    }
}
