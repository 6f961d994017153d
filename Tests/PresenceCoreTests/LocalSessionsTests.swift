import PresenceWire
import Testing

@testable import PresenceCore

@Suite struct LocalSessionsTests {
    @Test("A session that is registered again says all that it said when it was opened")
    func whatIsKept() {
        var attach = Attach(
            session: SessionID(stamp: 5, node: 6), user: UserID(app: "app", id: "ann"), platform: "ios", deviceID: "phone",
            customStatus: "busy", isLogin: true, isPushReachable: true)
        attach.openedAt = 1_234
        var sessions = LocalSessions()
        sessions.open(attach, gateway: 63)
        #expect(sessions.sessions(of: attach.user) == [attach])
        #expect(sessions.gateways(of: attach.user) == 1 << 63)
        sessions.confirm(attach.user)
        (attach.isLogin, attach.customStatus) = (false, nil)
        #expect(sessions.sessions(of: attach.user) == [attach])
    }
}
