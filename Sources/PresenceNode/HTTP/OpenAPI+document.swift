import HTTP2
import NIOCore
import PresenceCore
import PresenceWire

/// The OpenAPI description of the API, served as `GET /openapi.json`.
///
/// Numbers come from ``PresenceWire/Limits`` and ``PresenceWire/Policy``. Each operation is one ``Operation`` of a list, and a test finds
/// missing ones. `Tests/Fuzz/api` compares the rest with the answers of a node.
extension OpenAPI {
    /// The whole document.
    static let document: JSONValue = [
        "openapi": "3.1.0", "info": info, "servers": [["url": "/", "description": "The client port of this node."]],
        "tags": [
            ["name": "status", "description": "For clients, SDKs and an app's back end."],
            ["name": "operators", "description": "On the ops port; tokens with role \"admin\"."],
            ["name": "probes", "description": "On the ops port; without a token."],
        ],
        "security": [["bearer": []]], "paths": .object(paths),
        "components": [
            "securitySchemes": [
                "bearer": [
                    "type": "http", "scheme": "bearer", "bearerFormat": "JWT",
                    "description": "Claims: sub (user ID), app (default \"default\"), exp; role \"admin\" marks an app's back end.",
                ]
            ],
            "headers": .object(headers), "responses": .object(responses), "schemas": .object(schemas),
        ],
    ]

    /// The bytes of ``document``. All answers share them.
    static let text = {
        var json = JSONWriter(reserving: 32 << 10)
        json.value(document)
        return RepeatedText(ByteBuffer(lineOf: json.bytes), isLasting: true)
    }()

    private static let info: JSONValue = [
        "title": "Rollcall", "version": "1", "license": ["name": "Apache-2.0", "identifier": "Apache-2.0"],
        "summary": "Presence: who is online, on which devices, and with what status.",
        "description": """
        Bodies are UTF-8 JSON. Times are integer milliseconds since 1970 (UTC), durations are integer seconds. Unknown fields are ignored, \
        and null means the same as an absent field. The limits shown are those of the preset "rollcall"; an app's policy may set lower \
        ones (getAppPolicy). For a length in bytes, maxLength limits the characters and x-utf8BytesMax the bytes.

        Rates of calls hold for the whole cluster: over any number of nodes at most 1.2 times the rate passes. A call that names several \
        users answers for those that succeeded and lists the others in errorUserList. An unknown path is answered with 404 and code 404. \
        An unknown method of a known path is answered with 405, code 405 and the header Allow.
        """,
    ]

    private static var paths: [JSONValue.Member] {
        [path("/v1/events", ["get": events])]
            + operations.map { path("/v1/\($0.name)", ["post": call($0, tag: "status")]) }
            + operatorOperations.map { path("/admin/v1/\($0.name)", ["servers": opsServers, "post": operatorCall($0)]) }
            + [path("/admin/v1/export", ["servers": opsServers, "get": export])]
            + [path("/admin/v1/backup", ["servers": opsServers, "get": backup])]
            + probes.map { path($0.path, ["servers": opsServers, "get": $0.description]) }
            + [path("/openapi.json", ["get": ownDescription])]
    }

    private static func path(_ path: String, _ item: JSONValue) -> JSONValue.Member { JSONValue.Member(name: path, value: item) }

    private static let opsServers: JSONValue = [
        [
            "url": "http://{host}:{port}", "description": "The ops port.",
            "variables": ["host": ["default": "127.0.0.1"], "port": ["default": "7602"]],
        ]
    ]

    private static func call(_ operation: Operation, tag: String) -> JSONValue {
        let takesKey = API.Operation.allCases.contains { $0.name == operation.name && $0.takesKey }
        let parameters: [JSONValue.Member] =
            takesKey ? [.init(name: "parameters", value: [idempotencyKey])] : []
        let members: [JSONValue.Member] = [
            .init(name: "operationId", value: .string(operation.name)), .init(name: "summary", value: .string(operation.summary)),
            .init(name: "tags", value: [.string(tag)]),
        ]
        let body: JSONValue = [
            "required": .bool(operation.isBodyRequired), "content": ["application/json": ["schema": operation.request]],
        ]
        let responses = answers(
            ["description": "Done.", "content": ["application/json": ["schema": operation.answer]]], operation.refusals)
        return .object(
            members + parameters + [.init(name: "requestBody", value: body), .init(name: "responses", value: responses)])
    }

    /// The header of calls whose repetition could be told apart.
    private static let idempotencyKey: JSONValue = [
        "name": "Idempotency-Key", "in": "header", "required": false,
        "description": """
        A name for the call, so that it can be repeated: a random UUID for example. A repeated call of the same user with the same key \
        within an hour has the first answer and changes nothing, at any node. The newest 64 keys of a user are \
        kept. The same key with another operation or body is refused with 6017.
        """,
        "schema": ["type": "string", "minLength": 1, "maxLength": .integer(Int64(CallKey.bytesMax)), "pattern": "^[!-~]+$"],
    ]

    private static func operatorCall(_ operation: Operation) -> JSONValue {
        var operation = operation
        operation.refusals.append(.wrongRole)
        return call(operation, tag: "operators")
    }

    /// The answers of an operation, by status.
    static func answers(_ success: JSONValue, _ refusals: [Refused]) -> JSONValue {
        let refusals = Refused.allCases.filter { (Refused.byEveryCall + refusals).contains($0) }
        return .object(
            [JSONValue.Member(name: "200", value: success)]
                + refusals.map { refused in
                    JSONValue.Member(name: "\(refused.status)", value: ["$ref": "#/components/responses/\(refused.rawValue)"])
                })
    }
}
