import PresenceCore
import PresenceWire

/// Decides whether a request is admitted, before it costs anything. An overloaded node then goes on to do as much as it can, in a short
/// time.
///
/// Two measurements decide, each against a target, as in CoDel (RFC 8289) and in WeChat's DAGOR:
/// - the delay of the event loop, which is the time that a request has waited before the node read it;
/// - the duration of the admitted work, which sets the number of requests that may be in progress (additive increase, multiplicative
///   decrease).
///
/// Logins yield first, then operations, then resumed streams. Each has a higher target than the one before. While one is refused, those
/// before it are refused too.
///
/// A refusal also costs some hundredths of a login. Beyond ``Settings/refusalsPerAccepted`` the caller leaves a connection unread for a
/// while, so that the excess waits at the client.
///
/// Each event loop has one. It does no I/O, reads no clock and draws random numbers only from its seed.
struct Admission {
    /// A class of requests, in the order in which they yield.
    enum Kind: Int, CaseIterable, Sendable {
        /// A new event stream.
        case login
        /// A call of <doc:HTTPAPI#Operations>, except `logout`: it ends work and is always admitted.
        case operation
        /// A resumed event stream, for example of a client whose node drains. If it is refused for longer than the grace, watchers see
        /// OFFLINE.
        case resume
    }

    /// The decision about a request.
    enum Decision: Equatable {
        case accept
        /// Refuse with 503 and code 50002. The client retries after so many seconds. Leave the connection unread for `pause`, unless that
        /// is zero.
        case refuse(retryAfter: Int, pause: Duration)
    }

    /// The targets and bounds.
    struct Settings {
        /// The delay of the loop, lasting longer than ``delayInterval``, from which each class is refused.
        var delayTargets: [Duration] = [.milliseconds(50), .milliseconds(100), .milliseconds(500)]
        /// The time that a delay must last before it counts. A burst ends by itself.
        var delayInterval: Duration = .milliseconds(300)
        /// The duration of admitted work from which fewer requests are admitted.
        var workTargets: [Duration] = [.milliseconds(100), .milliseconds(250), .seconds(1)]
        /// The bounds of the number of requests in progress, by class.
        ///
        /// The lower bound is about 12 ms of work for a core. With fewer, a node would be idle if work takes long for another reason. With
        /// many more, and a disk that writes 40 rows a second, requests timed out after the work was done (measured).
        var inProgressBounds: [ClosedRange<Double>] = [64...2_048, 64...65_536, 256...65_536]
        /// The initial number of requests in progress, by class.
        var inProgressStarts: [Double] = [256, 4_096, 4_096]
        /// The refusals for each admitted request for which connections need not wait.
        ///
        /// A refusal takes about 4 µs, a fiftieth of a login or of a query of 100 users. At any load more than nine tenths of the loop
        /// remain for admitted requests.
        var refusalsPerAccepted = 2
        /// The bounds of the refusals a second.
        var refusalsBounds = 1_000...12_500
        /// The refusals that may come at once.
        var refusalsBurst = 1_000
        /// The longest time that a connection is left unread. Its open sessions wait, too.
        var pauseMax: Duration = .milliseconds(500)
        /// The longest time that a client is told to wait, in seconds.
        var retryAfterMax = 60

        init() {}
    }

    /// The metrics of one class.
    struct Gauges: Equatable, Sendable {
        var refused: UInt64 = 0
        var inProgress = 0
        var limit = 0.0
    }

    private struct RequestClass {
        let target: Duration
        let workTarget: Duration
        let bounds: ClosedRange<Double>
        /// The time since which the loop's delay has exceeded the target without a break.
        var lateSince: Instant?
        var inProgress = 0
        /// The number of requests that may be in progress.
        var limit: Double
        var lastDecrease = Instant(nanoseconds: 0)
        var accepted = Count()
        var refused = Count()
        var refusedTotal: UInt64 = 0
    }

    /// Counts by second.
    private struct Count {
        var present = 0
        var previous = 0
        var recent: Int { present + previous }

        mutating func roll(isNext: Bool) { (previous, present) = (isNext ? present : 0, 0) }
    }

    private let settings: Settings
    private var random: SplitMix64
    private var classes: [RequestClass]
    /// The due time of the next probe of the delay; nil while no requests come.
    private var probeDue: Instant?
    private var second: Int64 = 0
    private var delayPresent = Duration.zero
    private var delayPrevious = Duration.zero
    /// The time up to which the refusals until now have used their share.
    private var refusalsPaidUntil = Instant(nanoseconds: 0)

    init(settings: Settings = Settings(), seed: UInt64) {
        self.settings = settings
        random = SplitMix64(seed: seed)
        classes = Kind.allCases.map { kind in
            RequestClass(
                target: settings.delayTargets[kind.rawValue], workTarget: settings.workTargets[kind.rawValue],
                bounds: settings.inProgressBounds[kind.rawValue], limit: settings.inProgressStarts[kind.rawValue])
        }
    }

    // MARK: The loop's delay

    /// Whether a probe is scheduled. While requests come, one always is.
    var isProbing: Bool { probeDue != nil }

    /// Records that a probe is scheduled for `due`.
    mutating func probe(due: Instant) { probeDue = due }

