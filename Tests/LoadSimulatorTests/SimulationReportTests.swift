import Foundation
import Testing

@testable import LoadSimulator

@Suite struct SimulationReportTests {
    private static let hostile = #"<script>alert("1")</script>&'"#

    private static func report(
        isVerifying: Bool = true, edit: (inout SimulationReport) -> Void = { _ in }
    ) -> SimulationReport {
        var options = SimulationOptions(targets: [SimulationOptions.Target(host: "a", port: 1)])
        options.verify = isVerifying
        var recorder = SimulationRecorder(options)
        recorder.endLogins(at: 1)
        for second in 1...10 {
            for _ in 0..<50 { recorder.countChange() }
            for push in 1...1_000 {
                recorder.countPush()
                recorder.recordPush(seconds: Double(push) / 100_000)
            }
            recorder.recordAnswer(seconds: 0.001)
            recorder.endSecond(at: Double(second), usersLive: 1_000)
        }
        recorder.endLoad(seconds: 9)
        recorder.converge(seconds: 0.1)
        recorder.finish(Ledger.Counts(), examples: [])
        var report = recorder.report
        edit(&report)
        return report
    }

    private static let setup = SimulationSetup(settings: [.init("targets", hostile)], machine: [.init("processor", hostile)])

    @Test("The verdict comes first, with its reasons") func verdict() throws {
        let pages = [
            (Self.report(), "Verified"), (Self.report(isVerifying: false), "Measured, not verified"),
            (Self.report { ($0.lost, $0.stale) = (1_234, 1) }, "Not verified"),
            (Self.report { $0.secondsToConverge = nil }, "Not verified"),
        ]
        for (report, word) in pages {
            let page = report.html(Self.setup)
            #expect(page.contains("<h1>\(word)</h1>"))
            #expect(try #require(page.firstRange(of: "<header")).lowerBound < #require(page.firstRange(of: "<figure")).lowerBound)
        }
        #expect(pages[2].0.html(Self.setup).contains("<p>1,234 lost, 1 stale.</p>"))
        #expect(pages[3].0.html(Self.setup).contains("not every view became right"))
    }

