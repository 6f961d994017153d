import PresenceWire
import Testing

@testable import ClusterSimulation
@testable import PresenceCore

/// An owner, to which one node reports the sessions of one user.
private struct OneOwner: ~Copyable {
    var owner = Owner(clock: VersionClock(node: 1), settings: CoreSettings())
    var outbox = Outbox()
    var now = TestCluster(nodes: 1).now
    let ann = user("ann")

    func attach(_ stamp: UInt64, isLogin: Bool = false) -> Attach {
        var attach = Attach(session: SessionID(stamp: stamp, node: 9), user: ann, platform: "ios", deviceID: "phone")
        (attach.isLogin, attach.openedAt) = (isLogin, now.wall)
        return attach
    }

    mutating func register(_ attach: Attach) { owner.attach(attach, from: 1, in: &outbox[at: now]) }

    mutating func logOut(_ session: SessionID?) { _ = UserCall(id: ann, now: now).logout(session, of: &owner, into: &outbox) }

    var open: [SessionID] { owner.users.index(of: ann).map { owner.users[$0].sessions.map(\.id) } ?? [] }
    var awaited: Int { owner.users.index(of: ann).map { owner.users[$0].endedSessions.count } ?? 0 }

    /// The ends that were sent since the last call, with their reasons.
    mutating func takeEnds() -> [String] {
        outbox.messages.takeAll().compactMap { if case .end(let session, _, let reason) = $1 { "\(session.stamp) \(reason)" } else { nil } }
    }
}

/// A session that its owner has ended does not come back because its node registers it before it reads of the end.
@Suite struct EndedSessionTests {
    @Test("A session that was logged out is ended again, and not opened, when its node registers it before it reports the end")
    func loggedOut() {
        var test = OneOwner()
        let phone = test.attach(1, isLogin: true)
        test.register(phone)
        test.logOut(phone.session)
        var ends = test.takeEnds()
        #expect(ends == ["1 logout"])
        test.register(test.attach(1))
        ends = test.takeEnds()
        #expect(test.open == [] && ends == ["1 logout"])
        #expect(test.owner.record(of: test.ann).statusType == .unlogined)
        let detach = Detach(session: phone.session, user: test.ann, cause: .loggedOut)
        test.owner.detach(detach, from: 1, isMoving: false, in: &test.outbox[at: test.now])
        #expect(test.awaited == 0 && test.owner.counters.logouts == 1)
    }

    @Test("A session that a login has replaced is ended again, and not opened, when its node registers it before it reports the end")
    func replaced() {
        var test = OneOwner()
        test.register(test.attach(1, isLogin: true))
        test.now.wall += 5_000
        test.now.instant += .seconds(5)
        let next = test.attach(2, isLogin: true)
        test.register(next)
        var ends = test.takeEnds()
        #expect(ends == ["1 replaced"])
        test.register(test.attach(1))
        ends = test.takeEnds()
        #expect(test.open == [next.session] && ends == ["1 replaced"])
    }

    /// The user's former owner has died, and this one performs the logout before the sessions are registered.
    @Test("A logout at a new owner ends the session, or all, that nodes register later, and no later login", arguments: [false, true])
    func newOwner(isOfAll: Bool) {
        var test = OneOwner()
        let (phone, tablet) = (test.attach(1), test.attach(2))
        let index = test.owner.index(of: test.ann)
        let deadline = test.now.instant + .seconds(10)
        test.owner.modify(index) { $0.confirmationDeadline = deadline }
        test.logOut(isOfAll ? nil : phone.session)
        test.register(phone)
        let ends = test.takeEnds()
        #expect(test.open == [] && ends == ["1 logout"])
        test.register(tablet)
        #expect(test.open == (isOfAll ? [] : [tablet.session]))
        test.now.wall += 100
        let login = test.attach(3, isLogin: true)
        test.register(login)
        #expect(test.open == [login.session])
        test.register(test.attach(3))
        #expect(test.open == [login.session])
    }

    @Test("An end is awaited until the node dies, or registers its sessions without this one", arguments: [true, false])
    func unreported(isDeath: Bool) {
        var test = OneOwner()
        let phone = test.attach(1, isLogin: true)
        test.register(phone)
        test.logOut(phone.session)
        #expect(test.awaited == 1)
        if isDeath {
            test.owner.peersDied([1], in: &test.outbox[at: test.now])
        } else {
            test.owner.beginSync(from: 1, Owner.Registration(id: 7, ranges: .all))
            test.register(test.attach(1))
            test.owner.endSync(from: 1, registrationID: 7, in: &test.outbox[at: test.now])
            #expect(test.awaited == 1, "the node has named it")
            test.owner.beginSync(from: 1, Owner.Registration(id: 8, ranges: .all))
            test.owner.endSync(from: 1, registrationID: 8, in: &test.outbox[at: test.now])
        }
        #expect(test.awaited == 0)
    }

    @Test("A new owner to which a former one names ended sessions ends them again, and opens others, until the wait is over")
    func handedOver() {
        var test = OneOwner()
        let (phone, tablet) = (test.attach(1), test.attach(2))
        let index = test.owner.index(of: test.ann)
        let named = PendingEnds.Ended(session: phone.session, openedUntil: 0, reason: "replaced")
        let ends = PendingEnds(user: test.ann, graceEndsAt: nil, lastSeenTime: 0, ended: [named])
        HandedEnds(now: test.now).goOn(with: ends, in: &test.owner)
        test.register(phone)
        test.register(tablet)
        let sent = test.takeEnds()
        #expect(test.open == [tablet.session] && sent == ["1 replaced"])
        let handed = HandedEnds(now: test.now).ends(of: index, in: test.owner)?.ended
        #expect(handed == [named], "another owner may follow")
        test.now.instant += CoreSettings().reconnectGrace
        let later = HandedEnds(now: test.now).ends(of: index, in: test.owner)
        #expect(later == nil)
    }

    /// The session's node has the ring with the next owner before it reads the end that the former owner has sent.
    @Test("A session that was logged out is not opened by the owner that follows when the former one drains") func plannedChange() {
        var cluster = TestCluster(nodes: 3)
        let name = cluster.user(ownedBy: 0)
        let watcher = cluster.login("watcher", on: 2)
        let client = cluster.login(name, on: 1)
        let phone = cluster.clients[client].session
        cluster.subscribe("watcher", to: [name], on: 2)
        cluster.advance(.seconds(1))
        cluster.losing = [(from: 0, to: 1)]
        cluster.call(.logout(phone), by: name, on: 0)
        cluster.losing = []
        let told = cluster.statuses(told: watcher, of: name)
        #expect(told.last == "UNLOGINED" && cluster.clients[client].isOpen)
        _ = cluster.processes[0].node.drain(at: cluster.now)
        cluster.advance(.seconds(3))
        #expect(cluster.ownerIndex(of: name) != 0)
        #expect(!cluster.statuses(told: watcher, of: name).dropFirst(told.count).contains("ONLINE"))
        #expect(cluster.record(of: name).statusType == .unlogined)
        #expect(!cluster.clients[client].isOpen && cluster.clients[client].events.last?.name == "onLogout")
    }

    @Test("Few ends of a user are awaited at a time") func bound() {
        var test = OneOwner()
        for stamp in 1...UInt64(3 * Limits.sessionsPerUserMax) {
            let phone = test.attach(stamp, isLogin: true)
            test.register(phone)
            test.logOut(phone.session)
        }
        #expect(test.awaited == Limits.sessionsPerUserMax)
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
