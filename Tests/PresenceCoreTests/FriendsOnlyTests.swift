import PresenceWire
import Testing

@testable import PresenceCore

/// Users who are visible to friends. The calls of the relationship chain say who these are. Ann and ben have different owners.
@Suite struct FriendsOnlyTests {
    var cluster: TestCluster
    let ann: String
    let ben: String
    let eve = "eve"
    let benPhone: Int
    let evePhone: Int

    init() {
        cluster = TestCluster(nodes: 3)
        ann = cluster.user(ownedBy: 0)
        ben = cluster.user(ownedBy: 1)
        cluster.login(ann, on: 1)
        benPhone = cluster.login(ben, on: 2)
        evePhone = cluster.login(eve, on: 1)
        cluster.subscribe(eve, to: [ann], on: 1)
        decide(.add(user(ben), SentRequest(addTime: 0), isTwoWay: true), by: ann)
        cluster.call(.setVisibility(.init(mode: .friends)), by: ann, on: 0)
        cluster.advance(.milliseconds(100))
    }

    @discardableResult private mutating func decide(_ call: ChainCall, by name: String) -> CallAnswer? {
        let node = cluster.processes.firstIndex { $0.isUp } ?? 0
        cluster.call(.chain(call), by: name, on: node)
        cluster.advance(.milliseconds(100))
        return cluster.lastAnswer(on: node)
    }

    /// The general status of ann that a viewer is shown at each node that is up.
    private mutating func seen(by viewer: String) -> [StatusType?] {
        cluster.processes.indices.filter { cluster.processes[$0].isUp }.map { node in
            cluster.call(.getUserStatus([user(ann)]), by: viewer, on: node)
            cluster.advance(.milliseconds(50))
            guard case .userStatusList(let records, _, _) = cluster.lastAnswer(on: node) else { return nil }
            return records.first??.statusType
        }
    }

    private var owner: Int { cluster.ownerIndex(of: ann) }
    private var privacy: Privacy? { cluster.processes[owner].node.owner.record(of: user(ann)).privacy }

    @Test("A friend sees the user and a stranger sees OFFLINE, on each node") mutating func friends() {
        #expect(seen(by: ben) == [.online, .online, .online])
        #expect(seen(by: eve) == [.offline, .offline, .offline])
        #expect(cluster.statuses(told: benPhone, of: ann) == ["ONLINE"])
        #expect(cluster.statuses(told: evePhone, of: ann) == ["ONLINE", "OFFLINE"])
    }

    @Test("A new friend sees the user at once, and nobody else is told anything") mutating func newFriend() {
        cluster.advance(.seconds(1))
        let told = cluster.clients[benPhone].events.count
        decide(.add(user(eve), SentRequest(addTime: 0), isTwoWay: false), by: ann)
        #expect(cluster.statuses(told: evePhone, of: ann) == ["ONLINE", "OFFLINE", "ONLINE"])
        #expect(seen(by: eve) == [.online, .online, .online])
        #expect(cluster.clients[benPhone].events.count == told)
    }

    @Test("A changed remark of a friend changes neither the record nor the visibility") mutating func remark() throws {
        let before = try #require(privacy)
        var change = FriendChange()
        change.remark = "from school"
        cluster.call(.friendCall(.modifyFriend(user(ben), change)), by: ann, on: 2)
        cluster.advance(.milliseconds(100))
        #expect(privacy == before)
    }

    @Test("The end of a friendship is answered only when every live node hides the user") mutating func barrier() {
        cluster.losing = [(0, 2)]
        cluster.call(.chain(.delete([user(ben)], isTwoWay: false)), by: ann, on: 0)
        cluster.advance(.milliseconds(500))
        #expect(cluster.lastAnswer(on: 0) == nil)
        #expect(cluster.clients[benPhone].view[ann]?["statusType"] == .string("ONLINE"))
        cluster.losing = []
        for (from, to) in [(0, 2), (2, 0)] { cluster.link(from, to) }
        cluster.advance(.seconds(3))
        // The barrier was lost with the link.
        #expect(cluster.lastAnswer(on: 0) == .owner(.chained([ChainOutcome(user: user(ben), code: .unavailable)])))
        #expect(cluster.statuses(told: benPhone, of: ann) == ["ONLINE", "OFFLINE"])
        #expect(seen(by: ben) == [.offline, .offline, .offline])
    }

