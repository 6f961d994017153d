import PresenceWire

/// An operation that a user's owner decides.
///
/// The node that received the call has validated it. Every answer to a change waits for the disk.
struct OwnerRequest {
    let request: Request
    /// The node that sent the request and receives the answer.
    let peer: PeerIndex
    let now: Now

    private var id: UserID { request.user }

    func perform(on owner: inout Owner, into outbox: inout Outbox) {
        switch request.operation {
        case .setSelfStatus(let customStatus, let seconds):
            guard customStatus.isEmpty || maySetCustomStatus(owner) else { return answer(.refused(.noSession), into: &outbox) }
            setSelfStatus(customStatus, seconds, on: &owner, into: &outbox)
            answerWhenStored(.record(owner.record(of: id)), into: &outbox)
        case .publishEvent(let value, let ext, let seconds, let isForOnlineOnly, let isSynced, let session):
            let event = PublishedEvent(
                value: value, ext: ext, expiresAt: 0, isForOnlineOnly: isForOnlineOnly, isSynced: isSynced, session: session)
            publish(event, seconds, on: &owner, into: &outbox)
            answerWhenStored(.record(owner.record(of: id)), into: &outbox)
        case .subscribe(let targets, let seconds, let type, let session, let isCounted):
            let subscribe = SubscribeRequest(request: request, seconds: seconds, type: type, session: session, now: now)
            switch subscribe.perform(targets, isCounted: isCounted, on: &owner, into: &outbox) {
            case .refused(let refusal): answer(refusal, into: &outbox)
            case .done(let done): answerWhenStored(done, into: &outbox)
            }
        case .unsubscribe(let targets, let type, let session):
            unsubscribe(targets, of: type, by: session, on: &owner, into: &outbox)
            answerWhenStored(.done, into: &outbox)
        case .logout(let session):
            logout(session, on: &owner, into: &outbox)
            answerWhenStored(.done, into: &outbox)
        case .subscriptions(let only, let offset, let limit, let type):
            answer(subscriptions(of: owner, only: only, offset: offset, limit: limit, type: type), into: &outbox)
        case .setVisibility(let change):
            guard setVisibility(change, on: &owner, into: &outbox) else { return answer(.refused(.unavailable), into: &outbox) }
            answerWhenStored(.visibility(owner.record(of: id).privacy ?? Privacy()), into: &outbox)
        case .visibility: answer(.visibility(owner.record(of: id).privacy ?? Privacy()), into: &outbox)
        case .register:
            register(on: &owner, into: &outbox)
            answerWhenStored(.record(owner.record(of: id)), into: &outbox)
        case .records(let users, let viewer): answer(.records(users.map { owner.record(of: $0).shown(to: viewer) }), into: &outbox)
        case .setPolicy, .kick, .explain, .followers, .countQuery: preconditionFailure("what all nodes keep is the node's to change")
        }
    }

    private func answer(_ answer: Answer, into outbox: inout Outbox) { outbox.answer(request.id, answer, to: peer) }

    private func answerWhenStored(_ answer: Answer, into outbox: inout Outbox) {
        outbox.answersWhenStored.append((peer, request.id, answer))
    }

    // MARK: Status

    /// Whether the user may set a custom status: where the policy demands a session (T11), one is open.
    private func maySetCustomStatus(_ owner: Owner) -> Bool {
        guard owner.policies.policy(of: id).customStatusNeedsSession else { return true }
        guard let user = owner.users.index(of: id) else { return false }
        return owner.users[user].status(with: owner.users[user].record.pushDevices).status == .online
    }

    private func setSelfStatus(_ customStatus: String, _ seconds: Int64?, on owner: inout Owner, into outbox: inout Outbox) {
        let expiry = seconds.map { now.wall + $0 * 1_000 } ?? 0
        let user = owner.index(of: id)
        let change = StatusChange(customStatus: customStatus, customStatusExpiresAt: expiry)
        if !owner.refresh(user, change, at: now, into: &outbox) { writeAgain(user, of: owner, into: &outbox) }
    }

    /// The call has changed nothing. The record that it asks for may be on this disk alone, because an earlier attempt failed.
    private func writeAgain(_ user: Owner.Index, of owner: Owner, into outbox: inout Outbox) {
        let record = owner.users[user].record
        if record.version > .zero { outbox.rows.append(Row(record)) }
    }

    /// A repeated call publishes once.
    private func publish(_ event: PublishedEvent, _ seconds: Int64, on owner: inout Owner, into outbox: inout Outbox) {
        _ = owner.accepts(request.begunAt, at: now)
        let user = owner.index(of: id)
        if request.isRepeated, let done = owner.users[user].record.events.newest, done.id > request.begunAt, done.value == event.value,
            done.ext == event.ext
        {
            return outbox.rows.append(Row(owner.users[user].record))
        }
        owner.refresh(user, StatusChange(events: .publish(event, seconds: seconds)), at: now, into: &outbox)
    }

