import PresenceCore
import PresenceWire

/// Checks that everything matches after a long time without events, and what is on disks at any time.
enum RestChecks {
    /// The users that the nodes hold at rest. Each node is read once.
    private struct Rest {
        let users: [Int]
        /// The node that owns each user: see ``SimulatedCluster/owner(of:)``.
        let owners: [Int?]
        /// The replicas of each user, by the ring of the first node.
        let replicaSet: [[NodeID]]
        /// For each node its facts of each user.
        let kept: [[(record: Record, subscriptions: [Subscription])]]

        init(_ nodes: [SimulatedNode], _ users: [Int], _ ids: [UserID]) {
            self.users = users
            let first = nodes.first { $0.isUp && $0.isInUse } ?? nodes[0]
            let ownerIDs = first.look { $0.cluster.ownerIDs(of: ids) }
            owners = ids.indices.map { index in nodes.firstIndex { $0.id == ownerIDs[index] && $0.isInUse } }
            replicaSet = first.look { ids.map($0.cluster.replicaIDs) }
            kept = nodes.map { node in node.look { node in ids.map { node.owner.kept($0) } } }
        }
    }

    static func checkRest(_ cluster: inout SimulatedCluster) {
        checkMembers(cluster)
        ViewChecks.checkViews(cluster)
        PolicyChecks.checkWhatAllKeep(cluster)
        let users = cluster.truth.concerned
        let rest = Rest(cluster.nodes, users, users.map(cluster.userID))
        let followed = Set(
            users.indices.flatMap { index in rest.owners[index].map { rest.kept[$0][index].subscriptions } ?? [] }.map(\.target))
        for (index, user) in users.enumerated() where cluster.violation == nil {
            guard let owner = rest.owners[index] else { continue }
            let (record, subscriptions) = rest.kept[owner][index]
            RemovalChecks.checkRemoved(
                user, record, follows: !subscriptions.isEmpty, isFollowed: followed.contains(cluster.userID(user)), owner: owner, cluster)
            checkRecord(user, record, &cluster)
            checkCustomStatus(user, record, cluster)
            checkEnd(user, record, cluster)
            checkAcknowledged(user, record, cluster)
            VisibilityChecks.check(user, record, cluster)
            EventChecks.checkEvents(user, record, owner: owner, cluster)
            EventChecks.checkContents(of: rest.kept.map { $0[index].record }, &cluster)
            checkSubscriptions(user, subscriptions, owner: owner, cluster)
            checkReplicas(index, rest, owner: owner, cluster)
        }
        if cluster.violation == nil { checkLeftovers(rest, cluster) }
        if cluster.violation == nil { checkSurety(rest, cluster) }
    }

    /// Checks that no stream has been told of a user whom it still follows that the record is unsure, and not that it is sure again.
    ///
    /// Under a policy that publishes no records of others, a stream is told of its own user alone.
    private static func checkSurety(_ rest: Rest, _ cluster: SimulatedCluster) {
        for client in cluster.clients.indices {
            let (user, unsure) = (cluster.clients[client].user, cluster.clients[client].unsure)
            guard cluster.clients[client].stream != nil, !unsure.isEmpty else { continue }
            // The owner's list, and not what calls have said: one that was answered 50001 may have ended a subscription.
            let place = cluster.policyAtRest.publishesOthers ? rest.users.firstIndex(of: user) : nil
            let list = place.flatMap { place in rest.owners[place].map { rest.kept[$0][place].subscriptions } } ?? []
            let followed = list.compactMap { cluster.userIndex($0.target.id) } + [user]
            guard let target = followed.first(where: unsure.contains) else { continue }
            return cluster.violate(.nothingIsLeftOver, "\(cluster.clients[client]) still takes user-\(target) for unsure")
        }
    }

    private static func checkMembers(_ cluster: SimulatedCluster) {
        let hosts = cluster.hosts.map { cluster.nodes[$0] }
        let (everybody, users) = (hosts.map(\.id).sorted(), cluster.truth.concerned)
        let ids = users.map(cluster.userID)
        let first = hosts[0].look { $0.cluster.ownerIDs(of: ids) }
        for node in hosts {
            let (members, owners) = node.look { ($0.cluster.memberIDs.sorted(), $0.cluster.ownerIDs(of: ids)) }
            if members != everybody { cluster.violate(.membersAgree, "to \(node.id) the members are \(members), right is \(everybody)") }
            for (user, (own, others)) in zip(users, zip(owners, first)) where own != others {
                cluster.violate(.membersAgree, "user-\(user) is owned by \(own) to \(node.id), by \(others) to the first")
            }
        }
    }

