import PresenceWire

/// The rules of the relationship chain: what a decision of a user changes in the lists on either side (P14–P20, P29).
///
/// They read the lists of one user, and change nothing. The owner of that user writes what they return.
struct ChainRules {
    /// A row to write at the version of the decision; without a fact it is a tombstone.
    struct Change {
        let kind: Row.Kind
        let key: String
        let fact: (any RowFact)?
        /// The time at which the fact ends by itself; nil for never.
        var expiresAt: Milliseconds?

        static func set(_ fact: some RowFact, _ key: String, until end: Milliseconds? = nil) -> Change {
            Change(kind: type(of: fact).kind, key: key, fact: fact, expiresAt: end)
        }

        /// A removal that finds nothing is written as well. It is newer than an addition that arrives late. Blocks of unknown users are an
        /// exception (``OwnedUser/withoutIdleRemovals(_:about:)``).
        static func remove(_ kind: Row.Kind, _ key: String) -> Change { Change(kind: kind, key: key, fact: nil) }

        /// - Parameter held: the row before; nil for none. A tombstone says whether it has removed nothing.
        func row(of user: UserID, version: Version, insteadOf held: RowList.Entry?) -> Row {
            if let fact { return Row(fact, of: user, key: key, version: version, expiresAt: expiresAt) }
            let hasRemoved = held?.isRemoved == false || !kind.hasSequence
            let expiry = hasRemoved ? nil : Row.removedNothing
            return Row(user: user, kind: kind, key: key, version: version, value: nil, expiresAt: expiry)
        }
    }

    /// How a decision begins at the owner of the user who made it.
    enum Beginning {
        /// The rules of this side refuse the decision, or nothing is left to do.
        case ended(ChainCode)
        /// The other user's owner does not hear of it.
        case local([Change], ChainCode)
        /// The command goes to the other user's owner.
        case command(ChainCommand, [Change])

        /// Whether the lists show that the decision has been carried out.
        var isDone: Bool { if case .ended(let code) = self { code == .done } else { false } }
    }

    /// The user whose lists these rules read.
    let user: OwnedUser
    let policy: Policy

    // MARK: Lists

    private func fact<Fact: RowFact>(_ key: String) -> Fact? { user.list(Fact.kind).fact(key, of: user.record.user) }

    func isFriend(_ other: String) -> Bool { user.list(.friend).contains(other) }

    private func blocks(_ other: String) -> Bool { user.list(.blocked).contains(other) }

    private func openCommand(to other: String) -> ChainCommand? { (fact(other) as OutboxCommand?)?.command }

    /// The number of friends that open commands may still add, without the one to `other` and those to the users that the same call adds.
    private func reservedCount(besides other: String, _ added: [String] = []) -> Int {
        user.list(.chainOutbox).liveEntries.count { entry in
            guard entry.key != other, !isFriend(entry.key), let open: OutboxCommand = entry.fact(of: user.record.user) else { return false }
            return open.command.addsFriend && !added.contains(entry.key)
        }
    }

    /// Whether `other` is a friend or may become one. An open command reserves a place.
    private func hasRoom(for other: String) -> Bool {
        isFriend(other) || user.list(.friend).liveCount + reservedCount(besides: other) < policy.chain.friendsMax
    }

    /// The reason why `other` may not become a friend without a request; nil for none.
    ///
    /// - Parameter added: the friends that the same call adds before this one.
    func refusalOfImport(of other: String, after added: [String]) -> ChainCode? {
        if blocks(other) { return .blockedBySelf }
        let taken = user.list(.friend).liveCount + reservedCount(besides: other, added) + added.count
        return taken < policy.chain.friendsMax ? nil : .selfFull
    }

