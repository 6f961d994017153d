import PresenceWire

/// `setAppPolicy`: changes the policy of an app.
///
/// The answer comes after all alive nodes apply the policy and two disks have it. It is the answer of ``GetAppPolicy``.
enum SetAppPolicy: OperatorOperation {
    static let description = OpenAPI.Operation(
        name: "setAppPolicy",
        summary:
            "Changes the app's policy on all nodes. A preset discards individual overrides; a setting overrides it; null ends an override.",
        request: Schema.object([
            Schema.app, Schema.optional("preset", Schema.preset),
            Schema.optional(
                "settings",
                Schema.object(
                    Policy.settingDescriptions.map { Schema.optional($0.name, Schema.schema(of: $0)) },
                    besides: [.init(name: "additionalProperties", value: false)])),
        ]),
        answer: Schema.reference("AppPolicy"))

    static func parse(_ fields: Fields, of body: [UInt8], by caller: UserID) throws(Problem) -> API.Parsed {
        try fields.checkApp(of: caller)
        return API.Parsed(call: .setAppPolicy(body.isEmpty ? Array("{}".utf8) : body), subject: caller, errors: [])
    }

    static func write(_ answer: DoneAnswer, to parsed: API.Parsed, _ owner: borrowing Owner, into json: inout JSONWriter) throws(Problem) {
        GetAppPolicy.write(of: parsed.subject, owner, into: &json)
    }
}

/// `getAppPolicy`: returns the policy of an app, as the answering node knows it.
package enum GetAppPolicy {
    package static let description = OpenAPI.Operation(
        name: "getAppPolicy", summary: "Returns the app's preset and the values of all settings.", request: Schema.object([Schema.app]),
        answer: Schema.reference("AppPolicy"))

    /// Throws for a field that breaks a rule.
    package static func check(_ fields: Fields, by caller: UserID) throws(Problem) { try fields.checkApp(of: caller) }

    /// Writes the policy of a user's app with the values of all settings.
    package static func write(of user: UserID, _ owner: borrowing Owner, into json: inout JSONWriter) {
        let app = String(user.app)
        let known = owner.appPolicy(app)
        json.appPolicy(known?.policy ?? AppPolicy(), known?.version ?? .zero, followed: owner.policy(of: user), of: app)
    }
}

extension Fields {
    /// Throws if the call names another app than that of the token: no call reaches another app.
    fileprivate func checkApp(of caller: UserID) throws(Problem) {
        let own = String(caller.app)
        guard let app = try text("app", bytesMax: Limits.nameBytesMax), app != own else { return }
        throw .parameter("app: the token is for app \"\(own)\"; \"\(app)\" needs a token of that app")
    }
}

extension JSONWriter {
    /// - Parameter followed: the policy that this node applies.
    fileprivate mutating func appPolicy(_ policy: AppPolicy, _ version: Version, followed: Policy, of app: String) {
        object { json in
            json.member("app", app)
            json.member("preset", policy.preset.rawValue)
            json.key("settings")
            json.value(policy.settings(followed: followed))
            json.member("version", version)
        }
    }
}

extension JSONWriter {
    /// Writes a preset and the values of all its settings.
    fileprivate mutating func settings(of preset: Policy.Preset) {
        let change = JSONValue.object([.init(name: "preset", value: .string(preset.rawValue))])
        guard let policy = try? AppPolicy(change) else { preconditionFailure("preset \(preset.rawValue) cannot be used without overrides") }
        policy.writeAll(into: &self)
    }
}

extension JSONWriter {
    /// The settings of the policy that was written.
    fileprivate var settings: [JSONValue.Member] {
        do { return try JSONReader.read(bytes)["settings"]?.members ?? [] } catch { preconditionFailure("a policy is no JSON: \(error)") }
    }
}

extension JSONValue {
    /// The members of an object; none for another value.
    fileprivate var members: [Member] { if case .object(let members) = self { members } else { [] } }
}

