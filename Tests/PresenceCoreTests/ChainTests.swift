import PresenceWire
import Testing

@testable import PresenceCore

/// The relationship chain on three nodes (P12–P17). Ann and ben have different owners.
@Suite struct ChainTests {
    var cluster = TestCluster(nodes: 3)
    let ann: String
    let ben: String
    /// The owner of ben.
    let other = 1

    init() {
        ann = cluster.user(ownedBy: 0)
        ben = cluster.user(ownedBy: 1)
    }

    mutating func set(_ settings: String) {
        let change = Array(#"{"settings":\#(settings)}"#.utf8)
        cluster.call(.setAppPolicy(change), by: ann, on: 0)
        cluster.advance(.milliseconds(100))
    }

    func code(_ answer: CallAnswer?) -> UInt32? {
        guard let outcomes = answer?.outcomes else { return nil }
        return outcomes.first?.code.rawValue
    }

    mutating func decide(_ call: ChainCall, by name: String, on node: Int = 2) -> UInt32? {
        cluster.call(.chain(call), by: name, on: node)
        cluster.advance(.milliseconds(50))
        return code(cluster.lastAnswer(on: node))
    }

    @discardableResult
    mutating func add(_ target: String, by name: String, remark: String = "", isTwoWay: Bool = true, on node: Int = 2) -> UInt32? {
        var request = SentRequest(addTime: 0)
        request.remark = remark
        return decide(.add(user(target), request, isTwoWay: isTwoWay), by: name, on: node)
    }

    /// The live keys of a list, at the user's owner.
    func list(_ kind: Row.Kind, of name: String) -> [String] { list(kind, of: name, on: cluster.ownerIndex(of: name)) }

    private func list(_ kind: Row.Kind, of name: String, on node: Int) -> [String] {
        cluster.processes[node].node.machines.owner.live(kind, of: user(name))
    }

    @Test("Without approval both users are friends at once, at their owners and at all replicas") mutating func anyone() {
        #expect(add(ben, by: ann, remark: "Benny") == 0)
        for node in 0..<3 {
            #expect(list(.friend, of: ann, on: node) == [ben])
            #expect(list(.friend, of: ben, on: node) == [ann])
            #expect(list(.chainOutbox, of: ann, on: node) == [])
        }
    }

    @Test("A one-way friendship is in one list") mutating func oneWay() {
        #expect(add(ben, by: ann, isTwoWay: false) == 0)
        #expect(list(.friend, of: ann) == [ben])
        #expect(list(.friend, of: ben) == [])
    }

    @Test("A friend who was imported without a time stays when the owner starts again") mutating func importedFriend() throws {
        cluster.call(.friendCall(.importFriends([FriendImport(user: user(ben))])), by: ann, on: 0)
        cluster.advance(.milliseconds(50))
        cluster.kill(0)
        try cluster.restart(0)
        cluster.advance(.seconds(5), step: .milliseconds(100))
        for node in 0..<3 { #expect(list(.friend, of: ann, on: node) == [ben]) }
    }

    @Test("An imported friend who is changed in the same millisecond stays when the owner starts again")
    mutating func changedImport() throws {
        for number in 0..<4 {
            let name = cluster.user(ownedBy: 1, number: number + 1)
            cluster.call(.friendCall(.importFriends([FriendImport(user: user(name))])), by: ann, on: 0)
            var change = FriendChange()
            for remark in 0...number {
                change.remark = "\(remark)"
                cluster.call(.friendCall(.modifyFriend(user(name), change)), by: ann, on: 0)
            }
        }
        cluster.advance(.milliseconds(50))
        cluster.kill(0)
        try cluster.restart(0)
        cluster.advance(.seconds(5), step: .milliseconds(100))
        for node in 0..<3 { #expect(list(.friend, of: ann, on: node).count == 4) }
    }

    @Test("A friend cannot be added twice, and only a friend can be deleted (P14, P15)") mutating func twice() {
        add(ben, by: ann)
        #expect(add(ben, by: ann) == 30_001)
        #expect(decide(.delete([user(ben)], isTwoWay: true), by: ann) == 0)
        #expect(list(.friend, of: ann) == [])
        #expect(list(.friend, of: ben) == [])
        #expect(decide(.delete([user(ben)], isTwoWay: true), by: ann) == 31_704)
    }

    /// None of the IDs that the call named is valid.
    @Test(
        "A decision about nobody is answered at once",
        arguments: [ChainCall.delete([], isTwoWay: true), .delete([], isTwoWay: false), .setBlocked([], true), .setBlocked([], false)])
    mutating func nobody(call: ChainCall) {
        _ = decide(call, by: ann)
        #expect(cluster.lastAnswer(on: 2) == .owner(.chained([])))
    }

    @Test("A one-way deletion leaves the other list as it is") mutating func deleteOneWay() {
        add(ben, by: ann)
        #expect(decide(.delete([user(ben)], isTwoWay: false), by: ann) == 0)
        #expect(list(.friend, of: ann) == [])
        #expect(list(.friend, of: ben) == [ann])
    }

    @Test(
        "A request waits for its approval on both sides (P20), and ends with the answer",
        arguments: [
            (ChainCommand.accept(remark: "Annie", isTwoWay: true), 1, 1), (.accept(remark: "", isTwoWay: false), 1, 0), (.reject, 0, 0),
        ])
    mutating func approval(answer: ChainCommand, friendsOfAnn: Int, friendsOfBen: Int) {
        set(#"{"profile.defaultAllowType":"confirm"}"#)
        #expect(decide(.respond(user(ann), answer), by: ben) == 30_614)
        #expect(add(ben, by: ann) == 30_539)
        #expect(list(.pendencyOut, of: ann) == [ben])
        #expect(list(.pendencyIn, of: ben) == [ann])
        #expect(list(.friend, of: ann) == [])
        #expect(decide(.respond(user(ann), answer), by: ben) == 0)
        #expect(list(.friend, of: ann).count == friendsOfAnn)
        #expect(list(.friend, of: ben).count == friendsOfBen)
        for (name, kind) in [(ann, Row.Kind.pendencyOut), (ben, .pendencyIn)] { #expect(list(kind, of: name) == []) }
        #expect(decide(.respond(user(ann), answer), by: ben) == 30_614)
    }

    @Test("Where two requests do not make friends, only an approval that does ends both", arguments: [true, false])
    mutating func requestsInBothDirections(isTwoWay: Bool) {
        set(#"{"profile.defaultAllowType":"confirm","friends.mutualRequestAccepts":false}"#)
        #expect(add(ben, by: ann) == 30_539)
        #expect(add(ann, by: ben) == 30_539)
        #expect(decide(.respond(user(ann), .accept(remark: "", isTwoWay: isTwoWay)), by: ben) == 0)
        #expect(list(.friend, of: ann) == [ben] && list(.friend, of: ben) == (isTwoWay ? [ann] : []))
        #expect(list(.pendencyOut, of: ann) == [] && list(.pendencyIn, of: ben) == [])
        #expect(list(.pendencyOut, of: ben) == (isTwoWay ? [] : [ann]) && list(.pendencyIn, of: ann) == (isTwoWay ? [] : [ben]))
    }

    /// Adds `target` to the list of `name` alone: as an app's back end does, or as a user does where nobody must approve.
    private mutating func addAlone(_ target: String, by name: String, isForced: Bool) -> UInt32? {
        if !isForced { set(#"{"profile.defaultAllowType":"any","friends.mutualRequestAccepts":false}"#) }
        var request = SentRequest(addTime: 0)
        request.isForced = isForced
        return decide(.add(user(target), request, isTwoWay: false), by: name)
    }

    /// The lists of both users in which a request between them is.
    private func requestsLeft() -> [String] {
        [(ann, "ann"), (ben, "ben")].flatMap { name, word in
            [(Row.Kind.pendencyOut, "sent"), (.pendencyIn, "received")].compactMap { list($0, of: name) == [] ? nil : "\(word) \($1)" }
        }
    }

    @Test(
        "Additions to one list end no request, and the one that makes both users friends ends all",
        arguments: [true, false], ["addition", "approval"])
    mutating func oneWayAdditions(isForced: Bool, last: String) {
        set(#"{"profile.defaultAllowType":"confirm","friends.mutualRequestAccepts":false}"#)
        #expect(add(ben, by: ann) == 30_539 && add(ann, by: ben) == 30_539)
        let all = ["ann sent", "ann received", "ben sent", "ben received"]
        #expect(requestsLeft() == all)
        #expect(addAlone(ben, by: ann, isForced: isForced) == 0)
        #expect(list(.friend, of: ann) == [ben] && list(.friend, of: ben) == [])
        #expect(requestsLeft() == all)
        if last == "addition" {
            #expect(addAlone(ann, by: ben, isForced: isForced) == 0)
        } else {
            #expect(decide(.respond(user(ben), .accept(remark: "", isTwoWay: false)), by: ann) == 0)
        }
        #expect(list(.friend, of: ann) == [ben] && list(.friend, of: ben) == [ann])
        #expect(requestsLeft() == [])
    }

    @Test("A request whose sender has the friend already can still be answered") mutating func answerAfterAddition() {
        set(#"{"profile.defaultAllowType":"confirm"}"#)
        #expect(add(ben, by: ann) == 30_539)
        #expect(addAlone(ben, by: ann, isForced: true) == 0)
        #expect(requestsLeft() == ["ann sent", "ben received"])
        #expect(decide(.respond(user(ann), .accept(remark: "", isTwoWay: true)), by: ben) == 0)
        #expect(list(.friend, of: ann) == [ben] && list(.friend, of: ben) == [ann])
        #expect(requestsLeft() == [])
    }

    @Test("Two users who ask each other are friends without an approval") mutating func mutual() {
        set(#"{"profile.defaultAllowType":"confirm"}"#)
        add(ben, by: ann, remark: "Benny")
        #expect(add(ann, by: ben, remark: "Annie") == 0)
        for (name, friend) in [(ann, ben), (ben, ann)] {
            #expect(list(.friend, of: name) == [friend])
            for kind in [Row.Kind.pendencyIn, .pendencyOut] { #expect(list(kind, of: name) == []) }
        }
    }

    /// Ann sends ben a second request while ben approves the first one.
    private mutating func requestDuringApproval() {
        set(#"{"profile.defaultAllowType":"confirm"}"#)
        add(ben, by: ann)
        cluster.losing = [(0, 1), (1, 0)]
        cluster.call(.chain(.respond(user(ann), .accept(remark: "", isTwoWay: true))), by: ben, on: 1)
        // The second request is newer than the approval, and both commands leave at once.
        cluster.setStatus(ann, "later", on: 0)
        cluster.call(.chain(.add(user(ben), SentRequest(addTime: 0), isTwoWay: true)), by: ann, on: 0)
        restoreLinks()
        cluster.advance(.seconds(2))
    }

    @Test("A user who deletes a friend ends the own request to that friend, on both sides") mutating func deleteEndsRequest() {
        set(#"{"profile.defaultAllowType":"confirm"}"#)
        add(ben, by: ann)
        // An import asks no other owner, and ends no request.
        for (name, friend) in [(ann, ben), (ben, ann)] {
            cluster.call(.friendCall(.importFriends([FriendImport(user: user(friend))])), by: name, on: 0)
            cluster.advance(.milliseconds(50))
        }
        #expect(list(.pendencyOut, of: ann) == [ben])
        #expect(decide(.delete([user(ben)], isTwoWay: true), by: ann) == 0)
        for name in [ann, ben] {
            for kind in [Row.Kind.friend, .pendencyIn, .pendencyOut] { #expect(list(kind, of: name) == []) }
        }
    }

    @Test("A request that meets an approval of an earlier one makes friends, and no request is left") mutating func requestMeetsApproval() {
        requestDuringApproval()
        for (name, friend) in [(ann, ben), (ben, ann)] {
            #expect(list(.friend, of: name) == [friend])
            #expect(list(.chainOutbox, of: name) == [])
        }
        #expect(requestsLeft() == [])
    }

    @Test("A two-way deletion removes both sides of a friend whom an older addition brings") mutating func olderAddition() {
        let carl = cluster.user(ownedBy: 2)
        add(ben, by: ann)
        #expect(decide(.delete([user(ann)], isTwoWay: false), by: ben) == 0)
        cluster.losing = [(0, 1), (1, 0)]
        cluster.call(.chain(.add(user(ann), SentRequest(addTime: 0), isTwoWay: true)), by: ben, on: 1)
        cluster.advance(.milliseconds(300))
        cluster.call(.chain(.delete([user(ben)], isTwoWay: true)), by: ann, on: 0)
        #expect(add(carl, by: ben, on: 2) == 0)
        restoreLinks()
        cluster.advance(.seconds(3))
        #expect(list(.friend, of: ann) == [])
        #expect(list(.friend, of: ben) == [carl])
    }

    /// Adds a friend as an app's back end does.
    private mutating func force(_ target: String, by name: String) -> UInt32? {
        var request = SentRequest(addTime: 0)
        request.isForced = true
        return decide(.add(user(target), request, isTwoWay: true), by: name)
    }

    @Test("A back end adds a friend without an approval, also for a user who has sent a request") mutating func forced() {
        set(#"{"profile.defaultAllowType":"confirm"}"#)
        let carl = cluster.user(ownedBy: 2)
        add(carl, by: ann)
        for other in [ben, carl] {
            #expect(force(other, by: ann) == 0)
            #expect(list(.friend, of: other) == [ann])
        }
        #expect(list(.friend, of: ann) == [ben, carl].sorted())
        for name in [ann, ben, carl] { for kind in [Row.Kind.pendencyIn, .pendencyOut] { #expect(list(kind, of: name) == []) } }
    }

    @Test("Limits, blocklists and a user who forbids requests refuse a back end too") mutating func forcedInVain() {
        let others = (0..<3).map { cluster.user(ownedBy: 2, number: $0) }
        set(#"{"friends.max":1,"profile.defaultAllowType":"deny"}"#)
        #expect(force(ben, by: ann) == 30_516)
        set(#"{"profile.defaultAllowType":"confirm"}"#)
        #expect(decide(.setBlocked([user(ann)], true), by: others[2]) == 0)
        #expect(force(others[2], by: ann) == 30_525 && force(ann, by: others[2]) == 30_515)
        #expect(force(ben, by: ann) == 0 && force(ben, by: ann) == 30_001)
        #expect(force(others[0], by: ann) == 30_010 && force(ann, by: others[1]) == 30_014)
        #expect(list(.friend, of: ann) == [ben])
    }

    @Test("Nobody can add a user who forbids it (30516)") mutating func forbidden() {
        set(#"{"profile.defaultAllowType":"deny"}"#)
        #expect(add(ben, by: ann) == 30_516)
        for name in [ann, ben] {
            for kind in [Row.Kind.friend, .pendencyIn, .pendencyOut, .chainOutbox] { #expect(list(kind, of: name) == []) }
        }
    }

    @Test("A full list refuses a friend, on the own side with 30010 and on the other with 30014") mutating func full() {
        set(#"{"friends.max":2}"#)
        let others = (0..<4).map { cluster.user(ownedBy: 2, number: $0) }
        for name in others[..<2] { #expect(add(name, by: ann) == 0) }
        #expect(add(others[2], by: ann) == 30_010)
        #expect(add(ann, by: others[3]) == 30_014)
        #expect(list(.friend, of: others[3]) == [])
        #expect(decide(.delete([user(others[0])], isTwoWay: false), by: ann) == 0)
        #expect(add(others[2], by: ann) == 0)
    }

    @Test("A user has at most pendency.max received requests, and as many sent ones (30012)") mutating func requestsFull() {
        set(#"{"pendency.max":2,"profile.defaultAllowType":"confirm"}"#)
        let others = (0..<4).map { cluster.user(ownedBy: 2, number: $0) }
        for name in others[..<2] { #expect(add(name, by: ann) == 30_539) }
        #expect(add(others[2], by: ann) == 30_012)
        #expect(list(.pendencyOut, of: ann) == others[..<2].sorted() && list(.pendencyIn, of: others[2]) == [])
        // A request that is there already is sent again.
        #expect(add(others[1], by: ann) == 30_539)
        for name in others[2...] { #expect(add(ben, by: name) == 30_539) }
        #expect(add(ben, by: others[0]) == 30_012)
        #expect(list(.pendencyOut, of: others[0]) == [])
        // An answer makes room on both sides.
        #expect(decide(.respond(user(ann), .reject), by: others[0]) == 0)
        #expect(add(others[2], by: ann) == 30_539)
        #expect(decide(.respond(user(others[2]), .accept(remark: "", isTwoWay: true)), by: ben) == 0)
        #expect(add(ben, by: others[0]) == 30_539)
    }

    @Test("Open requests count towards the limit of sent ones") mutating func openRequests() {
        set(#"{"pendency.max":2}"#)
        cluster.losing = [(1, 0)]
        let others = (0..<2).map { cluster.user(ownedBy: 1, number: $0 + 1) }
        for name in others { cluster.call(.chain(.add(user(name), SentRequest(addTime: 0), isTwoWay: true)), by: ann, on: 0) }
        cluster.advance(.milliseconds(100))
        #expect(add(cluster.user(ownedBy: 2), by: ann, on: 0) == 30_012)
        var request = SentRequest(addTime: 0)
        request.isForced = true
        #expect(decide(.add(user(cluster.user(ownedBy: 2)), request, isTwoWay: true), by: ann, on: 0) == 0)
    }

    @Test("The decision goes on with the next owner, and a repeated call is answered 0", arguments: [0, 1]) mutating func owners(dies: Int)
        throws
    {
        // The other user's owner does not answer, so the decision stays open.
        cluster.losing = dies == 0 ? [(0, 1)] : [(1, 0)]
        cluster.call(.chain(.add(user(ben), SentRequest(addTime: 0), isTwoWay: true)), by: ann, on: 2)
        cluster.advance(.milliseconds(200))
        cluster.kill(dies)
        cluster.losing = []
        cluster.advance(.seconds(8))
        #expect(code(cluster.lastAnswer(on: 2)) == 0)
        let (a, b) = (cluster.ownerIndex(of: ann), cluster.ownerIndex(of: ben))
        #expect(list(.friend, of: ann, on: a) == [ben])
        #expect(list(.friend, of: ben, on: b) == [ann])
        #expect(list(.chainOutbox, of: ann, on: a) == [])
    }

    @Test("A second decision about the same user waits for the first, and is refused with 30008 at its deadline") mutating func conflict() {
        cluster.losing = [(0, 1), (1, 0)]
        cluster.call(.chain(.add(user(ben), SentRequest(addTime: 0), isTwoWay: true)), by: ann, on: 0)
        cluster.advance(.milliseconds(100))
        cluster.call(.chain(.delete([user(ben)], isTwoWay: true)), by: ann, on: 0)
        cluster.advance(.milliseconds(4_600), step: .milliseconds(20))
        #expect(code(cluster.lastAnswer(on: 0)) == 30_008)
    }

    @Test("A decision that nobody has answered for a day ends as refused, and the pair is free again (R5)") mutating func expiry() {
        func chain() -> NodeStatistics.Chain { cluster.processes[0].node.statistics.chain }
        cluster.losing = [(1, 0)]
        let pair = ChainPair(user: user(ann), other: user(ben))
        cluster.processes[0].node.inherit(.add(SentRequest(addTime: 0), isTwoWay: true), of: pair, begunBefore: 86_399_000, at: cluster.now)
        cluster.advance(.milliseconds(900))
        #expect(chain().openCount == 1 && chain().oldest > .seconds(86_399))
        cluster.advance(.milliseconds(700))
        let lists = chain().lists
        #expect(chain() == NodeStatistics.Chain(openCount: 0, oldest: .zero, expired: 1, refused: 0, lists: lists) && lists.rows > 0)
        #expect(list(.chainOutbox, of: ann) == [] && list(.friend, of: ann) == [])
        cluster.losing = []
        cluster.unlink(1, 0)
        cluster.link(1, 0)
        cluster.advance(.seconds(1))
        #expect(add(ben, by: ann) == 0)
    }

    @Test("A node with too many open decisions refuses the next call with 50002, and counts it") mutating func overload() {
        var settings = CoreSettings()
        settings.callsMax = 4
        cluster = TestCluster(nodes: 3, settings: settings)
        cluster.losing = [(1, 0)]
        for number in 0..<2 {
            let call = ChainCall.add(user(cluster.user(ownedBy: 1, number: number)), SentRequest(addTime: 0), isTwoWay: true)
            cluster.call(.chain(call), by: ann, on: 0)
        }
        #expect(decide(.add(user(ben), SentRequest(addTime: 0), isTwoWay: true), by: ann, on: 2) == nil)
        #expect(cluster.lastAnswer(on: 2) == .refused(.overloaded))
        #expect(cluster.processes[0].node.statistics.chain.refused == 1)
    }

    @Test("The friend list is read by pages, and by its changes since a sequence (P9)") mutating func reading() throws {
        let friends = (0..<5).map { cluster.user(ownedBy: 2, number: $0) }.sorted()
        for name in friends { #expect(add(name, by: ann) == 0) }
        let first = try read(FriendQuery(limit: 3))
        #expect(first["friendList"]?.elements.map { $0["userID"]!.textValue } == Array(friends[..<3]))
        #expect(first["total"]?.number == 5 && first["isFull"] == .bool(true))
        let second = try read(FriendQuery(cursor: first["cursor"].flatMap { FriendQuery.Cursor(text: $0.textValue) }, limit: 3))
        #expect(second["friendList"]?.elements.map { $0["userID"]!.textValue } == Array(friends[3...]))
        #expect(second["cursor"] == nil)
        let sequence = first["seq"]!.textValue
        // A node that was cut off may hold an older list. Its page would not belong to the first one.
        let later = Version(text: sequence)!.milliseconds + 1
        let unknown = FriendQuery.Cursor(version: Version(milliseconds: later, counter: 0, node: 1), key: friends[2])
        let refused = cluster.call(.getFriendList(FriendQuery(cursor: unknown, limit: 3)), by: ann, on: 0)
        #expect(refused == .refused(.unavailable))
        #expect(try read(FriendQuery(since: sequence))["friendList"]?.elements == [])
        #expect(decide(.delete([user(friends[1])], isTwoWay: false), by: ann) == 0)
        let changes = try read(FriendQuery(since: sequence))
        #expect(changes["deleted"]?.elements == [.string(friends[1])] && changes["isFull"] == .bool(false))
        #expect(try read(FriendQuery(since: "unknown"))["isFull"] == .bool(true))
    }

    /// Ends the loss of messages between the owners. Each side opens another connection.
    mutating func restoreLinks() {
        cluster.losing = []
        cluster.link(0, 1)
        cluster.link(1, 0)
    }

    mutating func read(_ query: FriendQuery) throws -> JSONValue {
        guard case .owner(.listed(let json)) = cluster.call(.getFriendList(query), by: ann, on: 2) else { return .null }
        return try JSONReader.read(json)
    }
}

extension Owner {
    /// The live keys of a user's list here, as owner or replica.
    fileprivate func live(_ kind: Row.Kind, of user: UserID) -> [String] {
        index(ofKnown: user).map { users[$0].list(kind).entries.filter { !$0.isRemoved }.map(\.key) } ?? []
    }
}

extension Node {
    /// Goes on with a decision that an earlier owner has begun.
    fileprivate mutating func inherit(_ command: ChainCommand, of pair: ChainPair, begunBefore age: Milliseconds, at now: Now) {
        let version = machines.owner.nextVersion(at: now)
        let row = OutboxCommand(command, version: version, begunAt: now.wall - age)
        let user = machines.owner.index(of: pair.user)
        machines.owner.write(
            [.set(row, String(pair.other.id))], of: user, decidedAt: version, in: &machines.cluster.outbox[at: now])
        machines.chain.reopen(pair, machines.owner, &machines.cluster, at: now)
    }
}
