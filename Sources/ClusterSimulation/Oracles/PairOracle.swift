/// The facts of the relationship chain that concern two users, seen from one of them: the own facts, and those of the other user.
struct PairFacts: OptionSet {
    let rawValue: UInt8

    /// The other user is in the own friend list.
    static let ownFriend = PairFacts(rawValue: 1)
    /// The user is in the other user's friend list.
    static let otherFriend = PairFacts(rawValue: 2)
    /// A request to the other user waits for an approval, by the own list.
    static let ownSent = PairFacts(rawValue: 4)
    /// A request to this user waits for an approval, by the other user's list.
    static let otherSent = PairFacts(rawValue: 8)
    /// The request of the other user, by the own list.
    static let ownReceived = PairFacts(rawValue: 16)
    /// The request to the other user, by the other user's list.
    static let otherReceived = PairFacts(rawValue: 32)

    /// The other user is on the own blocklist.
    static let ownBlocks = PairFacts(rawValue: 64)
    /// The user is on the other user's blocklist.
    static let otherBlocks = PairFacts(rawValue: 128)

    static let all = PairFacts(rawValue: 255)
    static let friends: PairFacts = [.ownFriend, .otherFriend]
    static let requests: PairFacts = [.ownSent, .otherSent, .ownReceived, .otherReceived]

    /// The same facts, seen from the other user.
    var flipped: PairFacts { PairFacts(rawValue: (rawValue & 0b01010101) << 1 | (rawValue & 0b10101010) >> 1) }

    /// The facts one by one.
    var elements: [PairFacts] { (0..<8).map { PairFacts(rawValue: 1 << $0) }.filter(contains) }

    /// One fact in words, with the names of the users.
    func words(_ own: String, _ other: String) -> String {
        switch self {
        case .ownFriend: "\(own) has the friend \(other)"
        case .otherFriend: "\(other) has the friend \(own)"
        case .ownSent: "\(own) has sent \(other) a request"
        case .otherSent: "\(other) has sent \(own) a request"
        case .ownReceived: "\(own) has a request of \(other)"
        case .ownBlocks: "\(own) blocks \(other)"
        case .otherBlocks: "\(other) blocks \(own)"
        default: "\(other) has a request of \(own)"
        }
    }
}

/// The facts that are certain between two users by the answers of their calls.
///
/// A call may change some facts until it is answered. If another call may change one of them meanwhile, the fact is uncertain until a later
/// call decides it. A call without an answer may take effect at any later time.
struct PairOracle {
    /// A change that a call may make.
    struct Effects {
        var sets: PairFacts = []
        var clears: PairFacts = []

        var flipped: Effects { Effects(sets: sets.flipped, clears: clears.flipped) }

        /// Whether the change may give a fact this value.
        func mayMake(_ fact: PairFacts, _ value: Bool) -> Bool { (value ? sets : clears).contains(fact) }

        static func += (left: inout Effects, right: Effects) {
            left.sets.formUnion(right.sets)
            left.clears.formUnion(right.clears)
        }
    }

    /// The facts that hold, as far as they are certain.
    struct Known {
        var facts: PairFacts = []
        var certain: PairFacts = .all

        var flipped: Known { Known(facts: facts.flipped, certain: certain.flipped) }

        subscript(fact: PairFacts) -> Bool? {
            get { certain.contains(fact) ? facts.contains(fact) : nil }
            set {
                certain.remove(fact)
                facts.remove(fact)
                guard let newValue else { return }
                certain.insert(fact)
                if newValue { facts.insert(fact) }
            }
        }
    }

    /// A decision of one user about the other that has no answer, or whose effect may come later than its answer.
    struct Attempt {
        let id: Int
        let decision: PairDecision
        /// Whether the first user of the pair has decided.
        let isByFirst: Bool
        var effects: Effects
        /// The facts before, as the pair's first user sees them.
        let before: Known
        /// The effects that other calls may have had since.
        var others = Effects()
        /// Whether an import of the other user was open meanwhile.
        var meetsImport = false
        /// The time of its answer, if its effect may come later.
        var unresolvedSince: Nanoseconds?

