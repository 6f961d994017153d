import PresenceWire

/// Encodes server-sent events in the "event stream" format of the HTML standard.
public enum EventText {
    /// The most records in one event.
    public static let recordsPerEventMax = 50

    /// `onUserStatusChanged`.
    ///
    /// - Parameters:
    ///   - viewer: the user that is pushed the event; nil if none of the records is the viewer's own.
    ///   - policy: the policy of the viewer's app. It rules how a user is shown its own status (``PresenceWire/Policy/SelfReport``).
    ///   - unsure: the users about whom the node may not know better. A client that resumes from an event with some is sent all records.
    public static func statusChanged(
        _ records: some Sequence<Record>, to viewer: UserID? = nil, _ policy: Policy = Policy(), unsure: UnsureUsers = .none,
        id position: Milliseconds
    ) -> [UInt8] {
        event("event: onUserStatusChanged\nid: ", id: unsure.isEmpty ? position : 0, reserving: 512) { json in
            json.key("userStatusList")
            json.array { json in
                for record in records {
                    let isOwn = record.user == viewer
                    json.userStatus(
                        record, isUnknown: isOwn && policy.selfReport == .unknown, isOwn: isOwn, isUnsure: unsure.contains(record.user))
                }
            }
        }
    }

    /// `onSubscriptionSyncCompleted`.
    public static func syncCompleted(_ subscribeType: UInt8, id position: Milliseconds) -> [UInt8] {
        event("event: onSubscriptionSyncCompleted\nid: ", id: position, reserving: 128) {
            $0.member("subscribeType", Int64(subscribeType))
        }
    }

    /// `onSubscriptionChangedOnOtherDevices` (R14): the subscriptions that a call of another session, or a new quota, has made and ended.
    public static func subscriptionsChanged(_ change: ListUpdate, id position: Milliseconds) -> [UInt8] {
        event("event: onSubscriptionChangedOnOtherDevices\nid: ", id: position, reserving: 256) { json in
            json.array("subscribed", change.added) { $0.string($1.target.id) }
            json.array("unsubscribed", change.unfollowed) { $0.string($1.target.id) }
            json.array("subscriptions", change.added) { $0.subscription(to: $1.target, $1.subscribeType, expiresAt: $1.expiresAt) }
            json.array("unsubscriptions", change.unfollowed) { $0.subscription(to: $1.target, $1.subscribeType, expiresAt: nil) }
        }
    }

    /// `onSessionsChanged`: all open sessions of the user.
    public static func sessionsChanged(_ sessions: [UserSession], id position: Milliseconds) -> [UInt8] {
        event("event: onSessionsChanged\nid: ", id: position, reserving: 128 + 160 * sessions.count) { json in
            json.key("sessions")
            json.array { json in for session in sessions { json.session(session) } }
        }
    }

    /// An event of the relationship chain.
    public static func relationship(_ notice: RelationshipNotice, id position: Milliseconds) -> [UInt8] {
        var json = JSONWriter(reserving: 256 + notice.data.count)
        json.raw("event: ")
        json.raw(notice.event.name)
        json.raw("\nid: ")
        json.integer(position)
        json.raw("\ndata: ")
        if notice.event == .state {
            json.object { json in
                json.member("friendSeq", notice.state.sequence(of: .friends))
                json.member("pendencySeq", notice.state.sequence(of: .requests))
                json.member("groupsVersion", notice.state.sequence(of: .groups))
                json.member("blockVersion", notice.state.sequence(of: .blocked))
                json.member("unreadCnt", Int64(notice.state.unreadCount))
                json.member("profileVersion", notice.state.profile)
            }
        } else {
            json.value(notice.data)
        }
        json.raw("\n\n")
        return json.bytes
    }

    /// `onUserProfileChanged` (P43).
    public static func profileChanged(of user: UserID, to version: Version, id position: Milliseconds) -> [UInt8] {
        event("event: onUserProfileChanged\nid: ", id: position, reserving: 192) { json in
            json.member("userID", user.id)
            json.member("profileVersion", version)
        }
    }

    /// `onSubscriptionExpired`: the client is pushed no more records of these users.
    public static func subscriptionsExpired(_ users: [UserID], id position: Milliseconds) -> [UInt8] {
        event("event: onSubscriptionExpired\nid: ", id: position, reserving: 256) { json in
            json.array("userIDs", users) { $0.string($1.id) }
        }
    }

    /// `onLogout` for a session that the user has logged out (``PresenceWire/SessionEnd/logout``); otherwise `onKickedOffline`.
    public static func ended(reason: String, id position: Milliseconds) -> [UInt8] {
        if reason == SessionEnd.logout { return event("event: onLogout\nid: ", id: position, reserving: 64) { _ in } }
        return event("event: onKickedOffline\nid: ", id: position, reserving: 128) { $0.member("reason", reason) }
    }

    /// `onTokenExpiring`: the client renews its session with a new token.
    public static func tokenExpiring(at expiresAt: Milliseconds, id position: Milliseconds) -> [UInt8] {
        event("event: onTokenExpiring\nid: ", id: position, reserving: 96) { $0.member("expiresAt", expiresAt) }
    }

    /// `onReconnectHint`: the client opens another stream after this time, then drops this one.
    public static func reconnectHint(reason: String, afterMilliseconds: Int64, id position: Milliseconds) -> [UInt8] {
        event("event: onReconnectHint\nid: ", id: position, reserving: 128) { json in
            json.member("reason", reason)
            json.member("afterMilliseconds", afterMilliseconds)
        }
    }

    /// `onConnected`; intervals in seconds.
    public static func connected(
        session: SessionID, user: UserID, node: NodeID, heartbeat: Heartbeat, now: Now, id position: Milliseconds
    ) -> [UInt8] {
        event("event: onConnected\nid: ", id: position, reserving: 256) { json in
            json.member("sessionID", session.description)
            json.member("userID", user.id)
            json.member("node", node.rawValue)
            json.member("heartbeatInterval", heartbeat.interval.components.seconds)
            json.member("heartbeatTimeout", heartbeat.timeout.components.seconds)
            json.member("serverTime", now.wall)
        }
    }

    private static func event(
        _ head: StaticString, id: Milliseconds, reserving bytesCount: Int, _ body: (inout JSONWriter) -> Void
    ) -> [UInt8] {
        var json = JSONWriter(reserving: bytesCount)
        json.raw(head)
        json.integer(id)
        json.raw("\ndata: ")
        json.object(body)
        json.raw("\n\n")
        return json.bytes
    }
}

extension JSONWriter {
    fileprivate mutating func subscription(to target: UserID, _ type: UInt8, expiresAt: Milliseconds?) {
        object { json in
            json.member("userID", target.id)
            json.member("subscribeType", Int64(type))
            if let expiresAt { json.member("expiresAt", expiresAt) }
        }
    }
}
