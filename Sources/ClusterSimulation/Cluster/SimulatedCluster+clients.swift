import PresenceCore
import PresenceWire

/// The behavior of clients: they open streams, read them, lose them and come back.
extension SimulatedCluster {
    mutating func login(_ client: Int, node: Int, resumes: Bool, isPushReachable: Bool = false) {
        guard !clients[client].isWanted, clients[client].stream == nil else { return }
        clients[client].isWanted = true
        clients[client].isPushReachable = isPushReachable
        clients[client].tokenIssuedAt = trueWall
        if !resumes { reset(client) }
        clients[client].attempt += 1
        plan(.connectClient(client: client, attempt: clients[client].attempt), after: random.microseconds(100...2_000))
    }

    /// Restarts the app: it knows nothing. Some clients have kept a position of another cluster with clocks ahead of this one's.
    private mutating func reset(_ client: Int) {
        var random = SplitMix64(seed: options.seed).split(UInt64(client + 200)).split(UInt64(clients[client].attempt))
        clients[client].lastEventID =
            options.isHarder && random.isOnce(in: 16) ? Self.epoch + Milliseconds(time.milliseconds) + 3_600_000 : nil
        clients[client].view = [:]
        clients[client].profiles = ToldProfiles()
    }

    mutating func connectClient(_ client: Int, _ attempt: Int) {
        guard clients[client].attempt == attempt, clients[client].isWanted, clients[client].stream == nil else { return }
        guard let node = randomNode() else {
            return plan(.connectClient(client: client, attempt: attempt), after: random.microseconds(200_000...600_000))
        }
        _ = open(client, on: node)
    }

    /// Opens a stream. Returns whether the gateway has accepted the client's token.
    mutating func open(_ client: Int, on node: Int) -> Bool {
        let user = clients[client].user
        let gateway = random.number(in: 0...nodes[node].gateways.count - 1)
        guard isTokenTaken(of: client, node, gateway) else {
            renewToken(of: client)
            return false
        }
        let session = nodes[node].nextSession()
        let expiresAt = SessionChecks.opened(session, by: client, &self)
        let attach = Attach(
            session: session, user: userID(user), platform: SimulatedClient.platforms[clients[client].device],
            deviceID: "device-\(clients[client].device)", isPushReachable: clients[client].isPushReachable)
        let resumeFrom = clients[client].lastEventID
        let index = nodes[node].open(
            attach, of: client, at: gateway, until: expiresAt, resumeFrom: resumeFrom, at: nodes[node].now(time))
        let stream = SimulatedClient.Stream(
            node: node, run: nodes[node].run, gateway: gateway, index: index, session: session, openedAt: time)
        clients[client].begin(stream, at: nodes[node].now(time).wall)
        if clients[client].stalledUntil == .max { clients[client].stalledUntil = time }  // It had vanished.
        counts[.logins] += 1
        truth.opened(user, device: clients[client].device, at: time)
        truth.reach.opened(clients[client], at: time)
        note(
            30, client, node, "user-\(user) device \(clients[client].device) opens \(session) on \(nodes[node].id) from \(resumeFrom ?? 0)")
        obey(node)
        return true
    }

    // MARK: Ends

    mutating func logout(_ client: Int) {
        guard clients[client].isWanted else { return }
        clients[client].isWanted = false
        clients[client].attempt += 1
        truth.presences[clients[client].user].excusedUntil = time + .milliseconds(8_000)
        close(client, .loggedOut, tolerance: 0)
    }

    mutating func drop(_ client: Int, comesBackAfter milliseconds: Int?) {
        guard clients[client].isWanted else { return }
        clients[client].isWanted = milliseconds != nil
        clients[client].attempt += 1
        close(client, .lost, tolerance: graceAfterLoss)
        guard let milliseconds else { return }
        plan(.connectClient(client: client, attempt: clients[client].attempt), after: .milliseconds(milliseconds))
    }

    /// Loses a device without a FIN. The gateway keeps the session until its heartbeat has been unanswered for long.
    mutating func vanish(_ client: Int) {
        guard clients[client].isWanted, clients[client].stream != nil else { return }
        clients[client].isWanted = false
        clients[client].stalledUntil = .max
        plan(.missed(client: client, attempt: clients[client].attempt), after: random.microseconds(500_000...3_000_000))
    }

    mutating func missed(_ client: Int, _ attempt: Int) {
        guard clients[client].attempt == attempt else { return }
        clients[client].stalledUntil = time
        clients[client].attempt += 1
        close(client, .lost, tolerance: 0)
    }

