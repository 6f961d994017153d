import PresenceWire
import Testing

@testable import PresenceCore

/// After a new link both sides compare their state and send only the differences.
@Suite struct ResetTests {
    var cluster: TestCluster
    /// Owned by node 0.
    let ann: String
    let bob: String

    init() {
        cluster = TestCluster(nodes: 3)
        ann = cluster.user(ownedBy: 0)
        bob = cluster.user(ownedBy: 0, number: 1)
    }

    /// Sessions, views and lists between all nodes.
    private mutating func populate() {
        for node in 0..<3 {
            for number in 2..<6 { cluster.login(cluster.user(ownedBy: (number + node) % 3, number: number + 4 * node), on: node) }
            cluster.login("watcher\(node)", on: node)
            cluster.subscribe("watcher\(node)", to: (0..<20).map { "user\($0)" } + ["nobody"], on: node)
            cluster.subscribe("watcher\(node)", to: ["user21", "user22"], on: node)
            cluster.call(.unsubscribeUserStatus([user("user3")]), by: "watcher\(node)", on: node)
        }
        cluster.advance(.milliseconds(500))
    }

    /// The users registered since the last call.
    private func registered() -> [String] {
        (cluster.heard ?? []).flatMap { heard -> [String] in
            switch heard.message {
            case .attach(let attach): [String(attach.user.id)]
            case .watch(let watches): watches.map { String($0.user.id) }
            default: []
            }
        }
    }

    private func lists() -> [String] {
        (cluster.heard ?? []).compactMap { if case .listUpdate(let listUpdate) = $0.message { String(listUpdate.user.id) } else { nil } }
    }

    private func isComplete(_ node: Int) -> Bool { Self.isComplete(cluster.processes[node].node.edge) }

    private static func isComplete(_ edge: borrowing Edge) -> Bool {
        edge.fanOut.unconfirmedCount == 0 && edge.fanOut.staleCount == 0 && edge.sessions.registeringCount == 0
    }

    @Test("A new link with equal state sends no session, no watch and no list") mutating func equalState() {
        populate()
        cluster.heard = []
        for (from, to) in [(0, 1), (1, 0), (2, 1), (1, 2)] { cluster.link(from, to) }
        #expect(registered() == [])
        #expect(lists() == [])
        #expect((0..<3).allSatisfy(isComplete))
    }

    @Test("One changed user costs only the registration of its range") mutating func oneRange() {
        populate()
        let watcher = cluster.login("reader", on: 1)
        cluster.subscribe("reader", to: (0..<200).map { "user\($0)" }, on: 1)
        cluster.losing = [(0, 1)]
        cluster.setStatus(ann, "unheard", on: 0)
        cluster.losing = []
        #expect(cluster.clients[watcher].view[ann]?["customStatus"]?.textValue != "unheard")
        cluster.heard = []
        cluster.link(0, 1)
        #expect(cluster.clients[watcher].view[ann]?["customStatus"]?.textValue == "unheard")
        let range = SlotRanges.range(of: user(ann).slot)
        #expect(registered().contains(ann))
        #expect(registered().allSatisfy { SlotRanges.range(of: user($0).slot) == range })
        #expect(isComplete(1))
    }

    @Test("A new link repairs a lost watch") mutating func lostWatch() {
        let watcher = cluster.login("watcher", on: 1)
        cluster.losing = [(1, 0)]
        cluster.subscribe("watcher", to: [ann], on: 1)
        cluster.losing = []
        cluster.link(1, 0)
        #expect(isComplete(1))
        cluster.setStatus(ann, "heard", on: 0)
        #expect(cluster.clients[watcher].view[ann]?["customStatus"]?.textValue == "heard")
    }

    @Test("A new link repairs a lost answer about an unknown user") mutating func lostAnswer() {
        let nobody = (0...).lazy.map { "nobody\($0)" }.first { [cluster] in cluster.ownerIndex(of: $0) == 0 }!
        cluster.login("watcher", on: 1)
        cluster.advance(.milliseconds(500))
        cluster.losing = [(0, 1)]
        cluster.subscribe("watcher", to: [nobody], on: 1)
        cluster.losing = []
        cluster.link(0, 1)
        #expect(isComplete(1))
        #expect(cluster.processes[1].node.edge.fanOut.record(of: user(nobody))?.version == .zero)
    }

