import PresenceCore
import PresenceWire

/// A call of a user about its own lists of the relationship chain. Numbers name users, and groups of friends.
public enum OwnListAction: Sendable {
    /// Reads the friends and the requests as a client does that knows neither.
    case read(user: Int)
    /// Reads the groups and the blocklist.
    case readOthers(user: Int)
    case createGroup(user: Int, group: Int, friends: [Int])
    case renameGroup(user: Int, group: Int, to: Int)
    case deleteGroup(user: Int, group: Int)
    case addToGroup(user: Int, group: Int, friends: [Int])
    case removeFromGroup(user: Int, group: Int, friends: [Int])
    case remark(user: Int, friend: Int, number: Int)

    /// One of the five changes of a group. A new name is drawn, and nothing else.
    ///
    /// - Parameter kind: 0...4, for a creation, a new name, a deletion, an addition of all friends and a removal of one.
    static func groupChange(
        _ kind: Int, group: Int, of user: Int, friends: [Int], _ random: inout SplitMix64
    ) -> OwnListAction {
        switch kind {
        case 0: .createGroup(user: user, group: group, friends: friends)
        case 1: .renameGroup(user: user, group: group, to: random.number(in: 0...2))
        case 2: .deleteGroup(user: user, group: group)
        case 3: .addToGroup(user: user, group: group, friends: friends)
        default: .removeFromGroup(user: user, group: group, friends: [friends[0]])
        }
    }

    /// The user who calls.
    var user: Int {
        switch self {
        case .read(let user), .readOthers(let user), .createGroup(let user, _, _), .renameGroup(let user, _, _),
            .deleteGroup(let user, _), .addToGroup(let user, _, _), .removeFromGroup(let user, _, _), .remark(let user, _, _):
            user
        }
    }

    /// The users whom the call names, besides the caller.
    var others: [Int] {
        switch self {
        case .createGroup(_, _, let friends), .addToGroup(_, _, let friends), .removeFromGroup(_, _, let friends): friends
        case .remark(_, let friend, _): [friend]
        case .read, .readOthers, .renameGroup, .deleteGroup: []
        }
    }

    static func groupName(_ group: Int) -> String { "group \(group)" }

    /// The calls to a node.
    func calls(_ id: (Int) -> UserID) -> [Call] {
        let name = Self.groupName
        switch self {
        case .read: return [.getFriendList(FriendQuery()), .friendCall(.requests(RequestQuery()))]
        case .readOthers: return [.friendCall(.groups(nil)), .friendCall(.blocked(after: nil, limit: FriendQuery.limitMax))]
        case .createGroup(_, let group, let friends): return [.friendCall(.createGroups([name(group)], users: friends.map(id)))]
        case .renameGroup(_, let group, let other): return [.friendCall(.renameGroup(name(group), to: name(other)))]
        case .deleteGroup(_, let group): return [.friendCall(.deleteGroups([name(group)]))]
        case .addToGroup(_, let group, let friends): return [.friendCall(.addToGroup(name(group), friends.map(id)))]
        case .removeFromGroup(_, let group, let friends): return [.friendCall(.removeFromGroup(name(group), friends.map(id)))]
        case .remark(_, let friend, let number):
            var change = FriendChange()
            change.remark = "remark \(number)"
            return [.friendCall(.modifyFriend(id(friend), change))]
        }
    }
}
