import PresenceCore
import PresenceWire

/// Makes the calls of the relationship chain, and checks its guarantees: see ``ChainOracle``.
enum ChainChecks {
    /// The lists of one user in which the other users of a decision occur.
    private static let kinds: [Row.Kind] = [.friend, .pendencyOut, .pendencyIn, .chainOutbox, .blocked]

    /// The time after which nothing of a call is on its way any more, if no link is slow.
    private static let arrivalMilliseconds = 1_000

    // MARK: Calls

    static func perform(_ action: ChainAction, _ cluster: inout SimulatedCluster) {
        guard action.user < cluster.userIDs.count, action.others.allSatisfy({ $0 < cluster.userIDs.count }) else { return }
        for other in action.others { cluster.truth.concern(other) }
        if let call = action.call(cluster.userID) { return cluster.call(call, by: action.user) }
        guard case .sync(let user, let choice, let limit) = action, !cluster.truth.chain.lists[user].isReading else { return }
        cluster.call(.getFriendList(cluster.truth.chain.lists[user].query(choice: choice, limit: limit)), by: user)
    }

    /// Records that a call is about to be made.
    static func asked(_ call: Call, by user: Int, _ cluster: inout SimulatedCluster) {
        BackEndChecks.asked(call, by: user, &cluster)
        if let call = DecidingCall(call) {
            cluster.truth.chain.ask(call, by: user, allowed: allowed(cluster), at: cluster.time)
            forgetShown(call, by: user, &cluster)
        }
        switch call {
        case .owner(.chain(.setBlocked(_, true))): if cluster.options.kind.hasCrossPlan { cluster.truth.oracles[user].noteHiding() }
        case .getFriendList: cluster.truth.chain.lists[user].isReading = true
        case .owner(.friendCall(let friendCall)):
            ProfileChecks.asked(friendCall, by: user, &cluster)
            cluster.truth.groups.ask(friendCall, by: user)
        default: break
        }
    }

    private static func allowed(_ cluster: SimulatedCluster) -> [ChainPolicy.AllowType] {
        cluster.truth.policy.policies.map(\.chain.defaultAllowType)
    }

    /// Handles an answer.
    ///
    /// - Parameter isAlone: whether the node was the only one, so that others do not know the change until they have met it.
    static func answered(_ answer: CallAnswer, to call: SimulatedCall, isAlone: Bool, _ cluster: inout SimulatedCluster) {
        switch (call.call, answer) {
        case (.owner(.chain(let chainCall)), .owner(.chained(let outcomes))),
            (.owner(.chain(let chainCall)), .owner(.blocked(let outcomes, _))):
            decided(outcomes, by: .chain(chainCall), call, isAlone: isAlone, &cluster)
        case (.getFriendList(let query), .owner(.listed(let bytes))):
            cluster.truth.chain.lists[call.user].isReading = false
            guard let json = try? JSONReader.read(bytes) else {
                return cluster.violate(.messagesAreReadable, "not a friend list: \(String(decoding: bytes, as: UTF8.self))")
            }
            cluster.stage.counts[.listsRead] += 1
            cluster.truth.chain.lists[call.user].read(json, to: query)
            OwnListChecks.read(json, to: query, by: call.user, &cluster)
        default: break
        }
    }

    /// Handles the results of decisions.
    static func decided(
        _ outcomes: [ChainOutcome], by deciding: DecidingCall, _ call: SimulatedCall, isAlone: Bool, _ cluster: inout SimulatedCluster
    ) {
        for outcome in outcomes { cluster.stage.counts.note(outcome.code) }
        forgetShown(deciding, by: call.user, &cluster)
        if isTrusted(isAlone: isAlone, cluster) { BackEndChecks.noteMade(outcomes, by: deciding, call, &cluster) }
        let byUser = ProfileChecks.allowTypes(in: deciding, since: call.at, cluster)
        let problem = cluster.truth.chain.answered(
            outcomes, to: deciding, by: call.user, askedAt: call.at, allowed: .init(byApp: allowed(cluster), byUser: byUser),
            trust(in: call, isAlone: isAlone, cluster), at: cluster.time)
        if let problem { cluster.violate(.chainIsAcknowledged, problem) }
    }

