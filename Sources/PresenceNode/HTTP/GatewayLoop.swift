import HTTP2
import NIOCore
import PresenceCore
import PresenceWire

/// One event loop that serves clients: obeys its ``PresenceCore/Gateway`` with connections and streams, and turns requests into calls.
final class GatewayLoop: HTTPServerDelegate, @unchecked Sendable {
    /// A client's stream, by the place of its session in the gateway.
    private struct Seat {
        let connection: HTTPServerConnection
        let stream: StreamID
    }

    /// What is known of the session in a seat and not needed for a push.
    private struct Vigil {
        let limits: HTTPServerConnection.SilenceLimits
        /// The login in progress; nil once its owner has answered, or did not for so long that it counts no more.
        var login: Work?
    }

    let index: Int
    let eventLoop: any EventLoop
    private(set) var http: HTTPLoop!
    private var gateway: Gateway
    private let settings: GatewaySettings
    private let authenticator: Authenticator
    private unowned let shell: Shell
    private var seats: [Seat?] = []
    /// By seat.
    private var vigils: [Vigil?] = []
    private var waiting = WaitingCalls()
    /// The answer that is being written; its memory is used again.
    private var json = JSONWriter(reserving: 4_096)
    private var nextSession: UInt64 = 0
    private let logins: LoginRates
    private var tokens = VerifiedTokens()
    private var counters = Counters()
    private var admission: Admission
    private var refusals = RefusalBodies()
    private var isFlushing = false
    private var isDraining = false
    private var isFlushScheduled = false
    private var spare = Gateway.Output()

    init(
        index: Int, eventLoop: any EventLoop, limits: HTTPLimits, settings: GatewaySettings, authenticator: Authenticator,
        logins: LoginRates,
        shell: Shell
    ) {
        self.index = index
        self.eventLoop = eventLoop
        self.settings = settings
        self.authenticator = authenticator
        self.logins = logins
        self.shell = shell
        gateway = Gateway(node: shell.peer.id, settings: settings)
        admission = Admission(seed: shell.peer.generation &+ UInt64(index))
        http = HTTPLoop(eventLoop: eventLoop, limits: limits, delegate: self)
    }

    // MARK: Requests

    func requestReceived(_ request: HTTPRequest, on connection: HTTPServerConnection) {
        if let status = request.refusedStatus {
            return respond(Problem(refused: status, request.refusedReason, by: http.limits), to: request.stream, on: connection)
        }
        let path = request.target.prefix(before: UInt8(ascii: "?"))
        if path.equals(Self.eventsPath) { return eventStreamRequested(request, on: connection) }
        if path.equals(Self.openAPIPath) {
            guard request.method == .get else {
                return respond(.wrongMethod("the description is read with GET"), to: request.stream, on: connection, allow: "GET")
            }
            return connection.respond(
                to: request.stream, HTTPResponse(status: 200, contentType: .json, body: OpenAPI.buffer))
        }
        guard let operation = API.operation(ofPath: path) else {
            let names = API.Operation.allCases.map(\.name).joined(separator: ", ")
            return respond(
                .noSuchPath("no such path; POST /v1/ and one of \(names), or GET /v1/events"), to: request.stream, on: connection)
        }
        guard request.method == .post else {
            return respond(.wrongMethod("\(operation.name) is called with POST"), to: request.stream, on: connection, allow: "POST")
        }
        let now = Clock.now()
        // What ends work is always taken.
        let work = operation == .logout ? nil : admit(.operation, operation, stream: request.stream, on: connection, at: now)
        guard operation == .logout || work != nil else { return }
        if let caller = knownCaller(request.authorization, on: connection, at: now) {
            return perform(operation, body: request.body, caller: caller, work: work, stream: request.stream, on: connection, at: now)
        }
        let body = Array(request.body)
        authenticate(request, on: connection, operation: operation, work: work) { [self] caller, stream in
            body.withUnsafeBufferPointer {
                perform(operation, body: $0, caller: caller, work: work, stream: stream, on: connection, at: Clock.now())
            }
        }
    }

    /// How long a connection is left unread when a login on it came too often.
    private static let pauseAfterLogins = TimeAmount.milliseconds(20)

