/// An open session of a user as the owner knows it (X1).
public struct UserSession: Hashable, Sendable {
    public var id: SessionID
    public var platform: String
    public var deviceID: String
    /// The node that holds the session's stream; empty where nobody is told it.
    public var node: String
    /// The time of the login.
    public var since: Milliseconds

    public init(id: SessionID, platform: String, deviceID: String, node: String, since: Milliseconds) {
        self.id = id
        self.platform = platform
        self.deviceID = deviceID
        self.node = node
        self.since = since
    }

    init(from reader: inout WireReader) throws(DecodeError) {
        id = try reader.session()
        platform = try reader.text(bytesMax: Limits.platformBytesMax)
        deviceID = try reader.text(bytesMax: Limits.deviceBytesMax)
        node = try reader.text(bytesMax: Limits.nameBytesMax)
        since = try reader.time()
    }

    /// The sessions of several users.
    static func lists(from reader: inout WireReader) throws(DecodeError) -> [[UserSession]] {
        try reader.list { reader throws(DecodeError) in try list(from: &reader) }
    }

    /// The sessions of a user.
    static func list(from reader: inout WireReader) throws(DecodeError) -> [UserSession] {
        try reader.list(countMax: Limits.sessionsPerUserMax) { reader throws(DecodeError) in try UserSession(from: &reader) }
    }

    func write(into writer: inout WireWriter) {
        writer.session(id)
        for text in [platform, deviceID, node] { writer.text(text) }
        writer.signed(since)
    }
}

extension JSONWriter {
    /// Writes an open session as an object.
    ///
    /// - Parameter isCurrent: whether it is the session that asks; nil to leave that out.
    public mutating func session(_ session: UserSession, isCurrent: Bool? = nil) {
        object { json in
            json.member("sessionID", session.id.description)
            json.member("platform", session.platform)
            json.member("deviceID", session.deviceID)
            if !session.node.isEmpty { json.member("node", session.node) }
            json.member("since", session.since)
            if let isCurrent { json.member("isCurrent", isCurrent) }
        }
    }
}

/// A question for the next users of an app who are ONLINE, or for all that have facts.
public struct OnlineQuery: Hashable, Sendable {
    public var app: String
    /// The last user of the page before, in the order of ``OnlineUser/isBefore(_:_:)``; nil for the first page.
    public var after: UserID?
    public var limit: Int
    /// Whether the answer has each user with facts that an import takes, without platforms.
    public var isOfAll: Bool

    public init(app: String, after: UserID?, limit: Int, isOfAll: Bool = false) {
        self.isOfAll = isOfAll
        self.app = app
        self.after = after
        self.limit = limit
    }

    init(from reader: inout WireReader) throws(DecodeError) {
        app = try reader.text(bytesMax: Limits.nameBytesMax)
        after = try reader.optional { reader throws(DecodeError) in try reader.user() }
        limit = Int(clamping: try reader.unsigned())
        isOfAll = try reader.flag()
    }

    func write(into writer: inout WireWriter) {
        writer.text(app)
        writer.optional(after) { $0.user($1) }
        writer.unsigned(UInt64(limit))
        writer.tag(isOfAll ? 1 : 0)
    }
}

extension OnlineQuery: OwnRequest {
    public typealias Answer = OnlineUsersAnswer
}

/// The next users of an ``OnlineQuery`` in order, and the number of all ONLINE users of the app: of one node, or of all.
public struct OnlineUsersAnswer: OwnAnswer {
    public let users: [OnlineUser]
    public let total: UInt64

    public init?(_ answer: Answer) {
        guard case .onlineUsers(let users, let total) = answer else { return nil }
        (self.users, self.total) = (users, total)
    }

    public var answer: Answer { .onlineUsers(users, total: total) }
}

/// A user who is ONLINE, in a list of such users.
public struct OnlineUser: Hashable, Sendable {
    public var user: UserID
    public var platforms: [String]

    public init(user: UserID, platforms: [String]) {
        self.user = user
        self.platforms = platforms
    }

    init(from reader: inout WireReader) throws(DecodeError) {
        user = try reader.user()
        platforms = try reader.list(countMax: Limits.sessionsPerUserMax) { reader throws(DecodeError) in
            try reader.text(bytesMax: Limits.platformBytesMax)
        }
    }

    static func list(from reader: inout WireReader) throws(DecodeError) -> [OnlineUser] {
        try reader.list { reader throws(DecodeError) in try OnlineUser(from: &reader) }
    }

    func write(into writer: inout WireWriter) {
        writer.user(user)
        writer.list(platforms) { $0.text($1) }
    }

    /// The order of lists: by slot, and by ID within a slot. A node finds the users of a slot without reading all others.
    public static func isBefore(_ first: UserID, _ second: UserID) -> Bool {
        let (one, other) = (first.slot, second.slot)
        return one == other ? first.joined.utf8.lexicographicallyPrecedes(second.joined.utf8) : one < other
    }
}
