import PresenceWire

/// Groups of a user's friends: created, deleted, renamed, filled and read (P32–P37).
extension OwnerRequest {
    /// The groups of the user's friend list.
    func friendGroups(of owner: borrowing Owner) -> FriendGroups { FriendGroups(list(.friendGroup, of: owner), of: id) }

    private func refused(_ code: ChainCode) -> FriendCallResult { FriendCallResult(code: code) }

    /// The names without repetitions, compared byte by byte.
    private func distinct(_ names: [String]) -> [String] {
        names.enumerated().filter { index, name in !names[..<index].contains { $0.utf8.elementsEqual(name.utf8) } }.map(\.element)
    }

    /// Creates groups, and adds friends to each of them. All names must be new.
    func createGroups(_ names: [String], with users: [UserID], on owner: inout Owner, into outbox: inout Outbox) -> FriendCallResult {
        var groups = friendGroups(of: owner)
        let list = list(.friendGroup, of: owner)
        let names = distinct(names)
        var (changes, ids) = ([ChainRules.Change](), [FriendGroupID]())
        for name in names {
            if let known = groups.named(name).first {
                guard mayHaveWritten(list.entry(for: String(known.id))) else { return refused(.wrongGroup) }
                writeAgain(.friendGroup, String(known.id), of: owner, into: &outbox)
                ids.append(known.id)
            } else {
                guard let new = groups.nextID(at: owner.clock.milliseconds(at: now.wall)) else { return refused(.groupsFull) }
                changes.append(.set(FriendGroup(name: name), String(new)))
                ids.append(new)
            }
        }
        guard list.liveCount + changes.count <= owner.policies.policy(of: id).chain.friendGroupsMax || changes.isEmpty else {
            return refused(.groupsFull)
        }
        let existing = groups.groups.map(\.id) + ids
        let outcomes = users.map { other in
            let code = join(other, ids, existing: existing, ifNoFriend: .noFriendOfNewGroup, of: owner, &changes, into: &outbox)
            // A friend of a new group is in none of the groups, unless an earlier attempt has added it.
            return ChainOutcome(user: other, code: code == .alreadyInGroup ? .done : code)
        }
        write(changes, on: &owner, into: &outbox)
        return FriendCallResult(users: outcomes)
    }

    /// Deletes groups. A name without a group is done already.
    func deleteGroups(_ names: [String], on owner: inout Owner, into outbox: inout Outbox) -> FriendCallResult {
        let groups = friendGroups(of: owner)
        let deleted = groups.groups.filter { group in names.contains { $0.utf8.elementsEqual(group.name.utf8) } }
        if deleted.count < names.count {
            // An earlier call may have deleted the missing groups on this disk alone. A tombstone has no name, so the newest are written.
            let tombstones = list(.friendGroup, of: owner).entries.filter(\.isRemoved).sorted { $0.version < $1.version }
            for entry in tombstones.suffix(Limits.friendGroupsMax) { writeAgain(.friendGroup, entry.key, of: owner, into: &outbox) }
        }
        write(deleted.map { .remove(.friendGroup, String($0.id)) }, on: &owner, into: &outbox)
        return FriendCallResult()
    }

    /// Gives a group another name. No other group may have it.
    func renameGroup(_ old: String, to new: String, on owner: inout Owner, into outbox: inout Outbox) -> FriendCallResult {
        let groups = friendGroups(of: owner)
        let (renamed, taken) = (groups.named(old), groups.named(new))
        if let same = taken.first, renamed.isEmpty || renamed.contains(where: { $0.id == same.id }) {
            let key = String(same.id)
            guard !renamed.isEmpty || mayHaveWritten(list(.friendGroup, of: owner).entry(for: key)) else { return refused(.wrongGroup) }
            writeAgain(.friendGroup, key, of: owner, into: &outbox)
            return FriendCallResult()
        }
        guard taken.isEmpty, !renamed.isEmpty else { return refused(.wrongGroup) }
        write(renamed.map { .set(FriendGroup(name: new), String($0.id)) }, on: &owner, into: &outbox)
        return FriendCallResult()
    }

