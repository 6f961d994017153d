import PresenceWire
import Testing

@testable import PresenceCore

/// The races of the design, each one forced: messages between the two owners are held back until the other user has acted.
extension ChainTests {
    /// Sends a decision whose answer does not come yet.
    private mutating func begin(_ call: ChainCall, by name: String, on node: Int) {
        cluster.call(.chain(call), by: name, on: node)
        cluster.advance(.milliseconds(20), step: .milliseconds(20))
    }

    private func addition(of name: String) -> ChainCall { .add(user(name), SentRequest(addTime: 0), isTwoWay: true) }

    private func acceptance(of name: String) -> ChainCall { .respond(user(name), .accept(remark: "", isTwoWay: true)) }

    /// The code of the last answer that a node has given.
    private func newestCode(on node: Int) -> UInt32? { code(cluster.processes[node].answers.max { $0.key < $1.key }?.value) }

    /// The lists of both users, at their owners, with an outbox that must be empty.
    private func expectEmpty(_ kinds: [Row.Kind], of names: [String], _ location: SourceLocation = #_sourceLocation) {
        for name in names { for kind in kinds { #expect(list(kind, of: name) == [], "\(kind) of \(name)", sourceLocation: location) } }
    }

    private mutating func requireApproval() { set(#"{"profile.defaultAllowType":"confirm"}"#) }

    @Test("An addition that arrives after the other user has removed the caller leaves that side removed") mutating func lateAddition() {
        #expect(add(ann, by: ben, isTwoWay: false, on: 1) == 0)
        cluster.losing = [(0, 1)]
        begin(addition(of: ben), by: ann, on: 0)
        #expect(decide(.delete([user(ann)], isTwoWay: false), by: ben, on: 1) == 0)
        restoreLinks()
        cluster.advance(.seconds(3))
        #expect(list(.friend, of: ann) == [ben])
        expectEmpty([.friend], of: [ben])
        expectEmpty([.chainOutbox, .pendencyIn, .pendencyOut], of: [ann, ben])
    }

    @Test("An addition to one list stays when its owner restarts, though it left no row beside the request that waited")
    mutating func restartAfterAddition() throws {
        cluster.processes[1].node.set("CONFIRM", of: ben)
        #expect(add(ben, by: ann, isTwoWay: true, on: 0) == 30_539)
        cluster.processes[1].node.set("ANY", of: ben)
        #expect(add(ben, by: ann, isTwoWay: false, on: 0) == 0)
        #expect(list(.friend, of: ann) == [ben] && list(.pendencyIn, of: ben) == [ann])
        cluster.kill(0)
        cluster.advance(.seconds(3))
        try cluster.restart(0)
        cluster.advance(.seconds(20))
        #expect(list(.friend, of: ann) == [ben])
    }

    @Test("Two users who add each other at once, and both ask for approval, are friends") mutating func crossingAdditions() {
        requireApproval()
        cluster.losing = [(0, 1), (1, 0)]
        begin(addition(of: ben), by: ann, on: 0)
        begin(addition(of: ann), by: ben, on: 1)
        restoreLinks()
        cluster.advance(.seconds(3))
        #expect(list(.friend, of: ann) == [ben] && list(.friend, of: ben) == [ann])
        expectEmpty([.chainOutbox, .pendencyIn, .pendencyOut], of: [ann, ben])
        #expect(newestCode(on: 1) == 0)
    }

    @Test(
        "An approval that arrives after the block is refused with 30525, and the friend of one that arrives before is removed",
        arguments: [true, false])
    mutating func approvalAndBlock(isBlockFirst: Bool) {
        requireApproval()
        #expect(add(ben, by: ann) == 30_539)
        // The approval itself is held back, or the answer to it.
        cluster.losing = isBlockFirst ? [(1, 0)] : [(0, 1)]
        begin(acceptance(of: ann), by: ben, on: 1)
        #expect(list(.friend, of: ann) == (isBlockFirst ? [] : [ben]))
        begin(.setBlocked([user(ben)], true), by: ann, on: 0)
        restoreLinks()
        cluster.advance(.seconds(3))
        #expect(list(.blocked, of: ann) == [ben])
        expectEmpty([.friend, .pendencyIn, .pendencyOut, .chainOutbox], of: [ann, ben])
        #expect(newestCode(on: 0) == 0)
        if isBlockFirst { #expect(newestCode(on: 1) == 30_525) }
    }

    @Test("An approval is valid after the requester has deleted the sent request, whose remark and group are then empty")
    mutating func approvalOfDeletedRequest() throws {
        requireApproval()
        #expect(add(ben, by: ann, remark: "Benny") == 30_539)
        cluster.losing = [(1, 0)]
        begin(acceptance(of: ann), by: ben, on: 1)
        cluster.call(.friendCall(.deleteRequests([user(ben)], .sent)), by: ann, on: 0)
        cluster.advance(.milliseconds(50))
        expectEmpty([.pendencyOut], of: [ann])
        restoreLinks()
        cluster.advance(.seconds(3))
        #expect(newestCode(on: 1) == 0)
        #expect(list(.friend, of: ann) == [ben] && list(.friend, of: ben) == [ann])
        let page = try read(FriendQuery())["friendList"]?.elements
        #expect(page?.count == 1 && page?[0]["remark"]?.textValue == "")
        expectEmpty([.pendencyIn, .pendencyOut, .chainOutbox], of: [ann, ben])
    }

    @Test("An import of two friends, one of whom is being added, takes two places of the list") mutating func importDuringAddition() {
        set(#"{"friends.max":2}"#)
        let third = cluster.user(ownedBy: 1, number: 1)
        cluster.losing = [(0, 1)]
        begin(addition(of: ben), by: ann, on: 0)
        #expect(list(.chainOutbox, of: ann) == [ben])
        let friends = [ben, third].map { FriendImport(user: user($0)) }
        cluster.call(.friendCall(.importFriends(friends)), by: ann, on: 0, origin: .backEndForCaller)
        cluster.advance(.milliseconds(20), step: .milliseconds(20))
        #expect(list(.friend, of: ann) == [ben, third].sorted())
    }

    @Test("A repeated deletion of all friends is answered with those whom an earlier attempt has deleted")
    mutating func deletionOfAllAgain() {
        #expect(add(ben, by: ann) == 0)
        // The answer of the other owner is lost, and then the owner dies.
        cluster.losing = [(1, 0)]
        cluster.call(.chain(.deleteAll(isTwoWay: true)), by: ann, on: 2)
        cluster.advance(.milliseconds(200))
        cluster.kill(0)
        cluster.losing = []
        cluster.advance(.seconds(8))
        #expect(cluster.lastAnswer(on: 2)?.outcomes == [ChainOutcome(user: user(ben), code: .done)])
        expectEmpty([.friend, .chainOutbox], of: [ann, ben])
    }

    @Test("An imported friend who blocks the user stays, although the friend's owner dies after an earlier deletion")
    mutating func importedBlocker() {
        #expect(decide(.setBlocked([user(ann)], true), by: ben) == 0)
        for isLast in [false, true] {
            cluster.call(.friendCall(.importFriends([FriendImport(user: user(ben))])), by: ann, on: 0, origin: .backEndForCaller)
            cluster.advance(.milliseconds(50))
            #expect(list(.friend, of: ann) == [ben])
            if !isLast { #expect(decide(.deleteAll(isTwoWay: true), by: ann) == 0) }
        }
        cluster.kill(1)
        cluster.advance(.seconds(8))
        #expect(list(.friend, of: ann) == [ben] && list(.friend, of: ben) == [])
    }

    @Test("That no friend is left is answered once the deletions are on two disks") mutating func deletionOfAllTwice() {
        #expect(add(ben, by: ann) == 0)
        cluster.losing = [(0, 1), (0, 2)]
        let answersCount = cluster.processes[0].answers.count
        for _ in 0..<2 { begin(.deleteAll(isTwoWay: false), by: ann, on: 0) }
        #expect(list(.friend, of: ann) == [] && cluster.processes[0].answers.count == answersCount)
        restoreLinks()
        cluster.advance(.seconds(3))
        #expect(cluster.processes[0].answers.count == answersCount + 2)
    }

    @Test("With 2,999 friends and two open additions the second one is refused with 30010") mutating func lastPlace() {
        for first in stride(from: 0, to: 2_999, by: 100) {
            let friends = (first..<min(first + 100, 2_999)).map { FriendImport(user: user("friend\($0)")) }
            cluster.call(.friendCall(.importFriends(friends)), by: ann, on: 0, origin: .backEndForCaller)
            cluster.advance(.milliseconds(20), step: .milliseconds(20))
        }
        #expect(list(.friend, of: ann).count == 2_999)
        let others = (0..<2).map { cluster.user(ownedBy: 1, number: $0 + 1) }
        cluster.losing = [(0, 1)]
        begin(addition(of: others[0]), by: ann, on: 0)
        #expect(newestCode(on: 0) == nil || list(.chainOutbox, of: ann) == [others[0]])
        #expect(add(others[1], by: ann, on: 0) == 30_010)
        restoreLinks()
        cluster.advance(.seconds(3))
        #expect(list(.friend, of: ann).count == 3_000)
        #expect(list(.friend, of: others[0]) == [ann])
        expectEmpty([.friend], of: [others[1]])
    }

    @Test(
        "In a split the minority answers 50001, the majority asks the next owner, and either way both users are friends after healing",
        arguments: [(0, 50_001), (1, 0)] as [(Int, UInt32)])
    mutating func split(caller: Int, answer: UInt32) {
        let (name, other) = caller == 0 ? (ann, ben) : (ben, ann)
        cluster.losing = [(0, 1), (1, 0), (0, 2), (2, 0)]
        begin(addition(of: other), by: name, on: caller)
        cluster.advance(.milliseconds(4_600), step: .milliseconds(20))
        var ended = code(cluster.lastAnswer(on: caller))
        // A node without a majority refuses the whole call.
        if case .refused(let refusal)? = cluster.lastAnswer(on: caller) { ended = UInt32(refusal.code) }
        #expect(ended == answer)
        cluster.losing = []
        for node in 1...2 {
            cluster.link(0, node)
            cluster.link(node, 0)
        }
        cluster.advance(.seconds(8))
        #expect(list(.friend, of: ann) == [ben] && list(.friend, of: ben) == [ann])
        expectEmpty([.chainOutbox, .pendencyIn, .pendencyOut], of: [ann, ben])
    }
}
