import PresenceWire
import Testing

@testable import PresenceCore

@Suite struct NodeTests {
    var cluster = TestCluster(nodes: 3)

    @Test("A status set on one node reaches a watcher on another through the owner on the third") mutating func threeNodes() {
        let ann = cluster.user(ownedBy: 1)
        cluster.login(ann, on: 0)
        let watcher = cluster.login("bob", on: 2)
        cluster.subscribe("bob", to: [ann], on: 2)
        cluster.setStatus(ann, "busy", on: 0)
        #expect(cluster.clients[watcher].view[ann]?["customStatus"]?.textValue == "busy")
        #expect(cluster.clients[watcher].view[ann]?["statusType"]?.textValue == "ONLINE")
    }

    @Test("A local and a remote owner give the same events") mutating func sameEvents() {
        var seen: [[String]] = []
        for owner in 0..<3 {
            var cluster = TestCluster(nodes: 3)
            let ann = cluster.user(ownedBy: owner)
            let watcher = cluster.login("bob", on: 2)
            cluster.subscribe("bob", to: [ann], on: 2)
            let phone = cluster.login(ann, on: 0)
            cluster.setStatus(ann, "busy", on: 0)
            cluster.lose(phone)
            cluster.advance(.seconds(3))
            seen.append(cluster.statuses(told: watcher, of: ann))
        }
        #expect(seen == Array(repeating: ["UNLOGINED", "ONLINE", "ONLINE", "OFFLINE"], count: 3))
    }

    @Test("A session that is lost and back within the grace shows nothing") mutating func grace() {
        let watcher = cluster.login("bob", on: 1)
        cluster.subscribe("bob", to: ["ann"], on: 1)
        let phone = cluster.login("ann", on: 0)
        cluster.lose(phone)
        cluster.advance(.milliseconds(1_900))
        cluster.login("ann", on: 2)
        cluster.advance(.seconds(10))
        #expect(cluster.statuses(told: watcher, of: "ann") == ["UNLOGINED", "ONLINE"])
    }

    @Test("A late end of a dead session does not end the new one") mutating func lateEnd() {
        let watcher = cluster.login("bob", on: 1)
        cluster.subscribe("bob", to: ["ann"], on: 1)
        let old = cluster.login("ann", on: 0)
        cluster.login("ann", on: 2)
        cluster.lose(old)
        cluster.advance(.seconds(10))
        #expect(cluster.statuses(told: watcher, of: "ann") == ["UNLOGINED", "ONLINE"])
    }

    @Test("A logout makes the user UNLOGINED and ends the streams") mutating func logout() {
        let watcher = cluster.login("bob", on: 1)
        cluster.subscribe("bob", to: ["ann"], on: 1)
        let phone = cluster.login("ann", on: 0)
        let laptop = cluster.login("ann", on: 2, platform: "macos")
        #expect(cluster.call(.logout(nil), by: "ann", on: 1) == .done)
        #expect(!cluster.clients[phone].isOpen)
        #expect(!cluster.clients[laptop].isOpen)
        #expect(cluster.clients[phone].events.last?.name == "onLogout")
        cluster.advance(.seconds(5))
        #expect(cluster.statuses(told: watcher, of: "ann").last == "UNLOGINED")
    }

    @Test("OFFLINE clears the custom status in the same change") mutating func offline() {
        let watcher = cluster.login("bob", on: 1)
        cluster.subscribe("bob", to: ["ann"], on: 1)
        let phone = cluster.login("ann", on: 0, customStatus: "busy")
        #expect(cluster.clients[watcher].view["ann"]?["customStatus"]?.textValue == "busy")
        let before = cluster.clients[watcher].events.count
        cluster.lose(phone)
        cluster.advance(.seconds(3))
        #expect(cluster.clients[watcher].events.count == before + 1)
        #expect(cluster.clients[watcher].view["ann"]?["customStatus"]?.textValue == "")
        #expect(cluster.clients[watcher].view["ann"]?["statusType"]?.textValue == "OFFLINE")
    }

    @Test("Watchers receive the end of a custom status with an expiry") mutating func expiry() {
        let phone = cluster.login("ann", on: 0)
        cluster.setStatus("ann", "lunch", on: 1, seconds: 30)
        cluster.advance(.milliseconds(29_900))
        #expect(cluster.clients[phone].view["ann"]?["customStatus"]?.textValue == "lunch")
        cluster.advance(.milliseconds(200))
        #expect(cluster.clients[phone].view["ann"]?["customStatus"]?.textValue == "")
    }

