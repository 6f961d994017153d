import PresenceWire

/// Checks at rest who sees whom, from the answers of calls alone, and that a device that was away knows what the others know.
enum SightChecks {
    /// Whether a viewer may see a user, as far as the answers of calls make that certain; nil if they do not.
    ///
    /// The rules are stated here once more, so that an error in those of the core is found.
    static func sees(_ viewer: Int, _ user: Int, _ cluster: SimulatedCluster) -> Bool? {
        guard !cluster.isExcused(by: .visibilityChanges(user)), let rule = cluster.truth.oracles[user].rule else { return nil }
        if rule.isInvisible { return false }
        let known = cluster.truth.chain.pair(user, viewer).known
        guard let isBlocked = known[user < viewer ? .ownBlocks : .otherBlocks] else { return nil }
        if isBlocked { return false }
        return switch rule.mode {
        case .everyone: true
        case .list: rule.listed.contains(cluster.userID(viewer))
        case .friends: known[user < viewer ? .ownFriend : .otherFriend]
        case .nobody: false
        }
    }

    /// Whether each node knows what was acknowledged.
    private static func isKnown(_ cluster: SimulatedCluster) -> Bool {
        !cluster.isExcused(by: .split, .clockJumps, .diskFaults) && !cluster.isExcused(by: .crippled)
    }

    /// Checks a status that a viewer is shown at rest.
    private static func check(_ status: String, of user: Int, shownTo viewer: Int, by whom: String, _ cluster: SimulatedCluster) {
        guard user != viewer, let sees = sees(viewer, user, cluster) else { return }
        let isPresent = cluster.truth.presences[user].openCount > 0
        guard sees ? isPresent && status != "ONLINE" : status == "ONLINE" else { return }
        let rule = cluster.truth.oracles[user].rule.map { "\($0)" } ?? ""
        cluster.violate(
            .friendsAreSeen,
            "\(whom) shows user-\(viewer) that user-\(user) is \(status); \(sees ? "it may see that user" : "that user hides")"
                + ", whose visibility is \(rule)")
    }

    /// Checks the records of an answer at rest.
    static func check(_ records: [Record?], inAnswerTo call: SimulatedCall, by node: NodeID, _ cluster: SimulatedCluster) {
        guard cluster.options.kind.hasCrossPlan, cluster.phase == .resting, isKnown(cluster) else { return }
        for record in records.compactMap(\.self) {
            guard let user = cluster.userIndex(record.user.id) else { continue }
            check(record.statusType.name.description, of: user, shownTo: call.user, by: "\(node)", cluster)
        }
    }

    // MARK: At rest

    /// Checks at rest what friends, blocks, visibilities and sessions guarantee together.
    static func finish(_ cluster: inout SimulatedCluster) {
        cluster.phase = .resting
        comeBack(&cluster)
        guard !cluster.isBroken else { return }
        cluster.twice { cluster in
            checkBlocked(cluster)
            if isKnown(cluster) {
                checkStreams(cluster)
                FriendFollowChecks.finish(cluster)
            }
            checkDevices(cluster)
        }
        for viewer in cluster.userIDs.indices {
            for node in cluster.hosts where !cluster.isBroken && cluster.nodes[node].isUp {
                cluster.call(.getUserStatus(cluster.userIDs), by: viewer, at: node)
                cluster.awaitAnswer()
            }
        }
        if !cluster.isBroken { OwnListChecks.finish(&cluster) }
        if !cluster.isBroken { cluster.twice { SessionChecks.finish($0) } }
        if !cluster.isBroken { HiddenProfileChecks.finish(&cluster) }
    }

    /// Brings back the devices that are away, each from its last position.
    private static func comeBack(_ cluster: inout SimulatedCluster) {
        for client in cluster.clients.indices where cluster.clients[client].stream == nil && cluster.clients[client].lastEventID != nil {
            cluster.clients[client].isWanted = false
            cluster.clients[client].tokenExpiresAt = .max
            Clients.login(client, node: 0, resumes: true, &cluster)
        }
        cluster.advance(to: cluster.time + .milliseconds(4_000))
    }

    /// Checks that a user hides from exactly the users on its blocklist.
    private static func checkBlocked(_ cluster: SimulatedCluster) {
        for user in cluster.userIDs.indices {
            guard let owner = cluster.owner(of: user) else { continue }
            let record = cluster.nodes[owner].kept(cluster.userID(user)).record
            let rows = ChainChecks.rows(.blocked, of: user, cluster).map(\.key)
            let named = (record.privacy?.visibility.blocked ?? []).map { String($0.id) }
            if named == rows { continue }
            cluster.violate(.friendsAreSeen, "user-\(user) blocks \(rows), and hides from \(named)")
        }
    }

    private static func checkStreams(_ cluster: SimulatedCluster) {
        for client in cluster.clients where client.stream != nil && client.isSynced && client.pipe.pushes.isEmpty {
            for user in cluster.followed(by: client.user) {
                guard let view = client.view[user] else { continue }
                check(view.statusType, of: user, shownTo: client.user, by: "the stream of device \(client.device)", cluster)
            }
        }
    }

    /// Checks that the devices of a user know the same, whether they were away or not.
    private static func checkDevices(_ cluster: SimulatedCluster) {
        guard !cluster.isExcused(by: .split, .clockJumps, .diskFaults, .kills) else { return }
        for user in cluster.userIDs.indices {
            let first = user * SimulatedClient.devicesPerUser
            let devices = cluster.clients[first..<first + SimulatedClient.devicesPerUser].filter {
                $0.stream != nil && $0.isSynced && $0.pipe.pushes.isEmpty
                    && !cluster.isExcused(by: .stalled(until: $0.stalledUntil, since: cluster.time + 1))
            }
            guard devices.count == SimulatedClient.devicesPerUser else { continue }
            if let problem = difference(of: devices[0], devices[1], cluster) {
                cluster.violate(.devicesAgree, "the devices of user-\(user) know \(problem)")
            }
        }
    }

    private static func difference(of one: SimulatedClient, _ other: SimulatedClient, _ cluster: SimulatedCluster) -> String? {
        let (lists, others) = (one.relationship, other.relationship)
        let told = [lists, others]
        if lists.friendSequence != others.friendSequence,
            !told.allSatisfy({ BackEndChecks.knowsFriends(at: $0.friendSequence, of: one.user, cluster) })
        {
            return "the friends \(lists.friendSequence) and \(others.friendSequence)"
        }
        if lists.requestSequence != others.requestSequence {
            return "the requests \(lists.requestSequence) and \(others.requestSequence)"
        }
        if lists.groupSequence != others.groupSequence,
            !told.allSatisfy({ BackEndChecks.knowsGroups(at: $0.groupSequence, of: one.user, cluster) })
        {
            return "the groups \(lists.groupSequence) and \(others.groupSequence)"
        }
        if lists.blockSequence != others.blockSequence { return "the blocklist \(lists.blockSequence) and \(others.blockSequence)" }
        if lists.unreadCount != others.unreadCount { return "\(lists.unreadCount) and \(others.unreadCount) unread requests" }
        for user in cluster.followed(by: one.user) {
            let (view, known) = (one.view[user], other.view[user])
            if let view, let known, view.status.without("version") == known.status.without("version") { continue }
            // A login is not told a user who was never seen.
            if (view ?? known).map({ $0.statusType != "ONLINE" && $0.customStatus.isEmpty }) ?? true, view == nil || known == nil {
                continue
            }
            return "of user-\(user) \(view.map { "\($0.status)" } ?? "nothing") and \(known.map { "\($0.status)" } ?? "nothing")"
        }
        return nil
    }
}
