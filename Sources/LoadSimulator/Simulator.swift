import Foundation
import HTTP2
import NIOConcurrencyHelpers
import NIOCore
import PresenceWire

/// Runs a population of users over few connections, on one event loop.
///
/// The decisions are made by types with their own state: ``LoadSchedule`` (phases and times), ``ConnectionPool`` (which connection),
/// ``CallTable`` and ``RecordQuery`` (calls and the nodes' records), ``Ledger`` (verification), ``SocialLoad`` (relationships) and
/// ``SimulationRecorder`` (the report).
/// This class moves bytes, timers and results between them.
final class Simulator: HTTPClientDelegate, @unchecked Sendable {
    private let options: SimulationOptions
    let eventLoop: any EventLoop
    private let population: Population
    private let progress: NIOLockedValueBox<SimulationProgress>
    private let tokens: [String]
    private let loop: HTTPClientConnection.Loop
    private var random: SplitMix64
    private var users: [VirtualUser]
    private var schedule: LoadSchedule
    private var pool: ConnectionPool<HTTPClientConnection>
    private var calls = CallTable()
    private var query: RecordQuery
    private var ledger: Ledger
    /// The relationships in scenario `social`.
    private var social: SocialLoad?
    private var recorder: SimulationRecorder
    private var returning = ReturningUsers()
    /// Users that wait for a connection with room, in order of arrival.
    private var unplaced: CircularBuffer<Int> = []
    private let start = NIODeadline.now()
    private let done: EventLoopPromise<Void>
    private var isStopRequested = false

    init(
        options: SimulationOptions, tokens: [String], population: Population, eventLoop: any EventLoop,
        progress: NIOLockedValueBox<SimulationProgress>
    ) {
        self.options = options
        self.eventLoop = eventLoop
        self.population = population
        self.tokens = tokens
        self.progress = progress
        loop = HTTPClientConnection.Loop(eventLoop: eventLoop)
        random = SplitMix64(seed: options.seed &* 31 &+ 7)
        users = Array(repeating: VirtualUser(), count: options.users)
        schedule = LoadSchedule(options)
        pool = ConnectionPool(
            connections: options.connectionsCount, targets: options.targets.count, streamsPerConnection: options.streamsPerConnection)
        query = RecordQuery(users: options.users)
        ledger = Ledger(population: population, graceSeconds: options.graceSeconds)
        social = options.scenario == .social ? SocialLoad(population: population) : nil
        recorder = SimulationRecorder(options)
        done = eventLoop.makePromise()
    }

    private var now: Double { Double((NIODeadline.now() - start).nanoseconds) / 1e9 }

    // MARK: The run

    /// Runs to the end. The ledger is closed then.
    func run() -> EventLoopFuture<Void> {
        eventLoop.execute { self.begin() }
        return done.futureResult
    }

    /// Ends the load early. The run is still verified.
    func stop() { eventLoop.execute { self.isStopRequested = true } }

    /// Marks the end of a phase: later latencies belong to the next one.
    func endPhase() { eventLoop.execute { self.recorder.endPhase() } }

    /// The report of a run that is over, with the nodes' counters before and after it. Closes every connection.
    func takeReport(counters: (before: [String: Double], after: [String: Double])?) -> SimulationReport {
        if options.verify, let counters {
            recorder.compareCounters(
                counters.before, counters.after, recordsReceived: ledger.counts.recordsReceived,
                isFlapping: options.scenario == .flapping)
        }
        pool.closeAll()
        return recorder.report
    }

    private func begin() {
        for index in pool.indices {
            // Three a millisecond: thousands at once would outlast their own time-out.
            if index < 100 { connect(index) } else { after(milliseconds: Int64(index / 3)) { $0.connect(index) } }
        }
        pump()
        tick()
    }

    /// Does what is due. Runs every two milliseconds, so that arrivals come in small groups.
    private func pump() {
        let now = self.now
        for user in returning.take(upTo: now) { open(user) }
        for _ in 0..<min(unplaced.count, 100) { open(unplaced.removeFirst()) }
        switch schedule.phase {
        case .login: if pool.isAnyOpen { for user in schedule.takeLogins(at: now) { open(user) } }
        case .load:
            while let scheduledAt = schedule.takeChange(at: now, using: &random) { change(scheduledAt: scheduledAt) }
            if schedule.isLoadOver(at: now) || isStopRequested { recorder.endLoad(seconds: schedule.beginSettle(at: now)) }
        case .settle, .over: break
        }
        guard schedule.phase != .over else { return }
        while pool.isAnyOpen, let read = social?.nextRead(at: now) { send(read) }
        after(milliseconds: 2) { $0.pump() }
    }

