import PresenceWire

/// The decisions about other users that users of this node have made, and that have not ended (<doc:Architecture#Relationship-chain>).
///
/// A decision is a row of the user's outbox. It is on two disks before the other user's owner hears of it, and stays until that owner has
/// answered and the user's own rows are on two disks. At most one decision about each other user is open. The next owner of the user finds
/// the row, and goes on.
struct Chain {
    /// The time after which a command without an answer is sent again.
    static let repeatInterval = Duration.milliseconds(500)
    /// The age at which a decision without an answer of the other user's owner ends as refused (R5). Tombstones are kept for longer, so
    /// that neither side takes an older row for a newer one.
    static let ageMax: Milliseconds = 86_400_000
    /// The time before the end of a call at which the owner answers what it has.
    private static let answerMargin = Duration.milliseconds(500)
    /// The time for which a call with a key stays that has run out of time. Its client repeats it sooner.
    private static let keptAfterTimeout = Duration.seconds(60)

    private enum Phase {
        /// The row of the outbox is on its way to two disks.
        case storing
        /// The other user's owner has been asked.
        case sent
        /// The rows of the end are on their way to two disks.
        case ending
    }

    private struct Open {
        let command: OutboxCommand
        var phase = Phase.storing
        var repeatAt: Instant
        var waiters: [Waiter]
    }

    /// A call that waits for a decision: one of its users.
    private struct Waiter {
        let call: UInt64
        let position: Int
    }

    private struct Item {
        let waiter: Waiter
        let decision: ChainCall.Decision
        let isRetry: Bool
        /// The time of the call, and of the users before this one in it.
        let begunAt: Version
    }

    private var open: [ChainPair: Open] = [:]
    /// Decisions that wait for the end of an open one.
    private var queued: [ChainPair: [Item]] = [:]
    /// Blocks to decide once more: see ``OwnedUser/mayOutliveBlock(of:)``.
    private var blocks: Set<ChainPair> = []
    /// The calls that have not been answered, by number.
    var calls: [UInt64: WaitingChainCall] = [:]
    /// The calls that wait until their users have hidden: see ``WaitingChainCall/Hiding``.
    var hiding: Set<UInt64> = []
    private var lastCall: UInt64 = 0
    /// The age of the oldest open decision at the last tick; zero for none.
    private(set) var oldest = Duration.zero
    /// Decisions that ended without an answer of the other user's owner.
    private(set) var expiredCount: UInt64 = 0
    /// Calls refused because too many were open.
    private(set) var refusedCount: UInt64 = 0

    /// The number of open decisions.
    var openCount: Int { open.count }

    // MARK: Calls

    /// Begins the decisions of a call of a user whom this node owns.
    mutating func perform(
        _ call: ChainCall, _ request: Request, from peer: PeerIndex, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now
    ) {
        let deadline = now.instant + (cluster.settings.callTimeout - Self.answerMargin)
        // order does not matter: at most one call is under way with a key.
        if request.isRepeated, request.key != nil, let known = calls.first(where: { $0.value.isCall(of: request) })?.key {
            calls[known]?.add(request, from: peer, deadline: deadline)
            return
        }
        guard open.count + calls.count < cluster.settings.callsMax else {
            refusedCount += 1
            return cluster.send(.answer(id: request.id, .refused(.overloaded)), to: peer)
        }
        let kept = AnsweredCalls(request: request, peer: peer, now: now)
        guard let call = call.withGroupID(isRetry: request.isRepeated, of: request.user, owner) else {
            let outcomes = call.decisions(in: request, owner).map { ChainOutcome(user: $0.user, code: .wrongGroup) }
            return kept.answer(outcomes, of: &owner, into: &cluster.outbox)
        }
        let decisions = call.decisions(in: request, owner)
        // None of the call's users has a valid ID, or no friend is left.
        guard !decisions.isEmpty else { return kept.answer([], of: &owner, into: &cluster.outbox) }
        lastCall += 1
        let id = lastCall
        calls[id] = WaitingChainCall(request, from: peer, users: decisions.map(\.user), deadline: deadline)
        var begunAt = owner.accepts(request.begunAt, at: now) ? request.begunAt : .zero
        for (position, (other, decision)) in decisions.enumerated() {
            let item = Item(
                waiter: Waiter(call: id, position: position), decision: decision, isRetry: request.isRepeated, begunAt: begunAt)
            if begunAt > .zero { begunAt.stamp += 4 }
            begin(item, of: ChainPair(user: request.user, other: other), &owner, in: &cluster.outbox[at: now])
        }
        showLists(of: request.user, after: decisions.map(\.decision), &owner, in: &cluster.outbox[at: now])
        awaitHiding(of: id, resultAt: nil, owner)
        if let call = calls[id], request.key != nil {
            kept.keep(call.awaitsHiding(by: owner) ? nil : call.answerToKeep, of: &owner, into: &cluster.outbox)
        }
        owner.removeBlank(request.user)
    }

