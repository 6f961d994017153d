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

    func row(_ cluster: SimulatedCluster) -> Excuse {
        switch self {
        case .hides(let user, let viewer):
            Excuse(if: user != viewer && cluster.truth.oracles[user].hasHidden, "the viewer sees another status than the user's record has")
                .weakens(.noFlap, .noGhost, .syncCompletedIsTrue, .asOfIsTrue, .eventsAreDelivered, .oneVersionHasOneContent)
        case .visibilityChanges(let user):
            Excuse(if: cluster.truth.oracles[user].isBusy || cluster.truth.oracles[user].rule == nil, "no answer says which one holds")
                .weakens(.hiddenUsersStayHidden, .hiddenViewsStayStill, .nothingAcknowledgedIsLost, .friendsAreSeen, .profileNewsWait)
        case .overruled(let user):
            Excuse(if: VisibilityChecks.isOverruled(user, cluster), "an absent node has a visibility that wins, because a clock has jumped")
                .weakens(.hiddenUsersStayHidden)
        case .uncertainList(let user):
            Excuse(
                if: !cluster.truth.subscriptions[user].isCertain || cluster.truth.subscriptions[user].isBusy,
                "a call has no answer, or is under way"
            ).weakens(.listsAreExact, .nothingAcknowledgedIsLost, .syncCompletedIsTrue, .onlyFollowedUsersAreSent, .nobodyIsRemovedEarly)
        case .followsAgain(let user, let target):
            Excuse(
                if: cluster.truth.subscriptions[user].mayHaveRemoved(at: cluster.time)
                    || (cluster.truth.chain.isUsed && cluster.truth.chain.mayBeFriend(target, of: user, since: 0)),
                "a new subscription sends the target again, and so does a new friendship"
            ).weakens(.viewsNeverGoBack)
        case .followsFriend(let user, let target, let moment):
            Excuse(
                if: cluster.truth.chain.mayBeFriend(target, of: user, since: moment),
                "a stream that resumes shows those who were friends at its position"
            ).weakens(.onlyFollowedUsersAreSent, .profileNewsArrive)
        case .reached(let user):
            Excuse(if: !cluster.reachedDevices(of: user).possible.isEmpty, "vendor push reaches a device, and keeps the user ONLINE")
                .weakens(.noGhost, .recordsEqualSessions)
        case .askedToGo(let user, let moment):
            Excuse(if: moment <= cluster.truth.presences[user].excusedUntil, "the user logged out or was kicked shortly before")
                .weakens(.noFlap)
        case .undeliveredLogout(let user):
            Excuse(if: cluster.truth.undeliveredLogouts[user] != nil, "a logout without an acknowledgement is lost with its link")
                .weakens(.recordsEqualSessions)
        case .textEnds(let user):
            Excuse(if: cluster.truth.expectedStatuses[user].contains(where: \.expires), "a text ends by itself, not everywhere at once")
                .weakens(.hiddenUsersStayHidden, .hiddenViewsStayStill)
        case .removed(_, let isBlank):
            Excuse(if: isBlank && cluster.options.kind == .awayUsersAreRemoved, "the user was removed, or was never written")
                .weakens(.asOfIsTrue, .recordsEqualSessions)
        case .endedWithRemoval(let user, let isBlank):
            Excuse(if: RemovalChecks.endedWithRemoval(of: user, isBlank: isBlank, cluster), "the user was removed after the text had ended")
                .weakens(.syncCompletedIsTrue, .nothingAcknowledgedIsLost)
        }
    }
}

extension SimulatedCluster {
    /// Whether one of these exceptions applies.
    func isExcused(by exceptions: HistoryException...) -> Bool { exceptions.contains { $0.row(options).applies } }

    func isExcused(by exceptions: StateException...) -> Bool { exceptions.contains { $0.row(self).applies } }

    func isExcused(by exceptions: UserException...) -> Bool { exceptions.contains { $0.row(self).applies } }
}