    /// Forgets what the users of a call were shown of each other: a friendship may begin, or end.
    private static func forgetShown(_ call: DecidingCall, by user: Int, _ cluster: inout SimulatedCluster) {
        for (other, _) in call.decisions(of: user, usersCount: cluster.userIDs.count) {
            cluster.truth.oracles[user].forgetShown(to: other)
            cluster.truth.oracles[other].forgetShown(to: user)
        }
    }

    private static func trust(in call: SimulatedCall, isAlone: Bool, _ cluster: SimulatedCluster) -> ChainOracle.Trust {
        let arrived = call.at - .milliseconds(arrivalMilliseconds)
        return ChainOracle.Trust(
            isComplete: isTrusted(isAlone: isAlone, cluster), mayBeRetry: cluster.isExcused(by: .faultsOfNodes),
            arrivedBefore: cluster.isExcused(by: .split, .slowLinks) ? .min : arrived)
    }

    /// Whether all nodes know what is acknowledged now.
    static func isTrusted(isAlone: Bool, _ cluster: SimulatedCluster) -> Bool {
        !isAlone && !cluster.isExcused(by: .split) && !cluster.isExcused(by: .crippledAfterStart)
    }

    // MARK: While things happen

    /// Checks the lists of the users of whom a node writes rows.
    static func check(_ rows: [Row], by node: Int, _ cluster: SimulatedCluster) {
        guard !cluster.isExcused(by: .split) else { return }
        var last: UserID?
        for row in rows where (row.kind == .friend || row.kind == .chainOutbox) && row.value != nil && row.user != last {
            last = row.user
            let owner = cluster.nodes[node]
            guard owner.look({ $0.cluster.decides(row.user) }) else { continue }
            let friends = owner.look { $0.owner.liveRows(.friend, of: row.user) }.map(\.key)
            let reserved = owner.look { $0.owner.liveRows(.chainOutbox, of: row.user) }.filter {
                $0.addsFriend && !friends.contains($0.key)
            }
            guard friends.count + reserved.count > cluster.truth.chain.friendsMax else { continue }
            cluster.violate(
                .friendsAreExact,
                "at \(owner.id) \(row.user.id) has the friends \(friends) and may add \(reserved.map(\.key)), at most "
                    + "\(cluster.truth.chain.friendsMax) are right")
        }
    }

    // MARK: At rest

    /// Checks the lists and the profiles of all users when the cluster is at rest.
    static func finish(_ cluster: inout SimulatedCluster) {
        if cluster.truth.chain.isUsed {
            cluster.twice { cluster in
                checkLists(cluster)
                BackEndChecks.finish(cluster)
            }
            for user in cluster.userIDs.indices where !cluster.isBroken { checkSync(of: user, &cluster) }
        }
        if cluster.truth.profiles.isUsed, !cluster.isBroken { ProfileChecks.finish(&cluster) }
        if !cluster.isBroken { RepeatChecks.finish(&cluster) }
    }

    private static func checkLists(_ cluster: SimulatedCluster) {
        for user in cluster.userIDs.indices where !cluster.isBroken {
            checkReplicas(user, kinds, cluster)
            for row in rows(.chainOutbox, of: user, cluster) {
                cluster.violate(
                    .outboxDrains, "user-\(user) has still to tell \(row.key): \(String(decoding: row.value ?? [], as: UTF8.self))")
            }
        }
        for node in cluster.hosts where cluster.nodes[node].look({ $0.unresolvedDecisionsCount }) > 0 {
            cluster.violate(.outboxDrains, "\(cluster.nodes[node].id) still asks whether decisions of other users count")
        }
        guard !cluster.isBroken else { return }
        let problem = cluster.truth.chain.problem(isSplit: cluster.isExcused(by: .split)) { user, kind in
            Set(rows(kind, of: user, cluster).compactMap { cluster.userIndex($0.key) })
        }
        if let problem { cluster.violate(problem.0, problem.1) }
    }

