import PresenceWire

/// The certain facts of the relationship chain by the answers of its calls, and the friend lists that clients have read.
///
/// Its inputs are the begin of a call and its answer. It knows neither nodes nor rows: see ``ChainChecks``.
struct ChainOracle {
    /// A call without an answer.
    struct OpenCall {
        let user: Int
        let call: DecidingCall
        let at: Nanoseconds
        /// The number of the first decision. The others follow.
        let firstID: Int
        /// The app's settings that nodes may have followed since the call began.
        var allowed: [ChainPolicy.AllowType]
    }

    /// The settings of which one says who may add the other user of a call.
    struct Allowed {
        let byApp: [ChainPolicy.AllowType]
        /// Nil among them if the app's setting may stand in for the user's own.
        let byUser: [ChainPolicy.AllowType?]

        func since(_ open: OpenCall) -> [ChainPolicy.AllowType] {
            byUser.compactMap(\.self) + (byUser.contains(nil) ? open.allowed + byApp : [])
        }
    }

    /// How far the answer to a call can be trusted.
    struct Trust {
        /// Whether all nodes know what was acknowledged before.
        var isComplete = true
        /// Whether an attempt of the call may have been decided before.
        var mayBeRetry = true
        /// The time before which the requests of other calls have arrived or are lost.
        var arrivedBefore = Nanoseconds.min
    }

    let usersCount: Int
    /// The setting `friends.max`.
    let friendsMax: Int
    private(set) var pairs: [PairOracle]
    var lists: [ClientLists]
    private var openCalls: [OpenCall] = []
    private var lastID = 0
    /// Whether a user was blocked. A block waits for all nodes, so later changes of the same lists may overtake it.
    private(set) var hasBlocked = false
    /// Whether a call of the chain was made.
    var isUsed: Bool { lastID > 0 }

    init(usersCount: Int, friendsMax: Int) {
        (self.usersCount, self.friendsMax) = (usersCount, friendsMax)
        pairs = Array(repeating: PairOracle(), count: usersCount * usersCount)
        lists = Array(repeating: ClientLists(), count: usersCount)
    }

    /// The place of two users in ``pairs``. The user with the lower number is the first one.
    private func index(_ user: Int, _ other: Int) -> Int { min(user, other) * usersCount + max(user, other) }

    func pair(_ user: Int, _ other: Int) -> PairOracle { pairs[index(user, other)] }

    // MARK: Calls

    mutating func ask(_ call: DecidingCall, by user: Int, allowed: [ChainPolicy.AllowType], at now: Nanoseconds) {
        if case .chain(.setBlocked(_, true)) = call { hasBlocked = true }
        openCalls.append(OpenCall(user: user, call: call, at: now, firstID: lastID + 1, allowed: allowed))
        for (other, decision) in call.decisions(of: user, usersCount: usersCount) {
            lastID += 1
            pairs[index(user, other)].ask(lastID, decision, isByFirst: user < other)
        }
    }

    /// Records that nodes may follow another setting of the app from now on.
    mutating func mayAllow(_ type: ChainPolicy.AllowType) { for index in openCalls.indices { openCalls[index].allowed.append(type) } }

    private func openIndex(of call: DecidingCall, by user: Int, at moment: Nanoseconds) -> Int? {
        openCalls.firstIndex { $0.user == user && $0.at == moment && $0.call == call }
    }

    private mutating func take(_ call: DecidingCall, by user: Int, at moment: Nanoseconds) -> OpenCall? {
        openIndex(of: call, by: user, at: moment).map { openCalls.remove(at: $0) }
    }

    /// Whether a call without an answer is the only one that can have put another user on the friend list of its user.
    func isOnlyMaker(_ call: DecidingCall, of other: Int, by user: Int, askedAt moment: Nanoseconds) -> Bool {
        guard let open = openIndex(of: call, by: user, at: moment).map({ openCalls[$0] }),
            let position = call.decisions(of: user, usersCount: usersCount).firstIndex(where: { $0.other == other })
        else { return false }
        return pair(user, other).isOnlyMaker(open.firstID + position, of: user < other ? .ownFriend : .otherFriend)
    }

