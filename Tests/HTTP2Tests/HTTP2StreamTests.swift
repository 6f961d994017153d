import NIOCore
import Testing

@testable import HTTP2

/// Every transition of ``HTTP2Stream``, and every method in every phase where it must change nothing.
@Suite struct HTTP2StreamTests {
    typealias Phase = HTTP2Stream.Phase

    /// A way to each phase from an open slot.
    static let phases: [(phase: Phase, path: [Method])] = [
        (.receiving, []), (.reported, [.report]), (.overflowed, [.overflow]), (.sending, [.report, .beginAnswer]),
        (.starved, [.report, .beginAnswer, .starve]), (.streaming(.hasRoom), [.report, .beginEvents]),
        (.streaming(.full), [.report, .beginEvents, .fill]), (.streaming(.detached), [.report, .beginEvents, .detachReader]),
        (.finishing(.hasRoom), [.report, .beginEvents, .finishEvents]),
        (.finishing(.full), [.report, .beginEvents, .fill, .finishEvents]),
        (.finishing(.detached), [.report, .beginEvents, .detachReader, .finishEvents]),
    ]

    enum Method: CaseIterable {
        case open, report, overflow, beginRequest, beginAnswer, beginEvents, starve, resume, finishEvents, fill, drain, detachReader
        // These must keep every phase.
        case completeRequest, reset, close, becomesReady

        /// Calls the method. Returns its answer; nil for a method without one, or whose answer does not depend on the phase.
        func call(_ stream: inout HTTP2Stream) -> Bool? {
            switch self {
            case .open: stream.open(3, at: .distantPast)
            case .report: return stream.report()
            case .overflow: return stream.overflow()
            case .beginRequest: stream.beginRequest(token: 7)
            case .beginAnswer: return stream.beginAnswer()
            case .beginEvents: return stream.beginEvents()
            case .starve: stream.starve()
            case .resume: return stream.resume()
            case .finishEvents: stream.finishEvents()
            case .fill: return stream.fill()
            case .drain: return stream.drain()
            case .detachReader: return stream.detachReader()
            case .completeRequest: stream.completeRequest()
            case .reset: stream.reset(isPeersFault: false)
            case .close: _ = stream.close()
            case .becomesReady: _ = stream.becomesReady()
            }
            return nil
        }

        /// The phase that follows; nil when the method must change nothing in `phase`.
        func next(after phase: Phase) -> Phase? {
            switch (self, phase) {
            case (.open, _): .receiving
            case (.report, .receiving): .reported
            case (.overflow, .receiving): .overflowed
            case (.beginRequest, .receiving): .sending
            case (.beginAnswer, .reported): .sending
            case (.beginEvents, .reported): .streaming(.hasRoom)
            case (.starve, .sending): .starved
            case (.resume, .starved): .sending
            case (.finishEvents, .streaming(let reader)): .finishing(reader)
            case (.fill, .streaming(.hasRoom)): .streaming(.full)
            case (.fill, .finishing(.hasRoom)): .finishing(.full)
            case (.drain, .streaming(.full)): .streaming(.hasRoom)
            case (.drain, .finishing(.full)): .finishing(.hasRoom)
            case (.detachReader, .streaming(.hasRoom)), (.detachReader, .streaming(.full)): .streaming(.detached)
            case (.detachReader, .finishing(.hasRoom)), (.detachReader, .finishing(.full)): .finishing(.detached)
            default: nil
            }
        }
    }

    static func stream(by path: [Method]) -> HTTP2Stream {
        var stream = HTTP2Stream()
        stream.open(1, at: .distantPast)
        for method in path { _ = method.call(&stream) }
        return stream
    }

