import PresenceCore
import PresenceWire

/// Checks what streams send and what calls are answered, while things happen.
enum StreamChecks {
    /// Checks a newer status that a client received.
    static func checkReceived(_ told: SimulatedClient.ReceivedStatus, of user: Int, _ client: Int, _ cluster: SimulatedCluster) {
        if let problem = Twins.flap(told, of: user, client, cluster) { return cluster.violate(.noFlap, problem) }
        let viewer = cluster.clients[client].user
        guard !cluster.isExcused(by: .lateMessages), !cluster.isExcused(by: .crippled, .healing), told.statusType != "UNKNOWN",
            !cluster.isExcused(by: .hides(user, from: viewer))
        else { return }
        let presence = cluster.truth.presences[user]
        // A client that reads late reads an earlier state.
        let toldOf = min(cluster.time, .milliseconds(Int(told.lastUpdateTime - SimulatedCluster.epoch)))
        if presence.openCount == 0, cluster.isExcused(by: .reached(user)) { return }
        if presence.openCount == 0 { return checkAbsence(told, of: user, client, toldOf: toldOf, cluster) }
        guard told.statusType != "ONLINE", let since = presence.continuousSince else { return }
        guard toldOf >= since else { return }
        if cluster.time - since > .milliseconds(6_000), !cluster.isExcused(by: .askedToGo(user, at: toldOf)) {
            let words = "who has been there for \((cluster.time - since).milliseconds) ms"
            cluster.violate(.noFlap, "user-\(viewer) is told that user-\(user) is \(told.statusType), \(words)")
        }
    }

    /// Checks a status that shows a user as gone. It may arrive after the user's grace, neither before nor much later.
    private static func checkAbsence(
        _ told: SimulatedClient.ReceivedStatus, of user: Int, _ client: Int, toldOf: Nanoseconds, _ cluster: SimulatedCluster
    ) {
        let presence = cluster.truth.presences[user]
        let absence = toldOf - presence.absentSince
        let words =
            "user-\(cluster.clients[client].user) is told that user-\(user) is \(told.statusType), who went \(absence.milliseconds) ms before"
        let isGoneBy = max(presence.absentSince + cluster.options.settings.reconnectGrace.wholeNanoseconds, presence.doubtedUntil)
        if told.statusType == "ONLINE", toldOf > isGoneBy + .milliseconds(2_000) { cluster.violate(.noGhost, words) }
        if told.statusType != "ONLINE", absence > 0, absence < presence.tolerance, !cluster.isExcused(by: .askedToGo(user, at: toldOf)) {
            cluster.violate(.noFlap, words)
        }
    }

    /// Checks a change on a stream. The stream must not send users that nobody follows any more.
    static func checkFollowed(_ told: SimulatedClient.ReceivedStatus, of target: Int, _ client: Int, _ cluster: SimulatedCluster) {
        let user = cluster.clients[client].user
        let expected = cluster.truth.subscriptions[user]
        guard target != user, !cluster.isExcused(by: .lateMessages), !cluster.isExcused(by: .crippled),
            !cluster.isExcused(by: .uncertainList(user))
        else { return }
        let changedAt: Nanoseconds = .milliseconds(Int(told.lastUpdateTime - SimulatedCluster.epoch))
        // A client that resumes is shown former friends. Their friendship ended up to 6 s (`FriendFollows.publicationTime`) before the
        // position of the client. Clocks differ by up to 2 s.
        let sight = cluster.clients[client].sight(of: changedAt) - .milliseconds(8_000)
        guard !cluster.isExcused(by: .followsFriend(user, target: target, since: sight)) else { return }
        if changedAt < cluster.time, expected.hasLeft(target, for: .milliseconds(2_000), at: changedAt) {
            cluster.violate(.onlyFollowedUsersAreSent, "user-\(user) is told \(told) of user-\(target), whom it does not follow")
        }
    }

    /// Checks a stream's claim that it has sent everything that the user follows.
    ///
    /// - Parameter position: the complete position of the stream.
    static func checkSync(_ client: Int, upTo position: Milliseconds, _ cluster: SimulatedCluster) {
        guard !cluster.isExcused(by: .split, .clockJumps), let stream = cluster.clients[client].stream,
            !cluster.isExcused(by: .crippled, .policyHides(since: stream.openedAt - .milliseconds(1_000))),
            !cluster.isExcused(by: .uncertainList(cluster.clients[client].user))
        else { return }
        for target in cluster.truth.subscriptions[cluster.clients[client].user].settledTargets(since: stream.openedAt, until: cluster.time)
        where cluster.clients[client].view[target] == nil && isKnown(target, since: stream.openedAt, upTo: position, cluster)
            && !cluster.isExcused(by: .hides(target, from: cluster.clients[client].user))
        {
            cluster.violate(.syncCompletedIsTrue, "user-\(cluster.clients[client].user) follows user-\(target) and was not told")
        }
        checkNothingIsMissed(client, stream, cluster)
    }

