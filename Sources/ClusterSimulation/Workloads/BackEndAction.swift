import PresenceCore
import PresenceWire

/// A call of an app's back end for a user, at any node. Numbers name users, and groups of friends.
public enum BackEndAction: Sendable {
    /// Adds a friend without an approval. `number` is in the remark.
    case addByForce(user: Int, other: Int, isTwoWay: Bool, group: Int?, number: Int)
    /// Adds friends to the user's list alone. `number` is in each text. A dated friend was added long ago.
    case importFriends(user: Int, friends: [Int], group: Int?, isDated: Bool, number: Int)
    case deleteAll(user: Int, isTwoWay: Bool)

    /// The user for whom the back end calls.
    var user: Int {
        switch self {
        case .addByForce(let user, _, _, _, _), .importFriends(let user, _, _, _, _), .deleteAll(let user, _): user
        }
    }

    /// The users whom the call names.
    var others: [Int] {
        switch self {
        case .addByForce(_, let other, _, _, _): [other]
        case .importFriends(_, let friends, _, _, _): friends
        case .deleteAll: []
        }
    }

    /// The call to a node.
    func call(_ id: (Int) -> UserID) -> Call {
        switch self {
        case .addByForce(_, let other, let isTwoWay, let group, let number):
            var request = SentRequest(addTime: 0)
            (request.remark, request.isForced) = ("forced \(number)", true)
            return .chain(.add(id(other), request, isTwoWay: isTwoWay, group: group.map(OwnListAction.groupName)))
        case .importFriends(_, let friends, let group, let isDated, let number):
            let imports = friends.map { user in
                var friend = FriendImport(user: id(user))
                friend.change.remark = "import \(number)"
                friend.change.groups = group.map { [OwnListAction.groupName($0)] }
                (friend.addWording, friend.addSource) = ("wording \(number)", "AddSource_Type_\(number)")
                friend.addTime = isDated ? SimulatedCluster.epoch - 1_000_000 : nil
                return friend
            }
            return .friendCall(.importFriends(imports))
        case .deleteAll(_, let isTwoWay): return .chain(.deleteAll(isTwoWay: isTwoWay))
        }
    }
}
