import HTTP2
import NIOCore
import PresenceWire

/// The ops port: `/metrics`, `/healthz`, `/readyz`, `/admin/v1/…` (contract §1).
final class OpsListener: HTTPServerDelegate {
    private let admin: AdminAPI
    private let metrics: () -> EventLoopFuture<String>
    private let notReady: () -> String?

    /// - Parameters:
    ///   - metrics: makes the text of `/metrics`.
    ///   - notReady: why the node is not ready; nil when it is.
    init(admin: AdminAPI, metrics: @escaping () -> EventLoopFuture<String>, notReady: @escaping () -> String?) {
        self.admin = admin
        self.metrics = metrics
        self.notReady = notReady
    }

    func requestReceived(_ request: HTTPRequest, on connection: HTTPServerConnection) {
        let path = String(decoding: request.target.prefix(before: UInt8(ascii: "?")), as: UTF8.self)
        let stream = request.stream
        if let status = request.refusedStatus {
            let problem = Problem(refused: status, by: HTTPLimits())
            return connection.respond(
                to: stream, HTTPResponse(status: status, contentType: .problem, body: ByteBuffer(bytes: problem.json)))
        }
        switch (request.method, path) {
        case (.get, "/healthz"): respond(200, "ok\n", stream, connection)
        case (.get, "/readyz"):
            if let reason = notReady() {
                respond(503, reason + "\n", stream, connection)
            } else {
                respond(200, "ready\n", stream, connection)
            }
        case (.get, "/metrics"):
            metrics().assumeIsolated().whenSuccess { text in
                connection.respond(to: stream, HTTPResponse(status: 200, contentType: .metrics, body: ByteBuffer(string: text)))
            }
        case (_, let path) where path.hasPrefix("/admin/v1/"):
            admin.requestReceived(request, operation: String(path.dropFirst("/admin/v1/".count)), on: connection)
        case (_, "/healthz"), (_, "/readyz"), (_, "/metrics"):
            respond(.wrongMethod("\(path) is read with GET"), stream, connection, allow: "GET")
        default: respond(.noSuchPath("GET /metrics, /healthz or /readyz; POST /admin/v1/<operation>"), stream, connection)
        }
    }

    private func respond(_ status: Int, _ text: String, _ stream: StreamID, _ connection: HTTPServerConnection) {
        connection.respond(to: stream, HTTPResponse(status: status, contentType: .text, body: ByteBuffer(string: text)))
    }

    private func respond(_ problem: Problem, _ stream: StreamID, _ connection: HTTPServerConnection, allow: StaticString? = nil) {
        let body = ByteBuffer(bytes: problem.json)
        connection.respond(to: stream, HTTPResponse(status: problem.status, contentType: .problem, body: body, allow: allow))
    }

    func eventStreamClosed(_ stream: StreamID, token: UInt32, on connection: HTTPServerConnection, reason: StreamEnd) {}
    func eventStreamDrained(_ stream: StreamID, token: UInt32, on connection: HTTPServerConnection) {}
    func connectionOpened(_ connection: HTTPServerConnection) {}
    func connectionClosed(_ connection: HTTPServerConnection) {}
    func violated(_ violation: HTTPViolation) {}
}
