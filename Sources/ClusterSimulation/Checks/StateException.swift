import PresenceCore
import PresenceWire

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

    func row(_ cluster: SimulatedCluster) -> ExceptionRow {
        switch self {
        case .healing: ExceptionRow(if: cluster.isHealed, "all late messages arrive at once", [.noFlap, .noGhost])
        case .crippled:
            ExceptionRow(
                if: cluster.time - cluster.crippledAt <= .milliseconds(12_000), "two replicas of a user were down, with what only they had",
                [.noFlap, .noGhost, .listsAreExact, .syncCompletedIsTrue, .asOfIsTrue, .friendsAreSeen, .profileNewsWait])
        case .crippledAfterStart:
            ExceptionRow(
                if: cluster.crippledAt >= .milliseconds(SimulatedCluster.calmMilliseconds) && cluster.isExcused(by: .crippled),
                "as for crippled; at the start of a history no node has rows", [.chainIsAcknowledged, .profileIsAcknowledged])
        case .crippledSince(let moment):
            ExceptionRow(
                if: cluster.crippledAt >= moment, "two replicas of a user were down, with the first answers of calls",
                [.repeatedCallsHaveOneAnswer])
        case .listsMayBeIncomplete:
            ExceptionRow(
                if: cluster.time - cluster.manyKilledAt < .milliseconds(12_000)
                    || cluster.nodes.contains { $0.isUp && $0.look { $0.owner.listsMayBeIncomplete } },
                "an owner that does not know the whole list evicts others than expected", [.listsAreExact])
        case .disturbed(let moment):
            ExceptionRow(
                if: cluster.isExcused(by: .lateMessages) || cluster.disturbedAt >= moment - .milliseconds(3_000),
                "a node starts or ends, or messages are late", [.eventsAreDelivered, .kicksHold, .policiesHold, .eachSessionHasOneEnd])
        case .alone(let node):
            ExceptionRow(
                if: cluster.nodes.count > 1
                    && (cluster.nodes.count(where: \.isUp) == 1 || cluster.nodes[node].look { $0.cluster.isAlone }),
                "the others do not know the change until they are met again", [.nothingAcknowledgedIsLost, .chainIsAcknowledged])
        case .aloneSince(let moment, let node):
            ExceptionRow(
                if: cluster.nodes[node].aloneAt >= moment || cluster.isExcused(by: .alone(node: node)),
                "another node may have been met since the list was changed", [.nothingAcknowledgedIsLost])
        case .policyChanges:
            ExceptionRow(if: cluster.truth.policy.isBusy, "nodes may follow the policy before or after", [.recordsEqualSessions])
        case .policyShowsAgain:
            ExceptionRow(
                if: cluster.truth.policy.mayShowAgain, "a change of the policy sends the same record in another form", [.viewsNeverGoBack])
        case .policyKeepsStatus:
            ExceptionRow(if: cluster.truth.policy.hasKeptStatus, "a policy kept texts of OFFLINE users", [.offlineEndsCustomStatus])
        case .profileVersions:
            ExceptionRow(
                if: cluster.truth.profiles.isUsed, "a profile moves the version of a record, and nobody is told", [.syncCompletedIsTrue])
        case .policyHides(let moment):
            ExceptionRow(
                if: !cluster.truth.policy.hasPublished(since: moment), "a policy forbids to send other users",
                [.syncCompletedIsTrue, .eventsAreDelivered, .viewsEqualRecords])
        case .lastMessage(let source):
            ExceptionRow(
                if: cluster.isLastMessage(of: source), "a node ended before any other node received what it had sent",
                [.viewsEqualRecords])
        case .stalled(let end, let moment):
            ExceptionRow(
                if: end >= moment, "the client does not read its stream",
                [.eventsAreDelivered, .eachSessionHasOneEnd, .noticesMatchLists, .profileNewsArrive, .devicesAgree])
        }
    }
}
