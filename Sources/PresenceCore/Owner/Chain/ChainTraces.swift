import PresenceWire

/// The rows that decisions of other users, and about them, have left in the lists of one user.
extension OwnedUser {
    /// The open decision of this user about another; nil for none.
    func outboxCommand(about other: UserID) -> OutboxCommand? {
        guard let entry = list(.chainOutbox).entry(for: String(other.id)), !entry.isRemoved else { return nil }
        return try? OutboxCommand(Row(entry, of: record.user, .chainOutbox))
    }

    /// Whether an earlier attempt of a repeated call may have been carried out.
    ///
    /// A node also repeats a call that an owner has sent back. An approval or a rejection that took effect leaves a row among the received
    /// requests that is newer than the start of the call. Without that row the owner answers the call like a first one.
    ///
    /// Any other decision finds in the lists what it asks for. Its rows may be older than `begunAt`: in a call about several users, the
    /// decision about one user may wait, and those about the next users take the versions before it.
    func mayHaveCarriedOut(_ decision: ChainCall.Decision, about other: String, since begunAt: Version) -> Bool {
        switch decision {
        case .command(.accept), .command(.reject):
            list(.pendencyIn).entry(for: other).map { $0.version.stamp > begunAt.stamp } ?? false
        case .command(.add), .command(.delete), .command(.block), .deleteOneWay, .unblock: true
        }
    }

    /// The result of a repeated call if something was decided about `other` since the call has begun; nil if nothing was.
    ///
    /// That can have been an earlier attempt of the call. The call is not carried out again: a later call may have undone it since.
    func laterResult(of decision: ChainCall.Decision, about other: String, than begunAt: Version) -> ChainCode? {
        let isLater = { (kind: Row.Kind) in list(kind).entry(for: other).map { $0.version.stamp > begunAt.stamp } ?? false }
        guard [Row.Kind.chainOutbox, .friend, .blocked].contains(where: isLater) else { return nil }
        guard case .command(.add) = decision else { return .conflict }
        return isLater(.pendencyOut) && list(.pendencyOut).contains(other) ? .pending : .conflict
    }

    // MARK: Decisions of others

    /// The changes of a block by `other`, without removals that find nothing if this user is unknown.
    ///
    /// An unknown user has never logged in and was not imported. Such a user has written nothing that could arrive late, unless a decision
    /// about `other` is in the outbox. Otherwise any user could fill the disks with tombstones in lists of users who do not exist.
    ///
    /// An earlier decision of `other` may still arrive late. ``verdict(on:about:)`` ends it. Other decisions than a block need their
    /// tombstones: a repeated command finds its result in them, and a block that this user's owner learns later finds the friendship.
    func withoutIdleRemovals(_ changes: [ChainRules.Change], about other: String) -> [ChainRules.Change] {
        guard !record.isOfKnownUser, list(.chainOutbox).entry(for: other) == nil else { return changes }
        return changes.filter { $0.fact != nil || list($0.kind).entry(for: other) != nil }
    }

    /// The result of a decision of `other` whose rows are in these lists; nil if it has left none.
    func result(ofRowsAt version: Version, of other: String) -> ChainResult? {
        var result: ChainResult?
        for kind in [Row.Kind.friend, .pendencyIn, .pendencyOut] {
            guard let entry = list(kind).entry(for: other), entry.version.stamp == version.stamp else { continue }
            if kind == .pendencyIn, !entry.isRemoved {
                let profile: Profile? = list(.profile).fact("", of: record.user)
                return .pending(nickname: profile?[Profile.Standard.nick.rawValue]?.text ?? "")
            }
            // An addition to one list leaves a row among the received requests alone. The other commands do not need to know.
            result = kind == .pendencyIn ? result ?? .done : .friends
        }
        return result
    }

    /// The lists with a row that a decision of `other` has added.
    func kinds(writtenBy version: Version, of other: UserID) -> [Row.Kind] {
        [Row.Kind.friend, .pendencyIn].filter { kind in
            guard let entry = list(kind).entry(for: String(other.id)), !entry.isRemoved else { return false }
            return entry.version.stamp == version.stamp
        }
    }

    /// Whether rows of a decision of `other` were removed here, because it does not count. A copy that arrives later ends as refused.
    ///
    /// The owner who sends it may not be the one who has said so: while a paused node returns, a user can have two owners.
    func hasVoided(_ version: Version, of other: String) -> Bool {
        [Row.Kind.friend, .pendencyIn].contains { kind in
            list(kind).entry(for: other).map { $0.isRemoved && $0.version.stamp == version.voidStamp } ?? false
        }
    }

    /// Whether a later request of `other` waits here. A user's decisions about another one follow one another, so an earlier addition is
    /// over.
    ///
    /// A command of such an addition is a late copy. Or an owner has sent it that has woken, and carries out a call which another owner has
    /// carried out meanwhile.
    func hasLaterRequest(than version: Version, of other: String) -> Bool {
        list(.pendencyIn).entry(for: other).map { !$0.isRemoved && $0.version.stamp > version.stamp } ?? false
    }

    /// Whether this user has changed the row of a friend after a decision that ends the friendship: a group, or the remark.
    ///
    /// The friendship is older than the decision, and its row is newer. A friend keeps the time of the decision that has made it. The row
    /// of a newer friendship that was not changed has the version of its own decision.
    func hasChangedFriend(_ other: String, madeBefore version: Version) -> Bool {
        guard let entry = list(.friend).entry(for: other), entry.version.stamp > version.stamp else { return false }
        guard let friend: Friend = entry.fact(of: record.user), friend.addTime <= version.milliseconds else { return false }
        return Row(entry, of: record.user, .friend).decision == nil
    }

