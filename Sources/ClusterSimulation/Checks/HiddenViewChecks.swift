import PresenceCore
import PresenceWire

/// Checks the statuses that viewers are shown of users who may hide from them: see ``VisibilityOracle``.
enum HiddenViewChecks {
    /// Checks the statuses of an event that a stream sends now, or that an answer amounts to.
    static func check(_ event: SimulatedClient.Event, shownTo viewer: Int, askedAt: Nanoseconds, _ cluster: inout SimulatedCluster) {
        for status in event.data["userStatusList"]?.elements ?? [] {
            check(status.without("isUnsure"), shownTo: viewer, askedAt: askedAt, &cluster)
        }
    }

    private static func check(_ status: JSONValue, shownTo viewer: Int, askedAt: Nanoseconds, _ cluster: inout SimulatedCluster) {
        guard let user = status["userID"]?.text.flatMap({ cluster.userIndex($0) }), user != viewer else { return }
        checkStill(status, of: user, shownTo: viewer, askedAt: askedAt, &cluster)
        guard let rule = cluster.truth.oracles[user].rule, askedAt >= cluster.truth.oracles[user].since else { return }
        checkContent(status, of: user, shownTo: viewer, &cluster)
        guard !VisibilityChecks.mayBeSeen(user, by: viewer, rule, since: askedAt, cluster) else {
            return cluster.truth.oracles[user].forgetShown(to: viewer)
        }
        if cluster.isExcused(by: .cutOffNode) {
            guard status["statusType"]?.text == "ONLINE", !MachineFaultChecks.isOnCutOffNode(user, cluster) else { return }
            return cluster.violate(
                .hiddenUsersStayHidden,
                "user-\(viewer) is shown \(status), though user-\(user) hides from it, and the answer said until when a node may show it")
        }
        if let event = cluster.truth.events[user].hiddenEvent(in: status, since: cluster.truth.oracles[user].since) {
            return cluster.violate(
                .hiddenUsersStayHidden, "user-\(viewer) is shown event \(event), which user-\(user) published when it hid from it")
        }
        let (shown, mayEnd) = (visible(status, cluster), cluster.isExcused(by: .textEnds(user)))
        if !mayEnd { cluster.truth.oracles[user].noteStill(shown, shownTo: viewer) }
        guard let problem = cluster.truth.oracles[user].problem(with: shown, shownTo: viewer, mayEnd: mayEnd) else { return }
        cluster.violate(.hiddenUsersStayHidden, "user-\(viewer) is shown \(status), though user-\(user) hides from it: \(problem)")
    }

    /// The part of a status that does not end by itself. With an event the time of the last change moves.
    private static func visible(_ status: JSONValue, _ cluster: SimulatedCluster) -> JSONValue {
        cluster.publishesEvents ? status.without("event", "loginEvent", "lastUpdateTime") : status
    }

    // MARK: Views that stay

    /// Forgets the views of viewers whom a change of the visibility may admit. The views of all others stay as they are.
    static func keepStill(of user: Int, after change: Visibility.Change, _ cluster: inout SimulatedCluster) {
        guard !cluster.isExcused(by: .visibilityChanges(user)), !cluster.isExcused(by: .clockJumps, .cutOffNode),
            let rule = cluster.truth.oracles[user].rule
        else {
            return cluster.truth.oracles[user].keepStill { _ in false }
        }
        let new = rule.changed(by: change)
        let hidden = cluster.userIDs.indices.filter { viewer in
            [rule, new].allSatisfy { !VisibilityChecks.mayBeSeen(user, by: viewer, $0, since: cluster.time, cluster) }
        }
        cluster.truth.oracles[user].keepStill(hidden.contains)
    }

    /// Checks that a viewer from whom a user has hidden all the time is shown nothing new, whoever else may see the user meanwhile.
    private static func checkStill(
        _ status: JSONValue, of user: Int, shownTo viewer: Int, askedAt: Nanoseconds, _ cluster: inout SimulatedCluster
    ) {
        guard !cluster.isExcused(by: .textEnds(user)) else { return cluster.truth.oracles[user].keepStill { _ in false } }
        let shown = visible(status, cluster)
        guard let problem = cluster.truth.oracles[user].movedView(shown, shownTo: viewer, askedAt: askedAt) else { return }
        cluster.violate(.hiddenViewsStayStill, "user-\(viewer) is shown \(status), though user-\(user) hides from it: \(problem)")
    }

    /// Checks that a viewer is shown one content under one version.
    private static func checkContent(_ status: JSONValue, of user: Int, shownTo viewer: Int, _ cluster: inout SimulatedCluster) {
        guard cluster.options.kind.hasCrossPlan, let version = status["version"]?.text else { return }
        if cluster.truth.shownContents[user].isEmpty {
            cluster.truth.shownContents[user] = Array(repeating: Contents(), count: cluster.options.usersCount)
        }
        guard let before = cluster.truth.shownContents[user][viewer].problem(with: status, version) else { return }
        cluster.violate(
            .oneVersionHasOneContent, "user-\(viewer) is shown \(status), under this version \(before) was shown before")
    }
}
