import PresenceWire

/// `getSelfProfile`: returns the caller's profile (P1).
enum GetSelfProfile: ChainOperation {
    static let description = OpenAPI.Operation(
        name: "getSelfProfile", summary: "Returns the caller's profile.", request: Schema.object([Schema.asUser]),
        answer: Schema.ownProfile, refusals: [.notAllowed, .noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        API.Parsed(call: .friendCall(.profile), subject: subject, errors: [])
    }

    static func write(_ answer: FriendCallResult, to call: AskedCall, _ policy: Policy, into json: inout JSONWriter) throws(Problem) {
        json.object { $0.member("profile", json: answer.json) }
    }
}

/// `modifySelfProfile`: sets fields of the caller's profile (P5).
enum ModifySelfProfile: ChainOperation {
    static let description = OpenAPI.Operation(
        name: "modifySelfProfile", summary: "Sets fields of the caller's profile; absent fields keep their value.",
        request: Schema.object([Schema.required("values", values), Schema.asUser]), isBodyRequired: true,
        answer: Schema.ownProfile, refusals: [.notAllowed, .noSuchUser, .rateLimited])

    private static let values = Schema.object(
        Profile.Standard.allCases.map { Schema.optional($0.rawValue, schema(of: $0)) },
        besides: Schema.customFields)

    private static func schema(of field: Profile.Standard) -> JSONValue {
        switch field {
        case .nick, .faceURL: Schema.text(bytesMax: Limits.fieldBytesMax, pattern: Schema.noControls)
        case .location, .selfSignature: Schema.bytes
        case .allowType: Schema.allowType
        case .gender: Schema.gender
        case .birthday, .language, .level, .role: Schema.number
        }
    }

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        guard case .object(let members) = fields.value("values") else {
            throw .parameter("values: must be an object with fields of a profile")
        }
        var changes: [Profile.Change] = []
        for member in members {
            let value = try value(of: member, policy)
            // A field that is null stays as it is.
            if let value { changes.append(Profile.Change(name: member.name, value: value)) }
        }
        return API.Parsed(call: .friendCall(.modifyProfile(changes)), subject: subject, errors: [])
    }

    /// The value of a field; nil if it is null. Throws for a name or a value that a profile cannot have.
    private static func value(of member: JSONValue.Member, _ policy: Policy) throws(Problem) -> FieldValue? {
        let name = member.name
        let declared = Profile.Standard(rawValue: name) == nil ? try declaration(of: name, policy) : nil
        guard member.value != .null else { return nil }
        guard let value = declared.map({ $0.value(member.value) }) ?? FieldValue(member.value.withWholeNumber) else {
            let type = declared?.type.rawValue ?? "number, string or {\"base64\": …}"
            throw .parameter("values.\(name): must be of type \(type)\(declared == nil ? "" : " (profile.customFields)")")
        }
        if let problem = Profile.problem(of: value, in: name) { throw .parameter("values.\(name): \(problem)") }
        if let problem = Profile.problem(ofShown: member) { throw .parameter("values.\(name): \(problem)") }
        if case .bytes(let bytes) = value, bytes.count > policy.chain.profileValueBytesMax {
            throw .parameter(
                "values.\(name): has \(bytes.count) bytes, at most \(policy.chain.profileValueBytesMax) are allowed (profile.valueBytes)")
        }
        return value
    }

    private static func declaration(of key: String, _ policy: Policy) throws(Problem) -> CustomFieldDeclaration {
        let name = key.hasPrefix(Profile.customPrefix) ? key.dropFirst(Profile.customPrefix.count) : ""
        guard let declared = policy.chain.profileFields.first(where: { $0.name == name }) else {
            throw .parameter("values.\(key): is neither a field of a profile nor a custom field of the app (profile.customFields)")
        }
        return declared
    }

    static func write(_ answer: FriendCallResult, to call: AskedCall, _ policy: Policy, into json: inout JSONWriter) throws(Problem) {
        json.object { $0.member("profile", json: answer.json) }
    }
}

/// `getUsersProfile`: returns the profiles of users (P3). A user who hides the status does not hide the profile.
enum GetUsersProfile: ChainOperation {
    /// Most users of one call.
    static let usersMax = 100

