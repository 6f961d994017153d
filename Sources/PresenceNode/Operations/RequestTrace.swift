import HTTP2
import Logging
import PresenceWire

extension Logger {
    /// Begins a span for a request that belongs to a client's trace, and logs it at the level `debug`. Returns nil for other requests.
    ///
    /// A `traceparent` that breaks a rule is ignored (W3C Trace Context, level 1, §3.2.2).
    func traced(_ request: HTTPRequest, _ operation: String, on connection: HTTPServerConnection) -> TraceContext? {
        guard !request.traceparent.isEmpty, let parent = TraceContext(header: request.traceparent) else { return nil }
        let span = parent.child()
        debug(
            "request traced",
            metadata: [
                "requestID": "\(connection.requestID(of: request.stream))", "operation": "\(operation)", "trace_id": "\(span.traceIDText)",
                "span_id": "\(span.spanIDText)", "parent_span_id": "\(parent.spanIDText)", "trace_sampled": "\(span.isSampled)",
                "peer": "\(connection.remoteAddress)",
            ])
        return span
    }

    /// Logs, at the level `debug`, a request of another node that belongs to a client's trace.
    func traced(_ parent: TraceContext, _ operation: OwnerOperation, from node: NodeID) {
        guard logLevel <= .debug else { return }
        let span = parent.child()
        // The case has the name of the operation. Its values may be private.
        let name = "\(operation)".prefix { $0 != "(" }
        debug(
            "request of another node traced",
            metadata: [
                "node": "\(node)", "operation": "\(name)", "trace_id": "\(span.traceIDText)", "span_id": "\(span.spanIDText)",
                "parent_span_id": "\(parent.spanIDText)", "trace_sampled": "\(span.isSampled)",
            ])
    }
}

extension TraceContext {
    /// A span with a new ID inside this one.
    func child() -> TraceContext { child(span: .random(in: 1...UInt64.max)) }
}
