import PresenceCore
import PresenceWire

/// Checks that a user who hides soon after a change looks like a user who was lost when the call began, or later.
enum HidingSoonChecks {
    /// The difference, in milliseconds, that the clocks of two nodes may have.
    private static let clockTolerance: Milliseconds = 150

    /// Checks the hidden views of a user after a change of the visibility was acknowledged.
    ///
    /// A view that has gone OFFLINE with the last change of the visibility, although the user did not, follows from the call, or from one
    /// that was still open when it began: the two wait together. If the last sign of life in it is older than these, the user looks lost,
    /// and was lost one grace before. The block of a friend, or the end of a friendship on both sides, hides at once, and is another call.
    static func check(_ call: SimulatedCall, _ cluster: SimulatedCluster) {
        let grace = cluster.options.settings.policy.offlineGrace.wholeMilliseconds
        guard grace > 0, !cluster.isExcused(by: .split, .clockJumps, .ownersChange), !cluster.isExcused(by: .policyChanges),
            let owner = cluster.owner(of: call.user), cluster.nodes[owner].isUp
        else { return }
        let record = cluster.nodes[owner].kept(cluster.userID(call.user)).record
        let askedAt = SimulatedCluster.epoch + min(call.at, cluster.truth.oracles[call.user].busySince) / 1_000_000
        guard let privacy = record.privacy, record.statusType == .online, record.lastOnlineStatusUpdateTime < askedAt - clockTolerance
        else {
            return
        }
        let changedAt = privacy.version.milliseconds
        for viewer in cluster.userIDs where !privacy.visibility.blocked.contains(viewer) {
            guard let view = privacy.hiddenView(for: viewer), view.statusType == .offline else { continue }
            let (goneAt, seenAt) = (view.lastOnlineStatusUpdateTime, view.lastSeenTime)
            guard goneAt > max(askedAt + clockTolerance, changedAt - clockTolerance), seenAt < askedAt - clockTolerance,
                goneAt - seenAt < grace
            else { continue }
            cluster.violate(
                .hiddenUsersLookLost,
                "user-\(call.user) hides, and was last seen \(goneAt - seenAt) ms before the OFFLINE; a lost user is gone for \(grace) ms")
        }
    }
}