    private mutating func begin(_ item: Item, of pair: ChainPair, _ owner: inout Owner, in turn: inout Turn) {
        if let known = open[pair] {
            guard item.isRetry, case .command(let command) = item.decision, command.isAttempt(of: known.command.command) else {
                return queued[pair, default: []].append(item)
            }
            open[pair]?.waiters.append(item.waiter)
            return
        }
        let user = owner.index(of: pair.user)
        let other = String(pair.other.id)
        let version = owner.nextVersion { $0.nextDecision(of: pair, at: turn.now) }
        let isRetry = item.isRetry && owner.users[user].mayHaveCarriedOut(item.decision, about: other, since: item.begunAt)
        let beginning = rules(of: user, owner).begin(item.decision, about: other, isRetry: isRetry, at: version.milliseconds)
        if item.isRetry, item.begunAt > .zero, !beginning.isDone,
            let code = owner.users[user].laterResult(of: item.decision, about: other, than: item.begunAt)
        {
            return end(item, as: code, of: pair.user, in: &turn)
        }
        switch beginning {
        case .ended(let code): end(item, as: code, of: pair.user, in: &turn)
        case .local(let changes, let code):
            owner.write(changes, of: user, decidedAt: version, showsLists: false, in: &turn)
            calls[item.waiter.call]?.decide(item.waiter.position, as: code)
            turn.outbox.stepWhenStored(.decided(call: item.waiter.call, position: item.waiter.position, code))
        case .command(let command, let changes):
            let outgoing = OutboxCommand(command, version: version, begunAt: turn.now.wall)
            let rows = changes + [.set(outgoing, other)]
            owner.write(rows, of: user, decidedAt: version, showsLists: false, in: &turn)
            open[pair] = Open(command: outgoing, repeatAt: .farFuture, waiters: [item.waiter])
            turn.outbox.stepWhenStored(.begun(pair, version: version))
        }
    }

    /// Ends a decision that changes nothing, because of what the user's rows say.
    private mutating func end(_ item: Item, as code: ChainCode, of user: UserID, in turn: inout Turn) {
        calls[item.waiter.call]?.decide(item.waiter.position, as: code)
        let step = ChainStep.decided(call: item.waiter.call, position: item.waiter.position, code)
        turn.outbox.deferred.append(DeferredContinuation(users: [user], action: .step(step)))
    }

    /// Shows what follows from the user's lists, once for all decisions of a call: the visibility names every user on a list.
    private func showLists(
        of user: UserID, after decisions: [ChainCall.Decision], _ owner: inout Owner, in turn: inout Turn
    ) {
        guard !decisions.isEmpty, let user = owner.index(ofKnown: user) else { return }
        let changesBlocklist = decisions.contains(where: \.changesBlocklist)
        guard owner.users[user].record.isForFriends || changesBlocklist else { return }
        ChainVisibility(user: user).show(changesBlocklist ? nil : .friend, hidesInReview: true, by: &owner, in: &turn)
    }

    private func rules(of user: Owner.Index, _ owner: borrowing Owner) -> ChainRules {
        ChainRules(user: owner.users[user], policy: owner.policies.policy(of: owner.users.user(at: user)))
    }

    /// Keeps the answer of a call, with the rows of its last result.
    private func keepAnswer(of call: UInt64, _ owner: inout Owner, in turn: inout Turn) {
        guard let call = calls[call], let answer = call.answerToKeep, !call.awaitsHiding(by: owner) else { return }
        AnsweredCalls(request: call.request, peer: 0, now: turn.now).keep(answer, of: &owner, into: &turn.outbox)
    }

