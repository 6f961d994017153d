import PresenceCore
import PresenceWire

/// The devices of all users, and their behavior: they open streams, read them, lose them and come back.
struct Clients: RandomAccessCollection, MutableCollection {
    private var clients: [SimulatedClient]

    init(usersCount: Int) {
        clients = (0..<usersCount * SimulatedClient.devicesPerUser).map { index in
            SimulatedClient(user: index / SimulatedClient.devicesPerUser, device: index % SimulatedClient.devicesPerUser)
        }
    }

    var startIndex: Int { 0 }
    var endIndex: Int { clients.count }

    subscript(client: Int) -> SimulatedClient {
        _read { yield clients[client] }
        _modify { yield &clients[client] }
    }

    /// The devices of one user.
    func devices(of user: Int) -> Range<Int> {
        user * SimulatedClient.devicesPerUser..<(user + 1) * SimulatedClient.devicesPerUser
    }

    /// Has a device connect later. The events that are planned for its earlier attempts are void.
    private mutating func connect(_ client: Int, after delay: Nanoseconds, _ stage: inout Stage) {
        clients[client].attempt += 1
        stage.plan(.connectClient(client: client, attempt: clients[client].attempt), after: delay)
    }

    // MARK: Logins

    static func login(_ client: Int, node: Int, resumes: Bool, isPushReachable: Bool = false, _ cluster: inout SimulatedCluster) {
        guard !cluster.clients[client].isWanted, cluster.clients[client].stream == nil else { return }
        cluster.clients[client].isWanted = true
        cluster.clients[client].isPushReachable = isPushReachable
        cluster.clients[client].tokenIssuedAt = cluster.trueWall
        if !resumes { reset(client, &cluster) }
        cluster.clients.connect(client, after: cluster.stage.random.microseconds(100...2_000), &cluster.stage)
    }

    /// Restarts the app: it knows nothing. Some clients have kept a position of another cluster with clocks ahead of this one's.
    private static func reset(_ client: Int, _ cluster: inout SimulatedCluster) {
        var random = SplitMix64(seed: cluster.options.seed).split(UInt64(client + 200)).split(UInt64(cluster.clients[client].attempt))
        cluster.clients[client].lastEventID =
            cluster.options.isHarder && random.isOnce(in: 16)
            ? SimulatedCluster.epoch + Milliseconds(cluster.time.milliseconds) + 3_600_000 : nil
        cluster.clients[client].view = [:]
        cluster.clients[client].profiles = ToldProfiles()
    }

    static func connectClient(_ client: Int, _ attempt: Int, _ cluster: inout SimulatedCluster) {
        guard cluster.clients[client].isComingBack(by: attempt) else { return }
        guard let node = cluster.randomNode() else {
            return cluster.stage.plan(
                .connectClient(client: client, attempt: attempt), after: cluster.stage.random.microseconds(200_000...600_000))
        }
        _ = open(client, on: node, &cluster)
    }

    /// Opens a stream. Returns whether the gateway has accepted the client's token.
    static func open(_ client: Int, on node: Int, _ cluster: inout SimulatedCluster) -> Bool {
        let user = cluster.clients[client].user
        let gateway = cluster.stage.random.number(in: 0...cluster.nodes[node].gateways.count - 1)
        guard isTokenTaken(of: client, node, gateway, &cluster) else {
            renewToken(of: client, &cluster)
            return false
        }
        let session = cluster.nodes[node].nextSession()
        let expiresAt = SessionChecks.opened(session, by: client, &cluster)
        let attach = Attach(
            session: session, user: cluster.userID(user), platform: SimulatedClient.platforms[cluster.clients[client].device],
            deviceID: "device-\(cluster.clients[client].device)", isPushReachable: cluster.clients[client].isPushReachable)
        let resumeFrom = cluster.clients[client].lastEventID
        let index = cluster.nodes[node].open(
            attach, of: client, at: gateway, until: expiresAt, resumeFrom: resumeFrom, at: cluster.nodes[node].now(cluster.time))
        let stream = SimulatedClient.Stream(
            node: node, run: cluster.nodes[node].run, gateway: gateway, index: index, session: session, openedAt: cluster.time)
        cluster.clients[client].begin(stream, at: cluster.nodes[node].now(cluster.time).wall)
        if cluster.clients[client].stalledUntil == .max { cluster.clients[client].stalledUntil = cluster.time }  // It had vanished.
        cluster.stage.counts[.logins] += 1
        cluster.truth.opened(user, device: cluster.clients[client].device, at: cluster.time)
        cluster.truth.reach.opened(cluster.clients[client], at: cluster.time)
        cluster.journal.note(
            30, client, node,
            "\(cluster.clients[client]) opens \(session) on \(cluster.nodes[node].id) from \(resumeFrom ?? 0)")
        cluster.obey(node)
        return true
    }