    /// Ends a stream. Its gateway notices at once, unless it is paused.
    private mutating func close(_ client: Int, _ cause: Detach.Cause, tolerance: Nanoseconds, isKicked: Bool = false) {
        guard let stream = clients[client].stream else { return }
        // A session whose owner has not answered is not a login yet.
        let isKnown = clients[client].isSynced && !isKicked
        truth.noteEnd(of: clients[client].user, byLogout: isKnown ? cause == .loggedOut : nil, at: time)
        if cause == .loggedOut {
            let isCertain = clients[client].isSynced && !isExcused(by: .lostLogouts, .lateMessages)
            truth.reach.loggedOut(clients[client], isCertain: isCertain, at: time)
        }
        guard isRunning(stream.node, stream.run) else { return lostSession(of: client, stream, tolerance: tolerance) }
        if time < nodes[stream.node].pausedUntil {
            return plan(.missed(client: client, attempt: clients[client].attempt), at: nodes[stream.node].pausedUntil)
        }
        note(31, client, stream.node, "user-\(clients[client].user) device \(clients[client].device) ends \(stream.session): \(cause)")
        if cause == .loggedOut { recordLogout(of: stream, user: clients[client].user) }
        nodes[stream.node].close(stream.index, of: stream.gateway, cause: cause)
        lostSession(of: client, stream, tolerance: tolerance)
        obey(stream.node)
    }

    /// Records a logout that is sent with the end of a session.
    ///
    /// Unlike the call, this logout has no acknowledgement. It is lost with its link, and its session then counts as disconnected. An owner
    /// that restarted alone may hand the user to another one, for which the disconnected sessions ended last.
    private mutating func recordLogout(of stream: SimulatedClient.Stream, user: Int) {
        guard !isExcused(by: .lostLogouts) else { return }
        let isHeard = nodes[stream.node].look {
            $0.cluster.ownerID(of: userID(user)) == $0.cluster.own.id && !$0.owner.isUnconfirmed(userID(user))
        }
        if !isHeard { truth.undeliveredLogouts[user, default: []].append(stream.session) }
    }

    /// Records a batch that arrived on a link that has stayed up since the batch was sent.
    mutating func recordLogouts(in batch: [UInt8], to node: Int) {
        guard !truth.undeliveredLogouts.isEmpty else { return }
        for case .detach(let detach) in Message.all(in: batch) where !nodes[node].look({ $0.owner.isUnconfirmed(detach.user) }) {
            guard let user = userIndex(detach.user.id), let undelivered = truth.undeliveredLogouts[user] else { continue }
            let left = undelivered.filter { $0 != detach.session }
            truth.undeliveredLogouts[user] = left.isEmpty ? nil : left
        }
    }

    /// Records that the session does not exist any more.
    mutating func lostSession(of client: Int, _ stream: SimulatedClient.Stream, tolerance: Nanoseconds?) {
        clients[client].stream = nil
        clients[client].pipe.pushes = []
        truth.closed(clients[client].user, device: clients[client].device, tolerance: tolerance, at: time)
    }

    /// Ends a stream from the gateway's side.
    mutating func endStream(of client: Int, isKicked: Bool) {
        clients[client].attempt += 1
        if isKicked {
            counts[.streamsKicked] += 1
            excuseAbsence(of: clients[client].user)
        }
        close(client, .lost, tolerance: isKicked ? 0 : graceAfterLoss, isKicked: isKicked)
        if clients[client].isWanted { comeBack(client) }
    }

    /// Handles a client's notice that its node is gone. Some clients come back late, and some never do. Only those may be shown as gone.
    mutating func streamEnded(_ client: Int, _ attempt: Int) {
        guard clients[client].attempt == attempt, clients[client].isWanted, clients[client].stream == nil else { return }
        // A separate generator, so that other clients behave as before some of them came back late.
        var random = SplitMix64(seed: options.seed).split(UInt64(client + 100)).split(UInt64(attempt))
        switch options.isHarder ? random.number(in: 0...5) : 5 {
        case 0: clients[client].isWanted = false
        case 1...2:
            clients[client].attempt += 1
            let delay = random.microseconds(1_500_000...Self.lateMicroseconds)
            plan(.connectClient(client: client, attempt: clients[client].attempt), after: delay)
        default: comeBack(client)
        }
    }

    /// The delay within which a client that comes back has not been away for its watchers: within ``graceAfterDeath``.
    private static let lateMicroseconds = 6_000_000

    private mutating func comeBack(_ client: Int) {
        clients[client].attempt += 1
        plan(.connectClient(client: client, attempt: clients[client].attempt), after: random.microseconds(1_000...1_500_000))
    }

    /// Opens a stream elsewhere, then drops the one whose node leaves.
    private mutating func follow(hintOf client: Int) {
        guard let old = clients[client].stream, clients[client].isWanted,
            let node = randomNode(), node != old.node
        else { return }
        let device = clients[client].device
        note(32, client, node, "user-\(clients[client].user) device \(device) moves to \(nodes[node].id)")
        let isRunning = isRunning(old.node, old.run)
        guard open(client, on: node) else { return }
        truth.closed(clients[client].user, device: device, tolerance: graceAfterLoss, at: time)
        guard isRunning else { return }
        nodes[old.node].close(old.index, of: old.gateway, cause: .lost)
        obey(old.node)
    }

    // MARK: Reading

