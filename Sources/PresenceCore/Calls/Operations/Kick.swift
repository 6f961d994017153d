import PresenceWire

/// `kick`: ends all sessions of a user and voids the user's tokens.
///
/// The answer comes after all alive nodes acknowledged the kick, so that no node accepts an older token.
enum Kick: OperatorOperation {
    typealias Answer = DoneAnswer
    static let description = OpenAPI.Operation(
        name: "kick", summary: "Ends all sessions of a user and refuses tokens that were issued before.",
        request: Schema.object([
            Schema.required("userID", Schema.reference("UserID")),
            Schema.optional("reason", Schema.text(bytesMax: Limits.nameBytesMax, "Reason in onKickedOffline; default \"kicked\".")),
        ]), isBodyRequired: true, answer: ["type": "object"], refusals: [.noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, of body: [UInt8], by caller: UserID) throws(Problem) -> API.Parsed {
        let user = try fields.user("userID", besides: caller)
        let reason = try fields.text("reason", bytesMax: Limits.nameBytesMax) ?? "kicked"
        return API.Parsed(call: .kick(reason: reason), subject: user, errors: [])
    }
}

extension Call {
    /// Ends all sessions of the caller, and voids the existing tokens.
    public static func kick(reason: String) -> Call { .owner(.kick(reason: reason)) }
}
