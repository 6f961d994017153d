import PresenceWire

/// Reads the events of the relationship chain and of profiles, and checks that they match the lists: see ``ToldRelationship``.
enum ChainNotices {
    private static let names = Set(RelationshipNotice.Event.allCases.map { "\($0.name)" })

    /// Reads an event that a client has received.
    static func read(_ event: SimulatedClient.Event, by client: Int, _ cluster: inout SimulatedCluster) {
        ProfileChecks.read(event, by: client, &cluster)
        let name = String(event.name)
        guard names.contains(name), let stream = cluster.clients[client].stream else { return }
        let user = cluster.clients[client].user
        let lists = cluster.truth.chain.lists[user]
        cluster.stage.counts[.noticesRead] += 1
        OwnListChecks.read(event, by: user, &cluster)
        BackEndChecks.read(event, by: user, cluster)
        let gap = cluster.clients[client].relationship.read(name, event.data, on: stream.session) { lists.friends(at: $0) }
        // The client finds imported friends by the gap.
        guard let gap, !cluster.truth.groups.brought.hasImports(to: user), isUndisturbed(cluster) else { return }
        cluster.violate(.noticesMatchLists, "user-\(user) reads \(name): \(gap)")
    }

    /// Whether no event of the history can be lost or overtaken. A change that waits for all nodes may be overtaken by later ones.
    private static func isUndisturbed(_ cluster: SimulatedCluster) -> Bool {
        guard !cluster.isExcused(by: .faultsOfNodes, .repeatedCalls), !cluster.truth.chain.hasBlocked else { return false }
        return !cluster.plan.steps.contains { step in
            switch step.action {
            case .setPolicy, .kick: true
            default: step.hidesUser
            }
        }
    }

    /// Checks at rest what the streams of a user have told.
    ///
    /// - Parameter whole: the user's friend list as a client reads it now.
    static func check(_ whole: ClientLists.Snapshot, of user: Int, _ cluster: SimulatedCluster) {
        guard let owner = cluster.owner(of: user) else { return }
        let state = cluster.nodes[owner].look { $0.owner.relationship(of: cluster.userID(user)) }
        // order does not matter: they become a set.
        let friends = Set(whole.friends.keys)
        let received = Set(ChainChecks.rows(.pendencyIn, of: user, cluster).map(\.key))
        let sent = Set(ChainChecks.rows(.pendencyOut, of: user, cluster).map(\.key))
        let blocked = Set(ChainChecks.rows(.blocked, of: user, cluster).map(\.key))
        for client in cluster.clients where client.user == user && client.isSynced && client.pipe.pushes.isEmpty {
            guard let stream = client.stream, !cluster.isExcused(by: .stalled(until: client.stalledUntil, since: cluster.time + 1))
            else { continue }
            let told = client.relationship
            let imported = BackEndChecks.imported(since: told.friendSequence, to: user, cluster)
            let named = friends.subtracting(imported ?? [])
            var wrong: String?
            if told.session != stream.session {
                wrong = "nothing"
            } else if told.friendSequence != whole.sequence, imported == nil {
                wrong = "the sequence \(told.friendSequence) of its friends, right is \(whole.sequence)"
            } else if told.requestSequence != state.sequence(of: .requests) {
                wrong = "the sequence \(told.requestSequence) of its requests, right is \(state.sequence(of: .requests))"
            } else if !BackEndChecks.knowsGroups(at: told.groupSequence, of: user, cluster) {
                wrong = "the sequence \(told.groupSequence) of its groups, right is \(state.sequence(of: .groups))"
            } else if told.blockSequence != state.sequence(of: .blocked) {
                wrong = "the sequence \(told.blockSequence) of its blocklist, right is \(state.sequence(of: .blocked))"
            } else if let users = told.blocked, users != blocked {
                wrong = "that it blocks \(users.sorted()), right are \(blocked.sorted())"
            } else if let users = told.friends, users != named {
                wrong = "the friends \(users.sorted()), right are \(named.sorted())"
            } else if let requests = told.received, requests != received {
                wrong = "the requests of \(requests.sorted()), right are those of \(received.sorted())"
            } else if let requests = told.sent, requests != sent {
                wrong = "the requests to \(requests.sorted()), right are those to \(sent.sorted())"
            } else if told.unreadCount != Int64(received.count) {
                wrong = "\(told.unreadCount) unread requests, right are \(received.count)"
            }
            if let wrong { cluster.violate(.noticesMatchLists, "device \(client.device) of user-\(user) was told \(wrong)") }
        }
    }
}
