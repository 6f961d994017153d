/// A friend on the own list (P10).
public struct Friend: Sendable, Hashable, Codable, Identifiable {
    public var userID: String
    public var remark: String
    /// The names of the friend's groups.
    public var groups: [String]
    public var addWording: String
    public var addSource: String
    /// The time at which the friend was added, in milliseconds since 1970.
    public var addTime: Int64
    /// The custom fields, by their names without `Custom_`.
    public var custom: [String: FieldValue]

    public var id: String { userID }
}

/// A friend request (P26).
public struct FriendRequest: Sendable, Hashable, Codable {
    /// The direction of a request.
    public enum Kind: Int, Sendable, Codable, CaseIterable {
        /// The user has received the request, and may answer it.
        case received = 1
        /// The user has sent the request.
        case sent = 2
    }

    /// The other user.
    public var userID: String
    /// The time of the request, in milliseconds since 1970.
    public var addTime: Int64
    public var addSource: String
    public var addWording: String
    /// The other user's nickname at that time.
    public var nickname: String
    public var type: Kind
}

/// A group of friends (P37).
public struct FriendGroup: Sendable, Hashable, Codable {
    public var name: String
    /// The number of friends in the group.
    public var userCnt: Int
    /// The friends; nil in an event about many friends.
    public var userIDs: [String]?
}

/// The result of a decision about another user, with a code of the relationship chain (HTTP API, "addFriend, doResponse and
/// deleteFriends").
public struct FriendResult: Sendable, Hashable, Codable {
    public var userID: String
    /// 0 for success.
    public var resultCode: Int
    /// The result in words; empty for success.
    public var resultInfo: String
}

/// The result of `checkFriends` for a user (P19).
public struct FriendCheck: Sendable, Hashable, Codable {
    /// The relation of two users.
    public enum Relation: Int, Sendable, Codable {
        case none = 0
        /// The user is on the own list.
        case ownFriend = 1
        /// The own user is on the user's list.
        case friendOfUser = 2
        case both = 3
    }

    public var userID: String
    /// 0 for success.
    public var resultCode: Int
    public var resultInfo: String
    public var resultType: Relation
}

/// A change of the own relationship chain, or of a profile that the user follows (P38–P43).
///
/// After an interruption the client derives the changes of friends and requests from the lists.
public enum RelationshipChange: Sendable, Equatable {
    case friendsAdded([Friend])
    case friendsChanged([Friend])
    case friendsDeleted([String])
    /// Requests have come, or are unread at the login.
    case requestsAdded([FriendRequest])
    case requestsDeleted([String], FriendRequest.Kind)
    /// Requests up to a time were read, on this device or on another one.
    case requestsRead(upTo: Int64)
    case blocked([String])
    case unblocked([String])
    case groupsChanged([FriendGroup])
    /// The profile of the own user, of a friend, or of a followed user has another version.
    case profileChanged(String)
    /// The client has fetched what it had missed. The changes of friends and requests came before this; the rest of ``Relationships`` may
    /// have changed as well.
    case synced
}
