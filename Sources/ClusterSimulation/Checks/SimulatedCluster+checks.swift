import PresenceCore
import PresenceWire

/// The checks of the guarantees (<doc:SimulatorAsProof>): some after every event, the others when the cluster has come to rest.
extension SimulatedCluster {
    // MARK: While things happen

    /// Checks a newer status that a client received.
    mutating func checkReceived(_ told: SimulatedClient.ReceivedStatus, of user: Int, _ client: Int) {
        if let problem = Twins.flap(told, of: user, client, self) { return violate(.noFlap, problem) }
        guard !isExcused(by: .lateMessages), !isExcused(by: .crippled, .healing), told.statusType != "UNKNOWN",
            !isExcused(by: .hides(user, from: clients[client].user))
        else { return }
        let presence = truth.presences[user]
        // A client that reads late reads an earlier state.
        let toldOf = min(time, .milliseconds(Int(told.lastUpdateTime - Self.epoch)))
        if presence.openCount == 0, isExcused(by: .reached(user)) { return }
        if presence.openCount == 0 { return checkAbsence(told, of: user, client, toldOf: toldOf) }
        guard told.statusType != "ONLINE", let since = presence.continuousSince else { return }
        guard toldOf >= since else { return }
        if time - since > .milliseconds(6_000), !isExcused(by: .askedToGo(user, at: toldOf)) {
            violate(
                .noFlap,
                "user-\(clients[client].user) is told that user-\(user) is \(told.statusType), who has been there for \((time - since).milliseconds) ms"
            )
        }
    }

    /// Checks a status that shows a user as gone. It may arrive after the user's grace, neither before nor much later.
    private mutating func checkAbsence(_ told: SimulatedClient.ReceivedStatus, of user: Int, _ client: Int, toldOf: Nanoseconds) {
        let presence = truth.presences[user]
        let absence = toldOf - presence.absentSince
        let words =
            "user-\(clients[client].user) is told that user-\(user) is \(told.statusType), who went \(absence.milliseconds) ms before"
        let isGoneBy = max(presence.absentSince + options.settings.reconnectGrace.wholeNanoseconds, presence.doubtedUntil)
        if told.statusType == "ONLINE", toldOf > isGoneBy + .milliseconds(2_000) { violate(.noGhost, words) }
        if told.statusType != "ONLINE", absence > 0, absence < presence.tolerance, !isExcused(by: .askedToGo(user, at: toldOf)) {
            violate(.noFlap, words)
        }
    }

    /// Checks a change on a stream. The stream must not send users that nobody follows any more.
    mutating func checkFollowed(_ told: SimulatedClient.ReceivedStatus, of target: Int, _ client: Int) {
        let user = clients[client].user
        let expected = truth.subscriptions[user]
        guard target != user, !isExcused(by: .lateMessages), !isExcused(by: .crippled), !isExcused(by: .uncertainList(user)) else { return }
        let changedAt: Nanoseconds = .milliseconds(Int(told.lastUpdateTime - Self.epoch))
        let sight = clients[client].sight(of: changedAt) - .milliseconds(2_000)
        guard !isExcused(by: .followsFriend(user, target: target, since: sight)) else { return }
        if changedAt < time, expected.hasLeft(target, for: .milliseconds(2_000), at: changedAt) {
            violate(.onlyFollowedUsersAreSent, "user-\(user) is told \(told) of user-\(target), whom it does not follow")
        }
    }

    /// Checks a stream's claim that it has sent everything that the user follows.
    ///
    /// - Parameter position: the complete position of the stream.
    mutating func checkSync(_ client: Int, upTo position: Milliseconds) {
        guard !isExcused(by: .split, .clockJumps), let stream = clients[client].stream,
            !isExcused(by: .crippled, .policyHides(since: stream.openedAt - .milliseconds(1_000))),
            !isExcused(by: .uncertainList(clients[client].user))
        else { return }
        for target in truth.subscriptions[clients[client].user].settledTargets(since: stream.openedAt, until: time)
        where clients[client].view[target] == nil && isKnown(target, since: stream.openedAt, upTo: position)
            && !isExcused(by: .hides(target, from: clients[client].user))
        {
            violate(.syncCompletedIsTrue, "user-\(clients[client].user) follows user-\(target) and was not told")
        }
        checkNothingIsMissed(client, stream)
    }

