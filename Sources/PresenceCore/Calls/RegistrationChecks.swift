import PresenceWire

/// Checks before a call begins, where `users.mustBeRegistered` is on: whether the app knows the caller, and the users whom a call of the
/// relationship chain adds or blocks, or an `unsubscribeUserStatus` names.
extension PendingCalls.Pending {
    /// The end of a check.
    enum Check {
        case passed(Call)
        case refused(CallAnswer)
    }

    /// Begins the check of the users whom the call names. Returns them; nil if there is none, or if they have been checked.
    mutating func beginCheck(_ policy: Policy) -> [UserID]? {
        guard phase != .checkingTargets, policy.mustBeRegistered, !call.checkedTargets.isEmpty else {
            phase = .running
            return nil
        }
        phase = .checkingTargets
        return call.checkedTargets
    }

    /// Ends a check whose records have arrived; nil if none is under way.
    ///
    /// Each user whom the app does not know has 30003 in the answer, and the call goes on without that user. An `unsubscribeUserStatus`
    /// answers 70107, or is refused with `errors.shape` `wholeCall`. Otherwise it goes on with all users, because a subscription may be
    /// older than the setting.
    ///
    /// A call with a key goes on also without any user. The owner may have the answer of an earlier attempt, when the app knew the users.
    ///
    /// The call is answered 50001 if one of the users is `unsure`: the user's owner, which is not heard, may have the registration.
    mutating func endCheck(_ policy: Policy, unsure: UnsureUsers) -> Check? {
        switch phase {
        case .checkingCaller:
            guard areKnown == [true] else {
                return .refused(.refused(unsure.contains(caller) ? .unavailable : .noSuchUser([caller])))
            }
            phase = .running
        case .checkingTargets:
            excluded = zip(users, areKnown).filter { !$1 }.map(\.0)
            if excluded.contains(where: unsure.contains) { return .refused(.refused(.unavailable)) }
            if case .unsubscribeUserStatus = call, policy.errorShape == .wholeCall, !excluded.isEmpty {
                return .refused(.refused(.noSuchUser(excluded)))
            }
            let rest = call.without(excluded)
            if rest.checkedTargets.isEmpty, key == nil { return .refused(call.answer(unknownOutcomes)) }
            call = rest
        case .running, .checkingRelations: return nil
        }
        (users, records) = ([], [])
        return .passed(call)
    }

    private var areKnown: [Bool] { records.map { $0?.isOfKnownUser ?? false } }

    /// The answer when the owner has made the change.
    var answerWhenDone: CallAnswer {
        switch call {
        case .owner(.issueTicket(let ticket)): .ticket(ticket)
        case .unsubscribeUserStatus where !excluded.isEmpty: .unsubscribed(unknown: excluded)
        default: .done
        }
    }

    /// The key for the caller's owner, which keeps the whole answer.
    var ownersKey: CallKey? {
        var key = key
        key?.excluded = excluded
        return key
    }

    /// The results that this node adds to those of the owner. The owner adds them to an answer that it keeps.
    var addedOutcomes: [ChainOutcome] { key == nil ? unknownOutcomes : [] }

    /// The results for the users of a call whom the app does not know.
    var unknownOutcomes: [ChainOutcome] { excluded.map { ChainOutcome(user: $0, code: .noSuchUser) } }
}

extension Call {
    /// The users whom the call adds, blocks or unsubscribes from. Other calls of the chain concern users in the caller's lists.
    fileprivate var checkedTargets: [UserID] {
        switch self {
        case .unsubscribeUserStatus(let targets, _): targets ?? []
        case .owner(.chain(.add(let other, _, _, _))): [other]
        case .owner(.chain(.setBlocked(let users, true))): users
        case .owner(.friendCall(.importFriends(let friends))): friends.map(\.user)
        default: []
        }
    }

    /// The answer of a call about the caller's lists with these results.
    fileprivate func answer(_ outcomes: [ChainOutcome]) -> CallAnswer {
        if case .owner(.chain) = self { .owner(.chained(outcomes)) } else { .owner(.friendCalled(FriendCallResult(users: outcomes))) }
    }

    /// The call without some of its users. A call that adds one of them becomes a block of nobody, which changes nothing.
    fileprivate func without(_ users: [UserID]) -> Call {
        guard !users.isEmpty else { return self }
        let isKnown = { (user: UserID) in !users.contains(user) }
        return switch self {
        case .owner(.chain): .chain(.setBlocked(checkedTargets.filter(isKnown), true))
        case .owner(.friendCall(.importFriends(let friends))): .friendCall(.importFriends(friends.filter { isKnown($0.user) }))
        default: self
        }
    }
}