    @Test("A session that ended while the link was down ends") mutating func endedSession() {
        let phone = cluster.login(ann, on: 1)
        cluster.advance(.milliseconds(500))
        cluster.losing = [(1, 0)]
        cluster.lose(phone)
        cluster.losing = []
        cluster.link(1, 0)
        cluster.advance(.seconds(3))
        #expect(cluster.record(of: ann).statusType == .offline)
    }

    /// Unlike the word of a gateway that a session has ended, a logout that is asked for is asked again until it is answered.
    @Test("A logout call while the link was down does not count as disconnected") mutating func logout() {
        let phone = cluster.login(ann, on: 1)
        cluster.advance(.milliseconds(500))
        cluster.losing = [(1, 0)]
        #expect(cluster.call(.logout(cluster.clients[phone].session), by: ann, on: 1) == nil)
        cluster.lose(phone)
        cluster.losing = []
        cluster.link(1, 0)
        cluster.advance(.seconds(3))
        #expect(cluster.lastAnswer(on: 1) == .done)
        #expect(cluster.record(of: ann).statusType == .unlogined)
    }

    /// The list changed by a call on another node; the word of it was lost with the link.
    @Test("A list whose change was lost is sent again", arguments: [false, true]) mutating func lostChange(hasNextChange: Bool) {
        let phone = cluster.login(ann, on: 1)
        cluster.setStatus(bob, "hello", on: 0)
        cluster.losing = [(0, 1)]
        cluster.subscribe(ann, to: [bob], on: 2)
        cluster.losing = []
        // One that arrives does not hide the one that was lost.
        if hasNextChange { cluster.subscribe(ann, to: ["somebody"], on: 2) }
        #expect(cluster.clients[phone].view[bob] == nil)
        cluster.heard = []
        cluster.link(0, 1)
        #expect(lists() == [ann])
        #expect(cluster.clients[phone].view[bob]?["customStatus"]?.textValue == "hello")
        #expect(isComplete(1))
    }

    /// One device has its list, the word to the other one was lost.
    @Test("A new link sends the list to a second session that lacks it") mutating func secondSession() {
        cluster.setStatus(bob, "hello", on: 0)
        cluster.login(ann, on: 1)
        cluster.subscribe(ann, to: [bob], on: 1)
        cluster.losing = [(0, 1)]
        let tablet = cluster.login(ann, on: 1, platform: "web")
        cluster.losing = []
        #expect(cluster.clients[tablet].view[bob] == nil)
        cluster.link(0, 1)
        #expect(cluster.clients[tablet].view[bob]?["customStatus"]?.textValue == "hello")
    }

    @Test("No position is claimed before the answer has arrived") mutating func complete() {
        cluster.login("watcher", on: 1)
        cluster.subscribe("watcher", to: [ann], on: 1)
        cluster.advance(.milliseconds(500))
        cluster.losing = [(0, 1)]
        cluster.link(1, 0)
        #expect(cluster.processes[1].node.edge.fanOut.unconfirmedCount > 0)
        #expect(cluster.processes[1].node.edge.fanOut.staleCount > 0)
        #expect(cluster.processes[1].node.edge.fanOut.record(of: user(ann)) == nil)
        let position = cluster.processes[1].node.edge.position
        cluster.advance(.milliseconds(500))
        #expect(cluster.processes[1].node.edge.position == position)
        cluster.losing = []
        cluster.link(0, 1)
        cluster.advance(.milliseconds(500))
        #expect(isComplete(1))
        #expect(cluster.processes[1].node.edge.position > position)
    }

