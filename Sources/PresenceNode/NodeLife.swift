import NIOConcurrencyHelpers
import NIOCore

/// The phase of a node's life.
enum NodeLife: Equatable, Sendable {
    /// The node joins, and takes over its slots.
    case starting
    /// The database was damaged, and no member that has the missing rows is connected yet.
    case incomplete
    case serving
    /// An operator has asked the node to give its slots and its clients to other nodes.
    case draining
    /// The process ends, because its host has asked it to.
    case stopping
    /// The process ends, because the cluster accepts it no more: another process has its node ID.
    case superseded(reason: String)

    /// Whether `next` may follow. Nothing follows the end of the process, so its reason and its exit code are decided once.
    func mayBecome(_ next: NodeLife) -> Bool {
        switch (self, next) {
        case (.stopping, _), (.superseded, _): false
        case (_, .stopping), (_, .superseded): true
        case (.starting, .incomplete), (.starting, .serving), (.starting, .draining): true
        case (.incomplete, .serving), (.incomplete, .draining), (.serving, .draining): true
        case (.starting, _), (.incomplete, _), (.serving, _), (.draining, _): false
        }
    }

    /// Why a node in this phase is not ready; nil if it may be.
    var notReady: String? {
        switch self {
        case .starting: "starting"
        case .incomplete: "incomplete: the database was damaged, and no other member is connected yet"
        case .serving: nil
        case .draining, .stopping: "draining"
        case .superseded(let reason): "superseded: \(reason)"
        }
    }
}

/// A condition of readiness, as `/readyz?verbose` lists it.
struct ReadinessCheck: Equatable, Sendable {
    let name: String
    /// Why the condition does not hold; nil if it does.
    let problem: String?

    /// The line of the list, with its line feed.
    var line: String { "\(name): \(problem ?? "ok")\n" }
}

/// The life of a node, and what the other nodes have against it. The core's loop writes it, and other threads read it.
final class NodeState: Sendable {
    private struct State {
        var life = NodeLife.starting
        /// The refusal by all nodes that this node reaches, if it may pass.
        var refusal: LinkRefusal?
        /// The start of a refusal because of the node ID, by all nodes and without a break.
        var inUseSince: NIODeadline?
    }

    private let state = NIOLockedValueBox(State())
    /// The reason why the cluster accepts this process no more, if that happens. It ends when this process is about to end.
    let supersessions: AsyncStream<String>
    private let supersession: AsyncStream<String>.Continuation

    init() { (supersessions, supersession) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1)) }

    var life: NodeLife { state.withLockedValue { $0.life } }

    /// Why the cluster accepts this process no more; nil if it does.
    var supersededReason: String? { if case .superseded(let reason) = life { reason } else { nil } }

    /// Starts a phase, unless the present one forbids it. Returns whether the node is in that phase now.
    @discardableResult
    func advance(to next: NodeLife) -> Bool {
        let (isChanged, isNext) = state.withLockedValue { state in
            let isChanged = state.life.mayBecome(next)
            if isChanged { state.life = next }
            return (isChanged, state.life == next)
        }
        guard isChanged else { return isNext }
        switch next {
        case .superseded(let reason):
            supersession.yield(reason)
            supersession.finish()
        case .stopping: supersession.finish()
        case .starting, .incomplete, .serving, .draining: break
        }
        return isNext
    }

    /// Takes the refusal by all nodes that this node reaches; nil if one accepts it, or if none answers. Call it a few times a second.
    ///
    /// - Returns: whether the refusal has just ended the life of this process.
    func refused(_ refusal: LinkRefusal?, at now: NIODeadline) -> Bool {
        let isFinal = state.withLockedValue { state in
            state.refusal = refusal?.kind.patience == nil ? nil : refusal
            guard refusal?.kind == .inUse else {
                state.inUseSince = nil
                return refusal?.kind == .superseded
            }
            let since = state.inUseSince ?? now
            state.inUseSince = since
            return now - since >= LinkRefusal.Kind.inUsePatience
        }
        guard isFinal, let refusal, supersededReason == nil else { return false }
        return advance(to: .superseded(reason: refusal.reason))
    }

    /// The conditions of readiness.
    ///
    /// - Parameters:
    ///   - clock: why the clock is wrong; nil if it is right.
    ///   - disk: why the disk is not usable; nil if it is.
    func checks(clock: String?, disk: String?) -> [ReadinessCheck] {
        let (life, refusal) = state.withLockedValue { ($0.life, $0.refusal) }
        var (start, completeness, drain, supersession): (String?, String?, String?, String?) = (nil, nil, nil, nil)
        switch life {
        case .starting: start = life.notReady
        case .incomplete: completeness = life.notReady
        case .serving: break
        case .draining, .stopping: drain = life.notReady
        case .superseded: supersession = life.notReady
        }
        return [
            ReadinessCheck(name: "start", problem: start), ReadinessCheck(name: "completeness", problem: completeness),
            ReadinessCheck(name: "drain", problem: drain), ReadinessCheck(name: "supersession", problem: supersession),
            ReadinessCheck(name: "acceptance", problem: refusal.map { "refused: \($0.reason)" }),
            ReadinessCheck(name: "clock", problem: clock), ReadinessCheck(name: "disk", problem: disk),
        ]
    }

    /// Why the node is not ready; nil if it is.
    ///
    /// - Parameter problem: a reason against a node that serves otherwise, for example of its disk.
    func notReady(beside problem: String?) -> String? {
        let (life, refusal) = state.withLockedValue { ($0.life, $0.refusal) }
        if let reason = life.notReady { return reason }
        let reasons = [refusal.map { "refused: \($0.reason)" }, problem].compactMap { $0 }
        return reasons.isEmpty ? nil : reasons.joined(separator: "; ")
    }
}
