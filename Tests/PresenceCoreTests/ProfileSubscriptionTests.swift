import PresenceWire
import Testing

@testable import PresenceCore

/// Subscriptions to profiles (R3, types 2 and 4) on three nodes. Ben subscribes.
@Suite struct ProfileSubscriptionTests {
    var cluster = TestCluster(nodes: 3)
    let ben: String
    let targets: [String]
    let phone: Int

    init() {
        ben = cluster.user(ownedBy: 1)
        let cluster = cluster
        targets = (0..<4).map { cluster.user(ownedBy: $0 % 3, number: 1 + $0 / 3) }
        phone = self.cluster.login(ben, on: 0)
        set(#"{"rate.subscribe":false,"friends.autoNotify":false}"#)
    }

    private mutating func set(_ settings: String) {
        cluster.call(.setAppPolicy(Array(#"{"settings":\#(settings)}"#.utf8)), by: ben, on: 0)
        cluster.advance(.milliseconds(100))
    }

    @discardableResult
    private mutating func subscribe(
        to names: [String], type: UInt8 = 2, seconds: Int64? = nil, on node: Int = 2, by session: OriginSession = .unknown
    ) -> CallAnswer? {
        cluster.call(
            .subscribeUserStatus(names.map(user), seconds: seconds, sync: false, subscribeType: type), by: ben, on: node,
            originSession: session)
        cluster.advance(.milliseconds(50))
        return cluster.lastAnswer(on: node)
    }

    private mutating func unsubscribe(from names: [String]?, type: UInt8? = nil) {
        cluster.call(.unsubscribeUserStatus(names.map { $0.map(user) }, subscribeType: type), by: ben, on: 2)
        cluster.advance(.milliseconds(50))
        #expect(cluster.lastAnswer(on: 2) == .done)
    }

    /// The subscriptions as "user type", and their number.
    private mutating func list(
        type: UInt8? = 2, only: [String]? = nil, offset: Int = 0, limit: Int = 200, on node: Int = 1
    ) -> (page: [String], total: Int) {
        cluster.call(
            .getSubscribedUserStatus(only: only.map { $0.map(user) }, offset: offset, limit: limit, subscribeType: type), by: ben, on: node)
        cluster.advance(.milliseconds(50))
        guard case .subscriptions(let page, _, let total) = cluster.lastAnswer(on: node) else { return (["no list"], -1) }
        return (page.map { "\($0.target.id) \($0.subscribeType)" }, total)
    }

    private mutating func setNick(_ nick: String, of name: String) {
        cluster.call(.friendCall(.modifyProfile([.init(name: "Nick", value: .text(nick))])), by: name, on: 2)
        cluster.advance(.milliseconds(50))
    }

    private mutating func decide(_ call: ChainCall) {
        cluster.call(.chain(call), by: ben, on: 2)
        cluster.advance(.milliseconds(100))
    }

    /// The users of whose profiles a device was told.
    private func told(_ client: Int) -> [String] {
        cluster.clients[client].events.filter { $0.name == "onUserProfileChanged" }.map { $0.data["userID"]!.textValue }
    }

    @Test("A subscriber is told of each changed profile, until it unsubscribes, and of no status") mutating func following() {
        #expect(subscribe(to: targets) == .subscribed(evicted: [], records: nil, users: targets.map(user)))
        for name in targets { setNick("new", of: name) }
        #expect(told(phone) == targets)
        cluster.login(targets[0], on: 2)
        #expect(cluster.clients[phone].view[targets[0]] == nil)
        unsubscribe(from: [targets[0]], type: 2)
        setNick("newer", of: targets[0])
        setNick("newer", of: targets[1])
        #expect(told(phone) == targets + [targets[1]])
        #expect(list().page == targets.dropFirst().sorted().map { "\($0) 2" })
    }

    @Test("The status and the profile of a user are followed apart") mutating func apart() {
        cluster.subscribe(ben, to: [targets[0]], on: 2)
        subscribe(to: [targets[0]])
        #expect(list(type: nil).page == ["\(targets[0]) 1", "\(targets[0]) 2"])
        #expect(list(type: nil, only: [targets[0]]).page == ["\(targets[0]) 1", "\(targets[0]) 2"])
        setNick("new", of: targets[0])
        cluster.setStatus(targets[0], "here", on: 0)
        #expect(told(phone) == [targets[0]] && cluster.clients[phone].view[targets[0]]?["customStatus"]?.textValue == "here")
        unsubscribe(from: [targets[0]], type: 1)
        cluster.setStatus(targets[0], "there", on: 0)
        setNick("newer", of: targets[0])
        #expect(told(phone).count == 2 && cluster.clients[phone].view[targets[0]]?["customStatus"]?.textValue == "here")
        unsubscribe(from: nil)
        setNick("newest", of: targets[0])
        #expect(told(phone).count == 2 && list(type: nil).total == 0)
    }

    @Test("The list is read by pages, statuses first, and has the version of each profile (R9, R10)") mutating func pages() {
        cluster.subscribe(ben, to: [targets[3]], on: 2)
        setNick("named", of: targets[1])
        subscribe(to: targets)
        let sorted = targets.sorted().map { "\($0) 2" }
        #expect(list(offset: 1, limit: 2) == (Array(sorted[1...2]), 4))
        #expect(list(type: nil, offset: 0, limit: 3) == (["\(targets[3]) 1"] + sorted[..<2], 5))
        #expect(list(type: nil, offset: 3, limit: 3) == (Array(sorted[2...]), 5))
        #expect(list(only: [targets[2], "zoe"]).page == ["\(targets[2]) 2"])
        #expect(list(type: 4).total == 0)
        _ = list(only: [targets[1]])
        guard case .subscriptions(_, let records, _) = cluster.lastAnswer(on: 1) else { return }
        #expect(records.map { $0?.profileVersion } == [cluster.record(of: targets[1]).profileVersion])
    }

    @Test("Beyond the quota the earliest subscriptions are evicted, or the new ones refused (R5, R7)") mutating func quota() {
        set(#"{"subscription.maxPerSubscriber":2}"#)
        for name in targets[..<2] { subscribe(to: [name]) }
        let answer = subscribe(to: [targets[2]])
        #expect(answer == .subscribed(evicted: [user(targets[0])], records: nil, users: [user(targets[2])]))
        #expect(list().page == targets[1...2].sorted().map { "\($0) 2" })
        setNick("new", of: targets[0])
        #expect(told(phone) == [])
        set(#"{"subscription.overflow":"reject"}"#)
        let refused = subscribe(to: [targets[1], targets[3]])
        #expect(refused == .subscribed(evicted: [], refused: [user(targets[3])], records: nil, users: [user(targets[1])]))
        set(#"{"subscription.maxPerSubscriber":1}"#)
        cluster.advance(.seconds(1))
        #expect(list().total == 1)
        set(#"{"subscription.maxPerSubscriber":2}"#)
        #expect(list().page == targets[1...2].sorted().map { "\($0) 2" }, "an inactive subscription is active again")
        setNick("newer", of: targets[2])
        #expect(told(phone).last == targets[2])
    }

    @Test("A call beyond the quota ends what it names first, also if the user had subscribed to it (R5)") mutating func surplus() {
        set(#"{"subscription.maxPerSubscriber":2}"#)
        subscribe(to: Array(targets[..<2]))
        let asked = [targets[0], targets[2], targets[1]]
        #expect(subscribe(to: asked) == .subscribed(evicted: [user(targets[0])], records: nil, users: asked.map(user)))
        set(#"{"subscription.maxPerSubscriber":3}"#)
        cluster.advance(.seconds(1))
        #expect(list().page == targets[1...2].sorted().map { "\($0) 2" }, "an evicted subscription does not come back")
        for name in asked { setNick("new", of: name) }
        #expect(told(phone) == [targets[2], targets[1]])
    }

    @Test("A subscription expires, and may be renewed before; sessions are told if the app wants it (N6, R12)") mutating func expiry() {
        set(#"{"subscription.notifyExpiry":true}"#)
        subscribe(to: Array(targets[..<2]), seconds: 60)
        cluster.advance(.seconds(30), step: .seconds(1))
        subscribe(to: [targets[0]], seconds: 60)
        cluster.advance(.seconds(45), step: .seconds(1))
        #expect(list().page == ["\(targets[0]) 2"])
        for name in targets[..<2] { setNick("new", of: name) }
        #expect(told(phone) == [targets[0]])
        let expired = cluster.clients[phone].events.filter { $0.name == "onSubscriptionExpired" }
        #expect(expired.map { $0.data["userIDs"]!.elements } == [[.string(targets[1])]])
    }

    @Test("Type 4 needs a friend, and ends with the friendship; type 2 stays") mutating func friends() {
        for name in targets[..<2] { decide(.add(user(name), SentRequest(addTime: 0), isTwoWay: true)) }
        let answer = subscribe(to: Array(targets[..<3]), type: 4)
        #expect(
            answer == .subscribed(evicted: [], nonFriends: [user(targets[2])], records: nil, users: targets[..<2].map(user)))
        subscribe(to: [targets[1]], type: 2)
        #expect(Set(list(type: nil).page) == ["\(targets[0]) 4", "\(targets[1]) 2"])
        decide(.delete(targets[..<2].map(user), isTwoWay: true))
        cluster.advance(.seconds(1))
        #expect(list(type: nil).page == ["\(targets[1]) 2"])
        for name in targets[..<2] { setNick("new", of: name) }
        #expect(told(phone) == [targets[1]])
        set(#"{"errors.shape":"wholeCall"}"#)
        #expect(subscribe(to: [targets[0]], type: 4) == .refused(.noFriends([user(targets[0])])))
    }

    @Test("A friend whose profile is also subscribed is told after the subscription has ended") mutating func friendWithout() {
        decide(.add(user(targets[0]), SentRequest(addTime: 0), isTwoWay: true))
        subscribe(to: [targets[0]], type: 2)
        unsubscribe(from: [targets[0]], type: 2)
        setNick("new", of: targets[0])
        #expect(told(phone) == [targets[0]])
    }

    @Test("Other devices are told of the change, and each login that it has the list (R13, R14)") mutating func devices() {
        let browser = cluster.login(ben, on: 2, platform: "web")
        subscribe(to: [targets[0]], by: .session(cluster.clients[phone].session))
        let news = { (cluster: TestCluster, client: Int) in
            cluster.clients[client].events.filter { $0.name == "onSubscriptionChangedOnOtherDevices" }
        }
        let first = news(cluster, browser).first?.data["subscriptions"]?.elements.first
        #expect(first?["userID"]?.textValue == targets[0] && first?["subscribeType"]?.number == 2)
        #expect(news(cluster, phone).isEmpty)
        let tablet = cluster.login(ben, on: 1, platform: "tablet")
        cluster.advance(.milliseconds(100))
        let synced = cluster.clients[tablet].events.filter { $0.name == "onSubscriptionSyncCompleted" }
        #expect(synced.map { $0.data["subscribeType"]?.number } == [2])
        setNick("new", of: targets[0])
        for client in [phone, browser, tablet] { #expect(told(client) == [targets[0]]) }
    }

    @Test("A repeated call has the result of the first, evicted users included") mutating func repeated() throws {
        set(#"{"subscription.maxPerSubscriber":1}"#)
        subscribe(to: [targets[0]])
        let begunAt = cluster.processes[1].node.owner.clock.current(at: cluster.now.wall)
        subscribe(to: [targets[1]])
        let rows = cluster.processes[1].node.owner.liveRows(.profileSubscription, of: user(ben))
        let operation = OwnerOperation.subscribe(
            [.init(user: user(targets[1]), delivered: .nothing)], seconds: nil, subscribeType: 2, session: .unknown)
        let request = Request(id: 1 << 40, user: user(ben), operation: operation, begunAt: begunAt, isRepeated: true)
        var wire = WireWriter()
        wire.message(.request(request))
        cluster.heard = []
        try cluster.deliver(wire.bytes, from: NodeID("node-2"), to: 1)
        cluster.settle()
        cluster.advance(.milliseconds(50))
        let answers = cluster.heard!.compactMap { message -> Answer? in
            if case .answer(1 << 40, let answer) = message.message { answer } else { nil }
        }
        #expect(answers == [.subscribed(evicted: [user(targets[0])])])
        #expect(cluster.processes[1].node.owner.liveRows(.profileSubscription, of: user(ben)) == rows)
    }

    @Test("The list outlives its owner, and the sessions follow the profiles still") mutating func owners() {
        subscribe(to: targets)
        cluster.kill(1)
        cluster.advance(.seconds(8))
        #expect(list(on: 2).total == 4)
        setNick("new", of: targets[2])
        #expect(told(phone) == [targets[2]])
    }
}
