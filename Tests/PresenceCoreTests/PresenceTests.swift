import PresenceWire
import Testing

@testable import PresenceCore

/// The decision about a user's status depends on its arguments alone.
@Suite struct PresenceTests {
    var ann = OwnedUser(record: Record(blank: user("ann")))
    var policy = Policy()
    let version = Version(milliseconds: 1_000, counter: 0, node: 1)

    private func decide(_ change: StatusChange = StatusChange(), isCutOff: Bool = false) -> Presence.Decision {
        let now = Now(instant: Instant(nanoseconds: 5), wall: 1_000)
        return Presence.decide(
            ann, change, Presence.Circumstances(now: now, policy: policy, version: version, claimedByOthers: 0, isCutOff: isCutOff))
    }

    private func session(isPushReachable: Bool = false) -> OwnedSession {
        OwnedSession(
            id: SessionID(stamp: 1, node: 1), peer: 1, openedAt: 0, platform: "web", deviceID: "phone", isPushReachable: isPushReachable,
            registrationID: 0)
    }

    private mutating func login() {
        ann.open(session())
        ann.record = decide().record
    }

    @Test("A change that changes nothing writes nothing")
    mutating func nothingIsWrittenWithoutAChange() {
        #expect(!decide().isWritten)
        #expect(decide().record == ann.record)
        login()
        #expect(!decide().isWritten)
        #expect(decide().record == ann.record)
    }

    @Test("A session makes a user ONLINE, under the version of the circumstances")
    mutating func aSessionMeansOnline() {
        ann.open(session())
        let decision = decide()
        #expect(decision.isWritten)
        #expect(decision.record.version == version)
        #expect(decision.record.statusType == .online)
        #expect(decision.record.onlinePlatforms == ["web"])
        #expect(decision.record.lastOnlineStatusUpdateTime == 1_000)
    }

    @Test("Without a session the status says how the last one ended", arguments: [StatusType.offline, .unlogined])
    mutating func theLastSessionDecides(statusAfterLast: StatusType) {
        login()
        (ann.sessions, ann.statusAfterLast) = ([], statusAfterLast)
        #expect(decide().record.statusType == statusAfterLast)
        #expect(decide(StatusChange(end: .logout)).record.statusType == .unlogined)
    }

    @Test("A custom status ends with the presence of its user, unless the node is cut off from the other replicas")
    mutating func aCustomStatusEndsWithPresence() {
        login()
        ann.record = decide(StatusChange(customStatus: "busy")).record
        #expect(ann.record.customStatus == "busy")
        ann.sessions = []
        #expect(policy.clearsCustomStatus(of: .offline, hasOwnEnd: false))
        #expect(decide().record.customStatus == "")
        #expect(decide(isCutOff: true).record.customStatus == "busy")
        #expect(decide(StatusChange(customStatus: "gone")).record.customStatus == "gone")
    }

    @Test(
        "A custom status with an end of its own stays when its user goes OFFLINE, unless none is shown without a session",
        arguments: [true, false], [true, false])
    mutating func aCustomStatusWithAnEndOfItsOwn(hasOwnEnd: Bool, needsSession: Bool) throws {
        policy.customStatusNeedsSession = needsSession
        login()
        ann.record =
            decide(StatusChange(customStatus: "at lunch", customStatusExpiresAt: 5_000, customStatusHasOwnEnd: hasOwnEnd)).record
        #expect(try Record(Row(ann.record)) == ann.record)
        ann.sessions = []
        let offline = decide().record
        let isKept = hasOwnEnd && !needsSession
        #expect(offline.statusType == .offline && offline.customStatus == (isKept ? "at lunch" : ""))
        #expect(offline.customStatusExpiresAt == (isKept ? 5_000 : 0) && offline.customStatusHasOwnEnd == isKept)
        #expect(ann.record.hidden(at: version, 1_000, by: policy).customStatus == offline.customStatus)
        ann.record = offline
        #expect(!decide(StatusChange(customStatus: "")).record.customStatusHasOwnEnd)
    }

    @Test("A device that push reaches keeps its user ONLINE, until a session of the device is logged out")
    mutating func pushReachesADevice() {
        policy.pushReachableStaysOnline = true
        ann.open(session(isPushReachable: true))
        ann.record = decide().record
        #expect(ann.record.pushDevices.map(\.deviceID) == ["phone"])
        ann.sessions = []
        #expect(decide().record.statusType == .online)
        let logout = decide(StatusChange(departed: [session()]))
        #expect(logout.record.statusType == .offline)
        #expect(logout.record.pushDevices == [])
    }

    @Test("A record that other nodes may have claimed is known since their claim")
    mutating func aRecordIsKnownSinceTheClaim() {
        var record = Record(blank: user("ann"))
        record.version = version
        #expect(Presence.knownSince(ofNew: record, claimedByOthers: 999) == 0)
        #expect(Presence.knownSince(ofNew: record, claimedByOthers: 1_000) == 1_000)
    }
}
