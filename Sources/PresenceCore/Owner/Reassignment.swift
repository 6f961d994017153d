import PresenceWire

/// Gives every user the role of a new ring.
///
/// Users whom this node kept for another owner, and owns now, are served from the kept facts.
struct Reassignment {
    /// This node's role for a user, by a new ring.
    struct Role {
        /// The owner; 0 is this node.
        let owner: PeerIndex
        /// Whether this node owns the slot and has the facts of all other replicas.
        let decides: Bool
    }

    let now: Now

    func apply(_ role: (Slot) -> Role, to owner: inout Owner, _ outbox: inout Outbox) {
        var misrouted: [[UserID]] = []
        var pendingEnds: [PeerIndex: [PendingEnds]] = [:]
        for index in owner.users.allIndices where owner.users.isLive(index) {
            let role = role(owner.users[index].slot)
            if role.decides {
                let readsFriends = ChainVisibility(user: index).readFriends(of: &owner)
                promote(index, in: &owner, &outbox)
                if readsFriends { publishFriends(of: index, in: &owner, &outbox) }
                continue
            }
            guard !owner.users[index].isReplica else { continue }
            for peer in Set(owner.users[index].watchers + owner.users[index].sessionPeers).sorted() {
                while misrouted.count <= peer { misrouted.append([]) }
                misrouted[peer].append(owner.users.user(at: index))
            }
            if let ends = HandedEnds(now: now).ends(of: index, in: owner) { pendingEnds[role.owner, default: []].append(ends) }
            owner.modify(index) { $0.becomeReplica() }
            OwnedWebhookLog(user: index).count(in: &owner)
        }
        // Nodes that had registered here for users of other owners register with those owners.
        for (peer, users) in misrouted.enumerated() where !users.isEmpty { outbox.send(.misrouted(users), to: peer) }
        // The offers follow on each link, so the new owner has these before it decides.
        for (peer, ends) in pendingEnds.sorted(by: { $0.key < $1.key }) {
            for start in stride(from: 0, to: ends.count, by: PendingEnds.countMax) {
                outbox.send(.pendingEnds(Array(ends[start...].prefix(PendingEnds.countMax))), to: peer)
            }
        }
    }

    /// Schedules a review of a user whose lists break a rule: other replicas may know more of them.
    func repairListsLater(of index: Owner.Index, in owner: inout Owner) {
        owner.repairQuotaLater(index, at: now)
        SubscriptionEnds(user: index, kind: .status).repairLater(by: &owner, at: now)
        ChainVisibility(user: index).repairLater(by: &owner, at: now)
    }

    /// Publishes a record whose friends were read from their rows.
    ///
    /// It gets a new version: the previous owner may have published the last one with other friends.
    private func publishFriends(of index: Owner.Index, in owner: inout Owner, _ outbox: inout Outbox) {
        owner.renewVersion(of: index, at: now)
        owner.publish(index, into: &outbox)
        ChainVisibility(user: index).showReceived(by: &owner, in: &outbox[at: now])
    }

    /// This node owns a user whom it kept for another owner. An ONLINE is unconfirmed until a session is reported.
    private func promote(_ index: Owner.Index, in owner: inout Owner, _ outbox: inout Outbox) {
        guard owner.users[index].isReplica else { return }
        let time = owner.knownSince(at: now)
        owner.modify(index) { user in
            user.isReplica = false
            // From now on the record is shown under the visibility that is known here.
            user.keptBeforeRule = []
            user.record.knownSince = time
        }
        // The visibility must be newer than all that was shown before.
        if let privacy = owner.users[index].record.privacy, privacy.version > owner.users[index].record.version {
            owner.renewVersion(of: index, at: now)
            owner.publish(index, into: &outbox)
        }
        let confirmationDeadline = now.instant + owner.settings.reconnectGrace
        owner.modify(index) { user in
            // The gateways may lack targets. The previous owner held them back until they were on disk, or never knew them.
            user.subscriptions.observeAll(at: time)
            if user.record.statusType == .online { user.confirmationDeadline = confirmationDeadline }
        }
        if !owner.users[index].lists.isEmpty {
            owner.modifyLists(index) { $0.learn(.friend, at: time) }
            OwnedWebhookLog(user: index).count(in: &owner)
        }
        OwnedProfile(user: index).publish(isLate: true, by: &owner, in: &outbox[at: now])
        repairListsLater(of: index, in: &owner)
        owner.repairCustomStatusLater(index, at: now)
        owner.schedule(index, at: now)
    }
}

extension OwnedUser {
    /// Makes another node the owner: this node keeps the facts, and drops what only an owner has.
    mutating func becomeReplica() {
        isReplica = true
        if record.isForFriends { record.privacy = record.privacy?.withFriends(nil) }
        (sessions, listeners, endedSessions) = ([], [], [])
        watchers = []
        (listHash, toldSessions, unpublishedCount) = (0, 0, 0)
        (confirmationDeadline, repairDueAt) = (nil, nil)
    }
}
