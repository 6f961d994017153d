import Foundation

/// An axis of a chart: maps values to the part 0...1 of its length.
struct ChartAxis {
    /// The mapping from values to positions.
    enum Scale: Equatable {
        case linear
        /// For values above 0. Smaller ones are drawn at the low end.
        case logarithmic
        /// Percentiles, by the logarithm of the part beyond them: 90, 99 and 99.9 are equally far apart. 100 is at the end.
        case percentile
    }

    /// A value with a label.
    struct Tick: Equatable {
        let value: Double
        let label: String
    }

    let scale: Scale
    let range: ClosedRange<Double>
    let ticks: [Tick]
    /// The quantity and its unit, as "ms, logarithmic".
    let caption: String

    /// The position of a value: 0 at the low end of the axis, 1 at its high end.
    func position(of value: Double) -> Double {
        let (low, high) = (Self.scaled(range.lowerBound, scale), Self.scaled(range.upperBound, scale))
        guard high > low else { return 0 }
        return min(max((Self.scaled(value, scale) - low) / (high - low), 0), 1)
    }

    private static func scaled(_ value: Double, _ scale: Scale) -> Double {
        switch scale {
        case .linear: value
        case .logarithmic: log10(max(value, 1e-6))
        case .percentile: value >= 100 ? percentilesEnd : -log10(1 - max(value, 0) / 100)
        }
    }

    /// The scaled position of the largest value, behind 99.99 %.
    private static let percentilesEnd = 5.0

    /// An axis from 0 to a round number that is at least each of the values.
    static func linear(_ values: [Double], caption: String, ticksMax: Int = 5) -> ChartAxis {
        let top = max(values.max() ?? 0, 1)
        let step = roundStep(top / Double(ticksMax - 1))
        let count = Int((top / step).rounded(.up))
        let ticks = (0...count).map { Tick(value: Double($0) * step, label: ReportText.number(Double($0) * step)) }
        return ChartAxis(scale: .linear, range: 0...Double(count) * step, ticks: ticks, caption: caption)
    }

    /// An axis of time, from 0 to the last second.
    static func time(to last: Double) -> ChartAxis {
        let end = max(last, 1)
        let step = max(roundStep(end / 5), 1)
        let ticks = (0...Int(end / step)).map { Tick(value: Double($0) * step, label: ReportText.number(Double($0) * step)) }
        return ChartAxis(scale: .linear, range: 0...end, ticks: ticks, caption: "seconds since the start")
    }

    /// A logarithmic axis around the values above 0. Its ends are 1, 2 or 5 times a power of ten.
    static func logarithmic(_ values: [Double], caption: String) -> ChartAxis {
        let positive = values.filter { $0 > 0 }
        let (low, high) = (positive.min() ?? 1, positive.max() ?? 10)
        let steps = (-6...9).flatMap { power in [1.0, 2, 5].map { $0 * pow(10, Double(power)) } }
        let first = steps.last { $0 <= low * 1.000_001 } ?? steps[0]
        var last = steps.first { $0 >= high * 0.999_999 } ?? steps[steps.count - 1]
        if last <= first { last = first * 10 }
        let inside = steps.filter { $0 >= first * 0.999_999 && $0 <= last * 1.000_001 }
        // Over several powers of ten only these have labels, so that labels do not touch.
        let isWide = inside.count > 8
        let labeled = inside.filter { value in !isWide || abs(log10(value).rounded() - log10(value)) < 1e-6 }
        let ticks = labeled.map { Tick(value: $0, label: ReportText.number($0)) }
        return ChartAxis(scale: .logarithmic, range: first...last, ticks: ticks, caption: caption)
    }

    /// The axis of percentiles.
    static let percentiles = ChartAxis(
        scale: .percentile, range: 0...100,
        ticks: [(50, "50"), (90, "90"), (99, "99"), (99.9, "99.9"), (99.99, "99.99"), (100, "max")].map { Tick(value: $0.0, label: $0.1) },
        caption: "percentile")

    /// 1, 2 or 5 times a power of ten, at least `value`.
    private static func roundStep(_ value: Double) -> Double {
        let power = pow(10, log10(max(value, 1e-9)).rounded(.down))
        return ([1.0, 2, 5].first { $0 * power >= value * 0.999_999 } ?? 10) * power
    }
}

/// A chart as HTML: the lines are SVG that stretches with the page, and the labels are text that keeps its size.
struct ReportChart {
    /// A line of the chart.
    struct Series {
        let name: String
        /// Pairs of x and y. Nil is a gap.
        let points: [(x: Double, y: Double?)]
    }

