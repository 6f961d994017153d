import PresenceWire
import Testing

@testable import PresenceCore

/// Blocklists (P29–P31). Ann and ben have different owners. Ben follows ann.
@Suite struct BlocklistTests {
    var cluster = TestCluster(nodes: 3)
    let ann: String
    let ben: String
    let benPhone: Int

    init() {
        ann = cluster.user(ownedBy: 0)
        ben = cluster.user(ownedBy: 1)
        cluster.login(ann, on: 1)
        benPhone = cluster.login(ben, on: 2)
        cluster.subscribe(ben, to: [ann], on: 2)
        cluster.advance(.milliseconds(100))
    }

    private mutating func set(_ settings: String) {
        cluster.call(.setAppPolicy(Array(#"{"settings":\#(settings)}"#.utf8)), by: ann, on: 0)
        cluster.advance(.milliseconds(100))
    }

    private mutating func decide(_ call: ChainCall, by name: String) -> [UInt32]? {
        cluster.call(.chain(call), by: name, on: 2)
        cluster.advance(.milliseconds(100))
        guard let outcomes = cluster.lastAnswer(on: 2)?.outcomes else { return nil }
        return outcomes.map(\.code.rawValue)
    }

    @discardableResult private mutating func add(_ target: String, by name: String) -> UInt32? {
        decide(.add(user(target), SentRequest(addTime: 0), isTwoWay: true), by: name)?.first
    }

    @discardableResult private mutating func block(_ targets: [String], by name: String, _ isBlocked: Bool = true) -> [UInt32]? {
        decide(.setBlocked(targets.map(user), isBlocked), by: name)
    }

    private func list(_ kind: Row.Kind, of name: String) -> [String] {
        cluster.processes[cluster.ownerIndex(of: name)].node.machines.owner.live(kind, of: user(name))
    }

    /// The status of ann as ben's device shows it.
    private var seenStatus: String? { cluster.clients[benPhone].view[ann]?["statusType"]?.textValue }

    private mutating func query() -> StatusType? {
        guard case .userStatusList(let records, _, _) = cluster.call(.getUserStatus([user(ann)]), by: ben, on: 2) else { return nil }
        return records.first??.statusType
    }

    @Test("The answer of a block names the time until which a dead member may show the blocker, and that of an unblock does not")
    mutating func mayBeSeenUntil() {
        let dead = cluster.processes[2].node.cluster.own
        for other in 0..<2 { cluster.losing += [(2, other), (other, 2)] }
        for index in 0..<2 {
            cluster.processes[index].node.unlinked(from: dead.id, evidence: .refused(generation: dead.generation), at: cluster.now)
        }
        cluster.settle()
        let end = cluster.now.wall + 19_000
        let done = [ChainOutcome(user: user(ben), code: .done)]
        for (isBlocked, answer) in [(true, Answer.blocked(done, remnant: .until(end))), (false, .chained(done))] {
            cluster.call(.chain(.setBlocked([user(ben)], isBlocked)), by: ann, on: 0)
            cluster.advance(.milliseconds(100))
            #expect(cluster.lastAnswer(on: 0) == .owner(answer))
        }
    }

    @Test("A block ends the friendship on both sides") mutating func friendship() {
        add(ben, by: ann)
        #expect(block([ben], by: ann) == [0])
        #expect(list(.blocked, of: ann) == [ben] && list(.friend, of: ann) == [] && list(.friend, of: ben) == [])
        #expect(block([ben], by: ann, false) == [0])
        #expect(list(.blocked, of: ann) == [] && list(.friend, of: ann) == [])
    }

    @Test("A block and a removal end a friendship whose row the friend changes before the command arrives", arguments: [true, false])
    mutating func changedMeanwhile(isBlock: Bool) {
        add(ben, by: ann)
        cluster.losing = [(0, 1)]
        cluster.call(.chain(isBlock ? .setBlocked([user(ben)], true) : .delete([user(ben)], isTwoWay: true)), by: ann, on: 0)
        cluster.advance(.milliseconds(100))
        #expect(list(.friend, of: ann) == [] && list(.friend, of: ben) == [ann])
        cluster.call(.friendCall(.createGroups(["g"], users: [user(ann)])), by: ben, on: 1)
        cluster.advance(.milliseconds(100))
        cluster.losing = []
        for (from, to) in [(0, 1), (1, 0)] { cluster.link(from, to) }
        cluster.advance(.seconds(10))
        #expect(list(.blocked, of: ann) == (isBlock ? [ben] : []))
        #expect(list(.friend, of: ann) == [] && list(.friend, of: ben) == [])
        // The next friendship is newer than the tombstones of this one.
        if isBlock { block([ben], by: ann, false) }
        #expect(add(ben, by: ann) == 0)
        cluster.advance(.seconds(10))
        #expect(list(.friend, of: ann) == [ben] && list(.friend, of: ben) == [ann])
    }

    @Test("A block of an unknown user, and its end, leave nothing with that user, however often") mutating func unknownUser() {
        let nobody = (0..<5).map { cluster.user(ownedBy: $0 % 3, number: 7 + $0) }
        var rowsCounts: [Int] = []
        for _ in 0..<3 {
            #expect(block(nobody, by: ann) == [0, 0, 0, 0, 0] && block(nobody, by: ann, false) == [0, 0, 0, 0, 0])
            cluster.advance(.seconds(1))
            rowsCounts.append(cluster.processes[0].node.statistics.chain.lists.rows)
            for process in cluster.processes {
                #expect(process.disk.rows.values.allSatisfy { row in !nobody.map(user).contains(row.user) })
            }
        }
        #expect(rowsCounts[1] == rowsCounts[0] && rowsCounts[2] == rowsCounts[0])
        #expect(rowsCounts[0] <= 5 * nobody.count)
    }

    @Test("A block of an unknown friend leaves a tombstone of the friendship on every disk") mutating func formerUnknownFriend() {
        let nobody = cluster.user(ownedBy: 2, number: 7)
        #expect(add(nobody, by: ann) == 0)
        #expect(list(.friend, of: nobody) == [ann])
        #expect(block([nobody], by: ann) == [0])
        cluster.advance(.seconds(1))
        for process in cluster.processes {
            let rows = process.disk.rows.values.filter { $0.user == user(nobody) && $0.kind == .friend }
            #expect(rows.count == 1 && rows.allSatisfy { $0.value == nil })
        }
    }

    @Test("While a node is missing, a block of an unknown user leaves tombstones: that node may have older rows")
    mutating func missingNode() {
        let nobody = cluster.user(ownedBy: 1, number: 7)
        cluster.kill(2)
        cluster.advance(.seconds(6))
        cluster.call(.chain(.setBlocked([user(nobody)], true)), by: ann, on: 0)
        cluster.advance(.seconds(1))
        let kinds = Set(cluster.processes[1].disk.rows.values.filter { $0.user == user(nobody) }.map(\.kind))
        #expect(kinds.isSuperset(of: [.friend, .pendencyIn, .pendencyOut]))
    }

    @Test("A block ends the requests of both users, on both sides", arguments: [true, false]) mutating func requests(isOwn: Bool) {
        set(#"{"profile.defaultAllowType":"confirm"}"#)
        if isOwn { add(ben, by: ann) } else { add(ann, by: ben) }
        block([ben], by: ann)
        for name in [ann, ben] { for kind in [Row.Kind.pendencyIn, .pendencyOut] { #expect(list(kind, of: name) == []) } }
    }

    @Test("Neither side can add the other while one blocks (30515, 30525), nor accept an earlier request") mutating func adding() {
        block([ben], by: ann)
        #expect(add(ben, by: ann) == 30_515)
        #expect(add(ann, by: ben) == 30_525)
        for name in [ann, ben] { #expect(list(.friend, of: name) == []) }
        #expect(decide(.respond(user(ann), .accept(remark: "", isTwoWay: true)), by: ben) == [30_614])
        block([ben], by: ann, false)
        #expect(add(ann, by: ben) == 0)
    }

    @Test("A blocked user sees the blocker OFFLINE at once, and ONLINE again after the block", arguments: [true, false])
    mutating func status(hides: Bool) {
        if !hides { set(#"{"block.hidesStatus":false}"#) }
        #expect(seenStatus == "ONLINE")
        block([ben], by: ann)
        #expect(seenStatus == (hides ? "OFFLINE" : "ONLINE"))
        #expect(query() == (hides ? .offline : .online))
        cluster.setStatus(ann, "secret", on: 1)
        #expect((cluster.clients[benPhone].view[ann]?["customStatus"]?.textValue == "secret") == !hides)
        block([ben], by: ann, false)
        #expect(seenStatus == "ONLINE" && query() == .online)
    }

    @Test("A policy that stops hiding shows the status to blocked users, and one that starts again hides it")
    mutating func policyChanges() {
        block([ben], by: ann)
        #expect(query() == .offline)
        for (hides, status) in [(false, StatusType.online), (true, .offline)] {
            cluster.call(.setAppPolicy(Array(#"{"settings":{"block.hidesStatus":\#(hides)}}"#.utf8)), by: ann, on: 0)
            cluster.advance(.seconds(3))
            #expect(query() == status)
        }
    }

    @Test("A policy that begins to hide blockers soon after a change shows blocked users a loss", arguments: [false, true])
    mutating func policyChangesSoon(endsFriendship: Bool) throws {
        set(#"{"block.hidesStatus":false}"#)
        if endsFriendship { add(ben, by: ann) }
        block([ben], by: ann)
        cluster.advance(.seconds(5))
        cluster.setStatus(ann, "busy", on: 0)
        cluster.advance(.milliseconds(500))
        let changedAt = cluster.now.wall
        set(#"{"block.hidesStatus":true}"#)
        cluster.advance(.milliseconds(1_800))
        #expect(seenStatus == "ONLINE" && query() == .online)
        cluster.advance(.milliseconds(400))
        let view = try #require(cluster.clients[benPhone].view[ann])
        let (seenAt, goneAt) = (view["lastSeenTime"]!.number, view["lastOnlineStatusUpdateTime"]!.number)
        #expect(seenStatus == "OFFLINE" && query() == .offline)
        #expect(goneAt - seenAt == 2_000 && seenAt >= changedAt)
    }

    @Test("An owner that kept the user for another one while the policy changed follows it") mutating func policyOfNextOwner() {
        block([ben], by: ann)
        let owner = cluster.ownerIndex(of: ann)
        // The policy arrives everywhere, but the owner dies before it has shown its users again.
        cluster.losing = (0..<3).filter { $0 != owner }.map { (owner, $0) }
        cluster.call(.setAppPolicy(Array(#"{"settings":{"block.hidesStatus":false}}"#.utf8)), by: ben, on: (owner + 1) % 3)
        cluster.advance(.milliseconds(100))
        cluster.kill(owner)
        cluster.losing = []
        cluster.advance(.seconds(10))
        #expect(query() == .online)
    }

    /// The visibility names every user on the list.
    @Test("A call that blocks or unblocks many users changes the visibility once", arguments: [true, false])
    mutating func manyUsers(isBlocked: Bool) throws {
        let others = (0..<100).map { cluster.user(ownedBy: 2, number: $0) }
        if !isBlocked { block(others, by: ann) }
        let owner = cluster.ownerIndex(of: ann)
        cluster.heard = []
        #expect(block(others, by: ann, isBlocked) == Array(repeating: 0, count: 100))
        let rows = try #require(cluster.heard).flatMap { _, _, message in
            if case .replicate(_, let rows) = message { rows.filter { $0.kind == .visibility && $0.user == user(ann) } } else { [Row]() }
        }
        #expect(rows.count == 2, "one to each of the two replicas")
        #expect(cluster.processes[owner].node.owner.record(of: user(ann)).privacy?.visibility.blocked.count == (isBlocked ? 100 : 0))
    }

    /// The reasons that the owner of ann gives for what ben sees of her.
    private mutating func reasons() throws -> [String] {
        cluster.call(.explain(user(ann)), by: ben, on: 2)
        cluster.advance(.milliseconds(50))
        guard case .explained(let parts) = cluster.lastAnswer(on: 2), let part = parts.first(where: { $0.part == .target }) else {
            return []
        }
        return try JSONReader.read(part.json)["because"]!.elements.map(\.textValue)
    }

    @Test("An explanation names the block and its time, whether it hides the status or not", arguments: [true, false])
    mutating func explainedBlock(hides: Bool) throws {
        #expect(try !reasons().contains { $0.contains("blocked") })
        if !hides { set(#"{"block.hidesStatus":false}"#) }
        block([ben], by: ann)
        let since = try BlockedUser(cluster.processes[0].node.owner.liveRows(.blocked, of: user(ann))[0]).since
        let effect = hides ? "hides the status (block.hidesStatus)" : "hides nothing, because block.hidesStatus is off"
        #expect(try reasons().contains("\(ann) has blocked \(ben) since \(since), which \(effect)"))
        block([ben], by: ann, false)
        #expect(try !reasons().contains { $0.contains("blocked") })
    }

    @Test("An explanation names a decision that waits for the owner of the other user, until that owner has answered")
    mutating func explainedDecision() throws {
        cluster.losing = [(0, 1)]
        cluster.call(.chain(.add(user(ben), SentRequest(addTime: 0), isTwoWay: true)), by: ann, on: 2)
        cluster.advance(.milliseconds(100))
        let words = "a decision of \(ann) about \(ben) (add) waits for the owner of \(ben) since "
        #expect(try reasons().contains { $0.hasPrefix(words) })
        cluster.losing = []
        for (from, to) in [(0, 1), (1, 0)] { cluster.link(from, to) }
        cluster.advance(.seconds(2))
        #expect(try !reasons().contains { $0.contains("decision") })
    }

    @Test("For visibility friends an explanation names the friendship and its time, or says that there is none")
    mutating func explainedFriendship() throws {
        cluster.call(.setVisibility(Visibility.Change(mode: .friends)), by: ann, on: 0)
        cluster.advance(.milliseconds(50))
        #expect(try reasons().contains("\(ann) is visible to friends, and \(ben) is not in the friend list"))
        add(ben, by: ann)
        let since = try Friend(cluster.processes[0].node.owner.liveRows(.friend, of: user(ann))[0]).addTime
        #expect(try reasons().contains("\(ann) is visible to friends, and \(ben) is in the friend list since \(since)"))
    }

    @Test("The blocker still sees the blocked user") mutating func oneSide() {
        cluster.subscribe(ann, to: [ben], on: 1)
        block([ben], by: ann)
        guard case .userStatusList(let records, _, _) = cluster.call(.getUserStatus([user(ben)]), by: ann, on: 1) else {
            Issue.record("the query is refused")
            return
        }
        #expect(records.map { $0?.statusType } == [.online])
    }

    @Test("Each user of a call has a result: blocked already 31307, not blocked 31503, list full 30013") mutating func results() {
        set(#"{"blockList.max":2}"#)
        let others = (0..<3).map { cluster.user(ownedBy: 2, number: $0) }
        #expect(block([others[0]], by: ann) == [0])
        #expect(block(others, by: ann) == [31_307, 0, 30_013])
        #expect(list(.blocked, of: ann) == others[..<2].sorted())
        #expect(block([others[2], others[0]], by: ann, false) == [31_503, 0])
        #expect(list(.blocked, of: ann) == [others[1]])
    }

    @Test("The blocklist is read by pages") mutating func pages() throws {
        let others = (0..<3).map { cluster.user(ownedBy: 2, number: $0) }.sorted()
        block(others, by: ann)
        func page(_ cursor: String?, _ cluster: inout TestCluster) throws -> JSONValue {
            let answer = cluster.call(.friendCall(.blocked(after: cursor, limit: 2)), by: ann, on: 2)
            guard case .owner(.friendCalled(let result)) = answer else { return .null }
            return try JSONReader.read(result.json)
        }
        let first = try page(nil, &cluster)
        #expect(first["userIDs"]?.elements == others[..<2].map { .string($0) })
        let second = try page(first["cursor"]?.textValue, &cluster)
        #expect(second["userIDs"]?.elements == [.string(others[2])] && second["cursor"] == nil)
    }

    @Test("Whichever owner dies in the middle of a block, both sides end as blocked", arguments: [0, 1]) mutating func owners(dies: Int)
        throws
    {
        add(ben, by: ann)
        cluster.losing = dies == 0 ? [(0, 1)] : [(1, 0)]
        cluster.call(.chain(.setBlocked([user(ben)], true)), by: ann, on: 2)
        cluster.advance(.milliseconds(200))
        cluster.kill(dies)
        cluster.losing = []
        cluster.advance(.seconds(8))
        #expect(list(.blocked, of: ann) == [ben])
        for name in [ann, ben] { #expect(list(.friend, of: name) == []) }
        #expect(list(.chainOutbox, of: ann) == [])
        #expect(query() == .offline)
    }
}

extension Owner {
    /// The live keys of a user's list here, as owner or replica.
    fileprivate func live(_ kind: Row.Kind, of user: UserID) -> [String] {
        index(ofKnown: user).map { users[$0].list(kind).entries.filter { !$0.isRemoved }.map(\.key) } ?? []
    }
}
