import PresenceWire

/// `deleteUser`: removes a user, and all that other users hold about the user.
///
/// The calling node drives it: it counts the facts, ends the sessions, has the user's owner write the ``PresenceWire/Deletion``, and has
/// all nodes remove what they hold about the user until none finds anything. Each step may be repeated. If this node dies, the owner of the
/// user has the deletion go on (``Effect/resumeDeletion(_:)``), as a repetition of the call does.
enum DeleteUser: OperatorOperation {
    typealias Answer = Deletion

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
                    Schema.time,
                    "The end of the last marks of removals, which name the user; earlier tokens stay void until then. The newest mark of a list "
                        + "stays until the list changes.")),
        ]), refusals: [.noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, of body: [UInt8], by caller: UserID) throws(Problem) -> API.Parsed {
        API.Parsed(call: .deleteUser, subject: try fields.user("userID", besides: caller), errors: [])
    }

    static func write(_ deletion: Deletion, to parsed: API.Parsed, _ owner: borrowing Owner, into json: inout JSONWriter) throws(Problem) {
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

extension Deletion: OperationAnswer {
    package init?(_ answer: CallAnswer) {
        guard case .userDeleted(let deletion) = answer else { return nil }
        self = deletion
    }
}

extension DeleteUser {
    /// Asks the owner for an earlier deletion.
    static func begin(_ user: UserID, for call: PendingCalls.CallIndex, _ calls: inout Calls, _ cluster: inout Cluster) {
        calls.ask(.deleteUser(.find), of: user, for: call, &cluster)
    }

    /// Takes an answer to one of the call's requests, and gives the next ones as long as a call may last. Returns false for a refusal,
    /// which ends the call.
    static func takes(
        _ answer: PresenceWire.Answer, of call: PendingCalls.CallIndex, _ calls: inout Calls, _ edge: borrowing Edge,
        _ cluster: inout Cluster, at now: Now
    ) -> Bool {
        guard var progress = calls.waiting[call]?.answered.deletion else { return false }
        let ring = cluster.placement.id
        let step: DeletionProgress.Step?
        switch answer {
        // It has begun, and goes on without this call.
        case .refused where progress.deletion != nil: step = .finish(progress.answerOfTimeout)
        case .deleted(let found): step = progress.take(found, ring: ring)
        case .mentioned(let found):
            progress.take(found)
            step = calls.waiting[call]?.openCount == 0 ? progress.endRound(ring: ring) : nil
        case .done:
            let nodes = cluster.peers.indices.filter { $0 == 0 || cluster.peers[$0].isAlive }.map { cluster.peerID($0).rawValue }
            step = progress.kicked(nodes.sorted())
        default: return false
        }
        calls.waiting[call]?.answered.deletion = progress
        calls.waiting[call]?.deadline = now.instant + cluster.settings.callTimeout
        if let step { take(step, of: call, &calls, edge, &cluster) }
        return true
    }

    private static func take(
        _ step: DeletionProgress.Step, of call: PendingCalls.CallIndex, _ calls: inout Calls, _ edge: borrowing Edge,
        _ cluster: inout Cluster
    ) {
        guard let user = calls.waiting[call]?.caller else { return }
        switch step {
        case .ask(let operation): calls.ask(operation, of: user, for: call, &cluster)
        case .search(let request): calls.askAllNodes(.mentions(request), of: user, for: call, &cluster)
        case .finish(let answer): calls.finish(call, answer, edge, &cluster)
        }
    }
}

extension DeleteUser: RequestDecision {
    /// Carries out a step of the deletion at the user's owner.
    static func perform(
        _ step: DeletionRequest, of call: OwnerRequest, on owner: inout Owner, into outbox: inout Outbox
    ) -> OwnerReply<DeletionAnswer> {
        let deletion = UserDeletion(id: call.id, now: call.now)
        return switch step {
        case .find: .asWritten(deletion.found(by: owner))
        case .begin(let removed, let nodes): .whenStored(deletion.begin(removed, at: nodes, on: &owner, into: &outbox))
        case .end: .whenStored(deletion.end(on: &owner, into: &outbox))
        }
    }
}
