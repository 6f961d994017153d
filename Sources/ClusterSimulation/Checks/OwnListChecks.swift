import PresenceCore
import PresenceWire

/// Makes the calls about a user's own lists, and checks that a sequence names one content: see ``SequenceContents``.
enum OwnListChecks {
    static func perform(_ action: OwnListAction, _ cluster: inout SimulatedCluster) {
        guard action.user < cluster.userIDs.count, action.others.allSatisfy({ $0 < cluster.userIDs.count }) else { return }
        for other in action.others { cluster.truth.concern(other) }
        read(action.calls(cluster.userID), by: action.user, at: nil, &cluster)
    }

    /// Makes calls. A client reads one page of its friends at a time.
    private static func read(_ calls: [Call], by user: Int, at node: Int?, _ cluster: inout SimulatedCluster) {
        for call in calls {
            if case .getFriendList = call, cluster.truth.chain.lists[user].isReading { continue }
            cluster.call(call, by: user, at: node)
        }
    }

    /// Whether a call is about the caller's own lists, and not about the profile.
    static func concern(_ call: Call) -> Bool {
        switch call {
        case .owner(.friendCall(.modifyProfile)), .owner(.friendCall(.profile)): false
        case .owner(.friendCall): true
        default: false
        }
    }

    /// Handles an answer to such a call.
    ///
    /// - Parameter isAlone: whether the node was the only one: see ``ChainChecks/answered(_:to:isAlone:_:)``.
    static func answered(_ answer: CallAnswer, to call: SimulatedCall, isAlone: Bool, _ cluster: inout SimulatedCluster) {
        guard case .owner(.friendCalled(let result)) = answer else {
            return cluster.violate(.everyCallIsAnswered, "\(call.call) is answered with \(answer)")
        }
        guard case .owner(.friendCall(let asked)) = call.call else { return }
        cluster.truth.groups.answered(result, to: asked, by: call.user, at: cluster.time)
        if case .importFriends(let friends) = asked {
            return BackEndChecks.answered(result, to: friends, call, isAlone: isAlone, &cluster)
        }
        guard !asked.isChange, let json = try? JSONReader.read(result.json) else { return }
        switch asked {
        case .requests(let query) where query == RequestQuery():
            // A report of what was read moves the number of unread requests alone.
            check(json.without("unreadCnt"), of: "requests", call.user, &cluster)
            checkTold(json, .requests, call.user, cluster)
        case .groups(nil):
            check(json, of: "groups", call.user, &cluster)
            checkTold(json, .groups, call.user, cluster)
            // A call that is repeated may take effect again after its answer.
            guard !cluster.isExcused(by: .faultsOfNodes), ChainChecks.isTrusted(isAlone: isAlone, cluster),
                let problem = cluster.truth.groups.problem(with: json, of: call.user, askedAt: call.at)
            else { return }
            cluster.violate(.chainIsAcknowledged, problem)
        case .blocked(after: nil, limit: _):
            check(json, of: "blocklist", call.user, &cluster)
            checkTold(json, .blocked, call.user, cluster)
            if ChainChecks.isTrusted(isAlone: isAlone, cluster) { checkBlocklist(json, in: call, cluster) }
        default: break
        }
    }

    /// Checks that a blocklist names the users whom its user certainly blocks, and nobody whom it certainly does not block.
    private static func checkBlocklist(_ json: JSONValue, in call: SimulatedCall, _ cluster: SimulatedCluster) {
        let listed = (json["userIDs"]?.elements ?? []).compactMap { $0.text.flatMap { cluster.userIndex($0) } }
        let chain = cluster.truth.chain
        for other in cluster.userIDs.indices where other != call.user {
            let isRight =
                listed.contains(other)
                ? chain.mayBlock(other, by: call.user, since: call.at) : !chain.mustBlock(other, by: call.user, since: call.at)
            if isRight { continue }
            let words = listed.contains(other) ? "whom it has certainly not blocked" : "and lacks user-\(other), whom it has blocked"
            cluster.violate(.chainIsAcknowledged, "user-\(call.user) reads the blocklist \(listed), for user-\(other): \(words)")
        }
    }

    /// Checks at rest that the streams of a user have told the sequence that an answer has.
    private static func checkTold(_ json: JSONValue, _ list: RelationshipState.List, _ user: Int, _ cluster: SimulatedCluster) {
        guard cluster.phase == .resting, let sequence = json["seq"]?.text else { return }
        for client in cluster.clients where client.user == user && client.stream != nil && client.isSynced && client.pipe.pushes.isEmpty {
            if cluster.isExcused(by: .stalled(until: client.stalledUntil, since: cluster.time + 1)) { continue }
            let told = client.relationship.sequence(of: list)
            if told == sequence || (list == .groups && BackEndChecks.knowsGroups(at: told, of: user, cluster)) { continue }
            cluster.violate(
                .noticesMatchLists,
                "device \(client.device) of user-\(user) was told the sequence \(told) of its \(list), an answer has \(sequence)")
        }
    }

    /// Handles an answer of `getFriendList`: a whole list, or the changes since another sequence.
    static func read(_ json: JSONValue, to query: FriendQuery, by user: Int, _ cluster: inout SimulatedCluster) {
        guard cluster.options.kind.hasCrossPlan, query.cursor == nil, json["cursor"] == nil else { return }
        let isWhole = json["isFull"] == .bool(true)
        check(json, of: isWhole ? "friends" : "friends since \(query.since ?? "")", user, &cluster)
    }

    /// Reads an event of a stream. All sessions are told the same about a step from one sequence to the next.
    static func read(_ event: SimulatedClient.Event, by user: Int, _ cluster: inout SimulatedCluster) {
        guard cluster.options.kind.hasCrossPlan else { return }
        // The event has what an answer has.
        if event.name == "onFriendGroupsChanged" { return check(event.data, of: "groups", user, &cluster) }
        guard event.name.hasPrefix("onFriendList") || event.name.hasPrefix("onBlackList"), let from = event.data["fromSeq"]?.text
        else { return }
        check(event.data, of: "\(event.name) since \(from)", user, &cluster)
    }

    private static func check(_ content: JSONValue, of list: String, _ user: Int, _ cluster: inout SimulatedCluster) {
        let sequence = content["seq"]?.text ?? ""
        guard let before = cluster.truth.sequences.problem(with: content, of: list, user, at: sequence) else { return }
        cluster.violate(
            .sequenceNamesOneContent, "user-\(user) is sent \(list) \(content), under this sequence \(before) was sent before")
    }

    // MARK: At rest

    /// Reads the lists of all users at each node.
    static func finish(_ cluster: inout SimulatedCluster) {
        readAll(&cluster) { .read(user: $0) }
        // Histories of the other kind stay the same to the end.
        if cluster.options.kind.readsGroups { readAll(&cluster) { .readOthers(user: $0) } }
    }

    private static func readAll(_ cluster: inout SimulatedCluster, _ action: (Int) -> OwnListAction) {
        for user in cluster.userIDs.indices {
            for node in cluster.hosts where !cluster.isBroken && cluster.nodes[node].isUp {
                read(action(user).calls(cluster.userID), by: user, at: node, &cluster)
                cluster.awaitAnswer()
            }
        }
    }
}
