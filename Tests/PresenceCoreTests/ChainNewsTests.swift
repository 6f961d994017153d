import PresenceWire
import Testing

@testable import ClusterSimulation
@testable import PresenceCore

/// The events of the relationship chain (P38–P42). Ann and ben have different owners, and sessions on other nodes.
@Suite struct ChainNewsTests {
    var cluster = TestCluster(nodes: 3)
    let ann: String
    let ben: String
    let phone: Int
    let browser: Int
    let benPhone: Int

    init() {
        ann = cluster.user(ownedBy: 0)
        ben = cluster.user(ownedBy: 1)
        phone = cluster.login(ann, on: 1)
        browser = cluster.login(ann, on: 2, platform: "web")
        benPhone = cluster.login(ben, on: 0)
        cluster.advance(.milliseconds(100))
    }

    private mutating func set(_ settings: String) {
        cluster.call(.setAppPolicy(Array(#"{"settings":\#(settings)}"#.utf8)), by: ann, on: 0)
        cluster.advance(.milliseconds(100))
    }

    private mutating func decide(_ call: ChainCall, by name: String) {
        cluster.call(.chain(call), by: name, on: 2)
        cluster.advance(.milliseconds(100))
    }

    private mutating func add(_ target: String, by name: String, isTwoWay: Bool = true) {
        decide(.add(user(target), SentRequest(addTime: 0), isTwoWay: isTwoWay), by: name)
    }

    /// The events of the chain that a device was told, without the state at its login.
    private func told(_ client: Int) -> [(name: String, data: JSONValue)] {
        let names = RelationshipNotice.Event.allCases.map { "\($0.name)" }
        return Array(cluster.clients[client].events.filter { names.contains($0.name) }.dropFirst()).map { ($0.name, $0.data) }
    }

    /// The names of these events.
    private func names(_ client: Int) -> [String] { told(client).map(\.name) }

    private func state(of name: String) -> RelationshipState {
        cluster.processes[cluster.ownerIndex(of: name)].node.machines.owner.relationship(of: user(name))
    }

    @Test("Of two decisions about one user that have the same stamp, both are told, and the second one has a sequence of its own")
    mutating func sameStamp() throws {
        let cid = cluster.user(ownedBy: 2)
        cluster.heard = []
        add(ben, by: ann)
        let first = cluster.heard!.lazy.compactMap { if case .chainApply(let command) = $0.message { command } else { nil } }.first
        let second = ChainApply(pair: ChainPair(user: user(cid), other: user(ben)), command: try #require(first).command)
        let peer = cluster.processes[1].node.cluster.peers.index(of: cluster.processes[2].id)!
        cluster.processes[1].node.handle(.chainApply(second), from: peer, at: cluster.now)
        cluster.processes[1].node.run(at: cluster.now)
        cluster.advance(.milliseconds(100))
        let added = told(benPhone).filter { $0.name == "onFriendListAdded" }.map(\.data)
        #expect(added.map { $0["friendList"]?.elements.first?["userID"]?.textValue } == [ann, cid])
        #expect(added.last?["fromSeq"] == added.first?["seq"] && added.last?["seq"] != added.first?["seq"])
    }

    @Test("Each login is told the newest sequences before onSubscriptionSyncCompleted, also a user's without friends") mutating func login()
    {
        add(ben, by: ann)
        let tablet = cluster.login(ann, on: 0, platform: "tablet")
        cluster.advance(.milliseconds(100))
        let events = cluster.clients[tablet].events
        let place = events.firstIndex { $0.name == "onRelationshipState" }
        #expect(place.map { events[$0].data["friendSeq"]?.textValue } == state(of: ann).friends.text)
        #expect(place ?? .max < events.firstIndex { $0.name == "onSubscriptionSyncCompleted" } ?? 0)
        let first = cluster.clients[benPhone].events.first { $0.name == "onRelationshipState" }
        #expect(first?.data["friendSeq"]?.textValue == Version.zero.text && first?.data["unreadCnt"]?.number == 0)
    }

    @Test("Every device of both users is told of a friend, with the sequence before and after (P38)") mutating func added() {
        let sequences = [ann: state(of: ann).friends.text, ben: state(of: ben).friends.text]
        add(ben, by: ann)
        for (client, name, friend) in [(phone, ann, ben), (browser, ann, ben), (benPhone, ben, ann)] {
            #expect(names(client) == ["onFriendListAdded"])
            let data = told(client)[0].data
            #expect(data["friendList"]?.elements.map { $0["userID"]?.textValue } == [friend])
            #expect(data["fromSeq"]?.textValue == sequences[name])
            #expect(data["seq"]?.textValue == state(of: name).friends.text)
        }
    }

    @Test("A side whose list has not changed is told nothing (P39, P40)") mutating func oneWay() {
        add(ben, by: ann, isTwoWay: false)
        #expect(names(phone) == ["onFriendListAdded"] && names(benPhone) == [])
        add(ann, by: ben)
        #expect(names(benPhone) == ["onFriendListAdded"] && names(phone) == ["onFriendListAdded"])
        decide(.delete([user(ann)], isTwoWay: false), by: ben)
        #expect(names(benPhone).last == "onFriendListDeleted" && names(phone) == ["onFriendListAdded"])
        #expect(told(benPhone).last?.data["userIDs"]?.elements == [.string(ann)])
    }

    @Test("A user learns neither of a block nor of a place in the list of another user alone: no event, no sequence, no deletion")
    mutating func unseen() throws {
        let before = state(of: ben)
        let versions = cluster.processes.indices.map { cluster.processes[$0].node.owner.relationship(of: user(ben)) }
        add(ben, by: ann, isTwoWay: false)
        decide(.delete([user(ben)], isTwoWay: true), by: ann)
        decide(.setBlocked([user(ben)], true), by: ann)
        decide(.setBlocked([user(ben)], false), by: ann)
        decide(.setBlocked([user(ben)], true), by: ann)
        #expect(names(benPhone) == [])
        #expect(cluster.processes.indices.map { cluster.processes[$0].node.owner.relationship(of: user(ben)) } == versions)
        #expect(state(of: ben) == before)
        // A client that holds the list from before this friend is told of that friend alone.
        let cid = cluster.user(ownedBy: 2)
        add(cid, by: ben)
        let first = try #require(told(benPhone).first)
        #expect(first.name == "onFriendListAdded" && first.data["fromSeq"]?.textValue == before.sequence(of: .friends))
        let tablet = cluster.login(ben, on: 0, platform: "tablet")
        cluster.advance(.milliseconds(100))
        #expect(told(tablet).isEmpty)
    }

    @Test("A former friend who is blocked is told of the end of the friendship, and later of nothing") mutating func formerFriend() throws {
        add(ben, by: ann)
        let sequence = state(of: ben).sequence(of: .friends)
        decide(.delete([user(ben)], isTwoWay: true), by: ann)
        let deleted = state(of: ben)
        decide(.setBlocked([user(ben)], true), by: ann)
        #expect(names(benPhone) == ["onFriendListAdded", "onFriendListDeleted"])
        #expect(state(of: ben) == deleted)
        // The tombstone of the friendship is gone. A client that has the friend reads the whole list.
        guard case .owner(.listed(let json)) = cluster.call(.getFriendList(FriendQuery(since: sequence)), by: ben, on: 2) else {
            Issue.record("no list")
            return
        }
        let answer = try JSONReader.read(json)
        #expect(answer["isFull"] == .bool(true) && answer["friendList"]?.elements == [])
        #expect(answer["seq"]?.textValue == deleted.sequence(of: .friends))
    }

    @Test("Both sides are told of a request, and of its end (P41, P42)", arguments: [true, false]) mutating func request(isAccepted: Bool) {
        set(#"{"profile.defaultAllowType":"confirm"}"#)
        add(ben, by: ann)
        for (client, other, type, unread) in [(phone, ben, Int64(2), Int64(0)), (benPhone, ann, 1, 1)] {
            #expect(names(client) == ["onFriendApplicationListAdded"])
            let data = told(client)[0].data
            let item = data["pendencyList"]?.elements.first
            #expect(item?["userID"]?.textValue == other && item?["type"]?.number == type)
            #expect(data["unreadCnt"]?.number == unread)
        }
        decide(.respond(user(ann), isAccepted ? .accept(remark: "", isTwoWay: true) : .reject), by: ben)
        for client in [phone, browser, benPhone] {
            let ends = Set(names(client).dropFirst())
            #expect(ends == (isAccepted ? ["onFriendApplicationListDeleted", "onFriendListAdded"] : ["onFriendApplicationListDeleted"]))
            let end = told(client).first { $0.name == "onFriendApplicationListDeleted" }?.data
            #expect(end?["type"]?.number == (client == benPhone ? 1 : 2))
            #expect(end?["fromSeq"] == told(client).first { $0.name == "onFriendApplicationListAdded" }?.data["seq"])
        }
    }

    @Test("The block of a user who has sent a request lowers the number of unread requests, and that of another user does not")
    mutating func unreadAfterBlock() {
        set(#"{"profile.defaultAllowType":"confirm"}"#)
        let (cid, dan) = (cluster.user(ownedBy: 2), cluster.user(ownedBy: 2, number: 1))
        for name in [ben, cid] { add(ann, by: name) }
        #expect(state(of: ann).unreadCount == 2)
        decide(.setBlocked([user(dan)], true), by: ann)
        #expect(state(of: ann).unreadCount == 2)
        decide(.setBlocked([user(cid)], true), by: ann)
        let end = told(phone).last { $0.name == "onFriendApplicationListDeleted" }
        #expect(end?.data["unreadCnt"]?.number == 1 && state(of: ann).unreadCount == 1)
        let tablet = cluster.login(ann, on: 0, platform: "tablet")
        cluster.advance(.milliseconds(100))
        let first = cluster.clients[tablet].events.first { $0.name == "onRelationshipState" }
        #expect(first?.data["unreadCnt"]?.number == 1)
    }

    @Test("Whatever happens, the sequence that a device was told last is that of the list") mutating func chained() {
        set(#"{"profile.defaultAllowType":"confirm"}"#)
        for _ in 0..<2 {
            add(ben, by: ann)
            decide(.respond(user(ann), .accept(remark: "", isTwoWay: true)), by: ben)
            // The owner of ann removes what is not there.
            decide(.respond(user(ann), .reject), by: ben)
            add(ann, by: ben)
            decide(.delete([user(ben)], isTwoWay: true), by: ann)
        }
        for (client, name) in [(phone, ann), (browser, ann), (benPhone, ben)] {
            var held = [
                "friendSeq": RelationshipState().sequence(of: .friends), "pendencySeq": RelationshipState().sequence(of: .requests),
            ]
            for (event, data) in told(client) {
                if event == "onRelationshipState" {
                    for name in ["friendSeq", "pendencySeq"] { held[name] = data[name]!.textValue }
                    continue
                }
                let list = event.hasPrefix("onFriendApplication") ? "pendencySeq" : "friendSeq"
                #expect(data["fromSeq"]?.textValue == held[list], "\(event)")
                held[list] = data["seq"]!.textValue
            }
            #expect(held["friendSeq"] == state(of: name).sequence(of: .friends))
            #expect(held["pendencySeq"] == state(of: name).sequence(of: .requests))
        }
    }

    @Test("A device whose queue is full is told each change in order, once it reads again") mutating func blocked() {
        let client = cluster.clients[phone]
        cluster.processes[client.node].gateways[0].value.block(client.index, at: cluster.now)
        for name in (0..<3).map({ cluster.user(ownedBy: 2, number: $0) }) { add(name, by: ann) }
        #expect(names(phone) == [] && names(browser).count == 3)
        cluster.processes[client.node].gateways[0].value.checkInvariants()
        cluster.processes[client.node].gateways[0].value.unblock(client.index)
        cluster.settle()
        #expect(told(phone).map(\.data) == told(browser).map(\.data))
        #expect(told(phone).last?.data["seq"]?.textValue == state(of: ann).friends.text)
    }

    /// As when an owner learns that a decision has ended otherwise.
    @Test("A change that no call makes is told once a second disk has it, or after the deadline of a write (R6)", arguments: [false, true])
    mutating func withoutCaller(areReplicasFull: Bool) {
        add(ben, by: ann)
        if areReplicasFull { cluster.fullDisks = [1, 2] }
        cluster.processes[0].node.remove(friend: ben, of: ann, at: cluster.now)
        cluster.advance(.seconds(1))
        let isTold = { (tests: Self) in tests.names(tests.phone).last == "onFriendListDeleted" }
        #expect(isTold(self) == !areReplicasFull)
        cluster.advance(.seconds(2))
        #expect(isTold(self))
    }

    @Test("A device that misses an event on a broken link is told the newest state") mutating func lost() {
        cluster.losing = [(0, 1)]
        add(cluster.user(ownedBy: 2), by: ann)
        #expect(told(phone).isEmpty && names(browser) == ["onFriendListAdded"])
        cluster.unlink(0, 1)
        cluster.losing = []
        cluster.link(0, 1)
        cluster.advance(.seconds(2))
        #expect(told(phone).map(\.name) == ["onRelationshipState"])
        #expect(told(phone)[0].data["friendSeq"]?.textValue == state(of: ann).friends.text)
        #expect(names(browser) == ["onFriendListAdded"])
    }

    @Test("An event about one list leaves what was told of the others, whose events may wait longer for their disks")
    mutating func lists() {
        func version(_ milliseconds: Milliseconds) -> Version { Version(milliseconds: milliseconds, counter: 0, node: 1) }
        var relationships = ToldRelationships()
        var (first, second) = (RelationshipState(), RelationshipState())
        (first.received, first.unreadCount) = (version(1), 1)
        (second.received, second.unreadCount, second.friends) = (version(1), 1, version(2))
        // The change of the friend list is the later one, and on two disks first.
        let added = RelationshipNotice(.friendsAdded, second, data: [])
        let requested = RelationshipNotice(.requestsAdded, first, data: [])
        #expect(relationships.take([added], of: 0) == [added])
        #expect(relationships.take([requested], of: 0) == [requested])
        #expect(relationships.state(of: 0) == second)
        #expect(relationships.take([requested, added, RelationshipNotice(.state, second)], of: 0) == [])
    }

    @Test("Events of the owner before, which arrive after those of the next one, take nothing back")
    mutating func earlierOwner() {
        func version(_ milliseconds: Milliseconds) -> Version { Version(milliseconds: milliseconds, counter: 0, node: 1) }
        var relationships = ToldRelationships()
        var (old, new) = (RelationshipState(), RelationshipState())
        (old.friends, old.received, old.read, old.unreadCount) = (version(3), version(1), version(1), 2)
        (new.friends, new.received, new.read, new.unreadCount) = (version(2), version(2), version(2), 1)
        #expect(relationships.take([RelationshipNotice(.state, new)], of: 0) == [RelationshipNotice(.state, new)])
        #expect(relationships.take([RelationshipNotice(.requestsRead, old), RelationshipNotice(.requestsAdded, old)], of: 0) == [])
        var both = new
        both.friends = old.friends
        #expect(relationships.take([RelationshipNotice(.state, old)], of: 0) == [RelationshipNotice(.state, both)])
    }

    @Test("Apps without the relationship chain get no such event") mutating func off() {
        set(#"{"chain.enabled":false}"#)
        let tablet = cluster.login(ann, on: 0, platform: "tablet")
        cluster.advance(.milliseconds(100))
        #expect(!cluster.clients[tablet].events.contains { $0.name == "onRelationshipState" })
    }
}

extension Node {
    /// Removes a friend without a call of a client.
    fileprivate mutating func remove(friend: String, of name: String, at now: Now) {
        let user = machines.owner.index(of: UserID(app: "default", id: name))
        let version = machines.owner.nextVersion(at: now)
        machines.owner.write([.remove(.friend, friend)], of: user, decidedAt: version, in: &machines.cluster.outbox[at: now])
        run(at: now)
    }
}