    @Test("The platforms follow the sessions") mutating func platformsOfSessions() {
        let phone = cluster.login("ann", on: 0, platform: "ios")
        cluster.login("ann", on: 1, platform: "web")
        let platforms = { (cluster: TestCluster) in
            cluster.clients[phone].view["ann"]?["onlinePlatforms"]?.elements.map(\.textValue)
        }
        #expect(platforms(cluster) == ["ios", "web"])
        cluster.close(1, .loggedOut)
        #expect(platforms(cluster) == ["ios"])
    }

    @Test("Watchers do not see the death of an owner, and later changes arrive") mutating func deadOwner() {
        let ann = cluster.user(ownedBy: 1)
        let watcher = cluster.login("bob", on: 2)
        cluster.subscribe("bob", to: [ann], on: 2)
        cluster.login(ann, on: 0)
        cluster.setStatus(ann, "busy", on: 0)
        let before = cluster.clients[watcher].events.count
        cluster.kill(1)
        cluster.advance(.seconds(15))
        #expect(cluster.clients[watcher].events.count == before)
        #expect(cluster.record(of: ann).customStatus == "busy")
        cluster.setStatus(ann, "free", on: 0)
        #expect(cluster.clients[watcher].view[ann]?["customStatus"]?.textValue == "free")
        #expect(cluster.clients[watcher].wentBack == 0)
    }

    /// An owner dies, and its last delta is lost. A client that resumes elsewhere from a position sent too early would miss that change.
    @Test("No position is sent before the users of a dead owner are registered again") mutating func positionAfterDeath() throws {
        let ann = cluster.user(ownedBy: 1)
        cluster.login("bob", on: 2)
        cluster.subscribe("bob", to: [ann], on: 2)
        cluster.advance(.seconds(1))
        cluster.losing = [(from: 1, to: 2)]
        cluster.setStatus(ann, "unheard", on: 0)
        let written = cluster.record(of: ann).version.milliseconds
        cluster.advance(.milliseconds(200))
        let process = cluster.processes[2]
        #expect(process.node.edge.fanOut.recordHeld(of: user(ann))?.customStatus != "unheard")
        let other = try #require(process.node.cluster.peerIndex(NodeID("node-0")))
        #expect(process.node.edge.relays.knownUpTo(other) > written)
        let owner = cluster.processes[1].node.cluster.own
        process.node.unlinked(from: owner.id, evidence: .refused(generation: owner.generation), at: cluster.now)
        process.node.tick(at: cluster.now)
        #expect(!process.node.cluster.isMember(owner.id))
        #expect(process.node.edge.position <= written)
    }

    @Test("The death of a gateway node shows OFFLINE only for users who do not come back") mutating func deadGateway() {
        let ann = cluster.user(ownedBy: 1)
        let eve = cluster.user(ownedBy: 1, number: 1)
        let watcher = cluster.login("bob", on: 2)
        cluster.subscribe("bob", to: [ann, eve], on: 2)
        cluster.login(ann, on: 0)
        cluster.login(eve, on: 0)
        cluster.kill(0)
        cluster.advance(.seconds(5))
        cluster.login(ann, on: 1)
        cluster.advance(.seconds(6))
        #expect(cluster.statuses(told: watcher, of: ann) == ["UNLOGINED", "ONLINE"])
        #expect(cluster.statuses(told: watcher, of: eve) == ["UNLOGINED", "ONLINE", "OFFLINE"])
    }

    @Test("A restarted owner loads its rows and receives the changes made meanwhile") mutating func restartedOwner() throws {
        let ann = cluster.user(ownedBy: 1)
        let bob = cluster.user(ownedBy: 1, number: 1)
        cluster.login(bob, on: 2)
        cluster.subscribe(bob, to: [ann], on: 2)
        cluster.kill(1)
        cluster.subscribe(bob, to: ["carl"], on: 2)
        cluster.setStatus(bob, "meanwhile", on: 2)
        try cluster.restart(1)
        cluster.advance(.seconds(1))
        guard
            case .subscriptions(let page, _, let total) = cluster.call(
                .getSubscribedUserStatus(only: nil, offset: 0, limit: 10), by: bob, on: 0)
        else {
            Issue.record("no answer")
            return
        }
        #expect(total == 2)
        #expect(Set(page.map(\.target)) == [user(ann), user("carl")])
        #expect(cluster.record(of: bob).customStatus == "meanwhile")
    }

