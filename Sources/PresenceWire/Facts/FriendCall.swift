/// A client's call about the caller's own profile and lists of the relationship chain (P1, P5, P11, P21–P28, P32–P37).
///
/// The caller's owner decides it alone: no other user's owner hears of it. A call that arrives twice has the same result.
public enum FriendCall: Hashable, Sendable {
    /// Reads the profile (P1).
    case profile
    /// Sets fields of the profile (P5).
    case modifyProfile([Profile.Change])
    /// Reads a page of the blocklist: at most `limit` users after `cursor` (P31).
    case blocked(after: String?, limit: Int)
    /// Reads one page of friend requests (P21).
    case requests(RequestQuery)
    /// Removes friend requests of these users from the caller's list (P27).
    case deleteRequests([UserID], FriendRequestKind)
    /// Marks the requests up to a time as read (P28).
    case readRequests(upTo: Milliseconds)
    /// Changes what the caller's list says about a friend (P11).
    case modifyFriend(UserID, FriendChange)
    /// Creates groups, and adds friends to each of them (P32).
    case createGroups([String], users: [UserID])
    /// Deletes groups. The friends stay in the list (P33).
    case deleteGroups([String])
    /// Gives a group another name (P36).
    case renameGroup(String, to: String)
    /// Reads groups with their friends; nil for all (P37).
    case groups([String]?)
    /// Adds friends to a group (P34).
    case addToGroup(String, [UserID])
    /// Removes friends from a group (P35).
    case removeFromGroup(String, [UserID])
    /// Adds friends to the caller's list alone, without a request and without an event.
    case importFriends([FriendImport])
}

extension FriendCall {
    /// Whether the call changes lists. Its answer then waits for two disks.
    public var isChange: Bool {
        switch self {
        case .profile, .blocked, .requests, .groups: false
        case .modifyProfile, .deleteRequests, .readRequests, .modifyFriend, .createGroups, .deleteGroups, .renameGroup, .addToGroup,
            .removeFromGroup, .importFriends:
            true
        }
    }
}

/// The direction of a friend request, as one user's list has it (P26).
public enum FriendRequestKind: UInt8, CaseIterable, Hashable, Sendable {
    /// The user has received the request.
    case received = 1
    /// The user has sent the request.
    case sent = 2
}

/// A query of the caller's friend requests (P21).
public struct RequestQuery: Hashable, Sendable {
    /// Most requests of one page, unless more of them changed in one millisecond.
    public static let limitMax = 100

    /// The kinds of requests to read: nil for both.
    public var kind: FriendRequestKind?
    /// The sequence of the requests that the client holds. If it is the newest, the page is empty (P23).
    public var since: String?
    /// The time of the last change of the page before; 0 for the first page (P24).
    public var after: Milliseconds
    /// 1 to ``limitMax``.
    public var limit: Int

    public init(
        kind: FriendRequestKind? = nil, since: String? = nil, after: Milliseconds = 0, limit: Int = RequestQuery.limitMax
    ) {
        (self.kind, self.since, self.after, self.limit) = (kind, since, after, limit)
    }
}

/// A change of a friend in the caller's list (P11). A property that is nil stays as it is.
public struct FriendChange: Hashable, Sendable {
    /// At most ``Limits/remarkBytesMax`` bytes; empty removes the remark.
    public var remark: String?
    /// The names of all groups of the friend from now on, at most ``Limits/friendGroupsMax``.
    public var groups: [String]?
    /// The custom fields to set, at most ``Limits/customFieldsMax``. An empty text removes a field.
    public var fields: [CustomField] = []

    public init() {}
}

/// A friend whom an app's back end brings along from another service.
public struct FriendImport: Hashable, Sendable {
    public let user: UserID
    /// The remark, the groups and the custom fields.
    public var change = FriendChange()
    /// At most ``Limits/wordingBytesMax`` bytes.
    public var addWording = ""
    /// At most ``Limits/addSourceBytesMax`` bytes.
    public var addSource = ""
    /// The time at which the other service added the friend; nil for the time of the call.
    public var addTime: Milliseconds?

    public init(user: UserID) { self.user = user }
}

extension FriendCall: OwnRequest {
    public typealias Answer = FriendCallResult
}

/// The result of a ``FriendCall``.
public struct FriendCallResult: OwnAnswer {
    /// Longest ``json`` that an owner sends, in bytes. The answer shares a batch between two nodes with other messages.
    public static let jsonBytesMax = Limits.batchBytesMax * 3 / 4

    /// ``ChainCode/done``, or the reason why nothing was changed.
    public var code: ChainCode
    /// The result for each user that the call names; empty if the call changed nothing.
    public var users: [ChainOutcome]
    /// The JSON that the call has read; empty for nothing.
    public var json: [UInt8]

    public init(code: ChainCode = .done, users: [ChainOutcome] = [], json: [UInt8] = []) {
        (self.code, self.users, self.json) = (code, users, json)
    }

    public init?(_ answer: Answer) {
        guard case .friendCalled(let result) = answer else { return nil }
        self = result
    }

    public var answer: Answer { .friendCalled(self) }
}
