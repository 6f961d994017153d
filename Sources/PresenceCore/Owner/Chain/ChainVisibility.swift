import PresenceWire

/// The part of a user's visibility that follows from the lists of the relationship chain.
///
/// Users on the blocklist see their blocker OFFLINE (`block.hidesStatus`). With visibility `friends` exactly the users on the friend list
/// see the user. The lists are the rows; the record carries the names to the nodes that show it (<doc:NumberedVisibilities>).
struct ChainVisibility {
    let user: Owner.Index

    /// The users on a list.
    private func names(_ kind: Row.Kind, by owner: borrowing Owner) -> [UserID] {
        let id = owner.users.user(at: user)
        return owner.users[user].list(kind).liveKeys.map { UserID($0, besides: id) }
    }

    /// The visibility after a change that the user chooses.
    func changed(_ visibility: Visibility, by change: Visibility.Change, of owner: borrowing Owner) -> Visibility {
        var new = visibility.changed(by: change)
        if new.mode == .friends, new.friends == nil { new.friends = names(.friend, by: owner) }
        return new
    }

    /// Shows the user's status to exactly those whom the lists admit, after they have changed. A call that hides ends once every live node
    /// hides the user.
    ///
    /// The date of the user's choice stays if only friends have changed. Otherwise a friend who is added on one side of a split would undo
    /// a visibility that the user has chosen on the other side.
    ///
    /// - Parameter kind: the list that has changed; nil for both.
    func show(_ kind: Row.Kind? = nil, by owner: inout Owner, in turn: inout Turn) {
        guard !owner.users[user].isReplica,
            let visibility = visibility(after: kind, with: StatusChange(), by: &owner, in: &turn)
        else { return }
        owner.refresh(user, StatusChange(visibility: visibility), in: &turn)
    }

    /// The visibility by the lists; nil if it stays.
    ///
    /// - Parameters:
    ///   - kind: as in ``show(_:by:in:)``.
    ///   - change: the change that takes effect with it.
    private func visibility(
        after kind: Row.Kind?, with change: StatusChange, by owner: inout Owner, in turn: inout Turn
    ) -> StatusChange.Visibility? {
        let privacy = owner.users[user].record.privacy ?? Privacy()
        var new = privacy.visibility
        if kind != .blocked, new.mode == .friends { new.friends = names(.friend, by: owner) }
        if kind != .friend {
            let hides = owner.policies.policy(of: owner.users.user(at: user)).chain.blockHidesStatus
            new.blocked = hides ? names(.blocked, by: owner) : []
        }
        showUntilDue(&new, with: change, by: &owner, at: turn.now)
        guard new != privacy.visibility else { return nil }
        let writtenAt = new.blocked == privacy.visibility.blocked ? privacy.writtenAt : owner.nextVersion(at: turn.now)
        if privacy.visibility.isClosed(by: new) { turn.outbox.needsBarrier = true }
        return StatusChange.Visibility(visibility: new, writtenAt: writtenAt)
    }

    /// Shows a user who has blocked viewers soon after a change to these viewers until a lost user would be OFFLINE: see ``HidingTime``.
    ///
    /// The rows of a block take effect at once, and have its time. So whoever owns the user then finds out when the user hides.
    private func showUntilDue(_ new: inout Visibility, with change: StatusChange, by owner: inout Owner, at now: Now) {
        guard hasBlockToShow(by: owner) else { return }
        let (id, known) = (owner.users.user(at: user), owner.users[user].record.privacy?.visibility ?? Visibility())
        var (viewers, first) = ([UserID](), Milliseconds.max)
        for entry in owner.users[user].list(.blocked).entries where !entry.isRemoved {
            let viewer = UserID(entry.key, besides: id)
            guard known.lets(viewer), !hasEndedFriendship(with: entry, by: owner),
                let end = HidingTime(user: user, askedAt: entry.version.milliseconds).end(with: change, by: owner, at: now)
            else { continue }
            viewers.append(viewer)
            first = min(first, end)
        }
        guard !viewers.isEmpty else { return }
        new.blocked.removeAll { viewers.contains($0) }
        if let friends = new.friends { new.friends = (friends + viewers.filter { !friends.contains($0) }).sorted() }
        let due = now.instant(of: first)
        owner.modify(user) { $0.repairDueAt = min($0.repairDueAt ?? .farFuture, due) }
        owner.schedule(user, at: now)
    }

    /// Whether a block has ended, or is about to end, a friendship.
    ///
    /// The former friend is told of that end at once, and no longer follows the user by it. So the user hides from the friend at once, too.
    private func hasEndedFriendship(with block: RowList.Entry, by owner: borrowing Owner) -> Bool {
        guard let friend = owner.users[user].list(.friend).entry(for: block.key) else { return false }
        return !friend.isRemoved || (!friend.isUnseen && friend.version.stamp >= block.version.stamp)
    }

    /// Whether a viewer on the blocklist still sees the user. Ends of blocks are shown at once, so the lists differ in length then.
    func hasBlockToShow(by owner: borrowing Owner) -> Bool {
        guard !owner.users[user].lists.isEmpty else { return false }
        let blockedCount = owner.users[user].list(.blocked).liveCount
        guard blockedCount > owner.users[user].record.privacy?.visibility.blocked.count ?? 0 else { return false }
        return owner.policies.policy(of: owner.users.user(at: user)).chain.blockHidesStatus
    }

