import PresenceCore
import PresenceWire

/// Ends sessions in every way, and checks that each has exactly one end: see ``SessionLedger``.
enum SessionChecks {
    /// The time after which a session whose end is due has certainly ended, if nothing fails.
    private static let endMilliseconds = 1_500
    /// The difference of the clocks of two nodes, and the time of a tick.
    private static let clockTolerance: Milliseconds = 200
    /// The time within which the order of two logins of a device may be mistaken.
    private static let loginOrderTolerance: Nanoseconds = .milliseconds(1_500)
    /// The longest time after a call in which it may end sessions.
    private static let callTolerance: Nanoseconds = .milliseconds(6_000)

    // MARK: Steps

    static func perform(_ action: SessionAction, _ cluster: inout SimulatedCluster) {
        switch action {
        case .loginUntil(let client, let seconds):
            guard client < cluster.clients.count, !cluster.clients[client].isWanted else { return }
            cluster.clients[client].tokenExpiresAt = cluster.trueWall + Milliseconds(seconds) * 1_000
            Clients.login(client, node: 0, resumes: true, &cluster)
        case .renew(let client, let seconds): renew(client, seconds, &cluster)
        case .loginAgain(let client): loginAgain(client, &cluster)
        }
    }

    private static func renew(_ client: Int, _ seconds: Int, _ cluster: inout SimulatedCluster) {
        guard client < cluster.clients.count, let stream = cluster.clients[client].stream else { return }
        let expiresAt = cluster.trueWall + Milliseconds(seconds) * 1_000
        cluster.truth.ledger.askRenewal(of: stream.session, until: expiresAt)
        cluster.call(.renew(stream.session, until: expiresAt), by: cluster.clients[client].user)
    }

    private static func loginAgain(_ client: Int, _ cluster: inout SimulatedCluster) {
        // If the login were lost with its node or a link, the stream before would rightly go on.
        guard client < cluster.clients.count, !cluster.isExcused(by: .faultsBesidesDrains), cluster.clients[client].isWanted,
            let old = cluster.clients[client].stream, old.openedAt < cluster.time - loginOrderTolerance,
            cluster.isRunning(old.node, old.run), cluster.clients[client].stalledUntil <= cluster.time, let node = cluster.randomNode()
        else { return }
        cluster.truth.ledger.leave(old, by: client)
        guard Clients.open(client, on: node, &cluster) else {
            _ = cluster.truth.ledger.takeHalfOpen(old.index, at: old.gateway, of: old.node)
            return
        }
        cluster.truth.closed(
            cluster.clients[client].user, device: cluster.clients[client].device, tolerance: cluster.graceAfterLoss, at: cluster.time)
        cluster.stage.plan(.expectEnd(old.session), after: .milliseconds(2 * endMilliseconds))
    }

    // MARK: While things happen

    /// Records a new session. Returns the end of its token.
    static func opened(_ session: SessionID, by client: Int, _ cluster: inout SimulatedCluster) -> Milliseconds {
        let grace = cluster.options.settings.policy.tokenGrace.wholeMilliseconds
        // A node refuses a token whose session would end at once. The client gets another one.
        if cluster.clients[client].tokenExpiresAt < .max, cluster.clients[client].tokenExpiresAt + grace <= cluster.trueWall + 1_000 {
            cluster.clients[client].tokenExpiresAt = .max
        }
        let expiresAt = cluster.clients[client].tokenExpiresAt
        cluster.truth.ledger.open(session, until: expiresAt)
        if expiresAt < .max { expectEnd(of: session, byTokenUntil: expiresAt, &cluster) }
        return expiresAt
    }

    private static func expectEnd(of session: SessionID, byTokenUntil expiresAt: Milliseconds, _ cluster: inout SimulatedCluster) {
        let grace = cluster.options.settings.policy.tokenGrace.wholeMilliseconds
        let wait = max(expiresAt + grace - cluster.trueWall, 0)
        cluster.stage.plan(.expectEnd(session), after: .milliseconds(Int(wait) + endMilliseconds))
    }

    /// Checks that a session whose end was due has ended by now.
    static func checkEnd(of session: SessionID, _ cluster: inout SimulatedCluster) {
        if let old = cluster.truth.ledger.halfOpen.first(where: { $0.stream.session == session }) {
            guard !cluster.isExcused(by: .disturbed(since: cluster.time)) else { return }
            return cluster.violate(
                .eachSessionHasOneEnd,
                "\(cluster.nodes[old.stream.node].id) still has \(session), whose device has opened another stream")
        }
        guard let token = cluster.truth.ledger.token(of: session),
            let client = cluster.clients.first(where: { $0.stream?.session == session })
        else { return }
        let grace = cluster.options.settings.policy.tokenGrace.wholeMilliseconds
        guard token.most + grace + clockTolerance < cluster.trueWall else {
            return expectEnd(of: session, byTokenUntil: token.most, &cluster)
        }
        let since = cluster.time - .milliseconds(endMilliseconds)
        guard !cluster.isExcused(by: .disturbed(since: cluster.time), .stalled(until: client.stalledUntil, since: since)) else { return }
        cluster.violate(
            .eachSessionHasOneEnd, "\(session) of user-\(client.user) is open, its token ended \(cluster.trueWall - token.most) ms ago")
    }