    /// Whether the user may have a sent request to `other`. An open command without an answer reserves a place.
    private func hasRoomForRequest(to other: String) -> Bool {
        let sent = user.list(.pendencyOut)
        if sent.contains(other) { return true }
        let openCount = user.list(.chainOutbox).liveEntries.count { entry in
            guard entry.key != other, !sent.contains(entry.key), let open: OutboxCommand = entry.fact(of: user.record.user) else {
                return false
            }
            if case .add(let request, _) = open.command { return !request.isForced } else { return false }
        }
        return sent.liveCount + openCount < policy.chain.pendencyMax
    }

    /// Whether the user may leave rows with one more user.
    ///
    /// An addition writes rows to the lists of the other user, who need not exist. They stay there when this user has removed the own row.
    /// The outbox has a tombstone for each user about whom this one has decided, so their number is the bound. Otherwise one user could
    /// fill the disks with rows of users who do not exist. A user whose tombstone is in the outbox has such rows already.
    private func mayLeaveRows(with other: String) -> Bool {
        let decided = user.list(.chainOutbox)
        return decided.count < RowList.tombstonesMax || decided.entry(for: other) != nil
    }

    /// The user's nickname; empty for a user who has not set one.
    private var nickname: String { (fact("") as Profile?)?[Profile.Standard.nick.rawValue]?.text ?? "" }

    /// The users who may add this one.
    private var allowType: ChainPolicy.AllowType {
        let own = (fact("") as Profile?)?[Profile.Standard.allowType.rawValue]?.text
        return own.flatMap { ChainPolicy.AllowType(rawValue: $0.lowercased()) } ?? policy.chain.defaultAllowType
    }

    // MARK: The side of the user who decides

    /// Begins a decision of the user about `other`.
    ///
    /// - Parameters:
    ///   - isRetry: whether an earlier attempt of the call may have been decided already.
    ///   - time: the time of the decision.
    func begin(_ decision: ChainCall.Decision, about other: String, isRetry: Bool, at time: Milliseconds) -> Beginning {
        switch decision {
        case .deleteOneWay:
            return isFriend(other) ? .local([.remove(.friend, other)], .done) : .ended(isRetry ? .done : .noFriend)
        case .command(.add(var request, let isTwoWay)):
            if isFriend(other) { return .ended(isRetry ? .done : .alreadyFriend) }
            if blocks(other) { return .ended(.blockedBySelf) }
            guard hasRoom(for: other) else { return .ended(.selfFull) }
            // Only the other user's owner knows whether the request must wait.
            guard request.isForced || (hasRoomForRequest(to: other) && mayLeaveRows(with: other)) else {
                return .ended(.requestsFull)
            }
            (request.addTime, request.nickname) = (time, nickname)
            return .command(.add(request, isTwoWay: isTwoWay), [])
        case .unblock:
            return blocks(other) ? .local([.remove(.blocked, other)], .done) : .ended(isRetry ? .done : .notBlocked)
        case .command(.block):
            if blocks(other) { return .ended(isRetry ? .done : .alreadyBlocked) }
            guard user.list(.blocked).liveCount < policy.chain.blockListMax else { return .ended(.blockListFull) }
            return .command(.block, [.set(BlockedUser(since: time), other)] + Self.ends(with: other))
        case .command(let command): return begin(command, about: other, isRetry: isRetry)
        }
    }

    /// The end of all that the user has with a user whom it blocks.
    static func ends(with other: String) -> [Change] {
        [.remove(.friend, other), .remove(.pendencyIn, other), .remove(.pendencyOut, other)]
    }

    private func begin(_ command: ChainCommand, about other: String, isRetry: Bool) -> Beginning {
        switch command {
        case .accept(let remark, let isTwoWay):
            guard user.list(.pendencyIn).contains(other) else {
                return .ended(isRetry && (!isTwoWay || isFriend(other)) ? .done : .noRequest)
            }
            guard !isTwoWay || hasRoom(for: other) else { return .ended(.selfFull) }
            // Each approval of a friend makes both friends.
            return .command(.accept(remark: remark, isTwoWay: isTwoWay || isFriend(other)), [])
        case .reject:
            return user.list(.pendencyIn).contains(other) ? .command(command, []) : .ended(isRetry ? .done : .noRequest)
        case .delete:
            guard isFriend(other) else { return .ended(isRetry ? .done : .noFriend) }
            // The user's open request to the friend ends as well, here and at the friend.
            let request: [Change] = user.list(.pendencyOut).contains(other) ? [.remove(.pendencyOut, other)] : []
            return .command(command, [.remove(.friend, other)] + request)
        case .add, .block: preconditionFailure("\(command) does not begin here")
        }
    }