    /// The visibility that hides the user from blocked viewers for whom it is time, in one change with what the user's sessions have just
    /// become; nil for no such viewers.
    func dueBlocks(with change: StatusChange, by owner: inout Owner, in turn: inout Turn) -> StatusChange.Visibility? {
        guard !owner.users[user].isReplica, hasBlockToShow(by: owner) else { return nil }
        return visibility(after: .blocked, with: change, by: &owner, in: &turn)
    }

    /// Shows the user's status to new friends and hides it from former ones, if the changes concern friends and the visibility does.
    func show(after changes: [ChainRules.Change], by owner: inout Owner, in turn: inout Turn) {
        guard owner.users[user].record.isForFriends, changes.contains(where: { $0.kind == .friend }) else { return }
        show(.friend, by: &owner, in: &turn)
    }

    /// Shows the user's status after another node has sent rows of the lists, or a visibility.
    ///
    /// While dead nodes may hold newer rows this waits: a friend whom the rows here name may have been removed.
    func showReceived(by owner: inout Owner, in turn: inout Turn) {
        guard owner.users[user].record.isForFriends, !owner.users[user].isReplica else { return }
        guard owner.listsMayBeIncomplete else { return show(.friend, by: &owner, in: &turn) }
        repairLater(by: &owner, at: turn.now)
        owner.schedule(user, at: turn.now)
    }

    /// Reads the friends of a user who is visible to friends from their rows, because the row of the visibility does not name them. Returns
    /// whether the friends were unknown.
    @discardableResult func readFriends(of owner: inout Owner) -> Bool {
        guard owner.users[user].record.isForFriends, let privacy = owner.users[user].record.privacy, privacy.visibility.friends == nil
        else { return false }
        let known = owner.users[user].withFriends(privacy)
        owner.modify(user) { $0.record.privacy = known }
        return true
    }

    /// Whether the visibility names exactly those on the lists. It compares the number of blocked users only: both are changed by
    /// ``show(by:in:)``, and by the app's policy.
    private func isShown(by owner: borrowing Owner) -> Bool {
        let blockedCount = owner.users[user].list(.blocked).liveCount
        let isForFriends = owner.users[user].record.isForFriends
        guard blockedCount > 0 || isForFriends else { return true }
        let visibility = owner.users[user].record.privacy?.visibility ?? Visibility()
        if isForFriends, names(.friend, by: owner) != visibility.friends { return false }
        let hides = owner.policies.policy(of: owner.users.user(at: user)).chain.blockHidesStatus
        return blockedCount == 0 || visibility.blocked.count == (hides ? blockedCount : 0)
    }

    /// Whether the news of the profile wait for exactly those from whom the visibility and the app's policy keep them.
    private func hasRightNews(by owner: borrowing Owner) -> Bool {
        let chain = owner.policies.policy(of: owner.users.user(at: user)).chain
        return owner.users[user].record.privacy?.hasNews(waitingWhileInvisible: chain.profileNewsWaitWhileInvisible) ?? true
    }

    /// Whether the visibility follows from the lists and from the app's policy.
    func isRight(by owner: borrowing Owner) -> Bool { isShown(by: owner) && hasRightNews(by: owner) }

    /// Shows the user's status to exactly those whom the lists admit, and has the news of the profile wait for the others, if the policy or
    /// another node has changed either.
    func repair(by owner: inout Owner, in turn: inout Turn) {
        if !isShown(by: owner) { show(by: &owner, in: &turn) }
        guard !owner.users[user].isReplica, !hasRightNews(by: owner), let privacy = owner.users[user].record.privacy else { return }
        let same = StatusChange.Visibility(visibility: privacy.visibility, writtenAt: privacy.writtenAt)
        owner.refresh(user, StatusChange(visibility: same), in: &turn)
    }

    /// Schedules a review of a user whose visibility does not follow from the lists, because this node has become the owner after a change
    /// of the policy, or another side of a split has changed a list. A replica may know more of the lists.
    func repairLater(by owner: inout Owner, at now: Now) {
        if !isRight(by: owner) { owner.repairLater(user, at: now) }
    }

    /// Writes the visibility again, and waits again until every live node hides the user.
    func hideAgain(by owner: borrowing Owner, into outbox: inout Outbox) {
        let record = owner.users[user].record
        if record.version > .zero { outbox.rows.append(Row(record)) }
        if let privacy = record.privacy { outbox.rows.append(Row(privacy, of: record.user)) }
        outbox.needsBarrier = true
    }
}

extension Record {
    /// Whether the user has chosen to be visible to friends.
    var isForFriends: Bool { hasPrivacy && privacy?.visibility.mode == .friends }
}

extension OwnedUser {
    /// A visibility from a row, with the friends by the rows here. Its owner has written both together.
    func withFriends(_ privacy: Privacy) -> Privacy {
        guard privacy.visibility.mode == .friends, privacy.visibility.friends == nil else { return privacy }
        return privacy.withFriends(list(.friend).liveKeys.map { UserID($0, besides: record.user) })
    }
}
