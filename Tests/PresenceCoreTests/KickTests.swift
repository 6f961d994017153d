import PresenceWire
import Testing

@testable import PresenceCore

@Suite struct KickTests {
    var cluster = TestCluster(nodes: 3)

    func areTokensVoid(of user: String, issuedAt: Milliseconds) -> [Bool] {
        cluster.processes.map { $0.gateways[0].value.isVoid(UserID(app: "default", id: user), issuedAt: issuedAt) }
    }

    mutating func kick(_ user: String, on node: Int = 0) -> CallAnswer? {
        cluster.call(.kick(reason: "banned"), by: user, on: node)
        cluster.advance(.milliseconds(100))
        return cluster.lastAnswer(on: node)
    }

    @Test("A kick ends all sessions of the user and no other", arguments: 0..<3) mutating func sessions(node: Int) {
        let phone = cluster.login("ann", on: 0)
        let browser = cluster.login("ann", on: 1, platform: "web")
        let bob = cluster.login("bob", on: 2)
        cluster.subscribe("bob", to: ["ann"], on: 2)
        #expect(kick("ann", on: node) == .done)
        for client in [phone, browser] {
            #expect(cluster.clients[client].events.last?.name == "onKickedOffline")
            #expect(cluster.clients[client].events.last?.data["reason"] == .string("banned"))
        }
        #expect(cluster.statuses(told: bob, of: "ann").last == "OFFLINE", "she has not logged out (T2)")
        #expect(cluster.record(of: "ann").statusType == .offline)
        #expect(cluster.clients[bob].events.allSatisfy { $0.name != "onKickedOffline" })
    }

    @Test("Earlier tokens are void on every node, also after its restart, and later ones are valid") mutating func tokens() throws {
        let before = cluster.now.wall
        cluster.advance(.seconds(1))
        #expect(kick("ann") == .done)
        #expect(areTokensVoid(of: "ann", issuedAt: before) == [true, true, true])
        #expect(areTokensVoid(of: "ann", issuedAt: cluster.now.wall) == [false, false, false])
        #expect(areTokensVoid(of: "bob", issuedAt: before) == [false, false, false])
        cluster.kill(1)
        cluster.advance(.seconds(4))
        try cluster.restart(1)
        cluster.advance(.seconds(1))
        #expect(areTokensVoid(of: "ann", issuedAt: before) == [true, true, true])
    }

    /// Libraries write `iat` in whole seconds. A token that was made 0.3 s after a kick may name a time 0.7 s before it.
    @Test("A token of the second before a kick stays valid, and no earlier one does") mutating func resolution() {
        cluster.advance(.seconds(2))
        let kickedAt = cluster.now.wall
        #expect(kick("ann") == .done)
        #expect(areTokensVoid(of: "ann", issuedAt: kickedAt - 999) == [false, false, false])
        let earlier = kickedAt - 1_000
        #expect(areTokensVoid(of: "ann", issuedAt: earlier) == [true, true, true])
    }

    /// The clock of the next owner may be behind that of the owner before.
    @Test("A kick by a clock that is behind leaves void what an earlier kick made void") mutating func laterKickBehind() {
        cluster.advance(.seconds(10))
        let earlier = cluster.now.wall - 1_000
        #expect(kick("ann") == .done)
        cluster.now.wall -= 5_000
        #expect(kick("ann") == .done)
        #expect(areTokensVoid(of: "ann", issuedAt: earlier) == [true, true, true])
        #expect(areTokensVoid(of: "ann", issuedAt: earlier + 1) == [false, false, false])
    }

    @Test("A node that was down learns of a kick") mutating func absentNode() throws {
        cluster.kill(2)
        cluster.advance(.seconds(4))
        let before = cluster.now.wall
        cluster.advance(.seconds(1))
        #expect(kick("ann") == .done)
        try cluster.restart(2)
        cluster.advance(.seconds(4))
        #expect(areTokensVoid(of: "ann", issuedAt: before) == [true, true, true])
    }

    /// The links hold while the node is paused, and no barrier waits for a node that was declared dead.
    @Test("A paused node that was declared dead learns of a kick without a new link") mutating func pausedNode() {
        let missed = cluster.processes[2].node.cluster.own
        for index in 0...1 {
            cluster.processes[index].node.machines.cluster.membership.unlinked(
                missed.id, evidence: .refused(generation: missed.generation), at: cluster.now)
            cluster.processes[index].node.machines.followMembership(at: cluster.now)
        }
        #expect(!cluster.processes[0].node.cluster.isMember(missed.id))
        let before = cluster.now.wall - 1_000
        #expect(kick("ann") == .done)
        cluster.advance(.seconds(4))
        #expect(cluster.processes[0].node.cluster.isMember(missed.id))
        #expect(areTokensVoid(of: "ann", issuedAt: before) == [true, true, true])
    }

    /// The reports by which node 1 registers the sessions of a user again.
    private func registrations(of name: String) -> [Attach] { cluster.processes[1].node.machines.edge.sessions.sessions(of: user(name)) }