    /// Checks that no user is ONLINE who has had no session for two seconds longer than a new owner waits.
    static func checkGhosts(_ cluster: SimulatedCluster) {
        let grace = Nanoseconds(max(cluster.options.settings.policy.offlineGrace, cluster.options.settings.reconnectGrace).wholeNanoseconds)
        for user in 0..<cluster.options.usersCount where cluster.truth.presences[user].openCount == 0 {
            let goneAt = max(cluster.truth.presences[user].lastEndAt + grace, cluster.truth.presences[user].doubtedUntil)
            guard goneAt < cluster.time - .milliseconds(2_000) else { continue }
            guard let owner = cluster.owner(of: user) else { continue }
            let record = cluster.nodes[owner].kept(cluster.userID(user)).record
            if record.statusType == .online, !cluster.isExcused(by: .reached(user)) {
                cluster.violate(.recordsEqualSessions, "user-\(user) has no session any more, its record is \(record.words)")
            }
        }
    }

    /// Checks the views some seconds after a node has ended for good, as after healing (5 s).
    ///
    /// The restart of the node, which brings another ring, might hide errors.
    static func checkInheritance(_ cluster: SimulatedCluster) {
        checkGhosts(cluster)
        if !cluster.isExcused(by: .policyHides(since: cluster.time - .milliseconds(2_000))) { ViewChecks.checkViews(cluster) }
    }

    private static func checkRecord(_ user: Int, _ record: Record, _ cluster: inout SimulatedCluster) {
        let presence = cluster.truth.presences[user]
        let reached = cluster.reachedDevices(of: user)
        let platforms = { (devices: [Int]) in Set(presence.platforms + devices).sorted().map { SimulatedClient.platforms[$0] } }
        let (least, most) = (platforms(reached.certain), platforms(reached.possible))
        if presence.openCount == 0, !reached.certain.isEmpty { cluster.stage.counts[.reachedUsers] += 1 }
        if record.statusType == .online ? most.isEmpty : !least.isEmpty {
            return cluster.violate(
                .recordsEqualSessions,
                "user-\(user) has \(presence.openCount) sessions, push reaches \(reached.certain), its record is \(record.words)")
        }
        if !least.allSatisfy(record.onlinePlatforms.contains) || !record.onlinePlatforms.allSatisfy(most.contains) {
            cluster.violate(.recordsEqualSessions, "user-\(user) is on \(least), its record says \(record.onlinePlatforms)")
        }
    }

    /// Checks the disks after a change of a record was acknowledged.
    static func checkDisks(of record: Record, _ cluster: SimulatedCluster) {
        let key = SimulatedDisk.Key(record.user)
        check(cluster.nodes.count { $0.disk.holds(key, record.version) }, of: "\(record.words) of \(record.user)", cluster)
    }

    /// Checks the number of disks that have an acknowledged change.
    static func check(_ copies: Int, of change: @autoclosure () -> String, _ cluster: SimulatedCluster) {
        guard copies < cluster.disksExpected else { return }
        let words = "\(change()) is on \(copies) disks, \(cluster.disksExpected) would be right"
        cluster.violate(.acknowledgedIsOnTwoDisks, words)
    }

    /// The last acknowledged record of each user that is on a node's disk.
    static func acknowledgedOnDisk(of node: Int, _ cluster: SimulatedCluster) -> [(user: Int, version: Version)] {
        (0..<cluster.options.usersCount).compactMap { user in
            guard let version = cluster.truth.newestAcknowledged(user)?.version else { return nil }
            return cluster.nodes[node].disk.holds(SimulatedDisk.Key(cluster.userID(user)), version) ? (user, version) : nil
        }
    }

    /// Checks that rows that a node has deleted because their slots moved are on the new replicas' disks.
    static func checkDisks(after discarded: [(user: Int, version: Version)], at node: Int, _ cluster: SimulatedCluster) {
        for (user, version) in discarded where !cluster.nodes[node].disk.holds(SimulatedDisk.Key(cluster.userID(user)), version) {
            let copies = cluster.nodes.count { $0.disk.holds(SimulatedDisk.Key(cluster.userID(user)), version) }
            check(copies, of: "\(version.text) of user-\(user), which \(cluster.nodes[node].id) discards,", cluster)
        }
    }

    /// Checks that a user who went OFFLINE has no older custom status without an end of its own.
    private static func checkCustomStatus(_ user: Int, _ record: Record, _ cluster: SimulatedCluster) {
        guard !cluster.isExcused(by: .split, .kills, .clockJumps), !cluster.isExcused(by: .policyKeepsStatus) else { return }
        let wentAt = record.customStatusHasOwnEnd ? 0 : record.lastOnlineStatusUpdateTime
        if record.statusType == .offline, !record.customStatus.isEmpty, record.customStatusVersion.milliseconds + 1_000 < wentAt {
            cluster.violate(.offlineEndsCustomStatus, "user-\(user) is \(record.words)")
        }
    }

