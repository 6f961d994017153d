import Testing

@testable import LoadSimulator

/// Plants each fault that a cluster could cause in the lists of two users, and expects its name.
@Suite struct RelationshipLedgerTests {
    let population = Population(scenario: .social, users: 5, watch: 1, seed: 1)
    var ledger: RelationshipLedger
    /// The two users of the pair under test, and their lists.
    let first: Int
    let second: Int
    var lists: [AnsweredLists?]

    init() {
        ledger = RelationshipLedger(population: population)
        (first, second) = (population.pairs[0].first, population.pairs[0].second)
        lists = (0..<5).map { $0 == 0 ? nil : AnsweredLists() }
        ledger.adopt(lists)
    }

    private mutating func call(_ decision: RelationshipDecision, byFirst: Bool = true, _ end: RelationshipLedger.CallEnd) {
        ledger.begin(decision, pair: 0, isByFirst: byFirst)
        ledger.end(pair: 0, end)
    }

    private mutating func makeFriends() {
        lists[first]?.friends = [population.name(of: second)]
        lists[second]?.friends = [population.name(of: first)]
    }

    /// The kinds of all differences.
    private var kinds: [String] { ledger.differences(lists).map { String($0.text.split(separator: ":")[0]) } }

    @Test("An acknowledged friendship in both lists is right, and each half of it is a difference that names the users")
    mutating func friendship() throws {
        call(.add, .answered(0))
        makeFriends()
        #expect(kinds == [])
        lists[first]?.friends = []
        let difference = try #require(ledger.differences(lists).first)
        #expect(difference.users == [first, second])
        #expect(difference.text.hasPrefix("half a friendship: found \(population.name(of: second)) has the friend"))
        #expect(difference.text.contains("addFriend (add) of \(population.name(of: first)) was answered 0"))
        lists[second]?.friends = []
        #expect(kinds == ["missing"])
    }

    @Test("A refused call changes nothing, and its effect is a difference")
    mutating func refused() {
        call(.add, .refused)
        #expect(kinds == [])
        makeFriends()
        #expect(kinds == ["unexpected"])
    }

    @Test("A call without an answer leaves the state before it and the state after it, and nothing between them")
    mutating func unknown() {
        call(.add, .unknown)
        #expect(kinds == [] && ledger.uncertainCount == 1 && !ledger.isFree(pair: 0))
        makeFriends()
        #expect(kinds == [])
        lists[second]?.friends = []
        #expect(kinds == ["half a friendship"])
    }

    @Test("A friend who is blocked is a difference on either side")
    mutating func friendAndBlocked() {
        call(.add, .answered(0))
        call(.block, byFirst: false, .answered(0))
        lists[second]?.blocked = [population.name(of: first)]
        #expect(kinds == [])
        makeFriends()
        #expect(kinds == ["friend and blocked"])
    }

    @Test("An answer that the rules exclude is a difference, and its pair rests")
    mutating func contradiction() {
        call(.delete, .answered(0))
        #expect(kinds == ["deleteFriends (delete) of \(population.name(of: first)) was answered 0, expected 31704"])
        #expect(!ledger.isFree(pair: 0))
    }

    @Test("A call that a node has repeated may be answered 0 if nothing is left to do, and changes nothing")
    mutating func repeatedCall() {
        ledger.begin(.delete, pair: 0, isByFirst: true)
        ledger.end(pair: 0, .answered(0), mayBeRepeated: true)
        #expect(kinds == [] && ledger.isFree(pair: 0))
        ledger.begin(.add, pair: 0, isByFirst: true)
        ledger.end(pair: 0, .answered(30_525), mayBeRepeated: true)
        #expect(!ledger.isFree(pair: 0))
    }

    @Test("A request waits in the lists of both users until it is accepted, rejected or overtaken by a block")
    mutating func requests() {
        ledger.beginProfile(of: second, nick: "n", allowType: .confirm)
        ledger.endProfile(of: second, .answered(0))
        lists[second]?.profile = RelationshipLedger.Profile(nick: "n", allowType: .confirm)
        call(.add, .answered(30_539))
        #expect(kinds == ["missing"])
        lists[first]?.sent = [population.name(of: second)]
        lists[second]?.received = [population.name(of: first)]
        #expect(kinds == [])
        call(.reject, byFirst: false, .answered(0))
        #expect(kinds == ["unexpected"])
        call(.add, .answered(30_539))
        call(.acceptOneWay, byFirst: false, .answered(0))
        lists[first]?.sent = []
        lists[second]?.received = []
        lists[first]?.friends = [population.name(of: second)]
        #expect(kinds == [])
    }

