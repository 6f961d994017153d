import AsyncHTTPClient
import Foundation
import Logging
import NIOConcurrencyHelpers
import NIOCore
import PresenceWire

/// A finished span of a sampled trace.
struct FinishedSpan: Sendable {
    let context: TraceContext
    /// The ID of the span around it.
    let parent: UInt64
    /// The operation.
    let name: String
    /// Nanoseconds since 1970, by the node's wall clock.
    let start: Int64
    let end: Int64
    /// Whether the operation has failed because of the node: a status of 500 and above.
    let isFailed: Bool
    let attributes: [(name: StaticString, value: String)]
}

/// The finished spans on their way to a collector, by OTLP over HTTP in JSON.
///
/// The spans wait in memory, and leave in batches. A span that finds no room is dropped, and so is a batch that the collector does not
/// take: traces must not cost the node its memory. Both are counted.
final class SpanExporter: Sendable {
    /// Most spans that wait.
    static let spansMax = 2_048
    /// Most spans of a request.
    static let batchMax = 512
    /// The time between two exports.
    static let interval = TimeAmount.seconds(5)
    private static let timeout = TimeAmount.seconds(5)
    /// The time for the last export of a node that stops.
    private static let lastTimeout = TimeAmount.seconds(2)

    /// Counts since the start.
    struct Counts: Sendable, Equatable {
        var exported: UInt64 = 0
        /// Spans that found no room.
        var full: UInt64 = 0
        /// Spans of batches that the collector did not take.
        var failed: UInt64 = 0
    }

    private struct State {
        var waiting: [FinishedSpan] = []
        var counts = Counts()
        /// Why the last batch was not taken; nil if it was.
        var failure: String?
        /// The connections to the collector, from the first export on.
        var client: HTTPClient?
        var running: Task<Void, Never>?
        var isStopped = false
    }

    private let state = NIOLockedValueBox(State())
    private let url: String
    private let node: String
    private let loop: any EventLoop
    private let logger: Logger

    /// - Parameters:
    ///   - endpoint: the URL of the collector. The spans go to `/v1/traces` below it.
    ///   - node: the name of this node.
    init(endpoint: String, node: String, loop: any EventLoop, logger: Logger) {
        url = (endpoint.hasSuffix("/") ? String(endpoint.dropLast()) : endpoint) + "/v1/traces"
        (self.node, self.loop, self.logger) = (node, loop, logger)
    }

    /// Makes the exporter of a node; nil without the setting `otlpEndpoint`.
    convenience init?(_ configuration: NodeConfiguration, loop: any EventLoop, logger: Logger) {
        guard let endpoint = configuration.log.otlpEndpoint else { return nil }
        self.init(endpoint: endpoint, node: configuration.nodeID, loop: loop, logger: logger)
    }

    private func makeClient() -> HTTPClient {
        var configuration = HTTPClient.Configuration()
        configuration.redirectConfiguration = .disallow
        configuration.timeout.connect = .seconds(5)
        configuration.connectionPool.retryConnectionEstablishment = false
        return HTTPClient(eventLoopGroupProvider: .shared(loop), configuration: configuration)
    }

    var counts: Counts { state.withLockedValue { $0.counts } }

    /// Adds a span; drops it if too many wait. Call it on any thread.
    func add(_ span: FinishedSpan) {
        state.withLockedValue { state in
            if state.waiting.count < Self.spansMax { state.waiting.append(span) } else { state.counts.full += 1 }
        }
    }

    /// Begins to send the spans that wait, unless an earlier export is under way. Call it every ``interval``.
    func exportSoon() {
        state.withLockedValue { state in
            guard state.running == nil, !state.waiting.isEmpty, !state.isStopped else { return }
            state.running = Task {
                await export(timeout: Self.timeout)
                self.state.withLockedValue { $0.running = nil }
            }
        }
    }

