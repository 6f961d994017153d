import PresenceCore
import PresenceWire

/// Decides, before anything is spent on a request, whether it is taken: so that a node that is offered more than it can carry goes on
/// carrying as much as it can, and what it takes is answered soon (design principle 6).
///
/// Two measurements decide, each against a target, as in CoDel (RFC 8289) and in WeChat's DAGOR: how late the event loop is, which is
/// how long a request has waited before anybody looked at it, and how long the work that was taken takes, which sets how much of it may
/// be in progress (additive increase, multiplicative decrease). Logins yield first, then operations, then streams that are resumed: each
/// has a later target than the one before, and while one is refused those before it are not taken either.
///
/// Refusing costs too, some hundredths of a login: beyond ``Settings/refusalsPerAccepted`` a connection is to be left unread for a while,
/// so that what is too much waits at the client.
///
/// One for each event loop. Does no I/O, reads no clock and draws no random number but from its seed.
struct Admission {
    /// What is asked for, in the order in which it yields.
    enum Kind: Int, CaseIterable, Sendable {
        /// A new event stream.
        case login
        /// A call of <doc:HTTPAPI#Operations>, except `logout`: it ends work and is always admitted.
        case operation
        /// An event stream that is resumed, as by a client whose node drains: whoever watches its user sees OFFLINE if it is refused for
        /// longer than the grace.
        case resume
    }

    /// The answer.
    enum Decision: Equatable {
        case accept
        /// 503 with code 50002: come back after so many seconds; leave the connection unread for `pause`, unless that is zero.
        case refuse(retryAfter: Int, pause: Duration)
    }

    /// How late, how long and how many.
    struct Settings {
        /// How late the loop may be, for longer than ``delayInterval``, before a kind is refused.
        var delayTargets: [Duration] = [.milliseconds(50), .milliseconds(100), .milliseconds(500)]
        /// How long a delay has to last before it counts: a burst ends by itself.
        var delayInterval: Duration = .milliseconds(300)
        /// How long what was taken may be in progress before fewer are taken.
        var workTargets: [Duration] = [.milliseconds(100), .milliseconds(250), .seconds(1)]
        /// Between which numbers of a kind the number that may be in progress moves. The fewest are some 12 ms of
        /// work for a core: where work takes long for another reason, fewer would leave the node idle. Many more, with a disk that takes 40
        /// rows a second, were measured to run out of time after the work was done.
        var inProgressBounds: [ClosedRange<Double>] = [64...2_048, 64...65_536, 256...65_536]
        /// Where it begins.
        var inProgressStarts: [Double] = [256, 4_096, 4_096]
        /// Refusals for each request that is taken for which connections need not wait. One takes some 4 µs, a fiftieth of a login or of
        /// a query of 100 users: however much is offered, more than nine tenths of the loop are left for what is taken.
        var refusalsPerAccepted = 2
        /// Between how many refusals a second that moves.
        var refusalsBounds = 1_000...12_500
        /// Refusals that may come at once.
        var refusalsBurst = 1_000
        /// How long a connection is left unread at most: its open sessions wait, too.
        var pauseMax: Duration = .milliseconds(500)
        /// The longest time that a client is told to stay away, in seconds.
        var retryAfterMax = 60

        init() {}
    }

    /// What the metrics tell of one kind.
    struct Gauges: Equatable, Sendable {
        var refused: UInt64 = 0
        var inProgress = 0
        var limit = 0.0
    }

    private struct RequestClass {
        let target: Duration
        let workTarget: Duration
        let bounds: ClosedRange<Double>
        /// Since when the loop has been later than the target without a break.
        var lateSince: Instant?
        var inProgress = 0
        /// How many may be in progress.
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
    /// When the next look at the clock is due; nil while no requests come.
    private var probeDue: Instant?
    private var second: Int64 = 0
    private var delayPresent = Duration.zero
    private var delayPrevious = Duration.zero
    /// Up to when the refusals so far have used what there is for them.
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

    /// Whether a look at the clock is under way. While requests come there is always one.
    var isProbing: Bool { probeDue != nil }

    /// A look at the clock was ordered for `due`.
    mutating func probe(due: Instant) { probeDue = due }

    /// The look at the clock that was due; how late it is says how late the loop is.
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

    /// How late the loop is now: at least so long has a request waited that is looked at now.
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

    /// Whether a request is taken. One that is counts as in progress until ``ended(_:startedAt:at:)`` or ``abandoned(_:)``.
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

    /// In a time of delay each turn of the loop takes as much as fits into the target, and refuses the rest.
    private func isTooMuch(_ kind: Kind, at now: Instant) -> Bool {
        let requestClass = classes[kind.rawValue]
        if Double(requestClass.inProgress) >= requestClass.limit { return true }
        guard let since = requestClass.lateSince, now - since >= settings.delayInterval else { return false }
        return delay(at: now) >= requestClass.target
    }

    /// What was taken is done. How long it took moves how much may be in progress.
    mutating func ended(_ kind: Kind, startedAt: Instant, at now: Instant) {
        let requestClass = classes[kind.rawValue]
        if now - startedAt > requestClass.workTarget {
            // What was in progress at the last decrease is late because of what came before it.
            if startedAt >= requestClass.lastDecrease {
                classes[kind.rawValue].limit = max(requestClass.limit * 0.8, requestClass.bounds.lowerBound)
                classes[kind.rawValue].lastDecrease = now
            }
        } else if Double(requestClass.inProgress) * 2 >= requestClass.limit {
            classes[kind.rawValue].limit = min(requestClass.limit + 4 / requestClass.limit, requestClass.bounds.upperBound)
        }
        abandoned(kind)
    }

    /// What was taken is over, and how long it took says nothing of this node: another one did not answer, or the client is gone.
    mutating func abandoned(_ kind: Kind) {
        classes[kind.rawValue].inProgress -= 1
        precondition(classes[kind.rawValue].inProgress >= 0, "more ended than was taken")
    }

    /// Seconds after which one more that was refused elsewhere is to come back.
    ///
    /// Drawn from 1 up to twice as many seconds as there are refusals for each that was taken: a herd of P clients at a node that takes
    /// A a second settles at an offer of √(P·A) a second, so it thins out, and the node has enough to do meanwhile.
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
        // What could not be waited for is forgotten, or a long storm would be paid for long after.
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

    /// For the metrics.
    func gauges(_ kind: Kind) -> Gauges {
        let requestClass = classes[kind.rawValue]
        return Gauges(refused: requestClass.refusedTotal, inProgress: requestClass.inProgress, limit: requestClass.limit.rounded(.down))
    }
}
