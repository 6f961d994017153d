import CZlib
import Foundation
import NIOCore
import Testing

@testable import HTTP2

/// The choice of an answer's content coding (RFC 9110 §12.5.3), and the compressor. `CompressionTests` shows both on real nodes.
@Suite struct ContentCodingTests {
    @Test(
        "gzip is accepted if it is named, or all codings are, and not with q=0",
        arguments: [
            ("gzip", true), ("GZIP", true), ("x-gzip", true), ("gzip, deflate, br, zstd", true), ("br,gzip", true),
            (" deflate , gzip ", true),
            ("gzip;q=0.5", true), ("gzip ; q=1", true), ("gzip;q=0.001", true), ("*", true), ("br, *;q=0.1", true),
            ("", false), ("identity", false), ("br", false), ("gzipped", false), ("gzip;q=0", false), ("gzip; q=0.000", false),
            ("*;q=0", false), ("gzip;q=0, *", false), ("*, gzip;q=0", false), (",,", false), (";q=1", false),
        ]) func accepts(_ value: String, _ isAccepted: Bool)
    {
        #expect(Array(value.utf8).withUnsafeBufferPointer { ContentCoding.acceptsGzip($0) } == isAccepted)
    }

    private static func decompress(_ bytes: UnsafeBufferPointer<UInt8>, upTo count: Int) -> [UInt8] {
        var stream = z_stream()
        var text = [UInt8](repeating: 0, count: count)
        text.withUnsafeMutableBufferPointer { text in
            let isReady = inflateInit2_(&stream, 15 + 16, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size)) == Z_OK
            #expect(isReady)
            stream.next_in = UnsafeMutablePointer(mutating: bytes.baseAddress)
            stream.avail_in = UInt32(bytes.count)
            stream.next_out = text.baseAddress
            stream.avail_out = UInt32(text.count)
            let isWhole = inflate(&stream, Z_FINISH) == Z_STREAM_END
            #expect(isWhole)
            inflateEnd(&stream)
        }
        return Array(text.prefix(Int(stream.total_out)))
    }

    @Test("A compressor gives the text back, one text after the other, and refuses what does not become shorter") func compressor() throws {
        let compressor = GzipCompressor(level: GzipCompressor.fastest)
        var random = SystemRandomNumberGenerator()
        for count in [1_024, 100_000, 2_000, 1 << 20, 1_024] {
            let text = (0..<count).map { UInt8(truncatingIfNeeded: 32 + ($0 / 7) % 60) }
            let isSame = try text.withUnsafeBufferPointer { bytes -> Bool in
                let compressed = try #require(compressor.compress(bytes))
                return compressed.count < count / 3 && Self.decompress(compressed, upTo: count) == text
            }
            #expect(isSame, "\(count) bytes")
            let noise = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
            let isRefused = noise.withUnsafeBufferPointer { compressor.compress($0) == nil }
            #expect(isRefused)
        }
    }

    @Test("A text that is compressed in parts comes back, and a payload is complete before the next one") func parts() throws {
        let compressor = GzipCompressor(level: GzipCompressor.fastest)
        var random = SystemRandomNumberGenerator()
        for count in [0, 1, 100_000, 1 << 20] {
            let text = (0..<count).map { _ in UInt8.random(in: 97...110, using: &random) }
            var result = ByteBuffer()
            compressor.begin()
            text.withUnsafeBufferPointer { bytes in
                for start in stride(from: 0, to: count, by: 30_000) {
                    compressor.append(UnsafeBufferPointer(rebasing: bytes[start..<min(start + 30_000, count)]), .piece, to: &result)
                }
                compressor.append(UnsafeBufferPointer(start: nil, count: 0), .last, to: &result)
            }
            let isSame = result.withUnsafeReadableBytes { Self.decompress($0.bindMemory(to: UInt8.self), upTo: count + 1) == text }
            #expect(isSame, "\(count) bytes")
        }
        let stream = StreamCompressor()
        var sent = stream.compressed(ByteBuffer(string: "first\n"))
        #expect(sent.readableBytes > 10 && sent.readableBytesView.suffix(4).elementsEqual([0, 0, 0xFF, 0xFF]))
        for payload in [stream.compressed(ByteBuffer(string: "second\n")), stream.end()] { sent.writeImmutableBuffer(payload) }
        let text = sent.withUnsafeReadableBytes { Self.decompress($0.bindMemory(to: UInt8.self), upTo: 100) }
        #expect(text == Array("first\nsecond\n".utf8))
    }

    @Test("A text for many is compressed once") func repeated() throws {
        let text = RepeatedText(ByteBuffer(repeating: 65, count: 10_000), isLasting: true)
        let first = try #require(text.compressed), second = try #require(text.compressed)
        #expect(first.readableBytes < 100 && first == second)
        let bases = [first, second].map { $0.withUnsafeReadableBytes { $0.baseAddress } }
        #expect(bases[0] == bases[1])
    }

    /// The heads of the answers to a request, and the bytes behind them.
    private func answer(_ fields: String, method: String = "GET", count: Int) async throws -> String {
        let server = try await HTTP1Server.start { request, connection in
            let body = [UInt8](repeating: 97, count: count)
            if request.target.count == 2 {
                body.withUnsafeBufferPointer { connection.respond(to: request.stream, status: 200, contentType: .json, body: $0) }
            } else {
                connection.respond(to: request.stream, HTTPResponse(status: 200, contentType: .text, body: ByteBuffer(bytes: body)))
            }
        }
        let text = ["/x", "/long"].map { "\(method) \($0) HTTP/1.1\r\nHost: a\r\n\(fields)\r\n" }.joined()
        let peer = try await HTTP1Peer.connect(to: server.port, sending: text + "GET /z HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        let received = try await peer.textUntilClosed()
        try await server.stop()
        return received
    }

    @Test("Both ways to answer compress from 1 KiB on, also for HEAD, and say that the answer varies", arguments: ["GET", "HEAD"])
    func answers(method: String) async throws {
        func count(_ part: String, in text: String) -> Int { text.components(separatedBy: part).count - 1 }
        let long = try await answer("Accept-Encoding: br, gzip\r\n", method: method, count: 1_024)
        #expect(count("content-encoding: gzip", in: long) == 2 && count("vary: Accept-Encoding", in: long) == 3, "\(long)")
        #expect(count("content-length: 1024", in: long) == 1)
        let plain = try await answer("", method: method, count: 1_024)
        #expect(count("content-encoding", in: plain) == 0 && count("vary: Accept-Encoding", in: plain) == 3)
        let short = try await answer("Accept-Encoding: gzip\r\n", method: method, count: 1_023)
        #expect(count("content-encoding", in: short) == 0 && count("vary", in: short) == 0)
    }

    @Test("An answer that is too long for one turn of the loop is compressed as well") func longAnswers() async throws {
        func count(_ part: String, in text: String) -> Int { text.components(separatedBy: part).count - 1 }
        let long = try await answer("Accept-Encoding: gzip\r\n", count: 2 << 20)
        #expect(count("content-encoding: gzip", in: long) == 2 && count("vary: Accept-Encoding", in: long) == 3)
        #expect(count("content-length: 2097152", in: long) == 1)
    }

    @Test("Long answers are compressed one after the other, and those of clients that left are dropped")
    func longAnswersOfMany() async throws {
        var limits = HTTPLimits()
        limits.heldBytesMax = 64 << 20
        let server = try await RawServer.start(limits) { request, connection in
            let body = ByteBuffer(repeating: 97, count: 4 << 20)
            connection.respond(to: request.stream, HTTPResponse(status: 200, contentType: .json, body: body))
        }
        let fields = RawFrame.get + RawFrame.field("accept-encoding", "gzip")
        let requests: [RawFrame] = [.head(1, fields), .head(3, fields)]
        let leaving = try await RawPeer.connect(to: server.port, sending: RawFrame.hello)
        leaving.send(requests)
        let staying = try await RawPeer.connect(to: server.port, sending: RawFrame.hello)
        staying.send(requests)
        try await leaving.close()
        let frames = try await staying.frames { frames, _ in frames.count { $0.isEnd } == 2 }
        // A text of one letter becomes very short.
        #expect(frames.filter { $0.kind == .data }.reduce(0) { $0 + $1.payload.count } < 64 << 10)
        try await server.until { $0.http.heldBytes == 0 }
        try await server.stop()
    }
}
