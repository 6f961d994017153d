import PresenceWire

/// Changes of what a user's list says about a friend (P11), and friends who come from another service.
extension OwnerRequest {
    /// Adds friends to the user's list alone, each with a result. A friend in a group that the user does not have is refused.
    func importFriends(_ friends: [FriendImport], on owner: inout Owner, into outbox: inout Outbox) -> FriendCallResult {
        let user = owner.index(of: id)
        let policy = owner.policies.policy(of: id)
        let rules = ChainRules(user: owner.users[user], policy: policy)
        let groups = friendGroups(of: owner)
        var (changes, outcomes) = ([ChainRules.Change](), [ChainOutcome]())
        for friend in friends {
            let key = String(friend.user.id)
            let entry = rules.user.list(.friend).entry(for: key)
            let code: ChainCode
            if rules.isFriend(key) {
                writeAgain(.friend, key, of: owner, into: &outbox)
                code = mayHaveWritten(entry) ? .done : .alreadyFriend
            } else if let refusal = rules.refusalOfImport(of: key, after: changes.count) {
                code = refusal
            } else if let ids = groups.ids(named: friend.values.groups ?? []) {
                changes.append(.set(Friend(friend, groupIDs: ids, at: now.wall, declared: policy.chain.friendFields), key))
                code = .done
            } else {
                code = .wrongGroup
            }
            outcomes.append(ChainOutcome(user: friend.user, code: code))
        }
        write(changes, isSilent: true, on: &owner, into: &outbox)
        owner.removeBlank(id)
        return FriendCallResult(users: outcomes)
    }

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
    fileprivate init(
        _ imported: FriendImport, groupIDs: [FriendGroupID], at time: Milliseconds, declared: [CustomFieldDeclaration]
    ) {
        self.init(addTime: imported.addTime ?? time)
        (remark, addWording, addSource) = (imported.values.remark ?? "", imported.addWording, imported.addSource)
        self.groupIDs = groupIDs
        set(imported.values.fields, declared: declared)
    }

    /// Sets custom fields; an empty text removes one. A field that the app no longer declares goes as well.
    fileprivate mutating func set(_ fields: [CustomField], declared: [CustomFieldDeclaration]) {
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
