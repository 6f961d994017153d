import PresenceWire

/// The messages of the owner after the disks have finished with a write.
extension Owner {
    /// Sends the answers of a write.
    mutating func carryOut(_ outcome: PendingWrites.Outcome, _ cluster: inout Cluster, at now: Now) {
        switch outcome {
        case .done(let write):
            for (peer, listUpdate) in releaseListUpdates(write.continuations.listUpdates) {
                cluster.send(.listUpdate(listUpdate), to: peer)
            }
            for (peer, id, user, answer) in write.continuations.answers {
                var answer = answer
                if isUndone(answer, of: user, in: write) { answer = .refused(.unavailable.afterPassingOn) }
                if case .visibility(let privacy, _) = answer {
                    answer = .visibility(privacy, remnant: remnant(of: index(ofKnown: user), cluster, at: now))
                }
                cluster.send(.answer(id: id, answer), to: peer)
            }
        case .failed(let write, let refusal):
            for (peer, listUpdate) in releaseListUpdates(write.continuations.listUpdates) {
                cluster.send(.listUpdate(listUpdate.withoutDelivered), to: peer)
            }
            for (peer, id, _, _) in write.continuations.answers { cluster.send(.answer(id: id, .refused(refusal)), to: peer) }
        }
    }

    /// How long a dead member may show what a user has hidden, if it is only cut off.
    func remnant(of user: Index?, _ cluster: Cluster, at now: Now) -> Remnant {
        guard let until = cluster.mayBeSeenUntil(at: now) else { return .none }
        return user.map { users[$0].record.pushDevices.isEmpty } ?? true ? .until(until) : .whileCutOff
    }

    /// Whether a visibility was replaced before its acknowledgement, because another side of a split had a newer one.
    private func isUndone(_ answer: Answer, of id: UserID, in write: PendingWrites.Write) -> Bool {
        guard case .visibility(let privacy, _) = answer, let user = index(ofKnown: id),
            write.rows.contains(where: { $0.kind == .visibility && $0.user == id && $0.version == privacy.version })
        else { return false }
        return users[user].record.privacy.map { !$0.visibility.isSameChoice(as: privacy.visibility) } ?? true
    }

    // MARK: Start

    /// Gives all records new versions in a cluster of one node, because unwritten ones may have been published before a crash.
    mutating func renewAlone(in cluster: Cluster, at now: Now) {
        guard !cluster.peers.isReplicated else { return }
        // All versions of an earlier process are below the bound that it left.
        let start = clock.milliseconds(at: 0) + 1
        if start >= now.wall { observe(Version(milliseconds: start, counter: 0, node: 0)) }
        if cluster.peers.contains(where: { $0.wasMember && $0.hasLeft }) { distrustPositions(at: now) }
        for user in users.allIndices where users.isLive(user) && !users[user].isReplica {
            ChainVisibility(user: user).readFriends(of: &self)
        }
        renew(at: now)
    }

    /// The age of the newest row on disk, if other nodes may have expired tombstones since.
    ///
    /// - Returns: nil for less than ``CoreSettings/tombstoneHorizon``, for an empty disk, and for a node without contact points.
    package func absence(in cluster: Cluster, at now: Now) -> Duration? {
        let newest = clock.milliseconds(at: 0)
        guard cluster.joins, newest > 0, now.wall - newest > CoreSettings.tombstoneHorizon else { return nil }
        return .milliseconds(now.wall - newest)
    }

    // MARK: Policies

    /// The policy that was set for an app; nil for none. ``policy(of:)`` is the policy that results on this node.
    package func appPolicy(_ app: String) -> (policy: AppPolicy, version: Version)? { policies.entry(app).map { ($0.app, $0.version) } }

    /// The policy for a user's app.
    package func policy(of user: UserID) -> Policy { policies.policy(of: user) }

    // MARK: Inspection

    /// The facts of a user that this node holds, as owner or replica: the record, and the active subscriptions by target.
    package func kept(_ user: UserID) -> (record: Record, subscriptions: [Subscription]) {
        guard let index = index(ofKnown: user) else { return (Record(blank: user), []) }
        return (users[index].record, subscriptions(of: index).live.map { $0.observed(at: 0) })
    }

    /// Whether this node owns a user and waits for sessions that may not be registered yet.
    package func isUnconfirmed(_ user: UserID) -> Bool { index(ofKnown: user).map { users[$0].confirmationDeadline != nil } ?? false }

    /// Stops the process if a value does not match the users from which it is derived. Checks all users.
    package func checkInvariants() { users.checkInvariants() }
}

extension Outbox {
    /// Writes a user's rows about another user again.
    mutating func writeAgain(_ kinds: [Row.Kind], about other: String, of user: OwnedUser) {
        for kind in kinds {
            guard let held = user.list(kind).entry(for: other) else { continue }
            let row = Row(held, of: user.record.user, kind)
            if !rows.contains(row) { rows.append(row) }
        }
    }
}
