import PresenceWire
import Testing

@testable import ClusterSimulation

/// The facts that the answers of calls make certain between two users.
@Suite struct PairOracleTests {
    var oracle = PairOracle()

    private mutating func ask(_ id: Int, _ decision: PairDecision, isByFirst: Bool = true) {
        oracle.ask(id, decision, isByFirst: isByFirst)
    }

    @discardableResult
    private mutating func answer(
        _ id: Int, _ decision: PairDecision, _ code: ChainCode, allowed: ChainPolicy.AllowType = .any, isTrusted: Bool = true,
        endsUnresolved: Nanoseconds = .min
    ) -> PairFacts? {
        let known = oracle.settled(before: id)!
        let claims = decision.claims(of: code, known, allowed: [allowed], mayBeRetry: false)
        return oracle.answer(id, claims, isTrusted: isTrusted, endsUnresolved: endsUnresolved, at: 0)
    }

    @discardableResult
    private mutating func decide(
        _ id: Int, _ decision: PairDecision, _ code: ChainCode, isByFirst: Bool = true, allowed: ChainPolicy.AllowType = .any
    ) -> PairFacts? {
        ask(id, decision, isByFirst: isByFirst)
        return answer(id, decision, code, allowed: allowed)
    }

    @Test("A block certainly holds from its answer to the next call that may end it") mutating func mustHold() {
        ask(1, .block)
        #expect(!oracle.mustHold(.ownBlocks, since: 0))
        answer(1, .block, .done)
        #expect(oracle.mustHold(.ownBlocks, since: 0))
        #expect(!oracle.mustHold(.ownBlocks, since: -1))
        ask(2, .unblock)
        #expect(!oracle.mustHold(.ownBlocks, since: 0))
    }

    @Test("A block that the answer to an addition names certainly holds only from its own answer", arguments: [false, true])
    mutating func mustHoldAfterOtherAnswer(isRefused: Bool) {
        ask(1, .block)
        decide(2, .add(isTwoWay: true), .blockedBySelf)
        #expect(oracle.known[.ownBlocks] == true && !oracle.mustHold(.ownBlocks, since: 0))
        if isRefused { oracle.leaveUnresolved(1, at: 0) } else { answer(1, .block, .done) }
        #expect(oracle.mustHold(.ownBlocks, since: 0) == !isRefused)
    }

    @Test("An addition makes both friends, and a deletion ends that") mutating func addAndDelete() {
        #expect(decide(1, .add(isTwoWay: true), .done) == nil)
        #expect(oracle.known[.ownFriend] == true && oracle.known[.otherFriend] == true && !oracle.mayBeOneSided)
        #expect(oracle.problem(with: [.ownFriend]) == .otherFriend)
        #expect(decide(2, .delete(isTwoWay: false), .done, isByFirst: false) == nil)
        #expect(oracle.known[.ownFriend] == true && oracle.known[.otherFriend] == false && oracle.mayBeOneSided)
        #expect(oracle.problem(with: [.ownFriend]) == nil)
    }

    @Test("A request waits on both sides until it is answered") mutating func requests() {
        decide(1, .add(isTwoWay: true), .pending, allowed: .confirm)
        #expect(oracle.known[.ownSent] == true && oracle.known[.otherReceived] == true)
        #expect(decide(2, .reject, .noRequest, isByFirst: false, allowed: .confirm) == .otherReceived)
        decide(3, .accept(isTwoWay: true), .done, isByFirst: false, allowed: .confirm)
        #expect(oracle.problem(with: [.ownFriend, .otherFriend]) == nil)
    }

