import PresenceWire

extension OpenAPI {
    private static let standard = Policy()
    private static let expiry = Schema.integer(standard.subscriptionSecondsMin...standard.subscriptionSecondsMax, "Seconds.")
    private static let asUser = Schema.optional(
        "asUser", Schema.described(Schema.reference("UserID"), "Whom the call is about; for tokens with role \"admin\" only."))

    /// The operations of ``API``.
    static let operations: [Operation] = [
        setSelfStatus, publishEvent, getUserStatus, subscribeUserStatus, unsubscribeUserStatus, getSubscribedUserStatus, logout,
        setVisibility, getVisibility,
    ]

    private static let setSelfStatus = Operation(
        name: "setSelfStatus", summary: "Sets the own custom status; empty or null clears it.",
        request: Schema.object([
            Schema.required("customStatus", Schema.nullable(Schema.text(bytesMax: standard.customStatusBytesMax))),
            Schema.optional(
                "expiry",
                Schema.integer(
                    Limits.customStatusSeconds.lowerBound...standard.customStatusSecondsMax,
                    "Seconds, at most customStatus.ttlMax. Without it customStatus.ttl; where that is 0, until the text is cleared.")),
            asUser,
        ]), isBodyRequired: true,
        answer: Schema.object([Schema.required("userStatus", Schema.reference("UserStatus"))]),
        refusals: [.notAllowed, .noSuchUser, .tooOften])

    private static let publishEvent = Operation(
        name: "publishEvent", summary: "Publishes a numeric status of the app's own.",
        request: Schema.object([
            Schema.required("value", Schema.integer(Limits.eventValueMin...Int64(Int32.max), "Smaller values are the system's.")),
            Schema.optional("ext", Schema.text(bytesMax: Limits.eventBytesMax)),
            Schema.optional("expiry", Schema.integer(Limits.eventSeconds, "Seconds; \(Limits.eventSeconds.upperBound) by default.")),
            Schema.optional(
                "sendToOnlineUsersOnly",
                Schema.described(Schema.bool, "True by default. With false, sessions that log in later raise the event, too.")),
            Schema.optional(
                "syncEnabled",
                Schema.described(
                    Schema.bool, "True by default. With false, the publisher's other sessions are told the event and do not raise it.")),
            Schema.optional(
                "sessionID",
                Schema.described(
                    sessionID,
                    "The session that publishes, as onConnected named it. Without it, the only session of the user on the connection, on the "
                        + "node, or at all; where there are several, none.")), asUser,
        ]), isBodyRequired: true,
        answer: Schema.object([
            Schema.required("eventID", Schema.string), Schema.required("userStatus", Schema.reference("UserStatus")),
        ]),
        refusals: [.notAllowed, .noSuchUser, .tooOften])

    private static let getUserStatus = Operation(
        name: "getUserStatus", summary: "Asks for the status of users as it is now.",
        request: Schema.object([Schema.required("userIDs", Schema.users(max: standard.queryUsersMax)), asUser]), isBodyRequired: true,
        answer: Schema.object([
            Schema.required("userStatusList", Schema.statuses), Schema.required("errorUserList", Schema.errors),
            Schema.required("asOf", Schema.described(Schema.time, "The time up to which the answering node knows the answer to be right.")),
        ]),
        refusals: [.notAllowed, .noSuchUser, .tooOften])

    private static let subscribeType = Schema.described(
        ["type": "integer", "enum": .array(API.subscribeTypes.map { .integer(Int64($0)) })],
        "1 the online status; 3 the online status of a friend, until the friendship ends. Who is no friend is in errorUserList: 31704.")

    private static let oneType = Schema.optional(
        "subscribeType", Schema.described(subscribeType, "Only the subscriptions of this type; without it of any."))
    private static let sessionID: JSONValue = ["type": "string", "pattern": "^[0-9A-Fa-f]{24}$"]
    private static let asker = Schema.optional(
        "sessionID",
        Schema.described(
            sessionID,
            "The session that asks, as onConnected told it: onSubscriptionChangedOnOtherDevices is for the others. Without it that is the only "
                + "one of the user on the connection, on the node, or at all; where there are several, all of them are told."))

