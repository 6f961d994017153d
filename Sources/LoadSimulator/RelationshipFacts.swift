/// The facts in the lists of two users about each other, seen from one of them.
struct RelationshipFacts: OptionSet, Hashable {
    let rawValue: UInt8

    /// The other user is in the own friend list.
    static let ownFriend = RelationshipFacts(rawValue: 1)
    /// The user is in the other user's friend list.
    static let otherFriend = RelationshipFacts(rawValue: 2)
    /// A request to the other user waits for an approval, by the own list.
    static let ownSent = RelationshipFacts(rawValue: 4)
    /// A request to this user waits for an approval, by the other user's list.
    static let otherSent = RelationshipFacts(rawValue: 8)
    /// The request of the other user, by the own list.
    static let ownReceived = RelationshipFacts(rawValue: 16)
    /// The request to the other user, by the other user's list.
    static let otherReceived = RelationshipFacts(rawValue: 32)
    /// The other user is on the own blocklist.
    static let ownBlocks = RelationshipFacts(rawValue: 64)
    /// The user is on the other user's blocklist.
    static let otherBlocks = RelationshipFacts(rawValue: 128)

    static let friends: RelationshipFacts = [.ownFriend, .otherFriend]
    static let requests: RelationshipFacts = [.ownSent, .otherSent, .ownReceived, .otherReceived]

    /// The same facts, seen from the other user.
    var flipped: RelationshipFacts { RelationshipFacts(rawValue: (rawValue & 0b01010101) << 1 | (rawValue & 0b10101010) >> 1) }

    /// Whether one of the users is a friend of the other and blocked by it or by the other one.
    var isFriendAndBlocked: Bool { !isDisjoint(with: .friends) && !isDisjoint(with: [.ownBlocks, .otherBlocks]) }

    /// Whether only one of the users has the other as a friend.
    var isHalfFriendship: Bool { contains(.ownFriend) != contains(.otherFriend) }

    /// The facts as a phrase, with the names of the users.
    func words(_ own: String, _ other: String) -> String {
        let words = [
            "\(own) has the friend \(other)", "\(other) has the friend \(own)", "\(own) has sent \(other) a request",
            "\(other) has sent \(own) a request", "\(own) has a request of \(other)", "\(other) has a request of \(own)",
            "\(own) blocks \(other)", "\(other) blocks \(own)",
        ]
        let held = words.indices.filter { rawValue & 1 << $0 != 0 }.map { words[$0] }
        return held.isEmpty ? "nothing between them" : held.joined(separator: " and ")
    }
}

/// The users who may add a user as a friend, by the user's profile.
enum AllowType: String, CaseIterable {
    case any = "ANY"
    case confirm = "CONFIRM"
    case deny = "DENY"
}

/// The result codes of the relationship chain that the simulator expects.
enum ChainResult {
    static let done: Int64 = 0
    static let alreadyFriend: Int64 = 30_001
    static let conflict: Int64 = 30_008
    static let blockedBySelf: Int64 = 30_515
    static let blockedByOther: Int64 = 30_525
    static let forbidden: Int64 = 30_516
    static let pending: Int64 = 30_539
    static let noRequest: Int64 = 30_614
    static let alreadyBlocked: Int64 = 31_307
    static let notBlocked: Int64 = 31_503
    static let noFriend: Int64 = 31_704
    static let unavailable: Int64 = 50_001
    /// The refusals of a call that leaves nothing to do. A call that a node repeats has 0 instead.
    static let saysDone = [alreadyFriend, noRequest, alreadyBlocked, notBlocked, noFriend]
}

/// A decision of a user about another one.
enum RelationshipDecision: String, CaseIterable {
    case add, accept, acceptOneWay, reject, delete, deleteOneWay, block, unblock

    /// A possible answer, and the facts after it.
    struct Outcome: Equatable {
        let code: Int64
        let facts: RelationshipFacts
    }

