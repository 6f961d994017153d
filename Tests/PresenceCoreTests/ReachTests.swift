import PresenceWire
import Testing

@testable import PresenceCore

/// A node that hears no majority, or does not hear an owner, says so with the records of the users.
@Suite struct ReachTests {
    var cluster = TestCluster(nodes: 3)

    /// Blocks all links to and from a node.
    private mutating func cutOff(_ node: Int, from others: [Int]) {
        for other in others { cluster.losing += [(node, other), (other, node)] }
    }

    /// Whether the records of a node's answer to a query are unsure.
    private mutating func flags(about targets: [String], on node: Int) throws -> [Bool] {
        cluster.call(.getUserStatus(targets.map(user)), by: "bob", on: node)
        // An owner may not be known to be lost yet.
        for _ in 0..<120 where cluster.lastAnswer(on: node) == nil { cluster.advance(.milliseconds(50)) }
        let answer = try #require(cluster.lastAnswer(on: node))
        var json = JSONWriter()
        try API.write(
            answer, to: .getUserStatus, of: user("bob"), errors: [], policy: SharedPolicy(Policy()),
            unsure: cluster.processes[node].node.cluster.unsure,
            into: &json)
        return try JSONReader.read(json.bytes)["userStatusList"]!.elements.map { $0["isUnsure"] != nil }
    }

    @Test("A node that hears no majority says so in answers and pushes, gives no position, and pushes the end once it hears one")
    mutating func cutOffNode() throws {
        let near = cluster.user(ownedBy: 0)
        cluster.login("ann", on: 1)
        let bob = cluster.login("bob", on: 0)
        cluster.subscribe("bob", to: ["ann", near], on: 0)
        cluster.advance(.seconds(1))
        let told = cluster.clients[bob].events.count
        let told1 = try flags(about: ["ann", "bob"], on: 0)
        #expect(told1 == [false, false])
        cutOff(0, from: [1, 2])
        cluster.advance(.seconds(2))
        #expect(cluster.clients[bob].view["ann"]!["isUnsure"] == .bool(true))
        #expect(cluster.clients[bob].view["bob"]!["isUnsure"] == .bool(true))
        #expect(cluster.clients[bob].lastEventID == 0, "a client that resumes elsewhere is sent everything")
        cluster.login(near, on: 0)
        cluster.advance(.milliseconds(100))
        #expect(cluster.clients[bob].view[near]!["statusType"] == .string("ONLINE"))
        #expect(cluster.clients[bob].lastEventID == 0, "also after a change of a user whose owner the node is")
        // Each side takes over the users of the other one, and answers for them.
        cluster.advance(.seconds(10))
        let told2 = try flags(about: ["ann", "bob"], on: 0)
        #expect(told2 == [true, true])
        // The others are a majority, and lose nobody but one of three nodes.
        let told3 = try flags(about: ["ann", "bob"], on: 1)
        #expect(told3 == [false, false])
        cluster.losing = []
        cluster.link(0, 1)
        cluster.link(1, 0)
        cluster.advance(.seconds(1))
        #expect(cluster.clients[bob].view["ann"]!["isUnsure"] == nil)
        #expect(cluster.clients[bob].view["ann"]!["statusType"] == .string("ONLINE"))
        #expect(cluster.clients[bob].events.count > told && cluster.clients[bob].wentBack == 0)
        #expect(cluster.clients[bob].lastEventID > 0)
        let told4 = try flags(about: ["ann", "bob"], on: 0)
        #expect(told4 == [false, false])
    }

    @Test("A node that does not hear one owner is unsure about the users of that owner alone")
    mutating func silentOwner() {
        let (near, far) = (cluster.user(ownedBy: 0), cluster.user(ownedBy: 1))
        cluster.advance(.seconds(1))
        cutOff(0, from: [1])
        cluster.advance(.seconds(2))
        #expect(cluster.processes[0].node.cluster.reach.hasMajority)
        #expect(cluster.processes[0].node.cluster.unsure.contains(user(far)))
        #expect(!cluster.processes[0].node.cluster.unsure.contains(user(near)))
        #expect(!cluster.processes[2].node.cluster.unsure.contains(user(far)))
    }

