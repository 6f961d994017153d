import HTTP2
import NIOCore
import PresenceCore
import PresenceWire

/// A connection as ``EventStreams`` uses it.
protocol EventStreamConnection: AnyObject {
    var isHTTP2: Bool { get }
    var lastReceivedAt: NIODeadline { get }
    var silenceLimits: HTTPServerConnection.SilenceLimits? { get set }
    /// Event streams that are open on the connection.
    var applicationCount: Int { get set }
    func push(_ payload: ByteBuffer, to stream: StreamID) -> Bool
    func boundUnacknowledged(_ time: TimeAmount)
}

extension HTTPServerConnection: EventStreamConnection {}

/// The event streams of one event loop, by the index of their session: the destination of events, and the silence that is allowed.
struct EventStreams<Connection: EventStreamConnection> {
    typealias SessionIndex = Gateway.SessionIndex

    /// The destination of a session's events.
    struct Slot {
        let connection: Connection
        let stream: StreamID
    }

    /// The state of a session that a push does not need.
    private struct Health {
        let limits: HTTPServerConnection.SilenceLimits
        /// The login in progress. Nil after the owner's answer, or if the answer was so late that the login does not count any more.
        var login: RequestAdmission.Work?
        /// The interval of comments, and the time of the next one; nil for a stream without comments.
        var comments: (interval: TimeAmount, nextAt: NIODeadline)?
        /// The last sign of life of a client that promised such signs; nil for a client that promised none.
        var lastSignAt: NIODeadline?
    }

    /// Sessions of one connection whose clients have been silent for too long.
    struct Silent {
        let connection: Connection
        fileprivate(set) var streams: [StreamID]
    }

    private var slots: [Slot?] = []
    private var health: [Health?] = []

    init() {}

    // MARK: Opening and closing

    /// A session has opened its stream.
    ///
    /// - Parameters:
    ///   - login: the admitted request that opened it.
    ///   - commentsEvery: the interval of comments; nil for none.
    ///   - promisesSigns: whether the session ends unless ``noteSign(of:at:)`` is called in time.
    mutating func open(
        _ session: SessionIndex, _ slot: Slot, limits: HTTPServerConnection.SilenceLimits, login: RequestAdmission.Work,
        commentsEvery: TimeAmount? = nil, promisesSigns: Bool = false
    ) {
        while slots.count <= Int(session) {
            slots.append(nil)
            health.append(nil)
        }
        slots[Int(session)] = slot
        let now = NIODeadline.now()
        health[Int(session)] = Health(
            limits: limits, login: login, comments: commentsEvery.map { ($0, now + $0) }, lastSignAt: promisesSigns ? now : nil)
        slot.connection.applicationCount += 1
        slot.connection.tightenSilenceLimits(to: limits)
    }

    /// The stream of a session is over. Returns the login if it was still in progress.
    mutating func close(_ session: SessionIndex) -> RequestAdmission.Work? {
        guard let slot = slots[Int(session)] else { return nil }
        slot.connection.applicationCount -= 1
        slots[Int(session)] = nil
        defer { health[Int(session)] = nil }
        return health[Int(session)]?.login
    }

    /// The stream slot of a session; nil once its stream is closed.
    func slot(of session: SessionIndex) -> Slot? { Int(session) < slots.count ? slots[Int(session)] : nil }

    /// Whether the stream of a session is open on a connection.
    func isOpen(_ session: SessionIndex, on connection: Connection) -> Bool { slots[Int(session)]?.connection === connection }

    /// The slots of all open streams, by session.
    var openSlots: [Slot] { slots.compactMap { $0 } }

    // MARK: Logins

    /// Ends the login of a session. Returns nil if the login does not count any more.
    mutating func takeLogin(of session: SessionIndex) -> RequestAdmission.Work? {
        defer { health[Int(session)]?.login = nil }
        return health[Int(session)]?.login
    }