    /// The live rows of a list by the owner of its user.
    static func rows(_ kind: Row.Kind, of user: Int, _ cluster: SimulatedCluster) -> [Row] {
        cluster.owner(of: user).map { cluster.nodes[$0].look { $0.owner.liveRows(kind, of: cluster.userID(user)) } } ?? []
    }

    /// Checks that all replicas of a user have the same lists of some kinds, in memory and on disk.
    static func checkReplicas(_ user: Int, _ kinds: [Row.Kind], _ cluster: SimulatedCluster) {
        guard let owner = cluster.owner(of: user) else { return }
        let id = cluster.userID(user)
        let replicas = cluster.nodes[owner].look { $0.cluster.replicaIDs(of: id) }
        for node in cluster.hosts.map({ cluster.nodes[$0] }) where replicas.contains(node.id) {
            for kind in kinds {
                let right = rows(kind, of: user, cluster)
                let held = node.look { $0.owner.liveRows(kind, of: id) }
                let words = { (rows: [Row]) in "\(rows.map { "\($0.key) \($0.version.text)" }) as \(kind) of user-\(user)" }
                if held != right { cluster.violate(.replicasAgree, "\(node.id) has \(words(held)), its owner \(words(right))") }
                let stored = (kind == .profile ? [""] : cluster.userIDs.map { "\($0.id)" }).compactMap { key in
                    node.disk.rows[SimulatedDisk.Key(id, kind, key)]
                }.filter { $0.value != nil }
                if stored.sorted(by: { $0.key < $1.key }) == held.sorted(by: { $0.key < $1.key }) { continue }
                cluster.violate(.replicasAgree, "the disk of \(node.id) has \(words(stored)), its memory \(words(held))")
            }
        }
    }

    /// Reads the whole list of a user, and the changes since each list that its client had.
    private static func checkSync(of user: Int, _ cluster: inout SimulatedCluster) {
        let snapshots = cluster.truth.chain.lists[user].snapshots
        guard let whole = read(FriendQuery(), as: user, &cluster) else { return }
        ChainNotices.check(whole, of: user, cluster)
        for snapshot in snapshots where !cluster.isBroken {
            guard let list = read(FriendQuery(since: snapshot.sequence), as: user, &cluster), list != whole else { continue }
            let before = "user-\(user) applies the changes since \(snapshot.sequence) \(words(snapshot))"
            cluster.violate(.syncEqualsList, "\(before), and has \(words(list)), right is \(words(whole))")
        }
    }

    private static func words(_ list: ClientLists.Snapshot) -> [String] {
        list.friends.sorted { $0.key < $1.key }.map { "\($0.key) \"\($0.value)\"" }
    }

    /// Makes a query at rest. Returns the list of the client after the answer.
    private static func read(_ query: FriendQuery, as user: Int, _ cluster: inout SimulatedCluster) -> ClientLists.Snapshot? {
        cluster.truth.chain.lists[user].latest = nil
        cluster.call(.getFriendList(query), by: user)
        cluster.awaitAnswer()
        if cluster.truth.chain.lists[user].latest == nil {
            cluster.violate(.everyCallIsAnswered, "user-\(user) reads its friends when everything is at rest, and gets no list")
        }
        return cluster.truth.chain.lists[user].latest
    }
}

extension Row {
    /// Whether a row of an outbox may bring its user a friend.
    fileprivate var addsFriend: Bool {
        guard let value, let json = try? JSONReader.read(value) else { return false }
        return json["command"]?.text == "add" || (json["command"]?.text == "accept" && json["isTwoWay"] == .bool(true))
    }
}