    let title: String
    let x: ChartAxis
    let y: ChartAxis
    let series: [Series]
    /// The part of the x axis that is tinted, with the words that explain it.
    var tinted: (range: ClosedRange<Double>, caption: String)?

    var html: String {
        guard series.contains(where: { $0.points.count { $0.y != nil } > 1 }) else {
            let caption = "<figcaption><b>\(ReportText.escaped(title))</b></figcaption>"
            return "<figure>\(caption)<p class=\"none\">Nothing was measured.</p></figure>"
        }
        let keys = series.enumerated().map { "<span><i class=\"key s\($0)\"></i>\(ReportText.escaped($1.name))</span>" }
        let legend = series.count < 2 ? "" : "<span class=\"legend\">\(keys.joined(separator: " "))</span>"
        let names = series.map(\.name).joined(separator: ", ")
        let label = ReportText.escaped("\(title): \(names); \(y.caption) by \(x.caption)")
        return """
            <figure><figcaption><b>\(ReportText.escaped(title))</b> <span class="unit">\(ReportText.escaped(y.caption))</span> \
            \(legend)</figcaption>
            <div class="plot"><div class="y">\(labels(y, "bottom"))</div>
            <div class="area"><svg viewBox="0 0 1000 1000" preserveAspectRatio="none" role="img" aria-label="\(label)">
            \(grid)\(lines)</svg></div>
            <div class="x">\(labels(x, "left"))</div>
            <div class="unit">\(ReportText.escaped(x.caption + (tinted.map { "; \($0.caption)" } ?? "")))</div></div></figure>

            """
    }

    private func labels(_ axis: ChartAxis, _ side: String) -> String {
        axis.ticks.map { tick in
            "<span style=\"\(side):\(percent(axis.position(of: tick.value)))\">\(ReportText.escaped(tick.label))</span>"
        }.joined()
    }

    private var grid: String {
        var text = ""
        if let tinted {
            let (left, right) = (place(x.position(of: tinted.range.lowerBound)), place(x.position(of: tinted.range.upperBound)))
            text += "<rect class=\"tint\" x=\"\(left)\" y=\"0\" width=\"\(right - left)\" height=\"1000\"/>"
        }
        for tick in y.ticks {
            let height = 1_000 - place(y.position(of: tick.value))
            text += "<line x1=\"0\" x2=\"1000\" y1=\"\(height)\" y2=\"\(height)\"/>"
        }
        for tick in x.ticks {
            let left = place(x.position(of: tick.value))
            text += "<line x1=\"\(left)\" x2=\"\(left)\" y1=\"0\" y2=\"1000\"/>"
        }
        return text
    }

    private var lines: String {
        series.enumerated().map { index, line in
            line.points.split { $0.y == nil }.map { part in
                let points = part.map { "\(place(x.position(of: $0.x))),\(1_000 - place(y.position(of: $0.y ?? 0)))" }
                // A point without neighbors is a line with a length, or it would not be seen.
                let path = points.count == 1 ? [points[0], points[0]] : points
                return "<polyline class=\"s\(index)\" points=\"\(path.joined(separator: " "))\"/>"
            }.joined()
        }.joined(separator: "\n")
    }

    private func place(_ position: Double) -> Int { Int((position * 1_000).rounded()) }

    private func percent(_ position: Double) -> String { "\(Double((position * 1_000).rounded()) / 10)%" }
}

/// Numbers and texts as the report shows them.
enum ReportText {
    /// A text inside HTML.
    static func escaped(_ text: String) -> String {
        text.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;").replacing("\"", with: "&quot;")
            .replacing("'", with: "&#39;")
    }

    /// A whole number with its thousands apart: 12,345.
    static func number(_ value: Int) -> String {
        var digits = String(value.magnitude)
        var groups: [String] = []
        while digits.count > 3 {
            groups.insert(String(digits.suffix(3)), at: 0)
            digits.removeLast(3)
        }
        return (value < 0 ? "-" : "") + ([digits] + groups).joined(separator: ",")
    }

    /// A number with at most three digits behind the point.
    static func number(_ value: Double) -> String {
        guard value.isFinite, abs(value) < 1e15 else { return "\(value)" }
        let rounded = (value * 1_000).rounded() / 1_000
        if rounded == rounded.rounded() { return number(Int(rounded)) }
        let text = String(format: "%.3f", rounded)
        return text.replacing(/0+$/, with: "")
    }

    /// Milliseconds, with about three digits.
    static func milliseconds(_ value: Double) -> String {
        value >= 100 ? number(Int(value.rounded())) : String(format: value >= 10 ? "%.1f" : "%.2f", value)
    }
}