    /// Checks that a stream that resumes from a position leaves out only what its client knows.
    private mutating func checkNothingIsMissed(_ client: Int, _ stream: SimulatedClient.Stream) {
        let user = clients[client].user
        // The change was acknowledged this long before, and had reached every node, even over a link that had to reconnect.
        let moment = stream.openedAt - .milliseconds(isExcused(by: .slowLinks) ? 8_000 : 3_000)
        for target in truth.subscriptions[user].settledTargets(since: stream.openedAt, until: time) + [user]
        where !isExcused(by: .hides(target, from: user)) {
            guard let view = clients[client].view[target], let newest = truth.newestAcknowledged(target, before: moment),
                let version = newest.version, view.version < version.text
            else { continue }
            let record = owner(of: target).map { nodes[$0].kept(userID(target)).record }
            if let record, isExcused(by: .endedWithRemoval(target, isBlank: record.isBlank)) { continue }
            // The user's own devices do not receive a change of the visibility alone.
            let mayBeUntold = isExcused(by: .profileVersions) || isExcused(by: .hides(target, from: nil))
            if mayBeUntold, view.lastUpdateTime >= newest.changedAt { continue }
            violate(
                .syncCompletedIsTrue, "user-\(user) sees \(view) of user-\(target), \"\(newest.text)\" \(version.text) was acknowledged")
        }
    }

    /// Whether a user was ever written. Clients assume other users to be UNLOGINED.
    private func isKnown(_ user: Int, since moment: Nanoseconds, upTo position: Milliseconds) -> Bool {
        guard let record = owner(of: user).map({ nodes[$0].kept(userID(user)).record }) else { return false }
        // Over a slow link that reconnects, the first record of a user comes later. The position covers that.
        if isExcused(by: .slowLinks), record.lastUpdateTime >= position { return false }
        // A node that was alone also gives versions to users without a write.
        return record.version > .zero && record.lastUpdateTime > 0 && record.lastUpdateTime < Self.epoch + moment / 1_000_000 - 200
    }

    /// Checks that an answer has what was acknowledged before its `asOf`.
    mutating func checkAsOf(_ records: [Record?], asOf: Milliseconds, of call: SimulatedCall, by node: NodeID) {
        // A single node that was cut off has accepted no changes, and gives way before it is active again.
        guard !isExcused(by: .split) || call.isOfKnownMembers, !isExcused(by: .crippled) else { return }
        for record in records.compactMap({ $0 }) {
            guard let user = userIndex(record.user.id), !isExcused(by: .hides(user, from: nil), .removed(user, isBlank: record.isBlank)),
                let newest = truth.newestAcknowledged(user)?.version
            else { continue }
            if newest.milliseconds < asOf, record.version < newest {
                violate(.asOfIsTrue, "\(node) answers as of \(asOf) \(record.words), but \(newest.text) was acknowledged")
            }
        }
    }

    /// Whether every node knows all others, and has received their rows.
    var areAllMembersKnown: Bool {
        nodes.allSatisfy { node in
            node.isUp && node.look { $0.cluster.isWarm && !$0.owner.listsMayBeIncomplete && $0.cluster.memberIDs.count == nodes.count }
        }
    }

    /// Checks a refused change. If all other nodes have left, one disk is enough.
    mutating func checkRefusal(_ refusal: Refusal, of call: SimulatedCall, by node: Int) {
        if let problem = MachineFaultChecks.problem(of: refusal, to: call, by: node, self) { violate(.faultsStayLocal, problem) }
        let isAlone = nodes.indices.allSatisfy { $0 == node || (!nodes[$0].isUp && nodes[$0].hasLeft) }
        guard options.kind == .nodesLeaveUntilOne, refusal != .noSession, isAlone, call.at - disturbedAt > .milliseconds(4_000) else {
            return
        }
        violate(
            .loneNodeTakesChanges, "\(nodes[node].id) refuses \(call.call) of user-\(call.user), \(refusal), though all others have left")
    }

