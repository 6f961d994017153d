import NodeFixture
import Synchronization

@testable import PresenceClient

/// Answers as the test chooses, and keeps the requests.
final class TransportDouble: Transport {
    /// The answer to a request, by its number (1 for the first); nil breaks the connection.
    typealias Script = @Sendable (Int, TransportRequest) -> TransportResponse?

    struct Broken: Error {}

    private let script: Script
    private let asked = Mutex<[TransportRequest]>([])
    private let renewals = Mutex(0)
    /// Announces each request.
    private let changes = ChangeSignal()

    init(_ script: @escaping Script) { self.script = script }

    var requests: [TransportRequest] { asked.withLock { $0 } }
    var renewalsCount: Int { renewals.withLock { $0 } }

    func send(_ request: TransportRequest, timeout: Duration, over pool: (any Pool)?) async throws -> TransportResponse {
        let number = asked.withLock { asked in
            asked.append(request)
            return asked.count
        }
        changes.notify()
        guard let response = script(number, request) else { throw Broken() }
        return response
    }

    /// Waits until the client has sent so many requests.
    func sent(_ count: Int) async throws { try await changes.until("\(count) requests are sent") { requests.count >= count } }

    func renewConnections() { renewals.withLock { $0 += 1 } }
}

extension TransportResponse {
    /// A body that is there at once.
    static func answer(_ status: Int, _ body: String, retryAfter: Int? = nil) -> TransportResponse {
        let bytes = Array(body.utf8)
        let stream = AsyncThrowingStream<[UInt8], any Error> { continuation in
            continuation.yield(bytes)
            continuation.finish()
        }
        return TransportResponse(status: status, retryAfter: retryAfter, isMultiplexed: false, body: stream)
    }

    static func problem(_ status: Int, _ code: Int, retryAfter: Int? = nil) -> TransportResponse {
        let asked = retryAfter.map { ",\"retryAfter\":\($0)" } ?? ""
        return answer(status, #"{"title":"t","detail":"d","status":\#(status),"code":\#(code)\#(asked)}"#)
    }

    /// An event stream that says `text` and then nothing more.
    static func stream(_ text: String) -> TransportResponse {
        let stream = AsyncThrowingStream<[UInt8], any Error> { $0.yield(Array(text.utf8)) }
        return TransportResponse(status: 200, retryAfter: nil, isMultiplexed: false, body: stream)
    }

    /// - Parameter interval: that of the node's heartbeats, in seconds.
    static func connected(node: String, interval: Int = 30) -> TransportResponse {
        let times = #""heartbeatInterval":\#(interval),"heartbeatTimeout":400,"serverTime":1"#
        let session = #"{"sessionID":"s","userID":"ann","node":"\#(node)",\#(times)}"#
        return stream("event: onConnected\nid: 5\ndata: \(session)\n\n")
    }
}

/// Time that passes when a test says so.
final class ManualClock: Clock {
    struct Instant: InstantProtocol {
        var offset: Duration

        func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        func duration(to other: Instant) -> Duration { other.offset - offset }
        static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    private struct State {
        var now = Instant(offset: .zero)
        var sleepers: [UInt64: (deadline: Instant, continuation: CheckedContinuation<Bool, Never>)] = [:]
        var sleepsCount: UInt64 = 0
    }

    private let state = Mutex(State())
    /// Announces each task that sleeps, and each span that has passed.
    private let changes = ChangeSignal()

    var now: Instant { state.withLock { $0.now } }
    var minimumResolution: Duration { .nanoseconds(1) }

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        let id = state.withLock { state in
            state.sleepsCount += 1
            return state.sleepsCount
        }
        let isOver = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                state.withLock { state in
                    if Task.isCancelled { return continuation.resume(returning: false) }
                    if deadline <= state.now { return continuation.resume(returning: true) }
                    state.sleepers[id] = (deadline, continuation)
                }
                changes.notify()
            }
        } onCancel: {
            state.withLock { $0.sleepers.removeValue(forKey: id)?.continuation.resume(returning: false) }
        }
        if !isOver { throw CancellationError() }
    }

    /// Waits until a task sleeps for a span for which `claim` holds, counted from now. Returns zero when the test is out of time.
    func sleeper(_ claim: (Duration) -> Bool) async -> Duration {
        var found: Duration?
        do {
            try await changes.until("a task sleeps") {
                let spans = state.withLock { state in state.sleepers.values.map { state.now.duration(to: $0.deadline) } }
                found = spans.first(where: claim)
                return found != nil
            }
        } catch { return .zero }
        return found ?? .zero
    }

    /// Lets time pass.
    func advance(by span: Duration) {
        state.withLock { state in
            state.now = state.now.advanced(by: span)
            for (id, sleeper) in state.sleepers where sleeper.deadline <= state.now {
                state.sleepers[id] = nil
                sleeper.continuation.resume(returning: true)
            }
        }
        changes.notify()
    }
}
