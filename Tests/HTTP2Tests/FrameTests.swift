import NIOCore
import Testing

@testable import HTTP2

/// Frames made by hand, which client libraries do not send.
@Suite struct FrameTests {
    private let server = HTTP2Session(.server, limits: HTTPLimits(), chunk: FrameChunk())

    /// One frame of an HTTP/2 peer (RFC 9113 §4.1).
    private struct Frame: Equatable {
        static let (data, headers, reset, settings, windowUpdate): (UInt8, UInt8, UInt8, UInt8, UInt8) = (0, 1, 3, 4, 8)
        static let (endStream, endHeaders): (UInt8, UInt8) = (1, 4)

        var type: UInt8
        var flags: UInt8 = 0
        var stream: UInt8 = 0
        var payload: [UInt8] = []

        var bytes: [UInt8] { [0, 0, UInt8(payload.count), type, flags, 0, 0, 0, stream] + payload }

        static func head(_ stream: UInt8, _ fields: [UInt8], isEnd: Bool = false) -> Frame {
            Frame(type: headers, flags: endHeaders | (isEnd ? endStream : 0), stream: stream, payload: fields)
        }

        static func update(_ stream: UInt8, by increment: UInt32) -> Frame {
            Frame(type: windowUpdate, stream: stream, payload: withUnsafeBytes(of: increment.bigEndian) { Array($0) })
        }
    }

    /// `:method: POST`, `:scheme: http`, `:path: /`, from HPACK's table (RFC 7541 appendix A), and `:authority: a`.
    private static let post: [UInt8] = [0x83, 0x86, 0x84, 0x01, 1, UInt8(ascii: "a")]

    /// A field that is not in a table (RFC 7541 §6.2.2).
    private static func field(_ name: String, _ value: String) -> [UInt8] {
        [0, UInt8(name.utf8.count)] + name.utf8 + [UInt8(value.utf8.count)] + value.utf8
    }

