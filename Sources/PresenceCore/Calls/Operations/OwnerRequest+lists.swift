import PresenceWire

/// The calls about lists and the profile that the user's owner decides alone (<doc:Architecture#Relationship-chain>).
extension OwnerRequest {
    /// Carries out a call about the user's own lists, and answers it.
    func perform(_ call: FriendCall, on owner: inout Owner, into outbox: inout Outbox) {
        // The rows of an attempt are newer than the call: see ``mayHaveWritten(_:)``.
        if call.isChange { _ = owner.accepts(request.begunAt, at: now) }
        switch call {
        case .profile: answerAsWritten(.friendCalled(FriendCallResult(json: profile(of: owner))), into: &outbox)
        case .modifyProfile(let changes): finish(modifyProfile(changes, on: &owner, into: &outbox), into: &outbox)
        case .blocked(let cursor, let limit):
            answerAsWritten(.friendCalled(FriendCallResult(json: blocked(after: cursor, limit: limit, of: owner))), into: &outbox)
        case .requests(let query): answerAsWritten(.friendCalled(FriendCallResult(json: requests(query, of: owner))), into: &outbox)
        case .deleteRequests(let users, let kind):
            finish(deleteRequests(of: users, kind, on: &owner, into: &outbox), into: &outbox)
        case .readRequests(let time): finish(readRequests(upTo: time, on: &owner, into: &outbox), into: &outbox)
        case .modifyFriend(let other, let change):
            finish(modify(other, change, on: &owner, into: &outbox), into: &outbox)
        case .createGroups(let names, let users): finish(createGroups(names, with: users, on: &owner, into: &outbox), into: &outbox)
        case .deleteGroups(let names): finish(deleteGroups(names, on: &owner, into: &outbox), into: &outbox)
        case .renameGroup(let old, let new): finish(renameGroup(old, to: new, on: &owner, into: &outbox), into: &outbox)
        case .groups(let names): answerAsWritten(groups(names, of: owner), into: &outbox)
        case .addToGroup(let name, let users): finish(addToGroup(name, users, on: &owner, into: &outbox), into: &outbox)
        case .removeFromGroup(let name, let users):
            finish(removeFromGroup(name, users, on: &owner, into: &outbox), into: &outbox)
        case .importFriends(let friends): finish(ImportFriends.perform(friends, of: self, on: &owner, into: &outbox), into: &outbox)
        }
    }

    /// Answers a change when two disks have it. A result that changed nothing may rest on rows of an earlier call, so it waits as well.
    private func finish(_ result: FriendCallResult, into outbox: inout Outbox) { answerWhenStored(.friendCalled(result), into: &outbox) }

    /// The user's list of a kind; empty if the user is not known here.
    func list(_ kind: Row.Kind, of owner: borrowing Owner) -> RowList {
        owner.index(ofKnown: id).map { owner.users[$0].list(kind) } ?? RowList()
    }

    /// Writes changes of the user's own lists, all at one new version.
    func write(_ changes: [ChainRules.Change], on owner: inout Owner, into outbox: inout Outbox) {
        guard !changes.isEmpty else { return }
        var version = owner.nextVersion(at: now)
        // Otherwise the owner would ask after a restart whether the decision that has added the friend counts, and nobody has made it.
        if changes.contains(where: { $0.seemsDecided(at: version) }) { version = owner.nextVersion { $0.nextImport(at: now) } }
        owner.write(changes, of: owner.index(of: id), decidedAt: version, in: &outbox[at: now])
    }

    /// Writes a row again that the call has not changed. An earlier call, or attempt, may have written it to this disk alone.
    func writeAgain(_ kind: Row.Kind, _ key: String, of owner: borrowing Owner, into outbox: inout Outbox) {
        guard let user = owner.index(ofKnown: id) else { return }
        outbox.writeAgain([kind], about: key, of: owner.users[user])
    }

    /// Whether an earlier attempt of the call may have written a row.
    func mayHaveWritten(_ entry: RowList.Entry?) -> Bool {
        guard request.isRepeated, let entry else { return false }
        return entry.version > request.begunAt
    }
}