        /// Whether the decision may be what makes a fact, and is not acknowledged.
        func mayStillMake(_ fact: PairFacts) -> Bool { unresolvedSince != .max && effects.sets.contains(fact) && before[fact] != true }
    }

    private(set) var known = Known()
    /// For each fact the last time at which it may have held, if it certainly does not hold now.
    private var heldUntil = Array(repeating: Nanoseconds.min, count: PairFacts.all.elements.count)
    /// For each fact the time since which it certainly holds and is acknowledged; `.max` if it does not.
    private var heldSince = Array(repeating: Nanoseconds.max, count: PairFacts.all.elements.count)
    private(set) var attempts: [Attempt] = []
    /// Whether one of the users may have the other as a friend, and not the other way round.
    private(set) var mayBeOneSided = false
    /// The friends whom an import may have brought since the last block of the user. An import asks only the user who gets the friend.
    private(set) var broughtSinceBlock: PairFacts = []

    /// Starts a decision.
    mutating func ask(_ id: Int, _ decision: PairDecision, isByFirst: Bool) {
        let own = decision.effects
        let effects = isByFirst ? own : own.flipped
        var attempt = Attempt(id: id, decision: decision, isByFirst: isByFirst, effects: effects, before: known)
        for index in attempts.indices {
            attempt.others += attempts[index].effects
            attempts[index].others += effects
            if attempts[index].decision.removes != decision.removes { mayBeOneSided = true }
            if attempts[index].isByFirst == isByFirst { continue }
            attempt.meetsImport = attempt.meetsImport || attempts[index].decision.isImport
            attempts[index].meetsImport = attempts[index].meetsImport || decision.isImport
        }
        if decision.isOneWay { mayBeOneSided = true }
        if decision.isImport { broughtSinceBlock.insert(isByFirst ? .ownFriend : .otherFriend) }
        attempts.append(attempt)
        forget(effects)
    }

    /// Forgets what a decision may change.
    private mutating func forget(_ effects: Effects) {
        for fact in PairFacts.all.elements {
            guard let value = known[fact], effects.mayMake(fact, !value) else { continue }
            known[fact] = nil
        }
    }

    /// Records that a decision may take effect at any later time.
    mutating func leaveUnresolved(_ id: Int, at now: Nanoseconds) {
        if let index = attempts.firstIndex(where: { $0.id == id }) { attempts[index].unresolvedSince = now }
    }

    /// Records the answer to a decision. Returns the fact that contradicts it; nil for none.
    ///
    /// - Parameters:
    ///   - isTrusted: whether all nodes know what was acknowledged before. Otherwise only what the answer has changed is certain, and a
    ///     later decision may be the older one.
    ///   - endsUnresolved: a time. The decisions of the same user that have been unresolved since before it have ended.
    mutating func answer(
        _ id: Int, _ claims: Claims, isTrusted: Bool, endsUnresolved unresolvedBefore: Nanoseconds, at now: Nanoseconds
    ) -> PairFacts? {
        guard let index = attempts.firstIndex(where: { $0.id == id }) else { return nil }
        let attempt = attempts[index]
        let claims = attempt.isByFirst ? claims : claims.flipped
        let (knownBefore, heldBefore) = (known, PairFacts.all.elements.map { isAcknowledged($0) })
        let contradiction = isTrusted ? Self.contradiction(of: claims.before, attempt) : nil
        let removed: PairFacts = attempt.isByFirst ? .otherFriend : .ownFriend
        if isTrusted, attempt.decision == .block, !attempt.meetsImport, claims.after[removed] == false { broughtSinceBlock.remove(removed) }
        for fact in (attempt.effects.sets.union(attempt.effects.clears)).elements where known[fact] == nil {
            guard let value = attempt.before[fact], !attempt.others.mayMake(fact, !value), !claims.unsure.contains(fact) else { continue }
            known[fact] = value
        }
        let certain = (isTrusted ? claims.before.certain : []).union(claims.after.certain)
        for fact in certain.elements {
            guard let value = claims.after[fact] ?? claims.before[fact] else { continue }
            known[fact] = attempt.others.mayMake(fact, !value) ? nil : value
        }
        if isTrusted { attempts.remove(at: index) } else { attempts[index].unresolvedSince = .max }
        attempts.removeAll { $0.isByFirst == attempt.isByFirst && $0.id != id && $0.unresolvedSince ?? .max < unresolvedBefore }
        noteEnds(since: knownBefore, heldBefore, at: now)
        if attempts.isEmpty, let own = known[.ownFriend], own == known[.otherFriend] { mayBeOneSided = false }
        return contradiction
    }

