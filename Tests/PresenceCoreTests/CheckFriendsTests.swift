import PresenceWire
import Testing

@testable import PresenceCore

/// `checkFriends` on three nodes (P18, P19). Each of the users has another owner than ann.
@Suite struct CheckFriendsTests {
    var cluster = TestCluster(nodes: 3)
    let ann: String
    let ben: String
    let cid: String
    let dan: String

    init() {
        ann = cluster.user(ownedBy: 0)
        ben = cluster.user(ownedBy: 1)
        cid = cluster.user(ownedBy: 2)
        dan = cluster.user(ownedBy: 1, number: 1)
        add(ben, by: ann, isTwoWay: true)
        add(cid, by: ann, isTwoWay: false)
        add(ann, by: dan, isTwoWay: false)
    }

    private mutating func add(_ target: String, by name: String, isTwoWay: Bool) {
        cluster.call(.chain(.add(user(target), SentRequest(addTime: 0), isTwoWay: isTwoWay)), by: name, on: 0)
        cluster.advance(.milliseconds(50))
    }

    private mutating func check(_ names: [String], isTwoWay: Bool, on node: Int = 2) -> [UserRelation]? {
        cluster.call(.checkRelations(names.map(user), .friends, isTwoWay: isTwoWay), by: ann, on: node)
        cluster.advance(.milliseconds(50))
        guard case .relationsChecked(let relations) = cluster.lastAnswer(on: node) else { return nil }
        return relations
    }

    private func relation(_ name: String, _ isFriend: Bool, _ hasCaller: Bool?) -> UserRelation {
        UserRelation(user: user(name), isListed: isFriend, hasCaller: hasCaller)
    }

    @Test("A two-way check reads the lists of both sides, whichever node is asked", arguments: 0..<3) mutating func twoWay(node: Int) {
        let nobody = cluster.user(ownedBy: 2, number: 1)
        #expect(
            check([dan, ben, nobody, cid], isTwoWay: true, on: node) == [
                relation(dan, false, true), relation(ben, true, true), relation(nobody, false, false), relation(cid, true, false),
            ])
    }

    @Test("A one-way check reads the caller's list alone") mutating func oneWay() {
        cluster.heard = []
        let own = [relation(dan, false, false), relation(ben, true, false), relation(cid, true, false)]
        #expect(check([dan, ben, cid], isTwoWay: false) == own)
        let asked = cluster.heard!.compactMap { heard -> OwnerOperation? in
            if case .request(let request) = heard.message { request.operation } else { nil }
        }
        #expect(asked == [.checkRelations(RelationCheck(.own([dan, ben, cid].map(user)), in: .friends))])
    }

    @Test("Where users must be registered, a check names those whom the app does not know, and a silent owner spoils no other result")
    mutating func unknownUsers() {
        cluster.call(.importUsers([ann, ben, cid].map(user)), by: ann, on: 0)
        cluster.call(.setAppPolicy(Array(#"{"settings":{"users.mustBeRegistered":true}}"#.utf8)), by: ann, on: 0)
        cluster.advance(.milliseconds(200))
        let nobody = cluster.user(ownedBy: 2, number: 1)
        let unknown = { (name: String, isFriend: Bool, hasCaller: Bool) in
            UserRelation(user: user(name), isListed: isFriend, hasCaller: hasCaller, isUnknown: true)
        }
        let others = [unknown(nobody, false, false), relation(cid, true, false)]
        // Dan has ann as a friend since before users had to be registered.
        #expect(check([ben, nobody, cid, dan], isTwoWay: true) == [relation(ben, true, true)] + others + [unknown(dan, false, true)])
        #expect(check([nobody, cid], isTwoWay: false) == others)
        cluster.losing = [(1, 2)]
        cluster.call(.checkRelations([ben, nobody, cid].map(user), .friends, isTwoWay: true), by: ann, on: 2)
        cluster.advance(.milliseconds(5_100))
        #expect(cluster.lastAnswer(on: 2) == .relationsChecked([relation(ben, true, nil)] + others))
    }

    @Test("A check without a valid user is answered with no result") mutating func nobody() {
        #expect(check([], isTwoWay: true) == [])
    }

    @Test("A user whose owner does not answer in time has the caller's half of the result, and the others have all of it")
    mutating func silentOwner() {
        cluster.losing = [(1, 2)]
        cluster.call(.checkRelations([ben, cid, dan].map(user), .friends, isTwoWay: true), by: ann, on: 2)
        cluster.advance(.milliseconds(5_100))
        #expect(
            cluster.lastAnswer(on: 2)
                == .relationsChecked([relation(ben, true, nil), relation(cid, true, false), relation(dan, false, nil)]))
    }

    @Test("A check finds the next owner of a user whose owner dies meanwhile") mutating func ownerDies() {
        cluster.losing = [(1, 2)]
        cluster.call(.checkRelations([ben, cid].map(user), .friends, isTwoWay: true), by: ann, on: 2)
        cluster.kill(1)
        cluster.losing = []
        cluster.advance(.milliseconds(4_900))
        #expect(cluster.lastAnswer(on: 2) == .relationsChecked([relation(ben, true, true), relation(cid, true, false)]))
    }

    @Test("A check counts as one call of the relationship chain, and a call beyond the limit asks no other owner") mutating func rate() {
        cluster.call(.setAppPolicy(Array(#"{"settings":{"rate.chain":{"calls":3,"seconds":60}}}"#.utf8)), by: ann, on: 0)
        cluster.advance(.milliseconds(100))
        // Ann has added two users.
        #expect(check([ben], isTwoWay: true)?.count == 1)
        cluster.heard = []
        #expect(check([ben], isTwoWay: true) == nil)
        guard case .rateLimited = cluster.lastAnswer(on: 2) else { return #expect(Bool(false), "the second call is not limited") }
        let others = cluster.heard!.filter { heard in
            guard case .request(let request) = heard.message, case .checkRelations(let check) = request.operation else { return false }
            if case .others = check.side { return true } else { return false }
        }
        #expect(others.isEmpty)
    }
}