    mutating func checkList(_ page: [Subscription], of call: SimulatedCall) {
        guard !isExcused(by: .uncertainList(call.user)) else { return }
        let expected = truth.subscriptions[call.user]
        // Subscriptions to profiles have a quota of their own.
        let listed = page.filter { !Subscription.isOfProfile($0.subscribeType) }.compactMap { userIndex($0.target.id) }.sorted()
        if listed.count > options.settings.subscriptionsMax {
            violate(.listsAreExact, "user-\(call.user) follows \(listed.count), at most \(options.settings.subscriptionsMax) are right")
        }
        if call.at > time - .milliseconds(50), listed != expected.targets(at: time), !isExcused(by: .lateMessages),
            !isExcused(by: .crippled)
        {
            violate(.listsAreExact, "user-\(call.user) follows \(expected.targets(at: time)), is answered \(listed)")
        }
    }

    // MARK: After healing

    /// Checks, some seconds after healing, that every view equals the owner's record.
    mutating func checkViews() {
        for client in clients.indices where clients[client].stream != nil {
            let user = clients[client].user
            for target in followed(by: user) where target == user || policyAtRest.publishesOthers { checkView(client, target) }
        }
    }

    /// The users that a user follows by its owner's list, the friends of whom it is told, and the user itself.
    func followed(by user: Int) -> [Int] {
        guard let owner = owner(of: user) else { return [] }
        let listed = nodes[owner].kept(userID(user)).subscriptions.compactMap { userIndex($0.target.id) }
        return Set(listed + VisibilityChecks.followed(by: user, self)).sorted() + [user]
    }

    private mutating func checkView(_ client: Int, _ target: Int) {
        guard let owner = owner(of: target) else { return violate(.membersAgree, "nobody owns user-\(target)") }
        let kept = nodes[owner].kept(userID(target)).record
        let record = kept.shown(to: userID(clients[client].user))
        guard record.lastUpdateTime + 1_500 < nodes[owner].now(time).wall else { return }  // It changes just now.
        let view = clients[client].view[target]
        let hides = isExcused(by: .hides(target, from: nil))
        if view == nil, record.version == .zero || (hides && record.looksLike(Record(blank: record.user))) { return }
        // A new visibility goes only to viewers who see something else than the nodes know to have been sent.
        let isUntold = kept.privacy?.version == kept.version || record.version < kept.version
        if let view, view.version > record.version.text || isUntold, isExcused(by: .lastMessage(view.source)) { return }
        // A change that nobody sees moves the version, and no stream sends it. Everything else is the same.
        let hidden = hiddenMembers(of: target, client)
        if view?.looksLike(record, to: userID(clients[client].user), policyAtRest, without: hidden) ?? false { return }
        violate(
            .viewsEqualRecords,
            "user-\(clients[client].user) device \(clients[client].device) sees \(view.map { "\($0)" } ?? "nothing") of user-\(target), its owner \(nodes[owner].id) has \(record.words)"
        )
    }

    /// The members that a change of the policy shows or hides, unless the client certainly knows them.
    private func hiddenMembers(of user: Int, _ client: Int) -> [String] {
        guard isExcused(by: .policiesMayMeet) else { return [] }
        let own = truth.policy.hasHiddenOwnStatus && clients[client].user == user ? ["statusType", "lastUpdateTime"] : []
        return truth.policy.hasHiddenPlatforms ? own + ["onlinePlatforms"] : own
    }