    /// Records that a call has changed nothing, or that it may still do so.
    mutating func refused(_ asked: SimulatedCall, mayTakeEffect: Bool, at now: Nanoseconds) {
        if case .getFriendList = asked.call { lists[asked.user].isReading = false }
        guard let call = DecidingCall(asked.call), let open = take(call, by: asked.user, at: asked.at) else { return }
        let user = asked.user
        for (position, (other, _)) in call.decisions(of: user, usersCount: usersCount).enumerated() {
            let (index, id) = (index(user, other), open.firstID + position)
            if mayTakeEffect { pairs[index].leaveUnresolved(id, at: now) } else { pairs[index].refuse(id, at: now) }
        }
    }

    /// Records the answer to a call. Returns what is wrong with it, in words; nil for nothing.
    mutating func answered(
        _ outcomes: [ChainOutcome], to call: DecidingCall, by user: Int, askedAt: Nanoseconds, allowed: Allowed, _ trust: Trust,
        at now: Nanoseconds
    ) -> String? {
        guard let open = take(call, by: user, at: askedAt) else { return "nobody waits for the answer to \(call)" }
        let decisions = call.decisions(of: user, usersCount: usersCount)
        guard let codes = call.codes(in: outcomes, of: decisions) else { return "\(call) is answered \(outcomes)" }
        let allowed = allowed.since(open)
        var problem = trust.isComplete ? Self.problem(with: codes, of: decisions, by: user, allowed) : nil
        for (position, (code, decided)) in zip(codes, decisions).enumerated() {
            let (other, place, id) = (decided.other, index(user, decided.other), open.firstID + position)
            // A conflict has not begun, but an earlier attempt of the same call may have.
            guard code != .unavailable, code != .conflict else {
                pairs[place].leaveUnresolved(id, at: now)
                continue
            }
            let full = isWronglyFull(code, user, other, since: askedAt)
            let known = pairs[place].settled(before: id) ?? PairOracle.Known(certain: [])
            let claims = decided.decision.claims(
                of: code, known, allowed: allowed, mayBeRetry: trust.mayBeRetry)
            let wrong = pairs[place].answer(
                id, claims, isTrusted: trust.isComplete,
                endsUnresolved: decided.decision.endsEarlier(with: code) ? trust.arrivedBefore : .min, at: now)
            if trust.isComplete, full { problem = problem ?? "user-\(user) is answered \(code.rawValue), and the list has room" }
            guard let wrong else { continue }
            let (first, second) = ("user-\(min(user, other))", "user-\(max(user, other))")
            let value = known[user < other ? wrong : wrong.flipped] ?? false
            problem =
                problem ?? "user-\(user) asks \(decided.decision) of user-\(other), and is answered \(code.rawValue), "
                + "though it was certainly \(value) that \(wrong.words(first, second))"
        }
        return problem
    }

    /// The reason why an addition cannot be answered so, whatever the lists have; nil for none.
    private static func problem(
        with codes: [ChainCode], of decisions: [(other: Int, decision: PairDecision)], by user: Int, _ allowed: [ChainPolicy.AllowType]
    ) -> String? {
        let needed: [ChainCode: ChainPolicy.AllowType] = [.pending: .confirm, .forbidden: .deny]
        for (code, decided) in zip(codes, decisions) {
            if let type = needed[code], !allowed.contains(type) {
                return "user-\(user) is answered \(code.rawValue) about user-\(decided.other), who certainly allows \(allowed)"
            }
            if case .add(isTwoWay: _, isForced: true, namesGroup: _) = decided.decision, code == .pending || code == .requestsFull {
                return "user-\(user) adds user-\(decided.other) by force, and is answered \(code.rawValue)"
            }
        }
        return nil
    }

    /// Whether an answer says that a list is full that certainly has room.
    private func isWronglyFull(_ code: ChainCode, _ user: Int, _ other: Int, since moment: Nanoseconds) -> Bool {
        switch code {
        case .selfFull: friendsMost(of: user, besides: other, since: moment) < friendsMax
        case .otherFull: friendsMost(of: other, besides: user, since: moment) < friendsMax
        default: false
        }
    }

