import PresenceWire

/// Checks that all nodes remove the users who have been away for long, and no others (`users.forgetAfter`).
extension SimulatedCluster {
    private var forgetAfterMilliseconds: Milliseconds { options.settings.policy.forgetAfterSeconds * 1_000 }

    /// Whether the user was removed after the end of the newest acknowledged custom status, or without one.
    func endedWithRemoval(of user: Int, isBlank: Bool) -> Bool {
        guard isExcused(by: .removed(user, isBlank: isBlank)), let newest = truth.newestAcknowledged(user), let version = newest.version
        else { return false }
        return newest.text.isEmpty || isExcused(by: .textEnds(user)) || truth.presences[user].offlineVersion > version
    }

    /// Counts the rows that a node deletes from its disk.
    mutating func countForgotten(_ rows: [Row], by node: Int) {
        for row in rows where row.kind == .status {
            counts[.removals] += 1
            note(50, node, Int(row.version.stamp & 0xFFFF), "\(nodes[node].id) forgets \(row.user.id), \(row.version.text)")
            if !row.isBlankStatus {
                violate(
                    .nobodyIsRemovedEarly, "\(nodes[node].id) forgets \(row.user.id), \(String(decoding: row.value ?? [], as: UTF8.self))")
            }
        }
    }

    /// Checks the rows that a node writes. A blank record in place of another one removes its user.
    mutating func checkRemoval(in rows: [Row], by node: Int) {
        for row in rows where row.kind == .status && row.isBlankStatus {
            guard let user = userIndex(row.user.id), owner(of: user) == node,
                let old = nodes[node].disk.rows[SimulatedDisk.Key(user: row.user, kind: .status, key: "")], !old.isBlankStatus
            else { continue }
            note(51, node, Int(row.version.stamp & 0xFFFF), "\(nodes[node].id) removes \(row.user.id), \(row.version.text)")
            checkRemoval(of: user, by: node)
        }
    }

    private mutating func checkRemoval(of user: Int, by node: Int) {
        let presence = truth.presences[user]
        let words = "\(nodes[node].id) removes user-\(user)"
        let least = Nanoseconds.milliseconds(Int(forgetAfterMilliseconds) - 500)
        // A change that has just started has not reached every replica of the user.
        let isSettled = time - presence.lastOpenedAt > .milliseconds(2_000)
        if presence.openCount > 0, isSettled {
            return violate(.nobodyIsRemovedEarly, "\(words), who has \(presence.openCount) sessions")
        }
        if presence.openCount == 0, time - presence.absentSince < least, isSettled {
            return violate(.nobodyIsRemovedEarly, "\(words), who went \((time - presence.absentSince).milliseconds) ms ago")
        }
        let since = time - .milliseconds(3_000)
        for follower in truth.subscriptions.indices where !isExcused(by: .uncertainList(follower)) {
            let expected = truth.subscriptions[follower]
            guard expected.changedAt < since,
                follower == user ? !expected.targets(at: time).isEmpty : expected.targets(at: time).contains(user)
            else { continue }
            return violate(.nobodyIsRemovedEarly, "\(words), whom user-\(follower) follows, or who follows somebody")
        }
    }

    /// Checks that at rest nothing is left of a user who had to be removed.
    mutating func checkRemoved(_ user: Int, _ record: Record, follows: Bool, isFollowed: Bool, owner: Int) {
        guard options.kind == .awayUsersAreRemoved, record.version > .zero, truth.presences[user].openCount == 0 else { return }
        guard record.statusType != .online, !follows, !isFollowed, record.customStatus.isEmpty, !record.hasEvents, !record.hasPrivacy,
            !record.isRegistered
        else { return }
        // Subscriptions of this user or to this user that have ended since delay it.
        guard truth.subscriptions.allSatisfy({ time - $0.changedAt > .milliseconds(Int(forgetAfterMilliseconds)) }) else { return }
        let wall = nodes[owner].now(time).wall
        let since = record.isBlank ? record.version.milliseconds : max(record.lastUpdateTime, record.lastSeenTime)
        let kept = record.isBlank ? options.settings.blankHorizon.wholeMilliseconds + 1_500 : forgetAfterMilliseconds + 5_000
        if since + kept < wall {
            violate(.theUnusedAreRemoved, "user-\(user) last changed \(wall - since) ms ago, its record is \(record.words)")
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
