import HTTP2
import NIOCore
import PresenceCore
import PresenceWire

/// The ops port: `/metrics`, `/healthz`, `/readyz` and `/admin/v1/…`.
///
/// The port has a loop of its own, so that its requests do not delay clients and other nodes.
final class OpsListener: HTTPServerDelegate {
    /// Shortest time between two metrics pages. Requests within that time share one page.
    private static let metricsInterval = TimeAmount.milliseconds(20)
    private static let lifeInterval = TimeAmount.milliseconds(5)

    /// HTTP limits with fewer streams than the client port: a scraper needs one.
    static var limits: HTTPLimits {
        var limits = HTTPLimits()
        limits.streamsMax = 100
        return limits
    }

    private let admin: AdminAPI
    private let metrics: SharedAnswer<RepeatedText>
    private let life: SharedAnswer<Void>
    private let notReady: () -> String?
    private let checks: () -> [ReadinessCheck]
    private let unanswered: () -> [String]

    /// - Parameters:
    ///   - eventLoop: the loop of this port.
    ///   - metrics: builds the text of `/metrics`; called on the loop, and succeeds there.
    ///   - life: succeeds on the loop after the core has run, so that a core that hangs is not alive.
    ///   - notReady: returns why the node is not ready; nil when the node is ready.
    ///   - checks: returns the conditions of readiness.
    ///   - unanswered: returns the addresses at which the node looks for others, each with its last error, while it is linked to none of
    ///     them.
    init(
        admin: AdminAPI, eventLoop: any EventLoop, metrics: @escaping () -> EventLoopFuture<String>,
        life: @escaping () -> EventLoopFuture<Void>, notReady: @escaping () -> String?,
        checks: @escaping () -> [ReadinessCheck], unanswered: @escaping () -> [String]
    ) {
        self.admin = admin
        self.metrics = SharedAnswer(eventLoop: eventLoop, interval: Self.metricsInterval) {
            metrics().map { RepeatedText(ByteBuffer(string: $0), isLasting: false) }
        }
        self.life = SharedAnswer(eventLoop: eventLoop, interval: Self.lifeInterval, make: life)
        (self.notReady, self.checks, self.unanswered) = (notReady, checks, unanswered)
    }

    /// The text of `/metrics`.
    func metricsText() -> EventLoopFuture<String> { metrics.next().map { String(buffer: $0.bytes) } }

    /// Whether the listener has stopped answering.
    var isStopped: Bool { life.isStopped }

    /// Stops answering. Requests that wait are not answered.
    func stop() {
        metrics.stop()
        life.stop()
    }

    /// A line about the links to other nodes.
    private var linksText: String {
        let addresses = unanswered()
        guard !addresses.isEmpty else { return "links: ok\n" }
        return "links: this node is alone; no other node answers at \(addresses.joined(separator: ", "))\n"
    }

    /// The lines about all conditions, behind the first line of `/readyz?verbose`.
    private var checkLines: String { checks().map(\.line).joined() + linksText }

    /// Whether the query of a target has the parameter `verbose`, with any value or none.
    private static func isVerbose(_ target: String) -> Bool {
        guard let start = target.firstIndex(of: "?") else { return false }
        return target[start...].dropFirst().split(separator: "&").contains { $0 == "verbose" || $0.hasPrefix("verbose=") }
    }

    func requestReceived(_ request: HTTPRequest, on connection: HTTPServerConnection) {
        let path = String(decoding: request.target.prefix(before: UInt8(ascii: "?")), as: UTF8.self)
        let isVerbose = Self.isVerbose(String(decoding: request.target, as: UTF8.self))
        let stream = request.stream
        if let status = request.refusedStatus {
            let problem = Problem(refused: status, request.refusedReason, by: connection.limits)
            return respond(problem, stream, connection)
        }
        switch (request.method.isRead ? .get : request.method, path) {
        case (.get, "/healthz"): life.next().assumeIsolated().whenSuccess { self.respond(200, "ok\n", stream, connection) }
        case (.get, "/readyz"):
            life.next().assumeIsolated().whenSuccess {
                let reason = self.notReady()
                let text = (reason ?? "ready") + "\n" + (isVerbose ? self.checkLines : "")
                self.respond(reason == nil ? 200 : 503, text, stream, connection)
            }
        case (.get, "/metrics"):
            metrics.next().assumeIsolated().whenSuccess { text in
                connection.respond(to: stream, HTTPResponse(status: 200, contentType: .metrics, repeated: text))
            }
        case (.get, "/openapi.json"):
            connection.respond(to: stream, HTTPResponse(status: 200, contentType: .json, repeated: OpenAPI.text))
        case (.get, let path) where path == "/console" || path.hasPrefix("/console/"):
            guard let answer = Assets.consoleAnswer(path) else {
                return respond(.noSuchPath("the console has no such file; it begins at /console"), stream, connection)
            }
            connection.respond(to: stream, answer)
        case (_, let path) where path.hasPrefix("/admin/v1/"):
            admin.requestReceived(request, operation: String(path.dropFirst("/admin/v1/".count)), on: connection)
        case (_, "/healthz"), (_, "/readyz"), (_, "/metrics"), (_, "/console"), (_, "/openapi.json"):
            respond(.wrongMethod("\(path) supports only GET"), stream, connection, allow: "GET, HEAD")
        default:
            respond(
                .noSuchPath("no such path; the paths are GET /console, /metrics, /healthz and /readyz, and POST /admin/v1/<operation>"),
                stream,
                connection)
        }
    }

    private func respond(_ status: Int, _ text: String, _ stream: StreamID, _ connection: HTTPServerConnection) {
        connection.respond(to: stream, HTTPResponse(status: status, contentType: .text, body: ByteBuffer(string: text)))
    }

    private func respond(_ problem: Problem, _ stream: StreamID, _ connection: HTTPServerConnection, allow: StaticString? = nil) {
        admin.logger.refused(problem, nil, stream, on: connection)
        connection.respond(to: stream, HTTPResponse(problem, allow: allow))
    }

    func eventStreamClosed(_ stream: StreamID, token: UInt32, on connection: HTTPServerConnection, reason: StreamEnd) {
        admin.exportEnded(token, reason)
    }

    func eventStreamDrained(_ stream: StreamID, token: UInt32, on connection: HTTPServerConnection) { admin.exportDrained(token) }

    func connectionOpened(_ connection: HTTPServerConnection) {}
    func connectionClosed(_ connection: HTTPServerConnection) {}
    func violated(_ violation: HTTPViolation) {}
}
