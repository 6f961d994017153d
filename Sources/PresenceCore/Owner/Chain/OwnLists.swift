import PresenceWire

/// The calls about lists that the user's owner decides alone (<doc:Architecture#Relationship-chain>).
extension OwnerRequest {
    /// Carries out a call about the user's own lists, and answers it.
    func perform(_ call: FriendCall, on owner: inout Owner, into outbox: inout Outbox) {
        switch call {
        case .requests(let query): answer(.friendCalled(FriendCallResult(json: requests(query, of: owner))), into: &outbox)
        case .deleteRequests(let users, let kind):
            answerWhenStored(.friendCalled(deleteRequests(of: users, kind, on: &owner, into: &outbox)), into: &outbox)
        case .readRequests(let time): answerWhenStored(.friendCalled(readRequests(upTo: time, on: &owner, into: &outbox)), into: &outbox)
        }
    }

    /// The user's list of a kind; empty if the user is not known here.
    func list(_ kind: Row.Kind, of owner: borrowing Owner) -> RowList {
        owner.index(ofKnown: id).map { owner.users[$0].list(kind) } ?? RowList()
    }

    /// Writes changes of the user's own lists, all at one new version.
    func write(_ changes: [ChainRules.Change], on owner: inout Owner, into outbox: inout Outbox) {
        guard !changes.isEmpty else { return }
        let version = owner.clock.next(at: now.wall)
        owner.write(changes, of: owner.index(of: id), decidedAt: version, at: now, into: &outbox)
    }

    /// Writes a row again that the call has not changed. An earlier attempt may have written it to this disk alone.
    func writeAgain(_ kind: Row.Kind, _ key: String, on owner: inout Owner, into outbox: inout Outbox) {
        guard request.isRepeated, let user = owner.index(ofKnown: id) else { return }
        owner.writeAgain([kind], about: key, of: user, into: &outbox)
    }

    /// Whether an earlier attempt of the call may have written a row.
    func mayHaveWritten(_ entry: RowList.Entry?) -> Bool {
        guard request.isRepeated, let entry else { return false }
        return entry.version > request.begunAt
    }
}

extension RowList {
    /// The fact of a row; nil if there is none, or if it was removed.
    func fact<Fact: RowFact>(_ key: String, of user: UserID) -> Fact? {
        entry(for: key).flatMap { $0.fact(of: user) }
    }
}

extension RowList.Entry {
    /// The fact of the row; nil for a tombstone. A row of a list was checked when it was stored.
    func fact<Fact: RowFact>(of user: UserID) -> Fact? {
        isRemoved ? nil : try? Fact(Row(self, of: user, Fact.kind))
    }
}
