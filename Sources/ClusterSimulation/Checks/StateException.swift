/// The exceptions that follow from the state of the cluster: see ``HistoryException``.
enum StateException {
    case healing, crippled, crippledAfterStart, listsMayBeIncomplete
    case crippledSince(Nanoseconds)
    case disturbed(since: Nanoseconds)
    case alone(node: Int)
    case aloneSince(Nanoseconds, node: Int)
    case policyChanges, policyShowsAgain, policyKeepsStatus, profileVersions
    case policyHides(since: Nanoseconds)
    case lastMessage(SimulatedClient.Source?)
    case stalled(until: Nanoseconds, since: Nanoseconds)

    func row(_ cluster: SimulatedCluster) -> Excuse {
        switch self {
        case .healing: Excuse(if: cluster.isHealed, "all late messages arrive at once").weakens(.noFlap, .noGhost)
        case .crippled:
            Excuse(if: cluster.time - cluster.crippledAt <= .milliseconds(12_000), "two replicas were down, with what only they had")
                .weakens(.noFlap, .noGhost, .listsAreExact, .syncCompletedIsTrue, .asOfIsTrue, .friendsAreSeen, .profileNewsWait)
        case .crippledAfterStart:
            Excuse(
                if: cluster.crippledAt >= .milliseconds(SimulatedCluster.calmMilliseconds) && cluster.isExcused(by: .crippled),
                "as for crippled; at the start of a history no node has rows"
            ).weakens(.chainIsAcknowledged, .profileIsAcknowledged)
        case .crippledSince(let moment):
            Excuse(if: cluster.crippledAt >= moment, "two replicas were down, with the first answers of calls")
                .weakens(.repeatedCallsHaveOneAnswer)
        case .listsMayBeIncomplete:
            Excuse(
                if: cluster.time - cluster.manyKilledAt < .milliseconds(12_000)
                    || cluster.nodes.contains { $0.isUp && $0.look { $0.owner.listsMayBeIncomplete } },
                "an owner that does not know the whole list evicts others than expected"
            ).weakens(.listsAreExact)
        case .disturbed(let moment):
            Excuse(
                if: cluster.isExcused(by: .lateMessages) || cluster.disturbedAt >= moment - .milliseconds(3_000),
                "a node starts or ends, or messages are late"
            ).weakens(.eventsAreDelivered, .kicksHold, .policiesHold, .eachSessionHasOneEnd)
        case .alone(let node):
            Excuse(
                if: cluster.nodes.count > 1 && (cluster.nodes.count(where: \.isUp) == 1 || cluster.nodes[node].look { $0.cluster.isAlone }),
                "the others do not know the change until they are met again"
            ).weakens(.nothingAcknowledgedIsLost, .chainIsAcknowledged)
        case .aloneSince(let moment, let node):
            Excuse(
                if: cluster.nodes[node].aloneAt >= moment || cluster.isExcused(by: .alone(node: node)),
                "another node may have been met since the list was changed"
            ).weakens(.nothingAcknowledgedIsLost)
        case .policyChanges:
            Excuse(if: cluster.truth.policy.isBusy, "nodes may follow the policy before or after")
                .weakens(.recordsEqualSessions, .hiddenUsersLookLost)
        case .policyShowsAgain:
            Excuse(if: cluster.truth.policy.mayShowAgain, "a change of the policy sends the same record in another form")
                .weakens(.viewsNeverGoBack)
        case .policyKeepsStatus:
            Excuse(if: cluster.truth.policy.hasKeptStatus, "a policy kept texts of OFFLINE users").weakens(.offlineEndsCustomStatus)
        case .profileVersions:
            Excuse(if: cluster.truth.profiles.isUsed, "a profile moves the version of a record, and nobody is told")
                .weakens(.syncCompletedIsTrue)
        case .policyHides(let moment):
            Excuse(if: !cluster.truth.policy.hasPublished(since: moment), "a policy forbids to send other users")
                .weakens(.syncCompletedIsTrue, .eventsAreDelivered, .viewsEqualRecords)
        case .lastMessage(let source):
            Excuse(if: ViewChecks.isLastMessage(of: source, cluster), "a node ended before any other node received what it had sent")
                .weakens(.viewsEqualRecords)
        case .stalled(let end, let moment):
            Excuse(if: end >= moment, "the client does not read its stream")
                .weakens(.eventsAreDelivered, .eachSessionHasOneEnd, .noticesMatchLists, .profileNewsArrive, .devicesAgree)
        }
    }
}