    /// Whether a user may be on another user's friend list now, or may have been since a moment.
    func mayBeFriend(_ friend: Int, of user: Int, since moment: Nanoseconds) -> Bool {
        pair(user, friend).mayHold(user < friend ? .ownFriend : .otherFriend, since: moment)
    }

    /// Whether a user is certainly on another user's friend list, and has been since a moment.
    func mustBeFriend(_ friend: Int, of user: Int, since moment: Nanoseconds) -> Bool {
        pair(user, friend).mustHold(user < friend ? .ownFriend : .otherFriend, since: moment)
    }

    /// Whether a user may block another user now, or may have done so since a moment.
    func mayBlock(_ other: Int, by user: Int, since moment: Nanoseconds) -> Bool {
        pair(user, other).mayHold(user < other ? .ownBlocks : .otherBlocks, since: moment)
    }

    /// Whether a user certainly blocks another user, and has done so since a moment.
    func mustBlock(_ other: Int, by user: Int, since moment: Nanoseconds) -> Bool {
        pair(user, other).mustHold(user < other ? .ownBlocks : .otherBlocks, since: moment)
    }

    /// The most friends that a user can have had since a moment, open calls included.
    private func friendsMost(of user: Int, besides other: Int, since moment: Nanoseconds) -> Int {
        (0..<usersCount).count { friend in
            friend != user && friend != other && mayBeFriend(friend, of: user, since: moment)
        }
    }

    // MARK: At rest

    /// The first difference between the lists of all users and what is certain, with the guarantee that it breaks.
    ///
    /// - Parameters:
    ///   - isSplit: whether there were splits, whose sides may each have decided otherwise.
    ///   - holds: the keys of the live rows of a list of a user.
    func problem(isSplit: Bool, _ holds: (Int, Row.Kind) -> Set<Int>) -> (Violation.Guarantee, String)? {
        for first in 0..<usersCount {
            for second in first + 1..<usersCount {
                let facts = facts(first, second, holds)
                if !isSplit, let problem = outlivedBlock(first, second, facts) { return problem }
                if let problem = problem(first, second, facts) { return problem }
            }
        }
        return nil
    }

    /// A friend or a request beside a block between the two users.
    ///
    /// Imports do not respect the blocks of the users whom they bring. They respect those of the user who gets the friends.
    private func outlivedBlock(_ first: Int, _ second: Int, _ facts: PairFacts) -> (Violation.Guarantee, String)? {
        let (own, other) = ("user-\(first)", "user-\(second)")
        var ended = PairFacts.friends.union(.requests)
        let brought = pair(first, second).broughtSinceBlock
        if !facts.contains(.ownBlocks), brought.contains(.ownFriend) { ended.remove(.ownFriend) }
        if !facts.contains(.otherBlocks), brought.contains(.otherFriend) { ended.remove(.otherFriend) }
        guard let block = facts.intersection([.ownBlocks, .otherBlocks]).elements.first,
            let left = facts.intersection(ended).elements.first
        else { return nil }
        return (.blockedIsNoFriend, "\(block.words(own, other)), and \(left.words(own, other))")
    }

    private func facts(_ first: Int, _ second: Int, _ holds: (Int, Row.Kind) -> Set<Int>) -> PairFacts {
        var facts: PairFacts = []
        let kinds: [(Row.Kind, PairFacts)] = [
            (.friend, .ownFriend), (.pendencyOut, .ownSent), (.pendencyIn, .ownReceived), (.blocked, .ownBlocks),
        ]
        for (kind, own) in kinds {
            if holds(first, kind).contains(second) { facts.insert(own) }
            if holds(second, kind).contains(first) { facts.insert(own.flipped) }
        }
        return facts
    }