    private mutating func noteEnds(since before: Known, _ heldBefore: [Bool], at now: Nanoseconds) {
        for (index, fact) in PairFacts.all.elements.enumerated() where known[fact] == false && before[fact] != false {
            heldUntil[index] = now
        }
        for (index, fact) in PairFacts.all.elements.enumerated() where isAcknowledged(fact) && !heldBefore[index] {
            heldSince[index] = now
        }
    }

    private static func contradiction(of claims: Known, _ attempt: Attempt) -> PairFacts? {
        claims.certain.elements.first { fact in
            guard let claimed = claims[fact], let before = attempt.before[fact] else { return false }
            return claimed != before && !attempt.others.mayMake(fact, claimed)
        }
    }

    /// Records that a decision has changed nothing.
    mutating func refuse(_ id: Int, at now: Nanoseconds) {
        _ = answer(id, Claims(), isTrusted: true, endsUnresolved: .min, at: now)
    }

    /// The facts that are certain when a decision is answered: before it, and since.
    struct Claims {
        /// The facts that the answer relies on.
        var before = Known(certain: [])
        /// The facts that the decision has made.
        var after = Known(certain: [])
        /// The facts that the decision may have changed.
        var unsure: PairFacts = []

        var flipped: Claims { Claims(before: before.flipped, after: after.flipped, unsure: unsure.flipped) }
    }

    /// The facts before a decision, as its user sees them, as far as nothing else has changed them since.
    func settled(before id: Int) -> Known? {
        guard let attempt = attempts.first(where: { $0.id == id }) else { return nil }
        var known = attempt.before
        for fact in PairFacts.all.elements {
            if let value = known[fact], attempt.others.mayMake(fact, !value) { known[fact] = nil }
        }
        return attempt.isByFirst ? known : known.flipped
    }

    /// Whether an open decision is the only one that can have made a fact since it began.
    func isOnlyMaker(_ id: Int, of fact: PairFacts) -> Bool {
        guard let attempt = attempts.first(where: { $0.id == id }) else { return false }
        return attempt.before[fact] == false && !attempt.others.mayMake(fact, true)
    }

    /// Whether a fact may hold now, or may have held since a moment.
    func mayHold(_ fact: PairFacts, since moment: Nanoseconds) -> Bool {
        let index = PairFacts.all.elements.firstIndex(of: fact) ?? 0
        return known[fact] != false || heldUntil[index] >= moment || attempts.contains { $0.effects.sets.contains(fact) }
    }

    /// Whether a fact certainly holds, and the decision that has made it is acknowledged.
    ///
    /// The answer to another call may name a block earlier: lists have a block at once, and it is answered once its user is hidden.
    private func isAcknowledged(_ fact: PairFacts) -> Bool { known[fact] == true && !attempts.contains { $0.mayStillMake(fact) } }

    /// Whether a fact certainly holds now, and has held and been acknowledged since a moment.
    func mustHold(_ fact: PairFacts, since moment: Nanoseconds) -> Bool {
        let index = PairFacts.all.elements.firstIndex(of: fact) ?? 0
        return isAcknowledged(fact) && heldSince[index] <= moment && !attempts.contains { $0.effects.clears.contains(fact) }
    }

    /// The difference of two lists from what is certain; nil for none. All decisions have ended.
    func problem(with facts: PairFacts) -> PairFacts? {
        PairFacts.all.elements.first { fact in known[fact].map { $0 != facts.contains(fact) } ?? false }
    }
}
