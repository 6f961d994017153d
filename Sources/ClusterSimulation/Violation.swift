/// A broken guarantee.
public struct Violation: Sendable, Equatable, CustomStringConvertible {
    /// A guarantee of the cluster.
    public enum Guarantee: String, CaseIterable, Sendable {
        /// A client's view never goes back.
        case viewsNeverGoBack
        /// After quiet every view equals the owner's record.
        case viewsEqualRecords
        /// After quiet every record equals the sessions that exist.
        case recordsEqualSessions
        /// No acknowledged change is lost.
        case nothingAcknowledgedIsLost
        /// An acknowledged change is on the disks of two nodes, if two are reachable.
        case acknowledgedIsOnTwoDisks
        /// OFFLINE ends the custom status (T2).
        case offlineEndsCustomStatus
        /// No user is shown as gone who was present.
        case noFlap
        /// No user is shown as present for longer than the grace after going.
        case noGhost
        /// Quotas and lists are exact.
        case listsAreExact
        /// No client receives users that it does not follow.
        case onlyFollowedUsersAreSent
        /// No viewer sees a user whom it may not see.
        case hiddenUsersStayHidden
        /// A stream that claims to be synced has sent everything that its user follows.
        case syncCompletedIsTrue
        /// An answer is as new as it claims.
        case asOfIsTrue
        /// A node that all others have left goes on as a cluster of one.
        case loneNodeTakesChanges
        /// Every call is answered in time.
        case everyCallIsAnswered
        /// At rest the nodes agree on the members and the owners.
        case membersAgree
        /// At rest the replicas of a user, and their disks, hold the same.
        case replicasAgree
        /// At rest nothing waits, and counters match the state.
        case nothingIsLeftOver
        /// Messages of nodes can be read, and rows can be loaded.
        case messagesAreReadable
        /// Queues stay within their bounds.
        case boundsHold
        /// A synced session receives each acknowledged event, or a newer one (N10).
        case eventsAreDelivered
        /// One version has one content, for every viewer and on every path.
        case oneVersionHasOneContent
        /// A kicked session ends, and its token opens no other session (X5).
        case kicksHold
        /// No client receives what the app's policy forbids, and all nodes have one policy.
        case policiesHold
        /// At rest no node keeps a user who was away for `users.forgetAfter` and of whom nothing of value is kept.
        case theUnusedAreRemoved
        /// No other user is removed.
        case nobodyIsRemovedEarly
        /// A machine with a wrong clock or a full disk gives its slots away, takes some back, and stops nobody else's calls.
        case faultsStayLocal
        /// No node writes a version that is far ahead of the true time.
        case versionsAreInTime
        /// Of two processes with one node ID one serves, and the other one ends in time and says why.
        case oneProcessServes
        /// Each acknowledged decision of the relationship chain holds until a later one undoes it, and its answer is right.
        case chainIsAcknowledged
        /// At rest both sides of a friend request, and of a friendship that both made, agree.
        case chainMatches
        /// No friend comes back without an addition or an approval that is newer than the deletion.
        case deletedStaysDeleted
        /// At rest a viewer sees a user exactly if the visibility, the friend list and the blocklist admit it, on each path.
        case friendsAreSeen
        /// A viewer from whom a user hides without a break is shown no change, whoever else is hidden from or shown the user.
        case hiddenViewsStayStill
        /// A user who hides soon after a change was last seen one `offlineGrace` before the OFFLINE, as a lost user was.
        case hiddenUsersLookLost
        /// One sequence of a list has one content, whichever node answers.
        case sequenceNamesOneContent
        /// A device that was away knows at rest what a device knows that stayed.
        case devicesAgree
        /// Each session ends once, for the reason that its client is told. A stream whose end is due does not go on.
        case eachSessionHasOneEnd
        /// At rest each stream was told all sessions of its user, unless its session was always alone.
        case sessionsAreTold
        /// Nobody has more friends and open requests than `friends.max`.
        case friendsAreExact
        /// A client that applies the changes since any list that it had holds the owner's list.
        case syncEqualsList
        /// At rest nobody is a friend, or has a request, of a user whom one of the two blocks. Excused are splits. An import respects only
        /// the blocks of the user who gets the friend.
        case blockedIsNoFriend
        /// A session that stays open is told exactly the changes of its user's lists, or that it must fetch them.
        case noticesMatchLists
        /// At rest no decision waits in an outbox.
        case outboxDrains
        /// Each acknowledged field of a profile holds until a later call sets it, and each answer has it.
        case profileIsAcknowledged
        /// A client is told the newest version of its user's profile, and of the profiles that its user follows, and of no others.
        case profileNewsArrive
        /// While a user blocks a follower, or is invisible, the follower is told no version of the profile that was written meanwhile.
        case profileNewsWait
        /// A repeated call with a key has the first answer, and takes effect once.
        case repeatedCallsHaveOneAnswer
    }

    public let guarantee: Guarantee
    /// The violation in words: whom it concerns, the wrong state, and the right one.
    public let what: String
    /// The time in virtual milliseconds after the start.
    public let at: Int

    public var description: String { "at \(at) ms: \(guarantee.rawValue): \(what)" }
}