    private mutating func note(_ code: ChainCode, for waiter: Waiter, _ owner: borrowing Owner, _ cluster: inout Cluster, at now: Now) {
        awaitHiding(of: waiter.call, resultAt: waiter.position, owner)
        calls[waiter.call]?.endOnceHidden(waiter.position, as: code)
        guard let call = calls[waiter.call], call.isOver else { return }
        calls[waiter.call] = nil
        let answer = call.answer(by: owner, cluster, at: now)
        for (peer, request) in call.requests { cluster.send(.answer(id: request, answer), to: peer) }
    }

    // MARK: Between owners

    /// Applies a command to a user whom this node owns. Without an answer the sender repeats it.
    mutating func onApply(
        _ apply: ChainApply, _ owner: inout Owner, _ replication: borrowing Replication, _ cluster: inout Cluster, at now: Now
    ) {
        let pair = apply.pair
        // Another node may own the user by now, and may have refused the command.
        guard !cluster.mayHaveWaited(at: now) else { return }
        guard !(owner.listsMayBeIncomplete && cluster.lacksRowsOfMember) else { return }
        guard cluster.decides(pair.other), replication.refusalOfChange(of: pair.other, cluster) == nil else { return }
        guard owner.accepts(apply.command.version, at: now) else { return }
        let user = owner.index(of: pair.other)
        let other = String(pair.user.id)
        let version = apply.command.version
        var (result, changes) = rules(of: user, owner).apply(apply.command.command, of: other, at: version.milliseconds)
        // An earlier attempt has left rows. They have its result, whatever the rules say by now.
        if owner.users[user].hasVoided(version, of: other) || owner.users[user].isVoid(version, .friend) {
            result = .refused(.unavailable)
        } else if let known = owner.users[user].result(ofRowsAt: version, of: other) {
            (result, changes) = (known, [])
        } else if apply.command.command.addsFriendOfOther, owner.users[user].hasLaterRequest(than: version, of: other) {
            result = .refused(.unavailable)
        }
        // Rows on another side of a split may be older than the decision, and must not come back.
        if apply.command.command == .block, cluster.peers.missedCount == 0 {
            changes = owner.users[user].withoutIdleRemovals(changes, about: other)
        }
        if case .refused = result {
            owner.removeBlank(pair.other)
            return send(result, of: pair, version, owner, &cluster, at: now)
        }
        if changes.contains(where: { $0.kind == .friend && $0.fact == nil }), owner.users[user].hasChangedFriend(other, madeBefore: version)
        {
            // The answer has the clock of this node, so later decisions of the other user are newer than this tombstone.
            let endedAt = owner.nextVersion { $0.nextEnd(at: now) }
            owner.write([.remove(.friend, other)], of: user, decidedAt: endedAt, in: &cluster.outbox[at: now])
        }
        owner.write(changes, of: user, decidedAt: version, in: &cluster.outbox[at: now])
        // The first attempt may have ended before every live node has hidden the user from the former friend.
        if changes.isEmpty, apply.command.command.endsFriendship, owner.users[user].record.isForFriends {
            ChainVisibility(user: user).hideAgain(by: owner, into: &cluster.outbox)
        }
        if case .delete = apply.command.command { endRequest(of: other, to: user, before: version, &owner, in: &cluster.outbox[at: now]) }
        // An earlier attempt may have written them to this disk alone.
        cluster.outbox.writeAgain([.friend, .pendencyIn, .pendencyOut], about: other, of: owner.users[user])
        cluster.outbox.stepWhenStored(.applied(pair, version: version, result))
        owner.removeBlank(pair.other)
    }

    /// Ends an open request of `other`, who deletes this user as a friend.
    ///
    /// A friend has such a request if it was sent while this user approved an earlier one. It may also be one that was answered: another
    /// owner of this user has then put a newer decision in the place of the answer. The tombstone is only just newer than the request, so
    /// that it does not hide the trace of an answer.
    private func endRequest(
        of other: String, to user: Owner.Index, before version: Version, _ owner: inout Owner, in turn: inout Turn
    ) {
        guard let request = owner.users[user].list(.pendencyIn).entry(for: other), !request.isRemoved, request.version.stamp < version.stamp
        else { return }
        let endedAt = Version(stamp: request.version.correctionStamp, node: owner.clock.node)
        owner.write([.remove(.pendencyIn, other)], of: user, decidedAt: endedAt, in: &turn)
    }

