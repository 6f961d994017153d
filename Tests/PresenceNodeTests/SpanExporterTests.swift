import Logging
import NIOPosix
import NodeFixture
import PresenceWire
import Testing

@testable import PresenceNode

/// Spans on their way to a collector: their form, their bound, and what happens to those that the collector does not take.
@Suite(.timeLimit(.minutes(1))) struct SpanExporterTests {
    private static let trace = TraceContext(
        traceHigh: 0x0AF7_6519_16CD_43DD, traceLow: 0x8448_EB21_1C80_319C, span: 0xB7AD, isSampled: true)

    private func span(_ name: String = "getUserStatus", isFailed: Bool = false) throws -> FinishedSpan {
        FinishedSpan(
            context: try #require(Self.trace), parent: 0xF067_AA0B_A902_B7, name: name, start: 1_764_391_100_007_000_001,
            end: 1_764_391_100_008_000_002, isFailed: isFailed, attributes: [("rollcall.code", "50001")])
    }

    private func exporter(_ port: Int) -> SpanExporter {
        SpanExporter(
            endpoint: "http://127.0.0.1:\(port)/", node: "n\"0", loop: MultiThreadedEventLoopGroup.singleton.next(),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    }

    @Test("A batch has the form of OTLP in JSON") func form() throws {
        let json = try JSON(SpanExporter.body(of: [span(), span("kick", isFailed: true)], node: "n\"0"))
        let resource = try #require(json["resourceSpans"]?.elements.first)
        let attributes = resource["resource"]?["attributes"]?.elements ?? []
        #expect(attributes.map { $0["key"]?.text } == ["service.name", "service.instance.id", "service.version"])
        #expect(attributes.map { $0["value"]?["stringValue"]?.text } == ["rollcall", "n\"0", Release.version])
        let scope = try #require(resource["scopeSpans"]?.elements.first)
        #expect(scope["scope"] == .object(["name": .string("rollcall")]))
        let spans = scope["spans"]?.elements ?? []
        #expect(
            spans.first
                == .object([
                    "traceId": .string("0af7651916cd43dd8448eb211c80319c"), "spanId": .string("000000000000b7ad"),
                    "parentSpanId": .string("00f067aa0ba902b7"), "name": .string("getUserStatus"), "kind": .integer(2),
                    "startTimeUnixNano": .string("1764391100007000001"), "endTimeUnixNano": .string("1764391100008000002"),
                    "attributes": .array([
                        .object(["key": .string("rollcall.code"), "value": .object(["stringValue": .string("50001")])])
                    ]),
                    "status": .object([:]),
                ]))
        #expect(spans.count == 2 && spans.last?["status"] == .object(["code": .integer(2)]))
    }

    @Test("Beyond the bound spans are dropped and counted, and the others reach the collector in batches") func bound() async throws {
        let collector = try await TextServer.start("{}")
        let exporter = exporter(collector.port)
        for _ in 0..<SpanExporter.spansMax + 7 { exporter.add(try span()) }
        #expect(exporter.counts == .init(exported: 0, full: 7, failed: 0))
        await exporter.stop()
        #expect(exporter.counts == .init(exported: UInt64(SpanExporter.spansMax), full: 7, failed: 0))
        let received = collector.received
        #expect(received.map(\.path) == Array(repeating: "/v1/traces", count: SpanExporter.spansMax / SpanExporter.batchMax))
        let counts = try received.map { received in
            try JSON(received.body)["resourceSpans"]?.elements.first?["scopeSpans"]?.elements.first?["spans"]?.elements.count
        }
        #expect(counts.allSatisfy { $0 == SpanExporter.batchMax })
        await collector.stop()
    }

    @Test("A batch that the collector refuses is dropped and counted") func refusal() async throws {
        let collector = try await TextServer.start("{}")
        collector.set("{}", status: 503)
        let exporter = exporter(collector.port)
        for _ in 0..<3 { exporter.add(try span()) }
        await exporter.stop()
        #expect(exporter.counts == .init(exported: 0, full: 0, failed: 3) && collector.requestsCount == 1)
        await collector.stop()
    }
}
