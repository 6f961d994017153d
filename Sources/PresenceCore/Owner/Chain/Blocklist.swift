import PresenceWire

/// The blocklist of one user, and the visibility that follows from it: users on it see their blocker OFFLINE (`block.hidesStatus`).
struct Blocklist {
    let user: Owner.Index

    /// Hides the user's status from exactly those on the list. A call that hides ends once every live node hides it.
    func show(by owner: inout Owner, at now: Now, into outbox: inout Outbox) {
        let id = owner.users.user(at: user)
        let hides = owner.policies.policy(of: id).chain.blockHidesStatus
        let list = owner.users[user].list(.blocked)
        let blocked = hides ? list.entries.filter { !$0.isRemoved }.map { UserID(app: String(id.app), id: $0.key) } : []
        let privacy = owner.users[user].record.privacy ?? Privacy()
        let new = privacy.visibility.changed(by: Visibility.Change(blocked: blocked))
        guard new != privacy.visibility else { return }
        let visibility = StatusChange.Visibility(visibility: new, writtenAt: owner.clock.next(at: now.wall))
        owner.refresh(user, StatusChange(visibility: visibility), at: now, into: &outbox)
        if new.blocked.count >= privacy.visibility.blocked.count { outbox.needsBarrier = true }
    }

    /// Whether the visibility hides the user's status from those on the list, or from nobody if the app's policy says so.
    ///
    /// It compares numbers only: both are changed by ``show(by:at:into:)``, and by the app's policy.
    func isShown(by owner: borrowing Owner) -> Bool {
        let count = owner.users[user].list(.blocked).liveCount
        guard count > 0 else { return true }
        let hides = owner.policies.policy(of: owner.users.user(at: user)).chain.blockHidesStatus
        return owner.users[user].record.privacy?.visibility.blocked.count ?? 0 == (hides ? count : 0)
    }

    /// Schedules a review of a user whose visibility does not follow from the list, because this node has become the owner after a change
    /// of the policy. A replica may know more of the list.
    func repairLater(by owner: inout Owner, at now: Now) {
        guard !isShown(by: owner) else { return }
        let due = now.instant + owner.settings.takeoverTimeout
        owner.users.modify(user) { $0.repairDueAt = min($0.repairDueAt ?? .farFuture, due) }
    }

    /// Writes the visibility again, and waits again until every live node hides the user.
    func hideAgain(by owner: borrowing Owner, into outbox: inout Outbox) {
        let record = owner.users[user].record
        if record.version > .zero { outbox.rows.append(Row(record)) }
        if let privacy = record.privacy { outbox.rows.append(Row(privacy, of: record.user)) }
        outbox.needsBarrier = true
    }
}
