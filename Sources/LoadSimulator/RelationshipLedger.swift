/// Verifies relationships: keeps what is certain about each pair of users and each profile, and compares it with the users' lists.
///
/// At most one call of a pair, and one profile change of a user, is open at a time. An answered call therefore decides what holds. A call
/// whose result is unknown may take effect at any later time: its pair takes no further calls, and its state before and its state after are
/// both right. Anything between them, such as half a friendship, is a difference.
struct RelationshipLedger {
    /// The end of a call.
    enum CallEnd: Equatable {
        /// The node has decided, with this code.
        case answered(Int64)
        /// The node has refused the call, which changes nothing.
        case refused
        /// No answer, or one that leaves the result open: the call may still take effect.
        case unknown
    }

    /// A fact that is not as the ledger expects.
    struct Difference: Equatable {
        /// The users whose lists are concerned.
        let users: [Int]
        let text: String
    }

    /// The fields of a profile that the simulator sets.
    struct Profile: Equatable {
        var nick = ""
        var allowType = AllowType.any
    }

    private struct Call {
        let decision: RelationshipDecision
        let isByFirst: Bool
        /// The values that the other user's `AllowType` may have when the call takes effect.
        var allowed: [AllowType]

        /// The outcomes, with the facts as the pair's first user sees them.
        func outcomes(from facts: RelationshipFacts) -> [RelationshipDecision.Outcome] {
            let outcomes = decision.outcomes(from: isByFirst ? facts : facts.flipped, allowed: allowed)
            return isByFirst ? outcomes : outcomes.map { .init(code: $0.code, facts: $0.facts.flipped) }
        }
    }

    private enum State {
        case idle
        case open(Call)
        /// The result of the last call is unknown.
        case resting(Call)
        /// The last answer contradicts the rules, and was reported.
        case disputed

        var call: Call? {
            switch self {
            case .idle, .disputed: nil
            case .open(let call), .resting(let call): call
            }
        }
    }

    private struct Pair {
        /// The facts before an open or resting call, as the first user sees them.
        var facts: RelationshipFacts = []
        var state = State.idle
        /// Whether the two may ever have been friends.
        var mayHaveBeenFriends = false
        /// The last answered call, in words.
        var last = "no call"
    }

    private struct Owner {
        var profile = Profile()
        /// The profile after an open change, or after one whose result is unknown.
        var next: Profile?
        var isResting = false
        /// Names in the lists before the load that do not belong to a pair.
        var strangers: Set<String> = []
    }

    private let population: Population
    private var pairs: [Pair]
    private var owners: [Owner]
    /// Answers that contradict the rules.
    private(set) var contradictions: [Difference] = []

    init(population: Population) {
        self.population = population
        pairs = Array(repeating: Pair(), count: population.pairs.count)
        owners = Array(repeating: Owner(), count: population.watched.count)
    }

    /// The pairs with facts that are not certain.
    var uncertainCount: Int { pairs.count { if case .idle = $0.state { false } else { true } } }

    // MARK: Calls

    /// Takes over the lists that the users have before the load.
    mutating func adopt(_ lists: [AnsweredLists?]) {
        for (index, pair) in population.pairs.enumerated() {
            pairs[index].facts = facts(of: pair, lists)
            pairs[index].mayHaveBeenFriends = !pairs[index].facts.isDisjoint(with: .friends)
        }
        for (user, lists) in lists.enumerated() {
            guard let lists else { continue }
            owners[user].profile = lists.profile
            owners[user].strangers = lists.names.subtracting(relativeNames(of: user))
        }
    }

    /// Whether a call about the pair may begin.
    func isFree(pair: Int) -> Bool { if case .idle = pairs[pair].state { true } else { false } }

    /// The facts of a free pair, seen from one of its users.
    func facts(of pair: Int, isByFirst: Bool) -> RelationshipFacts { isByFirst ? pairs[pair].facts : pairs[pair].facts.flipped }

