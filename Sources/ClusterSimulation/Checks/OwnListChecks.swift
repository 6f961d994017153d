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
        case .friendCall(.modifyProfile), .friendCall(.profile): false
        case .friendCall: true
        default: false
        }
    }

    /// Handles an answer to such a call.
    static func answered(_ answer: CallAnswer, to call: SimulatedCall, _ cluster: inout SimulatedCluster) {
        guard case .friendCalled(let result) = answer else {
            return cluster.violate(.everyCallIsAnswered, "\(call.call) is answered with \(answer)")
        }
        guard case .friendCall(.requests(let query)) = call.call, query == RequestQuery(), let json = try? JSONReader.read(result.json)
        else { return }
        // A report of what was read moves the number of unread requests alone.
        check(json.without("unreadCnt"), of: "requests", call.user, &cluster)
    }

    /// Handles an answer of `getFriendList`: a whole list, or the changes since another sequence.
    static func read(_ json: JSONValue, to query: FriendQuery, by user: Int, _ cluster: inout SimulatedCluster) {
        guard cluster.options.kind == .friendsHideAndBlock, query.cursor == nil, json["cursor"] == nil else { return }
        let isWhole = json["isFull"] == .bool(true)
        check(json, of: isWhole ? "friends" : "friends since \(query.since ?? "")", user, &cluster)
    }

    /// Reads an event of a stream. All sessions are told the same about a step from one sequence to the next.
    static func read(_ event: SimulatedClient.Event, by user: Int, _ cluster: inout SimulatedCluster) {
        guard cluster.options.kind == .friendsHideAndBlock, event.name.hasPrefix("onFriendList"), let from = event.data["fromSeq"]?.text
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
        for user in cluster.userIDs.indices {
            for node in cluster.hosts where !cluster.isBroken && cluster.nodes[node].isUp {
                read(OwnListAction.read(user: user).calls(cluster.userID), by: user, at: node, &cluster)
                cluster.awaitAnswer()
            }
        }
    }
}
