import PresenceWire

/// Rules of an app's policy for the users that this node owns.
extension Owner {
    /// Applies a new policy. A quota applies to existing lists, and a shorter time to users who are already away.
    mutating func policyChanged(of app: String, from old: Policy, in turn: inout Turn) {
        let new = policies.policy(of: .policyUser(of: app))
        let tellsOthers = new.chain.autoNotifiesFriends != old.chain.autoNotifiesFriends
        let tellsProfiles = new.chain.isEnabled != old.chain.isEnabled
        for index in users.allIndices where users.isLive(index) && !users[index].isReplica && users.user(at: index).app == app {
            let devices = users[index].pushDevices(without: [], by: new, at: turn.now)
            let breaksRule = !ChainVisibility(user: index).isRight(by: self)
            if breaksRule || devices != users[index].record.pushDevices { modify(index) { $0.repairDueAt = turn.now.instant } }
            if tellsOthers && users[index].list(.friend).liveCount > 0 || tellsProfiles { queueList(of: index, into: &turn.outbox) }
            if new.subscriptionsMax != old.subscriptionsMax {
                for kind in SubscriptionKind.allCases {
                    SubscriptionQuota(user: index, kind: kind).changed(from: old, by: &self, in: &turn)
                }
            }
            if new.hasWebhook, !old.hasWebhook { WebhookNews(user: index, now: turn.now).begin(by: &self, into: &turn.outbox) }
            // A text that the old policy kept while the user was away (T11).
            repairCustomStatusLater(index, at: turn.now)
            schedule(index, at: turn.now)
        }
    }

    /// The time at which the subscriptions of a user end if the user does not come back (T35).
    func dropDeadline(of user: Index, at now: Now) -> Instant { dropTime(of: user).map(now.instant(of:)) ?? .farFuture }

    private func dropTime(of user: Index) -> Milliseconds? {
        guard users[user].isAwayWithSubscriptions else { return nil }
        let seconds = policies.policy(of: users.user(at: user)).dropAfterOfflineSeconds
        return seconds > 0 ? users[user].awaySince + seconds * 1_000 : nil
    }

    mutating func repairCustomStatusLater(_ user: Index, at now: Now) {
        if users[user].record.hasOutlivedStatus { repairLater(user, at: now) }
    }

    mutating func dropAfterOffline(_ user: Index, in turn: inout Turn) {
        guard let time = dropTime(of: user), time <= turn.now.wall else { return }
        SubscriptionEnds(user: user, kind: .status).end(users[user].subscriptions.live, of: &self, in: &turn)
    }
}

extension OwnedUser {
    /// Whether the user has subscriptions, but neither a session nor a device that push reaches.
    fileprivate var isAwayWithSubscriptions: Bool { sessions.isEmpty && subscriptions.liveCount > 0 && record.statusType != .online }

    /// The time since when the user is away, or of the last subscription made for the user since.
    fileprivate var awaySince: Milliseconds {
        max(record.lastOnlineStatusUpdateTime, record.lastSeenTime, subscriptions.entries.lazy.map(\.subscribedAt).max() ?? 0)
    }
}