    /// Handles the scheduled probe. Its lateness is the delay of the loop.
    mutating func probed(at now: Instant) {
        let delay = delay(at: now)
        probeDue = nil
        roll(to: now)
        delayPresent = max(delayPresent, delay)
        for kind in classes.indices {
            if delay < classes[kind].target {
                classes[kind].lateSince = nil
            } else {
                classes[kind].lateSince = classes[kind].lateSince ?? now
            }
        }
    }

    /// The current delay of the loop. A request that the loop reads now has waited at least that long.
    func delay(at now: Instant) -> Duration {
        guard let probeDue, probeDue < now else { return .zero }
        return now - probeDue
    }

    /// The longest delay within the last second or two.
    func longestDelay(at now: Instant) -> Duration {
        let age = now.nanoseconds / 1_000_000_000 - second
        let recent = age == 0 ? max(delayPresent, delayPrevious) : age == 1 ? delayPresent : .zero
        return max(recent, delay(at: now))
    }

    // MARK: Requests

    /// Decides about a request. An admitted one counts as in progress until ``ended(_:startedAt:at:)`` or ``abandoned(_:)``.
    mutating func ask(for kind: Kind, at now: Instant) -> Decision {
        roll(to: now)
        let isRefused = Kind.allCases[kind.rawValue...].contains { isTooMuch($0, at: now) }
        guard isRefused else {
            classes[kind.rawValue].accepted.present += 1
            classes[kind.rawValue].inProgress += 1
            return .accept
        }
        classes[kind.rawValue].refused.present += 1
        classes[kind.rawValue].refusedTotal += 1
        return .refuse(retryAfter: retryAfter(kind, at: now), pause: pause(at: now))
    }

    /// Whether a request exceeds the turn: while the loop is late, each turn admits as much as fits into the target, and refuses the rest.
    private func isTooMuch(_ kind: Kind, at now: Instant) -> Bool {
        let requestClass = classes[kind.rawValue]
        if Double(requestClass.inProgress) >= requestClass.limit { return true }
        guard let since = requestClass.lateSince, now - since >= settings.delayInterval else { return false }
        return delay(at: now) >= requestClass.target
    }

    /// Records the end of an admitted request. Its duration adjusts the number that may be in progress.
    mutating func ended(_ kind: Kind, startedAt: Instant, at now: Instant) {
        let requestClass = classes[kind.rawValue]
        if now - startedAt > requestClass.workTarget {
            // Work that was in progress at the last decrease is late because of earlier requests.
            if startedAt >= requestClass.lastDecrease {
                classes[kind.rawValue].limit = max(requestClass.limit * 0.8, requestClass.bounds.lowerBound)
                classes[kind.rawValue].lastDecrease = now
            }
        } else if Double(requestClass.inProgress) * 2 >= requestClass.limit {
            classes[kind.rawValue].limit = min(requestClass.limit + 4 / requestClass.limit, requestClass.bounds.upperBound)
        }
        abandoned(kind)
    }

    /// Records the end of an admitted request whose duration says nothing about this node: another node did not answer, or the client is
    /// gone.
    mutating func abandoned(_ kind: Kind) {
        classes[kind.rawValue].inProgress -= 1
        precondition(classes[kind.rawValue].inProgress >= 0, "more ended than was taken")
    }

    /// The number of seconds after which a client retries a request that was refused elsewhere.
    ///
    /// It is drawn from 1 up to twice the number of refusals for each admitted request. P clients at a node that admits A a second then
    /// settle at √(P·A) requests a second. So the load shrinks, and the node has enough to do meanwhile.
    mutating func retryAfter(_ kind: Kind, at now: Instant) -> Int {
        roll(to: now)
        let requestClass = classes[kind.rawValue]
        let ceiling = (2 * requestClass.refused.recent + 1) / max(requestClass.accepted.recent, 1) + 1
        return Int.random(in: 1...min(max(ceiling, 2), settings.retryAfterMax), using: &random)
    }

    private mutating func pause(at now: Instant) -> Duration {
        let taken = classes.reduce(0) { $0 + max($1.accepted.present, $1.accepted.previous) }
        let bounds = settings.refusalsBounds
        let perSecond = min(max(taken * settings.refusalsPerAccepted, bounds.lowerBound), bounds.upperBound)
        let spacing = Int64(1_000_000_000 / perSecond)
        let earliest = now.nanoseconds - spacing * Int64(settings.refusalsBurst)
        refusalsPaidUntil = Instant(nanoseconds: max(refusalsPaidUntil.nanoseconds, earliest) + spacing)
        guard refusalsPaidUntil > now else { return .zero }
        // Debt beyond the longest pause is dropped. Otherwise a long storm would slow refusals long after its end.
        refusalsPaidUntil = min(refusalsPaidUntil, now + settings.pauseMax)
        return refusalsPaidUntil - now
    }

    private mutating func roll(to now: Instant) {
        let present = now.nanoseconds / 1_000_000_000
        guard present != second else { return }
        let isNext = present == second + 1
        second = present
        (delayPrevious, delayPresent) = (isNext ? delayPresent : .zero, .zero)
        for kind in classes.indices {
            classes[kind].accepted.roll(isNext: isNext)
            classes[kind].refused.roll(isNext: isNext)
        }
    }

    /// The metrics of a class.
    func gauges(_ kind: Kind) -> Gauges {
        let requestClass = classes[kind.rawValue]
        return Gauges(refused: requestClass.refusedTotal, inProgress: requestClass.inProgress, limit: requestClass.limit.rounded(.down))
    }
}
