import PresenceWire

/// `deleteUser`: removes a user, and all that other users hold about the user.
///
/// The calling node drives it: it counts the facts, ends the sessions, has the user's owner write the ``PresenceWire/Deletion``, and has
/// all nodes remove what they hold about the user until none finds anything. Each step may be repeated. If this node dies, the owner of the
/// user has the deletion go on (``Effect/resumeDeletion(_:)``), as a repetition of the call does.
enum DeleteUser: OperatorOperation {
    /// The progress of a deletion.
    struct Parts {
        var phase = Phase.finding
        /// The deletion, once the owner has written it.
        var deletion: Deletion?
        /// The facts that were found, by the number of their kind.
        var counts: [UInt8: UInt64] = [:]
        /// The first slot that a node has not searched in this round; nil if every node has searched all.
        var roundEnd: Slot?
        var round: [Mention] = []
        /// Whether a node has found something in this pass over all slots.
        var hasFound = false
        /// The passes that have begun, and the ring at the begin of the last one.
        var pass = (count: 0, ring: UInt64(0))

        /// The answer to a call whose time is over: the receipt, if the deletion has begun. It goes on without the call.
        var answerOfTimeout: CallAnswer { deletion.map { .userDeleted($0) } ?? .refused(.unavailable.afterPassingOn) }
    }

    enum Phase {
        /// Asks the owner for an earlier deletion.
        case finding
        /// Counts what all nodes hold about the user.
        case counting
        /// Ends the user's sessions, and voids the tokens.
        case kicking
        /// Has the owner drop the user's own facts.
        case beginning
        /// Has all nodes remove what they hold about the user.
        case removing
        /// Has the owner end the deletion.
        case ending
    }

    /// The receipt.
    struct Answer: OperationAnswer {
        let deletion: Deletion

        init?(_ answer: CallAnswer) {
            guard case .userDeleted(let deletion) = answer else { return nil }
            self.deletion = deletion
        }
    }

    static let description = OpenAPI.Operation(
        name: "deleteUser",
        summary:
            "Deletes a user: ends the sessions, voids the tokens, and removes the status, the profile, the lists, and what other users "
            + "hold about the user. A repetition goes on, and answers the same receipt.",
        request: Schema.object([Schema.required("userID", Schema.reference("UserID"))]), isBodyRequired: true,
        answer: Schema.object([
            Schema.required("receiptID", Schema.string),
            Schema.required(
                "isComplete",
                Schema.described(
                    Schema.bool, "false while facts may be left: the cluster goes on by itself, and a repetition tells when it is done.")),
            Schema.required(
                "removed",
                Schema.described(
                    ["type": "object", "additionalProperties": ["type": "integer", "minimum": 0]],
                    "The facts that were found at the beginning, by kind: those of the user, and those of others about the user.")),
            Schema.required("nodes", Schema.described(Schema.list(of: Schema.string), "The nodes that were searched.")),
            Schema.required("begunAt", Schema.time), Schema.sometimes("completedAt", Schema.time),
            Schema.required(
                "lastTombstoneEndsAt",
                Schema.described(
                    Schema.time, "The end of the last marks of removals. Until then they name the user, and earlier tokens stay void.")),
        ]), refusals: [.noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, of body: [UInt8], by caller: UserID) throws(Problem) -> API.Parsed {
        API.Parsed(call: .deleteUser, subject: try fields.user("userID", besides: caller), errors: [])
    }

    static func write(_ answer: Answer, to parsed: API.Parsed, _ owner: borrowing Owner, into json: inout JSONWriter) throws(Problem) {
        let deletion = answer.deletion
        json.object { json in
            json.member("receiptID", deletion.receiptID)
            json.member("isComplete", deletion.completedAt != nil)
            json.key("removed")
            json.counts(of: deletion.removed)
            json.array("nodes", deletion.nodes) { $0.string($1) }
            json.member("begunAt", deletion.begunAt)
            if let completedAt = deletion.completedAt { json.member("completedAt", completedAt) }
            json.member("lastTombstoneEndsAt", deletion.endsAt)
        }
    }
}

extension DeleteUser {
    /// Asks the owner for an earlier deletion.
    static func begin(_ user: UserID, for call: PendingCalls.CallIndex, _ calls: inout Calls, _ cluster: inout Cluster) {
        calls.ask(.deleteUser(.find), of: user, for: call, &cluster)
    }

    /// Most passes of one call. With more than that, others add the user faster than nodes remove it.
    private static let passesMax = 5

    /// Takes an answer to one of the call's requests, and gives the next ones as long as a call may last. Returns false for a refusal,
    /// which ends the call.
    static func takes(
        _ answer: PresenceWire.Answer, of call: PendingCalls.CallIndex, _ calls: inout Calls, _ edge: borrowing Edge,
        _ cluster: inout Cluster, at now: Now
    ) -> Bool {
        calls.waiting[call]?.deadline = now.instant + cluster.settings.callTimeout
        switch answer {
        case .refused where calls.waiting[call]?.answered.deletion.deletion != nil:
            // It has begun, and goes on without this call.
            if let answer = calls.waiting[call]?.answered.deletion.answerOfTimeout { calls.finish(call, answer, edge, &cluster) }
        case .deleted(let found): take(found, of: call, &calls, edge, &cluster)
        case .mentioned(let found): take(found, of: call, &calls, edge, &cluster)
        case .done: kicked(call, &calls, &cluster)
        default: return false
        }
        return true
    }