    private static let eventsPath = Array("/v1/events".utf8)
    private static let openAPIPath = Array("/openapi.json".utf8)

    private func perform(
        _ operation: API.Operation, body: UnsafeBufferPointer<UInt8>, caller: Caller, work: Work?, stream: StreamID,
        on connection: HTTPServerConnection, at now: Now
    ) {
        let parsed: API.Parsed
        do throws(Problem) {
            parsed = try API.parse(operation, body: body, caller: caller, policy: gateway.policies.policy(of: caller.user))
        } catch {
            ended(work)
            return respond(error, to: stream, on: connection, operation: operation)
        }
        let token = waiting.add(
            WaitingCalls.Call(
                connection: connection, stream: stream, operation: operation, caller: parsed.subject, errors: parsed.errors, work: work))
        let asker = parsed.subject == caller.user ? parsed.session ?? onlySession(of: caller.user, on: connection) : .nobody
        let origin: Call.Origin = !caller.isAdmin ? .caller : parsed.subject == caller.user ? .backEnd : .backEndForCaller
        shell.perform(parsed.call, caller: parsed.subject, origin: origin, asker: asker, from: self, token: token, at: now)
    }

    /// The session of a user whose stream is on a connection, if there is one and no other.
    private func onlySession(of user: UserID, on connection: HTTPServerConnection) -> SessionID? {
        gateway.onlySession(of: user) { seats[Int($0)]?.connection === connection }
    }

    /// An operation is done.
    func answer(_ token: UInt64, _ answer: CallAnswer) {
        guard let call = waiting.take(token) else { return }
        var json = JSONWriter()
        swap(&json, &self.json)
        json.clear()
        defer { swap(&json, &self.json) }
        let policy = gateway.policies.policy(of: call.caller)
        do throws(Problem) {
            try API.write(answer, to: call.operation, of: call.caller, errors: call.errors, policy: policy, into: &json)
        } catch {
            ended(call.work)  // Also 50001: a call that ran out of time is the latest that there is.
            var problem = error
            if problem.code == Refusal.overloaded.code { problem.retryAfter = admission.retryAfter(.operation, at: Clock.now().instant) }
            return respond(problem, to: call.stream, on: call.connection, operation: call.operation)
        }
        ended(call.work)
        counters.successes[call.operation.rawValue] += 1
        count(call.errors, answer, policy, of: call.caller)
        json.bytes.withUnsafeBufferPointer { body in
            call.connection.respond(to: call.stream, status: 200, contentType: .json, body: body)
        }
    }

    /// Counts the users of a call that the policy has refused, while others were served.
    private func count(_ errors: [UserError], _ answer: CallAnswer, _ policy: Policy, of caller: UserID) {
        for error in errors { counters.rejections.count(error.rule) }
        switch answer {
        case .subscribed(_, let refused, let crowded, let strangers, let unknown, _, _):
            counters.rejections.count(.friends, strangers.count)
            counters.rejections.count(.quota, refused.count)
            counters.rejections.count(.followers, crowded.count)
            counters.rejections.count(.registered, unknown.count)
        case .userStatusList(let records, let users, _) where policy.mustBeRegistered:
            counters.rejections.count(.registered, zip(records, users).count { $0?.isOfKnownUser == false && $1 != caller })
        default: break
        }
    }

    private func respond(
        _ problem: Problem, to stream: StreamID, on connection: HTTPServerConnection, operation: API.Operation? = nil,
        allow: StaticString? = nil
    ) {
        if let operation { counters.refusals[operation, default: [:]][problem.code, default: 0] += 1 }
        counters.rejections.count(problem.rule)
        connection.respond(
            to: stream,
            HTTPResponse(
                status: problem.status, contentType: .problem, body: ByteBuffer(bytes: problem.json), retryAfter: problem.retryAfter,
                allow: allow))
    }

    // MARK: Callers

    /// The caller of a token that was checked before on this connection or loop.
    private func knownCaller(_ header: UnsafeBufferPointer<UInt8>, on connection: HTTPServerConnection, at now: Now) -> Caller? {
        if let known = connection.applicationState as? VerifiedToken, header.equals(known.header), known.caller.expiresAt > now.wall,
            !isVoid(known.caller)
        {
            return known.caller
        }
        guard let token = tokens.token(Array(header), at: now.wall), !isVoid(token.caller) else { return nil }
        connection.applicationState = token
        return token.caller
    }

