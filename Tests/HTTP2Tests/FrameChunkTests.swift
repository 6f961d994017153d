import NIOCore
import Testing

@testable import HTTP2

/// Sessions that share the memory of one ``FrameChunk``.
@Suite struct FrameChunkTests {
    private let chunk = FrameChunk()
    private let servers: [HTTP2Session]

    init() { servers = [0, 1].map { [chunk] _ in HTTP2Session(.server, limits: HTTPLimits(), chunk: chunk) } }

    private static func frame(_ type: UInt8, flags: UInt8 = 0, stream: UInt8 = 0, _ payload: [UInt8]) -> [UInt8] {
        [0, 0, UInt8(payload.count), type, flags, 0, 0, 0, stream] + payload
    }

    /// A request for `GET http://a` and the path that `path` encodes.
    private static func request(_ stream: UInt8, path: [UInt8]) -> [UInt8] {
        frame(1, flags: 5, stream: stream, [0x82, 0x86] + path + [0x01, 1, UInt8(ascii: "a")])
    }

    /// A path that is added to the decoder's table (RFC 7541 §6.2.1).
    private static func entering(_ path: String) -> [UInt8] { [0x44, UInt8(path.utf8.count)] + path.utf8 }

    /// The newest entry of the decoder's table (RFC 7541 §6.1).
    private static let newestEntry: [UInt8] = [0x80 | 62]

    /// Gives bytes to a server, answers each request, and returns the requested paths.
    private func paths(asked server: HTTP2Session, _ bytes: [UInt8]) -> [String] {
        #expect(bytes.withUnsafeBytes { server.receive($0, at: .distantPast) })
        var paths: [String] = []
        // The bytes of the date are read when the answer is sent.
        let date = HTTPDate()
        defer { withExtendedLifetime(date) {} }
        server.takeEvents { event in
            guard case .request(let slot) = event else { return }
            let head = server.streams[slot].takeHead()
            head.withUnsafeBufferPointer { head in
                let body = UnsafeBufferPointer<UInt8>(start: nil, count: 0)
                let request = server.streams[slot].layout.request(server.id(of: slot), head, body, refused: nil)
                paths.append(String(decoding: request.target, as: UTF8.self))
            }
            let answer = HTTPAnswerHead(status: 299, contentType: .problem, bodyBytesCount: 0, retryAfter: 1_234, allow: "PATCH")
            RequestID(loop: 1, connection: 1, request: 1).withText { id in
                HTTP2Headers.withFields(of: answer, date, nil, id: id) { server.respond(slot, $0) }
            }
        }
        var buffer = ByteBuffer()
        _ = server.send(into: &buffer, bytesMax: 1 << 20)
        #expect(buffer.readableBytes > 0)
        server.takeEvents { _ in }
        return paths
    }

    @Test("Sessions share the encoder's table, which stays empty, and each has a decoder's table of its own")
    func tablesOfDecodersAreApart() {
        let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
        // SETTINGS_HEADER_TABLE_SIZE of 64 KiB: the peer would keep the entries of the encoder.
        let settings = Self.frame(4, [0, 1, 0, 1, 0, 0])
        for (server, path) in zip(servers, ["/one", "/two"]) {
            #expect(paths(asked: server, preface + settings + Self.request(1, path: Self.entering(path))) == [path])
        }
        for (server, path) in zip(servers, ["/one", "/two"]) {
            #expect(paths(asked: server, Self.request(3, path: Self.newestEntry)) == [path])
        }
        #expect(chunk.isTableUntouched)
    }
}
