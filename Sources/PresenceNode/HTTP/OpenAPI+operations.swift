import PresenceWire

extension OpenAPI {
    private static let standard = Policy()
    private static let expiry = Schema.integer(standard.subscriptionSecondsMin...standard.subscriptionSecondsMax, "Seconds.")
    private static let asUser = Schema.optional(
        "asUser", Schema.described(Schema.reference("UserID"), "User for whom the call is made; only for tokens with role \"admin\"."))

    /// The operations of ``API``.
    static let operations: [Operation] = [
        setSelfStatus, publishEvent, getUserStatus, subscribeUserStatus, unsubscribeUserStatus, getSubscribedUserStatus, logout,
        setVisibility, getVisibility,
    ]

    private static let setSelfStatus = Operation(
        name: "setSelfStatus", summary: "Sets the caller's custom status; empty or null clears it.",
        request: Schema.object([
            Schema.required("customStatus", Schema.nullable(Schema.text(bytesMax: standard.customStatusBytesMax))),
            Schema.optional(
                "expiry",
                Schema.integer(
                    Limits.customStatusSeconds.lowerBound...standard.customStatusSecondsMax,
                    "Seconds, at most customStatus.ttlMax. Default customStatus.ttl; 0 means until the text is cleared.")),
            asUser,
        ]), isBodyRequired: true,
        answer: Schema.object([Schema.required("userStatus", Schema.reference("UserStatus"))]),
        refusals: [.notAllowed, .noSuchUser, .rateLimited])

    private static let publishEvent = Operation(
        name: "publishEvent", summary: "Publishes an event: a numeric status that the app defines.",
        request: Schema.object([
            Schema.required("value", Schema.integer(Limits.eventValueMin...Int64(Int32.max), "Smaller values are reserved.")),
            Schema.optional("ext", Schema.text(bytesMax: Limits.eventBytesMax)),
            Schema.optional("expiry", Schema.integer(Limits.eventSeconds, "Seconds; \(Limits.eventSeconds.upperBound) by default.")),
            Schema.optional(
                "sendToOnlineUsersOnly",
                Schema.described(Schema.bool, "Default true. With false, sessions that log in later raise the event as well.")),
            Schema.optional(
                "syncEnabled",
                Schema.described(
                    Schema.bool, "Default true. With false, the publisher's other sessions receive the event and do not raise it.")),
            Schema.optional(
                "sessionID",
                Schema.described(
                    sessionID,
                    "The session that publishes, from onConnected. Default: the only session of the user on the connection, else on the node, "
                        + "else in the cluster; where there are several, no session.")), asUser,
        ]), isBodyRequired: true,
        answer: Schema.object([
            Schema.required("eventID", Schema.string), Schema.required("userStatus", Schema.reference("UserStatus")),
        ]),
        refusals: [.notAllowed, .noSuchUser, .rateLimited])

    private static let getUserStatus = Operation(
        name: "getUserStatus", summary: "Returns the present status of users.",
        request: Schema.object([Schema.required("userIDs", Schema.users(max: standard.queryUsersMax)), asUser]), isBodyRequired: true,
        answer: Schema.object([
            Schema.required("userStatusList", Schema.statuses), Schema.required("errorUserList", Schema.errors),
            Schema.required("asOf", Schema.described(Schema.time, "Time up to which the answering node knows that the answer is correct.")),
        ]),
        refusals: [.notAllowed, .noSuchUser, .rateLimited])

    private static let subscribeType = Schema.described(
        ["type": "integer", "enum": .array(API.subscribeTypes.map { .integer(Int64($0)) })],
        "1: online status. 3: online status of a friend, until the friendship ends; users who are not friends are listed with 31704.")

    private static let oneType = Schema.optional(
        "subscribeType", Schema.described(subscribeType, "Only subscriptions of this type; default: of all types."))
    private static let sessionID: JSONValue = ["type": "string", "pattern": "^[0-9A-Fa-f]{24}$"]
    private static let originSession = Schema.optional(
        "sessionID",
        Schema.described(
            sessionID,
            "The session that calls, from onConnected; onSubscriptionChangedOnOtherDevices goes to the user's other sessions. Default: the only "
                + "session of the user on the connection, else on the node, else in the cluster; where there are several, all receive it."))