    /// Gives frames to the server. Returns the slots of complete requests.
    @discardableResult private func send(_ frames: [Frame], isFirst: Bool = false) -> [Int] {
        let preface = isFirst ? Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) : []
        let bytes = preface + frames.flatMap(\.bytes)
        #expect(bytes.withUnsafeBytes { server.receive($0, at: .distantPast) })
        var requests: [Int] = []
        server.takeEvents { if case .request(let slot) = $0 { requests.append(slot) } }
        return requests
    }

    /// The frames that the server sends.
    private func frames() -> [Frame] {
        var buffer = ByteBuffer()
        _ = server.send(into: &buffer, bytesMax: 1 << 20)
        server.takeEvents { _ in }
        var frames: [Frame] = []
        while let head = buffer.readBytes(length: 9), let payload = buffer.readBytes(length: Int(head[1]) << 8 | Int(head[2])) {
            frames.append(Frame(type: head[3], flags: head[4], stream: head[8], payload: payload))
        }
        return frames
    }

    @Test("A trailer does not change the head")
    func trailer() throws {
        let requests = send(
            [
                Frame(type: Frame.settings), .head(1, Self.post + Self.field("authorization", "A") + Self.field("last-event-id", "7")),
                Frame(type: Frame.data, stream: 1, payload: Array("{}".utf8)),
                .head(1, Self.field("authorization", "B") + Self.field("last-event-id", "8"), isEnd: true),
            ], isFirst: true)
        let slot = try #require(requests.first)
        let head = server.streams[slot].takeHead()
        let body = server.streams[slot].takeBody()
        head.withUnsafeBufferPointer { head in
            body.withUnsafeBufferPointer { body in
                let request = server.streams[slot].layout.request(server.id(of: slot), head, body, refused: nil)
                #expect(String(decoding: request.authorization, as: UTF8.self) == "A")
                #expect(String(decoding: request.lastEventID, as: UTF8.self) == "7")
                #expect(String(decoding: request.body, as: UTF8.self) == "{}")
            }
        }
    }

    /// CVE-2025-8671: the slot is free for the next stream, while the call goes on. A window cannot be larger than 2³¹ - 1.
    @Test("A stream that is reset by the fault of its peer counts as reset by the peer", arguments: [false, true])
    func resetByFaultOfThePeer(isEventStream: Bool) throws {
        let slot = try #require(send([Frame(type: Frame.settings), .head(1, Self.post, isEnd: true)], isFirst: true).first)
        if isEventStream { [HTTP2Headers.status(200)].withUnsafeBufferPointer { server.openEvents(slot, $0) } }
        send([.update(1, by: UInt32(Int32.max))])
        #expect(frames().contains { $0.type == Frame.reset && $0.stream == 1 })
        #expect(server.takeResets() == 1)
        send([.head(3, Self.post, isEnd: true), Frame(type: Frame.reset, stream: 3, payload: [0, 0, 0, 8])])
        #expect(server.takeResets() == 1, "the reset of the peer counts once")
    }

    @Test("A stream that this side resets does not count as reset by the peer")
    func resetByThisSide() throws {
        let slot = try #require(send([Frame(type: Frame.settings), .head(1, Self.post, isEnd: true)], isFirst: true).first)
        server.reset(slot, error: 8)
        #expect(frames().contains { $0.type == Frame.reset })
        #expect(server.takeResets() == 0)
    }

    @Test("The first head, and then each frame other than a body, has its time from its first byte on")
    func awaitedBytes() {
        func receive(_ bytes: some Collection<UInt8>, second: Int64) {
            #expect(Array(bytes).withUnsafeBytes { server.receive($0, at: .uptimeNanoseconds(0) + .seconds(second)) })
        }
        func rest(since second: Int64) -> HTTP2Session.Awaited { .rest(since: .uptimeNanoseconds(0) + .seconds(second)) }
        let head = Frame.head(1, Self.post).bytes, nextHead = Frame.head(3, Self.post).bytes
        let body = Frame(type: Frame.data, stream: 1, payload: [1, 2, 3]).bytes
        #expect(server.awaited == .firstHead)
        receive(Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + Frame(type: Frame.settings).bytes + head.prefix(12), second: 1)
        #expect(server.awaited == .firstHead)
        receive(head.dropFirst(12), second: 2)
        #expect(server.awaited == .nothing)
        receive(body.prefix(10), second: 3)
        #expect(server.awaited == .nothing, "the rest is a body")
        receive(body.dropFirst(10) + body.prefix(4), second: 4)
        #expect(server.awaited == rest(since: 4))
        receive(body[4..<6], second: 5)
        #expect(server.awaited == rest(since: 4), "the time of a frame goes on")
        receive(body.dropFirst(6) + nextHead.prefix(10), second: 6)
        #expect(server.awaited == rest(since: 6), "the time of the next frame begins")
        receive(nextHead.dropFirst(10), second: 7)
        #expect(server.awaited == .nothing)
    }

    @Test("A session leaves from its call on, and its one GOAWAY is sent once")
    func goAwayOnce() {
        send([Frame(type: Frame.settings)], isFirst: true)
        #expect(!server.isLeaving)
        server.goAway()
        server.goAway()
        #expect(server.isLeaving)
        #expect(frames().filter { $0.type == 7 }.count == 1)
        server.goAway()
        #expect(server.isLeaving && frames().isEmpty)
    }

    /// With `SETTINGS_INITIAL_WINDOW_SIZE` 0 each stream gets its window by WINDOW_UPDATE, which nghttp2 does not get.
    @Test("An event stream that began without a window ends")
    func eventStreamWithoutWindow() throws {
        let settings = Frame(type: Frame.settings, payload: [0, 4, 0, 0, 0, 0])
        let slot = try #require(send([settings, .head(1, Self.post, isEnd: true)], isFirst: true).first)
        [HTTP2Headers.status(200)].withUnsafeBufferPointer { server.openEvents(slot, $0) }
        _ = server.push(ByteBuffer(repeating: 7, count: 100), to: slot)
        #expect(!frames().contains { $0.type == Frame.data })
        send([.update(1, by: 60)])
        #expect(frames().filter { $0.type == Frame.data }.map(\.payload.count) == [60])
        server.finish(slot)
        send([.update(1, by: 40)])
        let last = frames().filter { $0.type == Frame.data }
        #expect(last.map(\.payload.count) == [40, 0] && last.map(\.flags) == [0, Frame.endStream])
        #expect(server.openCount == 0)
    }

    @Test("The rest of a body that does not fit is not a request")
    func bodyThatDoesNotFit() {
        var limits = HTTPLimits()
        limits.bufferedBytesMax = 5
        let server = HTTP2Session(.server, limits: limits, chunk: FrameChunk())
        let frames: [Frame] = [
            Frame(type: Frame.settings), .head(1, Self.post), .head(3, Self.post), Frame(type: Frame.data, stream: 1, payload: [1, 1, 1]),
            Frame(type: Frame.data, stream: 3, payload: [3, 3, 3]), Frame(type: Frame.data, flags: Frame.endStream, stream: 1),
            Frame(type: Frame.data, flags: Frame.endStream, stream: 3, payload: [3]),
        ]
        let bytes = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + frames.flatMap(\.bytes)
        #expect(bytes.withUnsafeBytes { server.receive($0, at: .distantPast) })
        var (requests, overflows): ([Int32], [Int32]) = ([], [])
        server.takeEvents { event in
            if case .request(let slot) = event { requests.append(server.streams[slot].number) }
            if case .overflow(let slot) = event { overflows.append(server.streams[slot].number) }
        }
        #expect(requests == [1] && overflows == [3])
        #expect(server.bufferedBytes == server.streams[0].bufferedBytes && server.streams[0].body.count == 3)
        _ = server.takeRequest(0)
        #expect(server.bufferedBytes == 0)
    }

    @Test("An answer that its client does not read counts as stuck after the idle timeout, and an event stream never does")
    func unreadAnswerIsStuck() {
        let limits = HTTPLimits()
        var stream = HTTP2Stream()
        stream.open(1, at: .uptimeNanoseconds(0))
        let late = NIODeadline.uptimeNanoseconds(0) + limits.idleTimeout + .seconds(1)
        #expect(stream.report() == true)
        #expect(!stream.isStuck(at: late, limits), "the application has not answered yet")
        var events = stream
        #expect(stream.beginAnswer() && events.beginEvents())
        #expect(stream.isStuck(at: late, limits) && !stream.isStuck(at: late - .seconds(2), limits))
        #expect(events.isStuck(at: late, limits) == false)
    }
}
