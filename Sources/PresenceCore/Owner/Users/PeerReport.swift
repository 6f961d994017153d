import PresenceWire

/// A report of a node: the sessions that it hosts, and the users that it watches.
struct PeerReport {
    let peer: PeerIndex
    let now: Now

    /// A session is open. Its node may not have read yet of the kick that has ended the session.
    func attach(_ attach: Attach, endedBy kick: Kicks.Entry?, to owner: inout Owner, _ outbox: inout Outbox) {
        let user = owner.index(of: attach.user)
        if let record = attach.record { owner.adopt(record, at: user, in: &outbox[at: now]) }
        if attach.kind == .listener { return Listener.attach(attach, from: peer, to: &owner, in: &outbox[at: now]) }
        let registrationID = owner.registrations[peer]?.id ?? 0
        if !owner.users[user].endedSessions.isEmpty,
            let reason = owner.modify(user, { $0.reasonOfEnd(of: attach, registrationID: registrationID, at: now.instant) })
        {
            return outbox.send(.end(attach.session, user: attach.user, reason: reason), to: peer)
        }
        if let kick { return end(attach, by: kick, registrationID: registrationID, in: &owner, &outbox) }
        // The owner applied the settings of the login when the session was first reported.
        let known = owner.users[user].sessions.first { $0.id == attach.session }
        let isLogin = attach.isLogin && known == nil
        var session = OwnedSession(
            id: attach.session, peer: peer, openedAt: attach.openedAt, platform: attach.platform, deviceID: attach.deviceID,
            isPushReachable: attach.isPushReachable, registrationID: registrationID)
        // An unknown session that is registered again under a confirmed status has ended before. That end was counted.
        let wasEnded = !attach.isLogin && owner.users[user].confirmationDeadline == nil
        session.isCounted = known?.isCounted ?? wasEnded
        let policy = owner.policies.policy(of: attach.user)
        let isFirst = owner.users[user].streams.isEmpty
        let (returned, ended) = owner.modify(user) { user in
            let returned = user.retire { $0.id != session.id && $0.isReturn(of: session) }
            if isLogin {
                user.recordPush(attach)
                user.lastSeenTime = max(user.lastSeenTime, now.wall)
            }
            user.open(session)
            if attach.isOneOfSeveral, user.toldSessions == 0 { user.toldSessions = SessionNews.unknown }
            let replaced = user.endReplaced(by: session, isLogin: isLogin, scope: policy.multiClient)
            return (returned, replaced + user.endBeyondLimit(session, isLogin: isLogin))
        }
        owner.count { $0.sessionsDisconnected += UInt64(returned.count { !$0.isCounted }) }
        for session in ended { end(session, of: attach.user, in: &owner, &outbox) }
        var change = StatusChange()
        change.replaced = (returned + ended).map(\.id)
        // A login that was late, and has lost against a newer one, changes nothing.
        let isNewest = isLogin && !ended.contains { $0.id == session.id }
        if isNewest, let customStatus = attach.customStatus, !customStatus.isEmpty {
            change.customStatus = customStatus
            let seconds = policy.customStatusSeconds
            if seconds > 0 { change.customStatusExpiresAt = now.wall + seconds * 1_000 }
        }
        if isNewest, !attach.isPushReachable { change.departed = [session] }
        change.replacedDevices = owner.users[user].replacedDevices(
            by: session, isLogin: isNewest, ended: ended, scope: policy.multiClient)
        owner.refresh(user, change, in: &outbox[at: now])
        if isFirst {
            // No gateway holds this list yet. A previous owner's hash must not match it. It is drawn after the version of the record, which
            // viewers see: the counters of a login and of the end of a block are the same.
            let listHash = ViewDigest.newListHash(owner.nextVersion(at: now))
            owner.modify(user) { $0.listHash = listHash }
        }
        outbox.lists.append((peer, attach.user))
    }

    /// Ends a session that its user's kick has ended. Its gateway ends it as well when it reads the kick.
    private func end(
        _ attach: Attach, by kick: Kicks.Entry, registrationID: UInt64, in owner: inout Owner, _ outbox: inout Outbox
    ) {
        let user = owner.index(of: attach.user)
        // The node has counted the login, which was on its way when the user was kicked.
        if attach.isLogin, !owner.users[user].sessions.contains(where: { $0.id == attach.session }) {
            owner.count { $0.sessionsKicked += 1 }
        }
        let ended = EndedSession(which: .one(attach.session), peer: peer, reason: kick.reason, registrationID: registrationID)
        owner.modify(user) { $0.awaitEnd(ended) }
        outbox.send(.end(attach.session, user: attach.user, reason: kick.reason), to: peer)
        owner.removeBlank(attach.user)
    }

