import PresenceWire

/// The calls about lists and the profile that the user's owner decides alone (<doc:Architecture#Relationship-chain>).
///
/// A result that changed nothing may rest on rows of an earlier call, so the answer to each change waits for the disks.
enum OwnLists: RequestDecision {
    static func perform(
        _ asked: FriendCall, of call: OwnerRequest, on owner: inout Owner, into outbox: inout Outbox
    ) -> OwnerReply<FriendCallResult> {
        // The rows of an attempt are newer than the call: see ``OwnerRequest/mayHaveWritten(_:)``.
        if asked.isChange { _ = owner.accepts(call.request.begunAt, at: call.now) }
        return switch asked {
        case .profile: .asWritten(FriendCallResult(json: call.profile(of: owner)))
        case .modifyProfile(let changes): .whenStored(call.modifyProfile(changes, on: &owner, into: &outbox))
        case .blocked(let cursor, let limit):
            .asWritten(FriendCallResult(json: call.blocked(after: cursor, limit: limit, of: owner)))
        case .requests(let query): .asWritten(FriendCallResult(json: call.requests(query, of: owner)))
        case .deleteRequests(let users, let kind): .whenStored(call.deleteRequests(of: users, kind, on: &owner, into: &outbox))
        case .readRequests(let time): .whenStored(call.readRequests(upTo: time, on: &owner, into: &outbox))
        case .modifyFriend(let other, let change): .whenStored(call.modify(other, change, on: &owner, into: &outbox))
        case .createGroups(let names, let users): .whenStored(call.createGroups(names, with: users, on: &owner, into: &outbox))
        case .deleteGroups(let names): .whenStored(call.deleteGroups(names, on: &owner, into: &outbox))
        case .renameGroup(let old, let new): .whenStored(call.renameGroup(old, to: new, on: &owner, into: &outbox))
        case .groups(let names): call.groups(names, of: owner)
        case .addToGroup(let name, let users): .whenStored(call.addToGroup(name, users, on: &owner, into: &outbox))
        case .removeFromGroup(let name, let users): .whenStored(call.removeFromGroup(name, users, on: &owner, into: &outbox))
        case .importFriends(let friends): .whenStored(ImportFriends.perform(friends, of: call, on: &owner, into: &outbox))
        }
    }
}

extension OwnerRequest {
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