    private func send(
        _ result: ChainResult, of pair: ChainPair, _ version: Version, _ owner: borrowing Owner, _ cluster: inout Cluster, at now: Now
    ) {
        let applied = ChainApplied(pair: pair, version: version, result: result, clock: owner.clock.current(at: now.wall))
        cluster.send(.chainApplied(applied), to: cluster.owner(of: pair.user))
    }

    /// Ends a decision of a user whom this node owns, after the other user's owner has answered.
    mutating func onApplied(
        _ applied: ChainApplied, from peer: PeerIndex, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now
    ) {
        let pair = applied.pair
        // The decision has another end, or may have: another owner decides by now, or an earlier copy of the command had another answer.
        guard let known = open[pair], known.command.version == applied.version, known.phase == .sent,
            owner.outboxCommand(of: pair) == known.command, cluster.decides(pair.user)
        else { return UnresolvedDecisions.report(applied, to: peer, &cluster) }
        // Later decisions of the user are newer than the rows of this one on both sides.
        guard owner.accepts(applied.clock, at: now) else { return }
        end(pair, with: applied.result, &owner, in: &cluster.outbox[at: now])
    }

    private mutating func end(_ pair: ChainPair, with result: ChainResult, _ owner: inout Owner, in turn: inout Turn) {
        guard let known = open[pair] else { return }
        let user = owner.index(of: pair.user)
        let other = String(pair.other.id)
        let (code, changes) = rules(of: user, owner).end(
            known.command.command, about: other, with: result, at: known.command.version.milliseconds)
        owner.write(changes, of: user, decidedAt: known.command.version, in: &turn)
        // Older than the next decision: on another side of a split that one may be open, and its row stays.
        let endedAt = Version(stamp: known.command.version.correctionStamp, node: owner.clock.node)
        owner.write([.remove(.chainOutbox, other)], of: user, decidedAt: endedAt, in: &turn)
        open[pair]?.phase = .ending
        for waiter in known.waiters {
            calls[waiter.call]?.decide(waiter.position, as: code)
            keepAnswer(of: waiter.call, &owner, in: &turn)
        }
        turn.outbox.stepWhenStored(.ended(pair, version: known.command.version, code))
    }

    // MARK: Disks

    /// Goes on after the rows of a write are on two disks, or cannot be.
    mutating func carryOut(_ steps: [ChainStep], isDurable: Bool, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now) {
        for step in steps {
            switch step {
            case .begun(let pair, let version): began(pair, version, isDurable: isDurable, owner, &cluster, at: now)
            case .applied(let pair, let version, let result):
                if isDurable {
                    send(result, of: pair, version, owner, &cluster, at: now)
                } else {
                    // Without an answer the sender asks again. Another owner of this user may have answered meanwhile.
                    cluster.outbox.chains.toVerify.append(LearnedDecision(pair: pair, version: version))
                }
            case .ended(let pair, let version, let code):
                ended(pair, version, isDurable ? code : .unavailable, &owner, &cluster, at: now)
            case .decided(let call, let position, let code):
                note(isDurable ? code : .unavailable, for: Waiter(call: call, position: position), owner, &cluster, at: now)
            case .hidden(let call): carryOut(endHiding(of: call, isDurable), isDurable: isDurable, &owner, &cluster, at: now)
            }
        }
    }

    private mutating func began(
        _ pair: ChainPair, _ version: Version, isDurable: Bool, _ owner: borrowing Owner, _ cluster: inout Cluster, at now: Now
    ) {
        guard let known = open[pair], known.command.version == version, known.phase == .storing else { return }
        open[pair]?.repeatAt = now.instant + Self.repeatInterval
        // Another owner may have ended the decision, and its tombstone may have arrived during the write.
        guard isDurable, owner.outboxCommand(of: pair) == known.command else { return }
        open[pair]?.phase = .sent
        send(pair, &cluster)
    }

    private func send(_ pair: ChainPair, _ cluster: inout Cluster) {
        guard let command = open[pair]?.command else { return }
        cluster.send(.chainApply(ChainApply(pair: pair, command: command)), to: cluster.owner(of: pair.other))
    }