    mutating func begin(_ decision: RelationshipDecision, pair: Int, isByFirst: Bool) {
        let other = isByFirst ? population.pairs[pair].second : population.pairs[pair].first
        pairs[pair].state = .open(Call(decision: decision, isByFirst: isByFirst, allowed: allowTypes(of: other)))
        if decision == .add || decision == .accept || decision == .acceptOneWay { pairs[pair].mayHaveBeenFriends = true }
    }

    /// Records the end of a pair's open call.
    ///
    /// - Parameter mayBeRepeated: whether a node may have repeated the call because an owner was lost. The answer is 0 then if nothing is
    ///   left to do.
    mutating func end(pair: Int, _ end: CallEnd, mayBeRepeated: Bool = false) {
        guard case .open(let call) = pairs[pair].state else { return }
        switch end {
        case .refused: pairs[pair].state = .idle
        case .unknown: pairs[pair].state = .resting(call)
        case .answered(let code):
            let operation = "\(call.decision.operation) (\(call.decision.rawValue))"
            let words = "\(operation) of \(name(of: pair, isFirst: call.isByFirst)) was answered \(code)"
            pairs[pair].last = words
            let outcomes = call.outcomes(from: pairs[pair].facts)
            if let outcome = outcomes.first(where: { $0.code == code }) {
                (pairs[pair].facts, pairs[pair].state) = (outcome.facts, .idle)
            } else if mayBeRepeated, code == ChainResult.done, outcomes.allSatisfy({ ChainResult.saysDone.contains($0.code) }) {
                pairs[pair].state = .idle
            } else {
                pairs[pair].state = .disputed
                let expected = outcomes.map { String($0.code) }.joined(separator: " or ")
                let users = population.pairs[pair]
                contradictions.append(
                    Difference(users: [users.first, users.second], text: "\(words), expected \(expected): \(held(by: pair))"))
            }
        }
    }

    /// Whether a record of one user may be pushed to the other because they are or were friends.
    func mayHaveBeenFriends(pair: Int) -> Bool { pairs[pair].mayHaveBeenFriends }

    // MARK: Profiles

    /// Whether a profile change of the user may begin.
    func isProfileFree(of user: Int) -> Bool { owners[user].next == nil }

    /// Begins a change of the nickname, and of the users who may add this one if `allowType` is given.
    mutating func beginProfile(of user: Int, nick: String, allowType: AllowType?) {
        owners[user].next = Profile(nick: nick, allowType: allowType ?? owners[user].profile.allowType)
        guard let allowType else { return }
        for pair in population.pairsOfUser[user] {
            let isFirst = population.pairs[pair].first == user
            func extend(_ call: Call) -> Call {
                guard call.isByFirst != isFirst, !call.allowed.contains(allowType) else { return call }
                var call = call
                call.allowed.append(allowType)
                return call
            }
            switch pairs[pair].state {
            case .open(let call): pairs[pair].state = .open(extend(call))
            case .resting(let call): pairs[pair].state = .resting(extend(call))
            case .idle, .disputed: break
            }
        }
    }

    mutating func endProfile(of user: Int, _ end: CallEnd) {
        guard let next = owners[user].next, !owners[user].isResting else { return }
        switch end {
        case .unknown: owners[user].isResting = true
        case .refused: owners[user].next = nil
        case .answered: (owners[user].profile, owners[user].next) = (next, nil)
        }
    }

    private func allowTypes(of user: Int) -> [AllowType] {
        let owner = owners[user]
        guard let next = owner.next, next.allowType != owner.profile.allowType else { return [owner.profile.allowType] }
        return [owner.profile.allowType, next.allowType]
    }

    // MARK: The end

