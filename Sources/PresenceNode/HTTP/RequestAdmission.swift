import HTTP2
import PresenceCore
import PresenceWire

/// Admits the requests of one event loop, or refuses them before they cost anything, and measures those that were admitted.
struct RequestAdmission {
    /// A request that was admitted and is in progress.
    struct Work: Equatable {
        let startedAt: Instant
        let kind: Admission.Kind
    }

    /// The outcome for a request.
    enum OnRequest {
        case admitted(Work)
        /// Answer the request with 50002. Leave the connection unread for `pause`, unless that is zero.
        case refused(HTTPResponse, pause: Duration)
    }

    private var admission: Admission
    private var refusals = RefusalBodies()
    /// The time from a request to the answer of the owner.
    private(set) var loginSeconds = LatencyHistogram()
    private(set) var operationSeconds = LatencyHistogram()

    init(seed: UInt64) { admission = Admission(seed: seed) }

    /// Decides about a request.
    mutating func admit(_ kind: Admission.Kind, at now: Instant) -> OnRequest {
        switch admission.ask(for: kind, at: now) {
        case .accept:
            // A late event loop has let the request wait. The wait counts.
            let delay = admission.delay(at: now).wholeNanoseconds
            return .admitted(Work(startedAt: Instant(nanoseconds: now.nanoseconds - delay), kind: kind))
        case .refuse(let retryAfter, let pause): return .refused(refusals.response(retryAfter: retryAfter), pause: pause)
        }
    }

    /// A request was answered.
    mutating func ended(_ work: Work, at now: Instant) {
        if work.kind == .operation { operationSeconds.observe(work.startedAt, until: now) }
        admission.ended(work.kind, startedAt: work.startedAt, at: now)
    }

    /// The owner has answered a login.
    mutating func loginEnded(_ login: Work, at now: Instant) {
        loginSeconds.observe(login.startedAt, until: now)
        admission.ended(login.kind, startedAt: login.startedAt, at: now)
    }

    /// A request is over, and its time says nothing of this node: the client is gone, or another node did not answer.
    mutating func abandoned(_ work: Work) { admission.abandoned(work.kind) }

    /// Seconds after which a client is to repeat an operation that another node has refused.
    mutating func retryAfter(at now: Instant) -> Int { admission.retryAfter(.operation, at: now) }

    // MARK: The delay of the loop

    /// Whether no probe is under way. While requests come, there is always one.
    var needsProbe: Bool { !admission.isProbing }

    /// A probe is scheduled for `due`. The loop calls ``probed(at:)`` then; how late it does is the delay of the loop.
    mutating func probe(due: Instant) { admission.probe(due: due) }

    /// The probe that was due.
    mutating func probed(at now: Instant) { admission.probed(at: now) }

    // MARK: Metrics

    /// The gauges of all kinds, by ``Admission/Kind/rawValue``.
    var gauges: [Admission.Gauges] { Admission.Kind.allCases.map(admission.gauges) }

    /// The longest delay within the last second or two.
    func longestDelay(at now: Instant) -> Duration { admission.longestDelay(at: now) }
}
