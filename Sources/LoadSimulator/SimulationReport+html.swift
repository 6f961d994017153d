import Foundation

extension SimulationReport {
    /// The report as one HTML page without further files: charts, errors, settings and machine, in the colors of the reader's system.
    public func html(_ setup: SimulationSetup) -> String {
        """
        <!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
        <meta name="color-scheme" content="light dark"><title>\(ReportText.escaped("Simulation \(scenario): \(verdict.word)"))</title>
        <style>\(Self.style)</style></head><body>
        <header class="\(verdict.style)"><h1>\(ReportText.escaped(verdict.word))</h1><p>\(ReportText.escaped(verdict.reason))</p></header>
        <p class="lead">\(ReportText.escaped(lead))</p>
        <div class="tiles">\(tiles)</div>
        \(latencyChart.html)\(Self.table(latencies, head: ["ms", "p50", "p90", "p99", "p99.9", "max"]))
        <div class="columns">\(timeCharts.map(\.html).joined())</div>
        <h2>Errors</h2>\(errorsTable)
        \(verification)\(relationshipsTable)\(phasesTable)
        <div class="columns"><section><h2>Settings</h2>\(Self.table(setup.settings.map { [$0.name, $0.value] }))</section>
        <section><h2>Machine of the simulator</h2>\(Self.table(setup.machine.map { [$0.name, $0.value] }))</section></div>
        </body></html>

        """
    }

    // MARK: The top

    private var verdict: (word: String, reason: String, style: String) {
        guard isVerifying else { return ("Measured, not verified", "Without --verify no push is compared with the ledger.", "neutral") }
        if isVerified {
            let counters = countersCompared > 0 ? " \(ReportText.number(countersCompared)) counters of the nodes agree." : ""
            return ("Verified", "No push was lost, stale, duplicate or unexpected, and every view became right.\(counters)", "good")
        }
        var reasons = [(lost, "lost"), (stale, "stale"), (phantom, "phantom"), (duplicate, "duplicate"), (junk, "unreadable")]
            .filter { $0.0 > 0 }.map { "\(ReportText.number($0.0)) \($0.1)" }
        if !counters.differences.isEmpty { reasons.append("counters that differ: \(counters.differences.count)") }
        if secondsToConverge == nil { reasons.append("not every view became right") }
        if relationships?.isVerified == false { reasons.append("the relationships differ or were not compared") }
        return ("Not verified", reasons.joined(separator: ", ") + ".", "bad")
    }

    private var lead: String {
        let (users, connections) = (ReportText.number(users), ReportText.number(connections))
        return "Scenario \(scenario): \(users) users logged in over \(connections) connections "
            + String(format: "within %.1f s, then changed their statuses for %.1f s.", loginSeconds, loadSeconds)
    }

    private var tiles: String {
        let rate = { (count: Int) in ReportText.number(Int((Double(count) / Swift.max(loadSeconds, 0.001)).rounded())) }
        let tiles = [
            ("change to push, p50", "\(ReportText.milliseconds(changeToPush.p50)) ms"),
            ("change to push, p99", "\(ReportText.milliseconds(changeToPush.p99)) ms"),
            ("changes per second", rate(changes)), ("pushes per second", rate(pushes)),
        ]
        return tiles.map { "<div><b>\(ReportText.escaped($0.1))</b>\(ReportText.escaped($0.0))</div>" }.joined()
    }

    // MARK: Charts

    private var named: [(name: String, latency: Latency)] {
        [("change to push", changeToPush), ("change to answer", changeToAnswer), ("login", login)].filter { $0.latency.count > 0 }
    }

    private var latencies: [[String]] {
        named.map { name, latency in
            [name] + [latency.p50, latency.p90, latency.p99, latency.p999, latency.max].map(ReportText.milliseconds)
        }
    }

    private var latencyChart: ReportChart {
        let series = named.map { line in
            ReportChart.Series(name: line.name, points: line.latency.curve.map { (x: $0[0], y: Swift.max($0[1], 0.001)) })
        }
        return ReportChart(
            title: "Latency by percentile", x: .percentiles,
            y: .logarithmic(series.flatMap { $0.points.compactMap(\.y) }, caption: "milliseconds, logarithmic"), series: series)
    }

