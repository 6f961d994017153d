import HTTP2
import Logging
import PresenceCore
import PresenceWire

/// The span of a request that belongs to a client's trace, from its arrival to its answer.
final class RequestSpan: Sendable {
    /// The trace, and the ID of this span.
    let context: TraceContext
    fileprivate let parent: UInt64
    fileprivate let operation: String
    fileprivate let requestID: String
    fileprivate let start: Int64

    fileprivate init(in parent: TraceContext, _ operation: String, requestID: String) {
        (context, self.parent, self.operation, self.requestID) = (parent.child(), parent.span, operation, requestID)
        start = Clock.wallNanoseconds()
    }
}

/// Opens spans for the requests of traces, logs them at the level `debug`, and hands the sampled ones to the exporter.
struct Tracer: Sendable {
    let logger: Logger
    /// The way to the collector; nil without the setting `otlpEndpoint`.
    let exporter: SpanExporter?

    /// Begins the span of a request. Returns nil for a request without a trace.
    ///
    /// A `traceparent` that breaks a rule is ignored (W3C Trace Context, level 1, §3.2.2).
    func begin(_ request: HTTPRequest, _ operation: String, on connection: HTTPServerConnection) -> RequestSpan? {
        guard !request.traceparent.isEmpty, let parent = TraceContext(header: request.traceparent) else { return nil }
        let span = RequestSpan(in: parent, operation, requestID: connection.requestID(of: request.stream))
        logger.debug(
            "request traced",
            metadata: [
                "requestID": "\(span.requestID)", "operation": "\(operation)", "trace_id": "\(span.context.traceIDText)",
                "span_id": "\(span.context.spanIDText)", "parent_span_id": "\(parent.spanIDText)",
                "trace_sampled": "\(span.context.isSampled)", "peer": "\(connection.remoteAddress)",
            ])
        return span
    }

    /// Ends the span of a request with its answer.
    ///
    /// - Parameters:
    ///   - status: the HTTP status.
    ///   - code: the code of a refusal; 0 for a success.
    func end(_ span: RequestSpan, status: Int = 200, code: Int = 0) {
        guard span.context.isSampled, let exporter else { return }
        exporter.add(
            FinishedSpan(
                context: span.context, parent: span.parent, name: span.operation, start: span.start, end: Clock.wallNanoseconds(),
                isFailed: status >= 500,
                attributes: [
                    ("http.response.status_code", "\(status)"), ("rollcall.code", "\(code)"), ("rollcall.request_id", span.requestID),
                ]))
    }

    /// Logs a refused request, and ends its span. The collector is told of none without a valid token: strangers do not fill its disk.
    func refused(
        _ problem: @autoclosure () -> Problem, _ operation: String?, _ stream: StreamID, on connection: HTTPServerConnection,
        _ span: RequestSpan?
    ) {
        logger.refused(problem(), operation, stream, on: connection, trace: span?.context)
        guard let span else { return }
        let problem = problem()
        guard problem.status != 401 else { return }
        end(span, status: problem.status, code: problem.code)
    }

    /// Logs a request of another node, and exports a span that marks its arrival.
    func arrived(_ parent: TraceContext, _ operation: OwnerOperation, from node: NodeID) {
        guard exporter != nil && parent.isSampled || logger.logLevel <= .debug else { return }
        let context = parent.child()
        // The case has the name of the operation. Its values may be private, and many.
        let name = Mirror(reflecting: operation).children.first?.label ?? "\(operation)"
        logger.debug(
            "request of another node traced",
            metadata: [
                "node": "\(node)", "operation": "\(name)", "trace_id": "\(context.traceIDText)", "span_id": "\(context.spanIDText)",
                "parent_span_id": "\(parent.spanIDText)", "trace_sampled": "\(context.isSampled)",
            ])
        guard context.isSampled, let exporter else { return }
        let now = Clock.wallNanoseconds()
        exporter.add(
            FinishedSpan(
                context: context, parent: parent.span, name: name, start: now, end: now, isFailed: false,
                attributes: [("rollcall.from", node.rawValue)]))
    }
}

extension TraceContext {
    /// A span with a new ID inside this one.
    fileprivate func child() -> TraceContext { child(span: .random(in: 1...UInt64.max)) }
}
