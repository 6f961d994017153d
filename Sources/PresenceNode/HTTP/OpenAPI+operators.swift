import PresenceCore
import PresenceWire

extension OpenAPI {
    /// The operations of ``AdminAPI``.
    static let operatorOperations: [Operation] =
        [
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
                name: "forget",
                summary: "Removes a dead member that will not return. Until then it counts towards the quorum of every node.",
                request: Schema.object([
                    Schema.required("node", Schema.text(bytesMax: Limits.nameBytesMax, "Name of the member, from clusterStatus."))
                ]), isBodyRequired: true, answer: ["type": "object"], refusals: [.noSuchNode, .nodeIsAlive]),
            Operation(
                name: "recentLoad", summary: "Returns what this node has done in each of the last 300 seconds, oldest first.",
                request: Schema.object([]), answer: recentLoad),
            Operation(
                name: "reloadKeys",
                summary:
                    "Reads the keys of this node's apps again, and fetches their key sets. Open streams stay. Returns the keys of the app.",
                request: Schema.object([]),
                answer: Schema.object([
                    Schema.required("node", Schema.string),
                    Schema.required(
                        "keys",
                        Schema.list(
                            of: Schema.object([
                                Schema.sometimes("kid", Schema.string), Schema.required("alg", Schema.string),
                                Schema.required("source", Schema.described(Schema.string, "The setting that has the key.")),
                            ]))),
                ]), refusals: [.invalidKeys]),
            GetAppPolicy.description,
        ]
        + ([
            .clusterLoad, .setAppPolicy, .importUsers, .queryOnlineStatus, .onlineUsers, .replayWebhooks, .kick, .deleteUser, .exportUser,
            .importFacts,
            .explain,
        ] as [API.OperatorCall]).map { $0.type.description }

    private static let recentLoad = Schema.object([
        Schema.required("node", Schema.string), Schema.required("intervalMilliseconds", Schema.integer),
        Schema.required(
            "samples",
            Schema.list(
                of: Schema.object(
                    [Schema.required("time", Schema.time)]
                        + RecentLoad.names.map { Schema.required("\($0)", Schema.integer) }
                        + [
                            Schema.required("usersOnline", Schema.integer), Schema.required("sessions", Schema.integer),
                            Schema.sometimes(
                                "latencySeconds",
                                Schema.described(
                                    Schema.object(RecentLoad.quantiles.map { Schema.required("\($0.name)", ["type": "number"]) }),
                                    "From a change to the push of it; absent for a second without a push.")),
                        ]))),
    ])

    /// `GET /admin/v1/export`.
    static let export: JSONValue = [
        "operationId": "export",
        "summary": "Streams all ONLINE users of the app, or the facts of all its users, one JSON object a line.", "tags": ["operators"],
        "parameters": [
            [
                "name": "kind", "in": "query", "required": false,
                "description": "online: the ONLINE users. all: the facts of all users, as importFacts takes them.",
                "schema": ["type": "string", "enum": ["online", "all"], "default": "online"],
            ]
        ],
        "responses": answers(
            [
                "description": "The users, or the facts. A stream that ends with an error of the transport is not complete.",
                "content": ["application/x-ndjson": ["schema": Schema.string]],
            ], [.wrongRole, .badParameter]),
    ]

    /// `GET /admin/v1/backup`.
    static let backup: JSONValue = [
        "operationId": "backup",
        "summary": "Streams a copy of the node's database, which has the users of all apps, as `rollcall backup` writes it.",
        "tags": ["operators"],
        "parameters": [
            [
                "name": "time", "in": "query", "required": false,
                "description": "The time of the proof. A node with a secret needs both.",
                "schema": Schema.integer(BackupRule.times, "Milliseconds since 1970 (UTC)."),
            ],
            [
                "name": "proof", "in": "query", "required": false,
                "description": "HMAC-SHA256 of the request with the cluster's secret, hexadecimal: `rollcall backup` makes it.",
                "schema": ["type": "string"],
            ],
        ],
        "responses": answers(
            [
                "description": "The database. A stream that ends with an error of the transport is not complete.",
                "content": ["application/octet-stream": ["schema": ["type": "string", "format": "binary"]]],
            ], [.wrongRole, .badParameter]),
    ]

    private static let states: [JSONValue] = ClusterStatus.MemberState.allCases.map { .string($0.rawValue) }

    static let clusterMember = Schema.object([
        Schema.required("node", Schema.string), Schema.required("state", ["type": "string", "enum": .array(states)]),
        Schema.required("address", Schema.string), Schema.required("weight", Schema.integer), Schema.required("slotsOwned", Schema.integer),
        Schema.required("startedAt", Schema.time),
        Schema.sometimes(
            "version",
            Schema.text(bytesMax: NodeRelease.versionBytesMax, "Release that the member runs; absent while the member has not told it.")),
        Schema.sometimes("startTime", Schema.time),
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