    private mutating func ended(
        _ pair: ChainPair, _ version: Version, _ code: ChainCode, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now
    ) {
        guard let known = open[pair], known.command.version == version else { return }
        open[pair] = nil
        for waiter in known.waiters { note(code, for: waiter, owner, &cluster, at: now) }
        let items = queued.removeValue(forKey: pair) ?? []
        guard cluster.decides(pair.user) else {
            for item in items { note(.unavailable, for: item.waiter, owner, &cluster, at: now) }
            return
        }
        for item in items { begin(item, of: pair, &owner, in: &cluster.outbox[at: now]) }
        showLists(of: pair.user, after: items.map(\.decision), &owner, in: &cluster.outbox[at: now])
        for item in items { keepAnswer(of: item.waiter.call, &owner, in: &cluster.outbox[at: now]) }
    }

    // MARK: Owners

    /// Gives up the decisions that wait for an open one of a user who has moved to another owner. Their calls are repeated there.
    mutating func drop(where isMoved: (UserID) -> Bool, _ owner: borrowing Owner, _ cluster: inout Cluster, at now: Now) {
        for pair in queued.keys.sorted() where isMoved(pair.user) {
            for item in queued.removeValue(forKey: pair) ?? [] { note(.unavailable, for: item.waiter, owner, &cluster, at: now) }
        }
    }

    /// Goes on with the decisions in the outboxes of all users whom this node owns, because it owns other users than before.
    mutating func reopen(_ owner: borrowing Owner, _ cluster: inout Cluster, at now: Now) {
        for user in owner.users.allIndices where owner.users.isLive(user) && !owner.users[user].isReplica {
            for other in owner.users[user].outlivedBlocks {
                let id = owner.users.user(at: user)
                blocks.insert(ChainPair(user: id, other: UserID(app: String(id.app), id: other)))
            }
            let list = owner.users[user].list(.chainOutbox)
            guard list.liveCount > 0 else { continue }
            for entry in list.entries where !entry.isRemoved {
                let id = owner.users.user(at: user)
                reopen(ChainPair(user: id, other: UserID(app: String(id.app), id: entry.key)), owner, &cluster, at: now)
            }
        }
    }

    /// Goes on with a decision whose row was written by another node. Calls that wait for another decision are answered 30008: it is not
    /// open any more.
    mutating func reopen(_ pair: ChainPair, _ owner: borrowing Owner, _ cluster: inout Cluster, at now: Now) {
        let known = open[pair]
        guard let command = owner.outboxCommand(of: pair), known?.command.version != command.version else { return }
        let isAttempt = known?.command.command.isAttempt(of: command.command) ?? false
        open[pair] = Open(command: command, repeatAt: now.instant, waiters: isAttempt ? known?.waiters ?? [] : [])
        for waiter in known?.waiters ?? [] where !isAttempt { note(.conflict, for: waiter, owner, &cluster, at: now) }
    }

    // MARK: Blocks

    /// Has blocks decided once more, because this owner has learned of newer rows about the blocked users.
    mutating func block(_ pairs: [ChainPair]) { blocks.formUnion(pairs) }

    /// Decides a block once more, after the open decision about the same user: it ends the friendship on both sides.
    ///
    /// The row of the blocklist keeps its version. An owner that this one cannot ask may have acknowledged that the block has ended, and
    /// that end has to win.
    private mutating func blockAgain(_ owner: inout Owner, _ cluster: inout Cluster, at now: Now) {
        // Dead nodes may know that the user has removed the block.
        guard !owner.listsMayBeIncomplete else { return }
        for pair in blocks.sorted() where open[pair] == nil {
            blocks.remove(pair)
            let other = String(pair.other.id)
            guard cluster.decides(pair.user), let user = owner.index(ofKnown: pair.user), owner.users[user].mayOutliveBlock(of: other)
            else {
                continue
            }
            let version = owner.nextVersion { $0.nextDecision(of: pair, at: now) }
            let outgoing = OutboxCommand(.block, version: version, begunAt: now.wall)
            let ends = ChainRules.ends(with: other)
            owner.write(ends + [.set(outgoing, other)], of: user, decidedAt: version, in: &cluster.outbox[at: now])
            showLists(of: pair.user, after: [.command(.block)], &owner, in: &cluster.outbox[at: now])
            open[pair] = Open(command: outgoing, repeatAt: .farFuture, waiters: [])
            cluster.outbox.stepWhenStored(.begun(pair, version: version))
        }
    }

