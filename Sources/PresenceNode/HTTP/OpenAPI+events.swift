import PresenceCore
import PresenceWire

extension OpenAPI {
    /// `GET /v1/events`.
    static let events: JSONValue = [
        "operationId": "events", "summary": "Opens the event stream: the open stream is the session.", "tags": ["status"],
        "description": """
        The user is ONLINE while at least one stream is open. When a stream ends with its connection, the session is disconnected and the \
        user becomes OFFLINE. When it ends by logout, the user becomes UNLOGINED. The data of an event is JSON on one line. The node \
        sends comments (lines that begin with a colon) on HTTP/1.1 connections and PINGs on HTTP/2 connections. After heartbeatTimeout \
        without a sign of life from the client, the session is disconnected. A session also ends token.grace (25 s) after the exp of its \
        token, unless renew brings a newer one.

        A UserStatus carries the event in force to every viewer who may see the user: on the stream, in an answer, after a resume and at \
        login. The client decides whether to raise the event:
        - An event of another session of the same user (event.sessionID is not that of onConnected) is raised only if syncEnabled is true.
        - An event with sendToOnlineUsersOnly is raised only if publishedAt is later than onConnected.serverTime.
        - Each eventID is raised once, also that of loginEvent.
        """,
        "parameters": [
            parameter(
                "platform",
                [
                    "type": "string", "minLength": 1, "maxLength": .integer(Int64(Limits.platformBytesMax)),
                    "pattern": .string(platformPattern), "description": "Shown to viewers in onlinePlatforms.",
                ]),
            parameter(
                "deviceID",
                [
                    "type": "string", "maxLength": .integer(Int64(Limits.deviceBytesMax)),
                    "x-utf8BytesMax": .integer(Int64(Limits.deviceBytesMax)), "pattern": #"^[^\u0000-\u001F\u007F-\u009F]*$"#,
                    "description":
                        "A login of the same user, platform and device replaces the session before it. Empty for an unnamed device.",
                ]),
            parameter(
                "customStatus",
                Schema.text(
                    bytesMax: Policy().customStatusBytesMax,
                    "Custom status to set at login; an empty text leaves the status as it is. Refused with 7013 where the plan does not cover it."
                )),
            parameter(
                "pushReachable",
                [
                    "type": "boolean",
                    "description": """
                    True if vendor push reaches the device. Where state.pushReachableStaysOnline is on, the user then stays ONLINE when the \
                    session is disconnected: until the device logs in again without this parameter, a logout, a kick, or 15 to 30 days later.
                    """,
                ]),
            parameter("asUser", Schema.described(Schema.reference("UserID"), "User of the session; only for tokens with role \"admin\".")),
            parameter(
                "ticket", Schema.described(Schema.string, "Ticket of streamTicket, in place of the header Authorization; opens one stream.")
            ),
            parameter("lastEventID", Schema.described(Schema.string, "As the header Last-Event-ID, for clients that cannot set it.")),
            parameter(
                "comments",
                [
                    "type": "boolean",
                    "description": "True for comments on an idle HTTP/2 stream, every heartbeatInterval. A stream with a ticket has them.",
                ]),
            parameter(
                "heartbeat",
                [
                    "type": "integer", "minimum": .integer(EventStreamQuery.heartbeatSeconds.lowerBound),
                    "maximum": .integer(EventStreamQuery.heartbeatSeconds.upperBound),
                    "description": """
                    Seconds between two comments, also over HTTP/2: a client that receives none for longer knows that its node or its \
                    network stands still. The node's heartbeatInterval is the longest. onConnected has the interval that is in force.
                    """,
                ]),
            parameter(
                "alive",
                [
                    "type": "string", "enum": ["client"],
                    "description": """
                    A promise: the client itself shows within each heartbeatTimeout that it runs, by alive or another call with its \
                    sessionID. Otherwise the session is disconnected, though a kernel or a proxy answers for the connection.
                    """,
                ]),
            parameter(
                "presence",
                [
                    "type": "string", "enum": ["none"],
                    "description": """
                    none: the stream hears without being seen. It receives what the sessions of the user receive, is no session, and \
                    changes no status; customStatus and pushReachable have no effect. A user has at most \(Limits.listenersPerUserMax) \
                    such streams.
                    """,
                ]),
            parameter(
                "Last-Event-ID", in: "header",
                Schema.described(
                    Schema.string,
                    "The id of the last event of an earlier stream, to resume after it. Any other text starts without resuming.")),
        ],
        "responses": answers(
            ["description": "The stream.", "content": ["text/event-stream": ["schema": ["oneOf": .array(streamEvents.map(\.envelope))]]]],
            [.notAllowed, .rateLimited]),
    ]