    /// Whether a node ended, or its disk was full, before what it sent had reached another node. If it is cut off and replaced, that is all
    /// that it sends. The next change is newer. A cluster of one is not excused: it gives new versions to all records that it finds.
    func isLastMessage(of source: SimulatedClient.Source?) -> Bool {
        guard nodes.count > 1 || isExcused(by: .boundOfClockLost), let source,
            let death = nodes[source.node].deaths[source.run]
        else { return false }
        let lasts = Self.lastMessageMilliseconds * (source.hasSlowDisk ? 2 : 1)
        return death - source.at < .milliseconds(lasts) + Twins.cutOffTime(of: source.node, self) || source.hasFullDisk
    }

    /// The node that owns a user, by the ring of the first node that is up.
    func owner(of user: Int) -> Int? {
        guard let first = nodes.first(where: { $0.isUp && $0.isInUse }) else { return nil }
        let id = first.look { $0.cluster.ownerID(of: userID(user)) }
        return nodes.firstIndex { $0.id == id && $0.isInUse }
    }

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

    /// Checks that everything matches after a long time without events.
    mutating func checkRest() {
        checkMembers()
        checkViews()
        checkWhatAllKeep()
        let users = truth.concerned
        let rest = Rest(nodes, users, users.map(userID))
        let followed = Set(
            users.indices.flatMap { index in rest.owners[index].map { rest.kept[$0][index].subscriptions } ?? [] }.map(\.target))
        for (index, user) in users.enumerated() where violation == nil {
            guard let owner = rest.owners[index] else { continue }
            let (record, subscriptions) = rest.kept[owner][index]
            checkRemoved(user, record, follows: !subscriptions.isEmpty, isFollowed: followed.contains(userID(user)), owner: owner)
            checkRecord(user, record)
            checkCustomStatus(user, record)
            checkEnd(user, record)
            checkAcknowledged(user, record)
            VisibilityChecks.check(user, record, self)
            checkEvents(user, record, owner: owner)
            checkContents(of: rest.kept.map { $0[index].record })
            checkSubscriptions(user, subscriptions, owner: owner)
            checkReplicas(index, rest, owner: owner)
        }
        if violation == nil { checkLeftovers(rest) }
    }

    private mutating func checkMembers() {
        let everybody = hosts.map { nodes[$0].id }.sorted()
        let users = truth.concerned
        let ids = users.map(userID)
        let first = nodes[hosts[0]].look { $0.cluster.ownerIDs(of: ids) }
        for node in hosts {
            let members = nodes[node].look { $0.cluster.memberIDs }.sorted()
            if members != everybody {
                violate(.membersAgree, "to \(nodes[node].id) the members are \(members), right would be \(everybody)")
            }
            for (index, (own, others)) in zip(nodes[node].look { $0.cluster.ownerIDs(of: ids) }, first).enumerated() where own != others {
                violate(.membersAgree, "user-\(users[index]) is owned by \(own) to \(nodes[node].id), by \(others) to the first")
            }
        }
    }

    /// Checks that no user is ONLINE who has had no session for two seconds longer than a new owner waits.
    mutating func checkGhosts() {
        let grace = Nanoseconds(max(options.settings.offlineGrace, options.settings.reconnectGrace).wholeNanoseconds)
        for user in 0..<options.usersCount where truth.presences[user].openCount == 0 {
            let goneAt = max(truth.presences[user].lastEndAt + grace, truth.presences[user].doubtedUntil)
            guard goneAt < time - .milliseconds(2_000) else { continue }
            guard let owner = owner(of: user) else { continue }
            let record = nodes[owner].kept(userID(user)).record
            if record.statusType == .online, !isExcused(by: .reached(user)) {
                violate(.recordsEqualSessions, "user-\(user) has no session any more, its record is \(record.words)")
            }
        }
    }

    /// Checks the views some seconds after a node has ended for good, as after healing (5 s).
    ///
    /// The restart of the node, which brings another ring, might hide errors.
    mutating func checkInheritance() {
        checkGhosts()
        if !isExcused(by: .policyHides(since: time - .milliseconds(2_000))) { checkViews() }
    }