    // MARK: Ends

    static func logout(_ client: Int, _ cluster: inout SimulatedCluster) {
        guard cluster.clients[client].isWanted else { return }
        cluster.clients[client].isWanted = false
        cluster.clients[client].attempt += 1
        cluster.truth.presences[cluster.clients[client].user].excusedUntil = cluster.time + .milliseconds(8_000)
        close(client, .loggedOut, tolerance: 0, &cluster)
    }

    static func drop(_ client: Int, comesBackAfter milliseconds: Int?, _ cluster: inout SimulatedCluster) {
        guard cluster.clients[client].isWanted else { return }
        cluster.clients[client].isWanted = milliseconds != nil
        cluster.clients[client].attempt += 1
        close(client, .lost, tolerance: cluster.graceAfterLoss, &cluster)
        guard let milliseconds else { return }
        cluster.stage.plan(.connectClient(client: client, attempt: cluster.clients[client].attempt), after: .milliseconds(milliseconds))
    }

    /// Loses a device without a FIN. The gateway keeps the session until its heartbeat has been unanswered for long.
    static func vanish(_ client: Int, _ cluster: inout SimulatedCluster) {
        guard cluster.clients[client].isWanted, cluster.clients[client].stream != nil else { return }
        cluster.clients[client].isWanted = false
        cluster.clients[client].stalledUntil = .max
        let after = cluster.stage.random.microseconds(500_000...3_000_000)
        cluster.stage.plan(.missed(client: client, attempt: cluster.clients[client].attempt), after: after)
    }

    static func missed(_ client: Int, _ attempt: Int, _ cluster: inout SimulatedCluster) {
        guard cluster.clients[client].attempt == attempt else { return }
        cluster.clients[client].stalledUntil = cluster.time
        cluster.clients[client].attempt += 1
        close(client, .lost, tolerance: 0, &cluster)
    }

    /// Ends a stream. Its gateway notices at once, unless it is paused.
    private static func close(
        _ client: Int, _ cause: Detach.Cause, tolerance: Nanoseconds, isKicked: Bool = false, _ cluster: inout SimulatedCluster
    ) {
        guard let stream = cluster.clients[client].stream else { return }
        // A session whose owner has not answered is not a login yet.
        let isKnown = cluster.clients[client].isSynced && !isKicked
        cluster.truth.noteEnd(of: cluster.clients[client].user, byLogout: isKnown ? cause == .loggedOut : nil, at: cluster.time)
        if cause == .loggedOut {
            let isCertain = cluster.clients[client].isSynced && !cluster.isExcused(by: .lostLogouts, .lateMessages)
            cluster.truth.reach.loggedOut(cluster.clients[client], isCertain: isCertain, at: cluster.time)
        }
        guard cluster.isRunning(stream.node, stream.run) else { return lostSession(of: client, stream, tolerance: tolerance, &cluster) }
        if cluster.time < cluster.nodes[stream.node].pausedUntil {
            return cluster.stage.plan(
                .missed(client: client, attempt: cluster.clients[client].attempt), at: cluster.nodes[stream.node].pausedUntil)
        }
        cluster.journal.note(31, client, stream.node, "\(cluster.clients[client]) ends \(stream.session): \(cause)")
        if cause == .loggedOut { recordLogout(of: stream, user: cluster.clients[client].user, &cluster) }
        cluster.nodes[stream.node].close(stream.index, of: stream.gateway, cause: cause)
        lostSession(of: client, stream, tolerance: tolerance, &cluster)
        cluster.obey(stream.node)
    }

