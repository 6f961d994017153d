import PresenceWire

/// Removes what has ended in a user's lists, from memory and from disk: tombstones, the answers of calls, and the deletion of the user.
struct ListExpiry {
    let user: Owner.Index

    func expire(_ owner: inout Owner, in turn: inout Turn) {
        guard !owner.users[user].lists.isEmpty else { return }
        let id = owner.users.user(at: user)
        let (tombstones, ended) = owner.modifyLists(user) { lists in
            let tombstones = lists.expireTombstones(at: turn.now.wall, of: id)
            return (tombstones, lists.endAnswers(at: turn.now.wall, of: id) + lists.endDeletion(at: turn.now.wall, of: id))
        }
        owner.count { $0.tombstonesForgotten += UInt64(tombstones.count) }
        turn.outbox.deletedRows += tombstones + ended
    }
}
