import Testing

@testable import PresenceWire

private let trace = "4bf92f3577b34da6a3ce929d0e0e4736"
private let span = "00f067aa0ba902b7"
private let noTrace = String(repeating: "0", count: 32)

/// The rules of `traceparent` (W3C Trace Context, level 1, §3.2).
@Suite struct TraceContextTests {
    private static func read(_ text: String) -> TraceContext? {
        Array(text.utf8).withUnsafeBufferPointer { TraceContext(header: $0) }
    }

    @Test(
        "A valid value gives the IDs and the sampled flag; other flags and later versions are accepted",
        arguments: [
            ("00-\(trace)-\(span)-01", true), ("00-\(trace)-\(span)-00", false), ("00-\(trace)-\(span)-03", true),
            ("00-\(trace)-\(span)-fe", false), ("01-\(trace)-\(span)-01", true), ("cc-\(trace)-\(span)-01-what-comes-later", true),
            ("fe-\(trace)-\(span)-00-", false), ("01-\(trace)-\(span)-ff-\(noTrace)", true),
        ])
    func valid(text: String, isSampled: Bool) throws {
        let context = try #require(Self.read(text))
        #expect(context.traceIDText == trace && context.spanIDText == span && context.isSampled == isSampled)
    }

    @Test(
        "A value that breaks a rule is ignored",
        arguments: [
            "", "00", "00-\(trace)-\(span)", "00-\(trace)-\(span)-", "00-\(trace)-\(span)-0", "00-\(trace)-\(span)-01-",
            "00-\(trace)-\(span)-011",
            "00-\(trace)-\(span)-01-more", "ff-\(trace)-\(span)-01", "00-\(noTrace)-\(span)-01", "00-\(trace)-\(noTrace.prefix(16))-01",
            "00-\(trace.uppercased())-\(span)-01", "00-\(trace)-\(span.uppercased())-01", "0G-\(trace)-\(span)-01",
            "00-\(trace)-\(span)-0x",
            "00_\(trace)-\(span)-01", "00-\(trace)_\(span)-01", "00-\(trace)-\(span)_01", "0-\(trace)-\(span)-001",
            "CC-\(trace)-\(span)-01",
            "00-\(trace.dropLast())g-\(span)-01", " 00-\(trace)-\(span)-01", "00-\(trace)-\(span)-01 ", "cc-\(trace)-\(span)-01.more",
            "00-\(trace.dropLast())-\(span)0-01", "00-\(trace)-\(span),00-\(trace)-\(span)-01",
        ])
    func invalid(text: String) { #expect(Self.read(text) == nil) }

    @Test("IDs keep their leading zeros, and half of a trace ID may be 0") func leadingZeros() throws {
        for id in ["00000000000000000000000000000001", "00000000000000010000000000000000", "0123456789abcdef0fedcba987654321"] {
            let context = try #require(Self.read("00-\(id)-0000000000000001-00"))
            #expect(context.traceIDText == id && context.spanIDText == "0000000000000001")
        }
    }

    @Test("A child has its own span, and the trace and the flag of its parent") func children() throws {
        let parent = try #require(Self.read("00-\(trace)-\(span)-01"))
        let child = parent.child(span: 0xAB)
        #expect(child.traceIDText == trace && child.spanIDText == "00000000000000ab" && child.isSampled)
    }

    @Test("A request of a trace is one message, and one whose IDs are 0 is not read") func wire() throws {
        let request = Request(id: 1, user: WireTests.ann, operation: .register)
        var plain = WireWriter()
        plain.message(.request(request))
        let context = try #require(TraceContext(traceHigh: .max, traceLow: 0, span: 1, isSampled: true))
        var traced = WireWriter()
        traced.message(.traced(context, request))
        #expect(traced.bytes.count == plain.bytes.count + 10 + 1 + 1 + 1)
        #expect(traced.bytes.suffix(plain.bytes.count - 1) == plain.bytes.dropFirst())
        for (position, byte) in [(11, UInt8(1)), (12, 0)] {
            // The byte of the lower half of the trace ID may be 1. That of the span may not be 0.
            var bytes = traced.bytes
            bytes[position] = byte
            let isRead = bytes.withUnsafeBytes { bytes in
                var reader = WireReader(bytes)
                return (try? reader.message()) != nil
            }
            #expect(isRead == (byte != 0), "\(position)")
        }
    }
}
