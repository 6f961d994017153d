import PresenceCore
import PresenceWire

/// A row of the table of exceptions: the condition under which the cluster may do what a check forbids otherwise.
struct ExceptionRow {
    let applies: Bool
    let reason: StaticString
    /// The guarantees that hold less while the exception applies.
    let weakens: [Violation.Guarantee]

    init(if applies: Bool, _ reason: StaticString, _ weakens: [Violation.Guarantee]) {
        (self.applies, self.reason, self.weakens) = (applies, reason, weakens)
    }
}

/// The exceptions that follow from what may happen in a history. ``StateException`` has those that follow from what has happened.
///
/// A check names the exceptions that it makes: see ``SimulatedCluster/isExcused(by:)``. It reads neither faults nor doubts itself.
enum HistoryException: CaseIterable {
    case split, pauses, clockJumps, slowLinks, diskFaults, kills, lateMessages, lostLogouts, drainsInSplit, boundOfClockLost
    case faultsOfNodes, faultsBesidesDrains, cutOffNode, uncheckedSplit, policiesMayMeet, blocklist, repeatedCalls

    func row(_ options: HistoryOptions) -> ExceptionRow {
        func has(_ faults: Set<HistoryOptions.Fault>) -> Bool { !options.faults.isDisjoint(with: faults) }
        return switch self {
        case .split:
            ExceptionRow(
                if: has([.partitions, .pauses]), "each side of a split has owners of its own, and a paused node acts late",
                [.asOfIsTrue, .syncCompletedIsTrue, .listsAreExact, .chainIsAcknowledged, .blockedIsNoFriend, .friendsAreExact])
        case .pauses: ExceptionRow(if: has([.pauses]), "a paused node answers when it resumes", [.everyCallIsAnswered])
        case .clockJumps:
            ExceptionRow(
                if: has([.clocks]), "ends and kicks have the time of the owner, and an earlier call may win",
                [.kicksHold, .eventsAreDelivered, .viewsNeverGoBack, .listsAreExact, .nothingAcknowledgedIsLost])
        case .slowLinks:
            ExceptionRow(if: has([.delays]), "a change travels for seconds if its link reconnects", [.syncCompletedIsTrue])
        case .diskFaults: ExceptionRow(if: has([.disks]), "a change waits for its disk", [.friendsAreSeen, .profileNewsWait])
        case .kills: ExceptionRow(if: has([.kills]), "an OFFLINE may die with its owner", [.offlineEndsCustomStatus, .devicesAgree])
        case .lateMessages:
            ExceptionRow(
                if: has([.partitions, .pauses, .delays, .clocks, .disks]), "messages between nodes are late by more than a moment",
                [.noFlap, .noGhost, .onlyFollowedUsersAreSent, .listsAreExact, .profileNewsArrive, .policiesHold])
        case .lostLogouts:
            ExceptionRow(
                if: has([.partitions, .pauses, .clocks, .kills, .drains, .disks, .clients]), "an owner may not learn how a session ended",
                [.recordsEqualSessions])
        case .drainsInSplit:
            ExceptionRow(
                if: has([.drains]) && has([.partitions, .pauses]), "one side of a split may have seen the other leave",
                [.acknowledgedIsOnTwoDisks])
        case .boundOfClockLost:
            ExceptionRow(
                if: options.faults.isSuperset(of: [.clocks, .disks]), "a clock goes back, and the disk lacks the bound of the clock",
                [.viewsEqualRecords])
        case .faultsOfNodes:
            ExceptionRow(
                if: !options.faults.isSubset(of: [.clients]), "calls are repeated, counts of a process end with it, and events are lost",
                [.chainIsAcknowledged, .noticesMatchLists, .eachSessionHasOneEnd, .profileNewsArrive])
        case .faultsBesidesDrains:
            ExceptionRow(
                if: !options.faults.isSubset(of: [.clients, .drains]), "a repeated login of a device may come after its next one",
                [.eachSessionHasOneEnd])
        case .cutOffNode:
            ExceptionRow(
                if: options.hasCutOffNode, "a node that is cut off shows what it knew, until the time that the answer names",
                [.hiddenUsersStayHidden, .hiddenViewsStayStill])
        case .uncheckedSplit:
            ExceptionRow(
                if: has([.partitions, .pauses]) && !options.hasCutOffNode, "a visibility does not reach the other side of a split",
                [.hiddenUsersStayHidden])
        case .policiesMayMeet:
            ExceptionRow(
                if: options.kind != .randomSteps || !options.faults.isSubset(of: [.clients]),
                "a node that learns late of a policy does not know that a client was shown it elsewhere", [.viewsEqualRecords])
        case .blocklist:
            ExceptionRow(
                if: options.kind == .friendsHideAndBlock, "the blocklist names the blocked users, and a check of its own compares them",
                [.nothingAcknowledgedIsLost, .acknowledgedIsOnTwoDisks])
        case .repeatedCalls:
            ExceptionRow(
                if: options.kind == .clientsRepeatCalls, "a block with a key waits for all nodes, and later calls overtake it",
                [.noticesMatchLists])
        }
    }
}
