import HTTP2
import NIOCore
import PresenceCore
import PresenceWire

/// One event loop that serves clients: it turns requests into calls, and carries out the output of its ``PresenceCore/Gateway``.
final class GatewayLoop: HTTPServerDelegate, ContinuedWork, @unchecked Sendable {
    typealias Work = RequestAdmission.Work

    let index: Int
    let eventLoop: any EventLoop
    private(set) var http: HTTPLoop!
    private unowned let shell: Shell
    private let authenticator: Authenticator
    private let logins: LoginRates
    private let refusedOrigins: RefusedOrigins
    private var gateway: Gateway
    private var admission: RequestAdmission
    private var callers = Callers()
    private var calls = ClientCalls<HTTPServerConnection>()
    private var streams = EventStreams<HTTPServerConnection>()
    private var turns = PushTurns()
    private var counters = Counters()
    private var nextSession: UInt64 = 0
    private var isDraining = false
    /// A connection hands over a request. No connection may be ended meanwhile.
    private var isReceiving = false
    private var lines = RepeatedLines()
    private var checkedTokens = CheckedTokens()

    init(
        index: Int, eventLoop: any EventLoop, limits: HTTPLimits, origins: AllowedOrigins, settings: GatewaySettings,
        refusedOrigins: RefusedOrigins, authenticator: Authenticator, logins: LoginRates, shell: Shell
    ) {
        self.index = index
        self.eventLoop = eventLoop
        self.authenticator = authenticator
        self.logins = logins
        self.refusedOrigins = refusedOrigins
        self.shell = shell
        gateway = Gateway(node: shell.peer.id, settings: settings)
        admission = RequestAdmission(seed: shell.peer.generation &+ UInt64(index))
        http = HTTPLoop(eventLoop: eventLoop, limits: limits, origins: origins, delegate: self)
    }

    // MARK: Requests

    func requestReceived(_ request: HTTPRequest, on connection: HTTPServerConnection) {
        isReceiving = true
        defer { isReceiving = false }
        if let status = request.refusedStatus {
            return respond(Problem(refused: status, request.refusedReason, by: http.limits), to: request.stream, on: connection)
        }
        if request.method == .options, request.origin != .absent {
            // A browser sends it only for a page of another origin. Other requests may come from pages that a proxy serves beside the node.
            if let refused = connection.refusedOrigin(of: request.stream) { refusedOrigins.note(refused, to: shell.logger) }
            return connection.respond(to: request.stream, .preflight(request.origin))
        }
        let path = request.target.prefix(before: UInt8(ascii: "?"))
        if path.equals(Self.eventsPath) { return eventStreamRequested(request, on: connection) }
        guard let operation = API.operation(ofPath: path) else { return fileRequested(path, request, on: connection) }
        guard request.method == .post else {
            return respond(.wrongMethod("\(operation.name) is called with POST"), to: request.stream, on: connection, allow: "POST")
        }
        operationRequested(operation, request, on: connection)
    }

    func mayHaveLargeAnswer(_ target: UnsafeBufferPointer<UInt8>, body: UnsafeBufferPointer<UInt8>) -> Bool {
        API.mayHaveLargeAnswer(toPath: target.prefix(before: UInt8(ascii: "?")), body: body)
    }

    private static let eventsPath = Array("/v1/events".utf8)

    /// Answers with a file that everybody may read.
    private func fileRequested(_ path: UnsafeBufferPointer<UInt8>, _ request: HTTPRequest, on connection: HTTPServerConnection) {
        guard let answer = Assets.publicAnswer(path) else {
            let names = API.Operation.allCases.map(\.name).joined(separator: ", ")
            return respond(
                .noSuchPath("no such path; POST /v1/ and one of \(names), or GET /v1/events"), to: request.stream, on: connection)
        }
        guard request.method.isRead else {
            return respond(.wrongMethod("the file is read with GET"), to: request.stream, on: connection, allow: "GET, HEAD")
        }
        connection.respond(to: request.stream, answer)
    }