    @Test("The answer to an earlier question does not count") mutating func earlierAnswer() {
        cluster.login("watcher", on: 1)
        cluster.subscribe("watcher", to: [ann], on: 1)
        cluster.losing = [(0, 1)]
        cluster.link(1, 0)
        let asked = cluster.processes[1].node.edge.registrationID(of: 1)
        let hashes = cluster.processes[0].node.owner.users.registeredHashes(of: 1)
        cluster.processes[1].node.handle(.registered(registrationID: asked - 1, hashes), from: 1, at: cluster.now)
        #expect(!isComplete(1))
        cluster.processes[1].node.handle(.registered(registrationID: asked, hashes), from: 1, at: cluster.now)
        #expect(isComplete(1))
    }

    @Test("A peer that cannot answer receives everything", arguments: [0, 3, 1_024]) mutating func noAnswer(hashesCount: Int) {
        populate()
        cluster.losing = [(0, 1)]
        cluster.link(1, 0)
        cluster.losing = []
        cluster.heard = []
        let asked = cluster.processes[1].node.edge.registrationID(of: 1)
        cluster.processes[1].node.handle(
            .registered(registrationID: asked, Array(repeating: 5, count: hashesCount)), from: 1, at: cluster.now)
        cluster.advance(.milliseconds(50))
        #expect(registered().count > 5)
        #expect(isComplete(1))
    }

    /// A ring that only one side uses yet says nothing about the state of both.
    @Test("A question by another ring has an empty answer") mutating func otherRing() {
        cluster.heard = []
        cluster.processes[0].node.handle(.requestRegistered(registrationID: 7, ring: 5), from: 1, at: cluster.now)
        cluster.advance(.milliseconds(50))
        #expect(cluster.heard!.contains { $0.message == .registered(registrationID: 7, []) })
    }

    @Test("A restarted peer receives everything") mutating func restartedPeer() throws {
        let watcher = cluster.login("watcher", on: 1)
        cluster.login(ann, on: 1)
        cluster.subscribe("watcher", to: [ann, bob], on: 1)
        cluster.kill(0)
        try cluster.restart(0)
        cluster.advance(.seconds(8))
        cluster.setStatus(bob, "again", on: 0)
        #expect(cluster.clients[watcher].view[bob]?["customStatus"]?.textValue == "again")
        #expect(cluster.record(of: ann).statusType == .online)
        #expect((0..<3).allSatisfy(isComplete))
    }

    /// Clients that resume receive the time from which a record is known, so it counts as much as the version.
    @Test("The hash covers the time from which a record is known") mutating func knownSince() {
        cluster.login("watcher", on: 1)
        cluster.subscribe("watcher", to: [ann], on: 1)
        cluster.setStatus(ann, "here", on: 0)
        let index = cluster.processes[0].node.owner.index(ofKnown: user(ann))!
        cluster.processes[0].node.machines.owner.modify(index) { $0.record.knownSince = 77 }
        cluster.link(0, 1)
        #expect(cluster.processes[1].node.edge.fanOut.record(of: user(ann))?.knownSince == 77)
    }

    // MARK: Lists

