import PresenceCore
import PresenceWire

/// The exceptions that concern one user: see ``HistoryException``. The first value of each is the number of the user.
enum UserException {
    case hides(Int, from: Int?)
    case visibilityChanges(Int)
    case overruled(Int)
    case uncertainList(Int)
    case followsAgain(Int, target: Int)
    case followsFriend(Int, target: Int, since: Nanoseconds)
    case reached(Int)
    case askedToGo(Int, at: Nanoseconds)
    case undeliveredLogout(Int)
    case textEnds(Int)
    case removed(Int, isBlank: Bool)
    case endedWithRemoval(Int, isBlank: Bool)

    func row(_ cluster: SimulatedCluster) -> ExceptionRow {
        switch self {
        case .hides(let user, let viewer):
            ExceptionRow(
                if: user != viewer && cluster.truth.oracles[user].hasHidden, "the viewer sees another status than the user's record has",
                [.noFlap, .noGhost, .syncCompletedIsTrue, .asOfIsTrue, .eventsAreDelivered, .oneVersionHasOneContent])
        case .visibilityChanges(let user):
            ExceptionRow(
                if: cluster.truth.oracles[user].isBusy || cluster.truth.oracles[user].rule == nil, "no answer says which visibility holds",
                [.hiddenUsersStayHidden, .hiddenViewsStayStill, .nothingAcknowledgedIsLost, .friendsAreSeen, .profileNewsWait])
        case .overruled(let user):
            ExceptionRow(
                if: cluster.isOverruled(user), "an absent node has a visibility that wins, because a clock has jumped",
                [.hiddenUsersStayHidden])
        case .uncertainList(let user):
            ExceptionRow(
                if: !cluster.truth.subscriptions[user].isCertain || cluster.truth.subscriptions[user].isBusy,
                "a call has no answer, or is under way",
                [.listsAreExact, .nothingAcknowledgedIsLost, .syncCompletedIsTrue, .onlyFollowedUsersAreSent, .nobodyIsRemovedEarly])
        case .followsAgain(let user, let target):
            ExceptionRow(
                if: cluster.truth.mayFollowAgain(user, target, at: cluster.time), "a new subscription sends the target again",
                [.viewsNeverGoBack])
        case .followsFriend(let user, let target, let moment):
            ExceptionRow(
                if: cluster.truth.chain.mayBeFriend(target, of: user, since: moment),
                "a stream that resumes shows those who were friends at its position", [.onlyFollowedUsersAreSent, .profileNewsArrive])
        case .reached(let user):
            ExceptionRow(
                if: cluster.mayBeReached(user), "vendor push reaches a device, and keeps the user ONLINE",
                [.noGhost, .recordsEqualSessions])
        case .askedToGo(let user, let moment):
            ExceptionRow(
                if: moment <= cluster.truth.presences[user].excusedUntil, "the user logged out or was kicked shortly before", [.noFlap])
        case .undeliveredLogout(let user):
            ExceptionRow(
                if: cluster.truth.undeliveredLogouts[user] != nil, "a logout without an acknowledgement is lost with its link",
                [.recordsEqualSessions])
        case .textEnds(let user):
            ExceptionRow(
                if: cluster.truth.expectedStatuses[user].contains(where: \.expires), "a text ends by itself, at other times on other nodes",
                [.hiddenUsersStayHidden, .hiddenViewsStayStill])
        case .removed(_, let isBlank):
            ExceptionRow(
                if: isBlank && cluster.options.kind == .awayUsersAreRemoved, "the user was removed, or was never written",
                [.asOfIsTrue, .recordsEqualSessions])
        case .endedWithRemoval(let user, let isBlank):
            ExceptionRow(
                if: cluster.endedWithRemoval(of: user, isBlank: isBlank), "the user was removed after the end of the text, or without one",
                [.syncCompletedIsTrue, .nothingAcknowledgedIsLost])
        }
    }
}

extension SimulatedCluster {
    /// Whether one of these exceptions applies.
    func isExcused(by exceptions: HistoryException...) -> Bool { exceptions.contains { $0.row(options).applies } }

    func isExcused(by exceptions: StateException...) -> Bool { exceptions.contains { $0.row(self).applies } }

    func isExcused(by exceptions: UserException...) -> Bool { exceptions.contains { $0.row(self).applies } }
}