    private func respond(
        _ problem: Problem, to stream: StreamID, on connection: HTTPServerConnection, operation: API.Operation? = nil,
        allow: StaticString? = nil, span: RequestSpan? = nil
    ) {
        calls.outcomes.count(problem, of: operation)
        shell.tracer.refused(problem, operation?.name, stream, on: connection, span)
        connection.respond(to: stream, HTTPResponse(problem, allow: allow))
    }

    // MARK: Calls

    private func operationRequested(_ operation: API.Operation, _ request: HTTPRequest, on connection: HTTPServerConnection) {
        let now = Clock.now()
        let span = request.traceparent.isEmpty ? nil : shell.tracer.begin(request, operation.name, on: connection)
        // A request that ends work is always admitted.
        let work = operation == .logout ? nil : admit(.operation, operation, request, on: connection, at: now, span)
        guard operation == .logout || work != nil else { return }
        let key = request.idempotencyKey.map { Array($0) }
        if let caller = callers.caller(of: request.authorization, on: connection, at: now, gateway.voidTokens) {
            return perform(
                operation, body: request.body, key: key, caller: caller, work: work, stream: request.stream, on: connection, at: now, span)
        }
        let body = Array(request.body)
        authenticate(request, on: connection, operation: operation, work: work, span) { [self] caller, stream in
            body.withUnsafeBufferPointer {
                perform(operation, body: $0, key: key, caller: caller, work: work, stream: stream, on: connection, at: Clock.now(), span)
            }
        }
    }

    private func perform(
        _ operation: API.Operation, body: UnsafeBufferPointer<UInt8>, key header: [UInt8]?, caller: Caller, work: Work?, stream: StreamID,
        on connection: HTTPServerConnection, at now: Now, _ span: RequestSpan?
    ) {
        let parsed: API.Parsed
        let key: CallKey?
        do throws(Problem) {
            parsed = try API.parse(operation, body: body, caller: caller, policy: gateway.policies.shared(of: caller.user))
            key = try operation.key(header, body: body)
        } catch {
            ended(work)
            return respond(error, to: stream, on: connection, operation: operation, span: span)
        }
        let originSession: OriginSession =
            parsed.subject == caller.user
            ? OriginSession(parsed.session ?? onlySession(of: caller.user, on: connection)) : .backEnd
        let origin: Call.Origin = !caller.isAdmin ? .caller : parsed.subject == caller.user ? .backEnd : .backEndForCaller
        noteSign(of: parsed, on: originSession, at: now)
        if operation == .streamTicket, let seconds = callers.refusedTickets.delay(of: parsed.subject, at: now.instant) {
            ended(work)
            return respond(.rateLimited(operation.name, retryAfter: seconds), to: stream, on: connection, operation: operation, span: span)
        }
        let token = calls.add(
            ClientCalls<HTTPServerConnection>.Call(
                connection: connection, stream: stream, operation: operation, caller: parsed.subject, errors: parsed.errors, work: work,
                span: span))
        let call = operation == .streamTicket ? ticketCall(of: parsed.subject, by: caller) : parsed.call
        shell.perform(
            call, key: key, caller: parsed.subject, origin: origin, originSession: originSession, from: self, token: token,
            trace: span?.context,
            at: now)
    }

    /// Records that a client is alive, because it has made a call. The session may be on another loop or node.
    private func noteSign(of parsed: API.Parsed, on origin: OriginSession, at now: Now) {
        let named: SessionID? = if case .session(let session) = origin { session } else { nil }
        guard let session = parsed.sign ?? named else { return }
        if let index = gateway.index(of: session, of: parsed.subject) { return streams.noteSign(of: index, at: .now()) }
        // The owner forwards a renewal itself.
        if case .owner(.renew) = parsed.call { return }
        shell.perform(
            .alive(session), key: nil, caller: parsed.subject, origin: .backEnd, originSession: .backEnd, from: self,
            token: Self.unusedToken, at: now)
    }