    /// Records a logout that is sent with the end of a session.
    ///
    /// Unlike the call, this logout has no acknowledgement. It is lost with its link, and its session then counts as disconnected. An owner
    /// that restarted alone may hand the user to another one, for which the disconnected sessions ended last.
    private static func recordLogout(of stream: SimulatedClient.Stream, user: Int, _ cluster: inout SimulatedCluster) {
        guard !cluster.isExcused(by: .lostLogouts) else { return }
        let isHeard = cluster.nodes[stream.node].look {
            $0.cluster.ownerID(of: cluster.userID(user)) == $0.cluster.own.id && !$0.owner.isUnconfirmed(cluster.userID(user))
        }
        if !isHeard { cluster.truth.undeliveredLogouts[user, default: []].append(stream.session) }
    }

    /// Records a batch that arrived on a link that has stayed up since the batch was sent.
    static func recordLogouts(in batch: [UInt8], to node: Int, _ cluster: inout SimulatedCluster) {
        guard !cluster.truth.undeliveredLogouts.isEmpty else { return }
        for case .detach(let detach) in Message.all(in: batch) where !cluster.nodes[node].look({ $0.owner.isUnconfirmed(detach.user) }) {
            guard let user = cluster.userIndex(detach.user.id), let undelivered = cluster.truth.undeliveredLogouts[user] else { continue }
            let left = undelivered.filter { $0 != detach.session }
            cluster.truth.undeliveredLogouts[user] = left.isEmpty ? nil : left
        }
    }

    /// Records that the session does not exist any more.
    static func lostSession(of client: Int, _ stream: SimulatedClient.Stream, tolerance: Nanoseconds?, _ cluster: inout SimulatedCluster) {
        cluster.clients[client].stream = nil
        cluster.clients[client].pipe.pushes = []
        cluster.truth.closed(cluster.clients[client].user, device: cluster.clients[client].device, tolerance: tolerance, at: cluster.time)
    }

    /// Ends a stream from the gateway's side.
    static func endStream(of client: Int, isKicked: Bool, _ cluster: inout SimulatedCluster) {
        cluster.clients[client].attempt += 1
        if isKicked {
            cluster.stage.counts[.streamsKicked] += 1
            cluster.truth.excuseAbsence(of: cluster.clients[client].user, at: cluster.time)
        }
        close(client, .lost, tolerance: isKicked ? 0 : cluster.graceAfterLoss, isKicked: isKicked, &cluster)
        if cluster.clients[client].isWanted { comeBack(client, &cluster) }
    }

    /// Handles a client's notice that its node is gone. Some clients come back late, and some never do. Only those may be shown as gone.
    static func streamEnded(_ client: Int, _ attempt: Int, _ cluster: inout SimulatedCluster) {
        guard cluster.clients[client].isComingBack(by: attempt) else { return }
        // A separate generator, so that other clients behave as before some of them came back late.
        var random = SplitMix64(seed: cluster.options.seed).split(UInt64(client + 100)).split(UInt64(attempt))
        switch cluster.options.isHarder ? random.number(in: 0...5) : 5 {
        case 0: cluster.clients[client].isWanted = false
        case 1...2:
            cluster.clients.connect(client, after: random.microseconds(1_500_000...Self.lateMicroseconds), &cluster.stage)
        default: comeBack(client, &cluster)
        }
    }

    /// The delay within which a client that comes back has not been away for its watchers: within ``graceAfterDeath``.
    private static let lateMicroseconds = 6_000_000

    private static func comeBack(_ client: Int, _ cluster: inout SimulatedCluster) {
        cluster.clients.connect(client, after: cluster.stage.random.microseconds(1_000...1_500_000), &cluster.stage)
    }

    /// Opens a stream elsewhere, then drops the one whose node leaves.
    private static func follow(hintOf client: Int, _ cluster: inout SimulatedCluster) {
        guard let old = cluster.clients[client].stream, cluster.clients[client].isWanted,
            let node = cluster.randomNode(), node != old.node
        else { return }
        let device = cluster.clients[client].device
        cluster.journal.note(32, client, node, "\(cluster.clients[client]) moves to \(cluster.nodes[node].id)")
        let isRunning = cluster.isRunning(old.node, old.run)
        guard open(client, on: node, &cluster) else { return }
        cluster.truth.closed(cluster.clients[client].user, device: device, tolerance: cluster.graceAfterLoss, at: cluster.time)
        guard isRunning else { return }
        cluster.nodes[old.node].close(old.index, of: old.gateway, cause: .lost)
        cluster.obey(old.node)
    }

