import PresenceCore
import PresenceWire
import Testing

@testable import PresenceNode

@Suite struct RequestAdmissionTests {
    private var admission = RequestAdmission(seed: 1)
    private let now = Instant(nanoseconds: 5_000_000_000)

    private struct Refused: Error {}

    private mutating func work(_ kind: Admission.Kind) throws -> RequestAdmission.Work {
        guard case .admitted(let work) = admission.admit(kind, at: now) else { throw Refused() }
        return work
    }

    @Test("An admitted request is in progress until it ends, and only operations count as such")
    mutating func inProgress() throws {
        let (operation, login) = (try work(.operation), try work(.login))
        expect(admission.gauges.map(\.inProgress) == [1, 1, 0])
        admission.ended(operation, at: now + .milliseconds(1))
        admission.loginEnded(login, at: now + .milliseconds(2))
        expect(admission.gauges.map(\.inProgress) == [0, 0, 0])
        expect(admission.operationSeconds.counts.reduce(0, +) == 1 && admission.loginSeconds.counts.reduce(0, +) == 1)
    }

    @Test("A login that fails before its owner is asked is not measured as a login")
    mutating func failedLogin() throws {
        admission.ended(try work(.login), at: now)
        admission.abandoned(try work(.login))
        expect(admission.gauges.map(\.inProgress) == [0, 0, 0])
        expect(admission.loginSeconds == LatencyHistogram() && admission.operationSeconds == LatencyHistogram())
    }

    @Test("One login more than may be in progress is refused with 503 and a time to retry")
    mutating func refusal() throws {
        while admission.gauges[0].inProgress < Int(admission.gauges[0].limit) { _ = try work(.login) }
        guard case .refused(let response, _) = admission.admit(.login, at: now) else {
            Issue.record("the login was admitted")
            return
        }
        expect(response.status == 503 && (response.retryAfter ?? 0) >= 1)
        expect(admission.gauges[0].refused == 1)
    }

    @Test("A request waits from the time when the probe was due")
    mutating func delay() throws {
        expect(admission.needsProbe)
        admission.probe(due: now + .milliseconds(-30))
        expect(!admission.needsProbe && admission.longestDelay(at: now) == .milliseconds(30))
        try expect(work(.operation).startedAt == now + .milliseconds(-30))
        admission.probed(at: now)
        expect(admission.needsProbe)
    }
}
