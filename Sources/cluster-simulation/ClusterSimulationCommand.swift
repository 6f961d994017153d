import ArgumentParser
import ClusterSimulation

@main
struct ClusterSimulationCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cluster-simulation",
        abstract: "Run whole clusters in virtual time, each from a seed, and check every guarantee.",
        discussion:
            "Exits with 0 when all guarantees hold. Exits with 1 when one is broken, and prints the command that repeats the history.")

    @Option(help: "Run one history; print its last events when a guarantee is broken.") var seed: UInt64?
    @Option(help: "Run the histories of the seeds FROM..TO, both included.") var seeds: SeedRange?
    @Option(help: "Number of nodes, 1 to 50 (default: chosen by the seed).") var nodes: Int?
    @Option(help: "Number of users, 1 to 10000 (default: chosen by the seed).") var users: Int?
    @Option(help: "Faults, separated by commas, or \"none\" (default: chosen by the seed).") var faults: Faults?
    @Flag(help: "Add late and absent clients, users who often hide, nodes that never return, staged partitions and losses.")
    var harder = false
    @Option(help: "Run only histories of these kinds, separated by commas (default: all).") var kinds: Kinds?
    @Flag(help: "Print every event.") var log = false
    @Flag(help: "Run each history twice, and fail if the two differ.") var twice = false
    @Flag(help: "Print only which guarantee is broken, without the shortest plan.") var quick = false

    @Flag(help: "Continue after a violation; print one line for each, and their number.") var keepGoing = false

    @Flag(help: "Print only the seed and the hash of each history; with --log also every entry of the trace.")
    var hashes = false

    func validate() throws {
        if (seed == nil) == (seeds == nil) { throw ValidationError("give either --seed N or --seeds FROM..TO") }
        if let nodes, !(1...50).contains(nodes) { throw ValidationError("--nodes: \(nodes) is not in 1...50") }
        if let users, !(1...10_000).contains(users) { throw ValidationError("--users: \(users) is not in 1...10000") }
    }

    func run() throws {
        if hashes { return try printHashes() }
        let range = seeds?.range ?? seed!...seed!
        let rings = RingCache()
        var total = HistoryCounts()
        var brokenCount = 0
        var virtualMilliseconds = 0
        let began = ContinuousClock.now
        var historiesCount = 0
        for seed in range {
            let options = options(seed)
            if let kinds, !kinds.set.contains(options.kind) { continue }
            historiesCount += 1
            if range.count == 1 { print(options) }
            var cluster = SimulatedCluster(options, isLogging: log, rings: rings)
            cluster.run()
            total += cluster.counts
            virtualMilliseconds += cluster.elapsedMilliseconds
            if log { for line in cluster.log { print(line) } }
            if let violation = cluster.violation {
                brokenCount += 1
                guard keepGoing else { try report(violation, options) }
                print("BROKEN \(options): \(violation)")
            }
            if twice { try repeated(options, cluster.trace, rings) }
        }
        reportSpeed(virtualMilliseconds, took: ContinuousClock.now - began)
        guard brokenCount == 0 else {
            print("\(historiesCount) histories, \(brokenCount) broke a guarantee; \(total)")
            throw ExitCode(1)
        }
        print("\(historiesCount) histories, every guarantee holds; \(total)")
    }

    /// Prints hashes, also after a broken guarantee, and exits with 0: such a history can be compared, too.
    private func printHashes() throws {
        let rings = RingCache()
        for seed in seeds?.range ?? seed!...seed! {
            let options = options(seed)
            var cluster = SimulatedCluster(options, isLoggingTrace: log, rings: rings)
            cluster.run()
            for line in cluster.log { print(line) }
            print("\(seed) \(cluster.traceText)\(cluster.violation == nil ? "" : " broken")")
            if twice { try repeated(options, cluster.trace, rings) }
        }
    }

    private func options(_ seed: UInt64) -> HistoryOptions {
        var options = HistoryOptions(seed: seed, isHarder: harder)
        if let nodes { options.nodesCount = nodes }
        if let users { options.usersCount = users }
        if let faults { options.faults = faults.set }
        return options
    }

    private func repeated(_ options: HistoryOptions, _ trace: UInt64, _ rings: RingCache) throws {
        var again = SimulatedCluster(options, rings: rings)
        again.run()
        guard again.trace != trace else { return }
        print("\(options)\nthe same seed gave another history: trace \(trace), then \(again.trace)")
        throw ExitCode(1)
    }

    private func reportSpeed(_ virtualMilliseconds: Int, took duration: Duration) {
        let milliseconds = max(Int(duration / .milliseconds(1)), 1)
        print("\(virtualMilliseconds) ms of virtual time in \(milliseconds) ms: \(virtualMilliseconds / milliseconds) x real time")
    }

    private func report(_ violation: Violation, _ options: HistoryOptions) throws -> Never {
        print("\(options)\nBROKEN \(violation)")
        if quick { throw ExitCode(1) }
        let shortest = Shrinking.shortest(options, guarantee: violation.guarantee)
        print("shortest plan that breaks it: \(shortest.plan.steps.count) of \(options.stepsCount) steps")
        for step in shortest.plan.steps { print("  \(step)") }
        print("  \(shortest.violation)\nwhat happened last:")
        for line in shortest.log.filter({ !Self.isRoutine($0) }).suffix(60) { print("  \(line)") }
        var command = "cluster-simulation --seed \(options.seed)"
        if harder { command += " --harder" }
        if let nodes { command += " --nodes \(nodes)" }
        if let users { command += " --users \(users)" }
        if let faults { command += " --faults \(faults.text)" }
        print("again: \(command) --log")
        throw ExitCode(1)
    }
}

extension ClusterSimulationCommand {
    /// Whether a batch has only signs of life and probes.
    private static func isRoutine(_ line: String) -> Bool { line.contains(" takes ") && !line.contains("\n") }
}

/// A range of seeds: `FROM..TO`.
struct SeedRange: ExpressibleByArgument {
    let range: ClosedRange<UInt64>

    init?(argument: String) {
        let parts = argument.split(separator: ".", omittingEmptySubsequences: true)
        guard parts.count == 2, let from = UInt64(parts[0]), let to = UInt64(parts[1]), from <= to else { return nil }
        range = from...to
    }
}

/// Names of kinds of histories.
struct Kinds: ExpressibleByArgument {
    let set: Set<HistoryKind>

    init?(argument: String) {
        let names = argument.split(separator: ",").map(String.init)
        set = Set(names.compactMap { HistoryKind(rawValue: $0) })
        guard set.count == names.count, !set.isEmpty else { return nil }
    }

    static var allValueStrings: [String] { HistoryKind.allCases.map(\.rawValue) }
}

/// Names of faults.
struct Faults: ExpressibleByArgument {
    let set: Set<HistoryOptions.Fault>
    let text: String

    init?(argument: String) {
        text = argument
        let names = argument == "none" ? [] : argument.split(separator: ",").map(String.init)
        let found = names.compactMap(HistoryOptions.Fault.init)
        guard found.count == names.count else { return nil }
        set = Set(found)
    }
}
