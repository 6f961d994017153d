import PresenceCore
import PresenceWire

extension OpenAPI {
    /// The operations of clients, in the order of the document.
    static let operations = API.Operation.allCases.map { $0.type.description }

    /// `GET /openapi.json`.
    static let ownDescription: JSONValue = [
        "operationId": "openAPI", "summary": "This document.", "tags": ["status"], "security": [],
        "responses": ["200": ["description": "OpenAPI 3.1.", "content": ["application/json": ["schema": ["type": "object"]]]]],
    ]
}
