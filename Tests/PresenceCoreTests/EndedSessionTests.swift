import PresenceWire
import Testing

@testable import PresenceCore

/// A session that its owner has ended does not come back because its node registers it before it reads of the end.
@Suite struct EndedSessionTests {
    var owner = Owner(clock: VersionClock(node: 1), settings: CoreSettings())
    var outbox = Outbox()
    var now = TestCluster(nodes: 1).now
    private let ann = user("ann")

    private func attach(_ stamp: UInt64, isLogin: Bool = false) -> Attach {
        var attach = Attach(session: SessionID(stamp: stamp, node: 9), user: ann, platform: "ios", deviceID: "phone")
        (attach.isLogin, attach.openedAt) = (isLogin, now.wall)
        return attach
    }

    private mutating func register(_ attach: Attach) { owner.attach(attach, from: 1, in: &outbox[at: now]) }

    private mutating func logOut(_ session: SessionID?) { _ = UserCall(id: ann, now: now).logout(session, of: &owner, into: &outbox) }

    private var open: [SessionID] { owner.users.index(of: ann).map { owner.users[$0].sessions.map(\.id) } ?? [] }
    private var awaited: Int { owner.users.index(of: ann).map { owner.users[$0].endedSessions.count } ?? 0 }

    /// The ends that were sent since the last call, with their reasons.
    private mutating func ends() -> [String] {
        outbox.messages.takeAll().compactMap { if case .end(let session, _, let reason) = $1 { "\(session.stamp) \(reason)" } else { nil } }
    }

    @Test("A session that was logged out is ended again, and not opened, when its node registers it before it reports the end")
    mutating func loggedOut() {
        let phone = attach(1, isLogin: true)
        register(phone)
        logOut(phone.session)
        #expect(ends() == ["1 logout"])
        register(attach(1))
        #expect(open == [] && ends() == ["1 logout"])
        #expect(owner.record(of: ann).statusType == .unlogined)
        owner.detach(Detach(session: phone.session, user: ann, cause: .loggedOut), from: 1, isMoving: false, in: &outbox[at: now])
        #expect(awaited == 0 && owner.counters.logouts == 1)
    }

    @Test("A session that a login has replaced is ended again, and not opened, when its node registers it before it reports the end")
    mutating func replaced() {
        register(attach(1, isLogin: true))
        now.wall += 5_000
        now.instant += .seconds(5)
        let next = attach(2, isLogin: true)
        register(next)
        #expect(ends() == ["1 replaced"])
        register(attach(1))
        #expect(open == [next.session] && ends() == ["1 replaced"])
    }

    /// The user's former owner has died, and this one performs the logout before the sessions are registered.
    @Test("A logout at a new owner ends the session, or all, that nodes register later, and no later login", arguments: [false, true])
    mutating func newOwner(isOfAll: Bool) throws {
        let (phone, tablet) = (attach(1), attach(2))
        let index = owner.index(of: ann)
        let deadline = now.instant + .seconds(10)
        owner.modify(index) { $0.confirmationDeadline = deadline }
        logOut(isOfAll ? nil : phone.session)
        register(phone)
        #expect(open == [] && ends() == ["1 logout"])
        register(tablet)
        #expect(open == (isOfAll ? [] : [tablet.session]))
        now.wall += 100
        let login = attach(3, isLogin: true)
        register(login)
        #expect(open == [login.session])
        register(attach(3))
        #expect(open == [login.session])
    }

    @Test("An end is awaited until the node dies, or registers its sessions without this one") mutating func unreported() {
        for isDeath in [true, false] {
            let phone = attach(1, isLogin: true)
            register(phone)
            logOut(phone.session)
            #expect(awaited == 1)
            if isDeath {
                owner.peersDied([1], in: &outbox[at: now])
            } else {
                owner.beginSync(from: 1, Owner.Registration(id: 7, ranges: .all))
                register(attach(1))
                owner.endSync(from: 1, registrationID: 7, in: &outbox[at: now])
                #expect(awaited == 1, "the node has named it")
                owner.beginSync(from: 1, Owner.Registration(id: 8, ranges: .all))
                owner.endSync(from: 1, registrationID: 8, in: &outbox[at: now])
            }
            #expect(awaited == 0)
        }
    }

    @Test("Few ends of a user are awaited at a time") mutating func bound() {
        for stamp in 1...UInt64(3 * Limits.sessionsPerUserMax) {
            let phone = attach(stamp, isLogin: true)
            register(phone)
            logOut(phone.session)
        }
        #expect(awaited == Limits.sessionsPerUserMax)
    }

    @Test("A node reports the end of a session that it does not have") func unknownSession() {
        var cluster = TestCluster(nodes: 3)
        let name = cluster.user(ownedBy: 0)
        let client = cluster.login(name, on: 1)
        let phone = cluster.clients[client].session
        let index = cluster.processes[0].node.owner.users.index(of: user(name))!
        let deadline = cluster.now.instant + .seconds(10)
        cluster.processes[0].node.machines.owner.modify(index) { $0.confirmationDeadline = deadline }
        cluster.call(.logout(SessionID(stamp: 77, node: phone.node)), by: name, on: 2)
        #expect(cluster.processes[0].node.owner.users[index].endedSessions.isEmpty)
        #expect(cluster.processes[0].node.owner.users[index].sessions.map(\.id) == [phone])
    }
}
