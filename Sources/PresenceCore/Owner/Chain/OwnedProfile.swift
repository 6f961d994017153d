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

/// The fields of a profile, by the text of its row.
///
/// The answer of 100 profiles may have 1.5 MB. So a value is copied from the row, as it is, unless it is written in base 64 there: the row
/// and the answer are JSON by the same writer.
struct ProfileText {
    /// The places of a name, without its quotes, and of a value.
    private typealias Field = (name: Range<Int>, value: Range<Int>)

    private let text: [UInt8]
    /// The fields of ``PresenceWire/Profile/Standard``.
    private let standard: [Field]
    /// All others, in their order.
    private let custom: [Field]

    /// The text of a user without a profile.
    init() { (text, standard, custom) = ([], [], []) }

    /// - Returns: nil if the value of a row was written by something else: it has white space, or a field that is not an array.
    init?(_ text: [UInt8]) {
        guard let members = JSONSpans.members(of: text) else { return nil }
        var (standard, custom): ([Field], [Field]) = ([], [])
        custom.reserveCapacity(members.count)
        for member in members {
            guard let value = member.first else { return nil }
            if Self.isStandard(text[member.name]) { standard.append((member.name, value)) } else { custom.append((member.name, value)) }
        }
        (self.text, self.standard, self.custom) = (text, standard, custom)
    }

    /// Whether a name is one of ``PresenceWire/Profile/Standard``. Most are not, and their prefix says it.
    private static func isStandard(_ name: ArraySlice<UInt8>) -> Bool {
        !name.starts(with: Profile.customPrefix.utf8) && Profile.Standard(rawValue: String(decoding: name, as: UTF8.self)) != nil
    }

    /// Writes a profile again that was read; nil for a user without one.
    init(of profile: Profile?, _ user: UserID) {
        let row = profile.flatMap { Row($0, of: user, key: "", version: .zero).value }
        self = row.flatMap { ProfileText($0) } ?? ProfileText()
    }

    private func value(of field: Profile.Standard) -> Range<Int>? {
        standard.first { text[$0.name].elementsEqual(field.rawValue.utf8) }?.value
    }

    /// Whether a value is an empty text. It removes a custom field.
    private func isEmpty(_ value: Range<Int>) -> Bool { value.count == 2 && text[value.lowerBound] == UInt8(ascii: "\"") }

    /// Writes the profile as clients receive it (P2).
    ///
    /// - Parameters:
    ///   - version: that of the profile; ``PresenceWire/Version/zero`` for a user without one.
    ///   - policy: gives the `allowType` of a user who has not chosen one.
    func write(of user: UserID, _ version: Version, _ policy: ChainPolicy, into json: inout JSONWriter) {
        func member(_ name: StaticString, _ field: Profile.Standard, _ absent: FieldValue, _ json: inout JSONWriter) {
            json.key(name)
            if let value = value(of: field) { write(value, into: &json) } else { json.value(absent) }
        }
        let (none, zero) = (FieldValue.bytes([]), FieldValue.integer(0))
        json.object { json in
            json.member("userID", user.id)
            member("nick", .nick, none, &json)
            member("allowType", .allowType, .text(policy.defaultAllowType.profileValue), &json)
            member("faceURL", .faceURL, none, &json)
            member("selfSignature", .selfSignature, none, &json)
            member("gender", .gender, zero, &json)
            member("birthday", .birthday, zero, &json)
            member("location", .location, none, &json)
            member("language", .language, zero, &json)
            member("level", .level, zero, &json)
            member("role", .role, zero, &json)
            json.key("custom")
            json.object { json in
                for field in custom where !isEmpty(field.value) {
                    json.key(text: String(decoding: text[field.name].dropFirst(Profile.customPrefix.utf8.count), as: UTF8.self))
                    write(field.value, into: &json)
                }
            }
            json.member("version", version)
        }
    }

    /// Writes a value. One in base 64 may be a text for clients, with control characters.
    private func write(_ place: Range<Int>, into json: inout JSONWriter) {
        if text[place.lowerBound] == UInt8(ascii: "{"), let read = try? JSONReader.read(Array(text[place])), let value = FieldValue(read) {
            return json.value(value)
        }
        json.value(text[place])
    }
}

extension ChainPolicy.AllowType {
    /// The value of ``PresenceWire/Profile/Standard/allowType`` that means the same.
    var profileValue: String { rawValue.uppercased() }
}
