import Foundation

/// The settings of a simulation and the machine that runs it, for a report.
public struct SimulationSetup: Sendable {
    /// A name and its value.
    public struct Line: Equatable, Sendable {
        public let name: String
        public let value: String

        public init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    public let settings: [Line]
    public let machine: [Line]

    public init(settings: [Line], machine: [Line]) {
        self.settings = settings
        self.machine = machine
    }

    /// The setup of a run with these options. `release` is the version of the command.
    public init(_ options: SimulationOptions, release: String, startedAt: Date) {
        let list = { (targets: [SimulationOptions.Target]) in
            targets.isEmpty ? "none" : targets.map(\.description).joined(separator: ", ")
        }
        settings = [
            Line("scenario", options.scenario.rawValue), Line("users", ReportText.number(options.users)),
            Line("users that each user follows", ReportText.number(options.watch)),
            Line("changes per second", ReportText.number(options.rate)), Line("seconds of load", ReportText.number(options.duration)),
            Line("logins per second", ReportText.number(options.loginRate)),
            Line("connections", ReportText.number(options.connectionsCount)),
            Line("streams on a connection, at most", ReportText.number(options.streamsPerConnection)),
            Line("seed", String(options.seed)), Line("verify", options.verify ? "yes" : "no"),
            Line("seconds to converge, at most", ReportText.number(options.settle)), Line("targets", list(options.targets)),
            Line("nodes whose counters are compared", list(options.opsTargets)),
        ]
        machine = Self.machine(release: release, startedAt: startedAt)
    }

    /// The machine that this process runs on.
    private static func machine(release: String, startedAt: Date) -> [Line] {
        let process = ProcessInfo.processInfo
        var lines = [Line("started", startedAt.formatted(.iso8601)), Line("release", release)]
        if let processor = processorName() { lines.append(Line("processor", processor)) }
        lines.append(Line("cores", String(process.activeProcessorCount)))
        lines.append(Line("memory", String(format: "%.1f GiB", Double(process.physicalMemory) / Double(1 << 30))))
        lines.append(Line("system", process.operatingSystemVersionString))
        return lines
    }

    private static func processorName() -> String? {
        guard let text = try? String(contentsOfFile: "/proc/cpuinfo", encoding: .utf8) else { return nil }
        let line = text.split(separator: "\n").first { $0.hasPrefix("model name") }
        return line?.split(separator: ":", maxSplits: 1).last.map { $0.trimmingCharacters(in: .whitespaces) }
    }
}
