import PresenceCore
import PresenceWire

/// The time, the events to come, the random numbers and the journal of one history.
struct Stage {
    private(set) var time: Nanoseconds = 0 { didSet { journal.time = time } }
    var random: SplitMix64
    var counts = HistoryCounts()
    /// Separate from the simulated state, so that nonmutating checks can write it.
    let journal: Journal
    private var agenda = Agenda()
    private var order: UInt64 = 0

    init(random: SplitMix64, _ journal: Journal) {
        self.random = random
        self.journal = journal
    }

    /// Removes the next event up to a moment, and advances the time to it.
    mutating func next(until end: Nanoseconds) -> SimulationEvent.What? {
        guard let at = agenda.nextAt, at <= end, let next = agenda.popFirst() else { return nil }
        time = max(time, next.at)
        counts[.events] += 1
        return next.what
    }

    mutating func advance(to end: Nanoseconds) { time = max(time, end) }

    mutating func plan(_ what: SimulationEvent.What, after delay: Nanoseconds) { plan(what, at: time + delay) }

    mutating func plan(_ what: SimulationEvent.What, at moment: Nanoseconds) {
        order += 1
        agenda.insert(SimulationEvent(at: max(moment, time), order: order, what: what))
    }

    /// Delivers at once, in order, what a fault that has ended held up.
    mutating func hasten(_ network: inout Network) {
        var kept = Agenda()
        while let next = agenda.popFirst() {
            var at = next.at
            switch next.what {
            case .arrive(let link, _, _, _, _): at = min(at, network[link].arrival(at: time))
            case .acknowledge: at = min(at, time + .milliseconds(1))
            default: break
            }
            kept.insert(SimulationEvent(at: at, order: next.order, what: next.what))
        }
        agenda = kept
    }
}

/// The log and the trace of a history, and the first broken guarantee.
final class Journal {
    fileprivate(set) var time: Nanoseconds = 0
    var violation: Violation? { didSet { isBroken = violation != nil } }
    private(set) var isBroken = false
    private(set) var trace = Trace()
    private(set) var log: [String]?
    /// Whether the log has the content of the trace, instead of words.
    private let isOfTrace: Bool

    init(isLogging: Bool, isOfTrace: Bool) {
        log = isLogging ? [] : nil
        self.isOfTrace = isOfTrace
    }

    func violate(_ guarantee: Violation.Guarantee, _ what: @autoclosure () -> String) {
        guard violation == nil else { return }
        violation = Violation(guarantee: guarantee, what: what(), at: time.milliseconds)
    }

    /// Adds an event to the trace, and in words to the log if there is one.
    func note(_ kind: UInt64, _ first: Int, _ second: Int, _ words: @autoclosure () -> String) {
        trace.add(kind, first, second, at: time)
        guard log != nil else { return }
        if isOfTrace { logTrace("\(kind) \(first) \(second)") } else { log?.append("\(time.milliseconds) ms  \(words())") }
    }

    /// Adds bytes that cross the boundary of a node to the trace.
    func note(_ boundary: Trace.Boundary, _ first: Int, _ second: Int, _ bytes: [UInt8]) {
        trace.add(boundary.rawValue, first, second, at: time)
        trace.add(bytes)
        if isOfTrace { logTrace("\(boundary) \(first) \(second) \(Trace.readable(bytes))") }
    }

    /// Adds the output of the cluster's codec that crosses the boundary of a node to the trace.
    func note(_ boundary: Trace.Boundary, _ first: Int, _ second: Int, _ write: (inout WireWriter) -> Void) {
        trace.add(boundary.rawValue, first, second, at: time)
        let bytes = trace.add(write)
        if isOfTrace { logTrace("\(boundary) \(first) \(second) \(Trace.readable(bytes))") }
    }

    private func logTrace(_ what: String) { log?.append("\(time) ns  \(trace.text)  \(what)") }
}
