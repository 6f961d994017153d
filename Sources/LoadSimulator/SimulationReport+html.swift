import Foundation

extension SimulationReport {
    /// The report as one HTML page without further files.
    public var html: String {
        let rows = summary.split(separator: "\n").map { line -> String in
            let name = line.prefix(26).trimmingCharacters(in: .whitespaces)
            return "<tr><th>\(Self.escape(name))</th><td>\(Self.escape(String(line.dropFirst(26))))</td></tr>"
        }
        let changes = timeline.map { (Double($0.second), Double($0.changes)) }
        let pushes = timeline.map { (Double($0.second), Double($0.pushes)) }
        let live = timeline.map { (Double($0.second), Double($0.usersLive)) }
        let curve = changeToPush.curve.enumerated().map { (Double($0.offset), $0.element[1]) }
        let labels = changeToPush.curve.map { "p\($0[0].formatted())" }
        return """
            <!doctype html><html lang="en"><head><meta charset="utf-8"><title>Rollcall simulation: \(Self.escape(scenario))</title><style>
            body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#223}
            table{border-collapse:collapse}th{text-align:left;padding-right:2rem;font-weight:600}td,th{border-bottom:1px solid #dde;vertical-align:top}
            svg{width:100%;height:16rem;background:#f7f8fc;margin:.5rem 0 1.5rem}h2{margin-bottom:0}</style></head><body>
            <h1>Rollcall simulation: \(Self.escape(scenario))</h1><table>\(rows.joined())</table>
            <h2>Change to push, milliseconds by percentile</h2>\(Self.plot(curve, labels: labels))
            <h2>Pushes a second</h2>\(Self.plot(pushes))
            <h2>Changes a second</h2>\(Self.plot(changes))
            <h2>Users live</h2>\(Self.plot(live))
            </body></html>
            """
    }

    private static func plot(_ points: [(Double, Double)], labels: [String] = []) -> String {
        guard let last = points.last, points.count > 1 else { return "<p>Nothing to show.</p>" }
        let top = max(points.map(\.1).max() ?? 1, 1e-9)
        let position = { (point: (Double, Double)) in
            String(format: "%.1f,%.1f", 50 + 730 * (point.0 - points[0].0) / max(last.0 - points[0].0, 1), 180 - 165 * point.1 / top)
        }
        let path = points.map(position).joined(separator: " ")
        var text = "<svg viewBox=\"0 0 800 205\" preserveAspectRatio=\"none\" role=\"img\">"
        text +=
            "<line x1=\"50\" y1=\"180\" x2=\"780\" y2=\"180\" stroke=\"#99a\"/><line x1=\"50\" y1=\"15\" x2=\"50\" y2=\"180\" stroke=\"#99a\"/>"
        text += "<polyline fill=\"none\" stroke=\"#3557c7\" stroke-width=\"2\" points=\"\(path)\"/>"
        text +=
            "<text x=\"4\" y=\"20\" font-size=\"11\">\(String(format: "%.4g", top))</text><text x=\"30\" y=\"184\" font-size=\"11\">0</text>"
        for (index, point) in points.enumerated() where labels.isEmpty ? index % max(points.count / 10, 1) == 0 : true {
            let x = position(point).split(separator: ",")[0]
            text += "<text x=\"\(x)\" y=\"198\" font-size=\"10\">\(labels.isEmpty ? "\(Int(point.0)) s" : labels[index])</text>"
        }
        return text + "</svg>"
    }

    private static func escape(_ text: String) -> String {
        text.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;")
    }
}