    /// Handles the answer to a renewal.
    static func renewed(_ session: SessionID, until expiresAt: Milliseconds, _ cluster: inout SimulatedCluster) {
        cluster.truth.ledger.renewed(session, until: expiresAt, at: cluster.time)
        guard let client = cluster.clients.firstIndex(where: { $0.stream?.session == session }),
            cluster.clients[client].tokenExpiresAt < .max
        else { return }
        cluster.clients[client].tokenExpiresAt = max(cluster.clients[client].tokenExpiresAt, expiresAt)
    }

    /// Records a call that ends all sessions of a user.
    static func asked(_ call: Call, by user: Int, _ cluster: inout SimulatedCluster) {
        switch call {
        case .owner(.logout): cluster.truth.ledger.loggedOutAt[user] = cluster.time
        case .owner(.kick): cluster.truth.ledger.kickedAt[user] = cluster.time
        default: break
        }
    }

    /// Ends a stream that its client has left, if the gateway ends such a one. Returns whether it was.
    static func endHalfOpen(
        _ session: Gateway.SessionIndex, of node: Int, at gateway: Int, _ output: Gateway.Output, _ cluster: inout SimulatedCluster
    ) -> Bool {
        guard let old = cluster.truth.ledger.takeHalfOpen(session, at: gateway, of: node) else { return false }
        if output.ended.contains(session) {
            checkFarewell(of: session, old.stream, by: old.client, isHalfOpen: true, in: output, cluster)
        }
        cluster.nodes[node].close(session, of: gateway, cause: .lost)
        return true
    }

    /// Checks the event that ends a stream: there is one, and its reason is true.
    static func checkFarewell(
        of index: Gateway.SessionIndex, _ stream: SimulatedClient.Stream?, by client: Int, isHalfOpen: Bool, in output: Gateway.Output,
        _ cluster: SimulatedCluster
    ) {
        guard cluster.options.kind.hasCrossPlan, let stream else { return }
        let events = output.pushes.filter { $0.session == index }.compactMap { SimulatedClient.Event(output.payloads[Int($0.payload)]) }
        let farewells = events.filter { $0.name == "onKickedOffline" || $0.name == "onLogout" }
        guard let last = farewells.first, farewells.count == 1, events.last?.name == last.name else {
            return cluster.violate(
                .eachSessionHasOneEnd,
                "\(stream.session) is told the end \(farewells.count) times, and \(events.last?.name ?? "nothing") last")
        }
        let user = cluster.clients[client].user
        let reason = last.name == "onLogout" ? SessionEnd.logout : last.data["reason"]?.text ?? ""
        let isTrue: Bool
        switch reason {
        case SessionEnd.logout: isTrue = cluster.truth.ledger.loggedOutAt[user] ?? .min >= stream.openedAt - callTolerance
        case SessionEnd.replaced: isTrue = isHalfOpen || cluster.isExcused(by: .faultsBesidesDrains)
        case SessionEnd.tokenExpired: isTrue = mayHaveExpired(stream, cluster)
        default: isTrue = cluster.truth.ledger.kickedAt[user] ?? .min >= stream.openedAt - callTolerance
        }
        if isTrue { return }
        cluster.violate(.eachSessionHasOneEnd, "\(stream.session) of user-\(user) ends as \(reason), for which there is no cause")
    }

    private static func mayHaveExpired(_ stream: SimulatedClient.Stream, _ cluster: SimulatedCluster) -> Bool {
        guard let token = cluster.truth.ledger.token(of: stream.session) else { return false }
        // The renewal may still be on its way to the gateway, or is lost with a link.
        if token.renewedAt >= cluster.time - .milliseconds(1_000) || cluster.isExcused(by: .disturbed(since: cluster.time)) { return true }
        let grace = cluster.options.settings.policy.tokenGrace.wholeMilliseconds
        return token.least + grace <= cluster.nodes[stream.node].now(cluster.time).wall + clockTolerance
    }

    // MARK: At rest

    /// Checks that no left stream is open, and that the nodes have counted one end for each session that is not open.
    static func finish(_ cluster: SimulatedCluster) {
        if let old = cluster.truth.ledger.halfOpen.first {
            cluster.violate(
                .eachSessionHasOneEnd,
                "\(cluster.nodes[old.stream.node].id) has \(old.stream.session) at rest, whose device has opened another stream")
        }
        checkTold(cluster)
        guard !cluster.isExcused(by: .faultsOfNodes) else { return }
        var (logins, ends): (UInt64, UInt64) = (0, 0)
        for node in cluster.hosts {
            let statistics = cluster.nodes[node].look { $0.statistics }
            logins += statistics.logins
            let owner = statistics.owner
            ends += owner.logouts + owner.sessionsDisconnected + owner.sessionsKicked + owner.sessionsEvicted
        }
        let openCount = UInt64(cluster.clients.count { $0.stream != nil })
        let openedCount = UInt64(cluster.truth.ledger.openedCount)
        guard logins != openedCount || ends + openCount != openedCount else { return }
        cluster.violate(
            .eachSessionHasOneEnd,
            "the nodes count \(logins) logins and \(ends) ends of sessions, right are \(openedCount), of which \(openCount) are open")
    }

    /// Checks that each stream was told all sessions of its user, or is the only one and was told none.
    private static func checkTold(_ cluster: SimulatedCluster) {
        for client in cluster.clients where client.isSynced {
            guard let own = client.stream?.session.description else { continue }
            let open = cluster.clients.filter { $0.user == client.user }.compactMap { $0.stream?.session.description }
            let told = client.toldSessions.isEmpty ? [own] : client.toldSessions
            guard told.sorted() != open.sorted() else { continue }
            cluster.violate(.sessionsAreTold, "\(client) was told the sessions \(told), right are \(open)")
        }
    }
}