    private static func parameter(_ name: String, in place: String = "query", _ schema: JSONValue) -> JSONValue {
        ["name": .string(name), "in": .string(place), "required": false, "schema": schema]
    }

    /// A server-sent event and the schema of its data.
    struct StreamEvent {
        let name: String
        let summary: String
        let data: JSONValue

        /// The event in the form in which it is in the stream.
        var envelope: JSONValue {
            Schema.object(
                [
                    Schema.required("event", ["type": "string", "const": .string(name)]),
                    Schema.required("id", ["type": "string", "pattern": "^[0-9]+$"]),
                    Schema.required(
                        "data",
                        ["type": "string", "contentMediaType": "application/json", "contentSchema": Schema.reference(name)]),
                ], besides: [.init(name: "description", value: .string(summary))])
        }
    }

    /// The fields that name a subscription of `onSubscriptionChangedOnOtherDevices`.
    private static let followed = [
        Schema.required("userID", Schema.reference("UserID")), Schema.required("subscribeType", Schema.integer),
    ]

    /// All events of the stream.
    static let streamEvents: [StreamEvent] =
        [
            StreamEvent(
                name: "onConnected", summary: "Always first.",
                data: Schema.object([
                    Schema.required("sessionID", ["type": "string", "pattern": "^[0-9a-f]{24}$"]),
                    Schema.required("userID", Schema.reference("UserID")), Schema.required("node", Schema.string),
                    Schema.required("heartbeatInterval", Schema.described(Schema.integer, "Seconds.")),
                    Schema.required(
                        "heartbeatTimeout",
                        Schema.described(Schema.integer, "Seconds without a sign of life after which the session is disconnected.")),
                    Schema.required("serverTime", Schema.time),
                ])),
            StreamEvent(
                name: "onUserStatusChanged",
                summary: "Complete records of the user and of the users whom it follows. At login they arrive in batches of up to 50.",
                data: Schema.object([Schema.required("userStatusList", Schema.statuses)])),
            StreamEvent(
                name: "onSubscriptionSyncCompleted",
                summary: "Sent once for each type of subscription, after all records of that type, users who never logged in included.",
                data: Schema.object([Schema.required("subscribeType", Schema.integer)])),
            StreamEvent(
                name: "onSubscriptionChangedOnOtherDevices",
                summary: "Another session of the user, the back end or a new quota changed the subscriptions.",
                data: Schema.object([
                    Schema.required("subscribed", Schema.list(of: Schema.reference("UserID"))),
                    Schema.required("unsubscribed", Schema.list(of: Schema.reference("UserID"))),
                    Schema.required(
                        "subscriptions",
                        Schema.list(of: Schema.object(followed + [Schema.sometimes("expiresAt", Schema.time)]))),
                    Schema.required("unsubscriptions", Schema.list(of: Schema.object(followed))),
                ])),
            StreamEvent(
                name: "onSubscriptionExpired",
                summary: "Subscriptions expired. Sent only where subscription.notifyExpiry is on, and only to open sessions.",
                data: Schema.object([Schema.required("userIDs", Schema.list(of: Schema.reference("UserID")))])),
            StreamEvent(
                name: "onKickedOffline", summary: "The cluster ended the session. The stream ends after this event.",
                data: Schema.object([
                    Schema.required(
                        "reason",
                        Schema.described(
                            Schema.string,
                            "kicked, or the reason given with the kick; replaced: a newer login replaced the session (login.multiClient); tokenExpired; policy."
                        ))
                ])),
            StreamEvent(
                name: "onLogout",
                summary: "The user logged this session out, from this or another session. The stream ends after this event.",
                data: ["type": "object"]),
            StreamEvent(
                name: "onSessionsChanged",
                summary: "The user's open sessions have changed. A session is also sent it after its login, if the user has others.",
                data: Schema.object([Schema.required("sessions", Schema.list(of: Schema.object(Schema.ownSession)))])),
            StreamEvent(
                name: "onTokenExpiring",
                summary:
                    "The token of the session ends within 30 s. Call renew with a newer token: the session ends token.grace after the token.",
                data: Schema.object([Schema.required("expiresAt", Schema.time)])),
            StreamEvent(
                name: "onReconnectHint", summary: "This node is draining. Open another stream, then close this one.",
                data: Schema.object([
                    Schema.required("reason", Schema.string), Schema.required("afterMilliseconds", ["type": "integer", "minimum": 0]),
                ])),
        ] + relationshipEvents