    private static let subscribeUserStatus = Operation(
        name: "subscribeUserStatus", summary: "Follows users: their changes arrive on the event stream.",
        request: Schema.object([
            Schema.required("userIDs", Schema.users(max: standard.subscribeUsersMax)), Schema.optional("expiry", expiry),
            Schema.optional("sync", Schema.described(Schema.bool, "Answer with the users' statuses; the stream then tells what is newer.")),
            Schema.optional("subscribeType", subscribeType), asker, asUser,
        ]), isBodyRequired: true,
        answer: Schema.object([
            Schema.required("errorUserList", Schema.errors), Schema.required("evicted", Schema.list(of: Schema.reference("UserID"))),
            Schema.sometimes("userStatusList", Schema.statuses),
        ]),
        refusals: [.notAllowed, .noSuchUser, .tooOften])

    /// Either some users or all of them.
    private static let unsubscribeUserStatus = Operation(
        name: "unsubscribeUserStatus", summary: "Follows some users no more, or nobody.",
        request: [
            "anyOf": [
                Schema.object([
                    Schema.required("userIDs", Schema.users(max: standard.unsubscribeUsersMax)),
                    Schema.sometimes("all", ["anyOf": [["type": "boolean", "const": false], ["type": "null"]]]), oneType, asker, asUser,
                ]),
                Schema.object([
                    Schema.required("all", ["type": "boolean", "const": true]), Schema.sometimes("userIDs", ["type": "null"]), oneType,
                    asker,
                    asUser,
                ]),
            ]
        ], isBodyRequired: true,
        answer: Schema.object([Schema.required("errorUserList", Schema.errors)]), refusals: [.notAllowed, .noSuchUser, .tooOften])

    private static let getSubscribedUserStatus = Operation(
        name: "getSubscribedUserStatus", summary: "Asks whom one follows.",
        request: Schema.object([
            Schema.optional("userIDs", Schema.users(min: 0, max: standard.queryUsersMax)),
            Schema.optional("offset", Schema.integer(0...Int64(Int32.max), "Rows already returned.")),
            Schema.optional("limit", Schema.integer(1...Int64(Limits.pageRowsMax), "Rows of the page; without it all.")), oneType, asUser,
        ]),
        answer: Schema.object([
            Schema.required("subscriptions", Schema.list(of: Schema.reference("Subscription"))),
            Schema.required("total", ["type": "integer", "minimum": 0]),
            Schema.required(
                "errorUserList", Schema.described(Schema.errors, "Users whose owner cannot be reached: 50001. Their rows lack userStatus.")),
        ]),
        refusals: [.notAllowed, .noSuchUser, .tooOften])

    private static let logout = Operation(
        name: "logout", summary: "Ends a session of the user, or all of them: UNLOGINED.",
        request: Schema.object([
            Schema.optional("sessionID", Schema.described(sessionID, "As onConnected told it; without it every session.")), asUser,
        ]),
        answer: ["type": "object"], refusals: [.noSuchUser])

    private static let modes: JSONValue = [
        "type": "string", "enum": .array(Visibility.Mode.allCases.map { .string($0.rawValue) }),
        "description":
            "Who may see the user. To all others she looks as if she had gone OFFLINE when she hid from them, and had stayed so.",
    ]
    private static let visibility = Schema.object([
        Schema.required("visibility", modes), Schema.required("userIDs", Schema.list(of: Schema.reference("UserID"))),
        Schema.required("invisible", Schema.bool),
    ])

    private static let setVisibility = Operation(
        name: "setVisibility", summary: "Says who may see one's status; what is left out stays as it is.",
        request: Schema.object([
            Schema.optional("visibility", modes),
            Schema.optional(
                "userIDs",
                Schema.described(
                    ["type": "array", "maxItems": .integer(Int64(Limits.visibilityUsersMax)), "items": Schema.reference("UserID")],
                    "Who may with \"list\".")),
            Schema.optional("invisible", Schema.described(Schema.bool, "For now nobody may, whatever visibility says.")), asUser,
        ]),
        answer: visibility, refusals: [.noSuchUser, .tooOften])

    private static let getVisibility = Operation(
        name: "getVisibility", summary: "Asks who may see one's status.", request: Schema.object([asUser]), answer: visibility,
        refusals: [.noSuchUser])

    /// `GET /openapi.json`.
    static let ownDescription: JSONValue = [
        "operationId": "openAPI", "summary": "This document.", "tags": ["status"], "security": [],
        "responses": ["200": ["description": "OpenAPI 3.1.", "content": ["application/json": ["schema": ["type": "object"]]]]],
    ]
}
