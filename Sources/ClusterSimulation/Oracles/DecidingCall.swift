import PresenceCore
import PresenceWire

/// A call by which a user decides about others.
enum DecidingCall: Hashable {
    case chain(ChainCall)
    case importFriends([FriendImport])

    /// Nil for a call that decides nothing.
    init?(_ call: Call) {
        switch call {
        case .owner(.chain(let call)): self = .chain(call)
        case .owner(.friendCall(.importFriends(let friends))): self = .importFriends(friends)
        default: return nil
        }
    }

    /// The decisions of a user's call, each about one other user.
    func decisions(of user: Int, usersCount: Int) -> [(other: Int, decision: PairDecision)] {
        switch self {
        case .chain(.add(let other, let request, let isTwoWay, let group)):
            Self.about([other], .add(isTwoWay: isTwoWay, isForced: request.isForced, namesGroup: group != nil))
        case .chain(.respond(let other, .accept(_, let isTwoWay))): Self.about([other], .accept(isTwoWay: isTwoWay))
        case .chain(.respond(let other, _)): Self.about([other], .reject)
        case .chain(.delete(let others, let isTwoWay)): Self.about(others, .delete(isTwoWay: isTwoWay))
        case .chain(.deleteAll(let isTwoWay)): (0..<usersCount).filter { $0 != user }.map { ($0, .deleteAny(isTwoWay: isTwoWay)) }
        case .chain(.setBlocked(let others, let isBlocked)): Self.about(others, isBlocked ? .block : .unblock)
        case .importFriends(let friends):
            friends.flatMap { Self.about([$0.user], .bring(namesGroup: !($0.change.groups ?? []).isEmpty)) }
        }
    }

    private static func about(_ others: [UserID], _ decision: PairDecision) -> [(other: Int, decision: PairDecision)] {
        others.compactMap(\.simulatedNumber).map { ($0, decision) }
    }

    /// The result of each decision by an answer; nil if the answer is not one to the call.
    ///
    /// A call that deletes all friends is answered with the friends whom it has found. All others are none.
    func codes(in outcomes: [ChainOutcome], of decisions: [(other: Int, decision: PairDecision)]) -> [ChainCode]? {
        let users = outcomes.map(\.user.simulatedNumber)
        guard case .chain(.deleteAll) = self else { return users == decisions.map(\.other) ? outcomes.map(\.code) : nil }
        let found = users.compactMap(\.self)
        let others = Set(decisions.map(\.other))
        guard found.count == users.count, Set(found).count == found.count, others.isSuperset(of: found) else { return nil }
        return decisions.map { decision in zip(found, outcomes).first { $0.0 == decision.other }?.1.code ?? .noFriend }
    }
}

extension UserID {
    /// The number of a user of the simulation.
    var simulatedNumber: Int? { Int(id.dropFirst("user-".count)) }
}
