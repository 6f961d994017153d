import PresenceWire

/// Requests that reach the owner of a user: the owner's part of every operation.
extension Calls {
    /// Performs a request, or returns why it is refused.
    mutating func onRequest(
        _ request: Request, from peer: PeerIndex, _ facts: inout SharedFacts, _ chain: inout Chain, _ webhooks: inout Webhooks,
        _ edge: inout Edge, _ owner: inout Owner, _ replication: inout Replication, _ cluster: inout Cluster, at now: Now
    ) {
        if let answer = answerWithoutUser(request, &edge, &owner, &cluster, at: now) {
            return cluster.send(.answer(id: request.id, answer), to: peer)
        }
        if case .followers = request.operation { return cluster.send(.misrouted([request.user]), to: peer) }
        if case .onlineUsers = request.operation { return cluster.send(.misrouted([request.user]), to: peer) }
        if case .replayWebhooks(let app, let since) = request.operation {
            guard cluster.ownership.acquiringCount == 0 else { return cluster.send(.misrouted([request.user]), to: peer) }
            return ReplayWebhooks.perform(app, since: since, request, from: peer, &webhooks, &owner, &cluster, at: now)
        }
        guard cluster.decides(request.user, for: peer) else { return }
        guard request.subjects.allSatisfy({ cluster.decides($0) }) else { return cluster.send(.misrouted([request.user]), to: peer) }
        // Its gateway asks again, unless another owner has answered meanwhile, or the call is over.
        if isSentBack(request, owner, cluster, at: now) { return cluster.send(.misrouted([request.user]), to: peer) }
        if request.operation.isDurable, let refusal = replication.refusalOfChange(of: request.user, cluster) {
            return cluster.send(.answer(id: request.id, .refused(refusal)), to: peer)
        }
        if let seconds = delay(of: request, &owner, at: now) {
            return cluster.send(.answer(id: request.id, .rateLimited(retryAfter: UInt64(seconds))), to: peer)
        }
        let keyed = AnsweredCalls(request: request, peer: peer, now: now)
        guard let request = keyed.toPerform(&owner, &cluster) else { return }
        switch request.operation {
        // The smaller side of a split decides nothing for all nodes.
        case .setPolicy where !cluster.peers.isMajority, .kick where !cluster.peers.isMajority:
            cluster.send(.answer(id: request.id, .refused(.unavailable)), to: peer)
        case .setPolicy(let change): facts.setPolicy(change, request, from: peer, &owner, &cluster, at: now)
        case .explain(let other, let part):
            cluster.send(
                .answer(id: request.id, ExplanationText.part(of: request, about: other, part, edge, owner, cluster, at: now)), to: peer)
        case .chain(let call): chain.perform(call, request, from: peer, &owner, &cluster, at: now)
        case .issueTicket(let ticket):
            let answer = Answer(tickets.issue(ticket, to: request.user, at: now.instant))
            cluster.send(.answer(id: request.id, answer), to: peer)
        case .redeemTicket(let ticket):
            let refusal = tickets.redeem(ticket, of: request.user, at: now.instant)
            cluster.send(.answer(id: request.id, refusal.map { .refused($0) } ?? .done), to: peer)
        case .sessions(let users):
            cluster.send(.answer(id: request.id, .sessions(users.map { QueryOnlineStatus.sessions(of: $0, owner, cluster) })), to: peer)
        case .renew(let session, let expiresAt):
            let renewal = RenewRequest(session: session, expiresAt: expiresAt)
            cluster.send(.answer(id: request.id, Renew.perform(renewal, of: request.user, owner, &cluster)), to: peer)
        case .kick(let reason): facts.kick(reason: reason, request, from: peer, &owner, &cluster, at: now)
        default:
            let isKnown = OwnerRequest(request: request, peer: peer, now: now).perform(on: &owner, into: &cluster.outbox)
            guard isKnown else { return cluster.send(.answer(id: request.id, .refused(.unavailable)), to: peer) }
            keyed.keepAnswer(of: &owner, into: &cluster.outbox)
            owner.removeBlank(request.user)
        }
    }

    /// Whether this node neither answers nor refuses a request now: it may have been answered, or this node lacks rows that decide.
    private func isSentBack(_ request: Request, _ owner: borrowing Owner, _ cluster: borrowing Cluster, at now: Now) -> Bool {
        if request.operation.isDurable, cluster.mayHaveWaited(at: now) || isOver(request, owner, cluster, at: now) { return true }
        return owner.listsMayBeIncomplete && cluster.lacksRowsOfMember && request.operation.readsLists
    }

    /// Whether the call of a request has ended at its gateway: the request was queued for longer than a call may last.
    ///
    /// The time of the call is that of the version clock, which all nodes keep within the age of the last sign of life of one another.
    private func isOver(_ request: Request, _ owner: borrowing Owner, _ cluster: borrowing Cluster, at now: Now) -> Bool {
        let age = owner.clock.milliseconds(at: now.wall) - request.begunAt.milliseconds
        return request.begunAt > .zero && age > cluster.settings.callTimeout.wholeMilliseconds
    }

    /// Answers a request that any node can answer, even if it does not decide about the request's user; nil for other requests.
    private mutating func answerWithoutUser(
        _ request: Request, _ edge: inout Edge, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now
    ) -> Answer? {
        switch request.operation {
        case .explain(let other, .view): ExplanationText.part(of: request, about: other, .view, edge, owner, cluster, at: now)
        // This node may not have all of its users yet.
        case .followers where cluster.ownership.acquiringCount > 0, .onlineUsers where cluster.ownership.acquiringCount > 0: nil
        case .onlineUsers(let query): OnlineUsers.answer(query, owner)
        case .followers(let targets): .followers(targets.map { UInt64(owner.users.shareFollowersCount(of: $0)) })
        case .countQuery(let isMade): count(request, isMade: isMade, &owner, at: now)
        default: nil
        }
    }
}

extension Answer {
    fileprivate init(_ outcome: StreamTickets.OnIssue) {
        self =
            switch outcome {
            case .issued: .done
            case .rateLimited(let seconds): .rateLimited(retryAfter: seconds)
            case .overloaded: .refused(.overloaded)
            }
    }
}
