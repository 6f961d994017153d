import PresenceWire

/// Adds the events of one change of a user to the user's ``WebhookLog``.
struct WebhookNews {
    /// Longest `data` of an event of the relationship chain. An event with more leaves it out, and the receiver reads the list.
    private static let dataBytesMax = 4_096

    let user: Owner.Index
    let now: Now

    /// The name of a state change, as Tencent's callback names it (X2).
    private enum Action: String {
        case login = "Login"
        case logout = "Logout"
        case disconnect = "Disconnect"
        case customStatus = "CustomStatus"
        case kick = "Kick"
        case tokenExpired = "TokenExpired"
        case replaced = "Replaced"
    }

    /// Compares the announced sessions with the open ones after a change, and adds an event for each difference.
    ///
    /// The log keeps the announced sessions until their ends are events as well. So each login has one end, also after an owner has died.
    ///
    /// - Parameters:
    ///   - isWritten: whether the change has written the record.
    ///   - customStatus: the custom status before the change.
    func add(
        _ change: StatusChange, isWritten: Bool, insteadOf customStatus: String, by owner: inout Owner, into outbox: inout Outbox
    ) {
        let owned = owner.users[user]
        guard !owned.isReplica else { return }
        let held = owned.list(.webhookLog).contains("") ? OwnedWebhookLog(user: user).log(in: owner) : WebhookLog()
        var log = held
        var actions: [(action: Action, reason: String?, session: WebhookLog.Session?)] = []
        let begun = owned.sessions.filter { session in !held.sessions.contains { $0.id == session.id } }.map(\.announced)
        for session in held.sessions where !owned.sessions.contains(where: { $0.id == session.id }) {
            guard let cause = cause(ofEnd: session, change, begun, isUnconfirmed: owned.confirmationDeadline != nil) else { continue }
            log.sessions.removeAll { $0 == session }
            actions.append((cause.action, cause.reason, session))
        }
        log.sessions += begun
        actions += begun.map { (.login, nil, $0) }
        if case .kick? = change.end, actions.isEmpty { actions.append((.kick, nil, nil)) }
        if actions.isEmpty, owned.record.customStatus != customStatus { actions.append((.customStatus, nil, nil)) }
        guard log != held || !actions.isEmpty else { return }
        for (action, reason, session) in actions {
            append(to: &log, by: &owner, of: isWritten ? owned.record.version : .zero) { json, version, id in
                json.member("type", "stateChange")
                json.member("action", action.rawValue)
                if let reason { json.member("reason", reason) }
                if let session {
                    json.member("sessionID", session.id.description)
                    json.member("platform", session.platform)
                    json.member("deviceID", session.deviceID)
                }
                json.event(of: id, version, at: now)
                json.key("userStatus")
                json.userStatus(owned.record.withoutEvents)
            }
        }
        write(&log, by: &owner, into: &outbox)
    }

    /// How an announced session that is not open has ended; nil if a gateway may still register it.
    ///
    /// - Parameter begun: the sessions that this change announces. One of the same device is the return of a session that was lost.
    private func cause(
        ofEnd session: WebhookLog.Session, _ change: StatusChange, _ begun: [WebhookLog.Session], isUnconfirmed: Bool
    ) -> (action: Action, reason: String?)? {
        if change.replaced.contains(session.id) { return (.replaced, nil) }
        let mayBeOpen = isUnconfirmed && session.deviceID.isEmpty
        if !mayBeOpen, begun.contains(where: { $0.platform == session.platform && $0.deviceID == session.deviceID }) {
            return (.replaced, nil)
        }
        switch change.end {
        case .kick: return (.kick, nil)
        case .logout: return (.logout, nil)
        case .lost(let losses):
            switch losses[session.id] {
            case .silent: return (.disconnect, "TimeOut")
            case .tokenExpired: return (.tokenExpired, nil)
            case .closed: return (.disconnect, "LinkClose")
            case nil: break
            }
        case nil: break
        }
        if change.loggedOut == session.id { return (.logout, nil) }
        if change.departed.contains(where: { $0.id == session.id }) { return (.logout, nil) }
        return isUnconfirmed ? nil : (.disconnect, "LinkClose")
    }

