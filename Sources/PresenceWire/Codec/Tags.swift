/// The first byte of a message between nodes. A number is never given to another message.
enum MessageTag: UInt8 {
    case beginSync = 1
    case endSync = 2
    case attach = 3
    case detach = 4
    case watch = 5
    case unwatch = 6
    case request = 7
    case delta = 8
    case watched = 9
    case listUpdate = 10
    case end = 11
    case answer = 12
    case misrouted = 13
    case offer = 14
    case membership = 15
    case complete = 16
    case requestSync = 17
    case replicate = 18
    case replicated = 19
    case digest = 20
    case requestOffer = 21
    case fetch = 23
    case sent = 24
    case transferComplete = 25
    case relay = 26
    case relayed = 27
    case viewDigest = 28
    case requestRegistered = 29
    case registered = 30
    case askFollowed = 31
    case areFollowed = 32
}

/// The byte that names the operation of a request to an owner.
enum OperationTag: UInt8 {
    case setSelfStatus = 1
    case subscribe = 2
    case unsubscribe = 3
    case subscriptions = 4
    case records = 5
    case logout = 6
    case setPolicy = 7
    case publishEvent = 8
    case kick = 9
    case explain = 10
    case setVisibility = 11
    case visibility = 12
    case register = 13
    case followers = 14
    case countQuery = 15
}

/// The byte that names the kind of an owner's answer.
enum AnswerTag: UInt8 {
    case record = 1
    case subscribed = 2
    case done = 3
    case subscriptions = 4
    case records = 5
    case refused = 6
    case explained = 7
    case visibility = 8
    case followerLimitReached = 9
    case followers = 10
    case rateLimited = 11
}

extension WireWriter {
    /// Writes one byte that names the content that follows.
    @inline(__always)
    mutating func tag<Tag: RawRepresentable>(_ tag: Tag) where Tag.RawValue == UInt8 { self.tag(tag.rawValue) }
}

extension WireReader {
    /// Reads one byte that names the content that follows. Throws ``DecodeError/unknownTag(_:)`` for an unknown number.
    @inline(__always)
    mutating func tag<Tag: RawRepresentable>(as type: Tag.Type) throws(DecodeError) -> Tag where Tag.RawValue == UInt8 {
        let number = try tag()
        guard let tag = Tag(rawValue: number) else { throw .unknownTag(number) }
        return tag
    }
}
