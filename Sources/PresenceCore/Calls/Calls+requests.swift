import PresenceWire

/// The machine that performs a request, and the request: it may be a repetition of one that this node knows.
enum PassedRequest {
    /// The request needs no other machine: it is performed, answered or sent back.
    case done
    case setPolicy([UInt8], Request)
    case kick(reason: String, Request)
    case chain(ChainCall, Request)
    case replayWebhooks(app: String, since: Milliseconds)
    case load(Request)
}

/// Requests that reach the owner of a user: the owner's part of every operation.
extension Calls {
    /// Performs or refuses a request, unless another machine performs it.
    ///
    /// - Parameter hasWaited: whether the request is one of ``hides``, and its wait is over.
    mutating func onRequest(
        _ request: Request, from peer: PeerIndex, hasWaited: Bool = false, _ edge: borrowing Edge, _ owner: inout Owner,
        _ replication: borrowing Replication, _ cluster: inout Cluster, at now: Now
    ) -> PassedRequest {
        if MentionRemoval.answers(request, from: peer, &owner, replication, &cluster, at: now) { return .done }
        if let reply = replyWithoutUser(to: request, edge, &owner, cluster, at: now) {
            cluster.send(reply, to: peer)
            return .done
        }
        if case .replayWebhooks(let app, let since) = request.operation { return .replayWebhooks(app: app, since: since) }
        if case .explain(_, .load) = request.operation { return .load(request) }
        guard cluster.decides(request, for: peer) else { return .done }
        var reply = request.refusal(by: owner, replication, cluster, at: now)
        // The user has reached a rate limit.
        if reply == nil { reply = delay(of: request, owner, at: now).map { .answer(id: request.id, .rateLimited(retryAfter: UInt64($0))) } }
        if let reply {
            cluster.send(reply, to: peer)
            return .done
        }
        switch hasWaited ? .passed : hides.hold(request, from: peer, owner, at: now) {
        case .passed: break
        case .waits: return .done
        case .refused(let retryAfter):
            // An earlier attempt may wait at another owner, and take effect.
            let answer = request.isRepeated ? Answer.refused(.unavailable) : .rateLimited(retryAfter: retryAfter)
            cluster.send(.answer(id: request.id, answer), to: peer)
            return .done
        }
        let keyed = AnsweredCalls(request: request, peer: peer, now: now)
        guard let request = keyed.toPerform(owner, &cluster) else { return .done }
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
            cluster.send(.answer(id: request.id, Answer(tickets.issue(ticket, to: request.user, at: now.instant))), to: peer)
        case .redeemTicket(let ticket):
            var refusal = tickets.redeem(ticket, of: request.user, at: now.instant)
            // The node that has issued the ticket may be alive, and is not heard now.
            if refusal == .voidTicket, cluster.unsure.contains(request.user) { refusal = .unavailable }
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

    /// The reply to a request that any node answers, even if it does not decide about the request's user; nil for other requests, and for
    /// those that another machine performs. A node that may not have all of its users yet sends the request back.
    private mutating func replyWithoutUser(
        to request: Request, _ edge: borrowing Edge, _ owner: inout Owner, _ cluster: borrowing Cluster, at now: Now
    ) -> Message? {
        let isActive = cluster.ownership.acquiringCount == 0
        let answer: Answer?
        switch request.operation {
        case .explain(let other, .view):
            answer = ExplanationText.part(of: request, about: other, .view, edge, owner, cluster, at: now)
        case let operation where operation.isForAllNodes && !isActive: answer = .sentBack
        case .onlineUsers(let query): answer = OnlineUsers.answer(query, owner)
        case .mentions(let search): answer = MentionSearch(id: request.user, request: search).answer(by: owner).answer
        case .followers(let targets): answer = .followers(targets.map { UInt64(owner.shareFollowersCount(of: $0)) })
        case .countQuery(let isMade): answer = count(request, isMade: isMade, owner, at: now)
        default: answer = nil
        }
        return answer.map { .answer(id: request.id, $0) }
    }
}

extension Request {
    /// The reply of a node that decides about the request's user, but does not perform the request now; nil if it performs the request.
    fileprivate func refusal(
        by owner: borrowing Owner, _ replication: borrowing Replication, _ cluster: borrowing Cluster, at now: Now
    ) -> Message? {
        guard subjects.allSatisfy({ cluster.decides($0) }) else { return .answer(id: id, .sentBack) }
        // Its gateway asks again, unless another owner has answered meanwhile, or the call is over.
        if isSentBack(by: owner, cluster, at: now) { return .answer(id: id, .sentBack) }
        guard operation.isDurable, let refusal = replication.refusalOfChange(of: user, cluster) else { return nil }
        return .answer(id: id, .refused(refusal))
    }

    /// Whether this node neither answers nor refuses the request now: it may have been answered, or this node lacks rows that decide.
    private func isSentBack(by owner: borrowing Owner, _ cluster: borrowing Cluster, at now: Now) -> Bool {
        if operation.isDurable, cluster.mayHaveWaited(at: now) || isOver(owner, cluster, at: now) { return true }
        return owner.listsMayBeIncomplete && cluster.lacksRowsOfMember && operation.readsLists
    }

    /// Whether the call of the request has ended at its gateway: the request was queued for longer than a call may last.
    ///
    /// The time of the call is that of the version clock, which all nodes keep within the age of the last sign of life of one another.
    private func isOver(_ owner: borrowing Owner, _ cluster: borrowing Cluster, at now: Now) -> Bool {
        let age = owner.clock.milliseconds(at: now.wall) - begunAt.milliseconds
        return begunAt > .zero && age > cluster.settings.callTimeout.wholeMilliseconds
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
