import PresenceWire

/// Changes of what a user's list says about a friend (P11).
extension OwnerRequest {
    /// Changes the remark, the groups and the custom fields of a friend. The result has the friend.
    func modify(_ other: UserID, _ change: FriendChange, on owner: inout Owner, into outbox: inout Outbox) -> FriendCallResult {
        let key = String(other.id)
        func result(_ code: ChainCode, json: [UInt8] = []) -> FriendCallResult {
            FriendCallResult(code: code, users: [ChainOutcome(user: other, code: code)], json: json)
        }
        guard let held: Friend = list(.friend, of: owner).fact(key, of: id) else { return result(.noFriend) }
        let groups = friendGroups(of: owner)
        var friend = held
        if let remark = change.remark { friend.remark = remark }
        if let names = change.groups {
            guard let ids = groups.ids(named: names) else { return result(.wrongGroup) }
            friend.groupIDs = ids
        }
        friend.set(change.fields, declared: owner.policies.policy(of: id).chain.friendFields)
        if friend != held {
            friend.groupIDs = groups.existing(friend.groupIDs)
            write([.set(friend, key)], on: &owner, into: &outbox)
        } else {
            writeAgain(.friend, key, of: owner, into: &outbox)
        }
        var json = JSONWriter(reserving: 512)
        json.friend(friend, key, in: groups)
        return result(.done, json: json.bytes)
    }
}

extension Friend {
    /// Sets custom fields; an empty text removes one. A field that the app no longer declares goes as well.
    mutating func set(_ fields: [CustomField], declared: [CustomFieldDeclaration]) {
        guard !fields.isEmpty else { return }
        let kept = customFields.filter { field in
            !fields.contains { $0.name == field.name } && declared.contains { $0.name == field.name }
        }
        let new = fields.filter { $0.value != .bytes([]) }
        // The node that received the call may know fields that this one does not know yet.
        let all = (new + kept).prefix(Limits.customFieldsMax)
        customFields = all.sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
    }
}