    /// The token of a call whose answer nobody waits for.
    private static let unusedToken = UInt64.max

    private func ticketCall(of user: UserID, by caller: Caller) -> Call {
        .issueTicket(StreamTicketText(for: user, by: caller).text)
    }

    /// The session of a user whose stream is on a connection; nil if there is none or more than one.
    private func onlySession(of user: UserID, on connection: HTTPServerConnection) -> SessionID? {
        gateway.onlySession(of: user) { streams.isOpen($0, on: connection) }
    }

    /// Answers a call with the core's answer.
    func answer(_ token: UInt64, _ answer: CallAnswer) {
        guard let call = calls.take(token) else { return }
        let shared = gateway.policies.shared(of: call.caller)
        let json: JSONWriter
        do throws(Problem) {
            json = try calls.write(answer, to: call, shared, unsure: gateway.unsure)
        } catch {
            ended(call.work)  // Also for 50001: a call that ran out of time counts as the latest of all.
            var problem = error
            if call.operation == .streamTicket, case .rateLimited(let seconds) = answer {
                callers.refusedTickets.add(call.caller, for: seconds, at: Clock.now().instant)
            }
            if problem.code == Refusal.overloaded.code { problem.retryAfter = admission.retryAfter(at: Clock.now().instant) }
            return respond(problem, to: call.stream, on: call.connection, operation: call.operation, span: call.span)
        }
        ended(call.work)
        calls.outcomes.countSuccess(answer, of: call, shared)
        if let span = call.span { shell.tracer.end(span) }
        json.bytes.withUnsafeBufferPointer { body in
            call.connection.respond(to: call.stream, status: 200, contentType: .json, body: body)
        }
        calls.reuse(json)
        // One batch of the core may have answers of a gigabyte.
        if !isReceiving, http.heldBytes > http.limits.heldBytesMax { http.flush() }
    }

    // MARK: Authentication

    /// Checks the token of a request, then carries out the request on this loop.
    private func authenticate(
        _ request: HTTPRequest, on connection: HTTPServerConnection, operation: API.Operation?, work: Work?, _ span: RequestSpan?,
        then body: @escaping (Caller, StreamID) -> Void
    ) {
        let (header, stream) = (Array(request.authorization), request.stream)
        let token: [UInt8]
        do throws(Problem) {
            token = try Callers.bearerToken(in: header)
        } catch {
            ended(work)
            return respond(error, to: stream, on: connection, operation: operation, span: span)
        }
        let keysVersion = authenticator.keysVersion
        let pending = PendingAuthentication(connection: connection) { [self] result in
            // The client may have left, or the node may have ended the connection for its unread answers.
            guard connection.isAwaitingAnswer(stream) else { return abandoned(work) }
            do throws(Problem) {
                body(try callers.checked(header, result, with: keysVersion, gateway.voidTokens), stream)
            } catch {
                ended(work)
                respond(error, to: stream, on: connection, operation: operation, span: span)
            }
        }
        let wall = Clock.now().wall
        Task { [self] in
            let result = await authenticator.check(token, at: wall)
            eventLoop.execute { self.tokenChecked(pending) { pending.finish(result) } }
        }
    }

    /// Goes on with a request whose token has been checked, or has it wait until other clients have had their turn.
    private func tokenChecked(_ pending: PendingAuthentication, _ goOn: @escaping () -> Void) {
        let now = NIODeadline.now()
        if checkedTokens.mayGoOn(at: now) {
            goOn()
            checkedTokens.wentOn(from: now, to: .now())
        } else if checkedTokens.wait(
            goOn, of: ObjectIdentifier(pending.connection), pausedUntil: { pending.connection.requestsPausedUntil })
        {
            http.continueLater(self)
        }
    }