    /// Adds friends to a group, each with a result.
    func addToGroup(_ name: String, _ users: [UserID], on owner: inout Owner, into outbox: inout Outbox) -> FriendCallResult {
        let groups = friendGroups(of: owner)
        guard let group = groups.named(name).first else { return refused(.wrongGroup) }
        var changes: [ChainRules.Change] = []
        let outcomes = users.map { other in
            let code = join(
                other, [group.id], existing: groups.groups.map(\.id), ifNoFriend: .noFriendOfGroup, of: owner, &changes, into: &outbox)
            return ChainOutcome(user: other, code: code)
        }
        write(changes, on: &owner, into: &outbox)
        return FriendCallResult(users: outcomes)
    }

    /// Adds a friend to groups, as one more change.
    ///
    /// - Parameter existing: the numbers of all groups. The friend loses those of deleted groups.
    private func join(
        _ other: UserID, _ ids: [FriendGroupID], existing: [FriendGroupID], ifNoFriend code: ChainCode, of owner: borrowing Owner,
        _ changes: inout [ChainRules.Change], into outbox: inout Outbox
    ) -> ChainCode {
        let key = String(other.id)
        let entry = list(.friend, of: owner).entry(for: key)
        guard var friend: Friend = entry?.fact(of: id) else { return code }
        let held = friend.groupIDs.filter { existing.contains($0) }
        let joined = Set(held + ids).sorted()
        guard joined != held else {
            writeAgain(.friend, key, of: owner, into: &outbox)
            return mayHaveWritten(entry) ? .done : .alreadyInGroup
        }
        guard joined.count <= Limits.friendGroupsMax else { return .groupsFull }
        friend.groupIDs = joined
        changes.append(.set(friend, key))
        return .done
    }

    /// Removes friends from a group, each with a result.
    func removeFromGroup(_ name: String, _ users: [UserID], on owner: inout Owner, into outbox: inout Outbox) -> FriendCallResult {
        let groups = friendGroups(of: owner)
        let ids = groups.named(name).map(\.id)
        guard !ids.isEmpty else { return refused(.wrongGroup) }
        let list = list(.friend, of: owner)
        var changes: [ChainRules.Change] = []
        let outcomes = users.map { other in
            let key = String(other.id)
            let entry = list.entry(for: key)
            guard var friend: Friend = entry?.fact(of: id) else { return ChainOutcome(user: other, code: .noFriendOfGroup) }
            guard friend.groupIDs.contains(where: ids.contains) else {
                writeAgain(.friend, key, of: owner, into: &outbox)
                return ChainOutcome(user: other, code: mayHaveWritten(entry) ? .done : .notInGroup)
            }
            friend.groupIDs = groups.existing(friend.groupIDs).filter { !ids.contains($0) }
            changes.append(.set(friend, key))
            return ChainOutcome(user: other, code: .done)
        }
        write(changes, on: &owner, into: &outbox)
        return FriendCallResult(users: outcomes)
    }

    /// The answer with the JSON of groups and their friends; nil names all groups. A name without a group is left out.
    ///
    /// An answer between two nodes has a limit. Beyond it the call must name fewer groups.
    func groups(_ names: [String]?, of owner: borrowing Owner) -> OwnerReply<FriendCallResult> {
        let groups = friendGroups(of: owner)
        let chosen = groups.groups.filter { group in names.map { $0.contains { $0.utf8.elementsEqual(group.name.utf8) } } ?? true }
        let members = groups.members(of: chosen, in: list(.friend, of: owner), of: id)
        let json = FriendGroups.json(chosen, members, sequence: list(.friendGroup, of: owner).sequence)
        guard json.count <= FriendCallResult.jsonBytesMax else { return .refusedAsWritten(.tooManyGroups) }
        return .asWritten(FriendCallResult(json: json))
    }
}

extension Refusal {
    fileprivate static let tooManyGroups = Refusal(
        code: 6017, detail: "groupNames: the groups have too many friends for one answer; name fewer groups")
}