    /// Ends a decision of the user about `other` after the other user's owner has answered.
    ///
    /// - Parameter time: the time of the decision.
    func end(
        _ command: ChainCommand, about other: String, with result: ChainResult, at time: Milliseconds
    ) -> (code: ChainCode, changes: [Change]) {
        switch (command, result) {
        case (_, .refused(let code)): return (code, [])
        // The other side has the request at this version. Both sides have it, or a newer answer to it.
        case (.add(var request, _), .pending(let nickname)):
            request.nickname = nickname
            return (.pending, [.set(request, other)])
        case (.add(let request, let isTwoWay), .done), (.add(let request, let isTwoWay), .friends):
            let added: [Change] = isFriend(other) ? [] : [.set(Friend(request, at: time), other)]
            let makesFriends = isTwoWay || result == .friends
            return (.done, added + (makesFriends ? Self.removals(ofRequestsOf: other) : trace(in: .pendencyOut, of: other)))
        case (.accept(let remark, let isTwoWay), _):
            let friend = approved(other, remark: remark, at: time)
            let added: [Change] = (isTwoWay && !isFriend(other) ? [.set(friend, other)] : [])
            return (.done, added + Self.ended(byApprovalOf: other, isTwoWay, answered: .pendencyIn))
        case (.reject, _): return (.done, [.remove(.pendencyIn, other)])
        case (.delete, _), (.block, _): return (.done, [])
        }
    }

    /// The friend that the user gains by an approval of the request of `other`.
    private func approved(_ other: String, remark: String, at time: Milliseconds) -> Friend {
        let received: ReceivedRequest? = fact(other)
        var friend = Friend(addTime: time)
        (friend.remark, friend.addWording, friend.addSource) = (remark, received?.addWording ?? "", received?.addSource ?? "")
        return friend
    }

    /// The end of the requests between the two users. A request that is under way is older, and does not come back on one side.
    private static func removals(ofRequestsOf other: String) -> [Change] { [.remove(.pendencyOut, other), .remove(.pendencyIn, other)] }

    /// The row that an addition to one list leaves among the requests: a tombstone, unless a request waits there.
    ///
    /// Such an addition ends no request. Either user can still answer that of the other.
    private func trace(in kind: Row.Kind, of other: String) -> [Change] { user.list(kind).contains(other) ? [] : [.remove(kind, other)] }

    /// The end of the requests that an approval ends. If both users are friends by it, a request in the other direction ends as well.
    ///
    /// Such a request waits if two requests do not make friends (``PresenceWire/ChainPolicy/mutualRequestsAccept``).
    ///
    /// - Parameter kind: the list of this side that has the approved request.
    private static func ended(byApprovalOf other: String, _ isTwoWay: Bool, answered kind: Row.Kind) -> [Change] {
        isTwoWay ? removals(ofRequestsOf: other) : [.remove(kind, other)]
    }

    // MARK: The other side

    /// Applies a command of `other` to the user's lists.
    ///
    /// A refusal is decided again. A command that has left rows has their result: see ``OwnedUser/result(ofRowsAt:of:)``.
    ///
    /// - Parameter time: the time of the decision.
    func apply(_ command: ChainCommand, of other: String, at time: Milliseconds) -> (result: ChainResult, changes: [Change]) {
        switch command {
        case .add(let request, let isTwoWay): add(request, isTwoWay: isTwoWay, by: other, at: time)
        case .accept(_, let isTwoWay): accept(by: other, isTwoWay: isTwoWay, at: time)
        case .reject: (.done, [.remove(.pendencyOut, other)])
        case .delete: (.done, [.remove(.friend, other)])
        case .block: (.done, [.remove(.friend, other), .remove(.pendencyOut, other), .remove(.pendencyIn, other)])
        }
    }

