import PresenceWire

/// A decision of a user about another, as the rules of the chain define it.
enum PairDecision: Equatable {
    /// Forced, it asks for no approval. With the name of a group the user's owner may refuse it by the code for a friend.
    case add(isTwoWay: Bool, isForced: Bool = false, namesGroup: Bool = false)
    case accept(isTwoWay: Bool)
    case reject
    case delete(isTwoWay: Bool)
    /// The deletion of the other user by a call that deletes all friends. The answer does not name those who are no friends.
    case deleteAny(isTwoWay: Bool)
    /// Brings the other user along as a friend in the own list alone.
    case bring(namesGroup: Bool)
    case block
    case unblock

    /// The changes that it may make, as its user sees them, whatever the lists have.
    var effects: PairOracle.Effects {
        switch self {
        case .add(isTwoWay: _, isForced: true, namesGroup: _): .init(sets: [.ownFriend, .otherFriend], clears: .requests)
        case .add: .init(sets: [.ownFriend, .otherFriend, .ownSent, .otherReceived], clears: .requests)
        case .bring: .init(sets: .ownFriend)
        case .accept(let isTwoWay):
            // An approval by a user who has the other as a friend ends all requests.
            .init(sets: isTwoWay ? [.ownFriend, .otherFriend] : .otherFriend, clears: .requests)
        case .reject: .init(clears: [.ownReceived, .otherSent])
        // A two-way deletion also ends the user's own request.
        case .delete(let isTwoWay), .deleteAny(let isTwoWay):
            .init(clears: isTwoWay ? [.ownFriend, .otherFriend, .ownSent, .otherReceived] : .ownFriend)
        case .block: .init(sets: .ownBlocks, clears: PairFacts.friends.union(.requests))
        case .unblock: .init(clears: .ownBlocks)
        }
    }

    /// Whether it changes one of two friend lists.
    var isOneWay: Bool {
        switch self {
        case .add(let isTwoWay, _, _), .accept(let isTwoWay), .delete(let isTwoWay), .deleteAny(let isTwoWay): !isTwoWay
        case .bring: true
        case .reject, .block, .unblock: false
        }
    }

    /// Whether it is an import.
    var isImport: Bool { if case .bring = self { true } else { false } }

    /// Whether it removes friends.
    var removes: Bool {
        switch self {
        case .delete, .deleteAny, .block: true
        case .add, .bring, .accept, .reject, .unblock: false
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
        case .add: added(code, known, allowed, mayBeRetry: mayBeRetry)
        case .bring(let namesGroup): brought(code, namesGroup: namesGroup, mayBeRetry: mayBeRetry)
        case .accept(let isTwoWay): accepted(code, known, isTwoWay, mayBeRetry: mayBeRetry)
        case .reject:
            code == .done
                ? answered(known, mayBeRetry: mayBeRetry)
                : PairOracle.Claims(before: .init(isFalse: .ownReceived))
        case .delete(let isTwoWay): deleted(code, known, isTwoWay, mayBeRetry: mayBeRetry)
        case .deleteAny(let isTwoWay):
            mayBeRetry && code == .noFriend
                ? deletedBefore(isTwoWay) : deleted(code, known, isTwoWay, mayBeRetry: mayBeRetry)
        case .block: blocked(code, known, mayBeRetry: mayBeRetry)
        case .unblock: unblocked(code, mayBeRetry: mayBeRetry)
        }
    }

    private func added(
        _ code: ChainCode, _ known: PairOracle.Known, _ allowed: [ChainPolicy.AllowType], mayBeRetry: Bool
    ) -> PairOracle.Claims {
        guard case .add(let isTwoWay, let isForced, let namesGroup) = self else { return PairOracle.Claims() }
        var claims = PairOracle.Claims()
        switch code {
        // With lost or slow messages the friend may be of a decision that turns out not to count.
        case .alreadyFriend: if !mayBeRetry, !namesGroup { claims.before = .init(isTrue: .ownFriend) }
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
            let mayBeAdded = allowed.contains(.any) || (isForced && allowed.contains(.confirm))
            if !mayBeAdded, known[.otherSent] == false { claims.before[.otherFriend] = true }
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
    /// The facts after an import. It ends no request, and leaves the other user's list as it is.
    private func brought(_ code: ChainCode, namesGroup: Bool, mayBeRetry: Bool) -> PairOracle.Claims {
        switch code {
        case .alreadyFriend where mayBeRetry || namesGroup: PairOracle.Claims()
        case .alreadyFriend: PairOracle.Claims(before: .init(isTrue: .ownFriend))
        case .blockedBySelf: PairOracle.Claims(before: .init(isTrue: .ownBlocks, isFalse: .ownFriend))
        case .selfFull: PairOracle.Claims(before: .init(isFalse: [.ownFriend, .ownBlocks]))
        case .done where mayBeRetry: PairOracle.Claims(after: .init(isTrue: .ownFriend))
        case .done: PairOracle.Claims(before: .init(isFalse: [.ownFriend, .ownBlocks]), after: .init(isTrue: .ownFriend))
        default: PairOracle.Claims()
        }
    }

    /// The facts after a deletion of all friends that does not name the other user, because an earlier attempt may have found the friend.
    private func deletedBefore(_ isTwoWay: Bool) -> PairOracle.Claims {
        PairOracle.Claims(after: .init(isFalse: .ownFriend), unsure: isTwoWay ? [.otherFriend, .ownSent, .otherReceived] : [])
    }

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

extension PairOracle.Known {
    /// Certain facts; all others are uncertain.
    fileprivate init(isTrue: PairFacts = [], isFalse: PairFacts = []) { self.init(facts: isTrue, certain: isTrue.union(isFalse)) }
}