    mutating func push(_ payload: [UInt8], to client: Int) {
        counts[.pushes] += 1
        clients[client].pipe.pushes.append(payload)
        clients[client].pipe.bytesCount += payload.count
        if !clients[client].pipe.isReading {
            clients[client].pipe.isReading = true
            let delay = random.microseconds(100...3_000)
            plan(.read(client: client, attempt: clients[client].attempt), at: max(time + delay, clients[client].stalledUntil))
        }
        guard clients[client].pipe.bytesCount > SimulatedClient.Pipe.bytesMax, !clients[client].pipe.isBlocked,
            let stream = clients[client].stream
        else { return }
        clients[client].pipe.isBlocked = true
        nodes[stream.node].gateways[stream.gateway].value.block(stream.index, at: nodes[stream.node].now(time))
    }

    mutating func read(_ client: Int, _ attempt: Int) {
        guard clients[client].attempt == attempt, let stream = clients[client].stream else { return }
        guard time >= clients[client].stalledUntil else {
            if isHealed || clients[client].stalledUntil != .max {
                plan(.read(client: client, attempt: attempt), at: clients[client].stalledUntil)
            }
            return
        }
        let payloads = clients[client].pipe.pushes
        clients[client].pipe.pushes = []
        clients[client].pipe.bytesCount = 0
        clients[client].pipe.isReading = false
        for payload in payloads where violation == nil && clients[client].stream?.session == stream.session { take(payload, by: client) }
        guard clients[client].pipe.isBlocked, isRunning(stream.node, stream.run), clients[client].stream?.session == stream.session else {
            return
        }
        clients[client].pipe.isBlocked = false
        nodes[stream.node].gateways[stream.gateway].value.unblock(stream.index)
        obey(stream.node)
    }

    private mutating func take(_ payload: [UInt8], by client: Int) {
        guard let event = SimulatedClient.Event(payload) else {
            return violate(.messagesAreReadable, "not an event: \(String(decoding: payload, as: UTF8.self))")
        }
        clients[client].lastEventID = event.id
        note(
            33, client, payload.count,
            "user-\(clients[client].user) device \(clients[client].device) reads \(String(decoding: payload, as: UTF8.self))")
        switch event.name {
        case "onUserStatusChanged": for status in event.data["userStatusList"]?.elements ?? [] { receive(status, client) }
        case "onSubscriptionSyncCompleted":
            clients[client].isSynced = true
            clients[client].syncedAt = time
            truth.reach.synced(clients[client], certainReach(of: clients[client]), at: time)
            StreamChecks.checkSync(client, upTo: event.id, self)
        case "onReconnectHint": follow(hintOf: client)
        case let name where SimulatedClient.ignoredEvents.contains(String(name)): ChainNotices.read(event, by: client, &self)
        default: violate(.messagesAreReadable, "an event nobody knows: \(event.name)")
        }
    }

    /// Reads a record of an answer. The client keeps the newest.
    mutating func take(_ record: Record, by client: Int) {
        let own = userID(clients[client].user)
        guard let event = SimulatedClient.Event(EventText.statusChanged(CollectionOfOne(record), to: own, id: 1)),
            let status = event.data["userStatusList"]?.elements.first, let user = userIndex(record.user.id)
        else { return violate(.messagesAreReadable, "not a status: \(record)") }
        if let before = clients[client].view[user], before.version >= record.version.text { return }
        clients[client].view[user] = SimulatedClient.ReceivedStatus(version: record.version.text, status: status)
    }

    private mutating func receive(_ status: JSONValue, _ client: Int) {
        guard let id = status["userID"]?.text, let user = userIndex(id), let version = status["version"]?.text else {
            return violate(.messagesAreReadable, "not a status: \(status)")
        }
        counts[.recordsAnswered] += 1
        EventChecks.checkContent(status, version, of: user, &self)
        let told = SimulatedClient.ReceivedStatus(version: version, status: status)
        let last = clients[client].streamed[user] ?? ""
        let isNew = version == Version.zero.text || isExcused(by: .followsAgain(clients[client].user, target: user))
        let mayBeRepeated = isNew || isExcused(by: .clockJumps) || isExcused(by: .policyShowsAgain)
        if last > version || (last == version && !mayBeRepeated) {
            return violate(.viewsNeverGoBack, "user-\(clients[client].user) was told \(last), is now told \(status)")
        }
        let platforms = status["onlinePlatforms"]?.elements.compactMap(\.text) ?? []
        if zip(platforms, platforms.dropFirst()).contains(where: { $0 >= $1 }) {
            violate(.recordsEqualSessions, "user-\(user) is told to be on \(platforms), each platform once and sorted would be right")
        }
        StreamChecks.checkFollowed(told, of: user, client, self)
        ProbeChecks.checkListed(told, of: user, client, self)
        clients[client].streamed[user] = version
        let before = clients[client].view[user]
        if let before, before.version > version { return }
        clients[client].view[user] = told
        if let stream = clients[client].stream {
            let disk = nodes[stream.node].disk
            clients[client].view[user]?.source = SimulatedClient.Source(
                node: stream.node, run: stream.run, at: nodes[stream.node].worked(at: time), hasFullDisk: disk.isFull,
                hasSlowDisk: disk.isSlow)
        }
        if before?.version != version { StreamChecks.checkReceived(told, of: user, client, self) }
    }
}