    private mutating func checkRecord(_ user: Int, _ record: Record) {
        let presence = truth.presences[user]
        let reached = reachedDevices(of: user)
        let platforms = { (devices: [Int]) in Set(presence.platforms + devices).sorted().map { SimulatedClient.platforms[$0] } }
        let (least, most) = (platforms(reached.certain), platforms(reached.possible))
        if presence.openCount == 0, !reached.certain.isEmpty { counts[.reachedUsers] += 1 }
        if record.statusType == .online ? most.isEmpty : !least.isEmpty {
            return violate(
                .recordsEqualSessions,
                "user-\(user) has \(presence.openCount) sessions, push reaches \(reached.certain), its record is \(record.words)")
        }
        if !least.allSatisfy(record.onlinePlatforms.contains) || !record.onlinePlatforms.allSatisfy(most.contains) {
            violate(.recordsEqualSessions, "user-\(user) is on \(least), its record says \(record.onlinePlatforms)")
        }
    }

    /// The number of disks with an acknowledged change.
    var disksExpected: Int {
        // A node that has just started is not a member yet. A node that drains counts as long as any other node knows that it is there.
        // Slow and breaking links may make it seem gone, which it is about to be. Rows written before it is met again were written
        // without it.
        let membersCount = nodes.count { node in
            let isMet = time - node.metAt > .milliseconds(4_000)
            return node.isUp && time - node.startedAt > .milliseconds(4_000)
                && (!node.isLeaving
                    || (isMet && nodes.contains { $0.id != node.id && $0.isUp && $0.look { $0.cluster.isMember(node.id) } }))
        }
        return isExcused(by: .drainsInSplit) ? 1 : max(min(membersCount, 2), 1)
    }

    /// Checks the disks after a change of a record was acknowledged.
    mutating func checkDisks(of record: Record) {
        let key = SimulatedDisk.Key(user: record.user, kind: .status, key: "")
        let copies = nodes.count { $0.disk.holds(key, record.version) }
        if copies < disksExpected {
            violate(.acknowledgedIsOnTwoDisks, "\(record.words) of \(record.user) is on \(copies) disks, \(disksExpected) would be right")
        }
    }

    /// The last acknowledged record of each user that is on a node's disk.
    func acknowledgedOnDisk(of node: Int) -> [(user: Int, version: Version)] {
        (0..<options.usersCount).compactMap { user in
            guard let version = truth.newestAcknowledged(user)?.version else { return nil }
            return nodes[node].disk.holds(statusKey(of: user), version) ? (user, version) : nil
        }
    }

    /// Checks that rows that a node has deleted because their slots moved are on the new replicas' disks.
    mutating func checkDisks(after discarded: [(user: Int, version: Version)], at node: Int) {
        for (user, version) in discarded where !nodes[node].disk.holds(statusKey(of: user), version) {
            let copies = nodes.count { $0.disk.holds(statusKey(of: user), version) }
            guard copies < disksExpected else { continue }
            violate(
                .acknowledgedIsOnTwoDisks,
                "\(nodes[node].id) discards \(version.text) of user-\(user), which is on \(copies) other disks, \(disksExpected) would be right"
            )
        }
    }

    private func statusKey(of user: Int) -> SimulatedDisk.Key { SimulatedDisk.Key(user: userID(user), kind: .status, key: "") }

    /// Checks that a user who went OFFLINE has no older custom status without an end of its own.
    private mutating func checkCustomStatus(_ user: Int, _ record: Record) {
        guard !isExcused(by: .split, .kills, .clockJumps), !isExcused(by: .policyKeepsStatus) else { return }
        let wentAt = record.customStatusHasOwnEnd ? 0 : record.lastOnlineStatusUpdateTime
        if record.statusType == .offline, !record.customStatus.isEmpty, record.customStatusVersion.milliseconds + 1_000 < wentAt {
            violate(.offlineEndsCustomStatus, "user-\(user) is \(record.words)")
        }
    }