    /// Checks that a stream that resumes from a position leaves out only what its client knows.
    private static func checkNothingIsMissed(_ client: Int, _ stream: SimulatedClient.Stream, _ cluster: SimulatedCluster) {
        let user = cluster.clients[client].user
        // The change was acknowledged this long before, and had reached every node, even over a link that had to reconnect.
        let moment = stream.openedAt - .milliseconds(cluster.isExcused(by: .slowLinks) ? 8_000 : 3_000)
        for target in cluster.truth.subscriptions[user].settledTargets(since: stream.openedAt, until: cluster.time) + [user]
        where !cluster.isExcused(by: .hides(target, from: user)) {
            guard let view = cluster.clients[client].view[target], let newest = cluster.truth.newestAcknowledged(target, before: moment),
                let version = newest.version, view.version < version.text
            else { continue }
            let record = cluster.owner(of: target).map { cluster.nodes[$0].kept(cluster.userID(target)).record }
            if let record, cluster.isExcused(by: .endedWithRemoval(target, isBlank: record.isBlank)) { continue }
            // The user's own devices do not receive a change of the visibility alone.
            let mayBeUntold = cluster.isExcused(by: .profileVersions) || cluster.isExcused(by: .hides(target, from: nil))
            if mayBeUntold, view.lastUpdateTime >= newest.changedAt { continue }
            cluster.violate(
                .syncCompletedIsTrue, "user-\(user) sees \(view) of user-\(target), \"\(newest.text)\" \(version.text) was acknowledged")
        }
    }

    /// Whether a user was ever written. Clients assume other users to be UNLOGINED.
    private static func isKnown(_ user: Int, since moment: Nanoseconds, upTo position: Milliseconds, _ cluster: SimulatedCluster) -> Bool {
        guard let record = cluster.owner(of: user).map({ cluster.nodes[$0].kept(cluster.userID(user)).record }) else { return false }
        // Over a slow link that reconnects, the first record of a user comes later. The position covers that.
        if cluster.isExcused(by: .slowLinks), record.lastUpdateTime >= position { return false }
        // A node that was alone also gives versions to users without a write.
        return record.version > .zero && record.lastUpdateTime > 0
            && record.lastUpdateTime < SimulatedCluster.epoch + moment / 1_000_000 - 200
    }

    /// Checks that an answer has what was acknowledged before its `asOf`.
    static func checkAsOf(_ records: [Record?], asOf: Milliseconds, of call: SimulatedCall, by node: NodeID, _ cluster: SimulatedCluster) {
        // A single node that was cut off has accepted no changes, and gives way before it is active again.
        guard !cluster.isExcused(by: .split) || call.isOfKnownMembers, !cluster.isExcused(by: .crippled) else { return }
        for record in records.compactMap({ $0 }) {
            guard let user = cluster.userIndex(record.user.id),
                !cluster.isExcused(by: .hides(user, from: nil), .removed(user, isBlank: record.isBlank)),
                let newest = cluster.truth.newestAcknowledged(user)?.version
            else { continue }
            if newest.milliseconds < asOf, record.version < newest {
                cluster.violate(.asOfIsTrue, "\(node) answers as of \(asOf) \(record.words), but \(newest.text) was acknowledged")
            }
        }
    }

    /// Checks a refused change. If all other nodes have left, one disk is enough.
    static func checkRefusal(_ refusal: Refusal, of call: SimulatedCall, by node: Int, _ cluster: SimulatedCluster) {
        if let problem = MachineFaultChecks.problem(of: refusal, to: call, by: node, cluster) { cluster.violate(.faultsStayLocal, problem) }
        let isAlone = cluster.nodes.indices.allSatisfy { $0 == node || (!cluster.nodes[$0].isUp && cluster.nodes[$0].hasLeft) }
        guard cluster.options.kind == .nodesLeaveUntilOne, refusal != .noSession, isAlone,
            call.at - cluster.disturbedAt > .milliseconds(4_000)
        else {
            return
        }
        let words = "\(call.call) of user-\(call.user), \(refusal), though all others have left"
        cluster.violate(.loneNodeTakesChanges, "\(cluster.nodes[node].id) refuses \(words)")
    }

    static func checkList(_ page: [Subscription], of call: SimulatedCall, _ cluster: SimulatedCluster) {
        guard !cluster.isExcused(by: .uncertainList(call.user)) else { return }
        let expected = cluster.truth.subscriptions[call.user]
        // Subscriptions to profiles have a quota of their own.
        let listed = page.filter { !Subscription.isOfProfile($0.subscribeType) }.compactMap { cluster.userIndex($0.target.id) }.sorted()
        let most = cluster.options.settings.policy.subscriptionsMax
        if listed.count > most {
            cluster.violate(.listsAreExact, "user-\(call.user) follows \(listed.count), at most \(most) are right")
        }
        if call.at > cluster.time - .milliseconds(50), listed != expected.targets(at: cluster.time), !cluster.isExcused(by: .lateMessages),
            !cluster.isExcused(by: .crippled)
        {
            cluster.violate(.listsAreExact, "user-\(call.user) follows \(expected.targets(at: cluster.time)), is answered \(listed)")
        }
    }
}
