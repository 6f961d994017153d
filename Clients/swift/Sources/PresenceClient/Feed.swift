/// The events of a client as they arrive.
///
/// Every feed has its own bounded memory, in which a newer status replaces an older one of the same user. A feed starts when it is
/// requested, and ends when the client is closed. Several loops over one feed share its events.
public struct Feed<Element: Sendable>: AsyncSequence, Sendable {
    /// Waits for the next element.
    public struct AsyncIterator: AsyncIteratorProtocol {
        let feed: Feed

        /// The next element; nil when the client is closed or the task is cancelled.
        public mutating func next() async -> Element? { await next(isolation: nil) }

        /// Like ``next()``, for a caller on an actor.
        public mutating func next(isolation actor: isolated (any Actor)?) async -> Element? {
            while let event = await feed.reader.next() {
                if let element = feed.select(event) { return element }
            }
            return nil
        }
    }

    let reader: FeedReader
    let select: @Sendable (PresenceEvent) -> Element?

    /// Makes an iterator over the events to come.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(feed: self) }
}

/// A mailbox whose reader can wait.
final class FeedReader: Sendable {
    private struct State {
        var mailbox: Mailbox
        var waiting: [(id: UInt64, continuation: CheckedContinuation<PresenceEvent?, Never>)] = []
        var waitsCount: UInt64 = 0
        var isFinished = false
    }

    private let wants: @Sendable (PresenceEvent) -> Bool
    private let state: Locked<State>

    /// - Parameter wants: selects the events to keep for the reader.
    init(usersMax: Int, wants: @escaping @Sendable (PresenceEvent) -> Bool) {
        self.wants = wants
        state = Locked(State(mailbox: Mailbox(usersMax: usersMax)))
    }

    func add(_ event: PresenceEvent) {
        guard wants(event) else { return }
        state.withLock { state in
            if state.isFinished { return }
            state.mailbox.add(event)
            while !state.waiting.isEmpty, let next = state.mailbox.take() {
                state.waiting.removeFirst().continuation.resume(returning: next)
            }
        }
    }

    /// Ends the reader.
    ///
    /// - Parameter isRead: whether the waiting events are delivered before the end.
    func finish(isRead: Bool = true) {
        state.withLock { state in
            state.isFinished = true
            if !isRead { state.mailbox.removeAll() }
            for waiting in state.waiting { waiting.continuation.resume(returning: nil) }
            state.waiting = []
        }
    }

    func next() async -> PresenceEvent? {
        let id = state.withLock { state in
            state.waitsCount += 1
            return state.waitsCount
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                state.withLock { state in
                    let next = state.mailbox.take()
                    if next != nil || state.isFinished || Task.isCancelled {
                        continuation.resume(returning: next)
                    } else {
                        state.waiting.append((id, continuation))
                    }
                }
            }
        } onCancel: {
            state.withLock { state in
                guard let index = state.waiting.firstIndex(where: { $0.id == id }) else { return }
                state.waiting.remove(at: index).continuation.resume(returning: nil)
            }
        }
    }
}

/// Distributes each event to every reader.
final class Broadcaster: Sendable {
    private struct Entry {
        weak var reader: FeedReader?
    }

    private struct State {
        var entries: [Entry] = []
        var listeners: [ObjectIdentifier: FeedReader] = [:]
        var login: Session?
        var isFinished = false

        /// Keeps the first session of a login until the login ends.
        mutating func note(_ event: PresenceEvent) {
            switch event {
            case .connected(let session): login = login ?? session
            case .kickedOffline, .loggedOut: login = nil
            case .connectionStateChanged(let change): if change.state == .disconnected { login = nil }
            default: break
            }
        }
    }

    private let usersMax: Int
    private let state = Locked(State())

    init(usersMax: Int) { self.usersMax = usersMax }

    /// A feed that lives as long as a caller holds it.
    func feed<Element: Sendable>(_ select: @escaping @Sendable (PresenceEvent) -> Element?) -> Feed<Element> {
        Feed(reader: reader { select($0) != nil }, select: select)
    }

    /// The first session since the login; nil without a login.
    var login: Session? { state.withLock { $0.login } }

    func send(_ event: PresenceEvent) {
        let readers = state.withLock { state in
            state.note(event)
            state.entries.removeAll { $0.reader == nil }
            return state.entries.compactMap(\.reader)
        }
        for reader in readers { reader.add(event) }
    }

    func finish() {
        let readers = state.withLock { state in
            defer { state = State(isFinished: true) }
            return state.entries.compactMap(\.reader)
        }
        for reader in readers { reader.finish() }
    }

    /// - Parameter name: the object that stands for the listener. The listener must keep it alive. It replaces an earlier listener of the
    /// same name.
    func add(_ listener: any PresenceListener, for name: ObjectIdentifier) {
        let reader = reader { _ in true }
        let earlier = state.withLock { $0.listeners.updateValue(reader, forKey: name) }
        earlier?.finish(isRead: false)
        Task {
            while let event = await reader.next() { listener.receive(event) }
        }
    }

    /// Sends an event to only one listener.
    func send(_ event: PresenceEvent, to name: ObjectIdentifier) { state.withLock { $0.listeners[name] }?.add(event) }

    func remove(_ name: ObjectIdentifier) {
        state.withLock { $0.listeners.removeValue(forKey: name) }?.finish(isRead: false)
    }

    private func reader(_ wants: @escaping @Sendable (PresenceEvent) -> Bool) -> FeedReader {
        let reader = FeedReader(usersMax: usersMax, wants: wants)
        let isFinished = state.withLock { state in
            state.entries.append(Entry(reader: reader))
            return state.isFinished
        }
        if isFinished { reader.finish() }
        return reader
    }
}