    // MARK: Reading

    static func push(_ payload: [UInt8], to client: Int, _ cluster: inout SimulatedCluster) {
        cluster.stage.counts[.pushes] += 1
        cluster.clients[client].pipe.pushes.append(payload)
        cluster.clients[client].pipe.bytesCount += payload.count
        if !cluster.clients[client].pipe.isReading {
            cluster.clients[client].pipe.isReading = true
            let delay = cluster.stage.random.microseconds(100...3_000)
            cluster.stage.plan(
                .read(client: client, attempt: cluster.clients[client].attempt),
                at: Swift.max(cluster.time + delay, cluster.clients[client].stalledUntil))
        }
        guard cluster.clients[client].pipe.bytesCount > SimulatedClient.Pipe.bytesMax, !cluster.clients[client].pipe.isBlocked,
            let stream = cluster.clients[client].stream
        else { return }
        cluster.clients[client].pipe.isBlocked = true
        cluster.nodes[stream.node].gateways[stream.gateway].value.block(stream.index, at: cluster.nodes[stream.node].now(cluster.time))
    }

    static func read(_ client: Int, _ attempt: Int, _ cluster: inout SimulatedCluster) {
        guard cluster.clients[client].attempt == attempt, let stream = cluster.clients[client].stream else { return }
        guard cluster.time >= cluster.clients[client].stalledUntil else {
            if cluster.isHealed || cluster.clients[client].stalledUntil != .max {
                cluster.stage.plan(.read(client: client, attempt: attempt), at: cluster.clients[client].stalledUntil)
            }
            return
        }
        let payloads = cluster.clients[client].pipe.takeAll()
        for payload in payloads where !cluster.isBroken && cluster.clients[client].reads(stream) { take(payload, by: client, &cluster) }
        guard cluster.clients[client].pipe.isBlocked, cluster.isRunning(stream.node, stream.run), cluster.clients[client].reads(stream)
        else { return }
        cluster.clients[client].pipe.isBlocked = false
        cluster.nodes[stream.node].gateways[stream.gateway].value.unblock(stream.index)
        cluster.obey(stream.node)
    }

    private static func take(_ payload: [UInt8], by client: Int, _ cluster: inout SimulatedCluster) {
        guard let event = SimulatedClient.Event(payload) else {
            return cluster.violate(.messagesAreReadable, "not an event: \(String(decoding: payload, as: UTF8.self))")
        }
        cluster.clients[client].lastEventID = event.id
        cluster.journal.note(
            33, client, payload.count,
            "\(cluster.clients[client]) reads \(String(decoding: payload, as: UTF8.self))"
        )
        switch event.name {
        case "onUserStatusChanged": for status in event.data["userStatusList"]?.elements ?? [] { receive(status, client, &cluster) }
        case "onSubscriptionSyncCompleted":
            cluster.clients[client].isSynced = true
            cluster.clients[client].syncedAt = cluster.time
            cluster.truth.reach.synced(cluster.clients[client], cluster.certainReach(of: cluster.clients[client]), at: cluster.time)
            StreamChecks.checkSync(client, upTo: event.id, cluster)
        case "onReconnectHint": follow(hintOf: client, &cluster)
        case "onSessionsChanged":
            cluster.clients[client].toldSessions = event.data["sessions"]?.elements.compactMap { $0["sessionID"]?.text } ?? []
        case let name where SimulatedClient.ignoredEvents.contains(String(name)): ChainNotices.read(event, by: client, &cluster)
        default: cluster.violate(.messagesAreReadable, "an event nobody knows: \(event.name)")
        }
    }

    /// Reads a record of an answer, as the policy of the app shows it. The client keeps the newest.
    static func take(_ record: Record, by client: Int, _ policy: Policy, _ cluster: inout SimulatedCluster) {
        let own = cluster.userID(cluster.clients[client].user)
        let shown = CollectionOfOne(record.shown(by: policy))
        guard let event = SimulatedClient.Event(EventText.statusChanged(shown, to: own, policy, id: 1)),
            let status = event.data["userStatusList"]?.elements.first, let user = cluster.userIndex(record.user.id)
        else { return cluster.violate(.messagesAreReadable, "not a status: \(record)") }
        if let before = cluster.clients[client].view[user], before.version >= record.version.text { return }
        cluster.clients[client].view[user] = SimulatedClient.ReceivedStatus(version: record.version.text, status: status)
    }