    /// A session was ended to make room for a newer one.
    private func end(_ session: OwnedSession, of user: UserID, in owner: inout Owner, _ outbox: inout Outbox) {
        if !session.isCounted { owner.count { $0.sessionsEvicted += 1 } }
        if let user = owner.users.index(of: user) {
            let ended = EndedSession(which: .one(session.id), peer: session.peer, reason: SessionEnd.replaced)
            owner.modify(user) { $0.awaitEnd(ended) }
        }
        outbox.send(.end(session.id, user: user, reason: SessionEnd.replaced), to: session.peer)
    }

    /// Handles the end of a session. A late end never ends a newer session.
    ///
    /// With `isMoving` its client was asked to go elsewhere.
    func detach(_ detach: Detach, isMoving: Bool, from owner: inout Owner, _ outbox: inout Outbox) {
        guard let user = owner.users.index(of: detach.user) else { return }
        if !owner.users[user].endedSessions.isEmpty { owner.modify(user) { $0.reportEnd(of: detach.session) } }
        guard let position = owner.users[user].sessions.firstIndex(where: { $0.id == detach.session && $0.peer == peer })
        else { return Listener.detach(detach, from: peer, of: &owner) }
        switch detach.cause {
        case .loggedOut:
            let session = owner.modify(user) { user in
                user.noteSeen(at: now.wall)
                user.statusAfterLast = .unlogined
                return user.sessions.remove(at: position)
            }
            if !session.isCounted { owner.count { $0.logouts += 1 } }
            owner.refresh(user, StatusChange(departed: [session]), in: &outbox[at: now])
        case .lost, .tokenExpired:
            let policy = owner.policies.policy(of: detach.user)
            let offlineGrace = policy.offlineGrace
            let patience = policy.livenessTimeout(of: owner.users[user].sessions[position].platform).wholeMilliseconds
            let grace = isMoving ? max(offlineGrace, owner.settings.movingGrace) : offlineGrace
            let loss: OwnedSession.Loss =
                detach.cause == .tokenExpired ? .tokenExpired : detach.silence >= patience ? .silent : .closed
            let (isCounted, ended) = owner.modify(user) { user in
                let isCounted = user.disconnect(position, until: now.instant + grace, by: loss)
                user.lastSeenTime = max(user.lastSeenTime, now.wall - detach.silence)
                return (isCounted, grace == .zero ? user.endWhatIsDue(at: now, offlineGrace: offlineGrace) : nil)
            }
            if isCounted { owner.count { $0.sessionsDisconnected += 1 } }
            if let ended { return owner.endReview(of: user, ended, in: &outbox[at: now]) }
            owner.refresh(user, in: &outbox[at: now])
        }
    }

    /// The node watches users from now on. Records of which it holds an older version, or none, come with the answer.
    func watch(_ watches: [Watch], of owner: inout Owner, _ outbox: inout Outbox) {
        var watched: [Watched] = []
        var bytesCount = 0
        watched.reserveCapacity(watches.count)
        for watch in watches {
            let user = owner.index(of: watch.user)
            if let record = watch.record { owner.adopt(record, at: user, in: &outbox[at: now]) }
            owner.modify(user) { $0.setWatcher(peer, true) }
            owner.schedule(user, at: now)
            if owner.renewal != .none, owner.users[user].record.version == .zero { owner.renew(user, in: &outbox[at: now]) }
            let record = owner.users[user].record
            let knownSince = record.version == watch.held ? record.knownSince : 0
            watched.append(Watched(user: watch.user, record: record.version > watch.held ? record : nil, knownSince: knownSince))
            bytesCount += record.privacy?.bytesCount ?? 0
            guard bytesCount > Link.batchBytesTarget else { continue }
            outbox.send(.watched(watched), to: peer)
            (watched, bytesCount) = ([], 0)
        }
        outbox.send(.watched(watched), to: peer)
    }

    /// The node has registered all views and sessions of some ranges of slots: a session that it did not name is disconnected.
    func end(_ registration: Owner.Registration, of owner: inout Owner, _ outbox: inout Outbox) {
        var changed: [Owner.Index] = []
        for user in owner.users.users(of: registration.ranges) {
            let grace = owner.policies.policy(of: owner.users.user(at: user)).offlineGrace
            var disconnectedCount: UInt64 = 0
            let isChanged = owner.modify(user) { user in
                var isChanged = false
                user.listeners.removeAll { $0.peer == peer && $0.registrationID != registration.id }
                user.endedSessions.removeAll { $0.peer == peer && $0.registrationID != registration.id }
                for position in user.sessions.indices {
                    let session = user.sessions[position]
                    guard session.peer == peer, session.registrationID != registration.id, session.graceDeadline == nil else { continue }
                    if user.disconnect(position, until: now.instant + grace) { disconnectedCount += 1 }
                    isChanged = true
                }
                return isChanged
            }
            owner.count { $0.sessionsDisconnected += disconnectedCount }
            if isChanged { changed.append(user) }
        }
        for user in changed { owner.refresh(user, in: &outbox[at: now]) }
    }
}
