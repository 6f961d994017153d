import PresenceCore
import PresenceWire

/// Checks the visibility of users at rest, and the friends whom it admits: see ``Violation/Guarantee/friendsAreSeen``.
enum VisibilityChecks {
    /// Whether a visibility may admit a viewer, or may have done so since a moment. Friends are those who may be on the friend list.
    static func mayBeSeen(
        _ user: Int, by viewer: Int, _ rule: Visibility, since moment: Nanoseconds, _ cluster: SimulatedCluster
    ) -> Bool {
        var rule = rule
        if cluster.options.kind == .friendsHideAndBlock {
            let isBlocked = !cluster.isExcused(by: .crippled) && cluster.truth.chain.mustBlock(viewer, by: user, since: moment)
            rule.blocked = isBlocked ? [cluster.userID(viewer)] : []
        }
        guard rule.mode == .friends else { return rule.lets(cluster.userID(viewer)) }
        // Nodes that have lost two replicas may lack the end of a friendship.
        let mayBeFriend = cluster.isExcused(by: .crippled) || cluster.truth.chain.mayBeFriend(viewer, of: user, since: moment)
        rule.friends = mayBeFriend ? [cluster.userID(viewer)] : []
        return rule.lets(cluster.userID(viewer))
    }

    /// Checks that the owner knows the visibility when the cluster is at rest.
    static func check(_ user: Int, _ record: Record, _ cluster: SimulatedCluster) {
        checkFriends(user, record, cluster)
        guard !cluster.isExcused(by: .visibilityChanges(user)), !cluster.isExcused(by: .clockJumps),
            let rule = cluster.truth.oracles[user].rule
        else { return }
        let known = record.privacy?.visibility ?? Visibility()
        if known.isSameChoice(as: rule), known.blocked == rule.blocked || cluster.isExcused(by: .blocklist) { return }
        cluster.violate(.nothingAcknowledgedIsLost, "user-\(user) was told that \(rule) holds, its record says \(known)")
    }

    /// Checks at rest that a user who is visible to friends is visible to exactly the friend list.
    private static func checkFriends(_ user: Int, _ record: Record, _ cluster: SimulatedCluster) {
        guard let visibility = record.privacy?.visibility, visibility.mode == .friends else { return }
        let friends = ChainChecks.rows(.friend, of: user, cluster).map { UserID($0.key, besides: record.user) }
        guard visibility.friends != friends else { return }
        let named = visibility.friends.map { "\($0.map(\.id))" } ?? "nobody"
        cluster.violate(.friendsAreSeen, "user-\(user) is visible to \(named), and its friends are \(friends.map(\.id))")
    }

    /// The friends of whose statuses a user is told at rest.
    static func followed(by user: Int, _ cluster: SimulatedCluster) -> [Int] {
        let chain = cluster.policyAtRest.chain
        guard chain.autoNotifiesFriends, chain.isEnabled else { return [] }
        return ChainChecks.rows(.friend, of: user, cluster).compactMap { cluster.userIndex($0.key) }
    }
}

extension Record {
    /// Whether a replica has the visibility of the owner's record. The friends are not a part of it: a replica has their rows.
    func hasRule(of owned: Record) -> Bool { privacy?.withFriends(nil) == owned.privacy?.withFriends(nil) }
}
