/// A row of the table of exceptions: the condition under which the cluster may do what a check forbids otherwise.
struct Excuse {
    let applies: Bool
    let reason: StaticString
    private(set) var weakened: [Violation.Guarantee] = []

    init(if applies: Bool, _ reason: StaticString) { (self.applies, self.reason) = (applies, reason) }

    /// Names the guarantees that hold less while the exception applies.
    func weakens(_ guarantees: Violation.Guarantee...) -> Excuse {
        var excuse = self
        excuse.weakened = guarantees
        return excuse
    }
}

/// The exceptions that follow from what may happen in a history. ``StateException`` has those that follow from what has happened.
///
/// A check names the exceptions that it makes: see ``SimulatedCluster/isExcused(by:)``. It reads neither faults nor doubts itself.
enum HistoryException: CaseIterable {
    case split, pauses, clockJumps, ownersChange, slowLinks, diskFaults, kills, lateMessages, lostLogouts, drainsInSplit, boundOfClockLost
    case faultsOfNodes, faultsBesidesDrains, cutOffNode, uncheckedSplit, policiesMayMeet, repeatedCalls

    func row(_ options: HistoryOptions) -> Excuse {
        func has(_ faults: Set<HistoryOptions.Fault>) -> Bool { !options.faults.isDisjoint(with: faults) }
        return switch self {
        case .split:
            Excuse(if: has([.partitions, .pauses]), "each side of a split has owners of its own, and a paused node acts late")
                .weakens(
                    .asOfIsTrue, .syncCompletedIsTrue, .listsAreExact, .chainIsAcknowledged, .blockedIsNoFriend, .friendsAreExact,
                    .hiddenUsersLookLost)
        case .pauses: Excuse(if: has([.pauses]), "a paused node answers when it resumes").weakens(.everyCallIsAnswered)
        case .clockJumps:
            Excuse(if: has([.clocks]), "ends and kicks have the time of the owner, and an earlier call may win")
                .weakens(
                    .kicksHold, .eventsAreDelivered, .viewsNeverGoBack, .listsAreExact, .nothingAcknowledgedIsLost, .hiddenUsersLookLost)
        case .ownersChange:
            Excuse(if: has([.kills, .drains]), "the next owner is asked again, and may have no time left for a wait")
                .weakens(.hiddenUsersLookLost)
        case .slowLinks: Excuse(if: has([.delays]), "a change travels for seconds if its link reconnects").weakens(.syncCompletedIsTrue)
        case .diskFaults: Excuse(if: has([.disks]), "a change waits for its disk").weakens(.friendsAreSeen, .profileNewsWait)
        case .kills: Excuse(if: has([.kills]), "an OFFLINE may die with its owner").weakens(.offlineEndsCustomStatus, .devicesAgree)
        case .lateMessages:
            Excuse(if: has([.partitions, .pauses, .delays, .clocks, .disks]), "messages between nodes are late by more than a moment")
                .weakens(.noFlap, .noGhost, .onlyFollowedUsersAreSent, .listsAreExact, .profileNewsArrive, .policiesHold)
        case .lostLogouts:
            Excuse(if: has([.partitions, .pauses, .clocks, .kills, .drains, .disks, .clients]), "the end of a session may stay unknown")
                .weakens(.recordsEqualSessions)
        case .drainsInSplit:
            Excuse(if: has([.drains]) && has([.partitions, .pauses]), "one side of a split may have seen the other leave")
                .weakens(.acknowledgedIsOnTwoDisks)
        case .boundOfClockLost:
            Excuse(if: options.faults.isSuperset(of: [.clocks, .disks]), "a clock goes back, and the disk lacks the bound of the clock")
                .weakens(.viewsEqualRecords)
        case .faultsOfNodes:
            Excuse(if: !options.faults.isSubset(of: [.clients]), "calls are repeated, counts of a process end with it, and events are lost")
                .weakens(.chainIsAcknowledged, .noticesMatchLists, .eachSessionHasOneEnd, .profileNewsArrive)
        case .faultsBesidesDrains:
            Excuse(if: !options.faults.isSubset(of: [.clients, .drains]), "a repeated login of a device may come after its next one")
                .weakens(.eachSessionHasOneEnd)
        case .cutOffNode:
            Excuse(if: options.hasCutOffNode, "a node that is cut off shows what it knew, until the time that the answer names")
                .weakens(.hiddenUsersStayHidden, .hiddenViewsStayStill)
        case .uncheckedSplit:
            Excuse(if: has([.partitions, .pauses]) && !options.hasCutOffNode, "a visibility does not reach the other side of a split")
                .weakens(.hiddenUsersStayHidden)
        case .policiesMayMeet:
            Excuse(
                if: options.kind != .randomSteps || !options.faults.isSubset(of: [.clients]),
                "a node that learns late of a policy does not know that a client was shown it elsewhere"
            ).weakens(.viewsEqualRecords)
        case .repeatedCalls:
            Excuse(if: options.kind == .clientsRepeatCalls, "a block with a key waits for all nodes, and later calls overtake it")
                .weakens(.noticesMatchLists)
        }
    }
}
