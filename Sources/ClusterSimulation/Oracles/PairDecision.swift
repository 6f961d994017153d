import PresenceWire

/// A decision of a user about another, as the rules of the chain define it.
enum PairDecision: Equatable {
    case add(isTwoWay: Bool)
    case accept(isTwoWay: Bool)
    case reject
    case delete(isTwoWay: Bool)
    case block
    case unblock

    /// The changes that it may make, as its user sees them, whatever the lists have.
    var effects: PairOracle.Effects {
        switch self {
        case .add: .init(sets: [.ownFriend, .otherFriend, .ownSent, .otherReceived], clears: .requests)
        case .accept(let isTwoWay):
            // An approval by a user who has the other as a friend ends all requests.
            .init(sets: isTwoWay ? [.ownFriend, .otherFriend] : .otherFriend, clears: .requests)
        case .reject: .init(clears: [.ownReceived, .otherSent])
        // A two-way deletion also ends the user's own request.
        case .delete(let isTwoWay): .init(clears: isTwoWay ? [.ownFriend, .otherFriend, .ownSent, .otherReceived] : .ownFriend)
        case .block: .init(sets: .ownBlocks, clears: PairFacts.friends.union(.requests))
        case .unblock: .init(clears: .ownBlocks)
        }
    }

    /// Whether it changes one of two friend lists.
    var isOneWay: Bool {
        switch self {
        case .add(let isTwoWay), .accept(let isTwoWay), .delete(let isTwoWay): !isTwoWay
        case .reject, .block, .unblock: false
        }
    }

    /// Whether it removes friends.
    var removes: Bool {
        switch self {
        case .delete, .block: true
        case .add, .accept, .reject, .unblock: false
        }
    }

    /// The facts that an answer makes certain, as the user sees them.
    ///
    /// - Parameters:
    ///   - known: the facts before.
    ///   - allowed: the settings of which one says who may add a user.
    ///   - mayBeRetry: whether an attempt of the same call may have been decided before.
    func claims(
        of code: ChainCode, _ known: PairOracle.Known, allowed: [ChainPolicy.AllowType], mayBeRetry: Bool
    ) -> PairOracle.Claims {
        switch self {
        case .add(let isTwoWay): added(code, known, isTwoWay, allowed, mayBeRetry: mayBeRetry)
        case .accept(let isTwoWay): accepted(code, known, isTwoWay, mayBeRetry: mayBeRetry)
        case .reject:
            code == .done
                ? answered(known, mayBeRetry: mayBeRetry)
                : PairOracle.Claims(before: .init(isFalse: .ownReceived))
        case .delete(let isTwoWay): deleted(code, known, isTwoWay, mayBeRetry: mayBeRetry)
        case .block: blocked(code, known, mayBeRetry: mayBeRetry)
        case .unblock: unblocked(code, mayBeRetry: mayBeRetry)
        }
    }

    private func added(
        _ code: ChainCode, _ known: PairOracle.Known, _ isTwoWay: Bool, _ allowed: [ChainPolicy.AllowType], mayBeRetry: Bool
    ) -> PairOracle.Claims {
        var claims = PairOracle.Claims()
        switch code {
        // With lost or slow messages the friend may be of a decision that turns out not to count.
        case .alreadyFriend: if !mayBeRetry { claims.before = .init(isTrue: .ownFriend) }
        case .blockedBySelf: claims.before = .init(isTrue: .ownBlocks, isFalse: .ownFriend)
        case .blockedByOther: claims.before = .init(isTrue: .otherBlocks, isFalse: .ownBlocks)
        case .selfFull: claims.before = .init(isFalse: [.ownFriend, .ownBlocks])
        case .otherFull: claims.before = .init(isFalse: [.ownFriend, .otherFriend, .ownBlocks, .otherBlocks])
        case .forbidden: claims.before = .init(isFalse: [.ownFriend, .otherFriend, .otherSent, .ownBlocks, .otherBlocks])
        case .pending:
            claims.before = .init(isFalse: [.ownFriend, .otherFriend, .otherSent, .ownBlocks, .otherBlocks])
            claims.after = .init(isTrue: [.ownSent, .otherReceived])
        case .done:
            claims.after = .init(isTrue: .ownFriend)
            if !mayBeRetry { claims.before = .init(isFalse: [.ownFriend, .ownBlocks, .otherBlocks]) }
            guard known[.ownFriend] == false else {
                claims.unsure = [.otherFriend, .ownSent, .otherSent, .ownReceived, .otherReceived]
                break
            }
            // An addition to one list ends no request, unless the other user has this one as a friend, or asks to be one.
            let isMutual = isTwoWay || known[.otherSent] == true || known[.otherFriend] == true
            if isMutual {
                claims.after[.otherFriend] = true
                for fact in PairFacts.requests.elements { claims.after[fact] = false }
            } else if known[.otherSent] == nil || known[.otherFriend] == nil {
                claims.unsure = PairFacts.requests.union(.otherFriend)
            }
            if !allowed.contains(.any), known[.otherSent] == false { claims.before[.otherFriend] = true }
        default: break
        }
        return claims
    }