    /// Sends a batch after the other, at most as many spans as may wait. Ends at the first batch that the collector does not take.
    private func export(timeout: TimeAmount) async {
        for _ in 0..<Self.spansMax / Self.batchMax {
            let batch = takeBatch()
            guard !batch.isEmpty else { return }
            let failure = await send(batch, timeout: timeout)
            let isNews = state.withLockedValue { state in
                if failure == nil { state.counts.exported += UInt64(batch.count) } else { state.counts.failed += UInt64(batch.count) }
                defer { state.failure = failure }
                return state.failure != failure
            }
            if isNews, let failure {
                logger.warning("spans: the collector does not take them", metadata: ["url": "\(url)", "reason": "\(failure)"])
            } else if isNews {
                logger.notice("spans: the collector takes them again", metadata: ["url": "\(url)"])
            }
            if failure != nil { return }
        }
    }

    private func takeBatch() -> [FinishedSpan] {
        state.withLockedValue { state in
            let batch = Array(state.waiting.prefix(Self.batchMax))
            state.waiting.removeFirst(batch.count)
            return batch
        }
    }

    /// Sends a batch. Returns the reason why the collector has not taken it, nil if it has.
    private func send(_ batch: [FinishedSpan], timeout: TimeAmount) async -> String? {
        var request = HTTPClientRequest(url: url)
        request.method = .POST
        request.headers = ["Content-Type": "application/json", "User-Agent": "Rollcall/\(Release.version)"]
        request.body = .bytes(ByteBuffer(bytes: Self.body(of: batch, node: node)))
        let client = state.withLockedValue { state in
            let client = state.client ?? makeClient()
            state.client = client
            return client
        }
        do {
            // The body of the answer is not read: a collector could leave it without an end.
            let response = try await client.execute(request, timeout: timeout)
            return (200..<300).contains(response.status.code) ? nil : "it answered \(response.status.code)"
        } catch { return "\(error)" }
    }

    /// Sends what waits, at most two seconds for each batch, and ends the connections. Call it once, after the last span.
    func stop() async {
        let running = state.withLockedValue { state in
            state.isStopped = true
            return state.running
        }
        running?.cancel()
        await running?.value
        await export(timeout: Self.lastTimeout)
        guard let client = state.withLockedValue({ $0.client }) else { return }
        do { try await client.shutdown() } catch { logger.debug("spans: connections did not close", metadata: ["reason": "\(error)"]) }
    }

    // MARK: OTLP

    /// The kind of a span for the server's side of a request.
    fileprivate static let serverKind: Int64 = 2
    /// The status code of an error.
    fileprivate static let errorCode: Int64 = 2

    /// The body of a request, as the JSON form of OTLP has it: IDs are hexadecimal, and numbers of 64 bits are texts.
    static func body(of spans: [FinishedSpan], node: String) -> [UInt8] {
        var json = JSONWriter(reserving: 512 * (spans.count + 1))
        json.object { json in
            json.array("resourceSpans") { json in
                json.object { json in
                    json.key("resource")
                    json.object {
                        $0.attributes([
                            ("service.name", "rollcall"), ("service.instance.id", node), ("service.version", Release.version),
                        ])
                    }
                    json.array("scopeSpans") { json in
                        json.object { json in
                            json.key("scope")
                            json.object { json in json.member("name", "rollcall") }
                            json.array("spans") { json in for span in spans { json.span(span) } }
                        }
                    }
                }
            }
        }
        return json.bytes
    }
}

extension JSONWriter {
    fileprivate mutating func array(_ name: StaticString, _ body: (inout JSONWriter) -> Void) {
        key(name)
        array(body)
    }

    fileprivate mutating func span(_ span: FinishedSpan) {
        object { json in
            json.member("traceId", span.context.traceIDText)
            json.member("spanId", span.context.spanIDText)
            json.member("parentSpanId", TraceContext.text(ofSpan: span.parent))
            json.member("name", span.name)
            json.member("kind", SpanExporter.serverKind)
            json.member("startTimeUnixNano", "\(span.start)")
            json.member("endTimeUnixNano", "\(span.end)")
            json.attributes(span.attributes)
            json.key("status")
            json.object { json in if span.isFailed { json.member("code", SpanExporter.errorCode) } }
        }
    }

    fileprivate mutating func attributes(_ attributes: [(name: StaticString, value: String)]) {
        array("attributes") { json in
            for attribute in attributes {
                json.object { json in
                    json.member("key", "\(attribute.name)")
                    json.key("value")
                    json.object { $0.member("stringValue", attribute.value) }
                }
            }
        }
    }
}