extension AppPolicy {
    /// Returns all settings by name. Times that the policy does not set are those of the node.
    fileprivate func settings(followed policy: Policy) -> JSONValue {
        var json = JSONWriter(reserving: 1_024)
        json.object { writeAll(into: &$0) }
        let times = ["liveness.timeout": policy.livenessTimeout, "offlineGrace": policy.offlineGrace]
        return .object(
            json.settings.map { setting in
                guard let time = times[setting.name] else { return setting }
                return JSONValue.Member(name: setting.name, value: .integer(time.components.seconds))
            })
    }
}

extension Schema {
    fileprivate static let app = optional(
        "app", described(reference("UserID"), "The app; only the app of the token, which is the default."))

    static let preset: JSONValue = ["type": "string", "enum": .array(Policy.Preset.allCases.map { .string($0.rawValue) })]

    /// The component `AppPolicy`.
    package static let appPolicy = object([
        required("app", reference("UserID")), required("preset", preset),
        required("settings", object(Policy.settingDescriptions.map { required($0.name, answerSchema(of: $0.shape)) })),
        required("version", string),
    ])

    /// The schema of a setting in a call, with its effect and its value in each preset.
    ///
    /// There is no `default`: generated clients would send it, and override all settings with each call.
    fileprivate static func schema(of setting: Policy.SettingDescription) -> JSONValue {
        var members = schema(of: setting.shape).members
        members.removeAll { $0.name == "description" }
        members.append(.init(name: "description", value: .string(setting.effect)))
        let values = presets.map { preset in JSONValue.Member(name: preset.name, value: preset.settings[setting.name] ?? .null) }
        members.append(.init(name: "x-presets", value: .object(values)))
        return .object(members)
    }

    /// The values of all settings in each preset.
    private static let presets = Policy.Preset.allCases.map { preset in
        var json = JSONWriter(reserving: 4_096)
        json.object { json in json.settings(of: preset) }
        return (name: preset.rawValue, settings: JSONValue.object(json.settings))
    }

    /// The schema of a setting in an answer, which shows no secret.
    private static func answerSchema(of shape: Policy.SettingShape) -> JSONValue {
        shape == .secret ? ["type": "string", "enum": ["", .string(WebhookPolicy.shownSecret)]] : schema(of: shape)
    }

    private static func schema(of shape: Policy.SettingShape) -> JSONValue {
        switch shape {
        case .bool: bool
        case .integer(let range): integer(range)
        case .integerOrZero(let range): ["anyOf": [["type": "integer", "const": 0], integer(range)]]
        case .rate:
            [
                "anyOf": [
                    object([
                        required("calls", integer(Policy.Rate.callsRange)), required("seconds", integer(Policy.Rate.secondsRange)),
                    ]),
                    ["type": "boolean", "const": false],
                ]
            ]
        case .platforms:
            [
                "type": "object", "maxProperties": .integer(Int64(Policy.platformTimeoutsMax)),
                "propertyNames": ["pattern": .string(OpenAPI.platformPattern)],
                "additionalProperties": integer(Policy.PlatformTimeout.secondsRange),
                "description": "Seconds without a sign of life after which a session of the platform is disconnected.",
            ]
        case .customFields:
            [
                "type": "object", "maxProperties": .integer(Int64(Limits.customFieldsMax)),
                "propertyNames": ["pattern": .string(OpenAPI.customNamePattern)],
                "additionalProperties": [
                    "type": "string", "enum": .array(CustomFieldDeclaration.ValueType.allCases.map { .string($0.rawValue) }),
                ],
                "description": "The type of each custom field.",
            ]
        case .words(let words):
            [
                "type": "array", "minItems": 1, "uniqueItems": true,
                "items": ["type": "string", "enum": .array(words.map { .string($0) })],
            ]
        case .url(let bytesMax): text(bytesMax: bytesMax, pattern: WebhookPolicy.urlPattern, "An absolute URL, or an empty text.")
        case .secret: ["type": "string", "writeOnly": true, "pattern": .string(WebhookPolicy.secretPattern)]
        case .word(let words): ["type": "string", "enum": .array(words.map { .string($0) })]
        }
    }
}