    /// Goes on with requests whose tokens have been checked.
    func work() {
        checkedTokens.beginTurn()
        var (start, arePaused) = (NIODeadline.now(), true)
        while let goOn = checkedTokens.next(at: start) {
            goOn()
            let end = NIODeadline.now()
            checkedTokens.wentOn(from: start, to: end)
            (start, arePaused) = (end, false)
        }
        guard !checkedTokens.isEmpty else { return }
        guard arePaused else { return http.continueLater(self) }
        eventLoop.assumeIsolated().scheduleTask(in: CheckedTokens.pauseOfAll) { [weak self] in
            if let self { http.continueLater(self) }
        }
    }

    /// The keys of the apps were replaced. Open streams stay.
    func keysChanged(to version: UInt64) { callers.keysChanged(to: version) }

    /// A request whose token is being checked. Only the loop uses it, so it may cross to another thread and back.
    private struct PendingAuthentication: @unchecked Sendable {
        let connection: HTTPServerConnection
        let finish: (Result<Caller, AuthenticationError>) -> Void
    }

    // MARK: Admission

    /// Admits a request, or answers it with 50002 before it costs anything.
    private func admit(
        _ kind: Admission.Kind, _ operation: API.Operation?, _ request: HTTPRequest, on connection: HTTPServerConnection, at now: Now,
        _ span: RequestSpan?
    ) -> Work? {
        if admission.needsProbe { scheduleProbe() }
        switch admission.admit(kind, at: now.instant) {
        case .admitted(let work): return work
        case .refused(let response, let pause):
            if let operation { calls.outcomes.countRefusal(of: operation, code: Refusal.overloaded.code) }
            let problem = RefusalBodies.problem(retryAfter: response.retryAfter ?? 0)
            shell.tracer.refused(problem, operation?.name, request.stream, on: connection, span)
            connection.respond(to: request.stream, response)
            if pause > .zero { connection.pauseReading(for: .nanoseconds(pause.wholeNanoseconds)) }
            return nil
        }
    }

    private func ended(_ work: Work?) { if let work { admission.ended(work, at: Clock.now().instant) } }

    private func abandoned(_ work: Work?) { if let work { admission.abandoned(work) } }

    /// Measures the delay of the loop while requests come.
    private func scheduleProbe() {
        let due = NIODeadline.now() + .milliseconds(5)
        admission.probe(due: Instant(nanoseconds: Int64(due.uptimeNanoseconds)))
        eventLoop.assumeIsolated().scheduleTask(deadline: due) { [weak self] in self?.admission.probed(at: Clock.now().instant) }
    }

    // MARK: Event streams

    private func eventStreamRequested(_ request: HTTPRequest, on connection: HTTPServerConnection) {
        guard request.method.isRead else {
            return respond(.wrongMethod("the event stream is opened with GET"), to: request.stream, on: connection, allow: "GET, HEAD")
        }
        let now = Clock.now()
        let span = request.traceparent.isEmpty ? nil : shell.tracer.begin(request, "events", on: connection)
        let known = callers.caller(of: request.authorization, on: connection, at: now, gateway.voidTokens)
        if known != nil, let refusal = callers.loginRefusal(on: connection, at: now.instant) {
            logins.count(refusal.reason)
            connection.paceAddress()
            return refuseLogin(refusal, stream: request.stream, on: connection, span)
        }
        guard let work = admit(request.lastEventID.isEmpty ? .login : .resume, nil, request, on: connection, at: now, span) else { return }
        let login = Login(
            isHead: request.method == .head, query: Array(request.target.drop { $0 != UInt8(ascii: "?") }.dropFirst()),
            lastEventID: String(decoding: request.lastEventID, as: UTF8.self), work: work, connection: connection, span: span)
        if let known { return open(login, by: known, on: request.stream) }
        // A ticket is valid once, so HEAD does not use it.
        if request.authorization.isEmpty, !login.isHead, let ticket = login.ticket { return redeem(ticket, for: login, on: request.stream) }
        authenticate(request, on: connection, operation: nil, work: work, span) { [self] in open(login, by: $0, on: $1) }
    }