    // MARK: Time

    /// Repeats what has had no answer, and answers calls whose time is over. Called at every tick.
    mutating func tick(_ owner: inout Owner, _ cluster: inout Cluster, at now: Now) {
        // order does not matter for the oldest, and the others are sorted.
        oldest = .milliseconds(max(open.values.reduce(0) { max($0, now.wall - $1.command.begunAt) }, 0))
        if !blocks.isEmpty { blockAgain(&owner, &cluster, at: now) }
        var hiding: UserID?  // The pairs of one user follow one another.
        for pair in open.filter({ $0.value.repeatAt <= now.instant }).keys.sorted() {
            goOn(pair, &owner, &cluster, at: now)
            guard hiding != pair.user, let known = open[pair], known.phase == .storing, known.command.command.endsFriendship else {
                continue
            }
            let user = owner.index(of: pair.user)
            if known.command.command != .block, !owner.users[user].record.isForFriends { continue }
            hiding = pair.user
            ChainVisibility(user: user).hideAgain(by: owner, into: &cluster.outbox)
        }
        for id in calls.filter({ $0.value.deadline <= now.instant }).keys.sorted() { giveUp(id, owner, &cluster, at: now) }
    }

    private mutating func goOn(_ pair: ChainPair, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now) {
        // Another node owns the user, or has ended the decision.
        guard let known = open[pair], cluster.decides(pair.user), owner.outboxCommand(of: pair) == known.command else {
            guard open[pair]?.phase != .ending else { return }
            open[pair] = nil
            return
        }
        open[pair]?.repeatAt = now.instant + Self.repeatInterval
        switch known.phase {
        case .storing:
            let user = owner.index(of: pair.user)
            cluster.outbox.writeAgain(
                [.chainOutbox, .blocked, .friend, .pendencyIn, .pendencyOut], about: String(pair.other.id), of: owner.users[user])
            cluster.outbox.stepWhenStored(.begun(pair, version: known.command.version))
        case .sent where now.wall - known.command.begunAt >= Self.ageMax:
            expiredCount += 1
            end(pair, with: .refused(.unavailable), &owner, in: &cluster.outbox[at: now])
        case .sent: send(pair, &cluster)
        case .ending: break
        }
    }

    /// Answers a call with what has been decided. A decision that waited for another one has not begun (30008).
    ///
    /// A call with a key stays for a while: its decisions may still end, and a repetition then has their results.
    private mutating func giveUp(_ id: UInt64, _ owner: borrowing Owner, _ cluster: inout Cluster, at now: Now) {
        for pair in queued.keys.sorted() {
            guard let items = queued[pair] else { continue }
            for item in items where item.waiter.call == id { calls[id]?.end(item.waiter.position, as: .conflict) }
            let kept = items.filter { $0.waiter.call != id }
            queued[pair] = kept.isEmpty ? nil : kept
        }
        guard let call = calls[id] else { return }
        let requests = calls[id]?.takeRequests(until: now.instant + Self.keptAfterTimeout) ?? []
        let answer = call.answer(by: owner, cluster, at: now)
        for (peer, request) in requests { cluster.send(.answer(id: request, answer), to: peer) }
        if requests.isEmpty || call.isOver || call.request.key == nil { calls[id] = nil }
    }
}

extension ChainCall {
    /// The kinds of decisions of a call about one user.
    enum Decision {
        case command(ChainCommand)
        /// Removes a friend from the caller's list alone.
        case deleteOneWay
        /// Removes a user from the caller's blocklist.
        case unblock

        var changesBlocklist: Bool {
            switch self {
            case .unblock, .command(.block): true
            case .command, .deleteOneWay: false
            }
        }
    }
}

extension ChainCommand {
    /// Whether the other user may gain a friend.
    fileprivate var addsFriendOfOther: Bool {
        switch self {
        case .add, .accept: true
        case .reject, .delete, .block: false
        }
    }

    /// Whether the users are no friends afterwards.
    fileprivate var endsFriendship: Bool {
        switch self {
        case .delete, .block: true
        case .add, .accept, .reject: false
        }
    }