    /// A change counts as sent only after the owner has written it.
    @Test("A change that waits for the disk counts as not sent") func unsentChange() throws {
        let now = Now(instant: Instant(nanoseconds: 0), wall: 1_790_000_000_000)
        var owners = Owner(clock: VersionClock(node: 1), settings: CoreSettings())
        var outbox = Outbox()
        let session = SessionID(stamp: 1, node: 2)
        let attach = Attach(session: session, user: user("ann"), platform: "ios")
        owners.attach(attach, from: 1, in: &outbox[at: now])
        var sessions = LocalSessions()
        sessions.open(attach, gateway: 0)
        #expect(!isEqual(owners.users, sessions))
        sessions.note(owners.list(of: user("ann")))
        #expect(isEqual(owners.users, sessions))
        let change = OwnerOperation.subscribe(
            [OwnerOperation.Target(user: user("bob"), delivered: .nothing)], seconds: nil, subscribeType: 1, session: .unknown,
            isCounted: false)
        let request = OwnerRequest(request: Request(id: 1, user: user("ann"), operation: change), peer: 1, now: now)
        _ = request.perform(on: &owners, into: &outbox)
        #expect(!isEqual(owners.users, sessions))
        let told = owners.releaseListUpdates(outbox.continuations.listUpdates)
        #expect(!isEqual(owners.users, sessions))
        sessions.note(try #require(told.first).listUpdate)
        #expect(isEqual(owners.users, sessions))
    }

    /// With equal hashes, sessions whose list has yet to be sent would never receive it.
    @Test("Sessions without a list differ from as many whose list is unsent", arguments: 1...3) func sessionsWithoutList(count: UInt64) {
        let now = Now(instant: Instant(nanoseconds: 0), wall: 1_790_000_000_000)
        var owners = Owner(clock: VersionClock(node: 1), settings: CoreSettings())
        var outbox = Outbox()
        var sessions = LocalSessions()
        for stamp in 1...count {
            let attach = Attach(session: SessionID(stamp: stamp, node: 2), user: user("ann"), platform: "ios")
            owners.attach(attach, from: 1, in: &outbox[at: now])
            sessions.open(attach, gateway: 0)
        }
        let change = OwnerOperation.subscribe(
            [OwnerOperation.Target(user: user("bob"), delivered: .nothing)], seconds: nil, subscribeType: 1, session: .unknown,
            isCounted: false)
        let request = OwnerRequest(request: Request(id: 1, user: user("ann"), operation: change), peer: 1, now: now)
        _ = request.perform(on: &owners, into: &outbox)
        #expect(!isEqual(owners.users, sessions))
    }

    private func isEqual(_ users: UserStore, _ sessions: LocalSessions) -> Bool {
        let slot = user("ann").slot
        return users.registeredHashes(of: 1)[SlotRanges.range(of: slot)] == sessions.fullHash(of: slot...slot) { _ in true }
    }

    /// When a slot returns to a node, no gateway holds a list that matches its earlier hash.
    @Test("A returning owner gives its lists new hashes") func returningOwner() {
        let now = Now(instant: Instant(nanoseconds: 0), wall: 1_790_000_000_000)
        var owners = Owner(clock: VersionClock(node: 1), settings: CoreSettings())
        var outbox = Outbox()
        let attach = Attach(session: SessionID(stamp: 1, node: 2), user: user("ann"), platform: "ios")
        owners.attach(attach, from: 1, in: &outbox[at: now])
        let listHash = owners.list(of: user("ann")).listHash
        owners.attach(attach, from: 1, in: &outbox[at: now])
        #expect(owners.list(of: user("ann")).listHash == listHash)
        owners.reassign({ _ in Reassignment.Role(owner: 1, decides: false) }, in: &outbox[at: now])
        owners.reassign({ _ in Reassignment.Role(owner: 0, decides: true) }, in: &outbox[at: now])
        owners.attach(attach, from: 1, in: &outbox[at: now])
        #expect(owners.list(of: user("ann")).listHash != listHash)
    }

    /// The owner of one side of a split watches the user with the owner of the healed cluster, which may hold an older record.
    @Test("A former owner sends the record it published to an owner that may hold an older one") mutating func olderOwner() {
        let ben = cluster.user(ownedBy: 1)
        cluster.subscribe(ben, to: [ann], on: 1)
        let phone = cluster.login(ann, on: 2)
        for (from, to) in [(2, 0), (0, 2), (2, 1), (1, 2)] { cluster.unlink(from, to) }
        cluster.advance(.seconds(5))
        cluster.close(phone, .loggedOut)
        cluster.advance(.seconds(70))  // Nobody watches her there any more.
        cluster.fullDisks = [0]  // It says of nothing that it has it.
        for (from, to) in [(2, 0), (0, 2), (2, 1), (1, 2)] { cluster.link(from, to) }
        let told = cluster.processes[2].node.owner.record(of: user(ann)).version
        cluster.heard = []
        cluster.login(ben, on: 2)
        cluster.advance(.seconds(5))
        let said = (cluster.heard ?? []).flatMap { heard -> [Record] in
            if case .watch(let watches) = heard.message, heard.to == 0 { watches.compactMap(\.record) } else { [] }
        }
        #expect(said.map(\.version) == [told])
    }

    /// A session that is registered after its node was declared dead would never end.
    @Test("A late message of a dead process is void") mutating func deadProcess() throws {
        let dead = cluster.processes[1].node.cluster.own.id
        cluster.kill(1)
        var writer = WireWriter()
        writer.message(.attach(Attach(session: SessionID(stamp: 7, node: 9), user: user(ann), platform: "ios")))
        try cluster.deliver(writer.bytes, from: dead, to: 0)
        cluster.advance(.milliseconds(500))
        #expect(cluster.record(of: ann).statusType == .unlogined)
    }

    @Test(
        "A batch of an earlier connection or process is void",
        arguments: [(generation: UInt64(0), number: UInt64(0), isTaken: true), (0, 1, false), (1, 0, false)])
    mutating func batchesOfEarlierConnections(generation: UInt64, number: UInt64, isTaken: Bool) throws {
        let sender = cluster.processes[1].node.cluster.own
        cluster.link(1, 0)
        cluster.setStatus(ann, "before", on: 0)
        var writer = WireWriter()
        let operation = OwnerOperation.setSelfStatus(customStatus: "said", seconds: nil)
        writer.message(.request(Request(id: .max / 2, user: user(ann), operation: operation)))
        let newest = cluster.connection(from: sender.id, to: 0)
        let connection = ConnectionID(generation: newest.generation - generation, number: newest.number - number)
        #expect(try cluster.deliver(writer.bytes, from: sender.id, to: 0, on: connection) == isTaken)
        cluster.advance(.milliseconds(500))
        #expect(cluster.record(of: ann).customStatus == (isTaken ? "said" : "before"))
    }

    @Test("A hello of an earlier connection does not make the later one void")
    mutating func lateHellos() throws {
        let sender = cluster.processes[1].node.cluster.own
        let now = cluster.now
        let late = cluster.processes[1].node.greeting(at: now)
        cluster.link(1, 0)
        let newest = cluster.connection(from: sender.id, to: 0)
        #expect(late.connection < newest)
        cluster.processes[0].node.greeted(by: late, at: now)
        #expect(cluster.connection(from: sender.id, to: 0) == newest)
    }

    @Test("A login that is read from a broken link after the logout begins no session")
    mutating func lateAttachAfterDetach() throws {
        let sender = cluster.processes[1].node.cluster.own
        let broken = cluster.connection(from: sender.id, to: 0)
        let phone = cluster.login(ann, on: 1)
        cluster.close(phone, .loggedOut)
        var writer = WireWriter()
        writer.message(.attach(Attach(session: SessionID(stamp: 7, node: sender.versionNode), user: user(ann), platform: "ios")))
        cluster.link(1, 0)
        try cluster.deliver(writer.bytes, from: sender.id, to: 0, on: broken)
        cluster.advance(.milliseconds(500))
        #expect(cluster.record(of: ann).statusType == .unlogined)
    }

    // MARK: Cost

    /// 10,000 views and 1,000 sessions of the users of one other node.
    @Test("A new link with many users costs only the digests") func largeLink() {
        var cluster = TestCluster(nodes: 2)
        let owned = (0...).lazy.map { "user\($0)" }.filter { [cluster] in cluster.ownerIndex(of: $0) == 0 }.prefix(10_000)
        let users: [String] = Array(owned)
        for user in users.prefix(1_000) { cluster.login(user, on: 1) }
        for start in stride(from: 0, to: users.count, by: 2_000) {
            cluster.login("watcher\(start)", on: 1)
            for first in stride(from: start, to: start + 2_000, by: 200) {
                cluster.subscribe("watcher\(start)", to: Array(users[first..<first + 200]), on: 1)
            }
        }
        cluster.advance(.milliseconds(500))
        cluster.bytesSent = 0
        cluster.link(1, 0)
        cluster.link(0, 1)
        #expect(cluster.bytesSent > 20_000)
        #expect(cluster.bytesSent < 60_000, "\(cluster.bytesSent) bytes")
    }
}
