import PresenceWire

/// `importUsers`: registers users. The owner of each user decides.
extension Calls {
    /// Asks the owner of each user. The answer names the users that could not be registered.
    mutating func importUsers(_ users: [UserID], for call: PendingCalls.CallIndex, _ cluster: inout Cluster) {
        for user in users { ask(.register, of: user, for: call, &cluster) }
    }
}

extension OwnerRequest {
    /// Registers the user: the record says so, and every node that is asked about the user sees it.
    func register(on owner: inout Owner, into outbox: inout Outbox) {
        let user = owner.index(of: id)
        var record = owner.users[user].record
        // An earlier attempt may have failed, so that the fact is only on this disk.
        guard !record.isRegistered else {
            outbox.rows.append(Row(record))
            return answerWhenStored(.record(record), into: &outbox)
        }
        (record.isRegistered, record.version) = (true, owner.clock.next(at: now.wall))
        record.knownSince = owner.knownSince(ofNew: record)
        owner.users.modify(user) { $0.record = record }
        outbox.changes.append((record, owner.users[user].watchers))
        outbox.rows.append(Row(record))
        owner.schedule(user, at: now)
        answerWhenStored(.record(owner.record(of: id)), into: &outbox)
    }
}