    /// The operation of the HTTP API.
    var operation: String {
        switch self {
        case .add: "addFriend"
        case .accept, .acceptOneWay, .reject: "doResponse"
        case .delete, .deleteOneWay: "deleteFriends"
        case .block: "addBlackList"
        case .unblock: "deleteBlackList"
        }
    }

    /// The body of the call about `other`.
    func body(about other: String) -> String {
        switch self {
        case .add: "{\"userID\":\"\(other)\",\"addWording\":\"hello\"}"
        case .accept: "{\"userID\":\"\(other)\",\"responseType\":1}"
        case .acceptOneWay: "{\"userID\":\"\(other)\",\"responseType\":0}"
        case .reject: "{\"userID\":\"\(other)\",\"responseType\":2}"
        case .delete: "{\"userIDs\":[\"\(other)\"],\"delType\":2}"
        case .deleteOneWay: "{\"userIDs\":[\"\(other)\"],\"delType\":1}"
        case .block, .unblock: "{\"userIDs\":[\"\(other)\"]}"
        }
    }

    /// The outcomes that the rules of the chain allow. There are several only if the other user's profile is uncertain.
    ///
    /// - Parameters:
    ///   - facts: the facts before, seen from the user who decides.
    ///   - allowed: the values that the other user's `AllowType` may have.
    func outcomes(from facts: RelationshipFacts, allowed: [AllowType]) -> [Outcome] {
        switch self {
        case .add: Self.added(facts, allowed)
        case .accept: [Self.answered(facts, adds: .friends)]
        case .acceptOneWay: [Self.answered(facts, adds: .otherFriend)]
        case .reject: [Self.answered(facts, adds: [])]
        case .delete, .deleteOneWay:
            facts.contains(.ownFriend)
                ? [Outcome(code: ChainResult.done, facts: facts.subtracting(self == .delete ? Self.endedByDeletion : .ownFriend))]
                : [Outcome(code: ChainResult.noFriend, facts: facts)]
        case .block:
            facts.contains(.ownBlocks)
                ? [Outcome(code: ChainResult.alreadyBlocked, facts: facts)]
                : [Outcome(code: ChainResult.done, facts: facts.subtracting(.friends).subtracting(.requests).union(.ownBlocks))]
        case .unblock:
            facts.contains(.ownBlocks)
                ? [Outcome(code: ChainResult.done, facts: facts.subtracting(.ownBlocks))]
                : [Outcome(code: ChainResult.notBlocked, facts: facts)]
        }
    }

    /// The facts that end with a deletion from both lists.
    private static let endedByDeletion: RelationshipFacts = [.friends, .ownSent, .otherReceived]

    private static func added(_ facts: RelationshipFacts, _ allowed: [AllowType]) -> [Outcome] {
        if facts.contains(.ownFriend) { return [Outcome(code: ChainResult.alreadyFriend, facts: facts)] }
        if facts.contains(.ownBlocks) { return [Outcome(code: ChainResult.blockedBySelf, facts: facts)] }
        if facts.contains(.otherBlocks) { return [Outcome(code: ChainResult.blockedByOther, facts: facts)] }
        let friends = Outcome(code: ChainResult.done, facts: facts.union(.friends).subtracting(.requests))
        // The other user has agreed already: with an entry in its list, or with a request of its own.
        if !facts.isDisjoint(with: [.otherFriend, .otherSent]) { return [friends] }
        return allowed.map { type in
            switch type {
            case .any: friends
            case .confirm: Outcome(code: ChainResult.pending, facts: facts.union([.ownSent, .otherReceived]))
            case .deny: Outcome(code: ChainResult.forbidden, facts: facts)
            }
        }
    }

    private static func answered(_ facts: RelationshipFacts, adds: RelationshipFacts) -> Outcome {
        guard facts.contains(.ownReceived) else { return Outcome(code: ChainResult.noRequest, facts: facts) }
        let after = facts.union(adds)
        let makesFriends = !adds.isEmpty && after.isSuperset(of: .friends)
        return Outcome(code: ChainResult.done, facts: after.subtracting(makesFriends ? .requests : [.ownReceived, .otherSent]))
    }
}