    @Test("While a node is unsure about some users, the events that sessions share give no position, whomever they are about")
    mutating func sharedEvents() {
        let (near, far) = (cluster.user(ownedBy: 0), cluster.user(ownedBy: 1))
        let devices = ["ios", "web"].map { cluster.login("bob", on: 0, platform: $0) }
        for type: UInt8 in [1, 2] {
            cluster.call(.subscribeUserStatus([user(near)], seconds: nil, sync: false, subscribeType: type), by: "bob", on: 0)
        }
        cluster.advance(.seconds(1))
        setNick("before", of: near)
        for device in devices { #expect(cluster.clients[device].lastEventID > 0) }
        cutOff(0, from: [1])
        cluster.advance(.seconds(2))
        #expect(cluster.processes[0].node.cluster.unsure.contains(user(far)))
        setNick("unsure", of: near)
        for device in devices {
            #expect(cluster.clients[device].events.last?.name == "onUserProfileChanged")
            #expect(cluster.clients[device].lastEventID == 0)
        }
        cluster.setStatus(near, "unsure", on: 0)
        cluster.advance(.milliseconds(100))
        for device in devices {
            #expect(cluster.clients[device].view[near]?["customStatus"] == .string("unsure"))
            #expect(cluster.clients[device].lastEventID == 0)
        }
        cluster.losing = []
        for (from, to) in [(0, 1), (1, 0)] { cluster.link(from, to) }
        cluster.advance(.seconds(2))
        setNick("after", of: near)
        for device in devices { #expect(cluster.clients[device].lastEventID > 0) }
    }

    private mutating func setNick(_ nick: String, of name: String) {
        cluster.call(.friendCall(.modifyProfile([Profile.Change(name: "Nick", value: .text(nick))])), by: name, on: 0)
        cluster.advance(.milliseconds(100))
    }

    @Test("A node that hears no majority changes no fact, and nothing of the refused call remains")
    mutating func refusedChange() {
        let own = cluster.user(ownedBy: 0)
        cluster.setStatus(own, "before", on: 0)
        cutOff(0, from: [1, 2])
        cluster.advance(.seconds(2))
        let answer = cluster.setStatus(own, "after", on: 0)
        #expect(answer == .refused(.notReplicated))
        #expect(cluster.processes[0].node.owner.record(of: user(own)).customStatus == "before")
        // The owner of this user is on the other side, and its node does not wait for it for five seconds.
        let other = cluster.user(ownedBy: 1)
        cluster.setStatus(other, "after", on: 0)
        cluster.advance(.milliseconds(200))
        guard case .refused(let refusal) = cluster.lastAnswer(on: 0) else { return #expect(Bool(false), "no refusal") }
        #expect(refusal.code == 50001)
    }

    @Test("A logout whose owner has not answered may have taken effect, and its refusal says so", arguments: [false, true])
    mutating func logoutPassedOn(isOfSession: Bool) {
        let ann = cluster.user(ownedBy: 1)
        let client = cluster.login(ann, on: 0)
        cluster.advance(.seconds(1))
        cutOff(0, from: [1, 2])
        cluster.call(.logout(isOfSession ? cluster.clients[client].session : nil), by: ann, on: 0)
        for _ in 0..<200 where cluster.lastAnswer(on: 0) == nil { cluster.advance(.milliseconds(50)) }
        guard case .refused(let refusal) = cluster.lastAnswer(on: 0) else { return #expect(Bool(false), "no refusal") }
        #expect(refusal.code == 50001 && refusal.mayTakeEffect && !refusal.detail.contains("safe to retry"))
    }

    @Test("A user whose change finds no second disk costs a call about several users only the time, and the others are answered")
    mutating func refusedPart() {
        let (ann, ben, cid) = (cluster.user(ownedBy: 0), cluster.user(ownedBy: 0, number: 1), cluster.user(ownedBy: 0, number: 2))
        // The node knows this user, and answers for it although the owners of others are not heard.
        cluster.call(.friendCall(.modifyProfile([Profile.Change(name: "Nick", value: .bytes(Array("Cid".utf8)))])), by: cid, on: 0)
        cluster.advance(.seconds(1))
        cutOff(0, from: [1, 2])
        // The change waits for a second disk, and reads of it wait as well.
        cluster.call(.friendCall(.modifyProfile([Profile.Change(name: "Nick", value: .bytes(Array("Ben".utf8)))])), by: ben, on: 0)
        cluster.call(.getUsersProfile([user(ben), user(cid)]), by: ann, on: 0)
        for _ in 0..<200 where cluster.lastAnswer(on: 0) == nil { cluster.advance(.milliseconds(50)) }
        guard case .profiles(let profiles, let users)? = cluster.lastAnswer(on: 0) else {
            return #expect(Bool(false), "\(String(describing: cluster.lastAnswer(on: 0)))")
        }
        #expect(users == [user(ben), user(cid)] && profiles.last??.user == user(cid), "\(profiles)")
    }

    @Test("A member that has left on purpose is not missed") mutating func leftNode() {
        cluster.leave(2)
        cluster.advance(.seconds(3))
        #expect(cluster.processes[0].node.cluster.unsure.isEmpty)
        cluster.leave(1)
        cluster.advance(.seconds(3))
        #expect(cluster.processes[0].node.cluster.unsure.isEmpty && cluster.processes[0].node.cluster.reach.hasMajority)
    }
}