    /// Counts, and moves from phase to phase. Runs ten times a second.
    private func tick() {
        let now = self.now
        if recorder.isSecondOver(at: now) { recorder.endSecond(at: now, usersLive: users.count { $0.isLive }) }
        publishProgress(now)
        if schedule.phase == .login, now > Self.reachSeconds, !pool.wasAnyOpen { giveUp() }
        advanceLists(at: now)
        let isReading = social?.isReading == true
        switch schedule.phase {
        case .login:
            if schedule.hasEveryLoginBegun, users.allSatisfy(\.isLive) && !isReading || isStopRequested { queryRecords() }
        case .settle: if !query.isOpen, !isReading, !schedule.isLingering { queryRecords() }
        case .load, .over: break
        }
        guard schedule.phase != .over else { return }
        after(milliseconds: 100) { $0.tick() }
    }

    private func publishProgress(_ now: Double) {
        let usersLive = schedule.phase == .login ? users.count { $0.isLive } : recorder.report.timeline.last?.usersLive ?? 0
        let percentiles = recorder.pushPercentiles
        let lastSecond = recorder.report.timeline.last
        progress.withLockedValue { progress in
            progress.phase = "\(schedule.phase)"
            progress.seconds = now
            progress.lastSecond = lastSecond
            progress.usersLive = usersLive
            progress.changes = recorder.report.changes
            progress.pushes = recorder.pushesCount
            progress.p50Milliseconds = percentiles.p50
            progress.p99Milliseconds = percentiles.p99
        }
    }

    private func beginLoad() {
        guard schedule.beginLoad(at: now) else { return }
        recorder.endLogins(at: now)
        ledger.endLogins()
    }

    /// The time after which a run without any reachable target ends.
    private static let reachSeconds = 10.0

    private func giveUp() {
        guard schedule.end() else { return }
        done.fail(SimulationOptions.Unreachable(targets: options.targets, seconds: Int(Self.reachSeconds)))
    }

    private func finish() {
        guard schedule.end() else { return }
        recorder.finish(ledger.counts, examples: ledger.examples, relationships: social?.result)
        done.succeed()
    }

