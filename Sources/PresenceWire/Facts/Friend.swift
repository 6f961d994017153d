/// The number of a friend group. A user's groups are counted, and no number is used twice.
public typealias FriendGroupID = UInt32

/// One user in the friend list of another (P10). A friendship in both lists is two such facts.
public struct Friend: Hashable, Sendable {
    /// At most ``Limits/remarkBytesMax`` bytes.
    public var remark = ""
    /// The groups of the list that have the friend, sorted; at most ``Limits/friendGroupsMax``.
    public var groupIDs: [FriendGroupID] = []
    /// At most ``Limits/wordingBytesMax`` bytes.
    public var addWording = ""
    /// At most ``Limits/addSourceBytesMax`` bytes.
    public var addSource = ""
    /// The time at which the friend was added.
    public var addTime: Milliseconds
    /// Sorted by name; at most ``Limits/customFieldsMax``.
    public var customFields: [CustomField] = []

    public init(addTime: Milliseconds) { self.addTime = addTime }
}

/// A friend request in the list of the user who sent it (P20). The other user's list has a ``ReceivedRequest``.
public struct SentRequest: Hashable, Sendable {
    /// The remark of the friend that the request may become; at most ``Limits/remarkBytesMax`` bytes.
    public var remark = ""
    /// The group of that friend.
    public var groupID: FriendGroupID?
    /// At most ``Limits/wordingBytesMax`` bytes.
    public var addWording = ""
    /// At most ``Limits/addSourceBytesMax`` bytes.
    public var addSource = ""
    /// Whether an app's back end adds the friend, so that the user need not approve it.
    public var isForced = false
    /// The nickname of the other user at the time of the request (P26), at most ``Limits/fieldBytesMax`` bytes.
    ///
    /// In a command it is that of the user who sends the request.
    public var nickname = ""
    public var addTime: Milliseconds

    public init(addTime: Milliseconds) { self.addTime = addTime }
}

/// A friend request in the list of the user who received it (P20, P26).
public struct ReceivedRequest: Hashable, Sendable {
    /// At most ``Limits/wordingBytesMax`` bytes.
    public var addWording = ""
    /// At most ``Limits/addSourceBytesMax`` bytes.
    public var addSource = ""
    /// The nickname of the user who sent the request, at that time (P26). At most ``Limits/fieldBytesMax`` bytes.
    public var nickname = ""
    public var addTime: Milliseconds

    public init(addTime: Milliseconds) { self.addTime = addTime }
}

/// One user on the blocklist of another (P29).
public struct BlockedUser: Hashable, Sendable {
    /// The time at which the user was blocked.
    public var since: Milliseconds

    public init(since: Milliseconds) { self.since = since }
}

/// A group of friends (P32). The friends hold its number, so a rename changes one row.
public struct FriendGroup: Hashable, Sendable {
    /// 1 to ``Limits/friendGroupNameBytesMax`` bytes.
    public var name: String

    public init(name: String) { self.name = name }
}

/// The time up to which a user has read the received friend requests (P28).
public struct ReadRequests: Hashable, Sendable {
    public var timestamp: Milliseconds

    public init(timestamp: Milliseconds) { self.timestamp = timestamp }
}

/// A subscription to another user's profile (R3).
public struct ProfileSubscription: Hashable, Sendable {
    /// The type of a subscription to any user. It lasts until it ends by itself or a call ends it.
    public static let profile: UInt8 = 2
    /// The type of a subscription to a friend. It ends with the friendship.
    public static let friendProfile: UInt8 = 4

    /// ``profile`` or ``friendProfile``.
    public var subscribeType: UInt8
    public var subscribedAt: Milliseconds

    public init(subscribeType: UInt8, subscribedAt: Milliseconds) {
        self.subscribeType = subscribeType
        self.subscribedAt = subscribedAt
    }
}

/// A decision of one user that concerns another user. The one owner sends it to the other owner.
public enum ChainCommand: Hashable, Sendable {
    /// Adds the other user to the own list, and the own user to the other list if it is two-way.
    case add(SentRequest, isTwoWay: Bool)
    /// Accepts a received request; two-way, the requester becomes a friend as well.
    case accept(remark: String, isTwoWay: Bool)
    case reject
    /// Removes each from the other's friend list.
    case delete
    case block
}

/// A command that waits for the answer of the other user's owner.
public struct OutboxCommand: Hashable, Sendable {
    public var command: ChainCommand
    /// The version of the decision. All rows that the command writes have it, on both sides.
    public var version: Version
    /// The time at which the owner began to send the command.
    public var begunAt: Milliseconds

    public init(_ command: ChainCommand, version: Version, begunAt: Milliseconds) {
        self.command = command
        self.version = version
        self.begunAt = begunAt
    }
}