    /// Opens the stream of a caller, unless a rule refuses it.
    private func open(_ login: Login, by caller: Caller, on stream: StreamID) {
        let connection = login.connection
        do throws(Problem) {
            let query = try EventStreamQuery(login.query)
            let user = try API.subject(asUser: query.asUser, caller: caller)
            let policy = gateway.policy(of: user)
            try query.check(by: policy)
            if caller.opensNoSession(by: policy, at: Clock.now().wall) { throw .notLoggedIn("exp: the token has expired") }
            if login.isHead {
                ended(login.work)
                if let span = login.span { shell.tracer.end(span) }
                return connection.respond(to: stream, headOfStream: .eventStream)
            }
            if let refusal = logins.refusal(of: user, from: connection.origin, at: Clock.now().instant) {
                if user == caller.user, refusal.reason == .loginsPerUser { callers.remember(refusal, of: caller, on: connection) }
                ended(login.work)
                return refuseLogin(refusal, stream: stream, on: connection, login.span)
            }
            let position = login.lastEventID.isEmpty ? query.lastEventID ?? "" : login.lastEventID
            openSession(
                of: user, query, until: caller.expiresAt, resumeFrom: Milliseconds(position), work: login.work, stream: stream,
                on: connection)
            if let span = login.span { shell.tracer.end(span) }
        } catch {
            ended(login.work)
            respond(error, to: stream, on: connection, span: login.span)
        }
    }

    /// Asks the owner of the ticket's user whether the ticket is unused, then opens the stream.
    private func redeem(_ text: String, for login: Login, on stream: StreamID) {
        guard let ticket = StreamTicketText(text) else { return refuse(login, Problem(.voidTicket), on: stream) }
        let caller = Caller(user: ticket.user, isAdmin: false, expiresAt: ticket.expiresAt, issuedAt: ticket.issuedAt)
        let pending = PendingTicket { [self] answer in
            switch answer {
            case .refused(let refusal): refuse(login, Problem(refusal), on: stream)
            case .done where gateway.voidTokens.isVoid(caller.user, issuedAt: caller.issuedAt):
                refuse(login, Problem(.voidTicket), on: stream)
            case .done: open(login, by: caller, on: stream)
            default: preconditionFailure("a ticket is answered with \(answer)")
            }
        }
        shell.eventLoop.execute { [self] in
            shell.perform(.redeemTicket(text), caller: ticket.user) { [eventLoop] answer in eventLoop.execute { pending.finish(answer) } }
        }
    }

    /// A request whose ticket is being checked. Only the loop uses it, so it may cross to another thread and back.
    private struct PendingTicket: @unchecked Sendable {
        let finish: (CallAnswer) -> Void
    }

    private func refuse(_ login: Login, _ problem: Problem, on stream: StreamID) {
        ended(login.work)
        respond(problem, to: stream, on: login.connection, span: login.span)
    }

    /// How long a connection is left unread after a refused login.
    private static let pauseAfterLogins = TimeAmount.milliseconds(20)

    private func refuseLogin(
        _ refusal: LoginRates.Refusal, stream: StreamID, on connection: HTTPServerConnection, _ span: RequestSpan?
    ) {
        shell.tracer.refused(refusal.problem, nil, stream, on: connection, span)
        connection.respond(to: stream, refusal.response)
        connection.countReset()
        // The other requests of the connection wait at the client. For a second after that, 4 KiB are read at a time.
        connection.pauseReading(for: Self.pauseAfterLogins)
    }