    /// Checks that a custom status ends at its time, and that a user who logged out is UNLOGINED (T7).
    private static func checkEnd(_ user: Int, _ record: Record, _ cluster: SimulatedCluster) {
        guard !cluster.isExcused(by: .split, .clockJumps) else { return }
        if let newest = cluster.truth.newestAcknowledged(user), let endsBy = newest.endsBy, endsBy < cluster.time, !newest.text.isEmpty,
            record.customStatus == newest.text,
            record.customStatusVersion == newest.version
        {
            cluster.violate(
                .offlineEndsCustomStatus, "user-\(user) still has \(record.words), which was to end at \(endsBy.milliseconds) ms")
        }
        guard !cluster.isExcused(by: .lostLogouts), cluster.truth.presences[user].openCount == 0,
            let byLogout = cluster.truth.presences[user].endedByLogout,
            !cluster.isExcused(by: .reached(user), .removed(user, isBlank: record.isBlank)),
            !byLogout || !cluster.isExcused(by: .undeliveredLogout(user))
        else { return }
        if record.statusType != (byLogout ? .unlogined : .offline) {
            cluster.violate(.recordsEqualSessions, "user-\(user) \(byLogout ? "logged out" : "was lost"), its record is \(record.words)")
        }
    }

    private static func checkAcknowledged(_ user: Int, _ record: Record, _ cluster: SimulatedCluster) {
        guard let newest = cluster.truth.newestAcknowledged(user), let version = newest.version else { return }
        if cluster.isExcused(by: .endedWithRemoval(user, isBlank: record.isBlank)) { return }
        guard record.version >= version else {
            return cluster.violate(
                .nothingAcknowledgedIsLost, "user-\(user) was told \(version.text) \"\(newest.text)\", its record is \(record.words)")
        }
        if record.customStatus == newest.text { return }
        // A user who is OFFLINE, or whose node seems dead, has none from then on (T11).
        let hasEnded =
            cluster.truth.expectedStatuses[user].contains(where: \.expires) || cluster.truth.presences[user].offlineVersion > version
        if record.customStatus.isEmpty, hasEnded, record.version > version { return }
        let isExpected = cluster.truth.expectedStatuses[user].contains {
            $0.text == record.customStatus && ($0.version == nil || $0.version! >= version)
        }
        if isExpected, record.version > version { return }
        cluster.violate(
            .nothingAcknowledgedIsLost, "user-\(user) was told \"\(newest.text)\" with \(version.text), its record is \(record.words)")
    }

    private static func checkSubscriptions(_ user: Int, _ entries: [Subscription], owner: Int, _ cluster: SimulatedCluster) {
        let listed = entries.compactMap { cluster.userIndex($0.target.id) }.sorted()
        let wall = cluster.nodes[owner].now(cluster.time).wall
        if !cluster.isExcused(by: .clockJumps), let ended = entries.first(where: { ($0.expiresAt ?? .max) < wall - 1_000 }) {
            cluster.violate(.listsAreExact, "user-\(user) follows \(ended.target), which ended \(wall - ended.expiresAt!) ms ago")
        }
        if listed.count > cluster.options.settings.policy.subscriptionsMax {
            cluster.violate(
                .listsAreExact, "user-\(user) follows \(listed), at most \(cluster.options.settings.policy.subscriptionsMax) are right")
        }
        guard !cluster.isExcused(by: .uncertainList(user)) else { return }
        let expected = cluster.truth.subscriptions[user]
        if listed != expected.targets(at: cluster.time) {
            cluster.violate(
                .nothingAcknowledgedIsLost, "user-\(user) follows \(listed), right would be \(expected.targets(at: cluster.time))")
        }
    }