    /// Whether both are attempts of one call. An open request has the time and the nickname that its owner has added. An open approval of
    /// a friend makes both friends.
    fileprivate func isAttempt(of other: ChainCommand) -> Bool {
        switch (self, other) {
        case (.add(var request, let isTwoWay), .add(let known, _)):
            (request.addTime, request.nickname) = (known.addTime, known.nickname)
            return .add(request, isTwoWay: isTwoWay) == other
        case (.accept(let remark, isTwoWay: false), .accept(let known, _)): return remark == known
        default: return self == other
        }
    }
}

extension Owner {
    /// The open decision of a user about another; nil for none.
    func outboxCommand(of pair: ChainPair) -> OutboxCommand? {
        index(ofKnown: pair.user).flatMap { users[$0].outboxCommand(about: pair.other) }
    }

    /// Writes the changes of a decision to the lists of one of its users, unless a newer decision has changed it.
    ///
    /// A row has the time and the counter of the decision, so that the newer of two decisions wins wherever they meet. Clients may have
    /// passed that version, if the list has a change that is not older. Then the list gets a mark (``Row/lateMark``).
    ///
    /// A tombstone has node 0. Two owners may apply one decision with different results, if one of them dies. A row that one of them adds
    /// then wins over the tombstone of the other one, whichever nodes they are, and ``UnresolvedDecisions`` removes what does not count.
    ///
    /// - Parameters:
    ///   - isSilent: whether sessions are told nothing. They follow new friends all the same.
    ///   - showsLists: whether the visibility of the user follows the changes. Otherwise the caller shows the lists after all changes.
    ///   - tellsWebhook: whether the changes are events of the app's webhook.
    mutating func write(
        _ changes: [ChainRules.Change], of user: Index, decidedAt version: Version, isSilent: Bool = false, showsLists: Bool = true,
        tellsWebhook: Bool = true, in turn: inout Turn
    ) {
        let id = users.user(at: user)
        let hasListener = !users[user].streams.isEmpty || policies.policy(of: id).tellsWebhook(.friends)
        var news: ChainNews? = hasListener ? ChainNews() : nil
        // Clients pass all changes of a list together.
        var begun: [Row.Kind] = []
        var replaced: [Row] = []
        var movesMembers = false
        for change in changes {
            let held = users[user].list(change.kind).entry(for: change.key)
            if let held, held.version.stamp >= version.stamp {
                turn.outbox.rows.append(Row(held, of: id, change.kind))
                continue
            }
            let row = change.row(
                of: id, version: Version(stamp: version.stamp, node: change.fact == nil ? 0 : clock.node), insteadOf: held)
            let mayBeLate = change.kind.hasSequence && !row.isUnseen && !begun.contains(change.kind)
            let isLate = mayBeLate && users[user].list(change.kind).mayBePassed(row.version)
            if !row.isUnseen { begun.append(change.kind) }
            let old = news == nil ? RelationshipState() : users[user].relationship
            let learnedAt = FriendFollows.lateness(of: row, by: self, at: turn.now)
            modifyLists(user) { lists in
                _ = lists.merge(row)
                if let learnedAt { lists.learn(.friend, at: learnedAt) }
            }
            turn.outbox.rows.append(row)
            if isLate { ListMarks(user: user, kind: change.kind).mark(&self, in: &turn) }
            if row.isUnseen, let held { ListMarks(user: user, kind: change.kind).keepRemoval(held, of: &self, in: &turn) }
            news?.note(row, insteadOf: held, from: old, to: users[user].relationship)
            if held?.isRemoved == false { replaced.append(row) }
            movesMembers = movesMembers || row.movesMember(insteadOf: held)
        }
        // The groups name their friends.
        if movesMembers { ListMarks(user: user, kind: .friendGroup).mark(&self, in: &turn) }
        if ListMarks.showGroups(replaced, of: user, in: &self, in: &turn) { news?.noteState() }
        SubscriptionEnds.endNonFriends(of: user, after: changes, by: &self, in: &turn)
        if showsLists { ChainVisibility(user: user).show(after: changes, by: &self, in: &turn) }
        news?.tell(user, isSilent: isSilent, tellsWebhook: tellsWebhook, of: &self, in: &turn)
    }
}
