import PresenceWire
import Testing

@testable import PresenceCore

/// A user who blocks soon after a change that viewers saw: the lists change at once, and the blocked viewer sees a loss.
@Suite struct WaitingBlocksTests {
    var cluster = TestCluster(nodes: 3)
    let ann: String
    let ben: String
    let cid: String
    private var phone = 0

    init() {
        cluster.waitsForHides = false
        (ann, ben, cid) = (cluster.user(ownedBy: 0), cluster.user(ownedBy: 1), cluster.user(ownedBy: 2))
        cluster.login(ann, on: 1)
        phone = cluster.login(ben, on: 2)
        cluster.subscribe(ben, to: [ann], on: 2)
        cluster.login(cid, on: 2)
        cluster.advance(.seconds(5))
        cluster.setStatus(ann, "busy", on: 0)
        cluster.advance(.milliseconds(100))
    }

    private func list(_ kind: Row.Kind, of name: String) -> [String] {
        cluster.processes[cluster.ownerIndex(of: name)].node.liveKeys(kind, of: user(name))
    }

    private func codes(of answer: CallAnswer?) -> [ChainCode]? { answer?.outcomes?.map(\.code) }

    /// The status of ann as ben's device shows it.
    private var seen: String? { cluster.clients[phone].view[ann]?["statusType"]?.textValue }

    private func block(_ names: [String], _ isBlocked: Bool = true) -> Call { .chain(.setBlocked(names.map(user), isBlocked)) }

    @Test("A block of a friend takes effect at once, and the former friend sees the blocker OFFLINE at once")
    mutating func endsFriendship() {
        cluster.call(.chain(.add(user(ann), SentRequest(addTime: 0), isTwoWay: true)), by: ben, on: 2)
        cluster.advance(.milliseconds(100))
        #expect(list(.friend, of: ann) == [ben])
        cluster.call(block([ben]), by: ann, on: 0)
        cluster.advance(.milliseconds(200))
        #expect(list(.friend, of: ann).isEmpty && list(.friend, of: ben).isEmpty && list(.blocked, of: ann) == [ben])
        #expect(codes(of: cluster.lastAnswer(on: 0)) == [.done] && seen == "OFFLINE")
    }

    @Test("A block takes effect for the lists at once, and is answered when the blocked user sees the blocker OFFLINE")
    mutating func takesEffect() {
        cluster.call(block([ben]), by: ann, on: 0)
        cluster.advance(.milliseconds(100))
        #expect(list(.blocked, of: ann) == [ben])
        #expect(cluster.lastAnswer(on: 0) == nil && seen == "ONLINE")
        cluster.call(.chain(.add(user(ann), SentRequest(addTime: 0), isTwoWay: true)), by: ben, on: 2)
        cluster.advance(.milliseconds(100))
        #expect(codes(of: cluster.lastAnswer(on: 2)) == [.blockedByOther])
        cluster.advance(.milliseconds(1_500))
        #expect(seen == "ONLINE")
        cluster.advance(.milliseconds(500))
        #expect(seen == "OFFLINE")
        #expect(cluster.processes[0].answers.values.contains { codes(of: $0) == [.done] && $0.outcomes?.first?.user == user(ben) })
    }

    @Test("A block of a user who is blocked already, and not hidden from yet, is answered after the hiding")
    mutating func repeated() {
        cluster.call(block([ben]), by: ann, on: 0)
        cluster.advance(.milliseconds(500))
        cluster.call(block([ben]), by: ann, on: 0)
        cluster.advance(.milliseconds(500))
        #expect(cluster.lastAnswer(on: 0) == nil)
        cluster.advance(.milliseconds(1_200))
        #expect(codes(of: cluster.lastAnswer(on: 0))?.count == 1 && seen == "OFFLINE")
    }

    @Test("A block that is undone before the hiding shows the viewer nothing, and both calls are answered")
    mutating func undone() {
        cluster.call(block([ben]), by: ann, on: 0)
        cluster.advance(.milliseconds(500))
        let events = cluster.clients[phone].events.count
        cluster.call(block([ben], false), by: ann, on: 0)
        cluster.advance(.milliseconds(200))
        #expect(codes(of: cluster.lastAnswer(on: 0)) == [.done])
        cluster.advance(.seconds(4))
        #expect(cluster.processes[0].answers.values.count { codes(of: $0) == [.done] } == 2)
        #expect(cluster.clients[phone].events.count == events && seen == "ONLINE")
    }