    @Test("Each chart has axes with units, and the latencies have a logarithmic one") func charts() {
        let page = Self.report().html(Self.setup)
        #expect(page.components(separatedBy: "<figure>").count == 6 && !page.contains("Nothing was measured"))
        #expect(page.components(separatedBy: "milliseconds, logarithmic</span>").count == 3)
        for text in [
            ">per second</span>", ">users</span>", "percentile</div>", "seconds since the start; the load is tinted</div>", ">99.99</span>",
            ">max</span>",
            "aria-label=\"Latency by percentile: change to push, change to answer",
        ] { #expect(page.contains(text), "\(text)") }
    }

    @Test("Errors, settings and machine are named, and no text of others is markup") func escaping() {
        let report = Self.report { report in
            report.errorsByCode = [Self.hostile: 3, "50002": 12_345]
            report.examples = [Self.hostile]
            report.counters.differences = [Self.hostile]
            report.scenario = Self.hostile
        }
        let page = report.html(Self.setup)
        #expect(!page.contains("<script") && !page.contains("alert(\"1\")"))
        #expect(page.contains("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;&#39;"))
        #expect(page.contains("<th>50002</th><td>12,345</td>"))
        #expect(page.contains("<h2>Settings</h2>") && page.contains("<h2>Machine of the simulator</h2>"))
    }

    @Test("The page loads nothing, and has the colors of the reader's system") func standsAlone() {
        let page = Self.report().html(Self.setup)
        for text in ["http:", "https:", "src=", "href=", "url(", "@import", "<link"] { #expect(!page.contains(text), "\(text)") }
        #expect(page.contains("@media(prefers-color-scheme:dark)") && page.contains("name=\"viewport\""))
    }

    @Test("A run without a push has a page, too") func empty() {
        let options = SimulationOptions(targets: [SimulationOptions.Target(host: "a", port: 1)])
        let page = SimulationRecorder(options).report.html(
            SimulationSetup(options, release: "1", startedAt: Date(timeIntervalSince1970: 0)))
        #expect(page.contains("Nothing was measured") && page.contains("1970-01-01T00:00:00Z"))
    }

    @Test("A second of the timeline has the percentiles of its own pushes") func seconds() throws {
        let second = try #require(Self.report().timeline.last)
        #expect((4.9...5.2).contains(second.p50Milliseconds ?? 0) && (9.8...10.2).contains(second.p99Milliseconds ?? 0))
    }

    @Test("A long timeline is drawn with mean rates and its slowest latencies") func condensed() {
        let timeline = (0..<1_000).map {
            SimulationReport.Second(
                second: $0, changes: $0 % 2 * 10, pushes: 4, usersLive: 7, p50Milliseconds: nil, p99Milliseconds: Double($0))
        }
        let rows = SimulationReport.condensed(timeline, rowsMax: 500)
        #expect(rows.count == 500 && rows.allSatisfy { $0.changes == 5 && $0.pushes == 4 && $0.usersLive == 7 })
        #expect(rows[0].p99Milliseconds == 1 && rows[499].p99Milliseconds == 999 && rows[499].second == 998)
    }
}

@Suite struct ReportChartTests {
    @Test("A logarithmic axis has the ends 1, 2 or 5 times a power of ten, and labels that do not touch")
    func logarithmic() {
        let axis = ChartAxis.logarithmic([0, 0.3, 14], caption: "ms")
        #expect(axis.range == 0.2...20 && axis.ticks.map(\.label) == ["0.2", "0.5", "1", "2", "5", "10", "20"])
        #expect(abs(axis.position(of: 2) - 0.5) < 1e-9 && axis.position(of: 0) == 0 && axis.position(of: 1_000) == 1)
        let wide = ChartAxis.logarithmic([0.001, 90_000], caption: "")
        #expect(wide.ticks.map(\.label) == ["0.001", "0.01", "0.1", "1", "10", "100", "1,000", "10,000", "100,000"])
        #expect(ChartAxis.logarithmic([], caption: "").ticks.count > 1 && ChartAxis.logarithmic([1, 1], caption: "").range == 1...10)
    }

    @Test("A linear axis begins at 0 and ends at a round number") func linear() {
        #expect(ChartAxis.linear([3_900], caption: "").ticks.map(\.label) == ["0", "1,000", "2,000", "3,000", "4,000"])
        #expect(ChartAxis.linear([], caption: "").range == 0...1)
    }

    @Test("Percentiles are placed by the part beyond them") func percentiles() {
        let positions = [90.0, 99, 99.9].map { ChartAxis.percentiles.position(of: $0) }
        #expect(abs((positions[1] - positions[0]) - (positions[2] - positions[1])) < 1e-9 && ChartAxis.percentiles.position(of: 100) == 1)
    }

    @Test("A gap in a series parts its line") func gap() {
        let series = ReportChart.Series(name: "a", points: [(0, 1), (1, nil), (2, 1), (3, 2)])
        let chart = ReportChart(title: "t", x: .time(to: 3), y: .linear([2], caption: "u"), series: [series])
        #expect(chart.html.components(separatedBy: "<polyline").count == 3)
    }

    @Test("Numbers have their thousands apart, and at most three digits behind the point")
    func numbers() {
        #expect([0, 999, 1_000, -1_234_567].map { ReportText.number($0) } == ["0", "999", "1,000", "-1,234,567"])
        #expect([0.5, 0.001, 2.25, 1e6].map { ReportText.number($0) } == ["0.5", "0.001", "2.25", "1,000,000"])
        #expect([0.123, 12.34, 1_234.5].map { ReportText.milliseconds($0) } == ["0.12", "12.3", "1,235"])
    }
}