    private func accepted(
        _ code: ChainCode, _ known: PairOracle.Known, _ isTwoWay: Bool, mayBeRetry: Bool
    ) -> PairOracle.Claims {
        switch code {
        case .noRequest: return PairOracle.Claims(before: .init(isFalse: .ownReceived))
        case .selfFull: return PairOracle.Claims(before: .init(isTrue: .ownReceived, isFalse: .ownFriend))
        case .otherFull: return PairOracle.Claims(before: .init(isTrue: .ownReceived, isFalse: .otherFriend))
        case .blockedByOther: return PairOracle.Claims(before: .init(isTrue: .otherBlocks))
        case .done: break
        default: return PairOracle.Claims()
        }
        var claims = answered(known, mayBeRetry: mayBeRetry)
        if isTwoWay { claims.after[.ownFriend] = true }
        // A retry may have found the end of the request by an earlier call.
        let isMutual = isTwoWay ? true : mayBeRetry && known[.ownFriend] == true ? nil : known[.ownFriend]
        switch isMutual {
        case true?: claims.after[.ownSent] = false
        case false?: break
        case nil: claims.unsure.formUnion([.ownSent, .otherReceived])
        }
        guard known[.ownReceived] == true else {
            claims.unsure.formUnion(isMutual == true ? [.otherFriend, .otherReceived] : .otherFriend)
            return claims
        }
        claims.after[.otherFriend] = true
        if isMutual == true { claims.after[.otherReceived] = false }
        return claims
    }

    /// The facts after an answered request.
    private func answered(_ known: PairOracle.Known, mayBeRetry: Bool) -> PairOracle.Claims {
        var claims = PairOracle.Claims(after: .init(isFalse: .ownReceived))
        if !mayBeRetry { claims.before = .init(isTrue: .ownReceived) }
        if known[.ownReceived] == true { claims.after[.otherSent] = false } else { claims.unsure = .otherSent }
        return claims
    }

    private func deleted(_ code: ChainCode, _ known: PairOracle.Known, _ isTwoWay: Bool, mayBeRetry: Bool) -> PairOracle.Claims {
        guard code == .done else { return PairOracle.Claims(before: .init(isFalse: .ownFriend)) }
        var claims = PairOracle.Claims(after: .init(isFalse: .ownFriend))
        if !mayBeRetry { claims.before = .init(isTrue: .ownFriend) }
        guard isTwoWay else { return claims }
        let ended: PairFacts = [.otherFriend, .ownSent, .otherReceived]
        if known[.ownFriend] != true { claims.unsure = ended }
        for fact in ended.elements where known[.ownFriend] == true { claims.after[fact] = false }
        return claims
    }
}

extension PairDecision {
    private func blocked(_ code: ChainCode, _ known: PairOracle.Known, mayBeRetry: Bool) -> PairOracle.Claims {
        switch code {
        case .alreadyBlocked: return PairOracle.Claims(before: .init(isTrue: .ownBlocks))
        case .done: break
        default: return PairOracle.Claims()
        }
        var claims = PairOracle.Claims(after: .init(isTrue: .ownBlocks, isFalse: [.ownFriend, .ownSent, .ownReceived]))
        if !mayBeRetry { claims.before = .init(isFalse: .ownBlocks) }
        let others: PairFacts = [.otherFriend, .otherSent, .otherReceived]
        // A retry may have found the block of an earlier call.
        let isUnsure = mayBeRetry && known[.ownBlocks] != false
        if isUnsure { claims.unsure = others }
        for fact in others.elements where !isUnsure { claims.after[fact] = false }
        return claims
    }

    private func unblocked(_ code: ChainCode, mayBeRetry: Bool) -> PairOracle.Claims {
        guard code == .done else { return PairOracle.Claims(before: .init(isFalse: .ownBlocks)) }
        var claims = PairOracle.Claims(after: .init(isFalse: .ownBlocks))
        if !mayBeRetry { claims.before = .init(isTrue: .ownBlocks) }
        return claims
    }
}

extension ChainCall {
    /// The decisions of the call, each about one user.
    var pairDecisions: [(other: UserID, decision: PairDecision)] {
        switch self {
        case .add(let other, _, let isTwoWay, _): [(other, .add(isTwoWay: isTwoWay))]
        case .respond(let other, .accept(_, let isTwoWay)): [(other, .accept(isTwoWay: isTwoWay))]
        case .respond(let other, _): [(other, .reject)]
        case .delete(let others, let isTwoWay): others.map { ($0, .delete(isTwoWay: isTwoWay)) }
        case .deleteAll: preconditionFailure("plans delete friends by name")
        case .setBlocked(let others, let isBlocked): others.map { ($0, isBlocked ? .block : .unblock) }
        }
    }
}

extension PairOracle.Known {
    /// Certain facts; all others are uncertain.
    fileprivate init(isTrue: PairFacts = [], isFalse: PairFacts = []) { self.init(facts: isTrue, certain: isTrue.union(isFalse)) }
}
