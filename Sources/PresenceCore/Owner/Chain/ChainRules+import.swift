import PresenceWire

/// Friends whom a back end brings along from another service.
extension ChainRules {
    /// Adds friends to the user's list, as far as its bounds and the blocklist allow. A friend whom the user has is kept as it is, and a
    /// friend in a group that the user does not have is refused.
    ///
    /// - Parameters:
    ///   - groups: the user's groups.
    ///   - time: the time of the call.
    ///   - isOfCall: whether an earlier attempt of the call may have written a row.
    func imports(
        _ friends: [FriendImport], in groups: FriendGroups, at time: Milliseconds, isOfCall: (RowList.Entry?) -> Bool
    ) -> (outcomes: [ChainOutcome], changes: [Change]) {
        var (outcomes, changes) = ([ChainOutcome](), [Change]())
        for friend in friends {
            let key = String(friend.user.id)
            let code: ChainCode
            if isFriend(key) {
                code = isOfCall(user.list(.friend).entry(for: key)) ? .done : .alreadyFriend
            } else if let refusal = refusalOfImport(of: key, after: changes.map(\.key)) {
                code = refusal
            } else if let ids = groups.ids(named: friend.change.groups ?? []) {
                changes.append(.set(Friend(friend, groupIDs: ids, at: time, declared: policy.chain.friendFields), key))
                code = .done
            } else {
                code = .wrongGroup
            }
            outcomes.append(ChainOutcome(user: friend.user, code: code))
        }
        return (outcomes, changes)
    }
}

extension Friend {
    fileprivate init(
        _ imported: FriendImport, groupIDs: [FriendGroupID], at time: Milliseconds, declared: [CustomFieldDeclaration]
    ) {
        self.init(addTime: imported.addTime ?? time)
        (remark, addWording, addSource) = (imported.change.remark ?? "", imported.addWording, imported.addSource)
        self.groupIDs = groupIDs
        set(imported.change.fields, declared: declared)
    }
}
