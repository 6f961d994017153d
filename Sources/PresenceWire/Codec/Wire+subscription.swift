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
    }

    mutating func readProfiles(from wire: inout WireReader) throws(DecodeError) {
        profiles = try users(from: &wire)
        removedProfiles = try users(from: &wire)
    }

    private func users(from wire: inout WireReader) throws(DecodeError) -> [UserID] {
        let app = String(user.app)
        return try wire.list { reader throws(DecodeError) in
            let id = try reader.text(bytesMax: Limits.nameBytesMax)
            guard Limits.isValidName(id) else { throw .badName }
            return UserID(app: app, id: id)
        }
    }
}