    /// Checks that the replicas of a user hold the same facts, in memory and on disk.
    private static func checkReplicas(_ place: Int, _ rest: Rest, owner: Int, _ cluster: SimulatedCluster) {
        let (user, replicas) = (rest.users[place], rest.replicaSet[place])
        let id = cluster.userID(user)
        let right = rest.kept[owner][place]
        for index in cluster.hosts {
            let node = cluster.nodes[index]
            let row = node.disk.rows[SimulatedDisk.Key(id)]
            let words = "the disk of \(node.id) has \(row?.version.text ?? "nothing") of user-\(user)"
            guard replicas.contains(node.id) else {
                if row != nil, !node.isLeaving { cluster.violate(.nothingIsLeftOver, "\(words), which it does not keep") }
                continue
            }
            let kept = rest.kept[index][place]
            if !kept.record.says(right.record) || kept.subscriptions != right.subscriptions || !kept.record.hasRule(of: right.record) {
                let held = "\(node.id) keeps \(kept.record.words), \(kept.subscriptions.count) subscriptions, of user-\(user)"
                let other = "its owner \(cluster.nodes[owner].id) \(right.record.words), \(right.subscriptions.count)"
                cluster.violate(.replicasAgree, "\(held), \(other)")
            }
            if right.record.version == .zero, row != nil { cluster.violate(.nothingIsLeftOver, "\(words), of whom no node knows") }
            guard kept.record.version > .zero else { continue }
            let versions: [(Row.Kind, Version?)] = [(.visibility, kept.record.privacy?.version), (.status, kept.record.version)]
            for (kind, version) in versions {
                let stored = node.disk.rows[SimulatedDisk.Key(id, kind)]?.version
                guard stored != version else { continue }
                let words = "\(kind) \(stored?.text ?? "nothing") of user-\(user), its memory \(version?.text ?? "nothing")"
                cluster.violate(.replicasAgree, "the disk of \(node.id) has \(words): \(kept.record.words)")
            }
        }
    }

    /// Checks a queue: its messages are within the bound of the settings, and it has at most one record of each user.
    static func checkQueue(from node: Int, to peer: PeerIndex, _ cluster: SimulatedCluster) {
        let depth = cluster.nodes[node].node.cluster.queueDepth(for: peer)
        let most = cluster.options.settings.linkMessagesMax + cluster.options.usersCount
        guard depth > most else { return }
        cluster.violate(
            .boundsHold, "\(depth) messages wait at \(cluster.nodes[node].id) for \(cluster.nodes[node].peerID(peer)), \(most) are the most"
        )
    }

    private static func checkLeftovers(_ rest: Rest, _ cluster: SimulatedCluster) {
        for index in cluster.hosts {
            let node = cluster.nodes[index]
            let (statistics, isRegistered) = node.look { ($0.statistics, $0.edge.isComplete && $0.cluster.isWarm) }
            if let call = cluster.calls.all(of: index).first {
                cluster.violate(.everyCallIsAnswered, "user-\(call.user) waits for \(call.call) since \(call.at.milliseconds) ms")
            }
            if statistics.callsWaiting > 0 { cluster.violate(.everyCallIsAnswered, "\(statistics.callsWaiting) calls wait at \(node.id)") }
            let online = rest.users.indices.count { rest.owners[$0] == index && rest.kept[index][$0].record.statusType == .online }
            var left: [String] = []
            if statistics.writesWaiting > 0 { left.append("\(statistics.writesWaiting) writes wait at \(node.id)") }
            left += statistics.peers.filter { $0.queueDepth > 0 }.map { "\($0.queueDepth) messages wait at \(node.id) for \($0.id)" }
            if statistics.usersOnline != online { left.append("\(node.id) counts \(statistics.usersOnline) users online, not \(online)") }
            if !isRegistered { left.append("registrations of \(node.id) are not answered") }
            if let first = left.first { cluster.violate(.nothingIsLeftOver, first) }
        }
    }
}

extension Record {
    /// Whether both have the same content, whichever node keeps them.
    fileprivate func says(_ other: Record) -> Bool { Field.allCases.allSatisfy { !$0.isSaid || has($0, as: other) } }

    /// The row in words, for a person.
    var words: String {
        let hiddenViews = privacy.map {
            ", who may see it \($0.writtenAt.text) \($0.version.text), hiddenViews \($0.hiddenViews.map(\.version.text))"
        }
        return "\(statusType) \"\(customStatus)\" \(onlinePlatforms) \(version.text), of the text \(customStatusVersion.text), "
            + "known since \(knownSince), events \(events.newest?.value ?? 0) \(events.forLogins?.value ?? 0)\(hiddenViews ?? "")"
    }
}

extension Record.Field {
    /// Whether all nodes that keep the user must have the same value at rest.
    ///
    /// A field that is not compared changes together with a field that is, differs by node, or has a check of its own.
    fileprivate var isSaid: Bool {
        switch self {
        case .version, .customStatusVersion, .statusType, .customStatus, .customStatusExpiresAt, .onlinePlatforms, .pushDevices, .events,
            .lastSeenTime, .lastUpdateTime:
            true
        case .user, .customStatusHasOwnEnd, .profileVersion, .isRegistered, .lastOnlineStatusUpdateTime, .lastCustomStatusUpdateTime,
            .knownSince, .privacy:
            false
        }
    }
}
