import PresenceWire
import Testing

@testable import PresenceCore

/// Every session that ends is counted once, by the owner of its user.
@Suite struct SessionCountTests {
    var cluster = TestCluster(nodes: 3)

    private struct Ends: Equatable {
        var logouts: UInt64 = 0
        var lost: UInt64 = 0
        var kicked: UInt64 = 0
        var surplus: UInt64 = 0

        var count: UInt64 { logouts + lost + kicked + surplus }
    }

    /// The sum of the counts of all live nodes.
    private var ends: Ends {
        var ends = Ends()
        for process in cluster.processes where process.isUp {
            let counters = process.node.owner.counters
            ends.logouts += counters.logouts
            ends.lost += counters.sessionsDisconnected
            ends.kicked += counters.sessionsKicked
            ends.surplus += counters.sessionsEvicted
        }
        return ends
    }

    private mutating func kick(_ user: String) {
        cluster.call(.kick(reason: "banned"), by: user, on: 0)
        cluster.advance(.milliseconds(100))
    }

    @Test("Sessions of a dead node count as disconnected when they are replaced or do not come back") mutating func deadNode() {
        let (ann, eve) = (cluster.user(ownedBy: 1), cluster.user(ownedBy: 1, number: 1))
        for user in [ann, eve] { cluster.login(user, on: 0, device: "phone") }
        cluster.kill(0)
        cluster.advance(.seconds(5))
        #expect([ann, eve].map { cluster.ownerIndex(of: $0) } == [1, 1])
        #expect(ends == Ends(), "they may come back")
        cluster.login(ann, on: 2, device: "phone")
        #expect(ends == Ends(lost: 1))
        cluster.advance(.seconds(6))
        #expect(ends == Ends(lost: 2))
        cluster.advance(.seconds(20))
        #expect(ends == Ends(lost: 2))
    }

    @Test("A session whose node comes back is counted only when it ends") func returningNode() {
        var shards = Owner(clock: VersionClock(node: 1), settings: CoreSettings())
        var outbox = Outbox()
        var now = cluster.now
        let attach = Attach(session: SessionID(stamp: 1, node: 9), user: user("ann"), platform: "ios")
        shards.attach(attach, from: 1, in: &outbox[at: now])
        shards.peersDied([1], in: &outbox[at: now])
        shards.attach(attach, from: 1, in: &outbox[at: now])
        now.instant += .seconds(60)
        shards.tick(in: &outbox[at: now])
        #expect(shards.counters.sessionsDisconnected == 0)
        let detach = Detach(session: attach.session, user: attach.user, cause: .lost)
        for _ in 0..<2 { shards.detach(detach, from: 1, isMoving: false, in: &outbox[at: now]) }
        #expect(shards.counters.sessionsDisconnected == 1)
        shards.peersDied([1], in: &outbox[at: now])
        now.instant += .seconds(60)
        shards.tick(in: &outbox[at: now])
        #expect(shards.users.allIndices.allSatisfy { shards.users[$0].sessions.isEmpty })
        #expect(shards.counters.sessionsDisconnected == 1)
    }

    @Test("A session that its node does not name any more is disconnected once") func unnamedSession() {
        var shards = Owner(clock: VersionClock(node: 1), settings: CoreSettings())
        var outbox = Outbox()
        var now = cluster.now
        let attach = Attach(session: SessionID(stamp: 1, node: 9), user: user("ann"), platform: "ios")
        shards.attach(attach, from: 1, in: &outbox[at: now])
        for registrationID: UInt64 in 1...2 {
            shards.beginSync(from: 1, Owner.Registration(id: registrationID, ranges: .all))
            shards.endSync(from: 1, registrationID: registrationID, in: &outbox[at: now])
        }
        #expect(shards.counters.sessionsDisconnected == 1)
        now.instant += .seconds(60)
        shards.tick(in: &outbox[at: now])
        #expect(shards.counters.sessionsDisconnected == 1)
    }

    /// The digest of an owner may cross a login. The gateway then registers a session that this login ends.
    @Test("A session that is registered again while its end is on the way is counted once", arguments: [true, false])
    func registeredWhileEnding(isLogout: Bool) {
        var owner = Owner(clock: VersionClock(node: 1), settings: CoreSettings())
        var outbox = Outbox()
        let now = cluster.now
        var old = Attach(session: SessionID(stamp: 1, node: 9), user: user("ann"), platform: "ios", deviceID: "phone")
        old.openedAt = now.wall - 5_000
        owner.attach(old, from: 1, in: &outbox[at: now])
        if isLogout {
            _ = UserCall(id: old.user, now: now).logout(old.session, of: &owner, into: &outbox)
        } else {
            var new = Attach(session: SessionID(stamp: 2, node: 9), user: old.user, platform: "ios", deviceID: "phone")
            new.openedAt = now.wall
            owner.attach(new, from: 1, in: &outbox[at: now])
        }
        old.isLogin = false
        owner.attach(old, from: 1, in: &outbox[at: now])
        let detach = Detach(session: old.session, user: old.user, cause: .loggedOut)
        owner.detach(detach, from: 1, isMoving: false, in: &outbox[at: now])
        let counters = owner.counters
        #expect([counters.logouts, counters.sessionsEvicted, counters.sessionsDisconnected] == (isLogout ? [1, 0, 0] : [0, 1, 0]))
    }