    private func problem(_ first: Int, _ second: Int, _ facts: PairFacts) -> (Violation.Guarantee, String)? {
        let (own, other) = ("user-\(first)", "user-\(second)")
        let pair = pair(first, second)
        if let wrong = pair.problem(with: facts) {
            let isFriend = wrong == .ownFriend || wrong == .otherFriend
            let words = wrong.words(own, other)
            return facts.contains(wrong)
                ? (isFriend ? .deletedStaysDeleted : .chainIsAcknowledged, "\(words), and it was acknowledged that this has ended")
                : (.chainIsAcknowledged, "it was acknowledged that \(words), and the list does not have it")
        }
        for sent in [PairFacts.ownSent, .otherSent] {
            let received: PairFacts = sent == .ownSent ? .otherReceived : .ownReceived
            guard facts.contains(sent) != facts.contains(received) else { continue }
            return (.chainMatches, (facts.contains(sent) ? sent : received).words(own, other) + ", and the other list has nothing of it")
        }
        if !pair.mayBeOneSided, facts.contains(.ownFriend) != facts.contains(.otherFriend) {
            let held: PairFacts = facts.contains(.ownFriend) ? .ownFriend : .otherFriend
            return (.chainMatches, held.words(own, other) + ", and not the other way round")
        }
        return nil
    }
}

extension PairDecision {
    /// Whether this answer says that the earlier decisions of the user about the other user have ended.
    fileprivate func endsEarlier(with code: ChainCode) -> Bool {
        switch self {
        case .add: code == .done || code == .pending
        case .accept, .reject, .delete(isTwoWay: true), .deleteAny(isTwoWay: true), .block: code == .done
        case .delete(isTwoWay: false), .deleteAny(isTwoWay: false), .bring, .unblock: false
        }
    }
}

/// The friend lists that the client of one user has had.
struct ClientLists {
    /// A whole list as a client shows it.
    struct Snapshot: Equatable {
        var sequence: String
        /// The remark of each friend, by ID.
        var friends: [String: String] = [:]
    }

    /// Pages of a whole list that the client is about to read.
    struct Paging {
        var snapshot: Snapshot
        var cursor: String
    }

    /// The lists that the client has had, each with another sequence, the earliest first.
    private(set) var snapshots: [Snapshot] = []
    private(set) var paging: Paging?
    /// The list after the last answer.
    var latest: Snapshot?
    /// Whether the client waits for an answer.
    var isReading = false

    /// The friends of a list that the client has had; nil if it did not have the list of this sequence.
    func friends(at sequence: String) -> Set<String>? {
        if sequence == Version.zero.text { return [] }
        // order does not matter: they become a set.
        return snapshots.first { $0.sequence == sequence }.map { Set($0.friends.keys) }
    }

    /// Most lists that are kept. Later ones are not.
    private static let countMax = 12

    /// The next query of the client.
    func query(choice: Int?, limit: Int) -> FriendQuery {
        if let paging { return FriendQuery(cursor: FriendQuery.Cursor(text: paging.cursor), limit: limit) }
        guard let choice, !snapshots.isEmpty else { return FriendQuery(limit: limit) }
        return FriendQuery(since: snapshots[choice % snapshots.count].sequence, limit: limit)
    }

    /// Applies an answer, and keeps the list unless more pages follow.
    mutating func read(_ json: JSONValue, to query: FriendQuery) {
        guard let list = Self.list(after: json, to: query, from: self) else { return }
        if let cursor = json["cursor"]?.text { return paging = Paging(snapshot: list, cursor: cursor) }
        if query.since == nil || json["isFull"] == .bool(true) { paging = nil }
        if !snapshots.contains(where: { $0.sequence == list.sequence }), snapshots.count < Self.countMax { snapshots.append(list) }
        latest = list
    }

    /// The client's list after an answer; nil if the client lacks what the answer continues.
    private static func list(after json: JSONValue, to query: FriendQuery, from lists: ClientLists) -> Snapshot? {
        var list = Snapshot(sequence: json["seq"]?.text ?? "")
        if let cursor = query.cursor {
            guard let paging = lists.paging, paging.cursor == cursor.text else { return nil }
            list = paging.snapshot
        } else if json["isFull"] != .bool(true) {
            guard let held = lists.snapshots.first(where: { $0.sequence == query.since }) else { return nil }
            list.friends = held.friends
        }
        for friend in json["friendList"]?.elements ?? [] { list.friends[friend["userID"]?.text ?? ""] = friend["remark"]?.text }
        for id in json["deleted"]?.elements ?? [] { list.friends[id.text ?? ""] = nil }
        return list
    }
}
