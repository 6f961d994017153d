import PresenceWire

extension OpenAPI {
    /// `GET /v1/events`.
    static let events: JSONValue = [
        "operationId": "events", "summary": "Opens the event stream: the open stream is the session.", "tags": ["status"],
        "description": """
        The user is ONLINE while at least one stream is open. A stream that ends with its connection is lost: the user is OFFLINE. \
        A stream that ends by logout leaves the user UNLOGINED. Data of an event is JSON on one line. The node sends comments (lines that \
        begin with a colon) on HTTP/1.1 connections and PINGs on HTTP/2 connections; after heartbeatTimeout without a sign of life the \
        session is lost.

        A UserStatus carries the event in force to everybody who may see the user, on each path: the stream, an answer, a resumed stream, a \
        login. The client decides whether to raise it:
        - An event of another session of the same user (event.sessionID is not that of onConnected) is raised only if syncEnabled is true.
        - An event with sendToOnlineUsersOnly is raised only if publishedAt is later than onConnected.serverTime.
        - Each eventID is raised once. That holds for loginEvent, too.
        """,
        "parameters": [
            parameter(
                "platform",
                [
                    "type": "string", "minLength": 1, "maxLength": .integer(Int64(Limits.platformBytesMax)),
                    "pattern": .string(platformPattern), "description": "What others see among onlinePlatforms.",
                ]),
            parameter(
                "deviceID",
                [
                    "type": "string", "maxLength": .integer(Int64(Limits.deviceBytesMax)),
                    "x-utf8BytesMax": .integer(Int64(Limits.deviceBytesMax)), "pattern": #"^[^\u0000-\u001F\u007F-\u009F]*$"#,
                ]),
            parameter(
                "customStatus",
                Schema.text(
                    bytesMax: Policy().customStatusBytesMax,
                    "The login sets it; an empty text leaves the status as it is. Refused with 7013 where the plan does not cover it.")),
            parameter(
                "pushReachable",
                [
                    "type": "boolean",
                    "description": """
                    Vendor push reaches the device. Where state.pushReachableStaysOnline is on, the user then stays ONLINE when the session \
                    is lost: until the device logs in again without it, a logout, a kick, or 15 to 30 days have passed.
                    """,
                ]),
            parameter("asUser", Schema.described(Schema.reference("UserID"), "Whose stream it is; for tokens with role \"admin\" only.")),
            parameter(
                "Last-Event-ID", in: "header",
                Schema.described(Schema.string, "The id of the last event of another stream: resumes there. Another text resumes nothing.")),
        ],
        "responses": answers(
            ["description": "The stream.", "content": ["text/event-stream": ["schema": ["oneOf": .array(streamEvents.map(\.envelope))]]]],
            [.notAllowed, .tooOften]),
    ]

    static let platformPattern = "^[A-Za-z0-9._-]+$"

    private static func parameter(_ name: String, in place: String = "query", _ schema: JSONValue) -> JSONValue {
        ["name": .string(name), "in": .string(place), "required": false, "schema": schema]
    }

    /// A server-sent event and the schema of its data.
    struct StreamEvent {
        let name: String
        let summary: String
        let data: JSONValue

        /// The event as it stands in the stream.
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
    static let streamEvents: [StreamEvent] = [
        StreamEvent(
            name: "onConnected", summary: "Always first.",
            data: Schema.object([
                Schema.required("sessionID", ["type": "string", "pattern": "^[0-9a-f]{24}$"]),
                Schema.required("userID", Schema.reference("UserID")), Schema.required("node", Schema.string),
                Schema.required("heartbeatInterval", Schema.described(Schema.integer, "Seconds.")),
                Schema.required(
                    "heartbeatTimeout", Schema.described(Schema.integer, "Seconds of silence after which the session is lost.")),
                Schema.required("serverTime", Schema.time),
            ])),
        StreamEvent(
            name: "onUserStatusChanged",
            summary: "Whole records: the user's own, and those of the users whom it follows. At login they come in batches of up to 50.",
            data: Schema.object([Schema.required("userStatusList", Schema.statuses)])),
        StreamEvent(
            name: "onSubscriptionSyncCompleted",
            summary: "Once for each type that the user follows: everything of that type has been told, users never seen included.",
            data: Schema.object([Schema.required("subscribeType", Schema.integer)])),
        StreamEvent(
            name: "onSubscriptionChangedOnOtherDevices", summary: "Another session of the user has changed what the user follows.",
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
            summary: "Subscriptions have run out; only where subscription.notifyExpiry is on, and only to sessions that are open then.",
            data: Schema.object([Schema.required("userIDs", Schema.list(of: Schema.reference("UserID")))])),
        StreamEvent(
            name: "onKickedOffline", summary: "The cluster has ended the session. The stream ends after it.",
            data: Schema.object([
                Schema.required(
                    "reason",
                    Schema.described(
                        Schema.string,
                        "kicked, or the text that the kick gave; replaced: a newer login took its place (login.multiClient); policy."))
            ])),
        StreamEvent(
            name: "onLogout", summary: "The user logged this session out, here or elsewhere. The stream ends after it.",
            data: ["type": "object"]),
        StreamEvent(
            name: "onReconnectHint", summary: "This node is leaving: open another stream, then drop this one.",
            data: Schema.object([
                Schema.required("reason", Schema.string), Schema.required("afterMilliseconds", ["type": "integer", "minimum": 0]),
            ])),
    ]
}
