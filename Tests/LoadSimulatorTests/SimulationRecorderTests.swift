import Testing

@testable import LoadSimulator

@Suite struct SimulationRecorderTests {
    private static let options = SimulationOptions(targets: [SimulationOptions.Target(host: "a", port: 1)])
    private var recorder = SimulationRecorder(Self.options)

    @Test("Changes and pushes count in the second in which they happen")
    mutating func timeline() {
        recorder.endLogins(at: 0.1)
        recorder.countChange()
        recorder.countPush()
        #expect(!recorder.isSecondOver(at: 0.9) && recorder.isSecondOver(at: 1))
        recorder.endSecond(at: 1.2, usersLive: 5)
        recorder.countPush()
        recorder.endSecond(at: 3, usersLive: 6)
        let timeline = recorder.report.timeline
        #expect(timeline.map(\.second) == [0, 1] && timeline.map(\.changes) == [1, 0] && timeline.map(\.pushes) == [1, 1])
        #expect(timeline.map(\.usersLive) == [5, 6])
        #expect(recorder.report.changes == 1 && recorder.report.pushes == 2)
    }

    @Test("Pushes of the logins are not in the pushes per second of the load")
    mutating func pushesPerSecond() {
        for _ in 0..<30 { recorder.countPush() }
        recorder.endLogins(at: 2)
        for _ in 0..<8 { recorder.countPush() }
        recorder.endLoad(seconds: 4)
        #expect(recorder.pushesCount == 38)
        let line = recorder.report.summary.split(separator: "\n").first { $0.hasPrefix("pushes") }
        #expect(line?.hasSuffix(" 8 (2 per second)") == true)
    }

    @Test("The report has the percentiles in milliseconds, of all pushes and of each marked phase")
    mutating func latencies() {
        recorder.recordPush(seconds: 0.001)
        recorder.endPhase()
        recorder.recordPush(seconds: 0.1)
        recorder.recordPush(seconds: -1)
        recorder.recordAnswer(seconds: 0.002)
        recorder.countLogin(seconds: 0.003)
        recorder.finish(Ledger.Counts(), examples: [])
        let report = recorder.report
        #expect(report.changeToPush.count == 3 && report.phases.map(\.count) == [1, 2])
        #expect((0.99...1.01).contains(report.phases[0].max) && (99...101).contains(report.phases[1].max))
        #expect((1.99...2.01).contains(report.changeToAnswer.max) && (2.99...3.01).contains(report.login.max))
        #expect(recorder.pushPercentiles.p99 > 99 && recorder.streamsOpened == 1)
    }

    @Test("A run without marks has no phases")
    mutating func unmarked() {
        recorder.recordPush(seconds: 1)
        recorder.finish(Ledger.Counts(), examples: [])
        #expect(recorder.report.phases.isEmpty)
    }

    @Test("The violations of the ledger and the refusals go into the report")
    mutating func violations() {
        recorder.countRefusedLogin(code: "50002")
        recorder.countRefusedLogin(code: nil)
        recorder.countError("50002")
        var counts = Ledger.Counts()
        (counts.lost, counts.stale, counts.phantom, counts.duplicate, counts.junk, counts.olderOnOtherStream) = (1, 2, 3, 4, 5, 6)
        recorder.finish(counts, examples: ["an example"])
        let report = recorder.report
        #expect(report.loginsRefused == 2 && report.errorsByCode == ["50002": 2, "login": 1])
        #expect([report.lost, report.stale, report.phantom, report.duplicate, report.junk] == [1, 2, 3, 4, 5])
        #expect(report.olderOnOtherStream == 6)
        #expect(report.examples == ["an example"])
    }

    private static let before = ["rollcall_logins_total": 1.0, "rollcall_pushes_total": 10, "rollcall_sessions": 9]

    /// The counters after a run with three logins, two logouts and four pushes.
    private static func after(pushes: Double = 14) -> [String: Double] {
        [
            "rollcall_logins_total": 4, "rollcall_pushes_total": pushes, "rollcall_sessions": 2, "rollcall_pushes_coalesced_total": 6,
            "rollcall_operations_total{operation=\"logout\",code=\"0\"}": 2,
        ]
    }

    private static func own(logins: Int = 3, hasReconnected: Bool = false, isFlapping: Bool = false) -> CounterComparison.Own {
        CounterComparison.Own(
            logins: logins, answered: ["logout": 2], recordsReceived: 4, hasReconnected: hasReconnected, isFlapping: isFlapping)
    }

    @Test("Counters that agree have no difference, and a gauge may fall")
    func countersAgree() {
        let result = CounterComparison.compare(Self.before, Self.after(), with: Self.own())
        #expect(result == CounterComparison.Result(comparedCount: 3, differences: [], coalesced: 6))
    }

    @Test("A counter that differs is named, and logins are compared only while no user was disconnected")
    func countersDiffer() throws {
        let result = try #require(CounterComparison.compare(Self.before, Self.after(pushes: 15), with: Self.own(logins: 2)))
        #expect(
            result.differences == [
                "rollcall_logins_total: the nodes counted 3, the ledger 2", "rollcall_pushes_total: the nodes counted 5, the ledger 4",
            ])
        let reconnected = CounterComparison.compare(Self.before, Self.after(pushes: 15), with: Self.own(logins: 2, hasReconnected: true))
        #expect(reconnected?.differences == [])
    }

    @Test("When streams were cut the nodes may have sent more pushes than arrived, and not fewer")
    func cutStreams() {
        for (pushes, isDifferent) in [(15.0, false), (13, true)] {
            let result = CounterComparison.compare(Self.before, Self.after(pushes: pushes), with: Self.own(isFlapping: true))
            #expect(result?.differences.isEmpty == !isDifferent)
        }
    }

    @Test("The counters of a node that was restarted are not compared")
    mutating func restartedNode() {
        var after = Self.after()
        after["rollcall_logins_total"] = 0
        #expect(CounterComparison.compare(Self.before, after, with: Self.own()) == nil)
        recorder.countReturn(at: 3)
        recorder.compareCounters(Self.before, Self.after(), recordsReceived: 4, isFlapping: false)
        #expect(recorder.report.countersCompared == 0)
    }

    @Test("The report takes the result of the comparison")
    mutating func comparedCounters() {
        for _ in 0..<3 { recorder.countLogin(seconds: 0) }
        for _ in 0..<2 { recorder.countAnswer("logout") }
        recorder.compareCounters(Self.before, Self.after(pushes: 16), recordsReceived: 4, isFlapping: false)
        #expect(recorder.report.countersCompared == 3 && recorder.report.coalesced == 6)
        #expect(recorder.report.counters.differences == ["rollcall_pushes_total: the nodes counted 6, the ledger 4"])
    }
}