    @Test("Two blocks are hidden and answered each one grace after its call")
    mutating func two() {
        cluster.call(block([cid]), by: ann, on: 0)
        cluster.advance(.milliseconds(1_000))
        cluster.call(block([ben]), by: ann, on: 0)
        cluster.advance(.milliseconds(1_200))
        #expect(seen == "ONLINE" && cluster.lastAnswer(on: 0) == nil)
        #expect(cluster.record(of: ann).privacy?.visibility.blocked == [user(cid)])
        cluster.advance(.milliseconds(1_000))
        #expect(seen == "OFFLINE" && codes(of: cluster.lastAnswer(on: 0)) == [.done])
    }

    /// Whether a result of a block waits until its user has hidden, after the results before it have ended.
    private static func waits(_ position: Int?, of users: [UserID], by blocker: UserID, _ owner: borrowing Owner) -> Bool {
        let request = Request(id: 1, user: blocker, operation: .chain(.setBlocked(users, true)))
        var call = WaitingChainCall(request, from: 0, users: users, deadline: .farFuture)
        for earlier in 0..<(position ?? 0) { call.end(earlier, as: .done) }
        return call.awaitHiding(ofResultAt: position, by: owner)
    }

    @Test("A result of a block asks whether its own viewer still sees the blocker, and the last result asks about all viewers")
    mutating func resultsAsk() {
        cluster.call(block([ben]), by: ann, on: 0)
        cluster.advance(.milliseconds(100))
        let names = [cid, ben, cid].map(user)
        for (position, isWaiting) in [(nil, true), (0, false), (1, true), (2, true)] as [(Int?, Bool)] {
            let waits = Self.waits(position, of: names, by: user(ann), cluster.processes[0].node.owner)
            #expect(waits == isWaiting)
        }
        // Ben sees ann OFFLINE by then.
        cluster.advance(.milliseconds(2_500))
        for position in [nil, 0, 1, 2] as [Int?] {
            let waits = Self.waits(position, of: names, by: user(ann), cluster.processes[0].node.owner)
            #expect(!waits)
        }
    }

    @Test("A blocker who logs out while the block waits, and logs in again, is not shown to the blocked user any more")
    mutating func logsOutMeanwhile() {
        cluster.call(block([ben]), by: ann, on: 0)
        cluster.expectLogoutEndsWait(of: ann, calledOn: 0, shownTo: phone)
    }

    @Test("A change of the visibility that waits is not undone by a block that comes after it", arguments: [300, 1_950])
    mutating func order(milliseconds: Int) {
        cluster.call(.setVisibility(.init(isInvisible: true)), by: ann, on: 0)
        let token = cluster.processes[0].answers.keys.max() ?? 0
        cluster.advance(.milliseconds(milliseconds))
        cluster.call(block([cid]), by: ann, on: 1)
        cluster.advance(.milliseconds(2_500))
        #expect(codes(of: cluster.lastAnswer(on: 1)) == [.done])
        let visibility = cluster.record(of: ann).privacy?.visibility
        #expect(visibility?.isInvisible == true && visibility?.blocked == [user(cid)])
        let answers = cluster.processes[0].answers.filter { $0.key > token }.map(\.value)
        #expect(answers.contains { $0.shown?.visibility.isInvisible == true })
    }

    @Test("A new owner hides the user who has blocked, and the caller is answered", arguments: [false, true])
    mutating func ownerChanges(isKilled: Bool) {
        let dan = cluster.user(ownedBy: 2)
        cluster.login(dan, on: 0)
        let viewer = cluster.login("eve", on: 1)
        cluster.subscribe("eve", to: [dan], on: 1)
        cluster.advance(.seconds(5))
        cluster.setStatus(dan, "busy", on: 0)
        cluster.call(.chain(.setBlocked([user("eve")], true)), key: CallKey("block", digest: 1), by: dan, on: 0)
        cluster.advance(.milliseconds(500))
        if isKilled { cluster.kill(2) } else { cluster.leave(2) }
        cluster.advance(.seconds(12))
        #expect(cluster.statuses(told: viewer, of: dan).last == "OFFLINE")
        switch cluster.lastAnswer(on: 0) {
        case .owner(.chained), .owner(.blocked): break
        case .refused(let refusal): #expect(refusal.code == 50001 && refusal.mayTakeEffect)
        case let other: #expect(Bool(false), "the call is answered \(String(describing: other))")
        }
    }
}

extension Node {
    /// The live keys of a user's list here.
    func liveKeys(_ kind: Row.Kind, of user: UserID) -> [String] {
        machines.owner.index(ofKnown: user).map { machines.owner.users[$0].list(kind).liveKeys } ?? []
    }
}
