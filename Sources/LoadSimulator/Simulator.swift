import Foundation
import HTTP2
import Histogram
import NIOConcurrencyHelpers
import NIOCore
import PresenceWire

/// Live numbers, for another thread.
public struct SimulationProgress: Sendable {
    public var phase = "connecting"
    public var usersLive = 0
    public var changes = 0
    public var pushes = 0
    public var p50Milliseconds = 0.0
    public var p99Milliseconds = 0.0
    public var seconds = 0.0
}

/// Presses a cluster with many users over few connections; everything happens on one event loop.
final class Simulator: HTTPClientDelegate, @unchecked Sendable {
    struct Connection {
        let target: Int
        var client: HTTPClientConnection?
        var isUp = false
        var wasUp = false
        var attempts = 0
    }

    enum Phase { case login, load, settle, over }

    let options: SimulationOptions
    let eventLoop: any EventLoop
    let population: Population
    let progress: NIOLockedValueBox<SimulationProgress>
    private let tokens: [String]
    private let loop: HTTPClientConnection.Loop
    var random: SplitMix64
    var users: [VirtualUser]
    var connections: [Connection] = []
    private var pools: [[Int]]
    var ledger: Ledger
    var phase = Phase.login
    private var calls: [PendingCall?] = []
    private var freeCalls: [Int] = []
    private let start = NIODeadline.now()
    private var nextLogin = 0
    /// Users for whom no connection has room now, in the order in which they came.
    private var unplaced: CircularBuffer<Int> = []
    private var returning = ReturningUsers()
    private var nextTruthAt = 0.0
    private var nextArrival = 0.0
    private var loadEndsAt = 0.0
    var lastReturnAt: Double?
    var pushLatency = Histogram<UInt64>(highestTrackableValue: 120_000_000)
    var answerLatency = Histogram<UInt64>(highestTrackableValue: 120_000_000)
    var loginLatency = Histogram<UInt64>(highestTrackableValue: 120_000_000)
    /// Of the present phase.
    private var phaseLatency = Histogram<UInt64>(highestTrackableValue: 120_000_000)
    var report: SimulationReport
    private var truth: [Version?]
    private var truthOpen = 0
    private var truthFailed = false
    private var second = SimulationReport.Second(second: 0, changes: 0, pushes: 0, usersLive: 0)
    private let done: EventLoopPromise<Void>
    private var settleDeadline = 0.0
    private var quietSince: Double?
    private var isStopRequested = false
    /// Answers by operation, to compare with the nodes' counters.
    var answered: [String: Int] = [:]
    var streamsOpened = 0

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
        pools = Array(repeating: [], count: options.targets.count)
        ledger = Ledger(population: population, graceSeconds: options.graceSeconds)
        truth = Array(repeating: nil, count: options.users)
        done = eventLoop.makePromise()
        let none = SimulationReport.Latency(Histogram<UInt64>(highestTrackableValue: 1_000))
        report = SimulationReport(
            scenario: options.scenario.rawValue, users: options.users, seed: options.seed, connections: options.connectionsCount,
            changeToPush: none, changeToAnswer: none, login: none, isVerifying: options.verify)
    }

    var now: Double { Double((NIODeadline.now() - start).nanoseconds) / 1e9 }

    // MARK: The run

    /// Runs to the end. The ledger is closed then.
    func run() -> EventLoopFuture<Void> {
        eventLoop.execute { self.begin() }
        return done.futureResult
    }

    /// Ends the load early; what was done is still verified.
    func stop() { eventLoop.execute { self.isStopRequested = true } }

    /// What comes from now on belongs to the next phase.
    func endPhase() {
        eventLoop.execute {
            self.report.phases.append(SimulationReport.Latency(self.phaseLatency))
            self.phaseLatency.reset()
        }
    }

    private func begin() {
        for index in 0..<options.connectionsCount {
            let target = index % options.targets.count
            connections.append(Connection(target: target))
            pools[target].append(index)
            // Three a millisecond: thousands at once would outlast their own time-out.
            if index < 100 { connect(index) } else { after(milliseconds: Int64(index / 3)) { $0.connect(index) } }
        }
        pump()
        tick()
    }

    /// Does what is due; every two milliseconds, so that arrivals come in small groups.
    private func pump() {
        let now = self.now
        for user in returning.take(upTo: now) { open(user) }
        for _ in 0..<min(unplaced.count, 100) { open(unplaced.removeFirst()) }
        switch phase {
        case .login: pumpLogins(now)
        case .load: pumpChanges(now)
        case .settle, .over: break
        }
        guard phase != .over else { return }
        after(milliseconds: 2) { $0.pump() }
    }

    private func pumpLogins(_ now: Double) {
        let rate = options.scenario == .loginStorm ? max(Double(options.users) / 2, 1) : options.loginRate
        guard connections.contains(where: \.isUp) else { return }
        while nextLogin < options.users, Double(nextLogin) <= now * rate {
            open(nextLogin)
            nextLogin += 1
        }
    }

    private func pumpChanges(_ now: Double) {
        while nextArrival <= now, nextArrival < loadEndsAt {
            arrive(scheduledAt: nextArrival)
            nextArrival -= log(Double.random(in: Double.ulpOfOne..<1, using: &random)) / options.rate
        }
        if now >= loadEndsAt || isStopRequested {
            report.loadSeconds = now - (loadEndsAt - options.duration)
            beginSettle()
        }
    }

    /// Ten times a second: counts, and moves from phase to phase.
    private func tick() {
        let now = self.now
        if Int(now) > second.second {
            second.usersLive = users.count { $0.isLive }
            report.timeline.append(second)
            second = SimulationReport.Second(second: Int(now), changes: 0, pushes: 0, usersLive: 0)
        }
        publishProgress(now)
        if phase == .login, now > Self.reachSeconds, !connections.contains(where: \.wasUp) { giveUp() }
        switch phase {
        case .login: if nextLogin == options.users, users.allSatisfy(\.isLive) || isStopRequested { askTruth() }
        case .settle: if truthOpen == 0, quietSince == nil { askTruth() }
        case .load, .over: break
        }
        guard phase != .over else { return }
        after(milliseconds: 100) { $0.tick() }
    }

    private func publishProgress(_ now: Double) {
        let live = report.timeline.last?.usersLive ?? 0
        progress.withLockedValue { progress in
            progress.phase = "\(phase)"
            progress.seconds = now
            progress.usersLive = phase == .login ? users.count { $0.isLive } : live
            progress.changes = report.changes
            progress.pushes = report.pushes
            progress.p50Milliseconds = Double(pushLatency.valueAtPercentile(50)) / 1_000
            progress.p99Milliseconds = Double(pushLatency.valueAtPercentile(99)) / 1_000
        }
    }

    private func beginLoad() {
        guard phase == .login else { return }
        phase = .load
        report.loginSeconds = now
        ledger.allOnline()
        nextArrival = now
        loadEndsAt = now + options.duration
    }

    private func beginSettle() {
        phase = .settle
        settleDeadline = now + options.settle
    }

    /// No target has answered for so long: there is nothing to press.
    private static let reachSeconds = 10.0

    private func giveUp() {
        phase = .over
        done.fail(SimulationOptions.Unreachable(targets: options.targets, seconds: Int(Self.reachSeconds)))
    }

    private func finish() {
        guard phase != .over else { return }
        phase = .over
        report.changeToPush = SimulationReport.Latency(pushLatency)
        report.changeToAnswer = SimulationReport.Latency(answerLatency)
        report.login = SimulationReport.Latency(loginLatency)
        if !report.phases.isEmpty { report.phases.append(SimulationReport.Latency(phaseLatency)) }
        report.lost = ledger.counts.lost
        report.stale = ledger.counts.stale
        report.phantom = ledger.counts.phantom
        report.duplicate = ledger.counts.duplicate
        report.junk = ledger.counts.junk
        report.olderOnOtherStream = ledger.counts.olderOnOtherStream
        report.examples = ledger.examples
        done.succeed()
    }

    /// Ends every connection.
    func closeAll() { for connection in connections { connection.client?.close() } }

    func after(milliseconds: Int64, _ body: @escaping (Simulator) -> Void) {
        eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(milliseconds)) { [weak self] in
            if let self { body(self) }
        }
    }

    // MARK: Changes

    private func arrive(scheduledAt: Double) {
        let user = options.scenario == .celebrity ? 0 : Int.random(in: 0..<options.users, using: &random)
        guard users[user].isLive else { return count(error: "not live") }
        guard options.scenario == .flapping else { return setStatus(user, scheduledAt: scheduledAt) }
        switch Int.random(in: 0..<10, using: &random) {
        case 0..<3: setStatus(user, scheduledAt: scheduledAt)
        case 3..<8: drop(user)
        default:
            ledger.loggedOut(user)
            users[user].state = .leaving
            call(.logout(user: user), user: user, operation: "logout", body: "{}")
        }
    }

    private func setStatus(_ user: Int, scheduledAt: Double) {
        let change = ledger.beginChange(of: user)
        users[user].remember(change: change, scheduledAt: scheduledAt)
        report.changes += 1
        second.changes += 1
        call(
            .setStatus(user: user, scheduledAt: scheduledAt), user: user, operation: "setSelfStatus",
            body: "{\"customStatus\":\"\(Population.customStatus(user: user, change: change))\"}")
    }

    /// Loses the session without a word, and comes back within the grace.
    private func drop(_ user: Int) {
        guard let stream = users[user].stream, let client = connections[users[user].connection].client else { return }
        users[user].state = .leaving
        ledger.left(user, at: now)
        client.reset(stream)
    }

    // MARK: Streams

    private func open(_ user: Int) {
        guard users[user].state == .away, phase != .over else { return }
        guard let index = connection(for: user), let client = connections[index].client else {
            return unplaced.append(user)
        }
        var headers: [(name: StaticString, value: String)] = [("authorization", tokens[user])]
        if let id = users[user].lastEventID { headers.append(("last-event-id", String(id))) }
        let path = "/v1/events?platform=simulator&deviceID=d\(user)"
        guard let stream = client.send(.get, path: path, headers: headers, token: UInt32(user)) else { return retry(user) }
        users[user].state = .opening
        users[user].openedAt = now
        users[user].problem = nil
        users[user].stream = stream
        users[user].connection = index
        users[user].isSynced = false
        users[user].scanner = EventScanner()
        ledger.beginStream(of: user)
    }

    private func retry(_ user: Int) {
        users[user].state = .away
        users[user].attempts += 1
        users[user].targetShift += 1
        let wait = users[user].backoffMilliseconds(using: &random)
        after(milliseconds: wait) { $0.open(user) }
    }

    /// An open connection with room, to the user's target or the next one.
    private func connection(for user: Int) -> Int? {
        for shift in 0..<options.targets.count {
            let pool = pools[(user + users[user].targetShift + shift) % options.targets.count]
            for step in 0..<min(pool.count, 4) {
                let index = pool[(user / options.targets.count + step) % pool.count]
                if let client = connections[index].client, client.isConnected,
                    client.openCount < options.streamsPerConnection + 50
                {
                    return index
                }
            }
        }
        return nil
    }

    private func streamOver(_ user: Int) {
        guard phase != .over else { return }
        let wasLeaving = users[user].state == .leaving
        users[user].state = .away
        users[user].stream = nil
        if let problem = users[user].problem { return loginRefused(user, problem) }
        ledger.left(user, at: now)
        if wasLeaving {
            let wait = Int64.random(in: 50...800, using: &random)
            after(milliseconds: wait) { $0.open(user) }
        } else {
            report.reconnects += 1
            retry(user)
        }
    }

    /// The node has too much to do, or will not have the user: comes back when it was told to.
    private func loginRefused(_ user: Int, _ problem: [UInt8]) {
        users[user].problem = nil
        report.loginsRefused += 1
        count(error: Self.code(problem) ?? "login")
        guard let seconds = Self.retryAfter(problem) else { return retry(user) }
        returning.add(user, at: now + Double(waitMilliseconds(seconds)) / 1_000)
    }

    /// A random part of a second more, so that those who were told the same second do not come together.
    private func waitMilliseconds(_ seconds: Int64) -> Int64 { seconds * 1_000 + Int64.random(in: 0..<1_000, using: &random) }

    private static func retryAfter(_ problem: [UInt8]) -> Int64? {
        guard case .integer(let seconds)? = (try? JSONReader.read(problem))?["retryAfter"] else { return nil }
        return min(max(seconds, 0), 3_600)
    }

    private static func code(_ problem: [UInt8]) -> String? {
        guard case .integer(let code)? = (try? JSONReader.read(problem))?["code"] else { return nil }
        return String(code)
    }

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
            case .connected: connected(user)
            case .statusChanged: statusChanged(data, for: user)
            case .syncCompleted: (users[user].isSynced, users[user].syncedAt) = (true, now)
            case .reconnectHint: hinted(user, data)
            case .kicked, .other: break
            }
        }
        swap(&scanner, &users[user].scanner)
    }

    /// The node is about to end: opens a stream elsewhere when its turn has come, then drops this one (contract §4).
    private func hinted(_ user: Int, _ data: UnsafeBufferPointer<UInt8>) {
        guard case .integer(let delay)? = (try? JSONReader.read(data))?["afterMilliseconds"] else { return ledger.receivedJunk() }
        let (stream, connection) = (users[user].stream, users[user].connection)
        after(milliseconds: delay) { simulator in
            guard simulator.users[user].stream == stream, simulator.users[user].connection == connection else { return }
            simulator.move(user)
        }
    }

    private func move(_ user: Int) {
        guard users[user].state == .connected, let stream = users[user].stream, let client = connections[users[user].connection].client
        else { return }
        report.moves += 1
        users[user].previous = (client, stream)
        users[user].state = .away
        users[user].targetShift += 1
        open(user)
    }

    private func connected(_ user: Int) {
        streamsOpened += 1
        _ = loginLatency.record(UInt64(max((now - users[user].openedAt) * 1e6, 0)))
        if let previous = users[user].previous { previous.client.reset(previous.stream) }
        users[user].previous = nil
        users[user].attempts = 0
        users[user].state = .connected
        ledger.returned(user, at: now)
        if !users[user].isSubscribed, users[user].subscribesOpen == 0 { subscribe(user) }
    }

    private func statusChanged(_ data: UnsafeBufferPointer<UInt8>, for watcher: Int) {
        let now = self.now
        let isSound = StatusScanner.scan(data) { status in
            report.pushes += 1
            second.pushes += 1
            guard let (user, change) = ledger.received(status, by: watcher, at: now) else { return }
            guard let scheduledAt = users[user].scheduledAt(change: change), user != watcher, scheduledAt > users[watcher].syncedAt else {
                return
            }
            _ = pushLatency.record(UInt64(max((now - scheduledAt) * 1e6, 0)))
            _ = phaseLatency.record(UInt64(max((now - scheduledAt) * 1e6, 0)))
        }
        if !isSound { ledger.receivedJunk() }
    }

    // MARK: Calls

    private static let callBit: UInt32 = 1 << 31

    private func call(_ purpose: PendingCall.Purpose, user: Int, operation: String, body: String) {
        let index = freeCalls.popLast() ?? calls.count
        if index == calls.count { calls.append(nil) }
        calls[index] = PendingCall(purpose: purpose)
        let headers: [(name: StaticString, value: String)] = [("authorization", tokens[user])]
        let client = connection(for: user).flatMap { connections[$0].client }
        let stream = client?.send(
            .post, path: "/v1/\(operation)", headers: headers, body: ByteBuffer(string: body), token: UInt32(index) | Self.callBit)
        if stream == nil { callOver(index, error: 1) }
    }

    private func callOver(_ index: Int, error: UInt32) {
        guard let call = calls[index] else { return }
        calls[index] = nil
        freeCalls.append(index)
        let isAnswered = error == 0 && call.status == 200
        let retryAfter = isAnswered ? nil : Self.retryAfter(call.body)
        if !isAnswered { count(error: error != 0 ? "connection" : Self.code(call.body) ?? "HTTP \(call.status)") }
        switch call.purpose {
        case .setStatus(_, let scheduledAt):
            guard isAnswered else { return }
            answered["setSelfStatus", default: 0] += 1
            _ = answerLatency.record(UInt64(max((now - scheduledAt) * 1e6, 0)))
        case .subscribe(let user):
            users[user].subscribesOpen -= 1
            if isAnswered { answered["subscribeUserStatus", default: 0] += 1 }
            if users[user].subscribesOpen == 0 { subscribed(user, isAnswered, retryAfter: retryAfter) }
        case .logout(let user):
            if isAnswered { answered["logout", default: 0] += 1 } else if users[user].state == .leaving { users[user].state = .connected }
        case .truth:
            truthOpen -= 1
            truthFailed = truthFailed || !isAnswered
            if isAnswered { takeTruth(call.body) }
            if let seconds = retryAfter { nextTruthAt = now + Double(waitMilliseconds(seconds)) / 1_000 }
            if truthOpen == 0 { compare() }
        }
    }

    private func subscribed(_ user: Int, _ isAnswered: Bool, retryAfter: Int64?) {
        if isAnswered { return users[user].isSubscribed = true }
        after(milliseconds: retryAfter.map(waitMilliseconds) ?? 200) { simulator in
            if !simulator.users[user].isSubscribed, simulator.users[user].subscribesOpen == 0 { simulator.subscribe(user) }
        }
    }

    private func count(error: String) { report.errorsByCode[error, default: 0] += 1 }

    // MARK: Truth

    /// Asks the nodes for everybody's record.
    private func askTruth() {
        guard truthOpen == 0, now >= nextTruthAt else { return }
        guard connections.contains(where: \.isUp) else { return }
        truthFailed = false
        let batches = stride(from: 0, to: options.users, by: Limits.queryUsersMax)
        truthOpen = batches.reduce(0) { count, _ in count + 1 }
        for start in batches {
            let names = (start..<min(start + Limits.queryUsersMax, options.users)).map { "\"\(population.name(of: $0))\"" }
            call(
                .truth, user: Int.random(in: 0..<options.users, using: &random), operation: "getUserStatus",
                body: "{\"userIDs\":[\(names.joined(separator: ","))]}")
        }
    }

    private func takeTruth(_ body: [UInt8]) {
        body.withUnsafeBufferPointer { body in
            _ = StatusScanner.scan(body) { status in
                if let user = population.user(named: status.userID) { truth[user] = status.version }
            }
        }
    }

    private func compare() {
        let isEverybodyLive = users.allSatisfy(\.isLive)
        let behind = ledger.viewsBehind(truth) { users[$0].isLive }
        let isRight = behind == 0 && isEverybodyLive && !truthFailed
        switch phase {
        case .login:
            if isRight || isStopRequested || !options.verify { beginLoad() }
        case .settle:
            if isRight {
                report.secondsToConverge = max(now - max(lastReturnAt ?? 0, settleDeadline - options.settle), 0)
                return linger()
            }
            if now > settleDeadline {
                ledger.close(lost: behind + (users.count { !$0.isLive }), truth: truth)
                finish()
            }
        case .load, .over: break
        }
    }

    /// Waits for what may still come too much: a push nobody asked for.
    private func linger() {
        guard quietSince == nil else { return }
        quietSince = now
        after(milliseconds: 500) { $0.finish() }
    }

    // MARK: Connections

    private func connect(_ index: Int) {
        guard phase != .over else { return }
        let target = options.targets[connections[index].target]
        let source = options.sourceAddresses > 1 ? "127.0.0.\(2 + index % (options.sourceAddresses - 1))" : nil
        let client = HTTPClientConnection.connect(
            host: target.host, port: target.port, on: loop, sourceAddress: source, timeout: .seconds(10), delegate: self)
        client.token = UInt32(index)
        connections[index].client = client
    }

    func connected(_ connection: HTTPClientConnection) {
        let index = Int(connection.token)
        if connections[index].wasUp { lastReturnAt = now }
        connections[index].isUp = true
        connections[index].wasUp = true
        connections[index].attempts = 0
    }

    func closed(_ connection: HTTPClientConnection, error: (any Error)?) {
        let index = Int(connection.token)
        guard connections[index].client === connection else { return }
        connections[index].isUp = false
        connections[index].client = nil
        connections[index].attempts += 1
        let wait = Int64.random(in: 20...min(50 << Int64(min(connections[index].attempts, 5)), 500), using: &random)
        after(milliseconds: wait) { $0.connect(index) }
    }

    func responseHead(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, status: Int) {
        if token & Self.callBit != 0 {
            calls[Int(token & ~Self.callBit)]?.status = status
        } else if status != 200, isPresent(stream, of: Int(token), on: connection) {
            users[Int(token)].problem = []
        }
    }

    func responseBody(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, bytes: UnsafeRawBufferPointer) {
        if token & Self.callBit != 0 {
            calls[Int(token & ~Self.callBit)]?.body.append(contentsOf: bytes)
        } else if isPresent(stream, of: Int(token), on: connection) {
            if users[Int(token)].problem == nil {
                receive(bytes, for: Int(token))
            } else {
                users[Int(token)].problem?.append(contentsOf: bytes)
            }
        }
    }

    func streamClosed(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, error: UInt32) {
        if token & Self.callBit != 0 { return callOver(Int(token & ~Self.callBit), error: error) }
        if isPresent(stream, of: Int(token), on: connection) { streamOver(Int(token)) }
    }

    private func isPresent(_ stream: StreamID, of user: Int, on connection: HTTPClientConnection) -> Bool {
        users[user].stream == stream && users[user].connection == Int(connection.token)
    }
}
