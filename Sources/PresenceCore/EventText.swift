import PresenceWire

/// The bytes of server-sent events (contract §4, and the HTML standard's "event stream" format).
public enum EventText {
    /// Records in one event when many are told at once.
    public static let recordsPerEventMax = 50

    /// `onUserStatusChanged`.
    ///
    /// - Parameter unknown: whose general status is not told.
    public static func statusChanged(_ records: some Sequence<Record>, unknown: UserID? = nil, id position: Milliseconds) -> [UInt8] {
        event("event: onUserStatusChanged\nid: ", id: position, reserving: 512) { json in
            json.key("userStatusList")
            json.array { json in
                for record in records { json.userStatus(record, isUnknown: record.user == unknown) }
            }
        }
    }

    /// `onSubscriptionSyncCompleted`.
    public static func syncCompleted(id position: Milliseconds) -> [UInt8] {
        event("event: onSubscriptionSyncCompleted\nid: ", id: position, reserving: 128) { $0.member("subscribeType", 1) }
    }

    /// `onSubscriptionChangedOnOtherDevices` (R14).
    public static func subscriptionsChanged(_ subscribed: [UserID], _ unsubscribed: [UserID], id position: Milliseconds) -> [UInt8] {
        event("event: onSubscriptionChangedOnOtherDevices\nid: ", id: position, reserving: 256) { json in
            json.key("subscribed")
            json.array { json in for user in subscribed { json.string(user.id) } }
            json.key("unsubscribed")
            json.array { json in for user in unsubscribed { json.string(user.id) } }
        }
    }

    /// `onSubscriptionExpired`: nothing more is told of these users.
    public static func subscriptionsExpired(_ users: [UserID], id position: Milliseconds) -> [UInt8] {
        event("event: onSubscriptionExpired\nid: ", id: position, reserving: 256) { json in
            json.key("userIDs")
            json.array { json in for user in users { json.string(user.id) } }
        }
    }

    /// `onKickedOffline`.
    public static func kickedOffline(reason: String, id position: Milliseconds) -> [UInt8] {
        event("event: onKickedOffline\nid: ", id: position, reserving: 128) { $0.member("reason", reason) }
    }

    /// `onReconnectHint`: open another stream after so long, then drop this one.
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
