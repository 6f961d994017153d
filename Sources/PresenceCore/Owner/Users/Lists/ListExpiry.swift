import PresenceWire

/// Removes what has ended in a user's lists, from memory and from disk: tombstones, and the answers of calls.
struct ListExpiry {
    let user: Owner.Index

    func expire(_ owner: inout Owner, in turn: inout Turn) {
        guard !owner.users[user].lists.isEmpty else { return }
        let id = owner.users.user(at: user)
        let (tombstones, answers) = owner.modifyLists(user) { lists in
            (lists.expireTombstones(at: turn.now.wall, of: id), lists.endAnswers(at: turn.now.wall, of: id))
        }
        owner.count { $0.tombstonesForgotten += UInt64(tombstones.count) }
        turn.outbox.deletedRows += tombstones + answers
    }
}
