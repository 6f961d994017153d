/// A promise that was broken.
public struct Violation: Sendable, Equatable, CustomStringConvertible {
    /// What the cluster promises.
    public enum Promise: String, CaseIterable, Sendable {
        /// A client's view never goes back.
        case viewsNeverGoBack
        /// After quiet every view equals the owner's record.
        case viewsEqualRecords
        /// After quiet every record equals the sessions that exist.
        case recordsEqualSessions
        /// Nothing that was acknowledged is lost.
        case nothingAcknowledgedIsLost
        /// What is acknowledged is on the disks of two nodes, where two can be reached.
        case acknowledgedIsOnTwoDisks
        /// OFFLINE ends the custom status (T2).
        case offlineEndsCustomStatus
        /// Nobody is shown as gone who was there.
        case noFlap
        /// Nobody is shown as there for longer than the grace after going.
        case noGhost
        /// Quotas and lists are exact.
        case listsAreExact
        /// Nobody is told of users whom it does not follow.
        case onlyFollowedUsersAreTold
        /// Nobody sees whom it may not.
        case nobodySeesWhomItMayNot
        /// All that was followed has been told when the stream says so.
        case syncCompletedIsTrue
        /// An answer is as new as it says.
        case asOfIsTrue
        /// A node that all others have left goes on as a cluster of one.
        case loneNodeTakesChanges
        /// Every operation is answered in time.
        case everyCallIsAnswered
        /// After quiet the nodes agree on who is a member and who owns what.
        case membersAgree
        /// After quiet the replicas of a user, and their disks, hold the same.
        case replicasAgree
        /// After quiet nothing waits, and counters say what is.
        case nothingIsLeftOver
        /// What nodes say to one another can be read, and rows can be loaded.
        case messagesAreReadable
        /// Queues keep their bounds.
        case boundsHold
        /// A synced session is told each event that is acknowledged, or a newer one (N10).
        case eventsAreTold
        /// One version has one content, for every viewer and on every path.
        case oneVersionHasOneContent
        /// A kicked session ends, and its token opens no other (X5).
        case kicksHold
        /// Nobody is told what the app's policy forbids, and all nodes follow one policy.
        case policiesHold
        /// After quiet no node keeps a user who was away for `users.forgetAfter` and of whom nothing of value is kept.
        case theUnusedAreRemoved
        /// No other user is removed.
        case nobodyIsRemovedEarly
    }

    public let promise: Promise
    /// Who, what was seen, and what would be right.
    public let what: String
    /// Virtual milliseconds after the start.
    public let at: Int

    public var description: String { "at \(at) ms: \(promise.rawValue): \(what)" }
}