    /// The sequences of a list before and after an event.
    private static let sequences = [
        Schema.required("fromSeq", Schema.described(Schema.string, "The sequence before. A client that holds another one fetches.")),
        Schema.required("seq", Schema.described(Schema.string, "The sequence after. Clients compare it for equality.")),
    ]
    private static let unreadCount = Schema.required("unreadCnt", Schema.unreadCount)
    private static let userIDs = Schema.required("userIDs", Schema.list(of: Schema.reference("UserID")))

    /// The events of the relationship chain (P38–P43). Every device of a user receives them.
    ///
    /// Those about lists come after the change is on two disks.
    private static let relationshipEvents: [StreamEvent] = [
        StreamEvent(
            name: "onRelationshipState",
            summary: "The newest sequences of the user: at each login, and if an event may have been lost. Sent where chain.enabled is on.",
            data: Schema.object([
                Schema.required("friendSeq", Schema.string), Schema.required("pendencySeq", Schema.string),
                Schema.required("groupsVersion", Schema.string), Schema.required("blockVersion", Schema.string), unreadCount,
                Schema.required("profileVersion", Schema.string),
            ])),
        StreamEvent(
            name: "onFriendListAdded", summary: "Friends were added to the user's list.",
            data: Schema.object([Schema.required("friendList", Schema.list(of: Schema.friend))] + sequences)),
        StreamEvent(
            name: "onFriendInfoChanged", summary: "The entries of friends in the user's list have changed.",
            data: Schema.object([Schema.required("friendList", Schema.list(of: Schema.friend))] + sequences)),
        StreamEvent(
            name: "onFriendListDeleted", summary: "Friends were removed from the user's list.",
            data: Schema.object([userIDs] + sequences)),
        StreamEvent(
            name: "onFriendApplicationListAdded", summary: "The user has received or sent friend requests.",
            data: Schema.object(
                [
                    Schema.required("pendencyList", Schema.list(of: Schema.friendRequest))
                ] + sequences + [unreadCount])),
        StreamEvent(
            name: "onFriendApplicationListDeleted", summary: "Requests that the user has received (type 1) or sent (type 2) have ended.",
            data: Schema.object([userIDs, Schema.required("type", Schema.requestKind)] + sequences + [unreadCount])),
        StreamEvent(
            name: "onFriendApplicationListRead", summary: "The user has read the received requests up to a time.",
            data: Schema.object([Schema.required("timestamp", Schema.time), unreadCount])),
        StreamEvent(name: "onBlackListAdded", summary: "The user has blocked these users.", data: Schema.object([userIDs] + sequences)),
        StreamEvent(
            name: "onFriendGroupsChanged", summary: "Groups of friends, or the friends of a group, have changed. Names all groups.",
            data: Schema.object([
                Schema.required(
                    "groupList",
                    Schema.list(
                        of: Schema.object([
                            Schema.required("name", Schema.string), Schema.required("userCnt", ["type": "integer", "minimum": 0]),
                            Schema.sometimes(
                                "userIDs",
                                Schema.described(
                                    Schema.list(of: Schema.reference("UserID")), "Absent if the groups have more than 1,000 friends.")),
                        ]))),
                Schema.required("seq", Schema.described(Schema.string, "The sequence after: groupsVersion of onRelationshipState.")),
            ])),
        StreamEvent(
            name: "onUserProfileChanged",
            summary: "The profile of the user, of a friend or of a user to whose profile it subscribes has changed. The client fetches it.",
            data: Schema.object([
                Schema.required("userID", Schema.reference("UserID")),
                Schema.required("profileVersion", Schema.described(Schema.string, "The version of the profile.")),
            ])),
        StreamEvent(name: "onBlackListDeleted", summary: "The user has unblocked these users.", data: Schema.object([userIDs] + sequences)),
    ]
}