    /// Returns the logins that have been in progress for longer than `time`, each once.
    ///
    /// A login whose owner does not answer must not keep out those of other owners.
    mutating func takeLogins(olderThan time: Duration, at now: Instant) -> [RequestAdmission.Work] {
        var late: [RequestAdmission.Work] = []
        for session in health.indices {
            guard let login = health[session]?.login, now - login.startedAt > time else { continue }
            health[session]?.login = nil
            late.append(login)
        }
        return late
    }

    // MARK: Pushes

    /// Hands events to their streams, in order. Returns the sessions whose queue is full.
    ///
    /// - Parameter payloads: the bytes that `pushes` refer to, each encoded once.
    func push(_ pushes: [Gateway.Push], _ payloads: [[UInt8]]) -> [SessionIndex] {
        let buffers = payloads.map { ByteBuffer(bytes: $0) }
        var blocked: [SessionIndex] = []
        for push in pushes {
            guard let slot = slots[Int(push.session)] else { continue }
            if slot.connection.push(buffers[Int(push.payload)], to: slot.stream) { blocked.append(push.session) }
        }
        return blocked
    }

    /// Sends a comment on each stream for which it is due.
    mutating func sendComments(at now: NIODeadline) {
        let comment = ByteBuffer(staticString: ":\n\n")
        for session in health.indices {
            guard let comments = health[session]?.comments, comments.nextAt <= now, let slot = slots[session] else { continue }
            health[session]?.comments?.nextAt = now + comments.interval
            // A stream whose queue is full has enough to send.
            _ = slot.connection.push(comment, to: slot.stream)
        }
    }

    // MARK: Session health

    /// Records a sign of life of a session's client.
    mutating func noteSign(of session: SessionIndex, at now: NIODeadline) {
        if Int(session) < health.count, health[Int(session)]?.lastSignAt != nil { health[Int(session)]?.lastSignAt = now }
    }

    /// The time since the last sign of life of a session's client.
    ///
    /// Over HTTP/1.1 a client sends nothing on a stream, and TCP has shown until now that the client is there. That counts unless promised
    /// signs are overdue.
    func silence(of session: SessionIndex, at now: NIODeadline) -> TimeAmount {
        guard let slot = slot(of: session) else { return .zero }
        if let state = health[Int(session)], let lastSignAt = state.lastSignAt, now - lastSignAt > state.limits.end {
            return now - lastSignAt
        }
        return slot.connection.isHTTP2 ? now - slot.connection.lastReceivedAt : .zero
    }

    /// Returns the sessions whose clients have promised signs of life, and have sent none in time, by connection.
    func overdueSigns(at now: NIODeadline) -> [Silent] {
        var silent: [Silent] = []
        for session in health.indices {
            guard let state = health[session], let lastSignAt = state.lastSignAt, now - lastSignAt > state.limits.end,
                let slot = slots[session]
            else { continue }
            if let index = silent.firstIndex(where: { $0.connection === slot.connection }) {
                silent[index].streams.append(slot.stream)
            } else {
                silent.append(Silent(connection: slot.connection, streams: [slot.stream]))
            }
        }
        return silent
    }

    /// Returns the sessions whose clients have been silent for too long, by connection.
    ///
    /// The limits of their connections become those of the sessions that stay.
    func takeSilent(at now: NIODeadline) -> [Silent] {
        var silent: [Silent] = []
        var indices: [ObjectIdentifier: Int] = [:]
        for case let slot? in slots where slot.connection.isHTTP2 {
            let connection = slot.connection
            guard indices[ObjectIdentifier(connection)] == nil, let limits = connection.silenceLimits,
                now - connection.lastReceivedAt > limits.end
            else { continue }
            indices[ObjectIdentifier(connection)] = silent.count
            silent.append(Silent(connection: connection, streams: []))
            connection.silenceLimits = nil
        }
        guard !silent.isEmpty else { return [] }
        for (slot, health) in zip(slots, health) {
            guard let slot, let health, let index = indices[ObjectIdentifier(slot.connection)] else { continue }
            if now - slot.connection.lastReceivedAt > health.limits.end {
                silent[index].streams.append(slot.stream)
            } else {
                slot.connection.tightenSilenceLimits(to: health.limits)
            }
        }
        return silent
    }
}