    /// Has the owner of a user read reports of node 1, which node 1 has sent before it read the kick.
    private mutating func report(_ reports: [Attach], of name: String) {
        let owner = cluster.ownerIndex(of: name)
        let sender = cluster.processes[owner].node.cluster.peerIndex(cluster.processes[1].node.cluster.own.id) ?? 0
        for attach in reports { cluster.processes[owner].node.handle(.attach(attach), from: sender, at: cluster.now) }
        cluster.processes[owner].node.run(at: cluster.now)
        cluster.settle()
    }

    /// The node registers the session before it reads the kick: a comparison has differed, or the user has another owner.
    @Test("A kicked session is not opened again by its node's late report, at the owner that performed the kick and at the next one")
    mutating func reportedAgain() {
        let name = cluster.user(ownedBy: 0)
        cluster.login(name, on: 1)
        let watcher = cluster.login("watcher", on: 2)
        cluster.subscribe("watcher", to: [name], on: 2)
        cluster.advance(.seconds(1))
        let reports = registrations(of: name)
        #expect(reports.map(\.isLogin) == [false])
        #expect(kick(name) == .done)
        report(reports, of: name)
        cluster.advance(.seconds(1))
        let told = cluster.statuses(told: watcher, of: name)
        #expect(told.last == "OFFLINE" && cluster.record(of: name).statusType == .offline)
        cluster.kill(0)
        cluster.advance(.seconds(4))
        #expect(cluster.ownerIndex(of: name) != 0)
        report(reports, of: name)
        cluster.advance(.seconds(1))
        #expect(!cluster.statuses(told: watcher, of: name).dropFirst(told.count).contains("ONLINE"))
        #expect(cluster.record(of: name).statusType == .offline)
        let next = cluster.ownerIndex(of: name)
        let index = cluster.processes[next].node.owner.index(ofKnown: user(name))!
        let open = cluster.processes[next].node.owner.users[index].sessions.count
        let awaited = cluster.processes[next].node.owner.users[index].endedSessions.count
        #expect(open == 0 && awaited == 0)
    }

    @Test("A login after a kick stays when it is registered again, also if the clock of its node is behind that of the kick")
    mutating func loginBehind() {
        let name = cluster.user(ownedBy: 0)
        cluster.advance(.seconds(10))
        #expect(kick(name) == .done)
        cluster.now.wall -= 5_000
        cluster.login(name, on: 1)
        let reports = registrations(of: name)
        #expect(reports.count == 1)
        report(reports, of: name)
        #expect(cluster.record(of: name).statusType == .online)
        #expect(registrations(of: name) == reports)
    }

    @Test("A login that arrives at the owner after a kick, and was opened before it, is counted as kicked once") func lateLogin() {
        var owner = Owner(clock: VersionClock(node: 1), settings: CoreSettings())
        var outbox = Outbox()
        let now = cluster.now
        var phone = Attach(session: SessionID(stamp: 1, node: 9), user: user("ann"), platform: "ios")
        var tablet = Attach(session: SessionID(stamp: 2, node: 9), user: user("ann"), platform: "web")
        (phone.openedAt, tablet.openedAt) = (now.wall, now.wall + 1)
        var kicks = Kicks()
        let isNew = kicks.merge(Kicks.Entry(before: now.wall, reason: "banned", version: Version(stamp: 4, node: 1)), of: phone.user)
        #expect(isNew)
        for attach in [tablet, phone, phone] { owner.attach(attach, from: 1, endedBy: kicks.end(of: attach), in: &outbox[at: now]) }
        let index = owner.index(of: phone.user)
        #expect(owner.users[index].sessions.map(\.id) == [tablet.session])
        #expect(owner.counters.sessionsKicked == 1)
        let ends: [String] = outbox.messages.takeAll().compactMap {
            if case .end(let session, _, let reason) = $1 { "\(session.stamp) \(reason)" } else { nil }
        }
        #expect(ends == ["1 banned", "1 banned"])
    }

