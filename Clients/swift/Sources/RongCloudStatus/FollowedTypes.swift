import PresenceClient

/// The users that the own user follows with ``RCSubscribeType/friendOnlineStatus``.
///
/// Every other status has ``RCSubscribeType/onlineStatus``.
///
/// A status that a node pushes does not carry its subscription. The façade reads the list when it connects, and follows its own calls and
/// those of other devices.
final class FollowedTypes: Sendable {
    private struct State {
        var friends: Set<UserKey> = []
        /// Counts the changes, so that an older list does not replace them.
        var changesCount = 0

        mutating func set(_ type: RCSubscribeType, of user: UserKey) {
            changesCount += 1
            switch type {
            case .onlineStatus: friends.remove(user)
            case .friendOnlineStatus: friends.insert(user)
            // These subscriptions stand beside that to the status.
            case .userProfile, .friendUserProfile: break
            }
        }
    }

    private let state = Locked(State())

    /// The type with which the user's status is followed.
    func type(of user: String) -> RCSubscribeType {
        state.withLock { $0.friends.contains(UserKey(user)) ? .friendOnlineStatus : .onlineStatus }
    }

    /// Records subscriptions of a type. Returns the types that the users had before.
    @discardableResult func set(_ type: RCSubscribeType, of users: [String]) -> [String: RCSubscribeType] {
        state.withLock { state in
            var earlier: [String: RCSubscribeType] = [:]
            for user in users {
                let key = UserKey(user)
                earlier[user] = state.friends.contains(key) ? .friendOnlineStatus : .onlineStatus
                state.set(type, of: key)
            }
            return earlier
        }
    }

    /// Records the change of another device.
    func set(_ change: SubscriptionChange) {
        state.withLock { state in
            for entry in change.subscriptions {
                state.set(RCSubscribeType(rawValue: entry.subscribeType.rawValue) ?? .onlineStatus, of: UserKey(entry.userID))
            }
        }
    }

    /// Takes the types of users back to earlier ones, because they were not subscribed to.
    func restore(_ earlier: [String: RCSubscribeType], of users: [String]) {
        for user in users { if let type = earlier[user] { set(type, of: [user]) } }
    }

    /// Reads the list of the node, unless a subscription changes meanwhile.
    ///
    /// Without an answer the table stays as it is: the types are then those of the calls so far.
    func refresh(from client: PresenceClient) async {
        let changesCount = state.withLock { $0.changesCount }
        let list: SubscriptionPage
        do { list = try await client.getSubscribedUserStatus(subscribeType: .friendOnlineStatus) } catch { return }
        state.withLock { state in
            guard state.changesCount == changesCount else { return }
            state.friends = Set(list.subscriptions.map { UserKey($0.userID) })
        }
    }
}
