import PresenceWire

/// The facts that every node keeps: the policies of apps (in ``Owner/policies``) and the kicks of users.
struct SharedFacts {
    var kicks = Kicks()

    /// The rows of all these facts.
    func rows(_ owner: borrowing Owner) -> [Row] { owner.policies.rows + kicks.rows }

    /// The messages that the gateways need before they serve a client.
    func messagesAtStart(_ owner: borrowing Owner) -> [NodeMessage] {
        [.policy(app: nil, owner.policies.standard)]
            + kicks.all.map { .kicked($0.user, before: $0.entry.before, reason: $0.entry.reason) }
            + owner.policies.apps.map { Self.message(of: $0, owner) }
    }

    /// The message to the gateways about the policy of an app.
    private static func message(of app: String, _ owner: borrowing Owner) -> NodeMessage {
        let user = UserID.policyUser(of: app)
        return .policy(app: app, owner.policies.policy(of: user), changedAt: owner.policies.changedAt(for: user))
    }

    // MARK: Operations

    /// Changes the policy of an app whose name this node owns.
    mutating func setPolicy(
        _ change: [UInt8], _ request: Request, from peer: PeerIndex, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now
    ) {
        let app = String(request.user.app)
        let old = owner.policies.entry(app)?.app ?? AppPolicy()
        let changed: AppPolicy
        do throws(PolicyError) {
            guard let json = try? JSONReader.read(change) else { throw PolicyError(setting: "body", problem: "is not JSON") }
            changed = try old.changed(by: json)
        } catch {
            let refusal = Refusal(code: 6017, detail: "\(error.setting): \(error.problem)")
            return cluster.send(.answer(id: request.id, .refused(refusal)), to: peer)
        }
        let entry = Policies.Entry(app: changed, version: owner.nextVersion(at: now))
        apply(entry, of: app, &owner, &cluster, at: now)
        cluster.outbox.answerWhenStored(request, .done, to: peer)
    }

    /// Ends all sessions of a user that this node owns, and voids the user's tokens.
    mutating func kick(
        reason: String, _ request: Request, from peer: PeerIndex, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now
    ) {
        let policy = owner.policies.policy(of: request.user)
        if policy.mustBeRegistered, !owner.record(of: request.user).isOfKnownUser {
            return cluster.send(.answer(id: request.id, .refused(.noSuchUser([request.user]))), to: peer)
        }
        // No limit of an app keeps a user from being deleted.
        guard kicks.hasRoom(for: request.user, by: policy) || reason == SessionEnd.deleted else {
            return cluster.send(.answer(id: request.id, .refused(.tooManyKicks(most: policy.kicksMax))), to: peer)
        }
        let entry = Kicks.Entry(before: kicks.time(of: request.user, at: now.wall), reason: reason, version: owner.nextVersion(at: now))
        owner.kick(request.user, reason: reason, in: &cluster.outbox[at: now])
        apply(entry, of: request.user, &cluster)
        cluster.outbox.answerWhenStored(request, .done, to: peer)
    }

    // MARK: From other nodes and the disk

    /// Stores the facts of another node.
    mutating func receive(_ rows: [Row], _ owner: inout Owner, _ cluster: inout Cluster, at now: Now) throws(RowError) {
        for row in rows where owner.accepts(row.version, at: now) {
            if row.kind == .policy {
                apply(try row.policy(), of: String(row.user.app), &owner, &cluster, at: now)
            } else {
                apply(try row.kick(), of: row.user, &cluster)
            }
        }
    }

    /// Loads a policy from disk.
    mutating func load(policy row: Row, _ owner: inout Owner) throws(RowError) {
        _ = owner.merge(try row.policy(), of: String(row.user.app))
    }

    /// Loads a kick from disk. The disk may keep it for longer than it counts.
    mutating func load(kick row: Row, in turn: inout Turn) throws(RowError) {
        let entry = try row.kick()
        guard entry.expiresAt > turn.now.wall else { return turn.outbox.deletedRows.append(row) }
        _ = kicks.merge(entry, of: row.user)
    }

    /// Expires kicks, here, at the gateways and on the disk. Called once an hour.
    mutating func expireKicks(_ cluster: inout Cluster, at now: Now) {
        let expired = kicks.expire(at: now.wall)
        guard !expired.isEmpty else { return }
        cluster.outbox.deletedRows += expired
        cluster.sendToGateways(.expireKicks(expired.map(\.user)))
    }

    // MARK: Applying

    private func apply(_ entry: Policies.Entry, of app: String, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now) {
        let old = owner.policies.policy(of: .policyUser(of: app))
        guard owner.merge(entry, of: app) else { return }
        cluster.outbox.rows.append(Row(policy: entry, of: app))
        owner.policyChanged(of: app, from: old, in: &cluster.outbox[at: now])
        cluster.sendToGateways(Self.message(of: app, owner))
    }

    /// Has the gateways with sessions of the user end them.
    private mutating func apply(_ entry: Kicks.Entry, of user: UserID, _ cluster: inout Cluster) {
        guard kicks.merge(entry, of: user) else { return }
        cluster.outbox.rows.append(Row(kick: entry, of: user))
        cluster.outbox.kicked.append(user)
        cluster.sendToGateways(.kicked(user, before: entry.before, reason: entry.reason))
    }
}

extension Owner {
    /// Ends the sessions of a user. The gateways end the streams when the kick reaches them.
    fileprivate mutating func kick(_ id: UserID, reason: String, in turn: inout Turn) {
        let user = index(of: id)
        let ended = modify(user) { $0.endAll(at: turn.now.wall, reason: reason) }
        count { $0.sessionsKicked += UInt64(ended.count { !$0.isCounted }) }
        refresh(user, StatusChange(end: .kick), in: &turn)
        removeBlank(id)
    }
}

extension Row {
    fileprivate func policy() throws(RowError) -> Policies.Entry {
        do throws(PolicyError) {
            guard let value, let json = try? JSONReader.read(value) else { throw PolicyError(setting: "policy", problem: "is not JSON") }
            return Policies.Entry(app: try AppPolicy(json), version: version)
        } catch { throw RowError(self, "\(error.setting): \(error.problem)") }
    }
}
