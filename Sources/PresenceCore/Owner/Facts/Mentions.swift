import PresenceWire

/// The facts of a node's users that name one user.
struct MentionSearch {
    let id: UserID
    let request: MentionRequest

    /// Users that are looked at in one request, besides those of its last slot.
    private static let usersMax = 20_000
    /// Mentions in one answer, besides those of the last slot.
    static let mentionsMax = 1_000
    /// The kinds whose key is another user.
    static let kinds: [Row.Kind] = [.friend, .pendencyIn, .pendencyOut, .blocked, .profileSubscription, .chainOutbox]

    /// The mentions in the next slots, in the order of the slots.
    func answer(by owner: borrowing Owner) -> MentionAnswer {
        let (key, name) = (String(id.id), id.inJSON)
        var (mentions, usersCount) = ([Mention](), 0)
        for slot in request.slot...Slot.max {
            guard usersCount < Self.usersMax, mentions.count < Self.mentionsMax else { return MentionAnswer(mentions, next: slot) }
            var found: [Mention] = []
            owner.users.forEachUser(in: slot...slot) { index in
                usersCount += 1
                let user = owner.users.user(at: index)
                guard !owner.users[index].isReplica, user.app == id.app, user != id else { return }
                if owner.users[index].subscriptions.contains(id) { found.append(Mention(user: user, kind: .subscription)) }
                if let privacy = owner.users[index].record.privacy, privacy.names(id) {
                    found.append(Mention(user: user, kind: .visibility))
                }
                guard !owner.users[index].lists.isEmpty else { return }
                for kind in Self.kinds where owner.users[index].list(kind).contains(key) {
                    found.append(Mention(user: user, kind: kind))
                }
                let log = owner.users[index].list(.webhookLog).entry(for: "")?.value
                guard let log, log.contains(name) else { return }
                let events = OwnedWebhookLog(user: index).log(in: owner).events
                if events.contains(where: { $0.names(id, inJSON: name) }) { found.append(Mention(user: user, kind: .webhookLog)) }
            }
            mentions += found.sorted { ($0.user, $0.kind.rawValue) < ($1.user, $1.kind.rawValue) }
        }
        return MentionAnswer(mentions, next: nil)
    }
}

/// Removes what the node's users hold about a user who is deleted: friends, requests, blocks, subscriptions, places on the lists of
/// visibilities, and webhook events.
///
/// The sessions of these users are told, as if the deleted user had ended each of them. The app's webhook is not: the app has the receipt.
struct MentionRemoval {
    /// The age up to which removals are written again, in milliseconds: longer than any call.
    private static let retriedFor: Milliseconds = 60_000

    let id: UserID
    let request: MentionRequest
    let now: Now

    /// Answers a request to remove facts, unless this node may not have all of its users yet. Returns false for another request.
    static func answers(
        _ request: Request, from peer: PeerIndex, _ owner: inout Owner, _ replication: borrowing Replication, _ cluster: inout Cluster,
        at now: Now
    ) -> Bool {
        guard case .mentions(let search) = request.operation, search.removes, cluster.ownership.acquiringCount == 0 else { return false }
        if let refusal = replication.refusalOfChange(of: request.user, cluster) {
            cluster.send(.answer(id: request.id, .refused(refusal)), to: peer)
            return true
        }
        let found = MentionRemoval(id: request.user, request: search, now: now).perform(on: &owner, into: &cluster.outbox)
        cluster.outbox.answerWhenStored(request, found.answer, to: peer)
        // The log of the disk has the rows as they were before.
        if found.next == nil { cluster.outbox.effects.append(.truncateLog) }
        return true
    }

    /// Removes what is found. Returns it.
    func perform(on owner: inout Owner, into outbox: inout Outbox) -> MentionAnswer {
        let found = MentionSearch(id: id, request: request).answer(by: owner)
        var rest = found.mentions[...]
        while let first = rest.first {
            let kinds = rest.prefix { $0.user == first.user }.map(\.kind)
            rest = rest.dropFirst(kinds.count)
            if let user = owner.index(ofKnown: first.user) { remove(kinds, of: user, by: &owner, in: &outbox[at: now]) }
        }
        writeAgain(of: owner, upTo: found.next, into: &outbox)
        return found
    }

    /// Writes the marks of earlier removals again: the write of an earlier attempt may have ended on this disk alone.
    ///
    /// - Parameter end: the first slot that is left to another request; nil for none.
    private func writeAgain(of owner: borrowing Owner, upTo end: Slot?, into outbox: inout Outbox) {
        let last = end.map { $0 - 1 } ?? .max
        guard request.slot <= last else { return }
        let (key, since) = (String(id.id), now.wall - Self.retriedFor)
        owner.users.forEachUser(in: request.slot...last) { index in
            guard !owner.users[index].isReplica, owner.users.user(at: index).app == id.app else { return }
            if let entry = owner.users[index].subscriptions.entry(for: id), entry.isRemoved, entry.version.milliseconds >= since {
                outbox.rows.append(Row(entry, of: owner.users.user(at: index)))
            }
            guard !owner.users[index].lists.isEmpty else { return }
            for kind in MentionSearch.kinds {
                guard let entry = owner.users[index].list(kind).entry(for: key), entry.isRemoved, entry.version.milliseconds >= since else {
                    continue
                }
                outbox.writeAgain([kind], about: key, of: owner.users[index])
            }
        }
    }

    private func remove(_ kinds: [Row.Kind], of user: Owner.Index, by owner: inout Owner, in turn: inout Turn) {
        if kinds.contains(.subscription), let entry = owner.users[user].subscriptions.subscription(to: id) {
            SubscriptionEnds(user: user, kind: .status).end([entry], of: &owner, in: &turn)
        }
        if kinds.contains(.profileSubscription), let entry = owner.users[user].profileSubscriptions.subscription(to: id) {
            SubscriptionEnds(user: user, kind: .profile).end([entry], of: &owner, in: &turn)
        }
        let changes = kinds.filter(MentionSearch.kinds.contains).filter { $0 != .profileSubscription }
        if !changes.isEmpty {
            let version = owner.nextVersion(at: now)
            let removals = changes.map { ChainRules.Change.remove($0, String(id.id)) }
            owner.write(removals, of: user, decidedAt: version, tellsWebhook: false, in: &turn)
        }
        if owner.users[user].record.privacy?.names(id) == true { leaveVisibility(of: user, by: &owner, in: &turn) }
        let log = OwnedWebhookLog(user: user)
        var events = log.log(in: owner)
        if events.forget(id) { log.write(events, by: &owner, in: &turn) }
    }

    /// Takes the user off the lists of a visibility. Nobody else sees a change.
    private func leaveVisibility(of user: Owner.Index, by owner: inout Owner, in turn: inout Turn) {
        let version = owner.nextVersion(at: now)
        guard let privacy = owner.users[user].record.privacy?.without(id, at: version) else { return }
        owner.modify(user) { ($0.record.privacy, $0.record.version) = (privacy, version) }
        owner.publish(user, into: &turn.outbox)
        owner.schedule(user, at: now)
    }
}