    /// Adds an event for each notice about the user's relationship chain.
    func add(_ notices: [RelationshipNotice], by owner: inout Owner, into outbox: inout Outbox) {
        let told = notices.filter { $0.event != .state }
        guard !told.isEmpty, !owner.users[user].isReplica else { return }
        var log = OwnedWebhookLog(user: user).log(in: owner)
        for notice in told {
            append(to: &log, by: &owner) { json, version, id in
                json.member("type", "friends")
                json.key("action")
                json.string("\(notice.event.name)")
                json.event(of: id, version, at: now)
                if notice.data.count <= Self.dataBytesMax {
                    json.member("data", json: notice.data)
                } else {
                    json.member("isTruncated", true)
                }
            }
        }
        write(&log, by: &owner, into: &outbox)
    }

    /// Adds an event about the user's profile.
    func addProfile(_ profile: Version, by owner: inout Owner, into outbox: inout Outbox) {
        guard !owner.users[user].isReplica else { return }
        var log = OwnedWebhookLog(user: user).log(in: owner)
        append(to: &log, by: &owner, of: owner.users[user].record.version) { json, version, id in
            json.member("type", "profile")
            json.member("action", "ProfileChanged")
            json.event(of: id, version, at: now)
            json.member("profileVersion", profile)
        }
        write(&log, by: &owner, into: &outbox)
    }

    /// Begins with the open sessions, without events about their logins, because the app has a webhook from now on.
    func begin(by owner: inout Owner, into outbox: inout Outbox) {
        outbox.webhookUsers.append(owner.users.user(at: user))
        var log = OwnedWebhookLog(user: user).log(in: owner)
        let sessions = owner.users[user].sessions.map(\.announced)
        guard log.sessions != sessions else { return }
        log.sessions = sessions
        outbox.writeInBulk { write(&log, by: &owner, into: &$0) }
    }

    /// - Parameter version: the version of the record that the change has written. The event has it, unless an event before it does.
    private func append(
        to log: inout WebhookLog, by owner: inout Owner, of version: Version = .zero,
        _ members: (inout JSONWriter, Version, UserID) -> Void
    ) {
        let version = version > log.newest ? version : owner.nextVersion(at: now)
        let id = owner.users.user(at: user)
        var json = JSONWriter(reserving: 512)
        json.object { members(&$0, version, id) }
        log.append(json.bytes, version: version)
    }

    private func write(_ log: inout WebhookLog, by owner: inout Owner, into outbox: inout Outbox) {
        let isFull = owner.webhookBacklog.isFull(for: owner.users.user(at: user))
        let dead = log.trim(at: now.wall, waitingMax: isFull ? 1 : WebhookLog.waitingMax)
        owner.count {
            $0.webhookEventsExpired += UInt64(dead.expired)
            if isFull { $0.webhookEventsBeyondBacklog += UInt64(dead.full) } else { $0.webhookEventsDropped += UInt64(dead.full) }
        }
        OwnedWebhookLog(user: user).write(log, by: &owner, in: &outbox[at: now])
        if log.hasWaiting { outbox.webhookUsers.append(owner.users.user(at: user)) }
    }
}

extension OwnedSession {
    fileprivate var announced: WebhookLog.Session { WebhookLog.Session(id: id, platform: platform, deviceID: deviceID) }
}

extension JSONWriter {
    fileprivate mutating func event(of user: UserID, _ version: Version, at now: Now) {
        member("userID", user.id)
        member("time", now.wall)
        member("version", version)
    }
}

extension Record {
    /// The record without published events, which are not a part of the status.
    fileprivate var withoutEvents: Record {
        var record = self
        record.events = PublishedEvents()
        return record
    }
}