    @Test("An addition to one list leaves the requests, and the approval that makes both users friends ends them") mutating func oneWay() {
        decide(1, .add(isTwoWay: true), .pending, allowed: .confirm)
        decide(2, .add(isTwoWay: false), .done)
        #expect(oracle.problem(with: [.ownFriend, .ownSent, .otherReceived]) == nil)
        #expect(oracle.problem(with: .ownFriend) != nil)
        decide(3, .accept(isTwoWay: false), .done, isByFirst: false)
        #expect(oracle.problem(with: .ownFriend) == nil)
        decide(4, .add(isTwoWay: false), .done, isByFirst: false)
        #expect(oracle.problem(with: [.ownFriend, .otherFriend]) == nil)
        #expect(oracle.problem(with: [.ownFriend, .otherFriend, .ownSent]) == .ownSent)
    }

    @Test("A two-way deletion ends the own request, and a one-way deletion leaves it", arguments: [true, false])
    mutating func deletionBesideRequest(isTwoWay: Bool) {
        decide(1, .add(isTwoWay: true), .pending, allowed: .confirm)
        decide(2, .add(isTwoWay: false), .done)
        decide(3, .delete(isTwoWay: isTwoWay), .done)
        let request: PairFacts = [.ownSent, .otherReceived]
        #expect((oracle.problem(with: []) == nil) == isTwoWay)
        #expect((oracle.problem(with: request) == nil) == !isTwoWay)
    }

    @Test("An answer that contradicts what is certain is found") mutating func contradictions() {
        #expect(decide(1, .delete(isTwoWay: true), .done) == .ownFriend)
        oracle = PairOracle()
        #expect(decide(1, .add(isTwoWay: true), .done, allowed: .confirm) == .otherFriend)
        oracle = PairOracle()
        #expect(decide(1, .add(isTwoWay: true), .alreadyFriend) == .ownFriend)
    }

    @Test("Two decisions at once leave what both may change uncertain") mutating func atOnce() {
        ask(1, .add(isTwoWay: true))
        ask(2, .delete(isTwoWay: true), isByFirst: false)
        answer(1, .add(isTwoWay: true), .done)
        #expect(answer(2, .delete(isTwoWay: true), .done) == nil)
        #expect(oracle.known[.ownFriend] == nil && oracle.known[.otherFriend] == nil && oracle.mayBeOneSided)
        #expect(oracle.problem(with: []) == nil)
    }

    @Test("A decision without an answer may come at any time, until a later one of its user has ended it") mutating func unresolved() {
        ask(1, .add(isTwoWay: true))
        oracle.leaveUnresolved(1, at: 10)
        decide(2, .delete(isTwoWay: true), .noFriend)
        #expect(oracle.known[.ownFriend] == nil)
        ask(3, .add(isTwoWay: true))
        answer(3, .add(isTwoWay: true), .done, endsUnresolved: 20)
        decide(4, .delete(isTwoWay: false), .done)
        #expect(oracle.known[.ownFriend] == false)
    }

    @Test("A block ends the friendship and the requests of both users, and contradicts later additions of either") mutating func blocks() {
        decide(1, .add(isTwoWay: true), .done)
        #expect(decide(2, .block, .done) == nil)
        #expect(oracle.known[.ownBlocks] == true && oracle.known[.otherFriend] == false)
        #expect(oracle.problem(with: [.ownBlocks]) == nil && oracle.problem(with: [.ownBlocks, .otherFriend]) == .otherFriend)
        #expect(oracle.problem(with: []) == .ownBlocks)
        #expect(decide(3, .add(isTwoWay: true), .blockedByOther, isByFirst: false) == nil)
        #expect(decide(4, .add(isTwoWay: true), .done, isByFirst: false) == .ownBlocks)
        oracle = PairOracle()
        #expect(decide(1, .add(isTwoWay: true), .blockedBySelf) == .ownBlocks)
    }

    @Test("The end of a block is certain, and brings nothing back") mutating func unblocks() {
        decide(1, .add(isTwoWay: true), .pending, allowed: .confirm)
        decide(2, .block, .done, isByFirst: false)
        #expect(decide(3, .block, .alreadyBlocked, isByFirst: false) == nil)
        #expect(decide(4, .unblock, .done, isByFirst: false) == nil)
        #expect(oracle.problem(with: []) == nil && oracle.problem(with: .otherReceived) == .otherReceived)
        #expect(decide(5, .unblock, .notBlocked, isByFirst: false) == nil)
        #expect(decide(6, .block, .alreadyBlocked, isByFirst: false) == .otherBlocks)
    }

