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
    ///
    /// A block that waits for its time takes effect for the viewers whom the choice excludes. A later choice does not show them the user.
    func changed(_ visibility: Visibility, by change: Visibility.Change, of owner: borrowing Owner) -> Visibility {
        var new = visibility.changed(by: change)
        if new.mode == .friends, new.friends == nil { new.friends = names(.friend, by: owner) }
        guard blocksHide(by: owner), owner.users[user].list(.blocked).liveCount > new.blocked.count else { return new }
        let known = Set(new.blocked)
        let waiting = names(.blocked, by: owner).filter { !known.contains($0) && !new.lets($0) }
        if !waiting.isEmpty { new.blocked = (new.blocked + waiting).sorted() }
        return new
    }

    /// Shows the user's status to exactly those whom the lists admit, after they have changed. A call that hides ends once every live node
    /// hides the user.
    ///
    /// The date of the user's choice stays if only friends have changed. Otherwise a friend who is added on one side of a split would undo
    /// a visibility that the user has chosen on the other side.
    ///
    /// - Parameters:
    ///   - kind: the list that has changed; nil for both.
    ///   - hidesInReview: whether an ONLINE user hides in the next review, and not in this turn, from viewers for whom it is time. The
    ///     OFFLINE of a lost user is written in a review, too. The other work of a call would delay the record, and a viewer could tell
    ///     by that.
    func show(_ kind: Row.Kind? = nil, hidesInReview: Bool = false, by owner: inout Owner, in turn: inout Turn) {
        guard !owner.users[user].isReplica,
            let visibility = visibility(after: kind, with: StatusChange(), hidesInReview: hidesInReview, by: &owner, in: &turn)
        else { return }
        owner.refresh(user, StatusChange(visibility: visibility), in: &turn)
    }

    /// The visibility by the lists; nil if it stays.
    ///
    /// - Parameters:
    ///   - kind: as in ``show(_:hidesInReview:by:in:)``.
    ///   - change: the change that takes effect with it.
    ///   - hidesInReview: as in ``show(_:hidesInReview:by:in:)``.
    private func visibility(
        after kind: Row.Kind?, with change: StatusChange, hidesInReview: Bool = false, by owner: inout Owner, in turn: inout Turn
    ) -> StatusChange.Visibility? {
        let privacy = owner.users[user].record.privacy ?? Privacy()
        var new = privacy.visibility
        if kind != .blocked, new.mode == .friends { new.friends = names(.friend, by: owner) }
        if kind != .friend { new.blocked = blocksHide(by: owner) ? names(.blocked, by: owner) : [] }
        showUntilDue(&new, with: change, hidesInReview: hidesInReview, by: &owner, at: turn.now)
        guard new != privacy.visibility else { return nil }
        let writtenAt = new.blocked == privacy.visibility.blocked ? privacy.writtenAt : owner.nextVersion(at: turn.now)
        if privacy.visibility.isClosed(by: new) { turn.outbox.needsBarrier = true }
        return StatusChange.Visibility(visibility: new, writtenAt: writtenAt)
    }

    /// Shows the user to viewers whom the lists exclude since a moment soon after a change, until a lost user would be OFFLINE: see
    /// ``HidingTime``.
    ///
    /// The rows of a block, or of the end of a friendship, take effect at once, and have its time. So whoever owns the user then finds out
    /// when the user hides.
    private func showUntilDue(
        _ new: inout Visibility, with change: StatusChange, hidesInReview: Bool, by owner: inout Owner, at now: Now
    ) {
        let known = owner.users[user].record.privacy?.visibility ?? Visibility()
        var (viewers, first) = ([UserID](), Milliseconds.max)
        for viewer in known.excluded(by: new) {
            guard let time = hidingTime(for: viewer, by: owner) else { continue }
            let isOnline = owner.users[user].record.statusType == .online
            guard let end = time.end(with: change, by: owner, at: now) ?? (hidesInReview && isOnline ? now.wall : nil) else { continue }
            viewers.append(viewer)
            first = min(first, end)
        }
        guard !viewers.isEmpty else { return }
        let shown = Set(viewers)
        new.blocked.removeAll { shown.contains($0) }
        if let friends = new.friends { new.friends = (friends + viewers).sorted() }
        let due = now.instant(of: first)
        owner.modify(user) { $0.repairDueAt = min($0.repairDueAt ?? .farFuture, due) }
        owner.schedule(user, at: now)
    }

    /// The start of the wait until the user hides from a viewer whom the lists exclude; nil if the user hides at once.
    private func hidingTime(for viewer: UserID, by owner: borrowing Owner) -> HidingTime? {
        let key = String(viewer.id)
        let friend = owner.users[user].list(.friend).entry(for: key)
        guard let block = owner.users[user].list(.blocked).entry(for: key), !block.isRemoved, blocksHide(by: owner) else {
            // A friend whom another side of a split has named has no row here.
            guard let friend, friend.isRemoved, !isTold(ofEndOf: friend, viewer, by: owner) else { return nil }
            return HidingTime(user: user, askedAt: friend.version.milliseconds)
        }
        // The app's policy may say only since later that blocks hide.
        let askedAt = max(block.version.milliseconds, owner.policies.changedAt(for: owner.users.user(at: user)))
        guard askedAt > block.version.milliseconds || !hasEndedFriendship(block, friend) else { return nil }
        return HidingTime(user: user, askedAt: askedAt)
    }

    /// Whether a block has ended, or is about to end, a friendship.
    ///
    /// The former friend is told of that end at once, and no longer follows the user by it. So the user hides from the friend at once, too.
    private func hasEndedFriendship(_ block: RowList.Entry, _ friend: RowList.Entry?) -> Bool {
        guard let friend else { return false }
        return !friend.isRemoved || (!friend.isUnseen && friend.version.stamp >= block.version.stamp)
    }

    /// Whether the user has ended a friendship on both sides, as in ``hasEndedFriendship(_:_:)``.
    ///
    /// A friend whom the user removes from the own list alone is told nothing, and a friend who has removed the user knows already.
    private func isTold(ofEndOf friend: RowList.Entry, _ viewer: UserID, by owner: borrowing Owner) -> Bool {
        owner.users[user].outboxCommand(about: viewer)?.version.stamp == friend.version.stamp
    }

    private func blocksHide(by owner: borrowing Owner) -> Bool {
        owner.policies.policy(of: owner.users.user(at: user)).chain.blockHidesStatus
    }

    /// Whether a viewer whom the lists exclude still sees the user.
    func isShownUntilDue(to viewer: UserID, by owner: borrowing Owner) -> Bool {
        let visibility = owner.users[user].record.privacy?.visibility ?? Visibility()
        guard visibility.lets(viewer) else { return false }
        let key = String(viewer.id)
        if visibility.mode == .friends, !owner.users[user].list(.friend).contains(key) { return true }
        return owner.users[user].list(.blocked).contains(key) && blocksHide(by: owner)
    }

    /// The time at which the user hides from a viewer whom the lists exclude and who still sees the user; nil for any other viewer.
    func hiddenFrom(_ viewer: UserID, by owner: borrowing Owner, at now: Now) -> Milliseconds? {
        guard isShownUntilDue(to: viewer, by: owner) else { return nil }
        return hidingTime(for: viewer, by: owner)?.end(by: owner, at: now)
    }

    /// Whether any viewer whom the lists exclude still sees the user.
    ///
    /// Viewers whom the lists admit see the user at once. So the lists of the visibility differ in length then.
    private func isShownUntilDue(by owner: borrowing Owner) -> Bool {
        guard !owner.users[user].lists.isEmpty else { return false }
        let visibility = owner.users[user].record.privacy?.visibility
        if let friends = visibility?.friends, friends.count > owner.users[user].list(.friend).liveCount { return true }
        return owner.users[user].list(.blocked).liveCount > visibility?.blocked.count ?? 0 && blocksHide(by: owner)
    }

    /// The visibility that hides the user from viewers for whom it is time, in one change with what the user's sessions have just become;
    /// nil for no such viewers.
    func dueHides(with change: StatusChange, by owner: inout Owner, in turn: inout Turn) -> StatusChange.Visibility? {
        guard !owner.users[user].isReplica, isShownUntilDue(by: owner) else { return nil }
        return visibility(after: owner.listsMayBeIncomplete ? .blocked : nil, with: change, by: &owner, in: &turn)
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
        guard blockedCount > 0 || owner.users[user].record.hasPrivacy else { return true }
        let visibility = owner.users[user].record.privacy?.visibility ?? Visibility()
        if visibility.mode == .friends, names(.friend, by: owner) != visibility.friends { return false }
        return visibility.blocked.count == (blocksHide(by: owner) ? blockedCount : 0)
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
    /// A visibility from a row, with the friends by the rows here.
    ///
    /// Its owner has written both together, unless a friend was removed and the user has not hidden from the friend yet. A visibility has
    /// the first version of its millisecond (``PresenceWire/Record/versionOfVisibility(insteadOf:)``).
    func withFriends(_ privacy: Privacy) -> Privacy {
        guard privacy.visibility.mode == .friends, privacy.visibility.friends == nil else { return privacy }
        let (friends, shownAt) = (list(.friend), privacy.version.milliseconds)
        let removed = friends.removals.filter { $0.key != Row.lateMark && $0.version.milliseconds > shownAt }.map { $0.key }
        return privacy.withFriends((friends.liveKeys + removed).sorted().map { UserID($0, besides: record.user) })
    }
}