    /// Checks that a custom status ends at its time, and that a user who logged out is UNLOGINED (T7).
    private mutating func checkEnd(_ user: Int, _ record: Record) {
        guard !isExcused(by: .split, .clockJumps) else { return }
        if let newest = truth.newestAcknowledged(user), let endsBy = newest.endsBy, endsBy < time, !newest.text.isEmpty,
            record.customStatus == newest.text,
            record.customStatusVersion == newest.version
        {
            violate(.offlineEndsCustomStatus, "user-\(user) still has \(record.words), which was to end at \(endsBy.milliseconds) ms")
        }
        guard !isExcused(by: .lostLogouts), truth.presences[user].openCount == 0, let byLogout = truth.presences[user].endedByLogout,
            !isExcused(by: .reached(user), .removed(user, isBlank: record.isBlank)), !byLogout || !isExcused(by: .undeliveredLogout(user))
        else { return }
        if record.statusType != (byLogout ? .unlogined : .offline) {
            violate(.recordsEqualSessions, "user-\(user) \(byLogout ? "logged out" : "was lost"), its record is \(record.words)")
        }
    }

    private mutating func checkAcknowledged(_ user: Int, _ record: Record) {
        guard let newest = truth.newestAcknowledged(user), let version = newest.version else { return }
        if isExcused(by: .endedWithRemoval(user, isBlank: record.isBlank)) { return }
        guard record.version >= version else {
            return violate(
                .nothingAcknowledgedIsLost, "user-\(user) was told \(version.text) \"\(newest.text)\", its record is \(record.words)")
        }
        if record.customStatus == newest.text { return }
        // A user who is OFFLINE, or whose node seems dead, has none from then on (T11).
        let hasEnded = truth.expectedStatuses[user].contains(where: \.expires) || truth.presences[user].offlineVersion > version
        if record.customStatus.isEmpty, hasEnded, record.version > version { return }
        let isExpected = truth.expectedStatuses[user].contains {
            $0.text == record.customStatus && ($0.version == nil || $0.version! >= version)
        }
        if isExpected, record.version > version { return }
        violate(.nothingAcknowledgedIsLost, "user-\(user) was told \"\(newest.text)\" with \(version.text), its record is \(record.words)")
    }

    private mutating func checkSubscriptions(_ user: Int, _ entries: [Subscription], owner: Int) {
        let listed = entries.compactMap { userIndex($0.target.id) }.sorted()
        let wall = nodes[owner].now(time).wall
        if !isExcused(by: .clockJumps), let ended = entries.first(where: { ($0.expiresAt ?? .max) < wall - 1_000 }) {
            violate(.listsAreExact, "user-\(user) follows \(ended.target), which ended \(wall - ended.expiresAt!) ms ago")
        }
        if listed.count > options.settings.subscriptionsMax {
            violate(.listsAreExact, "user-\(user) follows \(listed), at most \(options.settings.subscriptionsMax) are right")
        }
        guard !isExcused(by: .uncertainList(user)) else { return }
        let expected = truth.subscriptions[user]
        if listed != expected.targets(at: time) {
            violate(.nothingAcknowledgedIsLost, "user-\(user) follows \(listed), right would be \(expected.targets(at: time))")
        }
    }

