import PresenceWire

/// The profile of one user (P1–P8), and the version of it that the user's record names.
///
/// The record carries the version to every node that watches the user. So a changed profile costs one record for each of these nodes, and
/// no write for any friend.
struct OwnedProfile {
    let user: Owner.Index

    /// Has the record name the newest version of the profile, and publishes it.
    ///
    /// No viewer sees another status: the record differs from the one before in versions alone.
    ///
    /// - Parameter isLate: whether another node has written the profile. Clients may then hold a position that is later than the profile.
    func publish(isLate: Bool = false, by owner: inout Owner, in turn: inout Turn) {
        let list = owner.users[user].list(.profile)
        let profile = list.liveCount > 0 ? list.version : .zero
        guard profile != owner.users[user].record.profileVersion, !owner.users[user].isReplica else { return }
        let version = owner.nextVersion(at: turn.now)
        owner.modify(user) { ($0.record.version, $0.record.profileVersion) = (version, profile) }
        let knownSince = isLate ? owner.knownSince(at: turn.now) : owner.knownSince(ofNew: owner.users[user].record)
        owner.modify(user) { $0.record.knownSince = knownSince }
        owner.publish(user, into: &turn.outbox)
        guard !isLate, owner.policies.policy(of: owner.users.user(at: user)).tellsWebhook(.profile) else { return }
        WebhookNews(user: user, now: turn.now).addProfile(profile, by: &owner, into: &turn.outbox)
    }

    /// Takes the newer fields of another copy of the profile. Returns whether it has written a row.
    ///
    /// Two sides of a split may each have changed some of them. The result is then a new fact with its own version, because one version has
    /// one content.
    func merge(_ row: Row, into held: Row, by owner: inout Owner, in turn: inout Turn) throws(RowError) -> Bool {
        let (other, old) = (try Profile(row), try Profile(held))
        var merged = old
        merged.merge(other)
        guard merged != old || row.version > held.version, owner.accepts(row.version, at: turn.now) else { return false }
        let isNew = merged != other || row.version <= held.version
        let kept = isNew ? Row(merged, of: row.user, key: "", version: owner.nextVersion(at: turn.now)) : row
        owner.modifyLists(user) { _ = $0.merge(kept) }
        turn.outbox.rows.append(kept)
        if isNew, owner.users[user].isReplica { turn.outbox.rowsForOwners.append(kept) }
        publish(isLate: true, by: &owner, in: &turn)
        return true
    }
}

extension OwnedUser {
    /// The fields of the user's profile that were ever set.
    var profile: Profile { list(.profile).fact("", of: record.user) ?? Profile() }
}

extension JSONWriter {
    /// Writes a profile as clients receive it (P2).
    ///
    /// - Parameters:
    ///   - version: that of the profile; ``PresenceWire/Version/zero`` for a user without one.
    ///   - policy: gives the `allowType` of a user who has not chosen one.
    mutating func profile(_ profile: Profile, of user: UserID, _ version: Version, _ policy: ChainPolicy) {
        func text(_ field: Profile.Standard) -> FieldValue { profile[field.rawValue] ?? .bytes([]) }
        func number(_ field: Profile.Standard) -> FieldValue { profile[field.rawValue] ?? .integer(0) }
        object { json in
            json.member("userID", user.id)
            json.member("nick", text(.nick))
            json.member("allowType", profile[Profile.Standard.allowType.rawValue] ?? .text(policy.defaultAllowType.profileValue))
            json.member("faceURL", text(.faceURL))
            json.member("selfSignature", text(.selfSignature))
            json.member("gender", number(.gender))
            json.member("birthday", number(.birthday))
            json.member("location", text(.location))
            json.member("language", number(.language))
            json.member("level", number(.level))
            json.member("role", number(.role))
            json.key("custom")
            json.object { json in
                // An empty value removes a custom field.
                for field in profile.fields where Profile.Standard(rawValue: field.name) == nil && field.value != .bytes([]) {
                    json.key(text: String(field.name.dropFirst(Profile.customPrefix.count)))
                    json.value(field.value)
                }
            }
            json.member("version", version)
        }
    }

    private mutating func member(_ name: StaticString, _ field: FieldValue) {
        key(name)
        value(field)
    }
}

extension ChainPolicy.AllowType {
    /// The value of ``PresenceWire/Profile/Standard/allowType`` that means the same.
    var profileValue: String { rawValue.uppercased() }
}
