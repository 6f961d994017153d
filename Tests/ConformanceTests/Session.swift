import NIOCore
import NIOPosix
import NodeFixture
import Synchronization

/// An open event stream, and all its events.
final class Session: Sendable {
    struct Event: Sendable {
        let name: String
        let json: JSON
        /// The position from which a client that has read the event resumes.
        var id = ""
    }

    private struct Waiter {
        let id: Int
        let condition: @Sendable ([Event]) -> Bool
        let met: CheckedContinuation<Void, any Error>
    }

    private struct State {
        var events: [Event] = []
        var waiters: [Waiter] = []
        var nextID = 0
        var hasEnded = false
        var reading: Task<Void, Never>?
    }

    private let state = Mutex(State())

    init(_ stream: AsyncThrowingStream<[UInt8], any Error>) {
        let reading = Task { [weak self] in
            var text: [UInt8] = []
            do {
                for try await piece in stream {
                    text += piece
                    self?.read(&text)
                }
            } catch { self?.add(Event(name: "failed", json: .string("\(error)"))) }
            self?.state.withLock { $0.hasEnded = true }
            self?.add(Event(name: "ended", json: .null))
        }
        state.withLock { $0.reading = reading }
    }

    deinit { close() }

    /// Every event so far.
    var events: [Event] { state.withLock { $0.events } }
    /// Every received status, in order.
    var statuses: [JSON] { Self.statuses(events) }
    /// Those of one user.
    func statuses(of user: String) -> [JSON] { statuses.filter { $0.user == user } }

    private static func statuses(_ events: [Event]) -> [JSON] {
        events.filter { $0.name == "onUserStatusChanged" }.flatMap { $0.json["userStatusList"]?.elements ?? [] }
    }

    /// Drops the connection without a logout.
    func close() { state.withLock { $0.reading }?.cancel() }

    /// Waits for a condition on the received events. Fails after `limit`.
    func until(
        _ claim: String, within limit: TimeAmount = .seconds(10), _ condition: @escaping @Sendable ([Event]) -> Bool
    ) async throws {
        try await withCheckedThrowingContinuation { (met: CheckedContinuation<Void, any Error>) in
            let id: Int? = state.withLock { state in
                if condition(state.events) { return nil }
                state.nextID += 1
                state.waiters.append(Waiter(id: state.nextID, condition: condition, met: met))
                return state.nextID
            }
            guard let id else { return met.resume() }
            _ = MultiThreadedEventLoopGroup.singleton.next().scheduleTask(in: limit) { self.giveUp(id, claim) }
        }
    }

    /// Waits for a status of `user`; returns the first that is right.
    @discardableResult func status(of user: String, _ isRight: @escaping @Sendable (JSON) -> Bool) async throws -> JSON {
        try await until("a status of \(user)") { Self.statuses($0).contains { $0.user == user && isRight($0) } }
        return statuses(of: user).first(where: isRight) ?? .null
    }

    private func giveUp(_ id: Int, _ claim: String) {
        let waiter = state.withLock { state in state.waiters.firstIndex { $0.id == id }.map { state.waiters.remove(at: $0) } }
        waiter?.met.resume(throwing: TestFailure("never: \(claim); told: \(events)"))
    }

    private func read(_ text: inout [UInt8]) {
        while let end = text.indices.dropLast().first(where: { text[$0] == 0x0A && text[$0 + 1] == 0x0A }) {
            let block = String(decoding: text[..<end], as: UTF8.self)
            text.removeFirst(end + 2)
            var name = ""
            var (json, id) = (JSON.null, "")
            for line in block.split(separator: "\n") {
                if line.hasPrefix("event: ") { name = String(line.dropFirst(7)) }
                if line.hasPrefix("data: ") { json = (try? JSON(Array(line.dropFirst(6).utf8))) ?? .null }
                if line.hasPrefix("id: ") { id = String(line.dropFirst(4)) }
            }
            add(Event(name: name, json: json, id: id))
        }
    }

    private func add(_ event: Event) {
        let met = state.withLock { state in
            state.events.append(event)
            let met = state.waiters.filter { $0.condition(state.events) }
            state.waiters.removeAll { waiter in met.contains { $0.id == waiter.id } }
            return met
        }
        for waiter in met { waiter.met.resume() }
    }
}
