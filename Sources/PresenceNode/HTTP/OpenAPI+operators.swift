import PresenceCore
import PresenceWire

extension OpenAPI {
    private static let app = Schema.optional(
        "app", Schema.described(Schema.reference("UserID"), "The app; only that of the token, which is the default."))

    /// The operations of ``AdminAPI``.
    static let operatorOperations: [Operation] = [
        Operation(
            name: "clusterStatus", summary: "The members of the cluster, as this node knows them.", request: Schema.object([]),
            answer: Schema.object([
                Schema.required("node", Schema.string),
                Schema.required("members", Schema.list(of: Schema.reference("ClusterMember"))),
            ])),
        Operation(
            name: "drain", summary: "Gives the node's users and clients to others, and ends it; of no effect without another node.",
            request: Schema.object([]), answer: Schema.object([Schema.required("isDraining", Schema.bool)])),
        Operation(
            name: "forget", summary: "Says that a member that is dead will not come back: it is missed no longer, on any node.",
            request: Schema.object([
                Schema.required("node", Schema.text(bytesMax: Limits.nameBytesMax, "The member's name, as clusterStatus tells it."))
            ]), isBodyRequired: true, answer: ["type": "object"], refusals: [.noSuchNode, .nodeIsAlive]),
        Operation(
            name: "getAppPolicy", summary: "The app's preset and the values of all settings.", request: Schema.object([app]),
            answer: Schema.reference("AppPolicy")),
        Operation(
            name: "setAppPolicy",
            summary: "Changes the app's policy on all nodes: a preset drops all single settings, a setting overrides, null drops it.",
            request: Schema.object([
                app, Schema.optional("preset", preset),
                Schema.optional(
                    "settings",
                    Schema.object(
                        Policy.settingDescriptions.map { Schema.optional($0.name, schema(of: $0.shape)) },
                        besides: [.init(name: "additionalProperties", value: false)])),
            ]),
            answer: Schema.reference("AppPolicy")),
        Operation(
            name: "importUsers",
            summary: "Says that there are such users, where users.mustBeRegistered asks for it; who logs in need not be imported.",
            request: Schema.object([Schema.required("userIDs", Schema.users(max: Limits.importUsersMax))]), isBodyRequired: true,
            answer: Schema.object([Schema.required("errorUserList", Schema.errors)])),
        Operation(
            name: "queryOnlineStatus", summary: "The records of users as they are, whatever the app's policy shows to others.",
            request: Schema.object([Schema.required("userIDs", Schema.users(max: Limits.queryUsersMax))]), isBodyRequired: true,
            answer: Schema.object([
                Schema.required("userStatusList", Schema.statuses), Schema.required("errorUserList", Schema.errors),
                Schema.required("asOf", Schema.time),
            ])),
        Operation(
            name: "kick", summary: "Ends a user's sessions; tokens that were issued before are not taken any more.",
            request: Schema.object([
                Schema.required("userID", Schema.reference("UserID")),
                Schema.optional("reason", Schema.text(bytesMax: Limits.nameBytesMax, "Told by onKickedOffline.")),
            ]), isBodyRequired: true, answer: ["type": "object"], refusals: [.noSuchUser]),
        Operation(
            name: "explain", summary: "Why a viewer is shown what it is shown of a target: what each node that knows a part says.",
            request: Schema.object([
                Schema.required("viewer", Schema.reference("UserID")), Schema.required("target", Schema.reference("UserID")),
            ]), isBodyRequired: true,
            answer: Schema.object([
                Schema.required("viewer", Schema.reference("UserID")), Schema.required("target", Schema.reference("UserID")),
                Schema.required("preset", preset), Schema.sometimes("ownerOfTarget", ["type": "object"]),
                Schema.sometimes("ownerOfViewer", ["type": "object"]), Schema.required("nodes", Schema.list(of: ["type": "object"])),
            ])),
    ]

    private static let preset: JSONValue = ["type": "string", "enum": .array(Policy.Preset.allCases.map { .string($0.rawValue) })]

    private static func schema(of shape: Policy.SettingShape) -> JSONValue {
        switch shape {
        case .bool: Schema.bool
        case .integer(let range): Schema.integer(range)
        case .integerOrZero(let range): ["anyOf": [["type": "integer", "const": 0], Schema.integer(range)]]
        case .rate:
            [
                "anyOf": [
                    Schema.object([
                        Schema.required("calls", Schema.integer(Policy.Rate.callsRange)),
                        Schema.required("seconds", Schema.integer(Policy.Rate.secondsRange)),
                    ]),
                    ["type": "boolean", "const": false],
                ]
            ]
        case .platforms:
            [
                "type": "object", "maxProperties": .integer(Int64(Policy.platformTimeoutsMax)),
                "propertyNames": ["pattern": .string(platformPattern)],
                "additionalProperties": Schema.integer(Policy.PlatformTimeout.secondsRange),
                "description": "Seconds of silence after which a session on a platform is lost.",
            ]
        case .word(let words): ["type": "string", "enum": .array(words.map { .string($0) })]
        }
    }

    static let appPolicy = Schema.object([
        Schema.required("app", Schema.reference("UserID")), Schema.required("preset", preset),
        Schema.required("settings", Schema.object(Policy.settingDescriptions.map { Schema.required($0.name, schema(of: $0.shape)) })),
        Schema.required("version", Schema.string),
    ])

    private static let states: [JSONValue] = NodeStatistics.MemberState.allCases.map { .string($0.rawValue) }

    static let clusterMember = Schema.object([
        Schema.required("node", Schema.string), Schema.required("state", ["type": "string", "enum": .array(states)]),
        Schema.required("address", Schema.string), Schema.required("weight", Schema.integer), Schema.required("slotsOwned", Schema.integer),
        Schema.required("startedAt", Schema.time),
    ])

    // MARK: Probes

    /// What orchestrators and Prometheus ask for.
    static let probes: [(path: String, description: JSONValue)] = [
        ("/healthz", probe("healthz", "Whether the process answers.", [("200", "It does.")])),
        ("/readyz", probe("readyz", "Whether the node serves clients.", [("200", "It does."), ("503", "Not now; the text says why.")])),
        ("/metrics", probe("metrics", "Counters and gauges for Prometheus.", [("200", "Prometheus text, version 0.0.4.")])),
    ]

    private static func probe(_ name: String, _ summary: String, _ answers: [(status: String, description: String)]) -> JSONValue {
        let responses = answers.map { answer in
            JSONValue.Member(
                name: answer.status,
                value: ["description": .string(answer.description), "content": ["text/plain": ["schema": Schema.string]]])
        }
        return [
            "operationId": .string(name), "summary": .string(summary), "tags": ["probes"], "security": [], "responses": .object(responses),
        ]
    }
}