    @Test("An approval ends the request in the other direction if both users are friends by it", arguments: [true, false])
    func approvalOfFriend(hasFriend: Bool) {
        let requests: RelationshipFacts = .requests
        let before = hasFriend ? requests.union(.ownFriend) : requests
        let after = RelationshipDecision.acceptOneWay.outcomes(from: before, allowed: [.confirm]).map(\.facts)
        #expect(after == [hasFriend ? .friends : [.otherFriend, .ownSent, .otherReceived]])
        #expect(RelationshipDecision.accept.outcomes(from: before, allowed: [.confirm]).map(\.facts) == [.friends])
    }

    @Test("An add is right with the old and the new approval while the profile of the other user changes")
    mutating func profileChangesMeanwhile() {
        ledger.begin(.add, pair: 0, isByFirst: true)
        ledger.beginProfile(of: second, nick: "n", allowType: .deny)
        ledger.endProfile(of: second, .answered(0))
        lists[second]?.profile = RelationshipLedger.Profile(nick: "n", allowType: .deny)
        ledger.end(pair: 0, .answered(30_516))
        #expect(kinds == [] && ledger.isFree(pair: 0))
        call(.add, .answered(0))
        #expect(!ledger.isFree(pair: 0), "the change was answered before this call")
    }

    @Test("A lost profile change is a difference, and one without an answer may be there or not")
    mutating func profiles() {
        ledger.beginProfile(of: first, nick: "a", allowType: nil)
        ledger.endProfile(of: first, .answered(0))
        #expect(kinds == ["profile"])
        lists[first]?.profile.nick = "a"
        ledger.beginProfile(of: first, nick: "b", allowType: nil)
        ledger.endProfile(of: first, .unknown)
        #expect(kinds == [] && !ledger.isProfileFree(of: first))
        lists[first]?.profile.nick = "b"
        #expect(kinds == [])
        lists[first]?.profile.nick = "c"
        #expect(kinds == ["profile"])
    }

    @Test("Lists that were not read and users whom no call named are differences")
    mutating func strangers() {
        lists[first]?.blocked = ["somebody"]
        #expect(kinds == ["unexpected"])
        lists[first] = nil
        #expect(kinds == ["the lists of \(population.name(of: first)) could not be read"])
    }

    @Test("Facts before the load are taken over")
    mutating func adoption() {
        makeFriends()
        lists[first]?.blocked = ["somebody"]
        ledger.adopt(lists)
        #expect(kinds == [] && ledger.mayHaveBeenFriends(pair: 0))
        call(.add, .answered(30_001))
        #expect(kinds == [])
    }

    @Test(
        "The end of a call is read from the status and the body",
        arguments: [
            (200, #"{"userID":"a","resultCode":30539,"resultInfo":""}"#, .answered(30_539)),
            (200, #"{"resultList":[{"userID":"a","resultCode":0}],"errorUserList":[]}"#, .answered(0)),
            (200, #"{"resultList":[{"userID":"a","resultCode":50001}],"errorUserList":[]}"#, .unknown),
            (200, #"{"userID":"a","resultCode":30008}"#, .unknown),
            (200, #"{"profile":{"nick":"a"}}"#, .answered(0)),
            (200, #"{}"#, .unknown),
            (429, #"{"code":7008,"retryAfter":1}"#, .refused),
            (503, #"{"code":50002,"retryAfter":1}"#, .refused),
            (503, #"{"code":50001,"mayTakeEffect":true}"#, .unknown),
            (502, "<html>", .unknown), (nil, "", .unknown),
        ] as [(Int?, String, RelationshipLedger.CallEnd)])
    func ends(status: Int?, body: String, end: RelationshipLedger.CallEnd) {
        #expect(RelationshipLedger.CallEnd(status: status, body: Array(body.utf8)) == end)
    }
}