    @Test("Each method leads to the phase of the table, and changes nothing in every other phase", arguments: Method.allCases)
    func transitions(method: Method) {
        for (phase, path) in Self.phases {
            var stream = Self.stream(by: path)
            #expect(stream.phase == phase)
            let answer = method.call(&stream)
            let next = method.next(after: phase)
            #expect(stream.phase == next ?? phase, "\(method) in \(phase)")
            if let answer { #expect(answer == (next != nil), "\(method) in \(phase)") }
        }
    }

    @Test("A client's token is set with its request, and a second request does not change it")
    func tokenOfARequest() {
        var stream = Self.stream(by: [.beginRequest])
        #expect(stream.token == 7)
        stream.beginRequest(token: 8)
        #expect(stream.token == 7)
    }

    @Test("A reset by this side is not counted as the peer's, and nothing reopens a closed stream")
    func closures() {
        typealias Closure = HTTP2Stream.Closure
        let resets: [(path: [Method], isPeersFault: Bool, next: Closure)] = [
            ([], false, .resetHere), ([], true, .open), ([.reset], false, .resetHere), ([.reset], true, .open),
            ([.close], false, .closed), ([.close], true, .closed),
        ]
        for (path, isPeersFault, next) in resets {
            var stream = Self.stream(by: path)
            stream.reset(isPeersFault: isPeersFault)
            #expect(stream.closure == next, "\(path) \(isPeersFault)")
        }
        for (path, wasResetHere) in [([], false), ([.reset], true), ([.close], false), ([.reset, .close], false)] as [([Method], Bool)] {
            var stream = Self.stream(by: path)
            #expect(stream.close() == wasResetHere, "\(path)")
            #expect(stream.closure == .closed)
        }
        #expect(Self.stream(by: [.close, .open]).closure == .open)
    }

    @Test("A head, a body and a trailer that are too large are distinguished")
    func excesses() {
        var limits = HTTPLimits()
        limits.headersCountMax = 1
        let empty = UnsafeBufferPointer<UInt8>(start: nil, count: 0)
        func count(_ fields: Int, _ stream: inout HTTP2Stream) {
            for _ in 0..<fields { stream.count(name: empty, value: empty, limits: limits) }
        }
        var stream = Self.stream(by: [])
        count(1, &stream)
        #expect(stream.excess == .none)
        count(1, &stream)
        #expect(stream.excess == .head && stream.hasTooLargeHead && !stream.hasTooLargeBody)
        count(1, &stream)
        #expect(stream.excess == .head)
        stream.open(3, at: .distantPast)
        #expect(stream.excess == .none)
        stream.receive(body: UnsafeRawBufferPointer(start: nil, count: 0))
        [1, 2, 3].withUnsafeBytes { stream.receive(body: $0) }
        let heldBytes = stream.body.count
        #expect(stream.refuseBody() == heldBytes && stream.body.isEmpty)
        #expect(stream.excess == .body && !stream.hasTooLargeHead && stream.hasTooLargeBody)
        for _ in 0..<2 {
            count(2, &stream)
            #expect(stream.excess == .bodyAndTrailer && stream.hasTooLargeHead && stream.hasTooLargeBody)
        }
    }

    @Test("A slot stays in the list of ready streams when another stream takes it")
    func readinessOutlivesTheStream() {
        var stream = Self.stream(by: [.report, .beginEvents])
        let turns = ["a", "b"].map { stream.push(ByteBuffer(string: $0)).becameReady }
        #expect(turns == [true, false])
        stream.open(3, at: .distantPast)
        #expect(stream.isReady && !stream.becomesReady())
    }

    @Test(
        "A payload for a stream that is not an event stream is dropped", arguments: [[], [.report], [.report, .beginAnswer]] as [[Method]])
    func pushNeedsAnEventStream(path: [Method]) {
        var stream = Self.stream(by: path)
        let (queuedBytes, becameReady) = stream.push(ByteBuffer(string: "a"))
        #expect(queuedBytes == 0 && !becameReady && stream.queuedBytes == 0)
    }

    @Test("FIN ends event streams and requests that are not complete, and no stream that was reset")
    func streamsThatNeedInput() {
        for (phase, path) in Self.phases {
            let isEventStream = path.contains(.beginEvents)
            #expect(Self.stream(by: path).needsInput == (isEventStream || !path.contains(.beginAnswer)), "\(phase)")
            #expect(Self.stream(by: path + [.completeRequest]).needsInput == isEventStream, "\(phase)")
            #expect(!Self.stream(by: path + [.reset]).needsInput, "\(phase)")
        }
    }

    @Test("An event stream ends once its queue is empty, and a closed one writes nothing")
    func turns() {
        var window = 100
        var buffer = ByteBuffer()
        var stream = Self.stream(by: [.report, .beginEvents])
        stream.window = 100
        _ = stream.push(ByteBuffer(string: "event"))
        #expect(stream.sendEvents(within: &window, into: &buffer) == .done)
        #expect(buffer.readableBytes == 9 + 5 && window == 95 && stream.window == 95)
        stream.finishEvents()
        #expect(stream.sendEvents(within: &window, into: &buffer) == .ended)
        _ = stream.push(ByteBuffer(string: "late"))
        window = 3
        #expect(stream.sendEvents(within: &window, into: &buffer) == .starved)
        #expect(stream.isReady && window == 0 && stream.queuedBytes == 1)
        _ = stream.close()
        buffer.clear()
        #expect(stream.sendEvents(within: &window, into: &buffer) == .done)
        #expect(buffer.readableBytes == 0 && !stream.isReady)
    }

    /// The allocator's next size class is 192 bytes: a table of one slot would take more in every idle session.
    @Test("A slot takes at most 160 bytes")
    func slotIsSmall() { #expect(MemoryLayout<HTTP2Stream>.stride <= 160) }
}