    @Test("The addition of a friend waits for no node that is slow") mutating func noBarrier() {
        cluster.losing = [(0, 2)]
        cluster.call(.chain(.add(user(eve), SentRequest(addTime: 0), isTwoWay: false)), by: ann, on: 0)
        cluster.advance(.milliseconds(300))
        #expect(cluster.lastAnswer(on: 0) == .owner(.chained([ChainOutcome(user: user(eve), code: .done)])))
    }

    @Test("A call that ends many friendships changes the visibility once") mutating func manyFriends() throws {
        let others = (0..<100).map { cluster.user(ownedBy: 2, number: $0) }
        cluster.call(.friendCall(.importFriends(others.map { FriendImport(user: user($0)) })), by: ann, on: 2)
        cluster.advance(.milliseconds(100))
        #expect(privacy?.visibility.friends?.count == 101)
        cluster.heard = []
        decide(.delete(others.map { user($0) }, isTwoWay: false), by: ann)
        let rows = try #require(cluster.heard).flatMap { _, _, message in
            if case .replicate(_, let rows) = message { rows.filter { $0.kind == .visibility && $0.user == user(ann) } } else { [Row]() }
        }
        #expect(rows.count == 2, "one to each of the two replicas")
        #expect(privacy?.visibility.friends == [user(ben)])
    }

    @Test("However many friends the user removes, neither a stranger nor a former friend is told anything more")
    mutating func strangers() throws {
        let others = (0..<12).map { cluster.user(ownedBy: 2, number: $0) }
        cluster.call(.friendCall(.importFriends(others.map { FriendImport(user: user($0)) })), by: ann, on: 2)
        cluster.advance(.seconds(1))
        let told = cluster.clients[evePhone].events.count
        decide(.delete([user(ben)], isTwoWay: false), by: ann)
        let views = try [ben, eve].map { try #require(privacy?.hiddenView(for: user($0))) }
        let benWasTold = cluster.clients[benPhone].events.count
        for other in others {
            decide(.delete([user(other)], isTwoWay: false), by: ann)
            cluster.advance(.seconds(1))
        }
        #expect(cluster.clients[evePhone].events.count == told)
        #expect(cluster.clients[benPhone].events.count == benWasTold)
        #expect([ben, eve].map { privacy?.hiddenView(for: user($0)) } == views)
        #expect(Set(others.map { privacy?.hiddenView(for: user($0))?.version }).count == others.count)
    }

    @Test("The row of the visibility does not repeat the friends, however many there are") mutating func row() throws {
        for start in stride(from: 0, to: 2_900, by: 100) {
            let friends = (start..<start + 100).map { FriendImport(user: user("friend-\($0)")) }
            cluster.call(.friendCall(.importFriends(friends)), by: ann, on: 2, origin: .backEndForCaller)
            cluster.advance(.milliseconds(20), step: .milliseconds(20))
        }
        let privacy = try #require(privacy)
        #expect(privacy.visibility.friends?.count == 2_901)
        let row = Row(privacy, of: user(ann))
        #expect(try #require(row.value).count < 1_024)
        #expect(try Privacy(row) == privacy.withFriends(nil))
    }

    @Test("A visibility whose friends are not known admits nobody") func failsClosed() {
        var visibility = Visibility().changed(by: .init(mode: .friends))
        #expect(visibility.friends == nil && !visibility.lets(user(ben)))
        visibility.friends = [user(ben)]
        #expect(visibility.lets(user(ben)) && !visibility.lets(user(eve)))
        #expect(visibility.changed(by: .init(mode: .everyone)).friends == nil)
    }

    @Test("The next owner shows the user to the friends, who are not told OFFLINE, and to nobody else", arguments: [false, true])
    mutating func nextOwner(deletesFriend: Bool) {
        if deletesFriend { decide(.delete([user(ben)], isTwoWay: true), by: ann) }
        cluster.kill(0)
        cluster.advance(.seconds(4))
        #expect(seen(by: eve) == [.offline, .offline])
        #expect(seen(by: ben) == (deletesFriend ? [.offline, .offline] : [.online, .online]))
        #expect(cluster.statuses(told: benPhone, of: ann) == (deletesFriend ? ["ONLINE", "OFFLINE"] : ["ONLINE"]))
        decide(.add(user(eve), SentRequest(addTime: 0), isTwoWay: false), by: ann)
        cluster.advance(.seconds(1))
        #expect(seen(by: eve) == [.online, .online])
        #expect(cluster.clients.allSatisfy { $0.wentBack == 0 })
    }

    @Test("After a restart of all nodes a friend sees the user, and a stranger does not") mutating func restart() throws {
        for node in 0..<3 { cluster.kill(node) }
        for node in 0..<3 { try cluster.restart(node) }
        cluster.advance(.seconds(5))
        cluster.login(ann, on: 1)
        cluster.advance(.milliseconds(100))
        #expect(seen(by: ben) == [.online, .online, .online])
        #expect(seen(by: eve) == [.offline, .offline, .offline])
    }

    @Test("After a restart of the only node a friend sees the user, and a stranger does not") func restartAlone() throws {
        var cluster = TestCluster(nodes: 1)
        cluster.login("ann", on: 0)
        cluster.call(.chain(.add(user("ben"), SentRequest(addTime: 0), isTwoWay: true)), by: "ann", on: 0)
        cluster.call(.setVisibility(.init(mode: .friends)), by: "ann", on: 0)
        cluster.advance(.milliseconds(100))
        cluster.kill(0)
        try cluster.restart(0)
        cluster.advance(.seconds(5))
        cluster.login("ann", on: 0)
        for (viewer, status) in [("ben", StatusType.online), ("eve", .offline)] {
            cluster.call(.getUserStatus([user("ann")]), by: viewer, on: 0)
            guard case .userStatusList(let records, _, _) = cluster.lastAnswer(on: 0) else {
                Issue.record("no answer")
                continue
            }
            #expect(records.map { $0?.statusType } == [status])
        }
    }

    @Test("The date of the user's choice stays when friends change, so that a choice on another side of a split still wins")
    mutating func date() throws {
        let before = try #require(privacy)
        decide(.delete([user(ben)], isTwoWay: true), by: ann)
        let after = try #require(privacy)
        #expect(after.writtenAt == before.writtenAt && after.version > before.version)
    }

    @Test("An owner that receives rows of friends from another side of a split shows the user to exactly the friends by these rows")
    mutating func receivedRows() throws {
        cluster.advance(.seconds(1))
        let version = Version(milliseconds: cluster.now.wall, counter: 7, node: 9)
        var added = Row(user: user(ann), kind: .friend, key: eve, version: version, value: nil)
        let held = cluster.processes[owner].node.owner.liveRows(.friend, of: user(ann))[0]
        added.value = held.value
        let removed = Row(user: user(ann), kind: .friend, key: ben, version: version, value: nil)
        cluster.processes[owner].node.machines.onReplicate([removed, added], ticket: 0, from: 1, at: cluster.now)
        cluster.advance(.milliseconds(100))
        #expect(privacy?.visibility.friends == [user(eve)])
        #expect(seen(by: eve) == [.online, .online, .online] && seen(by: ben) == [.offline, .offline, .offline])
    }

    /// The new owner has no way to know a last change that its owner sent to a gateway alone.
    @Test("An owner that a gateway tells of other friends than its rows name shows the user to those in the rows") mutating func adopted()
        throws
    {
        cluster.advance(.seconds(1))
        var record = cluster.processes[owner].node.owner.record(of: user(ann))
        let privacy = try #require(record.privacy)
        var visibility = privacy.visibility
        visibility.friends = [user(eve)]
        record.version = Version(milliseconds: cluster.now.wall, counter: 7, node: 9)
        record.privacy = privacy.changed(to: visibility, writtenAt: privacy.writtenAt, hiddenView: record, at: record.version)
        let watch = Watch(user: user(ann), held: record.version, record: record)
        var writer = WireWriter()
        writer.message(.watch([watch]))
        try cluster.deliver(writer.bytes, from: NodeID("node-1"), to: owner)
        cluster.settle()
        cluster.advance(.milliseconds(100))
        #expect(self.privacy?.visibility.friends == [user(ben)])
        #expect(seen(by: ben) == [.online, .online, .online] && seen(by: eve) == [.offline, .offline, .offline])
    }

    @Test("A setVisibility that waits for a slow disk is answered though a friend is added meanwhile") mutating func concurrent() {
        cluster.heldDisks = [0, 1, 2]
        cluster.call(.setVisibility(.init(mode: .friends, isInvisible: false)), by: ann, on: 1)
        let token = cluster.processes[1].answers.count
        cluster.call(.friendCall(.importFriends([FriendImport(user: user(eve))])), by: ann, on: 2)
        cluster.advance(.milliseconds(200))
        cluster.heldDisks = []
        cluster.advance(.milliseconds(500))
        #expect(cluster.processes[1].answers.count == token + 1)
        let isAnswered = cluster.processes[1].answers.values.contains {
            $0.shown.map { $0.visibility.mode == .friends && $0.visibility.friends == nil } ?? false
        }
        #expect(isAnswered && privacy?.visibility.friends?.count == 2)
    }
}
