import PresenceCore
import PresenceWire

extension OpenAPI {
    // MARK: Components

    static let headers: [JSONValue.Member] = [
        .init(
            name: "RetryAfter",
            value: [
                "description": "Seconds after which a retry can succeed; the same as retryAfter in the body.",
                "schema": ["type": "integer", "minimum": 1],
            ]),
        .init(
            name: "RequestID",
            value: [
                "description": "The ID of the request, which each answer has. The node's log names it at the level debug.",
                "schema": ["type": "string"],
            ]),
    ]

    static let responses: [JSONValue.Member] = [
        refused(.badParameter, "A field breaks a rule: 6017; a user ID breaks its rule: 7003. The detail names the field and the rule."),
        refused(
            .notLoggedIn,
            "There is no token, or the token is invalid: 6014. Also setSelfStatus of a user without a session, where customStatus.needsSession is on."
        ),
        refused(.wrongRole, "The token is valid, but its role does not allow the call: 403."),
        refused(
            .notAllowed,
            "The app's plan does not cover the call: 7013. The feature is switched off for the app: 72001. The role of the token does not allow the call: 403."
        ),
        refused(
            .noSuchUser,
            "The user of asUser does not exist, or one of userIDs where errors.shape is wholeCall: 70107. Only where users.mustBeRegistered is on."
        ),
        refused(.noSuchNode, "No member with this name is known: 6017."),
        refused(.nodeIsAlive, "The member is alive: 6017."),
        refused(.invalidKeys, "A setting is invalid: 6017. The previous keys stay in use."),
        refused(.bodyTooSlow, "The request was not complete in time: 6017. Over HTTP/2 the stream is reset."),
        refused(.bodyTooLong, "The body is too long: 6017."),
        refused(.rateLimited, "The caller exceeds a rate: 7008.", retryAfter: true),
        refused(.headerTooLarge, "The header is too large: 6017."),
        refused(
            .unavailable,
            "The owner of a user cannot be reached now, or the keys of the app cannot be fetched: 50001. The node is overloaded: 50002, with Retry-After.",
            retryAfter: false,
            effect: "The call changed nothing, unless mayTakeEffect is true."),
    ]

    /// - Parameters:
    ///   - retryAfter: whether the header is always present; nil if it never is.
    ///   - effect: the changes that the refused call has made.
    private static func refused(
        _ refused: Refused, _ description: String, retryAfter: Bool? = nil, effect: String = "The call changed nothing."
    ) -> JSONValue.Member {
        var members = [JSONValue.Member(name: "description", value: .string("\(description) \(effect)"))]
        var headers = [JSONValue.Member(name: "Request-ID", value: ["$ref": "#/components/headers/RequestID"])]
        if let retryAfter {
            let header: JSONValue =
                retryAfter
                ? ["required": true, "description": "Seconds.", "schema": ["type": "integer", "minimum": 1]]
                : ["$ref": "#/components/headers/RetryAfter"]
            headers.append(.init(name: "Retry-After", value: header))
        }
        members.append(.init(name: "headers", value: .object(headers)))
        members.append(.init(name: "content", value: ["application/problem+json": ["schema": Schema.reference("Problem")]]))
        return .init(name: refused.rawValue, value: .object(members))
    }

    static let schemas: [JSONValue.Member] =
        [
            .init(name: "UserID", value: userID), .init(name: "UserStatus", value: userStatus), .init(name: "Event", value: event),
            .init(name: "Subscription", value: subscription), .init(name: "UserError", value: userError),
            .init(name: "Problem", value: problem), .init(name: "Profile", value: Schema.profile),
            .init(name: "AppPolicy", value: Schema.appPolicy), .init(name: "ClusterMember", value: clusterMember),
        ] + streamEvents.map { .init(name: $0.name, value: $0.data) }

    private static let userID: JSONValue = [
        "type": "string", "minLength": 1, "maxLength": .integer(Int64(Limits.nameBytesMax)),
        "x-utf8BytesMax": .integer(Int64(Limits.nameBytesMax)), "pattern": #"^[^\u0000-\u001F\u007F-\u009F]+$"#,
    ]

    private static let userStatus = Schema.object(
        Record.Field.allCases.flatMap(\.schema) + [
            Schema.sometimes(
                "isUnsure",
                Schema.described(
                    ["type": "boolean", "enum": [true]],
                    "The node may not know better: it does not hear the user's owner, or no majority of the members. Absent otherwise."))
        ])

