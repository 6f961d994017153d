import PresenceWire

/// Checks that all nodes remove the users who have been away for long, and no others (`users.forgetAfter`).
enum RemovalChecks {
    /// Whether the user was removed after the end of the newest acknowledged custom status, or without one.
    static func endedWithRemoval(of user: Int, isBlank: Bool, _ cluster: SimulatedCluster) -> Bool {
        guard cluster.isExcused(by: .removed(user, isBlank: isBlank)), let newest = cluster.truth.newestAcknowledged(user),
            let version = newest.version
        else { return false }
        return newest.text.isEmpty || cluster.isExcused(by: .textEnds(user)) || cluster.truth.presences[user].offlineVersion > version
    }

    /// Counts the rows that a node deletes from its disk.
    static func countForgotten(_ rows: [Row], by node: Int, _ cluster: inout SimulatedCluster) {
        for row in rows where row.kind == .status {
            cluster.stage.counts[.removals] += 1
            cluster.journal.note(
                50, node, Int(row.version.stamp & 0xFFFF), "\(cluster.nodes[node].id) forgets \(row.user.id), \(row.version.text)")
            guard !row.isBlankStatus else { continue }
            let words = String(decoding: row.value ?? [], as: UTF8.self)
            cluster.violate(.nobodyIsRemovedEarly, "\(cluster.nodes[node].id) forgets \(row.user.id), \(words)")
        }
    }

    /// Checks the rows that a node writes. A blank record in place of another one removes its user.
    static func checkRemoval(in rows: [Row], by node: Int, _ cluster: SimulatedCluster) {
        for row in rows where row.kind == .status && row.isBlankStatus {
            guard let user = cluster.userIndex(row.user.id), cluster.owner(of: user) == node,
                let old = cluster.nodes[node].disk.rows[SimulatedDisk.Key(row.user)], !old.isBlankStatus
            else { continue }
            cluster.journal.note(
                51, node, Int(row.version.stamp & 0xFFFF), "\(cluster.nodes[node].id) removes \(row.user.id), \(row.version.text)")
            checkRemoval(of: user, by: node, cluster)
        }
    }

    private static func checkRemoval(of user: Int, by node: Int, _ cluster: SimulatedCluster) {
        let presence = cluster.truth.presences[user]
        let words = "\(cluster.nodes[node].id) removes user-\(user)"
        let least = Nanoseconds.milliseconds(Int(cluster.forgetAfterMilliseconds) - 500)
        // A change that has just started has not reached every replica of the user.
        let isSettled = cluster.time - presence.lastOpenedAt > .milliseconds(2_000)
        if presence.openCount > 0, isSettled {
            return cluster.violate(.nobodyIsRemovedEarly, "\(words), who has \(presence.openCount) sessions")
        }
        if presence.openCount == 0, cluster.time - presence.absentSince < least, isSettled {
            return cluster.violate(.nobodyIsRemovedEarly, "\(words), who went \((cluster.time - presence.absentSince).milliseconds) ms ago")
        }
        let since = cluster.time - .milliseconds(3_000)
        for follower in cluster.truth.subscriptions.indices where !cluster.isExcused(by: .uncertainList(follower)) {
            let expected = cluster.truth.subscriptions[follower]
            guard expected.changedAt < since,
                follower == user ? !expected.targets(at: cluster.time).isEmpty : expected.targets(at: cluster.time).contains(user)
            else { continue }
            return cluster.violate(.nobodyIsRemovedEarly, "\(words), whom user-\(follower) follows, or who follows somebody")
        }
    }

    /// Checks that at rest nothing is left of a user who had to be removed.
    static func checkRemoved(_ user: Int, _ record: Record, follows: Bool, isFollowed: Bool, owner: Int, _ cluster: SimulatedCluster) {
        guard cluster.options.kind == .awayUsersAreRemoved, record.version > .zero, cluster.truth.presences[user].openCount == 0 else {
            return
        }
        guard record.statusType != .online, !follows, !isFollowed, record.customStatus.isEmpty, !record.hasEvents, !record.hasPrivacy,
            !record.isRegistered
        else { return }
        // Subscriptions of this user or to this user that have ended since delay it.
        guard cluster.truth.subscriptions.allSatisfy({ cluster.time - $0.changedAt > .milliseconds(Int(cluster.forgetAfterMilliseconds)) })
        else { return }
        let wall = cluster.nodes[owner].now(cluster.time).wall
        let since = record.isBlank ? record.version.milliseconds : max(record.lastUpdateTime, record.lastSeenTime)
        let kept =
            record.isBlank ? cluster.options.settings.blankHorizon.wholeMilliseconds + 1_500 : cluster.forgetAfterMilliseconds + 5_000
        if since + kept < wall {
            cluster.violate(.theUnusedAreRemoved, "user-\(user) last changed \(wall - since) ms ago, its record is \(record.words)")
        }
    }
}

extension Row {
    private static let blankBegin = Array("{\"statusType\":\"\(StatusType.unlogined.name)\",\"customStatus\":\"\"".utf8)

    /// Whether the row keeps a blank record.
    fileprivate var isBlankStatus: Bool {
        guard let value, value.starts(with: Self.blankBegin) else { return false }
        let text = String(decoding: value, as: UTF8.self)
        return text.contains("\"lastUpdateTime\":0,") && text.hasSuffix("\"lastSeenTime\":0}")
    }
}