    /// Checks that the replicas of a user hold the same facts, in memory and on disk.
    private mutating func checkReplicas(_ index: Int, _ rest: Rest, owner: Int) {
        let user = rest.users[index]
        let id = userID(user)
        let right = rest.kept[owner][index]
        for node in hosts where !nodes[node].isLeaving && !rest.replicaSet[index].contains(nodes[node].id) {
            if let row = nodes[node].disk.rows[SimulatedDisk.Key(user: id, kind: .status, key: "")] {
                violate(
                    .nothingIsLeftOver, "the disk of \(nodes[node].id), which does not keep user-\(user), has \(row.version.text) of it")
            }
        }
        for node in hosts where rest.replicaSet[index].contains(nodes[node].id) {
            let kept = rest.kept[node][index]
            if !kept.record.says(right.record) || kept.subscriptions != right.subscriptions || !kept.record.hasRule(of: right.record) {
                violate(
                    .replicasAgree,
                    "\(nodes[node].id) keeps \(kept.record.words), \(kept.subscriptions.count) subscriptions, of user-\(user), its owner \(nodes[owner].id) \(right.record.words), \(right.subscriptions.count)"
                )
            }
            if right.record.version == .zero, let row = nodes[node].disk.rows[SimulatedDisk.Key(user: id, kind: .status, key: "")] {
                violate(.nothingIsLeftOver, "the disk of \(nodes[node].id) has \(row.version.text) of user-\(user), of whom no node knows")
            }
            guard kept.record.version > .zero else { continue }
            let versions: [(Row.Kind, Version?)] = [(.visibility, kept.record.privacy?.version), (.status, kept.record.version)]
            for (kind, version) in versions {
                let stored = nodes[node].disk.rows[SimulatedDisk.Key(user: id, kind: kind, key: "")]?.version
                guard stored != version else { continue }
                let words = "\(kind) \(stored?.text ?? "nothing") of user-\(user), its memory \(version?.text ?? "nothing")"
                violate(.replicasAgree, "the disk of \(nodes[node].id) has \(words): \(kept.record.words)")
            }
        }
    }

    /// Checks a queue: its messages are within the bound of the settings, and it has at most one record of each user.
    mutating func checkQueue(from node: Int, to peer: PeerIndex) {
        let depth = nodes[node].node.cluster.queueDepth(for: peer)
        let most = options.settings.linkMessagesMax + options.usersCount
        guard depth > most else { return }
        violate(.boundsHold, "\(depth) messages wait at \(nodes[node].id) for \(nodes[node].peerID(peer)), \(most) are the most")
    }

    private mutating func checkLeftovers(_ rest: Rest) {
        for node in hosts {
            let statistics = nodes[node].look { $0.statistics }
            if let call = nodes[node].openCalls.first {
                violate(.everyCallIsAnswered, "user-\(call.user) waits for \(call.call) since \(call.at.milliseconds) ms")
            }
            if statistics.callsWaiting > 0 { violate(.everyCallIsAnswered, "\(statistics.callsWaiting) calls wait at \(nodes[node].id)") }
            if statistics.writesWaiting > 0 { violate(.nothingIsLeftOver, "\(statistics.writesWaiting) writes wait at \(nodes[node].id)") }
            for peer in statistics.peers where peer.queueDepth > 0 {
                violate(.nothingIsLeftOver, "\(peer.queueDepth) messages wait at \(nodes[node].id) for \(peer.id)")
            }
            let online = rest.users.indices.count { rest.owners[$0] == node && rest.kept[node][$0].record.statusType == .online }
            if statistics.usersOnline != online {
                violate(.nothingIsLeftOver, "\(nodes[node].id) counts \(statistics.usersOnline) users online, right would be \(online)")
            }
            if !nodes[node].look({ $0.edge.isComplete && $0.cluster.isWarm }) {
                violate(.nothingIsLeftOver, "registrations of \(nodes[node].id) are not answered")
            }
        }
    }
}

extension Record {
    /// Whether both have the same content, whichever node keeps them.
    fileprivate func says(_ other: Record) -> Bool {
        version == other.version && customStatusVersion == other.customStatusVersion && statusType == other.statusType
            && customStatus == other.customStatus && customStatusExpiresAt == other.customStatusExpiresAt
            && onlinePlatforms == other.onlinePlatforms && pushDevices == other.pushDevices && events == other.events
            && lastSeenTime == other.lastSeenTime && lastUpdateTime == other.lastUpdateTime
    }

    /// The row in words, for a person.
    var words: String {
        let hiddenViews = privacy.map {
            ", who may see it \($0.writtenAt.text) \($0.version.text), hiddenViews \($0.hiddenViews.map(\.version.text))"
        }
        return "\(statusType) \"\(customStatus)\" \(onlinePlatforms) \(version.text), of the text \(customStatusVersion.text), "
            + "known since \(knownSince), events \(events.newest?.value ?? 0) \(events.forLogins?.value ?? 0)\(hiddenViews ?? "")"
    }
}