    private static let subscribeUserStatus = Operation(
        name: "subscribeUserStatus", summary: "Follows users; their changes then arrive on the event stream.",
        request: Schema.object([
            Schema.required("userIDs", Schema.users(max: standard.subscribeUsersMax)), Schema.optional("expiry", expiry),
            Schema.optional(
                "sync",
                Schema.described(Schema.bool, "True: the answer has the statuses of the users, and the stream then has only newer ones.")),
            Schema.optional("subscribeType", subscribeType), originSession, asUser,
        ]), isBodyRequired: true,
        answer: Schema.object([
            Schema.required("errorUserList", Schema.errors), Schema.required("evicted", Schema.list(of: Schema.reference("UserID"))),
            Schema.sometimes("userStatusList", Schema.statuses),
        ]),
        refusals: [.notAllowed, .noSuchUser, .rateLimited])

    /// Either some users or all of them.
    private static let unsubscribeUserStatus = Operation(
        name: "unsubscribeUserStatus", summary: "Ends the subscriptions to some users, or all subscriptions.",
        request: [
            "anyOf": [
                Schema.object([
                    Schema.required("userIDs", Schema.users(max: standard.unsubscribeUsersMax)),
                    Schema.sometimes("all", ["anyOf": [["type": "boolean", "const": false], ["type": "null"]]]), oneType, originSession,
                    asUser,
                ]),
                Schema.object([
                    Schema.required("all", ["type": "boolean", "const": true]), Schema.sometimes("userIDs", ["type": "null"]), oneType,
                    originSession,
                    asUser,
                ]),
            ]
        ], isBodyRequired: true,
        answer: Schema.object([Schema.required("errorUserList", Schema.errors)]), refusals: [.notAllowed, .noSuchUser, .rateLimited])

    private static let getSubscribedUserStatus = Operation(
        name: "getSubscribedUserStatus", summary: "Returns the caller's subscriptions.",
        request: Schema.object([
            Schema.optional("userIDs", Schema.users(min: 0, max: standard.queryUsersMax)),
            Schema.optional("offset", Schema.integer(0...Int64(Int32.max), "Number of subscriptions to skip.")),
            Schema.optional("limit", Schema.integer(1...Int64(Limits.pageRowsMax), "Most subscriptions to return; default: all.")), oneType,
            asUser,
        ]),
        answer: Schema.object([
            Schema.required("subscriptions", Schema.list(of: Schema.reference("Subscription"))),
            Schema.required("total", ["type": "integer", "minimum": 0]),
            Schema.required(
                "errorUserList",
                Schema.described(Schema.errors, "Users whose owner cannot be reached: 50001. Their subscriptions lack userStatus.")),
        ]),
        refusals: [.notAllowed, .noSuchUser, .rateLimited])

    private static let logout = Operation(
        name: "logout", summary: "Ends one session of the user, or all sessions. After the last one the user is UNLOGINED.",
        request: Schema.object([
            Schema.optional(
                "sessionID", Schema.described(sessionID, "The session to end, from onConnected; default: every session of the user.")),
            asUser,
        ]),
        answer: ["type": "object"], refusals: [.noSuchUser])

    private static let modes: JSONValue = [
        "type": "string", "enum": .array(Visibility.Mode.allCases.map { .string($0.rawValue) }),
        "description":
            "Viewers who may see the user. To all others the user appears OFFLINE since the time of hiding.",
    ]
    private static let visibility = Schema.object([
        Schema.required("visibility", modes), Schema.required("userIDs", Schema.list(of: Schema.reference("UserID"))),
        Schema.required("invisible", Schema.bool),
    ])

    private static let setVisibility = Operation(
        name: "setVisibility", summary: "Sets who may see the caller's status; absent fields keep their value.",
        request: Schema.object([
            Schema.optional("visibility", modes),
            Schema.optional(
                "userIDs",
                Schema.described(
                    ["type": "array", "maxItems": .integer(Int64(Limits.visibilityUsersMax)), "items": Schema.reference("UserID")],
                    "Users who may see the caller with visibility \"list\".")),
            Schema.optional("invisible", Schema.described(Schema.bool, "True: no other user may see the caller, whatever visibility is.")),
            asUser,
        ]),
        answer: visibility, refusals: [.noSuchUser, .rateLimited])

    private static let getVisibility = Operation(
        name: "getVisibility", summary: "Returns who may see the caller's status.", request: Schema.object([asUser]), answer: visibility,
        refusals: [.noSuchUser])

    /// `GET /openapi.json`.
    static let ownDescription: JSONValue = [
        "operationId": "openAPI", "summary": "This document.", "tags": ["status"], "security": [],
        "responses": ["200": ["description": "OpenAPI 3.1.", "content": ["application/json": ["schema": ["type": "object"]]]]],
    ]
}