    private func after(milliseconds: Int64, _ body: @escaping (Simulator) -> Void) {
        eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(milliseconds)) { [weak self] in
            if let self { body(self) }
        }
    }

    // MARK: Changes

    private func change(scheduledAt: Double) {
        if let kind = social?.drawKind(using: &random), kind != .presence { return changeSocially(kind, scheduledAt: scheduledAt) }
        let user = options.scenario == .celebrity ? 0 : Int.random(in: 0..<options.users, using: &random)
        guard users[user].isLive else { return recorder.countError("not live") }
        guard options.scenario == .flapping else { return setStatus(user, scheduledAt: scheduledAt) }
        switch Int.random(in: 0..<10, using: &random) {
        case 0..<3: setStatus(user, scheduledAt: scheduledAt)
        case 3..<8: drop(user)
        default:
            ledger.logOut(user)
            users[user].state = .leaving
            call(.logout(user: user), user: user, operation: "logout", body: "{}")
        }
    }

    /// Begins a call about a relationship or a profile.
    private func changeSocially(_ kind: SocialLoad.Kind, scheduledAt: Double) {
        let now = self.now
        let isLive = { (user: Int) in self.users[user].isLive }
        let outgoing =
            kind == .profile
            ? social?.beginProfile(at: now, using: &random, isLive: isLive)
            : social?.beginRelationship(scheduledAt: scheduledAt, at: now, using: &random, isLive: isLive)
        if let outgoing { send(outgoing) }
    }

    private func send(_ outgoing: SocialLoad.Outgoing) {
        call(outgoing.purpose, user: outgoing.user, operation: outgoing.operation, body: outgoing.body)
    }

    private func setStatus(_ user: Int, scheduledAt: Double) {
        let change = ledger.beginChange(of: user)
        users[user].remember(change: change, scheduledAt: scheduledAt)
        recorder.countChange()
        call(
            .setStatus(scheduledAt: scheduledAt), user: user, operation: "setSelfStatus",
            body: "{\"customStatus\":\"\(Population.customStatus(user: user, change: change))\"}")
    }

    /// Resets the user's stream without a logout. The user returns within the grace.
    private func drop(_ user: Int) {
        guard let stream = users[user].stream, let client = pool.client(at: users[user].connection) else { return }
        users[user].state = .leaving
        ledger.leave(user, at: now)
        client.reset(stream)
    }

    // MARK: Streams

    private func open(_ user: Int) {
        guard users[user].state == .away, schedule.phase != .over else { return }
        guard let index = pool.index(for: user, targetShift: users[user].targetShift), let client = pool.client(at: index) else {
            return unplaced.append(user)
        }
        var headers: [(name: StaticString, value: String)] = [("authorization", tokens[user])]
        if let id = users[user].lastEventID { headers.append(("last-event-id", String(id))) }
        let path = "/v1/events?platform=simulator&deviceID=d\(user)"
        guard let stream = client.send(.get, path: path, headers: headers, token: UInt32(user)) else { return retry(user) }
        users[user].begin(stream, on: index, at: now)
        ledger.beginStream(of: user)
    }

    private func retry(_ user: Int) {
        users[user].fail()
        let wait = users[user].backoffMilliseconds(using: &random)
        after(milliseconds: wait) { $0.open(user) }
    }

    private func endStream(of user: Int) {
        guard schedule.phase != .over else { return }
        let wasLeaving = users[user].end()
        if let problem = users[user].takeProblem() { return refuseLogin(of: user, ProblemBody(problem)) }
        ledger.leave(user, at: now)
        if wasLeaving {
            let wait = Int64.random(in: 50...800, using: &random)
            after(milliseconds: wait) { $0.open(user) }
        } else {
            recorder.countReconnect()
            retry(user)
        }
    }

    /// A node has refused an event stream. The user returns at the time that the node gave.
    private func refuseLogin(of user: Int, _ problem: ProblemBody) {
        recorder.countRefusedLogin(code: problem.code)
        guard let seconds = problem.retryAfter else { return retry(user) }
        returning.add(user, at: now + Double(waitMilliseconds(seconds)) / 1_000)
    }

    /// Adds a random part of a second, so that users with the same `retryAfter` do not return together.
    private func waitMilliseconds(_ seconds: Int64) -> Int64 { seconds * 1_000 + Int64.random(in: 0..<1_000, using: &random) }

    private func subscribe(_ user: Int) {
        let names = population.watched[user].map { "\"\(population.name(of: Int($0)))\"" }
        guard !names.isEmpty else { return users[user].isSubscribed = true }
        for start in stride(from: 0, to: names.count, by: Limits.subscribeUsersMax) {
            users[user].subscribesOpen += 1
            let part = names[start..<min(start + Limits.subscribeUsersMax, names.count)].joined(separator: ",")
            call(.subscribe(user: user), user: user, operation: "subscribeUserStatus", body: "{\"userIDs\":[\(part)]}")
        }
    }

    private func receive(_ bytes: UnsafeRawBufferPointer, for user: Int) {
        var scanner = EventScanner()
        swap(&scanner, &users[user].scanner)
        scanner.append(bytes) { kind, id, data in
            if let id, id > 0 { users[user].lastEventID = id }
            switch kind {
            case .connected: connect(user: user)
            case .statusChanged: receive(statuses: data, for: user)
            case .syncCompleted: users[user].sync(at: now)
            case .reconnectHint: receive(hint: data, for: user)
            case .chain(let event): if social?.receive(event, data, by: user) == false { ledger.receivedJunk() }
            case .kicked, .other: break
            }
        }
        swap(&scanner, &users[user].scanner)
    }

    /// The node is about to stop: after the delay of the hint, the user opens a stream elsewhere, and then resets this one.
    private func receive(hint data: UnsafeBufferPointer<UInt8>, for user: Int) {
        guard case .integer(let delay)? = (try? JSONReader.read(data))?["afterMilliseconds"] else { return ledger.receivedJunk() }
        let (stream, connection) = (users[user].stream, users[user].connection)
        after(milliseconds: delay) { simulator in
            guard simulator.users[user].stream == stream, simulator.users[user].connection == connection else { return }
            simulator.move(user)
        }
    }

    private func move(_ user: Int) {
        guard let client = pool.client(at: users[user].connection), users[user].move(from: client) else { return }
        recorder.countMove()
        open(user)
    }

    private func connect(user: Int) {
        recorder.countLogin(seconds: now - users[user].openedAt)
        if let previous = users[user].connect() { previous.client.reset(previous.stream) }
        ledger.comeBack(user, at: now)
        if !users[user].isSubscribed, users[user].subscribesOpen == 0 { subscribe(user) }
    }

    private func receive(statuses data: UnsafeBufferPointer<UInt8>, for watcher: Int) {
        let now = self.now
        let isJSON = StatusScanner.scan(data) { status in
            recorder.countPush()
            let newer = ledger.receive(status, by: watcher, at: now) { user, watcher in social?.mayFollow(user, watcher) ?? false }
            guard let (user, change) = newer else { return }
            guard let scheduledAt = users[user].scheduledAt(change: change), user != watcher, scheduledAt > users[watcher].syncedAt else {
                return
            }
            recorder.recordPush(seconds: now - scheduledAt)
        }
        if !isJSON { ledger.receivedJunk() }
    }

    // MARK: Calls

    private func call(_ purpose: PendingCall.Purpose, user: Int, operation: String, body: String) {
        let token = calls.begin(purpose)
        let headers: [(name: StaticString, value: String)] = [("authorization", tokens[user])]
        let client = pool.index(for: user, targetShift: users[user].targetShift).flatMap { pool.client(at: $0) }
        let stream = client?.send(.post, path: "/v1/\(operation)", headers: headers, body: ByteBuffer(string: body), token: token)
        if stream == nil { endCall(token, error: 1) }
    }

    private func endCall(_ token: UInt32, error: UInt32) {
        guard let call = calls.end(token) else { return }
        let isAnswered = error == 0 && call.status == 200
        let problem = isAnswered ? nil : ProblemBody(call.body)
        if !isAnswered { recorder.countError(error != 0 ? "connection" : problem?.code ?? "HTTP \(call.status)") }
        switch call.purpose {
        case .setStatus(let scheduledAt):
            guard isAnswered else { return }
            recorder.countAnswer("setSelfStatus")
            recorder.recordAnswer(seconds: now - scheduledAt)
        case .subscribe(let user):
            users[user].subscribesOpen -= 1
            if isAnswered { recorder.countAnswer("subscribeUserStatus") }
            if users[user].subscribesOpen == 0 { endSubscribe(user, isAnswered, retryAfter: problem?.retryAfter) }
        case .logout(let user):
            if isAnswered { recorder.countAnswer("logout") } else if users[user].state == .leaving { users[user].state = .connected }
        case .query:
            if isAnswered { receive(records: call.body) }
            let retryAt = problem?.retryAfter.map { now + Double(waitMilliseconds($0)) / 1_000 }
            if query.end(isAnswered: isAnswered, retryAt: retryAt) { compare() }
        case .relationship, .profile: endDecision(call, isConnected: error == 0, code: problem?.code)
        case .list(let user, let step): endRead(call, of: step, user: user, problem)
        }
    }

    /// Tells the ledger of relationships the end of a call.
    private func endDecision(_ call: PendingCall, isConnected: Bool, code: String?) {
        let end = RelationshipLedger.CallEnd(status: isConnected ? call.status : nil, body: call.body)
        let operation: String
        switch call.purpose {
        case .relationship(let pair, let decision, let scheduledAt):
            operation = decision.operation
            if decision == .add, case .answered = end { recorder.recordAddFriend(seconds: now - scheduledAt) }
            social?.end(pair: pair, end, mayBeRepeated: recorder.report.reconnects > 0)
        case .profile(let user):
            operation = "modifySelfProfile"
            social?.endProfile(of: user, end)
        case .setStatus, .subscribe, .logout, .query, .list: return
        }
        if isConnected, call.status == 200 { recorder.countAnswer(operation) }
        recorder.countSocial(operation, end.word(code: code))
    }

    private func endRead(_ call: PendingCall, of step: ListReading.Step, user: Int, _ problem: ProblemBody?) {
        guard let problem else {
            recorder.countAnswer(step.operation)
            do {
                if let next = try social?.receive(call.body, of: step, user: user) { send(next) }
            } catch {
                recorder.countError("\(step.operation): \(error.member) is missing")
                social?.failRead(of: user, retryAt: now + 1)
            }
            return
        }
        social?.failRead(of: user, retryAt: now + Double(waitMilliseconds(problem.retryAfter ?? 0)) / 1_000)
        if problem.code == Self.switchedOffCode, schedule.end() {
            done.fail(SimulationOptions.Invalid(description: SimulationOptions.needsChain))
        }
    }

    /// The code of a refusal for a feature that is switched off.
    private static let switchedOffCode = "72001"

    private func endSubscribe(_ user: Int, _ isAnswered: Bool, retryAfter: Int64?) {
        if isAnswered { return users[user].isSubscribed = true }
        after(milliseconds: retryAfter.map(waitMilliseconds) ?? 200) { simulator in
            if !simulator.users[user].isSubscribed, simulator.users[user].subscribesOpen == 0 { simulator.subscribe(user) }
        }
    }

    // MARK: Verification

    /// Asks the nodes for every user's record.
    private func queryRecords() {
        guard query.mayBegin(at: now), pool.isAnyOpen else { return }
        let batches = stride(from: 0, to: options.users, by: Limits.queryUsersMax)
        query.begin(batches: batches.reduce(0) { count, _ in count + 1 })
        for start in batches {
            let names = (start..<min(start + Limits.queryUsersMax, options.users)).map { "\"\(population.name(of: $0))\"" }
            call(
                .query, user: population.observer(using: &random), operation: "getUserStatus",
                body: "{\"userIDs\":[\(names.joined(separator: ","))]}")
        }
    }

    private func receive(records body: [UInt8]) {
        body.withUnsafeBufferPointer { body in
            _ = StatusScanner.scan(body) { status in
                if let user = population.user(named: status.userID) { query.receive(status, of: user) }
            }
        }
    }

    private func compare() {
        let isEveryUserLive = users.allSatisfy(\.isLive)
        let behind = ledger.viewsBehind(query) { users[$0].isLive }
        let isRight = behind == 0 && isEveryUserLive && query.isComplete
        switch schedule.phase {
        case .login:
            if isRight || isStopRequested || !options.verify { endLogins() }
        case .settle:
            if isRight {
                recorder.converge(seconds: schedule.secondsToConverge(at: now, lastReturnAt: recorder.lastReturnAt))
                return readLists() ? () : linger()
            }
            if schedule.isSettleOver(at: now) {
                ledger.close(lost: behind + (users.count { !$0.isLive }), records: query)
                if !readLists() { finish() }
            }
        case .load, .over: break
        }
    }

    /// Begins the load; in scenario `social` once the lists of all users have been read.
    private func endLogins() {
        if social == nil || isStopRequested { return beginLoad() }
        social?.beginReading(at: now)
    }

    /// Begins to compare the users' lists with the ledger. Returns false if there is nothing to compare.
    private func readLists() -> Bool {
        options.verify && social?.beginVerification(at: now, settle: options.settle) == true
    }

    private func advanceLists(at now: Double) {
        let isLive = { (user: Int) in self.users[user].isLive }
        switch social?.advance(at: now, isLive: isLive) {
        case .first?: beginLoad()
        case .last?: linger()
        case nil: break
        }
    }

    /// Waits before the end, so that an unexpected push can still arrive.
    private func linger() {
        guard schedule.beginLinger() else { return }
        after(milliseconds: 500) { $0.finish() }
    }

    // MARK: Connections

    private func connect(_ index: Int) {
        guard schedule.phase != .over else { return }
        let target = options.targets[pool.target(of: index)]
        let source = options.sourceAddresses > 1 ? "127.0.0.\(2 + index % (options.sourceAddresses - 1))" : nil
        let client = HTTPClientConnection.connect(
            host: target.host, port: target.port, on: loop, sourceAddress: source, timeout: .seconds(10), delegate: self)
        client.token = UInt32(index)
        pool.begin(client, at: index)
    }

    func connected(_ connection: HTTPClientConnection) {
        if pool.open(Int(connection.token)) { recorder.countReturn(at: now) }
    }

    func closed(_ connection: HTTPClientConnection, error: (any Error)?) {
        let index = Int(connection.token)
        guard pool.close(connection, at: index) else { return }
        let wait = pool.reconnectDelay(of: index, using: &random)
        after(milliseconds: wait) { $0.connect(index) }
    }

    func responseHead(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, status: Int) {
        if CallTable.isCall(token) {
            calls.receive(status: status, for: token)
        } else if status != 200, isPresent(stream, of: Int(token), on: connection) {
            users[Int(token)].beginProblem()
        }
    }

    func responseBody(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, bytes: UnsafeRawBufferPointer) {
        if CallTable.isCall(token) {
            calls.receive(bytes, for: token)
        } else if isPresent(stream, of: Int(token), on: connection), !users[Int(token)].receive(problem: bytes) {
            receive(bytes, for: Int(token))
        }
    }

    func streamClosed(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, error: UInt32) {
        if CallTable.isCall(token) { return endCall(token, error: error) }
        if isPresent(stream, of: Int(token), on: connection) { endStream(of: Int(token)) }
    }

    private func isPresent(_ stream: StreamID, of user: Int, on connection: HTTPClientConnection) -> Bool {
        users[user].stream == stream && users[user].connection == Int(connection.token)
    }
}
