import PresenceWire

/// Fields that several operations have.
extension Fields {
    /// A user of the caller's app. Throws if the field is missing.
    func user(_ name: String, besides caller: UserID) throws(Problem) -> UserID {
        guard let id = try text(name, bytesMax: 1_024), Limits.isValidName(id) else { throw .userID(name) }
        return UserID(id, besides: caller)
    }

    /// The calling session; nil if the call does not name it.
    func session() throws(Problem) -> SessionID? {
        guard let text = try text("sessionID", bytesMax: 1_024) else { return nil }
        guard let session = SessionID(text) else {
            throw .parameter("sessionID: \"\(text)\" is not a session ID; it must be the 24 hexadecimal digits of onConnected")
        }
        return session
    }

    /// The type of a subscription (R3); nil if the call does not name it.
    func subscribeType() throws(Problem) -> UInt8? {
        try integer("subscribeType", in: 1...4).map { UInt8($0) }
    }
}

extension OpenAPI {
    /// The limits that an app has without a policy of its own.
    static let standard = Policy()
    /// The names of platforms.
    package static let platformPattern = "^[A-Za-z0-9._-]+$"
    /// The names of custom fields, without their prefix.
    package static let customNamePattern = "^[A-Za-z0-9]{1,\(Limits.customNameBytesMax)}$"
}

extension Schema {
    static let asUser = optional(
        "asUser", described(reference("UserID"), "User for whom the call is made; only for tokens with role \"admin\"."))
    static let expiry = integer(OpenAPI.standard.subscriptionSeconds.min...OpenAPI.standard.subscriptionSeconds.max, "Seconds.")
    static let subscribeType = described(
        integer(1...4),
        """
        1: online status. 2: profile. 3: online status of a friend. 4: profile of a friend. Types 3 and 4 end with the friendship; users \
        who are not friends are listed with 31704.
        """)

    static let oneType = optional(
        "subscribeType", described(subscribeType, "Only subscriptions of this type; default: of all types."))
    static let sessionID: JSONValue = ["type": "string", "pattern": "^[0-9A-Fa-f]{24}$"]
    static let originSession = optional(
        "sessionID",
        described(
            sessionID,
            "The session that calls, from onConnected; onSubscriptionChangedOnOtherDevices goes to the user's other sessions. Default: the only "
                + "session of the user on the connection, else on the node, else in the cluster; where there are several, all receive it."))
}
