/// The newest versions of a user's relationship chain and profile. A client that holds others is not up to date.
public struct RelationshipState: Hashable, Sendable {
    /// The version of the newest change of the friend list; ``Version/zero`` for none.
    public var friends = Version.zero
    /// The version of the newest change of the received friend requests; ``Version/zero`` for none.
    public var received = Version.zero
    /// The version of the newest change of the sent friend requests; ``Version/zero`` for none.
    public var sent = Version.zero
    /// The version of the newest change of the friend groups, or of the friends in them; ``Version/zero`` for none.
    public var groups = Version.zero
    /// The version of the newest change of the blocklist; ``Version/zero`` for none.
    public var blocked = Version.zero
    /// The version of the user's last report of what it has read; ``Version/zero`` for none.
    public var read = Version.zero
    /// The version of the newest change of the profile; ``Version/zero`` for none.
    public var profile = Version.zero
    /// The number of received requests that are newer than the user's last report of what it has read.
    public var unreadCount: UInt32 = 0

    public init() {}

    /// The lists that clients synchronize by a sequence.
    public enum List: Sendable { case friends, requests, groups, blocked }

    /// The sequence of a list. Clients compare it for equality.
    public func sequence(of list: List) -> String {
        switch list {
        case .friends: friends.text
        case .requests: received.text + sent.text
        case .groups: groups.text
        case .blocked: blocked.text
        }
    }

    /// Whether a list is newer here than in `other`.
    public func isNewer(than other: RelationshipState, in list: List) -> Bool {
        switch list {
        case .friends: friends > other.friends
        case .requests: received > other.received || sent > other.sent
        case .groups: groups > other.groups
        case .blocked: blocked > other.blocked
        }
    }
}

extension RelationshipState {
    /// The state of a client after an event. Other lists than that of the event stay as they are, because their own events may come later.
    ///
    /// No list goes back: an event of the owner before may arrive after those of the next one.
    public func after(_ notice: RelationshipNotice) -> RelationshipState {
        var state = self
        switch notice.event {
        case .state:
            state.friends = max(friends, notice.state.friends)
            state.profile = max(profile, notice.state.profile)
            (state.groups, state.blocked) = (max(groups, notice.state.groups), max(blocked, notice.state.blocked))
            state.takeRequests(notice.state)
        case .friendsAdded, .friendsChanged, .friendsDeleted: state.friends = max(friends, notice.state.friends)
        case .requestsAdded, .requestsDeleted: state.takeRequests(notice.state)
        case .requestsRead where notice.state.read > read:
            (state.read, state.unreadCount) = (notice.state.read, notice.state.unreadCount)
        case .requestsRead: break
        case .blockedAdded, .blockedDeleted: state.blocked = max(blocked, notice.state.blocked)
        case .groupsChanged: state.groups = max(groups, notice.state.groups)
        }
        return state
    }

    private mutating func takeRequests(_ new: RelationshipState) {
        if new.received >= received, new.read >= read { unreadCount = new.unreadCount }
        (received, sent, read) = (max(received, new.received), max(sent, new.sent), max(read, new.read))
    }
}

/// An event of the relationship chain for all sessions of a user (P38–P43).
public struct RelationshipNotice: Hashable, Sendable {
    /// The kinds of events. The raw value is the byte on the wire.
    public enum Event: UInt8, CaseIterable, Sendable {
        /// The newest versions alone: at each login, and if a client may have missed something.
        case state = 0
        case friendsAdded = 1
        case friendsChanged = 2
        case friendsDeleted = 3
        case requestsAdded = 4
        case requestsDeleted = 5
        case requestsRead = 6
        case blockedAdded = 7
        case blockedDeleted = 8
        case groupsChanged = 9

        /// The name of the event in the stream.
        public var name: StaticString {
            switch self {
            case .state: "onRelationshipState"
            case .friendsAdded: "onFriendListAdded"
            case .friendsChanged: "onFriendInfoChanged"
            case .friendsDeleted: "onFriendListDeleted"
            case .requestsAdded: "onFriendApplicationListAdded"
            case .requestsDeleted: "onFriendApplicationListDeleted"
            case .requestsRead: "onFriendApplicationListRead"
            case .blockedAdded: "onBlackListAdded"
            case .blockedDeleted: "onBlackListDeleted"
            case .groupsChanged: "onFriendGroupsChanged"
            }
        }

        /// The version that the event moves; nil if clients do not synchronize its list by a sequence.
        public var list: RelationshipState.List? {
            switch self {
            case .friendsAdded, .friendsChanged, .friendsDeleted: .friends
            case .requestsAdded, .requestsDeleted: .requests
            case .blockedAdded, .blockedDeleted: .blocked
            case .groupsChanged: .groups
            case .state, .requestsRead: nil
            }
        }
    }

    public let event: Event
    /// The state after the event.
    public let state: RelationshipState
    /// The data of the event as JSON, UTF-8; empty for ``Event/state``.
    public let data: [UInt8]

    public init(_ event: Event, _ state: RelationshipState, data: [UInt8] = []) {
        self.event = event
        self.state = state
        self.data = data
    }
}
