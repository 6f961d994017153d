import PresenceCore
import PresenceWire

/// Checks that a user who hides soon after a change looks like a user who was lost when the call began, or later.
enum HidingSoonChecks {
    /// The difference, in milliseconds, that the clocks of two nodes may have.
    private static let clockTolerance: Milliseconds = 150

    /// Checks the hidden views of a user after a change of the visibility was acknowledged.
    ///
    /// A view that has gone OFFLINE since the call, although the user did not, follows from the call. Of several views that is the last one
    /// to go: an earlier call that was still open may have hidden the others. If the last sign of life in it is older than the call, the
    /// user looks lost, and was lost one grace before.
    static func check(_ call: SimulatedCall, _ cluster: SimulatedCluster) {
        let grace = cluster.options.settings.policy.offlineGrace.wholeMilliseconds
        guard grace > 0, !cluster.isExcused(by: .split, .clockJumps, .ownersChange), !cluster.isExcused(by: .policyChanges),
            let owner = cluster.owner(of: call.user), cluster.nodes[owner].isUp
        else { return }
        let record = cluster.nodes[owner].kept(cluster.userID(call.user)).record
        let askedAt = SimulatedCluster.epoch + call.at / 1_000_000
        guard record.statusType == .online, record.lastOnlineStatusUpdateTime < askedAt - clockTolerance else { return }
        let views = (record.privacy?.hiddenViews ?? []).filter { $0.statusType == .offline }
        let lastAt = views.map(\.lastOnlineStatusUpdateTime).max()
        for view in views where view.lastOnlineStatusUpdateTime == lastAt {
            let (goneAt, seenAt) = (view.lastOnlineStatusUpdateTime, view.lastSeenTime)
            guard goneAt > askedAt + clockTolerance, seenAt < askedAt - clockTolerance, goneAt - seenAt < grace else { continue }
            cluster.violate(
                .hiddenUsersLookLost,
                "user-\(call.user) hides, and was last seen \(goneAt - seenAt) ms before the OFFLINE; a lost user is gone for \(grace) ms")
        }
    }
}