    private static let event = Schema.object([
        Schema.required(
            "eventID",
            Schema.described(
                Schema.string, "The same at the publisher, at every receiver and at each later login. Raise each eventID once.")),
        Schema.required("value", Schema.integer(Limits.eventValueMin...Int64(Int32.max))),
        Schema.required("ext", Schema.text(bytesMax: Limits.eventBytesMax)), Schema.required("publishedAt", Schema.time),
        Schema.required("expiresAt", Schema.time), Schema.required("sendToOnlineUsersOnly", Schema.bool),
        Schema.required("syncEnabled", Schema.bool),
        Schema.sometimes(
            "sessionID",
            Schema.described(Schema.string, "The session that published the event; only in the user's own records, and only if known.")),
    ])

    private static let subscription = Schema.object([
        Schema.required("userID", Schema.reference("UserID")), Schema.required("subscribeType", Schema.integer),
        Schema.required("subscribedAt", Schema.time), Schema.sometimes("expiresAt", Schema.time),
        Schema.sometimes(
            "userStatus",
            Schema.described(Schema.reference("UserStatus"), "Types 1 and 3. Absent where the owner cannot be reached.")),
        Schema.sometimes(
            "profileVersion", Schema.described(Schema.string, "Types 2 and 4. Absent where the owner cannot be reached.")),
    ])

    private static let userError = Schema.object([
        Schema.required("userID", Schema.string), Schema.required("code", Schema.integer), Schema.required("reason", Schema.string),
    ])

    private static let problem = Schema.object([
        Schema.required("type", ["type": "string", "format": "uri-reference"]), Schema.required("title", Schema.string),
        Schema.required("status", Schema.integer(400...599)), Schema.required("detail", Schema.string),
        Schema.required(
            "code",
            Schema.described(
                Schema.integer,
                "Stable: 6014 not logged in, 6017 bad parameter, 7003 bad user ID, 7008 called too often, 7013 not in the plan, "
                    + "31704 not a friend, 70107 no such user, 72001 switched off, 50001 owner cannot be reached, 50002 overloaded, "
                    + "403 not for this role, 404 no such path, 405 no such method.")),
        Schema.sometimes(
            "mayTakeEffect",
            [
                "type": "boolean", "const": true,
                "description": "Only with 50001: the change was sent, but its acknowledgement is missing, so the change may take effect.",
            ]),
        Schema.sometimes("retryAfter", Schema.described(["type": "integer", "minimum": 1], "Seconds.")),
        Schema.sometimes(
            "errorUserList", Schema.described(Schema.errors, "The users for whom the whole call failed (errors.shape wholeCall).")),
    ])
}

extension Record.Field {
    /// The members of a `UserStatus` that show the field; empty if viewers never see it.
    fileprivate var schema: [Schema.Field] {
        switch self {
        case .user: [Schema.required("userID", Schema.reference("UserID"))]
        case .statusType:
            [
                Schema.required(
                    "statusType",
                    [
                        "type": "string", "enum": .array(StatusType.allCases.map { .string($0.name) } + ["UNKNOWN"]),
                        "description": "UNKNOWN, with lastUpdateTime 0: the own status where self.reportStatus is \"unknown\".",
                    ])
            ]
        case .customStatus: [Schema.required("customStatus", Schema.text(bytesMax: Limits.customStatusBytesMax))]
        case .onlinePlatforms: [Schema.required("onlinePlatforms", Schema.list(of: Schema.text(bytesMax: Limits.platformBytesMax)))]
        case .events:
            [
                Schema.sometimes("event", Schema.described(Schema.reference("Event"), "The newest event in force.")),
                Schema.sometimes(
                    "loginEvent",
                    Schema.described(
                        Schema.reference("Event"),
                        "The newest event in force with sendToOnlineUsersOnly false, if that is not the one in event.")),
            ]
        case .lastUpdateTime, .lastOnlineStatusUpdateTime, .lastCustomStatusUpdateTime, .lastSeenTime:
            [Schema.required(rawValue, Schema.time)]
        case .version:
            [
                Schema.required(
                    "version",
                    Schema.described(
                        Schema.string, "Opaque. Of two versions of one user the one that is larger as text is newer, on all nodes."))
            ]
        case .customStatusExpiresAt, .customStatusHasOwnEnd, .customStatusVersion, .profileVersion, .pushDevices, .isRegistered,
            .knownSince, .privacy:
            []
        }
    }
}