    @Test("Subscriptions survive the restart of all nodes") mutating func fullRestart() throws {
        cluster.login("bob", on: 2)
        cluster.subscribe("bob", to: ["ann", "carl"], on: 2)
        for index in 0..<3 { cluster.kill(index) }
        for index in 0..<3 { try cluster.restart(index) }
        cluster.login("ann", on: 0)
        let bob = cluster.login("bob", on: 1)
        cluster.advance(.seconds(1))
        #expect(cluster.clients[bob].view["ann"]?["statusType"]?.textValue == "ONLINE")
        #expect(cluster.clients[bob].events.last?.name == "onSubscriptionSyncCompleted")
    }

    @Test("A full disk refuses durable operations, and presence goes on") mutating func fullDisk() {
        let watcher = cluster.login("bob", on: 2)
        cluster.subscribe("bob", to: ["ann"], on: 2)
        cluster.isDiskFull = true
        #expect(cluster.setStatus("ann", "busy", on: 0) == .refused(.notDurable.afterPassingOn))
        cluster.login("ann", on: 0)
        #expect(cluster.clients[watcher].view["ann"]?["statusType"]?.textValue == "ONLINE")
        let version = cluster.record(of: "ann").version
        #expect(cluster.setStatus("ann", "still", on: 0) == .refused(.notDurable))
        #expect(cluster.record(of: "ann").version == version, "refused before it changed anything")
        cluster.isDiskFull = false
        cluster.advance(CoreSettings().diskRetryInterval + .milliseconds(20))
        guard case .owner(.record) = cluster.setStatus("ann", "busy", on: 0) else { return #expect(Bool(false), "still refused") }
    }

    @Test("Rows that a full disk refused are written once there is room") mutating func roomAgain() {
        cluster.isDiskFull = true
        cluster.login("ann", on: 0)
        let factsCount = { (node: TestCluster.Process) in node.disk.rows.filter { $0.value.kind.isOfUser }.count }
        #expect(cluster.processes.allSatisfy { factsCount($0) == 0 })
        cluster.isDiskFull = false
        cluster.advance(CoreSettings().diskRetryInterval + .milliseconds(20))
        #expect(cluster.processes.allSatisfy { factsCount($0) == 1 })
    }

    @Test("A call with an unreachable owner is answered 50001 at its deadline") mutating func unreachableOwner() {
        var settings = CoreSettings()
        settings.callTimeout = .seconds(1)
        cluster = TestCluster(nodes: 3, settings: settings)
        let ann = cluster.user(ownedBy: 1)
        cluster.processes[1].isUp = false
        #expect(cluster.setStatus(ann, "busy", on: 0) == nil)
        cluster.advance(.milliseconds(900))
        #expect(cluster.lastAnswer(on: 0) == nil)
        cluster.advance(.milliseconds(200))
        #expect(cluster.lastAnswer(on: 0) == .refused(.unavailable.afterPassingOn))
    }

    @Test("The next owner answers a call whose owner dies") mutating func nextOwner() {
        let ann = cluster.user(ownedBy: 1)
        cluster.processes[1].isUp = false
        cluster.setStatus(ann, "busy", on: 0)
        cluster.kill(1)
        cluster.advance(.milliseconds(700))
        guard case .owner(.record(let record)) = cluster.lastAnswer(on: 0) else {
            Issue.record("no answer")
            return
        }
        #expect(record.customStatus == "busy")
    }

    @Test("Queries answer unknown users as UNLOGINED") mutating func unknownUsers() {
        cluster.login("ann", on: 0)
        let asked = ["ann", "nobody"].map(user)
        guard case .userStatusList(let records, _, let asOf) = cluster.call(.getUserStatus(asked), by: "bob", on: 2)
        else {
            Issue.record("no answer")
            return
        }
        #expect(records.map { $0?.statusType } == [.online, .unlogined])
        #expect(asOf <= cluster.now.wall)
    }

    @Test("A user who is named twice is answered twice") mutating func repeatedUser() {
        let ann = cluster.user(ownedBy: 0)
        cluster.login(ann, on: 0)
        guard case .userStatusList(let records, _, _) = cluster.call(.getUserStatus([user(ann), user(ann)]), by: "bob", on: 2) else {
            return #expect(Bool(false), "no list")
        }
        #expect(records.map { $0?.statusType } == [.online, .online])
    }

    @Test("With sync the answer has the records, and the stream sends only newer ones") mutating func sync() {
        cluster.login("ann", on: 0)
        let bob = cluster.login("bob", on: 2)
        guard case .subscribed(_, _, _, _, _, let records?, _) = cluster.subscribe("bob", to: ["ann"], on: 2, sync: true)
        else {
            Issue.record("no answer")
            return
        }
        #expect(records.map { $0?.statusType } == [.online])
        #expect(cluster.statuses(told: bob, of: "ann") == [])
        cluster.setStatus("ann", "busy", on: 1)
        #expect(cluster.statuses(told: bob, of: "ann") == ["ONLINE"])
    }

    @Test("A resumed stream receives the changes and nothing else") mutating func resume() {
        cluster.login("ann", on: 0)
        cluster.login("carl", on: 0)
        let bob = cluster.login("bob", on: 2)
        cluster.subscribe("bob", to: ["ann", "carl"], on: 2)
        cluster.advance(.seconds(1))
        cluster.setStatus("ann", "one", on: 0)
        let position = cluster.clients[bob].lastEventID
        cluster.lose(bob)
        cluster.advance(.seconds(1))
        cluster.setStatus("carl", "two", on: 0)
        let again = cluster.login("bob", on: 1, resumeFrom: position)
        #expect(cluster.clients[again].view["carl"]?["customStatus"]?.textValue == "two")
        #expect(cluster.clients[again].events.last?.name == "onSubscriptionSyncCompleted")
        cluster.advance(.seconds(1))
        let third = cluster.login("bob", on: 1, resumeFrom: cluster.now.wall)
        #expect(cluster.clients[third].view["carl"] == nil)
    }

    /// A restarted node owns slots on one side of a split. It sends positions to clients before it has received the subscriptions that the
    /// other side knows. A client that resumes from such a position must still receive them.
    @Test("Positions of a restarted node do not cover the subscriptions that only others know", arguments: [false, true])
    mutating func positionAfterRestart(isMissed: Bool) throws {
        let (ann, bob) = (cluster.user(ownedBy: 0), cluster.user(ownedBy: 0, number: 1))
        cluster.setStatus(bob, "hello", on: 0)
        let phone = cluster.login(ann, on: 0)
        cluster.subscribe(ann, to: [bob], on: 0)
        cluster.lose(phone)
        cluster.advance(.seconds(1))
        let position = cluster.now.wall
        if isMissed { cluster.kill(1) }
        try cluster.restart(1)
        cluster.advance(.seconds(1))
        let again = cluster.login(ann, on: 1, resumeFrom: position)
        #expect(cluster.clients[again].view[bob]?["customStatus"]?.textValue == "hello")
    }

    @Test("A message to a node that cannot answer yet is repeated") mutating func startingNode() {
        cluster.unlink(0, 1)
        cluster.unlink(1, 0)
        cluster.link(0, 1)
        cluster.advance(.seconds(1))  // The third node tells that all live.
        let ann = cluster.user(ownedBy: 1)
        let watcher = cluster.login("bob", on: 0)
        cluster.subscribe("bob", to: [ann], on: 0)
        cluster.link(1, 0)
        cluster.advance(.seconds(1))
        cluster.login(ann, on: 2)
        cluster.advance(.seconds(1))
        #expect(cluster.clients[watcher].view[ann]?["statusType"]?.textValue == "ONLINE")
        #expect(cluster.clients[watcher].events.contains { $0.name == "onSubscriptionSyncCompleted" })
    }

    /// A watcher registers with a new owner that knows nothing yet; a session's node then brings the record.
    @Test("A new owner sends watchers the record that it receives from a session") mutating func recordFromSession() {
        var shards = Owner(clock: VersionClock(node: 1), settings: CoreSettings())
        var outbox = Outbox()
        let ann = user("ann")
        shards.watch([Watch(user: ann, held: .zero)], from: 2, in: &outbox[at: cluster.now])
        var record = Record(blank: ann)
        record.version = Version(milliseconds: cluster.now.wall, counter: 0, node: 9)
        record.statusType = .online
        record.onlinePlatforms = ["ios"]
        outbox = Outbox()
        let session = SessionID(stamp: 1, node: 9)
        let attach = Attach(session: session, user: ann, platform: "ios", isLogin: false, record: record)
        shards.attach(attach, from: 1, in: &outbox[at: cluster.now])
        record.knownSince = cluster.now.wall
        #expect(outbox.changes.contains { $0.watchers == [2] && $0.record == record })
    }

    /// A message from before a split arrives after it, from a node that is not the owner any more.
    @Test("Only the owner's subscription list counts", arguments: [true, false])
    mutating func listOfOwner(isOwner: Bool) throws {
        let ann = cluster.user(ownedBy: 1)
        let client = cluster.login(ann, on: 0)
        let bob = cluster.user(ownedBy: 2)
        cluster.setStatus(bob, "here", on: 2)
        let followed = ListUpdate.Followed(target: user(bob), delivered: .version(.zero), since: 1)
        let version = Version(milliseconds: cluster.now.wall, counter: 0, node: 1)
        var writer = WireWriter()
        writer.message(.listUpdate(ListUpdate(user: user(ann), version: version, isWhole: true, added: [followed], removed: [])))
        let sender = cluster.processes[isOwner ? 1 : 2].node.cluster.own.id
        try cluster.deliver(writer.bytes, from: sender, to: 0)
        cluster.settle()
        #expect((cluster.clients[client].view[bob] != nil) == isOwner)
    }

    @Test("A call that reaches a new owner before its gateways shows no flap") mutating func earlyCall() {
        let ann = cluster.user(ownedBy: 1)
        let watcher = cluster.login("bob", on: 2)
        cluster.subscribe("bob", to: [ann], on: 2)
        cluster.login(ann, on: 0)
        cluster.processes[1].isUp = false
        cluster.unlink(2, 1)
        cluster.settle()
        cluster.setStatus(ann, "early", on: 2)
        cluster.kill(1)
        cluster.advance(.seconds(1))
        #expect(cluster.statuses(told: watcher, of: ann) == ["UNLOGINED", "ONLINE", "ONLINE"])
        #expect(cluster.record(of: ann).customStatus == "early")
    }

    /// The next owner has not received the last change. The other replica, whose acknowledgement made it durable, has.
    @Test("A new owner asks the other replicas before it decides") mutating func otherReplicas() {
        let ann = cluster.user(ownedBy: 0)
        let next = cluster.processes[0].node.cluster.replicaIDs(of: user(ann))[1].rawValue == "node-1" ? 1 : 2
        cluster.losing = [(0, next)]
        guard case .owner(.record) = cluster.setStatus(ann, "durable", on: 0) else { return #expect(Bool(false), "not acknowledged") }
        cluster.kill(0)
        cluster.losing = []
        cluster.advance(.seconds(1))
        #expect(cluster.ownerIndex(of: ann) == next)
        #expect(cluster.record(of: ann).customStatus == "durable")
    }

    @Test("Junk from a peer changes nothing") mutating func junk() {
        let junk: [[UInt8]] = [[0], [99], [3, 1], [8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1], [6, 255, 255, 3]]
        for bytes in junk {
            #expect(throws: DecodeError.self) {
                try cluster.deliver(bytes, from: NodeID("node-1"), to: 0)
            }
        }
        #expect(cluster.processes[0].node.effects.isEmpty)
    }

    @Test("Nodes of another cluster or protocol are refused") func otherCluster() {
        let process = cluster.processes[0]
        var hello = cluster.processes[1].node.cluster.hello(at: cluster.now)
        #expect(process.node.refusal(of: hello, at: cluster.now) == nil)
        hello.cluster = "other"
        #expect(
            process.node.refusal(of: hello, at: cluster.now)?.description
                == "cluster name \"other\" differs from \"test\"; configure one name on all nodes")
        hello = cluster.processes[1].node.cluster.hello(at: cluster.now)
        hello.protocolVersion = Hello.protocolVersion + 1
        #expect(
            process.node.refusal(of: hello, at: cluster.now)?.description
                == "protocol version \(Hello.protocolVersion + 1) differs from \(Hello.protocolVersion); run one version of Rollcall on all nodes"
        )
    }

    /// A node accepts versions up to 60 s ahead of its clock.
    @Test("A node whose clock is off by more than a minute is refused") func clockSkew() {
        let process = cluster.processes[0]
        var hello = cluster.processes[1].node.cluster.hello(at: cluster.now)
        let wall = hello.wall
        for offset: Milliseconds in [-60_000, 60_000] {
            hello.wall = wall + offset
            #expect(process.node.refusal(of: hello, at: cluster.now) == nil)
        }
        let rest = "\"node-0\"), at most 60 s is allowed; synchronize the clocks (NTP)"
        hello.wall = wall + 3_600_000
        #expect(process.node.refusal(of: hello, at: cluster.now)?.description == "clock skew is 3600 s (\"node-1\" is ahead of \(rest)")
        hello.wall = wall - 61_000
        #expect(process.node.refusal(of: hello, at: cluster.now)?.description == "clock skew is 61 s (\"node-1\" is behind \(rest)")
        for wall: Milliseconds in [.min, .max] {
            hello.wall = wall
            #expect(process.node.refusal(of: hello, at: cluster.now) != nil)
        }
    }

    @Test("A registration longer than the queue fits through it") mutating func longRegistration() {
        var settings = CoreSettings()
        settings.linkMessagesMax = 8
        cluster = TestCluster(nodes: 3, settings: settings)
        let users = (0..<60).map { cluster.user(ownedBy: 1, number: $0) }
        for user in users { cluster.login(user, on: 0) }
        cluster.login("bob", on: 0)
        for user in users { cluster.subscribe("bob", to: [user], on: 0) }
        cluster.link(0, 1)
        cluster.advance(.seconds(15))
        #expect(users.filter { cluster.record(of: $0).statusType != .online } == [])
        #expect(cluster.processes[0].node.edge.isComplete && cluster.processes[0].node.cluster.isWarm)
        #expect(cluster.processes[0].node.statistics.peers.map(\.link.overflows) == [0, 0])
        #expect(cluster.processes[1].node.statistics.peers.map(\.link.overflows) == [0, 0])
    }

    @Test("A target that the same call evicts is not followed") mutating func evictedTarget() {
        var settings = CoreSettings()
        settings.policy.subscriptionsMax = 2
        cluster = TestCluster(nodes: 3, settings: settings)
        let watcher = cluster.login("bob", on: 0)
        guard case .subscribed(let evicted, _, _, _, _, _, _) = cluster.subscribe("bob", to: ["ann", "carl", "dora"], on: 0) else {
            Issue.record("not subscribed")
            return
        }
        #expect(evicted == [user("ann")])
        cluster.login("ann", on: 1)
        #expect(cluster.statuses(told: watcher, of: "ann") == [])
    }

    @Test("A session on another node receives what an answer sent the calling one") mutating func otherSession() {
        let laptop = cluster.login("bob", on: 2)
        cluster.login("ann", on: 1)
        let phone = cluster.login("bob", on: 0, platform: "web")
        cluster.subscribe("bob", to: ["ann"], on: 0, sync: true)
        #expect(cluster.statuses(told: laptop, of: "ann") == ["ONLINE"])
        #expect(cluster.statuses(told: phone, of: "ann") == ["ONLINE"])
    }

    @Test("After a crash a single node sends only newer versions than before") mutating func crashOfOne() throws {
        cluster = TestCluster(nodes: 1)
        cluster.login("ann", on: 0)
        let watcher = cluster.login("bob", on: 0)
        cluster.subscribe("bob", to: ["ann"], on: 0)
        cluster.setStatus("ann", "written", on: 0)
        cluster.advance(.milliseconds(100))
        cluster.isDiskFull = true
        cluster.close(0, .loggedOut)
        let told = cluster.clients[watcher].view["ann"]?["version"]?.textValue ?? ""
        #expect(cluster.clients[watcher].view["ann"]?["statusType"]?.textValue == "UNLOGINED")
        cluster.kill(0)
        cluster.isDiskFull = false
        cluster.now.wall -= 20_000
        try cluster.revive(0)
        #expect(cluster.record(of: "ann").customStatus == "written")
        #expect(cluster.record(of: "ann").version.text > told)
    }

    @Test("A stream is not told again what an answer has said about users whom nobody knows, also by a node that is alone")
    func blankAnswers() {
        for nodes in [1, 3] {
            var cluster = TestCluster(nodes: nodes)
            let bob = cluster.login("bob", on: 0)
            cluster.advance(.seconds(1))
            let told = cluster.clients[bob].events.count
            cluster.subscribe("bob", to: ["new1", "new2"], on: 0, sync: true)
            cluster.advance(.seconds(3))
            let names = cluster.clients[bob].events.dropFirst(told).map(\.name)
            #expect(!names.contains("onUserStatusChanged"), "\(nodes) nodes: \(names)")
            cluster.login("new1", on: nodes - 1)
            cluster.advance(.seconds(1))
            #expect(cluster.clients[bob].view["new1"]?["statusType"] == .string("ONLINE") && cluster.clients[bob].view["new2"] == nil)
        }
    }
}
