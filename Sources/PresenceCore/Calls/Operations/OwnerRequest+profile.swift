import PresenceWire

/// Profiles at their owners: read and changed (P1, P3, P5).
extension OwnerRequest {
    /// The JSON of the user's own profile.
    func profile(of owner: borrowing Owner) -> [UInt8] { json(ofProfileOf: id, at: owner) }

    /// Sets fields of the profile. The result has the profile.
    ///
    /// Each field gets the version of this call, and the others keep theirs. A call that sets nothing new moves no version.
    func modifyProfile(_ changes: [Profile.Change], on owner: inout Owner, into outbox: inout Outbox) -> FriendCallResult {
        let user = owner.index(of: id)
        var profile = owner.users[user].profile
        let news = changes.filter { profile[$0.name] != $0.value }
        if news.isEmpty {
            // An earlier call, or attempt, may have written the profile, and the record that names it, to this disk alone.
            writeAgain(.profile, "", of: owner, into: &outbox)
            writeAgain(user, of: owner, into: &outbox)
        } else {
            let version = owner.nextVersion(at: now)
            profile.set(news, at: version)
            owner.write([.set(profile, "")], of: user, decidedAt: version, in: &outbox[at: now])
            OwnedProfile(user: user).publish(by: &owner, in: &outbox[at: now])
        }
        return FriendCallResult(json: json(ofProfileOf: id, at: owner))
    }

    /// The profiles of users, until the answer is long enough.
    func profiles(of users: [UserID], at owner: borrowing Owner) -> [AnsweredProfile] {
        var profiles: [AnsweredProfile] = []
        var bytesCount = 0
        for user in users where bytesCount < AnsweredProfile.answerBytesMax {
            let json = json(ofProfileOf: user, at: owner)
            bytesCount += json.count
            let isKnown = owner.index(ofKnown: user).map {
                owner.users[$0].record.isOfKnownUser || owner.users[$0].list(.profile).liveCount > 0
            }
            profiles.append(AnsweredProfile(user: user, isKnown: isKnown ?? false, json: json))
        }
        return profiles
    }

    private func json(ofProfileOf user: UserID, at owner: borrowing Owner) -> [UInt8] {
        let list = owner.index(ofKnown: user).map { owner.users[$0].list(.profile) } ?? RowList()
        let row = list.entry(for: "")?.value
        var json = JSONWriter(reserving: 512 + (row?.count ?? 0))
        let text = row.flatMap { ProfileText($0) } ?? ProfileText(of: list.fact("", of: user), user)
        text.write(of: user, list.version, owner.policies.policy(of: user).chain, into: &json)
        return json.bytes
    }
}