    private func logout(_ session: SessionID?, on owner: inout Owner, into outbox: inout Outbox) {
        let user = owner.index(of: id)
        let ended = owner.users[user].sessions.filter { session == nil || $0.id == session }
        for session in ended where session.graceDeadline == nil {
            outbox.send(.end(session.id, user: id, reason: SessionEnd.logout), to: session.peer)
        }
        owner.counters.logouts += UInt64(ended.count { !$0.isCounted })
        owner.users.modify(user) { user in
            user.sessions.removeAll { session == nil || $0.id == session }
            if session == nil { user.confirmationDeadline = nil }
            if session == nil || !ended.isEmpty { user.statusAfterLast = .unlogined }
        }
        let change = StatusChange(isLogout: session == nil, departed: ended)
        if !owner.refresh(user, change, at: now, into: &outbox) { writeAgain(user, of: owner, into: &outbox) }
    }

    /// The user exists: a fact of its record, which every node that is asked about the user sees.
    private func register(on owner: inout Owner, into outbox: inout Outbox) {
        let user = owner.index(of: id)
        var record = owner.users[user].record
        // An earlier attempt may have failed, so that the fact is only on this disk.
        guard !record.isRegistered else { return outbox.rows.append(Row(record)) }
        (record.isRegistered, record.version) = (true, owner.clock.next(at: now.wall))
        record.knownSince = owner.knownSince(ofNew: record)
        owner.users.modify(user) { $0.record = record }
        outbox.changes.append((record, owner.users[user].watchers))
        outbox.rows.append(Row(record))
        owner.schedule(user, at: now)
    }

    // MARK: Subscriptions

    private func unsubscribe(
        _ targets: [UserID]?, of type: UInt8?, by session: SessionID?, on owner: inout Owner, into outbox: inout Outbox
    ) {
        let user = owner.index(of: id)
        let version = owner.clock.next(at: now.wall)
        let unknownAt = owner.listsMayBeIncomplete ? now.wall : nil
        let (ended, others) = owner.users.modify(user) {
            $0.subscriptions.unsubscribe(targets, of: type, version: version, unknownAt: unknownAt)
        }
        // Gateways may follow targets that this node does not know, because nodes that have not answered may have sent them.
        let isDoubtful = owner.listsMayBeIncomplete && targets != nil
        owner.drop(isDoubtful ? ended + others : ended, of: user, by: .some(session), into: &outbox)
        guard !isDoubtful, !others.isEmpty else { return }
        outbox.rows += others.map { Row($0, of: id) }
    }

    private func subscriptions(of owner: Owner, only: [UserID]?, offset: Int, limit: Int, type: UInt8?) -> Answer {
        guard let user = owner.users.index(of: id) else { return .subscriptions([], total: 0) }
        let subscriptions = owner.users[user].subscriptions
        if let only {
            let found = only.compactMap { subscriptions.entry(for: $0) }.filter { $0.isOf(type) }
            return .subscriptions(found, total: found.count)
        }
        let total = type == nil ? subscriptions.liveCount : subscriptions.live.count { $0.isOf(type) }
        return .subscriptions(subscriptions.page(of: type, offset: offset, limit: limit), total: total)
    }

    // MARK: Visibility

    /// Changes the visibility. The answer waits until no node shows hidden fields any more: see ``Outbox/needsBarrier``.
    ///
    /// - Returns: false for a call that began before the call that wrote the rule: it comes late, and does not undo that rule. False also
    ///   for a call from a clock that is far ahead. The caller tries again.
    private func setVisibility(_ change: Visibility.Change, on owner: inout Owner, into outbox: inout Outbox) -> Bool {
        guard owner.accepts(request.begunAt, at: now) else { return false }
        let user = owner.index(of: id)
        let privacy = owner.users[user].record.privacy ?? Privacy()
        let new = privacy.visibility.changed(by: change)
        // An unchanged visibility gets a new date, so that an older call that another side of a split stored does not undo it.
        if new != privacy.visibility || request.begunAt > privacy.writtenAt {
            guard request.begunAt.milliseconds >= privacy.writtenAt.milliseconds else { return false }
            let writtenAt = request.begunAt > privacy.writtenAt ? request.begunAt : owner.clock.next(at: now.wall)
            let change = StatusChange(visibility: StatusChange.Visibility(visibility: new, writtenAt: writtenAt))
            owner.refresh(user, change, at: now, into: &outbox)
            if new.friends != privacy.visibility.friends {
                owner.endFriendships(of: user, at: now, into: &outbox)
                owner.queueList(of: user, into: &outbox)
            }
        } else {
            let record = owner.users[user].record
            writeAgain(user, of: owner, into: &outbox)
            if record.version > .zero, let privacy = record.privacy { outbox.rows.append(Row(privacy, of: id)) }
        }
        outbox.needsBarrier = true
        return true
    }
}