    @Test("A session whose node comes back after the grace is counted once") func lateNode() {
        var owner = Owner(clock: VersionClock(node: 1), settings: CoreSettings())
        var outbox = Outbox()
        var now = cluster.now
        var attach = Attach(session: SessionID(stamp: 1, node: 9), user: user("ann"), platform: "ios")
        owner.attach(attach, from: 1, in: &outbox[at: now])
        owner.peersDied([1], in: &outbox[at: now])
        now.instant += .seconds(60)
        owner.tick(in: &outbox[at: now])
        #expect(owner.counters.sessionsDisconnected == 1)
        attach.isLogin = false
        owner.attach(attach, from: 1, in: &outbox[at: now])
        let detach = Detach(session: attach.session, user: attach.user, cause: .loggedOut)
        owner.detach(detach, from: 1, isMoving: false, in: &outbox[at: now])
        #expect([owner.counters.logouts, owner.counters.sessionsDisconnected] == [0, 1])
    }

    @Test("A session that is registered with a new owner is counted when it ends") mutating func newOwner() {
        let ann = cluster.user(ownedBy: 2)
        let phone = cluster.login(ann, on: 0)
        cluster.kill(2)
        cluster.advance(.seconds(5))
        #expect(ends == Ends())
        cluster.lose(phone)
        #expect(ends == Ends(lost: 1))
    }

    @Test("A disconnected session is counted once, whatever follows") mutating func countedOnce() {
        let retired = cluster.login("ann", on: 0)
        cluster.lose(retired)
        #expect(ends == Ends(lost: 1))
        cluster.advance(.seconds(5))
        #expect(ends == Ends(lost: 1))
        let replaced = cluster.login("bob", on: 1, device: "phone")
        cluster.lose(replaced)
        cluster.login("bob", on: 2, device: "phone")
        #expect(ends == Ends(lost: 2))
        let kicked = cluster.login("carl", on: 2)
        cluster.lose(kicked)
        kick("carl")
        #expect(ends == Ends(lost: 3))
    }

    @Test("Sessions that a kick ends count as kicked, not as logged out") mutating func kickedSessions() {
        cluster.login("ann", on: 0)
        cluster.login("ann", on: 1, platform: "web")
        kick("ann")
        #expect(ends == Ends(kicked: 2))
    }

    /// IDs of sessions are in the order of the starts of their nodes, not of the logins.
    @Test("The session with the earliest login of a user with too many is evicted, whatever the order of the IDs")
    mutating func evicted() throws {
        cluster.kill(2)
        try cluster.restart(2)
        cluster.advance(.seconds(5))
        for number in 0...Limits.sessionsPerUserMax {
            cluster.login("ann", on: 2 - number % 3, device: "\(number)")
            cluster.advance(.milliseconds(50))
        }
        #expect(ends == Ends(surplus: 1))
        #expect(cluster.clients.map(\.isOpen) == [false] + Array(repeating: true, count: Limits.sessionsPerUserMax))
    }

    @Test("A login is never evicted by itself, even if the clock of its node is behind") func loginOfASlowClock() {
        var owner = Owner(clock: VersionClock(node: 1), settings: CoreSettings())
        var outbox = Outbox()
        for number in 0...Limits.sessionsPerUserMax {
            let stamp = UInt64(Limits.sessionsPerUserMax - number)
            var attach = Attach(session: SessionID(stamp: stamp, node: 9), user: user("ann"), platform: "ios", deviceID: "\(number)")
            attach.openedAt = cluster.now.wall - Milliseconds(number)
            owner.attach(attach, from: 1, in: &outbox[at: cluster.now])
        }
        let sessions = owner.users[owner.index(of: user("ann"))].sessions.map(\.id.stamp)
        #expect(sessions == (0...UInt64(Limits.sessionsPerUserMax)).filter { $0 != 1 })
    }

    @Test("Every login is open or counted as ended") mutating func balance() {
        for number in 0..<9 { cluster.login("user\(number)", on: number % 3) }
        for number in 0...Limits.sessionsPerUserMax { cluster.login("ann", on: number % 3, device: "\(number)") }
        cluster.close(0, .loggedOut)
        for client in [1, 2] { cluster.lose(client) }
        cluster.call(.logout(nil), by: "user3", on: 2)
        kick("user4")
        cluster.advance(.seconds(5))
        let logins = cluster.processes.map { $0.node.edge.loginsCount }.reduce(0, +)
        let openCount = cluster.processes.map { $0.node.edge.sessions.count }.reduce(0, +)
        let ended = ends
        #expect(ended == Ends(logouts: 2, lost: 2, kicked: 1, surplus: 1))
        #expect(logins == UInt64(openCount) + ended.count)
    }
}