    // MARK: Own decisions

    /// The end of a decision of this user by the rows that it has left here; nil while one about the same user is open.
    ///
    /// Only decisions that add rows on the other side are asked about: a request, and the approval of one. Every end of a request has a row
    /// among the sent ones, and that of an approval among the received ones. An addition to this user's list alone has the friend.
    func verdict(on version: Version, about other: UserID) -> ChainVerify.Verdict? {
        let other = String(other.id)
        if list(.chainOutbox).contains(other) { return nil }
        // A later block ends what the decision has added. Its tombstones may be missing in the lists of an unknown user.
        if let block = lastBlock(of: other), block.stamp > version.stamp { return .isVoid }
        let (sent, received) = (list(.pendencyOut), list(.pendencyIn))
        // From a list with so many rows, tombstones have gone before their time.
        if max(sent.count, received.count) >= RowList.tombstonesMax { return .holds }
        if let friend = list(.friend).entry(for: other), !friend.isRemoved, friend.version.stamp == version.stamp { return .isDone }
        let ends = [sent, received].compactMap { $0.entry(for: other) }.filter { $0.version.stamp >= version.stamp }
        if ends.isEmpty { return .isVoid }
        guard let end = ends.first(where: { $0.version.stamp == version.stamp }) else { return .holds }
        return end.isRemoved ? .isDone : .isPending
    }

    // MARK: Blocks

    /// The version of the last block between this user and a user whom it blocks; nil for a user whom it does not block.
    ///
    /// A later block by the other user, or one that was decided once more, leaves the row of the blocklist as it is. Such a block alone has
    /// removed the friend and both requests at one version.
    private func lastBlock(of other: String) -> Version? {
        guard let blocked = list(.blocked).entry(for: other), !blocked.isRemoved else { return nil }
        let ends = [Row.Kind.friend, .pendencyIn, .pendencyOut].map { list($0).entry(for: other) }
        guard let end = ends[0]?.version, end.mayBeOfDecision, end.stamp > blocked.version.stamp,
            ends.allSatisfy({ $0?.isRemoved == true && $0?.version.stamp == end.stamp })
        else { return blocked.version }
        return end
    }

    /// Whether a list has a row about a blocked user that is newer than the last block.
    ///
    /// Another owner may have written it that did not know the block: on the other side of a split, or after this node had died with the
    /// block on its own disk alone. The other user may then have this one as a friend. A newer decision in the outbox may have replaced the
    /// block there, before the other user's owner heard of it.
    ///
    /// A friend whom the other user has removed by a decision does not count: that user has removed this one as well. It may have brought
    /// this one back by an import, which no block refuses.
    func mayOutliveBlock(of other: String) -> Bool {
        guard let block = lastBlock(of: other) else { return false }
        if let decided = list(.chainOutbox).entry(for: other), decided.version.stamp > block.correctionStamp { return true }
        return [Row.Kind.friend, .pendencyIn, .pendencyOut].contains { kind in
            guard let entry = list(kind).entry(for: other), entry.version.stamp > block.stamp else { return false }
            guard kind == .friend, entry.isRemoved else { return true }
            return entry.version.decision(between: record.user, UserID(other, besides: record.user))?.other != record.user
        }
    }

    /// The users whom this user blocks although a list has a newer row about them.
    var outlivedBlocks: [String] { list(.blocked).entries.map(\.key).filter(mayOutliveBlock) }
}

// MARK: Versions

extension VersionClock {
    /// The version of a user's next decision about another.
    ///
    /// Of four stamps that follow one another, each of the two users has one for the decisions about the other. So two decisions of a pair
    /// never have the same stamp. The other two are for the end of such a decision: newer than its rows, and older than a later decision.
    mutating func nextDecision(of pair: ChainPair, at now: Now) -> Version { next(at: now.wall, ofFour: pair.place) }

    /// The version of friends that a back end brings along, and of a change of a friend who was added just before. No decision of another
    /// user has it, so nobody asks that user's owner for one.
    mutating func nextImport(at now: Now) -> Version { next(at: now.wall, ofFour: 3) }

    /// The version of a tombstone that ends a friendship whose row is newer than the decision. No decision has it.
    mutating func nextEnd(at now: Now) -> Version { next(at: now.wall, ofFour: 3) }
}

extension ChainPair {
    /// The place of the decisions of this user about the other one among four stamps that follow one another.
    fileprivate var place: UInt64 { user < other ? 0 : 1 }
}

extension Version {
    /// Whether a user's decision about another one may have this version.
    var mayBeOfDecision: Bool { stamp & 3 < 2 }

    /// The one of two users who has made the decision with this version, about the other one; nil if it is no version of a decision.
    func decision(between first: UserID, _ second: UserID) -> ChainPair? {
        let pairs = (ChainPair(user: first, other: second), ChainPair(user: second, other: first))
        return stamp & 3 == pairs.0.place ? pairs.0 : stamp & 3 == pairs.1.place ? pairs.1 : nil
    }

    /// The stamp of the tombstones of a decision that does not count.
    var voidStamp: UInt64 { (stamp | 3) - 1 }

    /// The stamp of the tombstones of rows that a decision was not to leave.
    var correctionStamp: UInt64 { stamp | 3 }
}