    private static func receive(_ status: JSONValue, _ client: Int, _ cluster: inout SimulatedCluster) {
        guard let id = status["userID"]?.text, let user = cluster.userIndex(id), let version = status["version"]?.text else {
            return cluster.violate(.messagesAreReadable, "not a status: \(status)")
        }
        cluster.stage.counts[.recordsAnswered] += 1
        // It says something of the node. The other checks are about the user.
        let isUnsure = status["isUnsure"] != nil
        let wasUnsure = cluster.clients[client].unsure.contains(user)
        if isUnsure { cluster.clients[client].unsure.insert(user) } else { cluster.clients[client].unsure.remove(user) }
        let status = isUnsure ? status.without("isUnsure") : status
        EventChecks.checkContent(status, version, of: user, &cluster)
        let told = SimulatedClient.ReceivedStatus(version: version, status: status)
        let last = cluster.clients[client].streamed[user] ?? ""
        let isNew = version == Version.zero.text || cluster.isExcused(by: .followsAgain(cluster.clients[client].user, target: user))
        let mayBeRepeated = isNew || isUnsure || wasUnsure || cluster.isExcused(by: .clockJumps) || cluster.isExcused(by: .policyShowsAgain)
        if last > version || (last == version && !mayBeRepeated) {
            return cluster.violate(.viewsNeverGoBack, "user-\(cluster.clients[client].user) was told \(last), is now told \(status)")
        }
        let platforms = status["onlinePlatforms"]?.elements.compactMap(\.text) ?? []
        if zip(platforms, platforms.dropFirst()).contains(where: { $0 >= $1 }) {
            cluster.violate(
                .recordsEqualSessions, "user-\(user) is told to be on \(platforms), each platform once and sorted would be right")
        }
        StreamChecks.checkFollowed(told, of: user, client, cluster)
        ProbeChecks.checkListed(told, of: user, client, cluster)
        cluster.clients[client].streamed[user] = version
        let before = cluster.clients[client].view[user]
        if let before, before.version > version { return }
        cluster.clients[client].view[user] = told
        if let stream = cluster.clients[client].stream {
            let disk = cluster.nodes[stream.node].disk
            let at = cluster.nodes[stream.node].worked(at: cluster.time)
            cluster.clients[client].view[user]?.source = SimulatedClient.Source(
                node: stream.node, run: stream.run, at: at, hasFullDisk: disk.isFull, hasSlowDisk: disk.isSlow)
        }
        if before?.version != version { StreamChecks.checkReceived(told, of: user, client, cluster) }
    }

    /// Whether a gateway accepts a client's token.
    static func isTokenTaken(of client: Int, _ node: Int, _ gateway: Int, _ cluster: inout SimulatedCluster) -> Bool {
        let user = cluster.clients[client].user
        return !cluster.nodes[node].gateways[gateway].value.isVoid(cluster.userID(user), issuedAt: cluster.clients[client].tokenIssuedAt)
    }

    /// Issues another token to the client.
    static func renewToken(of client: Int, _ cluster: inout SimulatedCluster) {
        cluster.stage.counts[.tokensRefused] += 1
        cluster.journal.note(40, client, 0, "the token of \(cluster.clients[client]) is void")
        cluster.clients[client].tokenIssuedAt = cluster.trueWall
        guard cluster.clients[client].stream == nil else { return }
        cluster.clients[client].isWanted = !cluster.isHealed
        guard !cluster.isHealed else { return cluster.clients[client].attempt += 1 }
        cluster.clients.connect(client, after: cluster.stage.random.microseconds(200_000...800_000), &cluster.stage)
    }

    static func logoutEverywhere(_ user: Int, _ cluster: inout SimulatedCluster) {
        cluster.truth.reach.doubt(user, at: cluster.time)
        for client in cluster.clients.devices(of: user) { cluster.clients[client].isWanted = false }
        cluster.truth.excuseAbsence(of: user, at: cluster.time)
        cluster.call(.logout(nil), by: user)
    }
}
