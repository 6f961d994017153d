extension Subscription {
    init(from wire: inout WireReader) throws(DecodeError) {
        let target = try wire.user()
        let type = try wire.tag()
        let subscribedAt = try wire.time()
        let expiresAt = try wire.optional { reader throws(DecodeError) in try reader.time() }
        let version = try wire.version()
        self.init(
            target: target, subscribeType: type, subscribedAt: subscribedAt, expiresAt: expiresAt, version: version,
            isRemoved: try wire.flag())
    }
}

extension ListUpdate {
    /// Writes the users whose profiles the sessions follow by their IDs, because all are of one app.
    func writeProfiles(into wire: inout WireWriter) {
        for users in [profiles, removedProfiles] { wire.list(users) { $0.text(String($1.id)) } }
        Self.write(formerFriends, into: &wire)
    }

    mutating func readProfiles(from wire: inout WireReader) throws(DecodeError) {
        profiles = try users(from: &wire)
        removedProfiles = try users(from: &wire)
        formerFriends = try friends(from: &wire)
    }

    private static func write(_ friends: [Followed], into wire: inout WireWriter) {
        wire.list(friends) { writer, friend in
            writer.text(String(friend.target.id))
            writer.signed(friend.since)
        }
    }

    private func friends(from wire: inout WireReader) throws(DecodeError) -> [Followed] {
        try wire.list { reader throws(DecodeError) in
            Followed(friend: try UserID(from: &reader, besides: user), since: try reader.signed())
        }
    }

    private func users(from wire: inout WireReader) throws(DecodeError) -> [UserID] {
        try wire.list { reader throws(DecodeError) in try UserID(from: &reader, besides: user) }
    }

    /// Writes ``added``. Friends come last, by their IDs: a user may have 10,000 of them.
    func writeAdded(into wire: inout WireWriter) {
        let friends = added.drop { !$0.isFriend }
        wire.list(friends.isEmpty ? added : Array(added[..<friends.startIndex])) { writer, followed in
            writer.user(followed.target)
            writer.optional(followed.delivered.wire) { $0.version($1) }
            writer.signed(followed.since)
            writer.tag(followed.subscribeType)
            writer.optional(followed.expiresAt) { $0.signed($1) }
        }
        Self.write(Array(friends), into: &wire)
    }

    mutating func readAdded(from wire: inout WireReader) throws(DecodeError) {
        added = try wire.list { reader throws(DecodeError) in
            Followed(
                target: try reader.user(), delivered: try reader.delivered(), since: try reader.signed(), subscribeType: try reader.tag(),
                expiresAt: try reader.optional { reader throws(DecodeError) in try reader.time() })
        }
        guard !added.contains(where: \.isFriend) else { throw .unknownTag(0) }
        added += try friends(from: &wire)
    }
}

extension UserID {
    /// Reads a user of the app of `neighbor`, who is named by the ID alone.
    init(from wire: inout WireReader, besides neighbor: UserID) throws(DecodeError) {
        let id = try wire.text(bytesMax: Limits.nameBytesMax)
        guard Limits.isValidName(id) else { throw .badName }
        self.init(id, besides: neighbor)
    }
}
