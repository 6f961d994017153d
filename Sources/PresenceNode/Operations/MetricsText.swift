/// Builds Prometheus' text exposition format, version 0.0.4.
public struct MetricsText {
    /// The text so far.
    public private(set) var text = ""

    public init() {}

    /// A counter that only grows; one sample for each set of labels.
    public mutating func counter(_ name: String, _ help: String, _ samples: [(labels: [(String, String)], value: Double)]) {
        family(name, help, "counter", samples)
    }

    /// A counter without labels.
    public mutating func counter(_ name: String, _ help: String, _ value: UInt64) { counter(name, help, [([], Double(value))]) }

    /// A value that goes up and down; one sample for each set of labels.
    public mutating func gauge(_ name: String, _ help: String, _ samples: [(labels: [(String, String)], value: Double)]) {
        family(name, help, "gauge", samples)
    }

    /// A gauge without labels.
    public mutating func gauge(_ name: String, _ help: String, _ value: Double) { gauge(name, help, [([], value)]) }

    /// A histogram.
    public mutating func histogram(_ name: String, _ help: String, _ histogram: LatencyHistogram) {
        head(name, help, "histogram")
        var cumulative: UInt64 = 0
        for (bucket, bound) in LatencyHistogram.bounds.enumerated() {
            cumulative += histogram.counts[bucket]
            sample(name + "_bucket", [("le", "\(bound)")], Double(cumulative))
        }
        cumulative += histogram.counts[LatencyHistogram.bounds.count]
        sample(name + "_bucket", [("le", "+Inf")], Double(cumulative))
        sample(name + "_sum", [], histogram.sum)
        sample(name + "_count", [], Double(cumulative))
    }

    private mutating func family(
        _ name: String, _ help: String, _ type: String, _ samples: [(labels: [(String, String)], value: Double)]
    ) {
        head(name, help, type)
        for sample in samples { self.sample(name, sample.labels, sample.value) }
    }

    private mutating func head(_ name: String, _ help: String, _ type: String) {
        text += "# HELP \(name) \(help.replacing("\\", with: "\\\\").replacing("\n", with: "\\n"))\n# TYPE \(name) \(type)\n"
    }

    private mutating func sample(_ name: String, _ labels: [(String, String)], _ value: Double) {
        text += name
        if !labels.isEmpty {
            let pairs = labels.map { "\($0)=\"\(Self.escape($1))\"" }
            text += "{\(pairs.joined(separator: ","))}"
        }
        text += value == value.rounded() && abs(value) < 1e15 ? " \(Int64(value))\n" : " \(value)\n"
    }

    private static func escape(_ value: String) -> String {
        value.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n")
    }
}