    private func isVoid(_ caller: Caller) -> Bool { gateway.voidTokens.isVoid(caller.user, issuedAt: caller.issuedAt) }

    private func authenticate(
        _ request: HTTPRequest, on connection: HTTPServerConnection, operation: API.Operation?, work: Work?,
        then body: @escaping (Caller, StreamID) -> Void
    ) {
        let header = Array(request.authorization)
        let stream = request.stream
        let prefix = Array("bearer ".utf8)
        guard header.count > prefix.count, zip(header, prefix).allSatisfy({ $0 | 0x20 == $1 | 0x20 }) else {
            let detail =
                header.isEmpty ? "no Authorization header; send \"Authorization: Bearer <JWT>\"" : "Authorization must be \"Bearer <JWT>\""
            ended(work)
            return respond(.notLoggedIn(detail), to: stream, on: connection, operation: operation)
        }
        let token = Array(header.dropFirst(prefix.count))
        let pending = PendingAuthentication(
            header: header, stream: stream, connection: connection, operation: operation, work: work, body: body)
        let wall = Clock.now().wall
        Task { [self] in
            let result = await authenticator.check(token, at: wall)
            eventLoop.execute { self.finish(pending, result) }
        }
    }

    private func finish(_ pending: PendingAuthentication, _ result: Result<Caller, AuthenticationError>) {
        switch result {
        case .success(let caller) where isVoid(caller):
            ended(pending.work)
            let detail = "the user was kicked after the token was issued (iat); log in anew"
            respond(.notLoggedIn(detail), to: pending.stream, on: pending.connection, operation: pending.operation)
        case .success(let caller):
            tokens.add(VerifiedToken(header: pending.header, caller: caller))
            pending.body(caller, pending.stream)
        case .failure(let error):
            ended(pending.work)
            respond(.notLoggedIn(error.reason), to: pending.stream, on: pending.connection, operation: pending.operation)
        }
    }

    /// A request whose token is being checked; touched on the loop only.
    private final class PendingAuthentication: @unchecked Sendable {
        let header: [UInt8]
        let stream: StreamID
        let connection: HTTPServerConnection
        let operation: API.Operation?
        let work: Work?
        let body: (Caller, StreamID) -> Void

        init(
            header: [UInt8], stream: StreamID, connection: HTTPServerConnection, operation: API.Operation?, work: Work?,
            body: @escaping (Caller, StreamID) -> Void
        ) {
            self.header = header
            self.stream = stream
            self.connection = connection
            self.operation = operation
            self.work = work
            self.body = body
        }
    }

    // MARK: Admission

    /// A request that was taken and is in progress.
    struct Work {
        let startedAt: Instant
        let kind: Admission.Kind
    }

    /// Takes a request, or answers it with 50002 before anything is spent on it.
    private func admit(
        _ kind: Admission.Kind, _ operation: API.Operation?, stream: StreamID, on connection: HTTPServerConnection, at now: Now
    ) -> Work? {
        if !admission.isProbing { scheduleProbe() }
        switch admission.ask(for: kind, at: now.instant) {
        case .accept:
            // A late loop has let it wait, and that counts.
            let delay = admission.delay(at: now.instant).wholeNanoseconds
            return Work(startedAt: Instant(nanoseconds: now.instant.nanoseconds - delay), kind: kind)
        case .refuse(let retryAfter, let pause):
            if let operation { counters.refusals[operation, default: [:]][Refusal.overloaded.code, default: 0] += 1 }
            connection.respond(to: stream, refusals.response(retryAfter: retryAfter))
            if pause > .zero { connection.pauseReading(for: .nanoseconds(pause.wholeNanoseconds)) }
            return nil
        }
    }

    private func ended(_ work: Work?) {
        guard let work else { return }
        let now = Clock.now().instant
        if work.kind == .operation { counters.operationSeconds.observe(work.startedAt, until: now) }
        admission.ended(work.kind, startedAt: work.startedAt, at: now)
    }

    private func abandoned(_ work: Work?) {
        if let work { admission.abandoned(work.kind) }
    }

