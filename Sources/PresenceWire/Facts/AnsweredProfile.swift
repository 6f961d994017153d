/// The profile of a user, as the user's owner answers it.
public struct AnsweredProfile: Hashable, Sendable {
    public let user: UserID
    /// Whether the user exists: the app has imported the user, the user has logged in, or a field of the profile was set.
    public let isKnown: Bool
    /// The profile as clients receive it: a JSON object, UTF-8.
    public let json: [UInt8]

    public init(user: UserID, isKnown: Bool, json: [UInt8]) { (self.user, self.isKnown, self.json) = (user, isKnown, json) }
}

extension AnsweredProfile {
    /// Most bytes of the profiles in one answer between two nodes. The answer has one more profile at most.
    public static let answerBytesMax = Limits.batchBytesMax / 2

    func write(into wire: inout WireWriter) {
        wire.user(user)
        wire.tag(isKnown ? 1 : 0)
        wire.text(String(decoding: json, as: UTF8.self))
    }

    init(from wire: inout WireReader) throws(DecodeError) {
        self.init(user: try wire.user(), isKnown: try wire.flag(), json: Array(try wire.text(bytesMax: Limits.batchBytesMax).utf8))
    }
}