    @Test("An import makes one user a friend of the other, leaves the requests, and contradicts a block") mutating func imports() {
        let bring = PairDecision.bring(namesGroup: false)
        decide(1, .add(isTwoWay: true), .pending, isByFirst: false, allowed: .confirm)
        #expect(decide(2, bring, .done) == nil)
        #expect(oracle.problem(with: [.ownFriend, .otherSent, .ownReceived]) == nil)
        #expect(decide(3, bring, .alreadyFriend) == nil)
        #expect(decide(4, bring, .done) == .ownFriend)
        oracle = PairOracle()
        decide(1, .block, .done)
        #expect(decide(2, bring, .blockedBySelf) == nil)
        #expect(decide(3, bring, .done) == .ownBlocks)
        #expect(decide(4, .bring(namesGroup: true), .alreadyFriend) == nil)
    }

    @Test(
        "A forced addition needs no approval, and a user who forbids requests refuses it",
        arguments: [ChainPolicy.AllowType.confirm, .deny])
    mutating func force(allowed: ChainPolicy.AllowType) {
        let force = PairDecision.add(isTwoWay: true, isForced: true)
        #expect(decide(1, force, .done, allowed: allowed) == (allowed == .deny ? .otherFriend : nil))
        oracle = PairOracle()
        #expect(decide(1, force, .forbidden, allowed: allowed) == nil)
        #expect(!force.effects.sets.contains(.ownSent))
    }

    @Test("The deletion of all friends contradicts a friend whom it does not name, unless an earlier attempt may have found it")
    mutating func deleteAny() {
        let delete = PairDecision.deleteAny(isTwoWay: true)
        decide(1, .add(isTwoWay: true), .done)
        #expect(decide(2, delete, .noFriend) == .ownFriend)
        oracle = PairOracle()
        decide(1, .add(isTwoWay: true), .done)
        ask(2, delete)
        let claims = delete.claims(of: .noFriend, oracle.settled(before: 2)!, allowed: [.any], mayBeRetry: true)
        #expect(oracle.answer(2, claims, isTrusted: true, endsUnresolved: .min, at: 0) == nil)
        #expect(oracle.known[.ownFriend] == false && oracle.known[.otherFriend] == nil)
        oracle = PairOracle()
        decide(1, .add(isTwoWay: true), .done)
        #expect(decide(2, delete, .done) == nil)
        #expect(oracle.problem(with: []) == nil)
    }

    @Test("A decision is the only maker of a fact if nothing else can have made it meanwhile") mutating func onlyMaker() {
        let bring = PairDecision.bring(namesGroup: false)
        ask(1, bring)
        #expect(oracle.isOnlyMaker(1, of: .ownFriend) && !oracle.isOnlyMaker(2, of: .ownFriend))
        ask(2, .add(isTwoWay: true), isByFirst: false)
        #expect(!oracle.isOnlyMaker(1, of: .ownFriend) && !oracle.isOnlyMaker(2, of: .ownFriend))
    }

    @Test("Each fact is its own after it was seen from both sides") func flipping() {
        #expect(PairFacts.all.elements.count == 8)
        for fact in PairFacts.all.elements { #expect(fact.flipped != fact && fact.flipped.flipped == fact) }
    }

    @Test("A refused decision changes nothing") mutating func refusal() {
        decide(1, .add(isTwoWay: true), .done)
        ask(2, .delete(isTwoWay: true))
        #expect(oracle.known[.ownFriend] == nil)
        oracle.refuse(2, at: 0)
        #expect(oracle.known[.ownFriend] == true)
    }
}
