import PresenceWire

/// The groups of a user's friend list (P32–P37). Friends hold the numbers of their groups, so a new name changes one row.
struct FriendGroups {
    struct Group {
        let id: FriendGroupID
        let name: String
    }

    /// The groups in the order of their creation.
    private(set) var groups: [Group] = []
    /// The largest number that the list has seen; 0 for none.
    private var lastID: FriendGroupID = 0

    /// Reads the groups of a list.
    init(_ list: RowList, of user: UserID) {
        for entry in list.entries {
            guard let id = FriendGroupID(entry.key) else { continue }
            lastID = max(lastID, id)
            if let group: FriendGroup = entry.fact(of: user) { groups.append(Group(id: id, name: group.name)) }
        }
        groups.sort { $0.id < $1.id }
    }

    /// The groups with a name, compared byte by byte. Two sides of a split may each have created one.
    func named(_ name: String) -> [Group] { groups.filter { $0.name.utf8.elementsEqual(name.utf8) } }

    /// The numbers of the groups of these names, sorted; nil if a name has no group.
    func ids(named names: [String]) -> [FriendGroupID]? {
        var ids: [FriendGroupID] = []
        for name in names {
            guard let group = named(name).first else { return nil }
            ids.append(group.id)
        }
        return Set(ids).sorted()
    }

    /// The names of the groups with these numbers. A friend may hold the number of a group that was deleted.
    func names(of ids: [FriendGroupID]) -> [String] { groups.filter { ids.contains($0.id) }.map(\.name) }

    /// Those of the numbers whose groups exist.
    func existing(_ ids: [FriendGroupID]) -> [FriendGroupID] { ids.filter { id in groups.contains { $0.id == id } } }

    /// The friends in each of some groups, by name.
    func members(of chosen: [Group], in friends: RowList, of user: UserID) -> [[String]] {
        var members = [[String]](repeating: [], count: chosen.count)
        guard !chosen.isEmpty else { return members }
        for entry in friends.entries {
            guard let friend: Friend = entry.fact(of: user), !friend.groupIDs.isEmpty else { continue }
            for (index, group) in chosen.enumerated() where friend.groupIDs.contains(group.id) { members[index].append(entry.key) }
        }
        return members
    }

    /// Whether a friend is in one of these groups.
    static func have(_ ids: [FriendGroupID], aFriendIn friends: RowList, of user: UserID) -> Bool {
        guard !ids.isEmpty else { return false }
        return friends.entries.contains { entry in
            (entry.fact(of: user) as Friend?).map { friend in friend.groupIDs.contains(where: ids.contains) } ?? false
        }
    }

    /// The number of a new group; nil if there is none left.
    ///
    /// It is the second of the creation, or the next free number. So no number is used twice, although tombstones expire, and two sides of
    /// a split seldom use the same.
    mutating func nextID(at time: Milliseconds) -> FriendGroupID? {
        guard lastID < .max else { return nil }
        lastID = max(lastID + 1, FriendGroupID(clamping: time / 1_000))
        return lastID
    }
}

extension ListMarks {
    /// Moves the sequence of a user's friends after groups have another name, or are gone: the list shows the names of a friend's groups.
    ///
    /// A client then reads the whole list. The rows of the friends hold the numbers of the groups, and stay as they are. Returns whether a
    /// friend is in one of the groups.
    ///
    /// - Parameter rows: the changed rows of groups. Those of other kinds are ignored.
    static func showGroups(_ rows: [Row], of user: Owner.Index, in owner: inout Owner, in turn: inout Turn) -> Bool {
        let ids = rows.filter { $0.kind == .friendGroup }.compactMap { FriendGroupID($0.key) }
        guard FriendGroups.have(ids, aFriendIn: owner.users[user].list(.friend), of: owner.users.user(at: user)) else { return false }
        ListMarks(user: user, kind: .friend).mark(&owner, in: &turn)
        return true
    }
}

extension ChainCall {
    /// The call with the number of the group that it names; nil if the user has no such group.
    ///
    /// - Parameter isRetry: whether an earlier attempt may have found the group. Then the friend is added without it.
    func withGroupID(isRetry: Bool, of user: UserID, _ owner: borrowing Owner) -> ChainCall? {
        guard case .add(let other, var request, let isTwoWay, let group?) = self else { return self }
        let list = owner.index(ofKnown: user).map { owner.users[$0].list(.friendGroup) } ?? RowList()
        request.groupID = FriendGroups(list, of: user).named(group).first?.id
        guard request.groupID != nil || isRetry else { return nil }
        return .add(other, request, isTwoWay: isTwoWay)
    }
}