    private func add(_ request: SentRequest, isTwoWay: Bool, by other: String, at time: Milliseconds) -> (ChainResult, [Change]) {
        if blocks(other) { return (.refused(.blockedByOther), []) }
        let answered = Self.removals(ofRequestsOf: other)
        if isFriend(other) { return (.friends, answered) }
        if let friend = agreed(other, at: time) {
            guard hasRoom(for: other) else { return (.refused(.otherFull), []) }
            return (.friends, [.set(friend, other)] + answered)
        }
        switch allowType {
        case .deny: return (.refused(.forbidden), [])
        case .confirm where !request.isForced:
            guard user.list(.pendencyIn).contains(other) || user.list(.pendencyIn).liveCount < policy.chain.pendencyMax else {
                return (.refused(.requestsFull), [])
            }
            var received = ReceivedRequest(addTime: request.addTime)
            (received.addWording, received.addSource, received.nickname) = (request.addWording, request.addSource, request.nickname)
            return (.pending(nickname: nickname), [.set(received, other)])
        case .any, .confirm: break
        }
        guard isTwoWay else { return (.done, trace(in: .pendencyIn, of: other)) }
        guard hasRoom(for: other) else { return (.refused(.otherFull), []) }
        var friend = Friend(addTime: time)
        (friend.addWording, friend.addSource) = (request.addWording, request.addSource)
        return (.friends, [.set(friend, other)] + answered)
    }

    /// The friend that the user gains by an addition of `other`, because the user has agreed to it already; nil if it has not.
    ///
    /// The user has asked `other`, or its approval of an earlier request of `other` is under way.
    private func agreed(_ other: String, at time: Milliseconds) -> Friend? {
        if case .accept(let remark, isTwoWay: true) = openCommand(to: other) { return approved(other, remark: remark, at: time) }
        guard policy.chain.mutualRequestsAccept else { return nil }
        return ownRequest(to: other).map { Friend($0, at: time) }
    }

    /// The user's own request to `other`: one that waits for an approval, or one whose command is under way.
    private func ownRequest(to other: String) -> SentRequest? {
        if let sent = fact(other) as SentRequest? { return sent }
        guard case .add(let request, _) = openCommand(to: other) else { return nil }
        return request
    }

    private func accept(by other: String, isTwoWay: Bool, at time: Milliseconds) -> (ChainResult, [Change]) {
        if blocks(other) { return (.refused(.blockedByOther), []) }
        let ended = Self.ended(byApprovalOf: other, isTwoWay, answered: .pendencyOut)
        if isFriend(other) { return (.done, ended) }
        guard hasRoom(for: other) else { return (.refused(.otherFull), []) }
        // Without a request the remark is empty: the user has deleted the own record of it, and the other user has accepted.
        let request = ownRequest(to: other) ?? SentRequest(addTime: time)
        return (.done, [.set(Friend(request, at: time), other)] + ended)
    }
}

extension Friend {
    /// The friend that a sent request becomes.
    fileprivate init(_ request: SentRequest, at time: Milliseconds) {
        self.init(addTime: time)
        (remark, addWording, addSource) = (request.remark, request.addWording, request.addSource)
        groupIDs = request.groupID.map { [$0] } ?? []
    }
}

extension ChainCommand {
    /// Whether the user who decides may gain a friend.
    var addsFriend: Bool {
        switch self {
        case .add, .accept(_, isTwoWay: true): true
        case .accept(_, isTwoWay: false), .reject, .delete, .block: false
        }
    }
}