    private func openSession(
        of user: UserID, _ query: EventStreamQuery, until expiresAt: Milliseconds, resumeFrom: Milliseconds?, work: Work,
        stream: StreamID, on connection: HTTPServerConnection
    ) {
        guard connection.isAwaitingAnswer(stream) else { return abandoned(work) }
        nextSession += 1
        let session = SessionID(stamp: shell.peer.generation << 20 + nextSession << 6 + UInt64(index), node: shell.peer.versionNode)
        var attach = Attach(
            session: session, user: user, platform: query.platform, deviceID: query.deviceID,
            customStatus: query.kind == .session ? query.customStatus : nil,
            isPushReachable: query.kind == .session && query.isPushReachable)
        attach.kind = query.kind
        let index = gateway.open(
            attach, until: expiresAt, resumeFrom: resumeFrom, heartbeatEvery: query.heartbeat, at: Clock.now())
        let limits = HTTPServerConnection.SilenceLimits(gateway.heartbeat(of: user, on: query.platform))
        // The comments that a client asks for serve the client. The PINGs, which serve the node, stay as rare as they are.
        let heartbeat = gateway.heartbeat(of: user, on: query.platform, every: query.heartbeat)
        let hasComments = query.heartbeat != nil || (connection.isHTTP2 && (query.wantsComments || query.ticket != nil))
        streams.open(
            index, .init(connection: connection, stream: stream), limits: limits, login: work,
            commentsEvery: hasComments ? TimeAmount(heartbeat.interval) : nil, promisesSigns: query.promisesSigns)
        connection.openEventStream(stream, token: index)
        flush()
    }

    func eventStreamClosed(_ stream: StreamID, token: UInt32, on connection: HTTPServerConnection, reason: StreamEnd) {
        let silence = streams.silence(of: token, at: .now())
        abandoned(streams.close(token))
        if isDraining { return }
        gateway.close(token, cause: .lost, silence: silence.nanoseconds / 1_000_000)
        setNeedsFlush()
    }

    func eventStreamDrained(_ stream: StreamID, token: UInt32, on connection: HTTPServerConnection) {
        gateway.unblock(token)
        setNeedsFlush()
    }

    func connectionOpened(_ connection: HTTPServerConnection) { counters.connections += 1 }

    func connectionClosed(_ connection: HTTPServerConnection) { counters.connections -= 1 }

    func violated(_ violation: HTTPViolation) {
        counters.violations[violation, default: 0] += 1
        guard violation == .unreadTooMuch, lines.isDue("", violation.rawValue, at: .now()) else { return }
        shell.logger.warning(
            "clients do not read their answers; the oldest unread ones are ended; this line is repeated at most once a minute",
            metadata: ["loop": "\(index)", "heldBytes": "\(http.heldBytes)", "heldBytesMax": "\(http.limits.heldBytesMax)"])
    }

    // MARK: Pushes

    /// Takes a batch of messages of the core, then flushes once.
    func receive(_ messages: [NodeMessage]) {
        for message in messages { receive(message) }
        flush()
    }

    func receive(_ message: NodeMessage) {
        if case .deliver(let record) = message {
            let age = Clock.now().wall - record.lastUpdateTime
            let sessionsCount = gateway.deliver(record)
            turns.observe(age: age, sessionsCount: sessionsCount)
        } else {
            if case .renew(let session, _) = message, let index = gateway.index(of: session) { streams.noteSign(of: index, at: .now()) }
            gateway.receive(message)
        }
        setNeedsFlush()
    }

    private func setNeedsFlush() { if turns.schedule() { eventLoop.execute { self.flush() } } }

    /// Carries out the output of the gateway until there is no more.
    func flush() {
        guard turns.begin() else { return }
        while turns.takeOutput(of: &gateway) {
            deliverPushes()
            for session in turns.output.attached { loginEnded(session) }
            for session in turns.output.ended { if let slot = streams.slot(of: session) { slot.connection.finish(slot.stream) } }
            for session in turns.output.cutOff { if let slot = streams.slot(of: session) { slot.connection.reset(slot.stream) } }
            let messages = turns.finishOutput()
            if !messages.isEmpty { shell.receive(messages, from: self) }
        }
        turns.end()
    }

    private func deliverPushes() {
        guard !turns.output.pushes.isEmpty else { return }
        let blocked = streams.push(turns.output.pushes, turns.output.payloads)
        guard !blocked.isEmpty else { return }
        let now = Clock.now()
        for session in blocked { gateway.block(session, at: now) }
    }