    private func loginEnded(_ session: Gateway.SessionIndex) {
        guard let login = vigils[Int(session)]?.login else { return }
        vigils[Int(session)]?.login = nil
        let now = Clock.now().instant
        counters.loginSeconds.observe(login.startedAt, until: now)
        admission.ended(login.kind, startedAt: login.startedAt, at: now)
    }

    /// Logins whose owner does not answer must not keep out those of other owners.
    private func abandonLateLogins(at now: Now) {
        for seat in vigils.indices {
            guard let login = vigils[seat]?.login, now.instant - login.startedAt > .seconds(1) else { continue }
            vigils[seat]?.login = nil
            admission.abandoned(login.kind)
        }
    }

    /// While requests come, sees how late the loop is.
    private func scheduleProbe() {
        let due = NIODeadline.now() + .milliseconds(5)
        admission.probe(due: Instant(nanoseconds: Int64(due.uptimeNanoseconds)))
        eventLoop.assumeIsolated().scheduleTask(deadline: due) { [weak self] in self?.admission.probed(at: Clock.now().instant) }
    }

    // MARK: Event streams

    private func eventStreamRequested(_ request: HTTPRequest, on connection: HTTPServerConnection) {
        guard request.method == .get else {
            return respond(.wrongMethod("the event stream is opened with GET"), to: request.stream, on: connection, allow: "GET")
        }
        let now = Clock.now()
        let known = knownCaller(request.authorization, on: connection, at: now)
        if known != nil, let refusal = (connection.applicationState as? VerifiedToken)?.loginRefusal, refusal.until > now.instant {
            logins.count(refusal.reason)
            connection.paceAddress()
            return refuseLogin(refusal.response, stream: request.stream, on: connection)
        }
        guard let work = admit(request.lastEventID.isEmpty ? .login : .resume, nil, stream: request.stream, on: connection, at: now) else {
            return
        }
        let query = Array(request.target.drop { $0 != UInt8(ascii: "?") }.dropFirst())
        let lastEventID = Milliseconds(String(decoding: request.lastEventID, as: UTF8.self))
        let open = { [self] (caller: Caller, stream: StreamID) in
            do throws(Problem) {
                let query = try EventStreamQuery(query)
                let user = try API.subject(asUser: query.asUser, caller: caller)
                try query.check(by: gateway.policies.policy(of: user))
                if let refusal = logins.refusal(of: user, from: connection.origin, at: Clock.now().instant) {
                    if user == caller.user, refusal.reason == .loginsPerUser { remember(refusal, of: caller, on: connection) }
                    ended(work)
                    return refuseLogin(refusal.response, stream: stream, on: connection)
                }
                openSession(of: user, query, resumeFrom: lastEventID, work: work, stream: stream, on: connection)
            } catch {
                ended(work)
                respond(error, to: stream, on: connection)
            }
        }
        if let known { return open(known, request.stream) }
        authenticate(request, on: connection, operation: nil, work: work, then: open)
    }

    /// Until then, the user's next logins with this token are refused before anything else is looked at.
    private func remember(_ refusal: LoginRates.Refusal, of caller: Caller, on connection: HTTPServerConnection) {
        guard let token = connection.applicationState as? VerifiedToken, token.caller == caller else { return }
        token.loginRefusal = refusal
    }

    private func refuseLogin(_ response: HTTPResponse, stream: StreamID, on connection: HTTPServerConnection) {
        connection.respond(to: stream, response)
        connection.countReset()
        // What else it has sent waits where it costs nothing; it is read 4 KiB at a time for a second after that.
        connection.pauseReading(for: Self.pauseAfterLogins)
    }