    /// Takes an answer of the user's owner.
    private static func take(
        _ answer: DeletionAnswer, of call: PendingCalls.CallIndex, _ calls: inout Calls, _ edge: borrowing Edge, _ cluster: inout Cluster
    ) {
        guard let pending = calls.waiting[call] else { return }
        if let deletion = answer.deletion { calls.waiting[call]?.answered.deletion.deletion = deletion }
        switch (pending.answered.deletion.phase, answer.deletion) {
        case (.finding, nil):
            for fact in answer.facts { calls.waiting[call]?.answered.deletion.counts[fact.kind.rawValue, default: 0] += fact.count }
            calls.waiting[call]?.answered.deletion.phase = .counting
            askAll(from: 0, for: call, pending.caller, &calls, &cluster)
        case (.finding, let deletion?) where deletion.sweptAt != nil && deletion.completedAt == nil:
            calls.waiting[call]?.answered.deletion.phase = .ending
            calls.ask(.deleteUser(.end), of: pending.caller, for: call, &cluster)
        case (_, let deletion?) where deletion.completedAt != nil: calls.finish(call, .userDeleted(deletion), edge, &cluster)
        case (.finding, .some), (.beginning, .some):
            calls.waiting[call]?.answered.deletion.phase = .removing
            askAll(from: 0, for: call, pending.caller, &calls, &cluster)
        // Events wait for the app's webhook. The owner goes on later.
        case (.ending, let deletion?): calls.finish(call, .userDeleted(deletion), edge, &cluster)
        default: calls.finish(call, .refused(.unavailable.afterPassingOn), edge, &cluster)
        }
    }

    /// The user's sessions have ended.
    private static func kicked(_ call: PendingCalls.CallIndex, _ calls: inout Calls, _ cluster: inout Cluster) {
        guard let pending = calls.waiting[call] else { return }
        calls.waiting[call]?.answered.deletion.phase = .beginning
        let counts = pending.answered.deletion.counts
        let removed = Row.Kind.ofUsers.compactMap { kind in counts[kind.rawValue].map { Deletion.Removed(kind: kind, count: $0) } }
        let nodes = cluster.peers.indices.filter { $0 == 0 || cluster.peers[$0].isAlive }.map { cluster.peerID($0).rawValue }.sorted()
        calls.ask(.deleteUser(.begin(removed: removed, nodes: nodes)), of: pending.caller, for: call, &cluster)
    }

    /// Takes what one node has found.
    private static func take(
        _ answer: MentionAnswer, of call: PendingCalls.CallIndex, _ calls: inout Calls, _ edge: borrowing Edge, _ cluster: inout Cluster
    ) {
        calls.waiting[call]?.answered.deletion.round += answer.mentions
        if let next = answer.next {
            let end = calls.waiting[call]?.answered.deletion.roundEnd ?? .max
            calls.waiting[call]?.answered.deletion.roundEnd = min(end, next)
        }
        advance(call, &calls, edge, &cluster)
    }

    /// Continues after all nodes have answered.
    private static func advance(
        _ call: PendingCalls.CallIndex, _ calls: inout Calls, _ edge: borrowing Edge, _ cluster: inout Cluster
    ) {
        guard let pending = calls.waiting[call], pending.openCount == 0 else { return }
        let parts = pending.answered.deletion
        // A node that has searched further repeats these slots.
        let found = parts.round.filter { mention in parts.roundEnd.map { mention.user.slot < $0 } ?? true }
        if parts.phase == .counting {
            for mention in found { calls.waiting[call]?.answered.deletion.counts[mention.kind.rawValue, default: 0] += 1 }
        } else if !parts.round.isEmpty {
            calls.waiting[call]?.answered.deletion.hasFound = true
        }
        if let end = parts.roundEnd { return askAll(from: end, for: call, pending.caller, &calls, &cluster) }
        switch parts.phase {
        case .counting:
            calls.waiting[call]?.answered.deletion.phase = .kicking
            calls.ask(.kick(reason: SessionEnd.deleted), of: pending.caller, for: call, &cluster)
        // A decision that was under way may have left something behind this pass. A user may have moved to a node that was asked before.
        case .removing where calls.waiting[call]?.answered.deletion.hasFound == true || parts.pass.ring != cluster.placement.id:
            guard parts.pass.count < passesMax else { return calls.finish(call, parts.answerOfTimeout, edge, &cluster) }
            calls.waiting[call]?.answered.deletion.hasFound = false
            askAll(from: 0, for: call, pending.caller, &calls, &cluster)
        default:
            calls.waiting[call]?.answered.deletion.phase = .ending
            calls.ask(.deleteUser(.end), of: pending.caller, for: call, &cluster)
        }
    }

    private static func askAll(
        from slot: Slot, for call: PendingCalls.CallIndex, _ user: UserID, _ calls: inout Calls, _ cluster: inout Cluster
    ) {
        if slot == 0 {
            calls.waiting[call]?.answered.deletion.pass.count += 1
            calls.waiting[call]?.answered.deletion.pass.ring = cluster.placement.id
        }
        calls.waiting[call]?.answered.deletion.roundEnd = nil
        calls.waiting[call]?.answered.deletion.round = []
        let removes = calls.waiting[call]?.answered.deletion.phase == .removing
        calls.askAllNodes(.mentions(MentionRequest(from: slot, removes: removes)), of: user, for: call, &cluster)
    }
}
