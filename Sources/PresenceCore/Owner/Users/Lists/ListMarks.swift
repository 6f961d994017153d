import PresenceWire

/// The mark of a user's list: clients that hold an earlier sequence read the whole list (``Row/lateMark``).
struct ListMarks {
    let user: Owner.Index
    let kind: Row.Kind

    /// Marks the list, because clients may have passed a row of it.
    ///
    /// - Parameter version: the sequence below which clients may miss something; nil for a new one, which no client has.
    @discardableResult func mark(_ owner: inout Owner, version: Version? = nil, in turn: inout Turn) -> Row {
        let version = version ?? owner.nextVersion(at: turn.now)
        let mark = Row(user: owner.users.user(at: user), kind: kind, key: Row.lateMark, version: version, value: nil)
        owner.modifyLists(user) { _ = $0.merge(mark) }
        turn.outbox.rows.append(mark)
        return mark
    }

    /// The version of the mark; ``PresenceWire/Version/zero`` for none.
    func version(in owner: borrowing Owner) -> Version { owner.users[user].list(kind).entry(for: Row.lateMark)?.version ?? .zero }

    /// Keeps the version of a removal whose tombstone was replaced by one that has removed nothing.
    ///
    /// A client that is older than the removal reads the whole list, because the list does not say any more what was removed.
    func keepRemoval(_ held: RowList.Entry, of owner: inout Owner, in turn: inout Turn) {
        guard !held.isUnseen, held.version > version(in: owner) else { return }
        mark(&owner, version: held.version, in: &turn)
    }
}
