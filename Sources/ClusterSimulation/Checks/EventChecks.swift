import PresenceCore
import PresenceWire

/// Checks published events, and the contents under one version.
enum EventChecks {
    // MARK: Events

    /// Records an acknowledged event and its record.
    static func published(_ call: SimulatedCall, _ record: Record, isAlone: Bool, _ cluster: inout SimulatedCluster) {
        guard case .publishEvent(let value, let ext, let seconds, let isForOnlineOnly, let isSynced) = call.call else { return }
        RestChecks.checkDisks(of: record, cluster)
        guard let event = record.events.newest, event.value == value, event.ext == ext, event.isForOnlineOnly == isForOnlineOnly,
            event.isSynced == isSynced, event.expiresAt - event.publishedAt == seconds * 1_000
        else {
            return cluster.violate(.nothingAcknowledgedIsLost, "user-\(call.user) published \(call.call), is answered \(record.events)")
        }
        cluster.stage.counts[.published] += 1
        guard !isAlone else { return }
        cluster.truth.events[call.user].acknowledge(event)
        guard !cluster.isExcused(by: .disturbed(since: cluster.time)), !cluster.isExcused(by: .hides(call.user, from: nil)) else { return }
        for client in cluster.clients.indices where cluster.clients[client].isSynced {
            guard let stream = cluster.clients[client].stream, follows(call.user, client, since: cluster.time, cluster) else { continue }
            cluster.truth.expectations.append(
                Expectation(client: client, session: stream.session, user: call.user, event: event, acknowledgedAt: cluster.time))
            cluster.stage.plan(.expectEvent(cluster.truth.expectations.count - 1), after: .milliseconds(3_000))
        }
    }

    /// Whether a session certainly receives a user's changes since `moment`.
    private static func follows(_ user: Int, _ client: Int, since moment: Nanoseconds, _ cluster: SimulatedCluster) -> Bool {
        if cluster.clients[client].user == user { return true }
        return !cluster.isExcused(by: .uncertainList(cluster.clients[client].user))
            && cluster.truth.subscriptions[cluster.clients[client].user]
                .settledTargets(since: moment - .milliseconds(2_000), until: cluster.time + .milliseconds(1_000)).contains(user)
    }

    /// Checks that a session that was synced when an event was acknowledged has received it by now, or a newer one.
    static func checkExpectation(_ index: Int, _ cluster: inout SimulatedCluster) {
        let expected = cluster.truth.expectations[index]
        let client = expected.client
        guard let stream = cluster.clients[client].stream, stream.session == expected.session,
            !cluster.isExcused(by: .disturbed(since: expected.acknowledgedAt)), !cluster.clients[client].pipe.isBlocked,
            !cluster.isExcused(by: .stalled(until: cluster.clients[client].stalledUntil, since: cluster.time - .milliseconds(500))),
            !cluster.isExcused(by: .hides(expected.user, from: nil))
        else { return }
        let isOwn = cluster.clients[client].user == expected.user
        let since = expected.acknowledgedAt - .milliseconds(2_000)
        guard
            isOwn
                || (!cluster.isExcused(by: .policyHides(since: since))
                    && follows(expected.user, client, since: expected.acknowledgedAt, cluster))
        else {
            return
        }
        cluster.stage.counts[.eventsExpected] += 1
        let view = cluster.clients[client].view[expected.user]
        let seen = view.map { "\($0.status)" } ?? "nothing"
        let words = "user-\(cluster.clients[client].user) sees \(seen) of user-\(expected.user), \(expected.event) was acknowledged"
        guard let view, view.version >= expected.event.id.text else { return cluster.violate(.eventsAreDelivered, words) }
        let told = view.status["event"]?["eventID"]?.text ?? ""
        let mayHaveEnded =
            expected.event.expiresAt < cluster.trueWall + 1_000
            || cluster.truth.events[expected.user].mayBeReplaced(expected.event, at: cluster.trueWall, mayLag: 1_000)
        if !mayHaveEnded, told < expected.event.id.text { cluster.violate(.eventsAreDelivered, words) }
    }

    /// Checks that the record has the events in force.
    static func checkEvents(_ user: Int, _ record: Record, owner: Int, _ cluster: SimulatedCluster) {
        guard !cluster.truth.events[user].isEmpty || record.hasEvents else { return }
        let mayLag: Milliseconds = cluster.isExcused(by: .clockJumps) ? 45_000 : 1_000
        let problem = cluster.truth.events[user].problem(
            with: record.events, at: cluster.nodes[owner].now(cluster.time).wall, mayLag: mayLag)
        if let problem { cluster.violate(.nothingAcknowledgedIsLost, "events of user-\(user): \(problem); its record is \(record.words)") }
    }

    // MARK: Contents

    /// Checks a status that a client receives.
    static func checkContent(_ status: JSONValue, _ version: String, of user: Int, _ cluster: inout SimulatedCluster) {
        guard !cluster.isExcused(by: .hides(user, from: nil)), let before = cluster.truth.contents[user].problem(with: status, version)
        else { return }
        cluster.violate(.oneVersionHasOneContent, "of user-\(user) \(status) is told, under this version \(before) was told before")
    }

    /// Checks the records of an answer.
    static func checkContents(of answer: CallAnswer, _ cluster: inout SimulatedCluster) {
        switch answer {
        case .owner(.record(let record)): checkContents(of: [record], &cluster)
        case .userStatusList(let records, _, _): checkContents(of: records, &cluster)
        case .subscribed(_, _, _, _, _, let records, _): checkContents(of: records ?? [], &cluster)
        case .subscriptions(_, let records, _): checkContents(of: records, &cluster)
        default: break
        }
    }

    static func checkContents(of records: [Record?], _ cluster: inout SimulatedCluster) {
        let records = records.compactMap(\.self)
        guard !records.isEmpty else { return }
        let event = SimulatedClient.Event(EventText.statusChanged(records, id: 1))
        for status in event?.data["userStatusList"]?.elements ?? [] {
            guard let user = status["userID"]?.text.flatMap({ cluster.userIndex($0) }), let version = status["version"]?.text else {
                continue
            }
            checkContent(status, version, of: user, &cluster)
        }
    }
}
