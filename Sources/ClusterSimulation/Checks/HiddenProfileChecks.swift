import PresenceCore
import PresenceWire

/// Checks that the news of profiles wait for users from whom they are kept, and arrive afterwards.
enum HiddenProfileChecks {

    /// Checks that a viewer is told no version of a profile that was written while its user certainly hid from the viewer.
    static func check(_ version: Version, of user: Int, toldTo viewer: Int, _ cluster: inout SimulatedCluster) {
        guard cluster.options.kind.hasCrossPlan, user != viewer, !cluster.isExcused(by: .crippled),
            !cluster.isExcused(by: .split, .clockJumps, .diskFaults)
        else { return }
        // Not the version's own time: a new owner may begin with versions that are seconds ahead of its clock.
        guard let writtenAt = cluster.truth.profiles.writtenAt[version] else { return }
        // An answer arrives within this time.
        let since = writtenAt - .milliseconds(300)
        let oracle = cluster.truth.oracles[user]
        let waits = cluster.options.settings.policy.chain.profileNewsWaitWhileInvisible
        let isInvisible =
            waits && !cluster.isExcused(by: .visibilityChanges(user)) && oracle.rule?.isInvisible == true && oracle.since <= since
        guard isInvisible || cluster.truth.chain.mustBlock(viewer, by: user, since: since) else { return }
        cluster.violate(
            .profileNewsWait,
            "user-\(viewer) is told the profile \(version.text) of user-\(user), who \(isInvisible ? "is invisible" : "blocks it")")
    }

    /// Whether the news of a profile wait for a follower at rest.
    static func waits(_ follower: Int, for user: Int, _ cluster: SimulatedCluster) -> Bool {
        guard follower != user, let owner = cluster.owner(of: user) else { return false }
        guard let visibility = cluster.nodes[owner].kept(cluster.userID(user)).record.privacy?.visibility else { return false }
        let waitsWhileInvisible = cluster.policyAtRest.chain.profileNewsWaitWhileInvisible
        return visibility.blocked.contains(cluster.userID(follower)) || (visibility.isInvisible && waitsWhileInvisible)
    }

    /// Has all users show themselves to all others at rest, and checks that the followers are told what has waited.
    static func finish(_ cluster: inout SimulatedCluster) {
        guard cluster.truth.profiles.isUsed else { return }
        for user in cluster.userIDs.indices where !cluster.isBroken {
            let blocked = ChainChecks.rows(.blocked, of: user, cluster).map { UserID($0.key, besides: cluster.userID(user)) }
            if !blocked.isEmpty { cluster.call(.chain(.setBlocked(blocked, false)), by: user) }
            cluster.call(.setVisibility(Visibility.Change(isInvisible: false)), by: user)
            cluster.awaitAnswer()
        }
        if !cluster.isBroken { cluster.twice { ProfileChecks.checkNews(&$0) } }
    }
}
