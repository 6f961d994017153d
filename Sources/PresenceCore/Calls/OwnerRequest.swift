import PresenceWire

/// An operation that a user's owner decides.
///
/// The node that received the call has validated it. Every answer to a change waits for the disk.
struct OwnerRequest {
    let request: Request
    /// The node that sent the request and receives the answer.
    let peer: PeerIndex
    let now: Now

    var id: UserID { request.user }

    /// Answers now: nothing was changed.
    func answer(_ answer: Answer, into outbox: inout Outbox) { outbox.answer(request.id, answer, to: peer) }

    /// Answers with what rows of users say, when these rows are on two disks. Without `users` they are the caller's.
    func answerAsWritten(_ answer: Answer, of users: [UserID]? = nil, into outbox: inout Outbox) {
        outbox.deferred.append(DeferredContinuation(users: users ?? [id], action: .answer(id: request.id, of: id, answer, to: peer)))
    }

    /// Answers when the rows of this input are on disk.
    func answerWhenStored(_ answer: Answer, into outbox: inout Outbox) {
        outbox.answerWhenStored(request, answer, to: peer)
    }

    /// Writes the user's record again, because the call has changed nothing.
    ///
    /// An earlier attempt may have failed, so that the record is only on this disk.
    func writeAgain(_ user: Owner.Index, of owner: borrowing Owner, into outbox: inout Outbox) {
        let record = owner.users[user].record
        if record.version > .zero { outbox.rows.append(Row(record)) }
    }
}