    /// The profiles in the order of the users; nil if the owner of the user was not reachable.
    struct Answer: OperationAnswer {
        let profiles: [AnsweredProfile?]
        let users: [UserID]

        init?(_ answer: CallAnswer) {
            guard case .profiles(let profiles, let users) = answer else { return nil }
            (self.profiles, self.users) = (profiles, users)
        }
    }

    static let description = OpenAPI.Operation(
        name: "getUsersProfile", summary: "Returns the profiles of users.",
        request: Schema.object([Schema.required("userIDs", Schema.users(max: usersMax)), Schema.asUser]), isBodyRequired: true,
        answer: Schema.object([
            Schema.required("profileList", Schema.list(of: Schema.reference("Profile"))), Schema.required("errorUserList", Schema.errors),
        ]), refusals: [.notAllowed, .noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        let found = try fields.requiredUsers("userIDs", besides: subject, countMax: usersMax)
        return API.Parsed(call: .getUsersProfile(found.users), subject: subject, errors: found.errors)
    }

    static func write(_ answer: Answer, to call: AskedCall, _ policy: Policy, into json: inout JSONWriter) throws(Problem) {
        let (profiles, users) = (answer.profiles, answer.users)
        let unknown = zip(profiles, users).filter { policy.mustBeRegistered && $0?.isKnown == false && $1 != call.caller }.map(\.1)
        if policy.errorShape == .wholeCall, !unknown.isEmpty { throw Problem(.noSuchUser(unknown)) }
        let unreachable = zip(profiles, users).filter { $0.0 == nil }.map { UserError(unreachable: $0.1) }
        json.object { json in
            json.array("profileList", profiles.compactMap(\.self).filter { !unknown.contains($0.user) }) { $0.value($1.json) }
            json.member("errorUserList", call.errors + unknown.map { UserError(unknown: $0) } + unreachable)
        }
    }

    static func countRejections(in answer: Answer, of caller: UserID, _ policy: Policy, into rejections: inout PolicyRejections) {
        guard policy.mustBeRegistered else { return }
        rejections.count(.registered, zip(answer.profiles, answer.users).count { $0?.isKnown == false && $1 != caller })
    }
}

extension Schema {
    /// The members of an object's schema that admit custom fields and nothing else besides its properties.
    static let customFields: [JSONValue.Member] = [
        .init(
            name: "patternProperties",
            value: .object([
                .init(
                    name: "^\(Profile.customPrefix)[A-Za-z0-9]{1,\(Limits.customNameBytesMax)}$",
                    value: ["anyOf": [integer, string, object([required("base64", string)])]])
            ])), .init(name: "additionalProperties", value: false),
    ]
    static let ownProfile = object([required("profile", reference("Profile"))])
    static let allowType: JSONValue = ["type": "string", "enum": .array(Profile.allowTypes.map { .string($0) })]
    static let gender = integer(0...2, "0: unknown. 1: male. 2: female.")
    static let number = integer(0...Int64(UInt32.max))
    /// Bytes: a text, or base 64 for bytes that are not UTF-8.
    static let bytes: JSONValue = [
        "anyOf": [
            text(bytesMax: Limits.fieldBytesMax),
            object([required("base64", base64)], besides: [.init(name: "additionalProperties", value: false)]),
        ]
    ]
    /// The only base 64 of at most ``PresenceWire/Limits/fieldBytesMax`` bytes.
    private static let base64: JSONValue = [
        "type": "string",
        "pattern": .string(
            "^(?:[A-Za-z0-9+/]{4}){0,\(Limits.fieldBytesMax / 3)}"
                + "(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$"),
    ]

    /// The component `Profile` (P2).
    package static let profile = object([
        required("userID", reference("UserID")), required("nick", string), required("allowType", allowType), required("faceURL", string),
        required("selfSignature", bytes), required("gender", gender), required("birthday", number), required("location", bytes),
        required("language", number), required("level", number), required("role", number),
        required(
            "custom",
            described(
                ["type": "object", "additionalProperties": ["anyOf": [integer, string, object([required("base64", string)])]]],
                "The custom fields, by their names without \"Custom_\".")),
        required("version", described(string, "Clients compare it for equality.")),
    ])
}