    private func openSession(
        of user: UserID, _ query: EventStreamQuery, resumeFrom: Milliseconds?, work: Work, stream: StreamID,
        on connection: HTTPServerConnection
    ) {
        guard connection.isAwaitingAnswer(stream) else { return abandoned(work) }
        nextSession += 1
        let session = SessionID(stamp: shell.peer.generation << 20 + nextSession << 6 + UInt64(index), node: shell.peer.versionNode)
        let attach = Attach(
            session: session, user: user, platform: query.platform, deviceID: query.deviceID, customStatus: query.customStatus,
            isPushReachable: query.isPushReachable)
        let seat = gateway.open(attach, resumeFrom: resumeFrom, at: Clock.now())
        while seats.count <= Int(seat) {
            seats.append(nil)
            vigils.append(nil)
        }
        let limits = HTTPServerConnection.SilenceLimits(gateway.heartbeat(of: user, on: query.platform))
        seats[Int(seat)] = Seat(connection: connection, stream: stream)
        vigils[Int(seat)] = Vigil(limits: limits, login: work)
        connection.applicationCount += 1
        connection.bear(limits)
        connection.openEventStream(stream, token: seat)
        flush()
    }

    func eventStreamClosed(_ stream: StreamID, token: UInt32, on connection: HTTPServerConnection, reason: StreamEnd) {
        connection.applicationCount -= 1
        abandoned(vigils[Int(token)]?.login)
        seats[Int(token)] = nil
        vigils[Int(token)] = nil
        if isDraining { return }
        // Over HTTP/1.1 a client says nothing on a stream: TCP has told until now that it is there (contract §4).
        let silence = connection.isHTTP2 ? (NIODeadline.now() - connection.lastReceivedAt).nanoseconds / 1_000_000 : 0
        gateway.close(token, cause: .lost, silence: silence)
        setNeedsFlush()
    }

    func eventStreamDrained(_ stream: StreamID, token: UInt32, on connection: HTTPServerConnection) {
        gateway.unblock(token)
        setNeedsFlush()
    }

    func connectionOpened(_ connection: HTTPServerConnection) { counters.connections += 1 }

    func connectionClosed(_ connection: HTTPServerConnection) { counters.connections -= 1 }

    func violated(_ violation: HTTPViolation) { counters.violations[violation, default: 0] += 1 }

    // MARK: The gateway's output

    /// Takes what the core says; a whole batch, then one flush.
    func receive(_ messages: [NodeMessage]) {
        for message in messages { receive(message) }
        flush()
    }

    func receive(_ message: NodeMessage) {
        if case .deliver(let record) = message {
            let age = Clock.now().wall - record.lastUpdateTime
            let pushed = gateway.counters.changesPushed
            gateway.receive(message)
            let count = gateway.counters.changesPushed - pushed
            if count > 0, age < 60_000 { counters.pushSeconds.observe(seconds: Double(max(age, 0)) / 1_000, count: count) }
        } else {
            gateway.receive(message)
        }
        setNeedsFlush()
    }

    private func setNeedsFlush() {
        guard !isFlushScheduled, !isFlushing else { return }
        isFlushScheduled = true
        eventLoop.execute { self.flush() }
    }

    /// Obeys the gateway until it wants nothing more.
    func flush() {
        isFlushScheduled = false
        guard !isFlushing else { return }
        isFlushing = true
        while true {
            gateway.endTurn()
            if gateway.output.isEmpty { break }
            swap(&gateway.output, &spare)
            deliverPushes()
            for session in spare.attached { loginEnded(session) }
            for session in spare.ended { if let seat = seats[Int(session)] { seat.connection.finish(seat.stream) } }
            for session in spare.cutOff { if let seat = seats[Int(session)] { seat.connection.reset(seat.stream) } }
            let messages = spare.toNode
            spare.clear()
            if !messages.isEmpty { shell.receive(messages, from: self) }
        }
        isFlushing = false
    }

    private func deliverPushes() {
        guard !spare.pushes.isEmpty else { return }
        // Nothing below changes them: as values they cost nothing for each push.
        let (seats, buffers) = (seats, spare.payloads.map { ByteBuffer(bytes: $0) })
        var blocked: [Gateway.SessionIndex] = []
        for push in spare.pushes {
            guard let seat = seats[Int(push.session)] else { continue }
            if seat.connection.push(buffers[Int(push.payload)], to: seat.stream) { blocked.append(push.session) }
        }
        guard !blocked.isEmpty else { return }
        let now = Clock.now()
        for session in blocked { gateway.block(session, at: now) }
    }

    // MARK: Time

    /// How often the loop looks after its sessions.
    static let tickInterval = Duration.seconds(1)

