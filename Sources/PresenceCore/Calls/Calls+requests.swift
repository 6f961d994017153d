import PresenceWire

/// Requests that reach the owner of a user: the owner's part of every operation.
extension Calls {
    /// The machine that performs a request, and the request: it may be a repetition of one that this node knows.
    enum OnRequest {
        /// The request needs no other machine: it is performed, answered or sent back.
        case done
        case setPolicy([UInt8], Request)
        case kick(reason: String, Request)
        case chain(ChainCall, Request)
        case replayWebhooks(app: String, since: Milliseconds)
    }

    /// Performs or refuses a request, unless another machine performs it.
    mutating func onRequest(
        _ request: Request, from peer: PeerIndex, _ edge: borrowing Edge, _ owner: inout Owner, _ replication: borrowing Replication,
        _ cluster: inout Cluster, at now: Now
    ) -> OnRequest {
        if let reply = replyWithoutUser(to: request, edge, &owner, cluster, at: now) {
            cluster.send(reply, to: peer)
            return .done
        }
        if case .replayWebhooks(let app, let since) = request.operation { return .replayWebhooks(app: app, since: since) }
        guard cluster.decides(request.user, for: peer) else { return .done }
        if let reply = refusal(of: request, owner, replication, cluster, at: now) {
            cluster.send(reply, to: peer)
            return .done
        }
        let keyed = AnsweredCalls(request: request, peer: peer, now: now)
        guard let request = keyed.toPerform(&owner, &cluster) else { return .done }
        switch request.operation {
        // The smaller side of a split decides nothing for all nodes.
        case .setPolicy where !cluster.peers.isMajority, .kick where !cluster.peers.isMajority:
            cluster.send(.answer(id: request.id, .refused(.unavailable)), to: peer)
        case .setPolicy(let change): return .setPolicy(change, request)
        case .kick(let reason): return .kick(reason: reason, request)
        case .chain(let call): return .chain(call, request)
        case .explain(let other, let part):
            cluster.send(
                .answer(id: request.id, ExplanationText.part(of: request, about: other, part, edge, owner, cluster, at: now)), to: peer)
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
        default:
            let isKnown = OwnerRequest(request: request, peer: peer, now: now).perform(on: &owner, into: &cluster.outbox)
            guard isKnown else {
                cluster.send(.answer(id: request.id, .refused(.unavailable)), to: peer)
                return .done
            }
            keyed.keepAnswer(of: &owner, into: &cluster.outbox)
            owner.removeBlank(request.user)
        }
        return .done
    }

    /// The reply to a request about no single user: any node answers it, and a node that may not have all of its users yet sends it back.
    /// Nil for other requests, and for those that another machine performs.
    private mutating func replyWithoutUser(
        to request: Request, _ edge: borrowing Edge, _ owner: inout Owner, _ cluster: borrowing Cluster, at now: Now
    ) -> Message? {
        if let answer = answerWithoutUser(request, edge, &owner, cluster, at: now) { return .answer(id: request.id, answer) }
        switch request.operation {
        case .followers, .onlineUsers: return .misrouted([request.user])
        case .replayWebhooks: return cluster.ownership.acquiringCount == 0 ? nil : .misrouted([request.user])
        default: return nil
        }
    }

    /// The reply to a request that this node, which decides about its user, does not perform now; nil if it performs the request.
    private mutating func refusal(
        of request: Request, _ owner: borrowing Owner, _ replication: borrowing Replication, _ cluster: borrowing Cluster, at now: Now
    ) -> Message? {
        guard request.subjects.allSatisfy({ cluster.decides($0) }) else { return .misrouted([request.user]) }
        // Its gateway asks again, unless another owner has answered meanwhile, or the call is over.
        if isSentBack(request, owner, cluster, at: now) { return .misrouted([request.user]) }
        if request.operation.isDurable, let refusal = replication.refusalOfChange(of: request.user, cluster) {
            return .answer(id: request.id, .refused(refusal))
        }
        if let seconds = delay(of: request, owner, at: now) {
            return .answer(id: request.id, .rateLimited(retryAfter: UInt64(seconds)))
        }
        return nil
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
        _ request: Request, _ edge: borrowing Edge, _ owner: inout Owner, _ cluster: borrowing Cluster, at now: Now
    ) -> Answer? {
        switch request.operation {
        case .explain(let other, .view): ExplanationText.part(of: request, about: other, .view, edge, owner, cluster, at: now)
        // This node may not have all of its users yet.
        case .followers where cluster.ownership.acquiringCount > 0, .onlineUsers where cluster.ownership.acquiringCount > 0: nil
        case .onlineUsers(let query): OnlineUsers.answer(query, owner)
        case .followers(let targets): .followers(targets.map { UInt64(owner.users.shareFollowersCount(of: $0)) })
        case .countQuery(let isMade): count(request, isMade: isMade, owner, at: now)
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
