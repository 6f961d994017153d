import PresenceWire
import Testing

@testable import ClusterSimulation
@testable import PresenceCore

/// Rows of the relationship chain that an owner learns late, and decisions that take effect after their end.
///
/// Ann and ben have different owners.
@Suite struct ChainFaultsTests {
    var cluster = TestCluster(nodes: 3)
    let ann: String
    let ben: String

    init() {
        ann = cluster.user(ownedBy: 0)
        ben = cluster.user(ownedBy: 1)
    }

    private mutating func set(_ settings: String) {
        cluster.call(.setAppPolicy(Array(#"{"settings":\#(settings)}"#.utf8)), by: ann, on: 0)
        cluster.advance(.milliseconds(100))
    }

    private func code(_ answer: CallAnswer?) -> UInt32? {
        guard let outcomes = answer?.outcomes else { return nil }
        return outcomes.first?.code.rawValue
    }

    @discardableResult private mutating func add(_ target: String, by name: String, on node: Int = 0) -> UInt32? {
        cluster.call(.chain(.add(user(target), SentRequest(addTime: 0), isTwoWay: true)), by: name, on: node)
        cluster.advance(.milliseconds(50))
        return code(cluster.lastAnswer(on: node))
    }

    private func list(_ kind: Row.Kind, of name: String) -> [String] {
        cluster.processes[cluster.ownerIndex(of: name)].node.owner.liveRows(kind, of: user(name)).map(\.key)
    }

    private mutating func read(_ query: FriendQuery) throws -> JSONValue {
        guard case .owner(.listed(let json)) = cluster.call(.getFriendList(query), by: ann, on: 0) else { return .null }
        return try JSONReader.read(json)
    }

    /// A node sends ann's owner rows that no call waits for.
    private mutating func send(_ rows: [Row], from sender: Int) {
        let id = cluster.processes[sender].id
        let peer = cluster.processes[0].node.cluster.peers.index(of: id)!
        cluster.processes[0].node.handle(.replicate(ticket: nil, rows), from: peer, at: cluster.now)
        cluster.processes[0].node.run(at: cluster.now)
        cluster.settle()
    }

    /// A friend whom another node has added at some time before now.
    private func row(_ friend: String, before milliseconds: Milliseconds) -> Row {
        let time = cluster.now.wall - milliseconds
        return Row(Friend(addTime: time - 1), of: user(ann), key: friend, version: Version(milliseconds: time, counter: 0, node: 77))
    }

    @Test(
        "A client that has passed the version of a row which the owner learns later reads the whole list, and once only",
        arguments: [1, 3])
    mutating func lateRows(count: Int) throws {
        #expect(add(ben, by: ann) == 0)
        cluster.advance(.milliseconds(200))
        let sequence = try read(FriendQuery())["seq"]!.textValue
        send((0..<count).map { row("late\($0)", before: 1_000 + Milliseconds($0)) }, from: 1)
        let changes = try read(FriendQuery(since: sequence))
        #expect(changes["isFull"] == .bool(true) && changes["friendList"]?.elements.count == count + 1)
        let next = changes["seq"]!.textValue
        #expect(next != sequence)
        #expect(try read(FriendQuery(since: next))["isFull"] == .bool(false))
    }

    @Test("A row that a replica alone learns late reaches the owner, and its clients read the whole list") mutating func lateAtReplica()
        throws
    {
        #expect(add(ben, by: ann) == 0)
        cluster.advance(.milliseconds(200))
        let sequence = try read(FriendQuery())["seq"]!.textValue
        let sender = cluster.processes[2].node.cluster.peers.index(of: cluster.processes[1].id)!
        cluster.processes[2].node.handle(.replicate(ticket: nil, [row("late", before: 1_000)]), from: sender, at: cluster.now)
        cluster.processes[2].node.run(at: cluster.now)
        cluster.settle()
        let changes = try read(FriendQuery(since: sequence))
        #expect(changes["isFull"] == .bool(true) && changes["friendList"]?.elements.count == 2)
    }

    @Test("Friends who join a group by one call are changes since the sequence before") mutating func joinedTogether() throws {
        let cid = cluster.user(ownedBy: 2)
        for other in [ben, cid] { #expect(add(other, by: ann) == 0) }
        cluster.call(.friendCall(.createGroups(["g"], users: [])), by: ann, on: 0)
        let sequence = try read(FriendQuery())["seq"]!.textValue
        cluster.call(.friendCall(.addToGroup("g", [user(ben), user(cid)])), by: ann, on: 0)
        let changes = try read(FriendQuery(since: sequence))
        #expect(changes["isFull"] == .bool(false) && changes["friendList"]?.elements.count == 2)
    }

    @Test("A row that is newer than all others of the list is one change") mutating func newRow() throws {
        #expect(add(ben, by: ann) == 0)
        let sequence = try read(FriendQuery())["seq"]!.textValue
        cluster.advance(.milliseconds(200))
        send([row("new", before: 1)], from: 1)
        let changes = try read(FriendQuery(since: sequence))
        #expect(changes["isFull"] == .bool(false))
        #expect(changes["friendList"]?.elements.map { $0["userID"]!.textValue } == ["new"])
    }

    @Test("A late copy of a command whose first copy was refused leaves no row on either side", arguments: ["any", "confirm"])
    mutating func lateCopy(allowType: String) throws {
        set(#"{"profile.defaultAllowType":"deny"}"#)
        cluster.heard = []
        #expect(add(ben, by: ann) == 30_516)
        let copy = cluster.heard!.first { if case .chainApply = $0.message { true } else { false } }!.message
        let phone = cluster.login(ben, on: 2, platform: "phone")
        set(#"{"profile.defaultAllowType":"\#(allowType)"}"#)
        let peer = cluster.processes[1].node.cluster.peers.index(of: cluster.processes[0].id)!
        cluster.processes[1].node.handle(copy, from: peer, at: cluster.now)
        cluster.processes[1].node.run(at: cluster.now)
        cluster.advance(.seconds(2))
        for name in [ann, ben] {
            for kind in [Row.Kind.friend, .pendencyIn, .pendencyOut, .chainOutbox] { #expect(list(kind, of: name) == []) }
        }
        // The session was told of the row and of its end.
        let events = cluster.clients[phone].events.filter { $0.name.hasPrefix("onFriend") && $0.data["fromSeq"] != nil }
        let state = cluster.processes[1].node.machines.owner.relationship(of: user(ben))
        #expect(events.count == 2)
        #expect(events.last?.data["seq"]?.textValue == state.sequence(of: allowType == "any" ? .friends : .requests))
        // A later copy does not bring it back, and ann's owner hears that it was refused.
        cluster.processes[1].node.handle(copy, from: peer, at: cluster.now)
        cluster.processes[1].node.run(at: cluster.now)
        cluster.advance(.seconds(1))
        #expect(list(.friend, of: ben) == [] && list(.pendencyIn, of: ben) == [])
        #expect(add(ben, by: ann) == (allowType == "any" ? 0 : 30_539))
    }

    @Test("A node that wakes does not apply a command that may have waited for it: its sender repeats what still counts")
    mutating func lateCopyAfterPause() throws {
        set(#"{"profile.defaultAllowType":"deny"}"#)
        cluster.heard = []
        #expect(add(ben, by: ann) == 30_516)
        let copy = cluster.heard!.first { if case .chainApply = $0.message { true } else { false } }!.message
        set(#"{"profile.defaultAllowType":"confirm"}"#)
        cluster.advance(.seconds(3), step: .seconds(3))
        let peer = cluster.processes[1].node.cluster.peers.index(of: cluster.processes[0].id)!
        cluster.processes[1].node.handle(copy, from: peer, at: cluster.now)
        cluster.processes[1].node.run(at: cluster.now)
        cluster.settle()
        #expect(list(.pendencyIn, of: ben) == [])
        cluster.advance(.seconds(1))
        #expect(add(ben, by: ann) == 30_539)
        #expect(list(.pendencyIn, of: ben) == [ann])
    }

    /// Its gateway may have repeated it to another owner, and has the answer.
    @Test("A node that wakes sends back a change that may have waited for it, and carries it out once it is repeated")
    mutating func callAfterPause() throws {
        cluster.advance(.seconds(3), step: .seconds(3))
        let change = OwnerOperation.chain(.add(user(ben), SentRequest(addTime: 0), isTwoWay: true))
        let peer = cluster.processes[0].node.cluster.peers.index(of: cluster.processes[2].id)!
        cluster.heard = []
        cluster.processes[0].node.handle(.request(Request(id: 1, user: user(ann), operation: change)), from: peer, at: cluster.now)
        cluster.processes[0].node.run(at: cluster.now)
        cluster.settle()
        #expect(cluster.heard!.contains { $0.message == .answer(id: 1, .sentBack) })
        cluster.advance(.seconds(1))
        #expect(list(.friend, of: ann) == [] && list(.friend, of: ben) == [])
        cluster.advance(.seconds(3), step: .seconds(3))
        #expect(add(ben, by: ann, on: 2) == nil)
        cluster.advance(.seconds(1))
        #expect(code(cluster.lastAnswer(on: 2)) == 0)
        #expect(list(.friend, of: ann) == [ben] && list(.friend, of: ben) == [ann])
    }

    /// A link may have been silent meanwhile. The call was answered by another owner, or refused.
    @Test("A change that was on its way for longer than a call lasts is sent back", arguments: [(5_000, true), (5_001, false)])
    mutating func callIsOver(age: Milliseconds, isCarriedOut: Bool) {
        let change = OwnerOperation.chain(.add(user(ben), SentRequest(addTime: 0), isTwoWay: true))
        let peer = cluster.processes[0].node.cluster.peers.index(of: cluster.processes[2].id)!
        let now = cluster.processes[0].node.owner.clock.milliseconds(at: cluster.now.wall)
        let request = Request(
            id: 1, user: user(ann), operation: change, begunAt: Version(milliseconds: now - age, counter: 0, node: 77))
        cluster.heard = []
        cluster.processes[0].node.handle(.request(request), from: peer, at: cluster.now)
        cluster.processes[0].node.run(at: cluster.now)
        cluster.settle()
        #expect(cluster.heard!.contains { $0.message == .answer(id: 1, .sentBack) } != isCarriedOut)
        #expect(list(.friend, of: ann) == (isCarriedOut ? [ben] : []))
    }

    /// An earlier copy was refused, and the rows of that end are on their way to the disks.
    @Test("An answer that comes while a decision ends leaves it unresolved: it may be that of a later copy")
    mutating func answerWhileEnding() throws {
        cluster.losing = [(0, 1)]
        cluster.call(.chain(.add(user(ben), SentRequest(addTime: 0), isTwoWay: true)), by: ann, on: 0)
        cluster.settle()
        let pair = ChainPair(user: user(ann), other: user(ben))
        let version = try #require(cluster.processes[0].node.machines.owner.outboxCommand(of: pair)?.version)
        let peer = cluster.processes[0].node.cluster.peers.index(of: cluster.processes[2].id)!
        cluster.heard = []
        for result in [ChainResult.refused(.blockedByOther), .pending(nickname: "")] {
            let applied = ChainApplied(pair: pair, version: version, result: result, clock: .zero)
            cluster.processes[0].node.handle(.chainApplied(applied), from: peer, at: cluster.now)
        }
        cluster.processes[0].node.run(at: cluster.now)
        cluster.settle()
        #expect(code(cluster.lastAnswer(on: 0)) == ChainCode.blockedByOther.rawValue)
        let asked = cluster.heard!.filter {
            if case .chainVerify(let verify) = $0.message { verify.verdict == .isUnresolved } else { false }
        }
        #expect(asked.map(\.to) == [2])
    }

    /// The call was repeated to another owner of ann. That owner has made the later decision by it.
    @Test("An addition of an earlier decision does not take effect beside a later request, whatever the rules say by now")
    mutating func lateAttempt() {
        set(#"{"profile.defaultAllowType":"confirm"}"#)
        let version = Version(milliseconds: cluster.now.wall, counter: 0, node: 77)
        cluster.advance(.milliseconds(10))
        #expect(add(ben, by: ann) == 30_539)
        set(#"{"profile.defaultAllowType":"any"}"#)
        let command = OutboxCommand(.add(SentRequest(addTime: 0), isTwoWay: true), version: version, begunAt: version.milliseconds)
        let peer = cluster.processes[1].node.cluster.peers.index(of: cluster.processes[0].id)!
        let apply = ChainApply(pair: ChainPair(user: user(ann), other: user(ben)), command: command)
        cluster.heard = []
        cluster.processes[1].node.handle(.chainApply(apply), from: peer, at: cluster.now)
        cluster.processes[1].node.run(at: cluster.now)
        cluster.settle()
        let results = cluster.heard!.compactMap { message -> ChainResult? in
            if case .chainApplied(let applied) = message.message { applied.result } else { nil }
        }
        #expect(results == [.refused(.unavailable)])
        #expect(list(.friend, of: ben) == [] && list(.pendencyIn, of: ben) == [ann])
    }

    @Test("A node that does not own ben removes a row that does not count, tells the owner, and has no unresolved decision any more")
    mutating func unresolvedAtReplica() throws {
        let pair = ChainPair(user: user(ann), other: user(ben))
        let version = Version(milliseconds: cluster.now.wall - 11_000, counter: 0, node: 77)
        let row = Row(Friend(addTime: version.milliseconds), of: user(ben), key: ann, version: version)
        let peer = cluster.processes[2].node.cluster.peers.index(of: cluster.processes[0].id)!
        cluster.processes[2].node.handle(.replicate(ticket: nil, [row]), from: peer, at: cluster.now)
        cluster.processes[2].node.handle(
            .chainVerify(ChainVerify(pair: pair, version: version, verdict: .isUnresolved)), from: peer, at: cluster.now)
        cluster.processes[2].node.run(at: cluster.now)
        #expect(cluster.processes[2].node.owner.liveRows(.friend, of: user(ben)).map(\.key) == [ann])
        #expect(cluster.processes[2].node.unresolvedDecisionsCount == 1)
        cluster.advance(.milliseconds(500))
        for index in [1, 2] {
            let entry = try #require(tombstone(.friend, of: ben, about: ann, at: index))
            #expect(entry == version.voidStamp)
        }
        cluster.advance(.seconds(1))
        #expect(cluster.processes.map { $0.node.unresolvedDecisionsCount } == [0, 0, 0])
    }

    @Test("A node asks about a command whose rows reached no second disk in time") mutating func unresolvedAtLonelyNode() {
        cluster.losing = [(1, 0), (1, 2)]
        let version = Version(milliseconds: cluster.now.wall, counter: 0, node: 77)
        let command = OutboxCommand(.add(SentRequest(addTime: 0), isTwoWay: true), version: version, begunAt: version.milliseconds)
        let peer = cluster.processes[1].node.cluster.peers.index(of: cluster.processes[0].id)!
        let apply = ChainApply(pair: ChainPair(user: user(ann), other: user(ben)), command: command)
        cluster.processes[1].node.handle(.chainApply(apply), from: peer, at: cluster.now)
        cluster.processes[1].node.run(at: cluster.now)
        cluster.advance(CoreSettings().replicationTimeout + .milliseconds(100))
        #expect(list(.friend, of: ben) == [ann])
        cluster.losing = []
        for node in [0, 2] {
            cluster.unlink(1, node)
            cluster.link(1, node)
        }
        cluster.advance(.seconds(12))
        #expect(list(.friend, of: ben) == [])
    }

    /// The stamp of a tombstone in a list of a user at a node; nil for none.
    private func tombstone(_ kind: Row.Kind, of name: String, about other: String, at node: Int) -> UInt64? {
        guard let index = cluster.processes[node].node.owner.index(ofKnown: user(name)) else { return nil }
        let entry = cluster.processes[node].node.owner.users[index].list(kind).entry(for: other)
        return entry.flatMap { $0.isRemoved ? $0.version.stamp : nil }
    }

    /// Another node owns ben by now, and may own him only until this node is reachable again.
    @Test("The node that has applied a decision which is not open any more asks about it, whichever node owns the other user")
    mutating func lateAnswerOfEarlierOwner() {
        let peer = cluster.processes[0].node.cluster.peers.index(of: cluster.processes[2].id)!
        let pair = ChainPair(user: user(ann), other: user(ben))
        let version = Version(milliseconds: cluster.now.wall - 1_000, counter: 0, node: 77)
        cluster.heard = []
        let applied = ChainApplied(pair: pair, version: version, result: .pending(nickname: ""), clock: .zero)
        cluster.processes[0].node.handle(.chainApplied(applied), from: peer, at: cluster.now)
        cluster.processes[0].node.run(at: cluster.now)
        cluster.settle()
        let asked = cluster.heard!.filter {
            if case .chainVerify(let verify) = $0.message { verify.verdict == .isUnresolved } else { false }
        }
        #expect(asked.map(\.from) == [0] && asked.map(\.to) == [2])
    }

    @Test("A repeated call joins the open decision of its own first attempt, and waits for any other one", arguments: [true, false])
    mutating func repeatedCall(isSame: Bool) {
        set(#"{"profile.defaultAllowType":"confirm"}"#)
        #expect(add(ann, by: ben) == 30_539)
        cluster.losing = [(0, 1), (1, 0)]
        cluster.call(.chain(.respond(user(ben), .accept(remark: "", isTwoWay: false))), by: ann, on: 0)
        sendAgain(.respond(user(ben), .accept(remark: "", isTwoWay: !isSame)), begunAt: .zero)
        cluster.losing = []
        for (from, to) in [(0, 1), (1, 0)] { cluster.link(from, to) }
        cluster.advance(.seconds(3))
        #expect(codesHeard() == [isSame ? 0 : 30_614])
        #expect(list(.friend, of: ben) == [ann] && list(.friend, of: ann) == [])
    }

    @Test("A repeated approval or rejection is answered 30614 if its owner has never had the request", arguments: [true, false])
    mutating func repeatedResponseWithoutRequest(isApproval: Bool) {
        let response = ChainCall.respond(user(ben), isApproval ? .accept(remark: "", isTwoWay: false) : .reject)
        sendAgain(response, begunAt: Version(milliseconds: cluster.now.wall, counter: 0, node: 77))
        cluster.advance(.seconds(1))
        #expect(codesHeard() == [30_614])
    }

    @Test(
        "A repeated approval or rejection is answered 0 if the request has ended since the call began, and 30614 if before",
        arguments: [true, false], [true, false])
    mutating func repeatedResponse(isApproval: Bool, hasEndedSince: Bool) {
        let response = ChainCall.respond(user(ben), isApproval ? .accept(remark: "", isTwoWay: false) : .reject)
        set(#"{"profile.defaultAllowType":"confirm"}"#)
        #expect(add(ann, by: ben) == 30_539)
        let before = Version(milliseconds: cluster.now.wall, counter: 0, node: 77)
        cluster.advance(.milliseconds(10))
        cluster.call(.chain(response), by: ann, on: 0)
        cluster.advance(.milliseconds(60))
        #expect(code(cluster.lastAnswer(on: 0)) == 0)
        let after = Version(milliseconds: cluster.now.wall, counter: 0, node: 77)
        sendAgain(response, begunAt: hasEndedSince ? before : after)
        cluster.advance(.seconds(1))
        #expect(codesHeard() == [hasEndedSince ? 0 : 30_614])
    }

    @Test(
        "While ann's later request waits, a repeated request is answered 30539, and a repeated block 30008",
        arguments: [true, false])
    mutating func overtaken(isRequest: Bool) {
        set(#"{"profile.defaultAllowType":"confirm"}"#)
        let begunAt = Version(milliseconds: cluster.now.wall, counter: 0, node: 77)
        cluster.advance(.milliseconds(10))
        #expect(add(ben, by: ann) == 30_539)
        sendAgain(isRequest ? .add(user(ben), SentRequest(addTime: 0), isTwoWay: true) : .setBlocked([user(ben)], true), begunAt: begunAt)
        cluster.advance(.seconds(1))
        #expect(codesHeard() == [isRequest ? 30_539 : 30_008])
        #expect(list(.blocked, of: ann) == [])
    }

    /// Another owner of ann has made the other decision, on the other side of a split.
    @Test("A block whose decision another one replaces is not answered with the result of that one") mutating func replacedDecision() {
        set(#"{"profile.defaultAllowType":"confirm"}"#)
        cluster.losing = [(0, 1), (1, 0)]
        cluster.call(.chain(.setBlocked([user(ben)], true)), by: ann, on: 0)
        cluster.advance(.milliseconds(100))
        #expect(cluster.lastAnswer(on: 0) == nil)
        let version = Version(milliseconds: cluster.now.wall, counter: 0, node: 77)
        let command = OutboxCommand(.add(SentRequest(addTime: 0), isTwoWay: true), version: version, begunAt: version.milliseconds)
        send([Row(command, of: user(ann), key: ben, version: version)], from: 2)
        cluster.losing = []
        for (from, to) in [(0, 1), (1, 0)] { cluster.link(from, to) }
        cluster.advance(.seconds(2))
        #expect(code(cluster.lastAnswer(on: 0)) == 30_008)
        #expect(list(.blocked, of: ann) == [ben])
    }

    /// The third node repeats a call of ann at her owner.
    private mutating func sendAgain(_ call: ChainCall, begunAt: Version) {
        let request = Request(id: 1 << 40, user: user(ann), operation: .chain(call), begunAt: begunAt, isRepeated: true)
        let peer = cluster.processes[0].node.cluster.peers.index(of: cluster.processes[2].id)!
        cluster.heard = []
        cluster.processes[0].node.handle(.request(request), from: peer, at: cluster.now)
        cluster.processes[0].node.run(at: cluster.now)
        cluster.settle()
    }

    /// The results that the third node has heard.
    private func codesHeard() -> [UInt32] {
        cluster.heard!.compactMap { message in
            guard case .answer(1 << 40, .chained(let outcomes)) = message.message else { return nil }
            return outcomes.first?.code.rawValue
        }
    }

    @Test("An owner says that it has applied a command when a second disk has the rows") mutating func appliedWhenDurable() throws {
        cluster.heard = []
        #expect(add(ben, by: ann) == 0)
        let heard = cluster.heard!
        let apply = try #require(heard.firstIndex { if case .chainApply = $0.message { true } else { false } })
        let applied = try #require(heard.firstIndex { if case .chainApplied = $0.message { true } else { false } })
        let replicated = try #require(heard[apply...].firstIndex { if case .replicated = $0.message { $0.to == 1 } else { false } })
        #expect(replicated < applied)
    }

    @Test("A late copy of a command that has taken effect changes nothing") mutating func lateCopyOfDone() throws {
        cluster.heard = []
        #expect(add(ben, by: ann) == 0)
        let copy = cluster.heard!.first { if case .chainApply = $0.message { true } else { false } }!.message
        let peer = cluster.processes[1].node.cluster.peers.index(of: cluster.processes[0].id)!
        cluster.processes[1].node.handle(copy, from: peer, at: cluster.now)
        cluster.processes[1].node.run(at: cluster.now)
        cluster.advance(.seconds(2))
        #expect(list(.friend, of: ann) == [ben] && list(.friend, of: ben) == [ann])
    }

    /// Ben has never logged in, so the block leaves no tombstone with him.
    @Test("A late copy of a refused request does not make a friend of a user who was blocked since", arguments: ["any", "confirm"])
    mutating func lateCopyBeforeBlock(allowType: String) throws {
        set(#"{"profile.defaultAllowType":"deny"}"#)
        cluster.heard = []
        #expect(add(ben, by: ann) == 30_516)
        let copy = cluster.heard!.first { if case .chainApply = $0.message { true } else { false } }!.message
        cluster.call(.chain(.setBlocked([user(ben)], true)), by: ann, on: 0)
        set(#"{"profile.defaultAllowType":"\#(allowType)"}"#)
        let peer = cluster.processes[1].node.cluster.peers.index(of: cluster.processes[0].id)!
        cluster.processes[1].node.handle(copy, from: peer, at: cluster.now)
        cluster.processes[1].node.run(at: cluster.now)
        cluster.advance(.seconds(2))
        #expect(list(.blocked, of: ann) == [ben])
        #expect(list(.friend, of: ben) == [] && list(.pendencyIn, of: ben) == [])
    }

    @Test(
        "A command that is repeated after ben's setting has changed has the result of the rows that it has left",
        arguments: [
            ("ANY", "CONFIRM", true), ("ANY", "CONFIRM", false), ("CONFIRM", "ANY", true), ("CONFIRM", "ANY", false),
            ("CONFIRM", "DENY", true), ("ANY", "DENY", true), ("ANY", "DENY", false),
        ])
    mutating func changedRules(first: String, second: String, isTwoWay: Bool) {
        cluster.processes[1].node.set(first, of: ben)
        cluster.losing = [(1, 0)]
        cluster.call(.chain(.add(user(ben), SentRequest(addTime: 0), isTwoWay: isTwoWay)), by: ann, on: 0)
        cluster.advance(.milliseconds(200))
        #expect(cluster.lastAnswer(on: 0) == nil)
        cluster.processes[1].node.set(second, of: ben)
        cluster.losing = []
        cluster.link(0, 1)
        cluster.link(1, 0)
        cluster.advance(.seconds(2))
        let isPending = first == "CONFIRM"
        // Nothing of a one-way addition is in ben's lists, but the removal of earlier requests.
        #expect(code(cluster.lastAnswer(on: 0)) == (isPending ? 30_539 : 0))
        let friendsOfBen: [String] = isPending || !isTwoWay ? [] : [ann]
        #expect(list(.friend, of: ann) == (isPending ? [] : [ben]))
        #expect(list(.friend, of: ben) == friendsOfBen)
        #expect(list(.pendencyOut, of: ann) == (isPending ? [ben] : []))
        #expect(list(.pendencyIn, of: ben) == (isPending ? [ann] : []))
    }

    /// Ann adds ben, whose owner dies with the rows on its own disk alone. Ben then has another setting, and the next owner decides.
    private mutating func loseOwner(allowType: String?) throws {
        cluster.losing = [(1, 0), (1, 2)]
        cluster.call(.chain(.add(user(ben), SentRequest(addTime: 0), isTwoWay: true)), by: ann, on: 0)
        cluster.advance(.milliseconds(100))
        #expect(list(.friend, of: ben) + list(.pendencyIn, of: ben) == [ann])
        cluster.kill(1)
        cluster.losing = []
        #expect(cluster.lastAnswer(on: 0) == nil)
        if let allowType { for node in [0, 2] { cluster.processes[node].node.set(allowType, of: ben) } }
        cluster.advance(.seconds(4))
    }

    /// The owner comes back. All replicas then have the same friends of ben, and the same requests, which are returned.
    private mutating func comeBack() throws -> [[String]] {
        try cluster.restart(1)
        cluster.advance(.seconds(20))
        let lists = (0..<3).map { node in
            [Row.Kind.friend, .pendencyIn].map { cluster.processes[node].node.owner.liveRows($0, of: user(ben)).map(\.key) }
        }
        #expect(lists[0] == lists[1] && lists[1] == lists[2])
        return lists[0]
    }

    @Test("An owner that comes back with a row of a decision which ended as refused does not keep the row")
    mutating func comesBack() throws {
        try loseOwner(allowType: "DENY")
        #expect(code(cluster.lastAnswer(on: 0)) == 30_516)
        #expect(try comeBack() == [[], []])
        #expect(list(.friend, of: ann) == [] && list(.chainOutbox, of: ann) == [])
    }

    @Test("An owner that comes back with a friend of a request which waits by now has the request instead")
    mutating func comesBackToRequest() throws {
        try loseOwner(allowType: "CONFIRM")
        #expect(code(cluster.lastAnswer(on: 0)) == 30_539)
        #expect(try comeBack() == [[], [ann]])
        #expect(list(.friend, of: ann) == [] && list(.pendencyOut, of: ann) == [ben])
    }

    @Test("An owner that comes back with a request of users who are friends by now has the friend instead")
    mutating func comesBackToFriend() throws {
        set(#"{"profile.defaultAllowType":"confirm"}"#)
        try loseOwner(allowType: "ANY")
        #expect(code(cluster.lastAnswer(on: 0)) == 0)
        #expect(try comeBack() == [[ann], []])
        #expect(list(.friend, of: ann) == [ben] && list(.pendencyOut, of: ann) == [])
    }

    @Test("An owner that comes back with a row of a decision which took effect keeps the row") mutating func comesBackToFriends() throws {
        try loseOwner(allowType: nil)
        #expect(code(cluster.lastAnswer(on: 0)) == 0)
        #expect(try comeBack() == [[ann], []])
        #expect(list(.friend, of: ann) == [ben])
    }

    @Test("A block that an owner learns after a newer friendship ends the friendship on both sides", arguments: [true, false])
    mutating func lateBlock(isMutual: Bool) throws {
        let before = cluster.now.wall - 1_000
        let (caller, target) = isMutual ? (ann, ben) : (ben, ann)
        cluster.call(.chain(.add(user(target), SentRequest(addTime: 0), isTwoWay: isMutual)), by: caller, on: 0)
        cluster.advance(.milliseconds(100))
        #expect(list(.friend, of: ben) == [ann])
        let version = Version(milliseconds: before, counter: 0, node: 77)
        send([Row(BlockedUser(since: before), of: user(ann), key: ben, version: version)], from: 1)
        cluster.advance(.seconds(1))
        #expect(list(.blocked, of: ann) == [ben] && list(.friend, of: ann) == [] && list(.friend, of: ben) == [])
        #expect(list(.chainOutbox, of: ann) == [])
        let row = cluster.processes[0].node.owner.liveRows(.blocked, of: user(ann))[0]
        // A newer version would win over an end of the block that another owner has acknowledged.
        #expect(try BlockedUser(row).since == before && row.version == version)
        #expect(add(ann, by: ben) == 30_525)
    }

    @Test("Decisions of two users about each other have different stamps, and what ends them is newer and older than the next one")
    func stamps() {
        var clock = VersionClock(node: 1)
        let (first, second) = (user("ann"), user("ben"))
        let now = Now(instant: Instant(nanoseconds: 0), wall: 1_000)
        var last: UInt64 = 0
        for _ in 0..<3 {
            let one = clock.nextDecision(of: ChainPair(user: first, other: second), at: now)
            let other = clock.nextDecision(of: ChainPair(user: second, other: first), at: now)
            #expect(one.stamp % 4 == 0 && other.stamp % 4 == 1 && one.stamp > last && other.stamp > one.stamp)
            for version in [one, other] {
                let ends = [version.voidStamp, version.correctionStamp]
                #expect(ends.allSatisfy { $0 > version.stamp && $0 / 4 == version.stamp / 4 } && ends[0] != ends[1])
            }
            last = other.correctionStamp
            clock.observe(Version(stamp: last, node: 1))
        }
    }

    @Test("A message may have waited for the end of a pause until half a second after the first tick") func pauses() {
        var gaps = TickGaps()
        func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }
        let settings = Membership.Settings()
        let gapMax = settings.tickGapMax
        #expect(gaps.doubtedFrom == .farFuture)
        #expect(!gaps.mayHaveWaited(at: at(5_000), gapMax: gapMax))
        #expect(gaps.tick(at: at(5_000), settings) == nil)
        #expect(gaps.tick(at: at(5_300), settings) == .milliseconds(300))
        #expect(!gaps.mayHaveWaited(at: at(5_600), gapMax: gapMax))
        #expect(gaps.mayHaveWaited(at: at(5_601), gapMax: gapMax))
        #expect(gaps.tick(at: at(9_000), settings) == .milliseconds(3_700))
        #expect(gaps.mayHaveWaited(at: at(9_200), gapMax: gapMax))
        _ = gaps.tick(at: at(9_300), settings)
        #expect(!gaps.mayHaveWaited(at: at(9_500), gapMax: gapMax))
        #expect(gaps.doubtedFrom == at(11_200), "1.9 s after the last tick")
    }

    @Test("A node has as many unresolved decisions as it may have calls, and asks about each until it is answered") mutating func limit() {
        var unresolved = UnresolvedDecisions()
        let learned = (0..<3).map { number in
            let pair = ChainPair(user: user("user\(number)"), other: user(ann))
            return LearnedDecision(pair: pair, version: Version(milliseconds: cluster.now.wall, counter: 0, node: 1))
        }
        unresolved.add(learned, countMax: 2, at: cluster.now)
        #expect(unresolved.count == 2)
        // There are no rows of these decisions here.
        cluster.processes[0].node.ask(&unresolved, at: cluster.now)
        #expect(unresolved.count == 0)
        let old = learned.map { LearnedDecision(pair: $0.pair, version: Version(milliseconds: 1, counter: 0, node: 1)) }
        unresolved.add(old, countMax: 2, at: cluster.now)
        #expect(unresolved.count == 0)
    }
}

extension Node {
    fileprivate mutating func ask(_ unresolved: inout UnresolvedDecisions, at now: Now) {
        unresolved.tick(machines.owner, &machines.cluster, at: now)
    }

    /// The user has this setting for friend requests from now on, as this node knows.
    mutating func set(_ allowType: String, of name: String) {
        var profile = Profile()
        let version = machines.owner.nextVersion { $0.next(at: 1_790_000_000_000) }  // At least as new as all before.
        profile.set(Profile.Standard.allowType.rawValue, to: .text(allowType), at: version)
        let index = machines.owner.index(of: user(name))
        machines.owner.modifyLists(index) { _ = $0.merge(Row(profile, of: user(name), key: "", version: version)) }
    }
}