    @Test("A kick beyond the app's limit is refused, changes nothing, and no app pushes a kick of another out")
    mutating func limit() {
        cluster.call(.setAppPolicy(Array(#"{"settings":{"kicks.max":2}}"#.utf8)), by: "admin", on: 0)
        cluster.advance(.seconds(1))
        let before = cluster.now.wall
        cluster.advance(.seconds(1))
        for user in ["ann", "bob", "bob"] {
            cluster.advance(.milliseconds(50))
            #expect(kick(user) == .done)
        }
        let carl = cluster.login("carl", on: 1)
        #expect(kick("carl") == .refused(.tooManyKicks(most: 2)))
        #expect(cluster.clients[carl].events.allSatisfy { $0.name != "onKickedOffline" })
        #expect(cluster.processes.map { $0.node.machines.facts.kicks.count } == [2, 2, 2])
        let caller = Caller(user: UserID(app: "default", id: "ann"), isAdmin: true, expiresAt: .max, issuedAt: before)
        #expect(cluster.processes.map { $0.node.isVoid(caller) } == [true, true, true])
        #expect(kicksOnDisks == [2, 2, 2])
        #expect(areTokensVoid(of: "ann", issuedAt: before) == [true, true, true])
        #expect(areTokensVoid(of: "carl", issuedAt: before) == [false, false, false])
        #expect(kick("ann") == .done, "a repeated kick needs no more room")
    }

    @Test("A kick counts for 30 days") mutating func thirtyDays() {
        cluster = TestCluster(nodes: 1)
        let before = cluster.now.wall
        cluster.advance(.seconds(1))
        #expect(kick("ann") == .done)
        cluster.advance(.seconds(30 * 86_400 - 3_700), step: .seconds(100))
        #expect(areTokensVoid(of: "ann", issuedAt: before) == [true])
        cluster.advance(.seconds(7_400), step: .seconds(100))
        #expect(areTokensVoid(of: "ann", issuedAt: before) == [false])
        #expect(kicksOnDisks == [0])
    }

    @Test("A kick that expires while the node is down is deleted at its start") mutating func expiredWhileDown() throws {
        cluster = TestCluster(nodes: 1)
        #expect(kick("ann") == .done)
        #expect(kicksOnDisks == [1])
        cluster.kill(0)
        cluster.now.wall += Kicks.horizon
        try cluster.restart(0)
        cluster.advance(.seconds(1))
        #expect(kicksOnDisks == [0])
    }

    private var kicksOnDisks: [Int] { cluster.processes.map { process in process.disk.rows.values.count { $0.kind == .kick } } }
}

@Suite struct OtherDevicesTests {
    var cluster = TestCluster(nodes: 3)

    func changes(told client: Int) -> [JSONValue] {
        cluster.clients[client].events.filter { $0.name == "onSubscriptionChangedOnOtherDevices" }.map(\.data)
    }

    private func list(_ users: String...) -> JSONValue { .array(users.map(JSONValue.string)) }

    @Test("Other devices receive the news of a call, and the calling one does not") mutating func otherDevices() {
        let phone = cluster.login("bob", on: 0)
        let browser = cluster.login("bob", on: 1, platform: "web")
        cluster.subscribe("bob", to: ["ann", "carl"], on: 0)
        cluster.advance(.milliseconds(100))
        #expect(changes(told: phone).isEmpty)
        #expect(changes(told: browser).map { $0["subscribed"] } == [list("ann", "carl")])
        cluster.call(.unsubscribeUserStatus([UserID(app: "default", id: "ann")]), by: "bob", on: 1)
        cluster.advance(.milliseconds(100))
        #expect(changes(told: phone).map { $0["unsubscribed"] } == [list("ann")])
        #expect(changes(told: browser).count == 1)
    }

    @Test("Sessions receive a notice of an expiry only if the policy says so", arguments: [false, true]) mutating func expiryNotice(
        isOn: Bool
    ) {
        cluster.call(.setAppPolicy(Array("{\"settings\":{\"subscription.notifyExpiry\":\(isOn)}}".utf8)), by: "admin", on: 0)
        cluster.advance(.milliseconds(100))
        let sessions = [cluster.login("bob", on: 0), cluster.login("bob", on: 1, platform: "web")]
        let other = cluster.login("carl", on: 0)
        cluster.subscribe("bob", to: ["ann"], on: 0, seconds: 60)
        cluster.subscribe("bob", to: ["dora"], on: 0)
        cluster.advance(.seconds(59), step: .milliseconds(500))
        func told(_ client: Int) -> [JSONValue] {
            cluster.clients[client].events.filter { $0.name == "onSubscriptionExpired" }.compactMap { $0.data["userIDs"] }
        }
        #expect(sessions.allSatisfy { told($0).isEmpty })
        cluster.advance(.seconds(2), step: .milliseconds(500))
        #expect(sessions.map(told) == [[JSONValue]](repeating: isOn ? [list("ann")] : [], count: 2))  // R12
        #expect(told(other).isEmpty)
    }

    @Test("An expired subscription is not reported as a call") mutating func expiry() {
        let phone = cluster.login("bob", on: 0)
        let browser = cluster.login("bob", on: 1, platform: "web")
        cluster.subscribe("bob", to: ["ann"], on: 0, seconds: 60)
        cluster.advance(.seconds(70), step: .milliseconds(500))
        #expect(changes(told: phone).isEmpty)  // R12
        #expect(changes(told: browser).count == 1)
    }

    @Test("A later device receives the list and no calls") mutating func laterDevice() {
        cluster.login("ann", on: 2)
        cluster.login("bob", on: 0)
        cluster.subscribe("bob", to: ["ann"], on: 0)
        let browser = cluster.login("bob", on: 1, platform: "web")
        cluster.advance(.milliseconds(100))
        #expect(changes(told: browser).isEmpty)
        #expect(cluster.clients[browser].view["ann"] != nil)
    }
}