    private var timeCharts: [ReportChart] {
        let seconds = Self.condensed(timeline)
        let axis = ChartAxis.time(to: timeline.last.map { Double($0.second + 1) } ?? 1)
        let load = loadSeconds > 0 ? (range: loginSeconds...loginSeconds + loadSeconds, caption: "the load is tinted") : nil
        let line = { (name: String, value: (Second) -> Double?) in
            ReportChart.Series(name: name, points: seconds.map { (x: Double($0.second) + 0.5, y: value($0)) })
        }
        let counts = { (title: String, unit: String, value: @escaping (Second) -> Int) in
            let series = line(title) { Double(value($0)) }
            let values = series.points.compactMap(\.y)
            return ReportChart(title: title, x: axis, y: .linear(values, caption: unit), series: [series], tinted: load)
        }
        let latency = [line("p99", \.p99Milliseconds), line("p50", \.p50Milliseconds)]
        let values = latency.flatMap { $0.points.compactMap(\.y) }
        return [
            ReportChart(
                title: "Change to push over time", x: axis, y: .logarithmic(values, caption: "milliseconds, logarithmic"), series: latency,
                tinted: load),
            counts("Changes", "per second", \.changes), counts("Pushes", "per second", \.pushes),
            counts("Users live", "users", \.usersLive),
        ]
    }

    /// The timeline with at most 400 rows. Several seconds become one with their mean rates and their slowest latencies.
    static func condensed(_ timeline: [Second], rowsMax: Int = 400) -> [Second] {
        let size = (timeline.count + rowsMax - 1) / rowsMax
        guard size > 1 else { return timeline }
        return stride(from: 0, to: timeline.count, by: size).map { start in
            let part = timeline[start..<Swift.min(start + size, timeline.count)]
            let mean = { (value: (Second) -> Int) in part.reduce(0) { $0 + value($1) } / part.count }
            return Second(
                second: part[start].second, changes: mean(\.changes), pushes: mean(\.pushes), usersLive: mean(\.usersLive),
                p50Milliseconds: part.compactMap(\.p50Milliseconds).max(), p99Milliseconds: part.compactMap(\.p99Milliseconds).max())
        }
    }

    // MARK: Tables

    private var errorsTable: String {
        var rows = errorsByCode.sorted { $0.key < $1.key }.map { [$0.key, ReportText.number($0.value)] }
        rows += [("logins refused and retried", loginsRefused), ("reconnects", reconnects), ("moves after onReconnectHint", moves)]
            .filter { $0.1 > 0 }.map { [$0.0, ReportText.number($0.1)] }
        return rows.isEmpty ? "<p class=\"none\">None: no call failed, and no stream was cut.</p>" : Self.table(rows)
    }

    private var verification: String {
        guard isVerifying else { return "" }
        var rows = [
            ("lost", lost), ("stale", stale), ("phantom", phantom), ("duplicate", duplicate), ("unreadable", junk),
            ("coalesced", coalesced),
            ("counters compared", countersCompared),
        ].map { [$0.0, ReportText.number($0.1)] }
        rows.append(["views converged after", secondsToConverge.map { String(format: "%.2f s", $0) } ?? "never"])
        rows += counters.differences.map { ["differs", $0] } + examples.map { ["example", $0] }
        return "<h2>Verification</h2>" + Self.table(rows)
    }

    private var relationshipsTable: String {
        guard let relationships else { return "" }
        return "<h2>Relationships</h2>" + Self.table(relationships.lines(isVerifying: isVerifying).map { [$0.name, $0.value] })
    }

    private var phasesTable: String {
        guard !phases.isEmpty else { return "" }
        let rows = phases.enumerated().map { index, phase in
            ["\(index + 1)", ReportText.number(Int(phase.count))] + [phase.p50, phase.p99, phase.max].map(ReportText.milliseconds)
        }
        return "<h2>Phases: change to push</h2>" + Self.table(rows, head: ["phase", "pushes", "p50, ms", "p99, ms", "max, ms"])
    }

