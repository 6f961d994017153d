import PresenceWire

/// A call with a key at the owner of its user: known or new (<doc:HTTPAPI#Repeated-calls>).
///
/// The owner keeps the answer of such a call as a row of the user. The row is written with the rows of the call, so both are on two disks
/// or neither counts. The next owner of the user finds it, and gives a repetition the same answer.
///
/// A decision about another user needs several writes. The first of them has a row without an answer. If the owner dies between them, a
/// repetition goes on as a later attempt of the same call (``PresenceWire/Request/isRepeated``).
struct AnsweredCalls {
    /// The age, in milliseconds, at which every node that keeps an answer drops it.
    static let keptFor: Milliseconds = 3_600_000
    /// The answers of one user. Beyond it the oldest go.
    static let countMax = 64

    let request: Request
    /// The node that has sent the request.
    let peer: PeerIndex
    let now: Now

    /// The request to perform; nil if the call has been answered before, so that this has answered the request.
    func toPerform(_ owner: borrowing Owner, _ cluster: inout Cluster) -> Request? {
        guard let key = request.key, let user = owner.index(ofKnown: request.user),
            let held = owner.users[user].list(.answeredCall).entry(for: key.text), held.version.milliseconds + Self.keptFor > now.wall,
            let known: AnsweredCall = held.fact(of: request.user)
        else { return request }
        guard known.digest == key.digest else {
            cluster.send(.answer(id: request.id, .refused(.keyOfOtherCall)), to: peer)
            return nil
        }
        guard let answer = known.answer else {
            var attempt = request
            (attempt.isRepeated, attempt.begunAt) = (true, known.begunAt)
            return attempt
        }
        // The first write may have ended on this disk alone.
        cluster.outbox.rows += owner.users[user].rows(since: known.begunAt, to: held.version.milliseconds)
        cluster.outbox.answerWhenStored(request, answer, to: peer)
        return nil
    }

    // MARK: Answers

    /// Keeps the answer that the request has just had, if the answer waits for the disks.
    func keepAnswer(of owner: inout Owner, into outbox: inout Outbox) {
        guard let key = request.key else { return }
        let answer = outbox.continuations.changeLastAnswer(to: request.id, for: peer) { $0.adding(key.excluded) }
        if let answer { keep(answer, of: &owner, into: &outbox) }
    }

    /// Answers a call of the relationship chain that makes no decision. It rests on rows of earlier calls, which are on two disks then.
    func answer(_ outcomes: [ChainOutcome], of owner: inout Owner, into outbox: inout Outbox) {
        guard request.key != nil else {
            let answer = DeferredContinuation.Action.answer(id: request.id, of: request.user, .chained(outcomes), to: peer)
            return outbox.deferred.append(DeferredContinuation(users: [request.user], action: answer))
        }
        outbox.answerWhenStored(request, .chained(outcomes), to: peer)
        keepAnswer(of: &owner, into: &outbox)
    }

    /// Writes the row of the call.
    ///
    /// - Parameter answer: nil while the call is under way.
    func keep(_ answer: Answer?, of owner: inout Owner, into outbox: inout Outbox) {
        guard let key = request.key else { return }
        let call = AnsweredCall(digest: key.digest, begunAt: request.begunAt, answer: answer)
        let row = Row(call, of: request.user, key: key.text, version: owner.nextVersion(at: now))
        _ = Self.store(row, of: owner.index(of: request.user), in: &owner, in: &outbox[at: now])
    }

    // MARK: Rows

    /// Takes the row of another node. Returns whether it was newer than the one here.
    static func merge(_ row: Row, of user: Owner.Index, in owner: inout Owner, in turn: inout Turn) throws(RowError)
        -> Bool
    {
        guard row.value != nil else { throw RowError(row, "the value is missing") }
        try row.checkListed()
        // A node whose clock is a little behind may send what has ended here.
        guard row.version.milliseconds + keptFor > turn.now.wall, owner.accepts(row.version, at: turn.now) else { return false }
        return store(row, of: user, in: &owner, in: &turn)
    }

    private static func store(
        _ row: Row, of user: Owner.Index, in owner: inout Owner, in turn: inout Turn
    ) -> Bool {
        let (isNewer, ended) = owner.modifyLists(user) { lists in
            let isNewer = lists.merge(row)
            return (isNewer, isNewer ? lists.endAnswers(at: turn.now.wall, of: row.user) : [])
        }
        if isNewer { turn.outbox.rows.append(row) }
        turn.outbox.deletedRows += ended
        return isNewer
    }
}

extension Answer {
    /// The answer with the results for users of the call whom the app does not know.
    fileprivate func adding(_ unknown: [UserID]) -> Answer {
        unknown.isEmpty ? self : adding(unknown.map { ChainOutcome(user: $0, code: .noSuchUser) })
    }
}

extension OwnedUser {
    /// The rows of the user's record and lists that were written after a version, up to a millisecond.
    fileprivate func rows(since begin: Version, to end: Milliseconds) -> [Row] {
        let isWanted = { (version: Version) in version > begin && version.milliseconds <= end }
        var rows: [Row] = []
        if isWanted(record.version) { rows.append(Row(record)) }
        if let privacy = record.privacy, isWanted(privacy.version) { rows.append(Row(privacy, of: record.user)) }
        rows += subscriptions.entries.lazy.filter { isWanted($0.version) }.map { Row($0, of: record.user) }
        return rows + lists.rows(of: record.user, where: isWanted)
    }
}