    /// Looks after the sessions at each ``tickInterval``.
    func scheduleTicks() {
        eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(Self.tickInterval)) { [weak self] in
            self?.tick()
            self?.scheduleTicks()
        }
    }

    /// Asks silent clients for a sign of life and ends those that give none (contract §4, T6). Called once a second.
    private func tick() {
        let now = NIODeadline.now()
        let clocks = Clock.now()
        gateway.tick(at: clocks)
        abandonLateLogins(at: clocks)
        var hasSilent = false
        for connection in http.connections where connection.applicationCount > 0 {
            guard let limits = connection.silenceLimits else { continue }
            let silence = now - connection.lastReceivedAt
            if silence > limits.end, connection.isHTTP2 { hasSilent = true }
            if silence > limits.ping, now - connection.lastPingAt > limits.ping {
                connection.lastPingAt = now
                connection.ping()
            }
        }
        if hasSilent { endSilentSessions(at: now) }
        flush()
    }

    /// Ends the sessions whose time of silence is up. A connection that has no other is closed.
    private func endSilentSessions(at now: NIODeadline) {
        var ended: [(connection: HTTPServerConnection, streams: [StreamID])] = []
        var places: [ObjectIdentifier: Int] = [:]
        for seat in seats {
            guard let seat, seat.connection.isHTTP2, let limits = seat.connection.silenceLimits else { continue }
            let silence = now - seat.connection.lastReceivedAt
            guard silence > limits.end else { continue }
            let place = places[ObjectIdentifier(seat.connection)] ?? ended.count
            if place == ended.count {
                places[ObjectIdentifier(seat.connection)] = place
                ended.append((seat.connection, []))
                // Those that stay say anew what they bear.
                seat.connection.silenceLimits = nil
            }
        }
        guard !ended.isEmpty else { return }
        for (seat, vigil) in zip(seats, vigils) {
            guard let seat, let vigil, let place = places[ObjectIdentifier(seat.connection)] else { continue }
            if now - seat.connection.lastReceivedAt > vigil.limits.end {
                ended[place].streams.append(seat.stream)
            } else {
                seat.connection.bear(vigil.limits)
            }
        }
        for (connection, streams) in ended {
            counters.silentSessions += UInt64(streams.count)
            if streams.count == connection.applicationCount { connection.close() } else { streams.forEach(connection.reset) }
        }
    }

    // MARK: Stopping

    /// Asks the clients to open their streams elsewhere within `spread`. Open streams go on and calls are answered. A connection gets GOAWAY once
    /// nothing is open there, because some clients drop all streams of a connection at GOAWAY.
    func askToLeave(spread: Duration) {
        gateway.hintReconnect(reason: "draining", spread: spread)
        flush()
        http.leave()
    }

    /// Succeeds once no session is left, or at `deadline`.
    func whenEmpty(until deadline: NIODeadline) -> EventLoopFuture<Void> {
        eventLoop.flatSubmit { self.eventLoop.when({ self.gateway.sessionsCount == 0 }, until: deadline) }
    }

    /// Ends the streams that are left, and forgets their sessions without a word: the owners keep them for the reconnect grace, so that a client
    /// that comes back elsewhere is not shown to have left (design §5).
    func drain() {
        isDraining = true
        for seat in seats { if let seat { seat.connection.finish(seat.stream) } }
        http.goAway()
    }

    /// Succeeds once the clients have closed their connections, or at `deadline`.
    func whenClosed(until deadline: NIODeadline) -> EventLoopFuture<Void> {
        eventLoop.flatSubmit { self.eventLoop.when({ self.http.connectionsCount == 0 }, until: deadline) }
    }

    /// Succeeds once nothing waits for an answer, or at `deadline`.
    func whenIdle(until deadline: NIODeadline) -> EventLoopFuture<Void> {
        eventLoop.flatSubmit { self.eventLoop.when({ self.waiting.isEmpty }, until: deadline) }
    }

    var snapshot: Counters {
        var copy = counters
        copy.gateway = gateway.counters
        copy.sessions = gateway.sessionsCount
        copy.users = gateway.usersCount
        copy.admission = Admission.Kind.allCases.map(admission.gauges)
        copy.delay = admission.longestDelay(at: Clock.now().instant)
        return copy
    }
}