    private static func table(_ rows: [[String]], head: [String] = []) -> String {
        let line = { (row: [String]) -> String in
            let cells = row.enumerated().map { index, text in
                index == 0 ? "<th>\(ReportText.escaped(text))</th>" : "<td>\(ReportText.escaped(text))</td>"
            }
            return "<tr>\(cells.joined())</tr>"
        }
        let first = head.isEmpty ? "" : "<thead><tr>" + head.map { "<th>\(ReportText.escaped($0))</th>" }.joined() + "</tr></thead>"
        let style = head.isEmpty ? "facts" : "figures"
        return "<div class=\"wide\"><table class=\"\(style)\">\(first)<tbody>\(rows.map(line).joined())</tbody></table></div>"
    }

    private static let style = """
        :root{color-scheme:light dark;--page:#fff;--text:#1c2430;--soft:#5b6675;--line:#d9dee6;--panel:#f5f7fa;--tint:#dfe8fb66;
        --a:#1d5fd0;--b:#c2410c;--c:#0f766e;--good:#dcf5e3;--goodText:#0b5a2a;--bad:#fde2e1;--badText:#8f1512;--neutral:#eef1f5}
        @media(prefers-color-scheme:dark){:root{--page:#12161c;--text:#e4e9f0;--soft:#9aa7b7;--line:#333c48;--panel:#1a2029;--tint:#2b3b5c55;
        --a:#7fb0ff;--b:#ff9c5b;--c:#4fd1c0;--good:#123a22;--goodText:#9be8b4;--bad:#4a1614;--badText:#ffb4ae;--neutral:#232b36}}
        *{box-sizing:border-box}body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:0 auto;padding:1rem;background:var(--page);
        color:var(--text);overflow-wrap:anywhere}header{padding:.8rem 1rem;border-radius:.5rem}h1{font-size:1.5rem;margin:0}header p{margin:0}
        .good{background:var(--good);color:var(--goodText)}.bad{background:var(--bad);color:var(--badText)}.neutral{background:var(--neutral)}
        h2{font-size:1.1rem;margin:2rem 0 .5rem}.lead{margin:1rem 0}.tiles{display:grid;gap:.75rem;
        grid-template-columns:repeat(auto-fit,minmax(9rem,1fr))}.tiles div{background:var(--panel);border-radius:.5rem;padding:.6rem .8rem;
        color:var(--soft);font-size:.85rem}.tiles b{display:block;color:var(--text);font-size:1.3rem;font-variant-numeric:tabular-nums}
        figure{margin:2rem 0 0;display:grid;grid-template-rows:1fr auto}figcaption{margin-bottom:.6rem}.unit,.none{color:var(--soft);font-size:.85rem}
        .legend{display:block;font-size:.85rem}.legend span{white-space:nowrap;margin-right:.9rem}
        .columns{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:0 2rem}.key{display:inline-block;width:1rem;height:.2rem;vertical-align:middle;margin-right:.3rem}
        .plot{display:grid;grid-template-columns:3.6rem 1fr;grid-template-rows:13rem 1.4rem auto;padding-right:1.2rem}
        .y,.x,.area{position:relative}.y span,.x span{position:absolute;font-size:.8rem;color:var(--soft);line-height:1;white-space:nowrap;
        font-variant-numeric:tabular-nums}.y span{right:.5rem;transform:translateY(50%)}.x span{top:.4rem;transform:translateX(-50%)}
        .x,.plot>.unit{grid-column:2}.plot>.unit{text-align:center;padding-top:.3rem}svg{position:absolute;width:100%;height:100%;overflow:visible}
        svg line{stroke:var(--line);stroke-width:1;vector-effect:non-scaling-stroke}polyline{fill:none;stroke-width:2;stroke-linejoin:round;
        stroke-linecap:round;vector-effect:non-scaling-stroke}.tint{fill:var(--tint)}polyline.s0{stroke:var(--a)}polyline.s1{stroke:var(--b)}
        polyline.s2{stroke:var(--c)}.key.s0{background:var(--a)}.key.s1{background:var(--b)}.key.s2{background:var(--c)}
        .wide{overflow-x:auto;margin:.5rem 0}table{border-collapse:collapse;width:100%}th,td{border-bottom:1px solid var(--line);padding:.35rem
        .75rem .35rem 0;vertical-align:top;text-align:left}th{font-weight:600}.facts th{width:40%;font-weight:400;color:var(--soft)}
        .figures td,.figures thead th:not(:first-child){text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
        @media(max-width:30rem){.figures td,.figures th{font-size:.8rem;padding-right:.4rem}}
        """
}
