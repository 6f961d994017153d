import PresenceWire

/// The open sessions of a gateway.
struct SessionTable: ~Copyable {
    typealias SessionIndex = Gateway.SessionIndex

    /// One open session.
    struct Session {
        /// How far the login has come.
        enum Phase {
            /// The owner has not sent the subscription list.
            case awaitingList
            /// The list is here. Records of followed users are missing, or the stream is blocked.
            case awaitingRecords
            /// The session was sent all that it follows, and is pushed each change at once.
            case synced
            /// The event that ends the session was pushed. No event follows it.
            case ended
            /// The same, because the token of the session has ended. The owner learns of that with the end of the stream.
            case expired
        }

        /// Whether the stream takes events.
        enum Flow {
            case open
            /// The queue of the stream has been full since then.
            case blocked(since: Instant)
            /// The queue was full for too long, and the stream is being cut off.
            case cutOff
        }

        let id: SessionID
        let user: WatchIndex.UserIndex
        /// Whether the stream hears without being seen.
        let isListener: Bool
        fileprivate(set) var phase = Phase.awaitingList
        fileprivate(set) var flow = Flow.open
        /// The subscription types of the list, one bit each. When the login is complete, an event is pushed for each.
        private var typesMask: UInt8 = 0
        /// Whether `onSessionsChanged` was left out because the queue was full.
        var owesSessions = false
        var resume: ResumePosition
        var backlog = Backlog()

        init(_ attach: Attach, user: WatchIndex.UserIndex, resume: ResumePosition) {
            (id, isListener) = (attach.session, attach.kind == .listener)
            self.user = user
            self.resume = resume
        }

        var hasEnded: Bool { phase == .ended || phase == .expired }
        var hasExpired: Bool { phase == .expired }
        var isSynced: Bool { phase == .synced }
        var hasList: Bool { phase != .awaitingList }
        var isBlocked: Bool { if case .open = flow { false } else { true } }

        /// Whether a change can be pushed at once, by an event that other sessions share.
        var takesSharedEvents: Bool { phase == .synced && !resume.isHeld }

        fileprivate var takesEventNow: Bool { takesSharedEvents && !isBlocked }

        /// Adds the type of a subscription that the login brings.
        mutating func addType(_ type: UInt8) { if (1...4).contains(type) { typesMask |= 1 << type } }

        /// The subscription types that the login has brought; those of online statuses if the session follows no user.
        var types: [UInt8] {
            let types = (UInt8(1)...4).filter { typesMask & 1 << $0 != 0 }
            return types.isEmpty ? [Subscription.onlineStatus] : types
        }

        /// Has the position move on if no record is held back.
        mutating func releasePosition() { if backlog.isEmpty, !isBlocked { resume.release() } }
    }

    private var sessions: [Session?] = []
    /// By session: ``takesEventNow(_:)``. Most pushes ask a session nothing else, and 64 answers lie in one line of the cache.
    private var takers: [Bool] = []
    private var free: [SessionIndex] = []
    private var indices: [SessionID: SessionIndex] = [:]
    /// Sessions with pending records that are pushed at the end of the turn.
    private var gathering: [SessionIndex] = []

    init() {}

    /// Open sessions and listeners.
    var count: Int { indices.count }
    /// Open streams that hear without being seen.
    private(set) var listenersCount = 0

    /// The index of an open session.
    func index(of id: SessionID) -> SessionIndex? { indices[id] }

    /// Whether a session is open at an index.
    func isOpen(_ index: SessionIndex) -> Bool { Int(index) < sessions.count && sessions[Int(index)] != nil }

    /// The indices of the open sessions, in order.
    var openIndices: [SessionIndex] { sessions.indices.filter { sessions[$0] != nil }.map(SessionIndex.init) }

    /// Adds a session. Its index may be that of a session that was closed.
    mutating func open(_ session: Session) -> SessionIndex {
        let index: SessionIndex
        if let reused = free.popLast() {
            index = reused
            sessions[Int(index)] = session
        } else {
            index = SessionIndex(sessions.count)
            sessions.append(session)
            takers.append(false)
        }
        takers[Int(index)] = session.takesEventNow
        indices[session.id] = index
        if session.isListener { listenersCount += 1 }
        return index
    }

    /// Removes an open session.
    mutating func close(_ index: SessionIndex) {
        indices[self[index].id] = nil
        if self[index].isListener { listenersCount -= 1 }
        sessions[Int(index)] = nil
        takers[Int(index)] = false
        free.append(index)
    }