    private func loginEnded(_ session: Gateway.SessionIndex) {
        if let login = streams.takeLogin(of: session) { admission.loginEnded(login, at: Clock.now().instant) }
    }

    // MARK: Time

    /// How often the loop checks the health of its sessions.
    static let tickInterval = Duration.seconds(1)

    /// Checks the health of the sessions at each ``tickInterval``.
    func scheduleTicks() {
        eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(Self.tickInterval)) { [weak self] in
            self?.tick()
            self?.scheduleTicks()
        }
    }

    /// Pings silent clients, and ends the sessions of those that have been silent for too long (T6).
    private func tick() {
        let now = NIODeadline.now()
        let clocks = Clock.now()
        gateway.tick(at: clocks)
        for login in streams.takeLogins(olderThan: .seconds(1), at: clocks.instant) { admission.abandoned(login) }
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
        if hasSilent { end(streams.takeSilent(at: now)) }
        end(streams.overdueSigns(at: now))
        streams.sendComments(at: now)
        flush()
    }

    /// Ends the sessions of silent clients. A connection without another session is closed.
    private func end(_ silent: [EventStreams<HTTPServerConnection>.Silent]) {
        for silent in silent {
            counters.silentSessions += UInt64(silent.streams.count)
            if silent.streams.count == silent.connection.applicationCount {
                silent.connection.close()
            } else {
                silent.streams.forEach(silent.connection.reset)
            }
        }
    }

    // MARK: Stopping

    /// Asks the clients to open their streams elsewhere within `spread`. Meanwhile streams go on and calls are answered.
    ///
    /// A connection gets GOAWAY once nothing is open on it, because some clients drop all streams of a connection at GOAWAY.
    func askToLeave(spread: Duration) {
        gateway.hintReconnect(reason: "draining", spread: spread)
        flush()
        http.leave()
    }

    /// Succeeds once no session is left, or at `deadline`.
    func whenEmpty(until deadline: NIODeadline) -> EventLoopFuture<Void> {
        eventLoop.flatSubmit { self.eventLoop.when({ self.gateway.streamsCount == (0, 0) }, until: deadline) }
    }

    /// Ends the streams that are left, without a message to the owners.
    ///
    /// The owners keep the sessions for the reconnect grace, so a client that reconnects elsewhere is not shown as offline meanwhile.
    func drain() {
        isDraining = true
        for slot in streams.openSlots { slot.connection.finish(slot.stream) }
        http.goAway()
    }

    /// Succeeds once the clients have closed their connections, or at `deadline`.
    func whenClosed(until deadline: NIODeadline) -> EventLoopFuture<Void> {
        eventLoop.flatSubmit { self.eventLoop.when({ self.http.connectionsCount == 0 }, until: deadline) }
    }

    /// Succeeds once no call waits for an answer, or at `deadline`.
    func whenIdle(until deadline: NIODeadline) -> EventLoopFuture<Void> {
        eventLoop.flatSubmit { self.eventLoop.when({ self.calls.isEmpty }, until: deadline) }
    }

    /// The counts of this loop and its parts.
    var snapshot: Counters {
        var copy = counters
        copy.successes = calls.outcomes.successes
        copy.refusals = calls.outcomes.refusals
        copy.rejections = calls.outcomes.rejections
        copy.gateway = gateway.counters
        copy.verifiedTokensBytes = callers.bytes
        copy.heldBytes = http.heldBytes
        (copy.sessions, copy.listeners) = gateway.streamsCount
        copy.users = gateway.usersCount
        copy.pushSeconds = turns.seconds
        copy.loginSeconds = admission.loginSeconds
        copy.operationSeconds = admission.operationSeconds
        copy.admission = admission.gauges
        copy.delay = admission.longestDelay(at: Clock.now().instant)
        return copy
    }
}
