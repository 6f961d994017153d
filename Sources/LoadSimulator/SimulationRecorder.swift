import Histogram

/// Counts and measures while a simulation runs, and builds its report at the end.
///
/// Latencies are recorded in seconds and kept in microseconds.
struct SimulationRecorder {
    private static let microsecondsMax: UInt64 = 120_000_000

    private(set) var report: SimulationReport
    private var pushLatency = Histogram<UInt64>(highestTrackableValue: microsecondsMax)
    private var answerLatency = Histogram<UInt64>(highestTrackableValue: microsecondsMax)
    private var loginLatency = Histogram<UInt64>(highestTrackableValue: microsecondsMax)
    private var addFriendLatency = Histogram<UInt64>(highestTrackableValue: microsecondsMax)
    /// Pushes of the second in progress. Two digits are enough for a chart.
    private var secondLatency = Histogram<UInt64>(highestTrackableValue: microsecondsMax, numberOfSignificantValueDigits: .two)
    /// Pushes of the present phase.
    private var phaseLatency = Histogram<UInt64>(highestTrackableValue: microsecondsMax)
    /// All pushes so far, those of the logins included.
    private(set) var pushesCount = 0
    private var second = SimulationReport.Second(second: 0, changes: 0, pushes: 0, usersLive: 0)
    /// Answered calls by operation, to compare with the nodes' counters.
    private(set) var answered: [String: Int] = [:]
    private(set) var streamsOpened = 0
    /// The last time at which an unreachable node accepted a connection again.
    private(set) var lastReturnAt: Double?

    init(_ options: SimulationOptions) {
        let none = SimulationReport.Latency(Histogram<UInt64>(highestTrackableValue: 1_000))
        report = SimulationReport(
            scenario: options.scenario.rawValue, users: options.users, seed: options.seed, connections: options.connectionsCount,
            changeToPush: none, changeToAnswer: none, login: none, isVerifying: options.verify)
        if options.scenario == .social { report.relationships = RelationshipReport() }
    }

    private static func record(_ seconds: Double, in histogram: inout Histogram<UInt64>) {
        _ = histogram.record(UInt64(max(seconds * 1e6, 0)))
    }

    // MARK: Events

    mutating func countLogin(seconds: Double) {
        streamsOpened += 1
        Self.record(seconds, in: &loginLatency)
    }

    mutating func countRefusedLogin(code: String?) {
        report.loginsRefused += 1
        countError(code ?? "login")
    }

    mutating func countChange() {
        report.changes += 1
        second.changes += 1
    }

    mutating func countPush() {
        pushesCount += 1
        if report.loginSeconds > 0 { report.pushes += 1 }
        second.pushes += 1
    }

    /// Records the time from the schedule of a change to a push of it.
    mutating func recordPush(seconds: Double) {
        Self.record(seconds, in: &pushLatency)
        Self.record(seconds, in: &phaseLatency)
        Self.record(seconds, in: &secondLatency)
    }

    mutating func countAnswer(_ operation: String) { answered[operation, default: 0] += 1 }

    /// Records the time from the schedule of a change to its answer.
    mutating func recordAnswer(seconds: Double) { Self.record(seconds, in: &answerLatency) }

    mutating func countError(_ code: String) { report.errorsByCode[code, default: 0] += 1 }

    /// Counts a call about a relationship or a profile, by its result.
    mutating func countSocial(_ operation: String, _ result: String) {
        report.relationships?.calls[operation, default: [:]][result, default: 0] += 1
    }

    /// Records the time from the schedule of an `addFriend` to its answer.
    mutating func recordAddFriend(seconds: Double) { Self.record(seconds, in: &addFriendLatency) }

    mutating func countReconnect() { report.reconnects += 1 }

    mutating func countMove() { report.moves += 1 }

    mutating func countReturn(at now: Double) { lastReturnAt = now }

    // MARK: Time

    /// Whether the second in progress is over.
    func isSecondOver(at now: Double) -> Bool { Int(now) > second.second }

    /// Adds the second in progress to the timeline, and begins the next one.
    mutating func endSecond(at now: Double, usersLive: Int) {
        second.usersLive = usersLive
        if secondLatency.totalCount > 0 {
            second.p50Milliseconds = Double(secondLatency.valueAtPercentile(50)) / 1_000
            second.p99Milliseconds = Double(secondLatency.valueAtPercentile(99)) / 1_000
            secondLatency.reset()
        }
        report.timeline.append(second)
        second = SimulationReport.Second(second: Int(now), changes: 0, pushes: 0, usersLive: 0)
    }

    mutating func endLogins(at now: Double) { report.loginSeconds = now }

    mutating func endLoad(seconds: Double) { report.loadSeconds = seconds }

    mutating func converge(seconds: Double) { report.secondsToConverge = seconds }

    /// Ends a phase that was marked: later pushes belong to the next one.
    mutating func endPhase() {
        report.phases.append(SimulationReport.Latency(phaseLatency))
        phaseLatency.reset()
    }

    /// The percentiles of all pushes so far, in milliseconds.
    var pushPercentiles: (p50: Double, p99: Double) {
        (Double(pushLatency.valueAtPercentile(50)) / 1_000, Double(pushLatency.valueAtPercentile(99)) / 1_000)
    }

    // MARK: The end

    /// Completes the report with the latencies, the ledger's violations and the result for relationships.
    mutating func finish(_ counts: Ledger.Counts, examples: [String], relationships: RelationshipReport.Verification? = nil) {
        report.relationships?.addFriend = SimulationReport.Latency(addFriendLatency)
        if let relationships { report.relationships?.verification = relationships }
        report.changeToPush = SimulationReport.Latency(pushLatency)
        report.changeToAnswer = SimulationReport.Latency(answerLatency)
        report.login = SimulationReport.Latency(loginLatency)
        if !report.phases.isEmpty { report.phases.append(SimulationReport.Latency(phaseLatency)) }
        report.lost = counts.lost
        report.stale = counts.stale
        report.phantom = counts.phantom
        report.duplicate = counts.duplicate
        report.junk = counts.junk
        report.olderOnOtherStream = counts.olderOnOtherStream
        report.examples = examples
    }

    /// Adds the comparison of the nodes' counters before and after the run with what the simulator counted.
    mutating func compareCounters(_ before: [String: Double], _ after: [String: Double], recordsReceived: Int, isFlapping: Bool) {
        guard lastReturnAt == nil else { return }
        let own = CounterComparison.Own(
            logins: streamsOpened, answered: answered, recordsReceived: recordsReceived, hasReconnected: report.reconnects > 0,
            isFlapping: isFlapping)
        guard let result = CounterComparison.compare(before, after, with: own) else { return }
        report.counters = SimulationReport.Counters(compared: result.comparedCount, differences: result.differences)
        report.coalesced = result.coalesced
    }
}