    /// The open session at an index.
    subscript(index: SessionIndex) -> Session {
        _read {
            guard case .some = sessions[Int(index)] else { preconditionFailure("no session at index \(index)") }
            yield sessions[Int(index)].unsafelyUnwrapped
        }
        _modify {
            precondition(sessions[Int(index)] != nil, "no session at index \(index)")
            defer { takers[Int(index)] = sessions[Int(index)].unsafelyUnwrapped.takesEventNow }
            yield &sessions[Int(index)]!
        }
    }

    /// Whether a session takes a change at once, by an event that other sessions share.
    func takesEventNow(_ index: SessionIndex) -> Bool { takers[Int(index)] }

    // MARK: Phases

    /// The owner has sent the subscription list. Returns false if the session had its list before.
    mutating func receiveList(_ index: SessionIndex) -> Bool {
        guard self[index].phase == .awaitingList else { return false }
        self[index].phase = .awaitingRecords
        return true
    }

    /// Whether the login of a session is complete but for the event that says so.
    func isReadyToComplete(_ index: SessionIndex) -> Bool {
        self[index].phase == .awaitingRecords && !self[index].backlog.isExpectingRecords && !self[index].isBlocked
    }

    /// The session was sent all that it follows.
    mutating func completeSync(_ index: SessionIndex) {
        precondition(self[index].phase == .awaitingRecords, "session \(index) is \(self[index].phase)")
        self[index].phase = .synced
        self[index].backlog.endExpectations()
    }

    /// The event that ends the session was pushed.
    mutating func end(_ index: SessionIndex, isExpired: Bool) { self[index].phase = isExpired ? .expired : .ended }

    // MARK: Streams

    /// The queue of a stream is full. Returns false if that was known.
    mutating func block(_ index: SessionIndex, at now: Instant) -> Bool {
        guard isOpen(index), !self[index].isBlocked else { return false }
        self[index].flow = .blocked(since: now)
        return true
    }

    /// The queue of a stream has room again. Returns false if it had room before.
    mutating func unblock(_ index: SessionIndex) -> Bool {
        guard isOpen(index), self[index].isBlocked else { return false }
        self[index].flow = .open
        return true
    }

    /// Returns the sessions whose queue has been full for `timeout`, each once.
    mutating func cutOff(blockedFor timeout: Duration, at now: Instant) -> [SessionIndex] {
        var found: [SessionIndex] = []
        for index in sessions.indices {
            guard case .blocked(let since) = sessions[index]?.flow, since + timeout <= now else { continue }
            self[SessionIndex(index)].flow = .cutOff
            found.append(SessionIndex(index))
        }
        return found
    }

    // MARK: The end of the turn

    /// Has the pending records of a session pushed at the end of the turn. Called when the first one becomes pending.
    mutating func gather(_ index: SessionIndex) { gathering.append(index) }

    /// Removes and returns the sessions with records to push now. A session that was closed or is blocked is not among them.
    mutating func takeGathering() -> [SessionIndex] {
        guard !gathering.isEmpty else { return [] }
        return gathering.takeAll().filter { isOpen($0) && !self[$0].isBlocked }
    }

    // MARK: Invariants

    /// Stops the process if the table contradicts itself.
    func checkInvariants() {
        precondition(
            indices.count + free.count == sessions.count, "\(indices.count) open and \(free.count) free of \(sessions.count) indices")
        precondition(listenersCount == openIndices.count { self[$0].isListener }, "\(listenersCount) listeners are not those that are open")
        for index in free { precondition(!isOpen(index), "index \(index) is free and open") }
        for index in openIndices {
            let session = self[index]
            precondition(indices[session.id] == index, "session \(session.id) is not found at \(index)")
            precondition(takers[Int(index)] == session.takesEventNow, "session \(index) takes an event, or takes none, against its state")
            let isComplete = !session.isSynced || session.resume.isHeld || session.backlog.isEmpty
            precondition(isComplete, "session \(index) holds records back, and its position moves on")
        }
    }
}

extension Attach {
    /// The same with the time at which the stream was opened.
    func opened(at wall: Milliseconds) -> Attach {
        var attach = self
        attach.openedAt = wall
        return attach
    }
}

extension SessionTable.Session {
    /// Stops the process if the session contradicts what its gateway watches.
    func checkInvariants(_ index: Gateway.SessionIndex, _ watches: borrowing WatchIndex, endsWithToken: Bool) {
        precondition(watches.sessions(of: user).contains(index), "session \(index) is unknown to its user")
        let targets = watches.targets(of: index)
        precondition(hasEnded == targets.isEmpty, "session \(index) is \(phase) and follows \(targets.count) users")
        precondition(hasEnded || targets.containsSorted(user), "session \(index) does not follow its user")
        precondition(!hasEnded || !endsWithToken, "session \(index) has ended and still ends with its token")
        backlog.checkInvariants(targets: targets, profiles: watches.profiles.targets(of: index))
    }
}
