import PresenceCore
import PresenceWire

extension OpenAPI {
    private static let app = Schema.optional(
        "app", Schema.described(Schema.reference("UserID"), "The app; only the app of the token, which is the default."))

    /// The operations of ``AdminAPI``.
    static let operatorOperations: [Operation] = [
        Operation(
            name: "clusterStatus", summary: "Returns the members of the cluster as this node sees them.", request: Schema.object([]),
            answer: Schema.object([
                Schema.required("node", Schema.string),
                Schema.required("members", Schema.list(of: Schema.reference("ClusterMember"))),
            ])),
        Operation(
            name: "drain", summary: "Moves the node's slots and clients to the other nodes. Has no effect without another node.",
            request: Schema.object([]), answer: Schema.object([Schema.required("isDraining", Schema.bool)])),
        Operation(
            name: "forget", summary: "Removes a dead member that will not return. Until then it counts towards the quorum of every node.",
            request: Schema.object([
                Schema.required("node", Schema.text(bytesMax: Limits.nameBytesMax, "Name of the member, from clusterStatus."))
            ]), isBodyRequired: true, answer: ["type": "object"], refusals: [.noSuchNode, .nodeIsAlive]),
        Operation(
            name: "getAppPolicy", summary: "Returns the app's preset and the values of all settings.", request: Schema.object([app]),
            answer: Schema.reference("AppPolicy")),
        Operation(
            name: "setAppPolicy",
            summary:
                "Changes the app's policy on all nodes. A preset discards individual overrides; a setting overrides it; null ends an override.",
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
            summary: "Registers users, where users.mustBeRegistered is on. A user who logs in is registered without an import.",
            request: Schema.object([Schema.required("userIDs", Schema.users(max: Limits.importUsersMax))]), isBodyRequired: true,
            answer: Schema.object([Schema.required("errorUserList", Schema.errors)])),
        Operation(
            name: "queryOnlineStatus",
            summary: "Returns the records of users without the restrictions of the app's policy and of visibility.",
            request: Schema.object([Schema.required("userIDs", Schema.users(max: Limits.queryUsersMax))]), isBodyRequired: true,
            answer: Schema.object([
                Schema.required("userStatusList", Schema.statuses), Schema.required("errorUserList", Schema.errors),
                Schema.required("asOf", Schema.time),
            ])),
        Operation(
            name: "kick", summary: "Ends all sessions of a user and refuses tokens that were issued before.",
            request: Schema.object([
                Schema.required("userID", Schema.reference("UserID")),
                Schema.optional("reason", Schema.text(bytesMax: Limits.nameBytesMax, "Reason in onKickedOffline; default \"kicked\".")),
            ]), isBodyRequired: true, answer: ["type": "object"], refusals: [.noSuchUser]),
        Operation(
            name: "explain", summary: "Explains what a viewer sees of a target, with the parts of the answer from each node that has one.",
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
                "description": "Seconds without a sign of life after which a session of the platform is disconnected.",
            ]
        case .word(let words): ["type": "string", "enum": .array(words.map { .string($0) })]
        }
    }

    static let appPolicy = Schema.object([
        Schema.required("app", Schema.reference("UserID")), Schema.required("preset", preset),
        Schema.required("settings", Schema.object(Policy.settingDescriptions.map { Schema.required($0.name, schema(of: $0.shape)) })),
        Schema.required("version", Schema.string),
    ])

    private static let states: [JSONValue] = ClusterStatus.MemberState.allCases.map { .string($0.rawValue) }

    static let clusterMember = Schema.object([
        Schema.required("node", Schema.string), Schema.required("state", ["type": "string", "enum": .array(states)]),
        Schema.required("address", Schema.string), Schema.required("weight", Schema.integer), Schema.required("slotsOwned", Schema.integer),
        Schema.required("startedAt", Schema.time),
    ])

    // MARK: Probes

    /// The paths that orchestrators and Prometheus read.
    static let probes: [(path: String, description: JSONValue)] = [
        ("/healthz", probe("healthz", "Tells whether the process is alive.", [("200", "The process is alive.")])),
        (
            "/readyz",
            probe(
                "readyz", "Tells whether the node serves clients.",
                [("200", "The node serves."), ("503", "The node does not serve now; the text says why.")])
        ),
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