    /// Compares the lists of all users with what is certain. A user without lists could not be read.
    func differences(_ lists: [AnsweredLists?]) -> [Difference] {
        var differences = contradictions
        for (index, pair) in population.pairs.enumerated() where lists[pair.first] != nil && lists[pair.second] != nil {
            if let text = difference(of: index, facts(of: pair, lists)) {
                differences.append(Difference(users: [pair.first, pair.second], text: text))
            }
        }
        for user in population.members {
            guard let lists = lists[user] else {
                differences.append(Difference(users: [user], text: "the lists of \(population.name(of: user)) could not be read"))
                continue
            }
            differences += ownDifferences(of: user, lists)
        }
        return differences
    }

    private func ownDifferences(of user: Int, _ lists: AnsweredLists) -> [Difference] {
        var texts: [String] = []
        let (owner, name) = (owners[user], population.name(of: user))
        for stranger in lists.names.subtracting(relativeNames(of: user)).subtracting(owner.strangers).sorted() {
            texts.append("unexpected: \(name) has \(stranger) in its lists, but no call named the two")
        }
        let expected = [owner.profile] + (owner.next.map { [$0] } ?? [])
        if !expected.contains(lists.profile) {
            let words = expected.map { "\"\($0.nick)\" with \($0.allowType.rawValue)" }.joined(separator: " or ")
            texts.append(
                "profile: \(name) is \"\(lists.profile.nick)\" with \(lists.profile.allowType.rawValue), expected \(words)")
        }
        return texts.map { Difference(users: [user], text: $0) }
    }

    private func difference(of index: Int, _ found: RelationshipFacts) -> String? {
        let pair = pairs[index]
        var possible = [pair.facts]
        switch pair.state {
        case .disputed:
            guard found.isFriendAndBlocked else { return nil }
        case .idle, .open, .resting:
            for outcome in pair.state.call?.outcomes(from: pair.facts) ?? [] where !possible.contains(outcome.facts) {
                possible.append(outcome.facts)
            }
            if possible.contains(found) { return nil }
        }
        let (first, second) = (name(of: index, isFirst: true), name(of: index, isFirst: false))
        let kind =
            if found.isFriendAndBlocked {
                "friend and blocked"
            } else if found.isHalfFriendship, !possible.contains(where: \.isHalfFriendship) {
                "half a friendship"
            } else if !possible.allSatisfy({ found.isSuperset(of: $0) }) {
                "missing"
            } else {
                "unexpected"
            }
        let expected = possible.map { $0.words(first, second) }.joined(separator: ", or ")
        let open = pair.state.call.map { call in
            "; the result of \(call.decision.operation) of \(name(of: index, isFirst: call.isByFirst)) is unknown"
        }
        return "\(kind): found \(found.words(first, second)), expected \(expected); last, \(pair.last)\(open ?? "")"
    }

    private func held(by index: Int) -> String {
        pairs[index].facts.words(name(of: index, isFirst: true), name(of: index, isFirst: false))
    }

    private func name(of pair: Int, isFirst: Bool) -> String {
        population.name(of: isFirst ? population.pairs[pair].first : population.pairs[pair].second)
    }

    private func relativeNames(of user: Int) -> Set<String> {
        Set(population.pairsOfUser[user].map { population.name(of: population.pairs[$0].other(than: user)) })
    }

    private func facts(of pair: Population.Pair, _ lists: [AnsweredLists?]) -> RelationshipFacts {
        let own = side(lists[pair.first], about: pair.second)
        return own.union(side(lists[pair.second], about: pair.first).flipped)
    }

    private func side(_ lists: AnsweredLists?, about other: Int) -> RelationshipFacts {
        guard let lists else { return [] }
        let name = population.name(of: other)
        var facts: RelationshipFacts = []
        if lists.friends.contains(name) { facts.insert(.ownFriend) }
        if lists.sent.contains(name) { facts.insert(.ownSent) }
        if lists.received.contains(name) { facts.insert(.ownReceived) }
        if lists.blocked.contains(name) { facts.insert(.ownBlocks) }
        return facts
    }
}
