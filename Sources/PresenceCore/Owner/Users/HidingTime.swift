import PresenceWire

/// The time at which viewers from whom a user hides are shown the user OFFLINE, so that the user looks lost
/// (<doc:Architecture#A-status-change>).
///
/// Viewers see a lost user go OFFLINE one `offlineGrace` after the loss, and the loss follows what they saw last. The time is a function of
/// the record, the sessions and the call. So it can be asked for again whenever one of them has changed, and by the next owner:
///
/// - The user is not ONLINE: now. Viewers keep what they see.
/// - The call came one `offlineGrace` or more after what viewers saw last: now.
/// - The user is present: one `offlineGrace` after the call, or after a later change that viewers see.
/// - All sessions are in their grace: at its end at the latest. Viewers are shown one OFFLINE, that of the loss.
/// - The call came later than any wait from now ends, because the wall clock was set back: now.
struct HidingTime {
    let user: Owner.Index
    /// The time at which the owner took the call that hides the user.
    let askedAt: Milliseconds
    /// The time that the call had taken until then.
    var age: Milliseconds = 0

    /// The same for a user with another index.
    func of(_ user: Owner.Index) -> HidingTime { HidingTime(user: user, askedAt: askedAt, age: age) }

    /// The time until which viewers still see the user; nil if the user hides now.
    ///
    /// - Parameter change: the change of the user that takes effect at the same time.
    func end(with change: StatusChange = StatusChange(), by owner: borrowing Owner, at now: Now) -> Milliseconds? {
        let record = owner.users[user].record
        guard record.statusType == .online else { return nil }
        let policy = owner.policies.policy(of: record.user)
        let pushDevices = Presence.pushDevices(of: owner.users[user], after: change, by: policy, at: now)
        guard owner.users[user].status(with: pushDevices).status == .online else { return nil }
        let grace = policy.offlineGrace.wholeMilliseconds
        let longest = owner.settings.longestHide.wholeMilliseconds
        let isChanged = change.customStatus != nil || change.events != nil
        let changedAt = isChanged ? now.wall : record.lastSeenChange
        guard grace + age <= longest, askedAt < changedAt + grace, askedAt < now.wall + longest else { return nil }
        var end = min(askedAt + longest - age, max(askedAt, changedAt) + grace)
        // A user whom push reaches stays ONLINE after the loss.
        if pushDevices.isEmpty, let lossEnd = owner.users[user].lastGraceDeadline {
            // Rounded up: the loss does not end in an earlier millisecond than this.
            end = min(end, now.wall + (lossEnd - now.instant + .nanoseconds(999_999)).wholeMilliseconds)
        }
        return end > now.wall ? end : nil
    }
}

extension CoreSettings {
    /// The longest wait of a call that hides a user: it leaves a fifth of ``callTimeout`` for the disks and the barrier.
    var longestHide: Duration { callTimeout - callTimeout / 5 }
}
