import PresenceCore
import PresenceWire

/// Checks subscriptions to friends (`subscribeType` 3): friends alone are accepted, and a subscription lasts as long as the friendship.
enum FriendFollowChecks {
    /// Records that a call about subscriptions is about to be made.
    static func asked(_ call: Call, by user: Int, _ cluster: inout SimulatedCluster) {
        guard call.changesSubscriptions else { return }
        switch call {
        case .subscribeUserStatus(let targets, _, _, let type):
            cluster.truth.subscriptions[user].friends.forget(targets.compactMap { cluster.userIndex($0.id) })
            // The subscription ends with the friendship, at a time that no answer names.
            if type == Subscription.friendOnlineStatus { cluster.truth.subscriptions[user].mayEndWithFriendships() }
        case .unsubscribeUserStatus(let targets, _):
            cluster.truth.subscriptions[user].friends.forget(targets?.compactMap { cluster.userIndex($0.id) })
        default: break
        }
    }

    /// Handles an answer, if it is to a subscription to friends. Those who are not friends are refused with 31704.
    static func answered(_ answer: CallAnswer, to call: SimulatedCall, isAlone: Bool, _ cluster: inout SimulatedCluster) {
        guard case .subscribeUserStatus(_, _, _, let type) = call.call, type == Subscription.friendOnlineStatus,
            case .subscribed(_, _, _, let nonFriends, _, _, let accepted) = answer
        else { return }
        cluster.truth.subscriptions[call.user].friends.acknowledge(accepted.compactMap { cluster.userIndex($0.id) }, askedAt: call.at)
        guard ChainChecks.isTrusted(isAlone: isAlone, cluster) else { return }
        let chain = cluster.truth.chain
        for target in accepted.compactMap({ cluster.userIndex($0.id) }) where target != call.user {
            if chain.mayBeFriend(target, of: call.user, since: call.at) { continue }
            cluster.violate(.chainIsAcknowledged, "user-\(call.user) follows user-\(target) as a friend, who certainly is not one")
        }
        for target in nonFriends.compactMap({ cluster.userIndex($0.id) }) where target != call.user {
            guard chain.mustBeFriend(target, of: call.user, since: call.at) else { continue }
            cluster.violate(.chainIsAcknowledged, "user-\(call.user) may not follow its friend user-\(target): the answer is 31704")
        }
    }

    // MARK: At rest

    /// Checks that each user follows as friends its friends alone, and all of those for whom that is certain.
    static func finish(_ cluster: SimulatedCluster) {
        for user in cluster.userIDs.indices {
            guard let owner = cluster.owner(of: user) else { continue }
            let subscriptions = cluster.nodes[owner].kept(cluster.userID(user)).subscriptions
            let friends = ChainChecks.rows(.friend, of: user, cluster).map(\.key)
            let others = subscriptions.filter { subscription in
                subscription.subscribeType == Subscription.friendOnlineStatus && !friends.contains("\(subscription.target.id)")
            }
            if let other = others.first {
                cluster.violate(.friendsAreSeen, "user-\(user) follows \(other.target.id) as a friend, and has the friends \(friends)")
            }
            let listed = subscriptions.compactMap { cluster.userIndex($0.target.id) }
            for (target, since) in cluster.truth.subscriptions[user].friends.targets {
                guard cluster.truth.chain.mustBeFriend(target, of: user, since: since) else { continue }
                guard listed.contains(target) else {
                    cluster.violate(.friendsAreSeen, "user-\(user) follows \(listed), and lacks its friend user-\(target)")
                    continue
                }
                checkStreams(of: user, show: target, cluster)
            }
        }
    }

    /// Checks that each stream of a user has sent a friend whom the user follows, and who is present and not hidden.
    private static func checkStreams(of user: Int, show friend: Int, _ cluster: SimulatedCluster) {
        guard SightChecks.sees(user, friend, cluster) == true, cluster.truth.presences[friend].openCount > 0 else { return }
        for client in cluster.clients where client.user == user && client.stream != nil && client.isSynced && client.pipe.pushes.isEmpty {
            guard client.view[friend] == nil else { continue }
            cluster.violate(.friendsAreSeen, "the stream of \(client) has sent nothing of its friend user-\(friend)")
        }
    }
}
