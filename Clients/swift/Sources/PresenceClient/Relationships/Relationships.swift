/// The own relationship chain, as this client knows it.
public struct Relationships: Sendable, Equatable {
    /// Whether all lists have been fetched since the login.
    public internal(set) var isComplete = false
    /// The friends, by user ID.
    public internal(set) var friends: [Friend] = []
    /// The requests that wait, the oldest change first.
    public internal(set) var requests: [FriendRequest] = []
    /// The received requests that were not read.
    public internal(set) var unreadCount = 0
    /// The users on the own blocklist, by user ID.
    public internal(set) var blocked: [String] = []
    /// The groups, in the order of their creation.
    public internal(set) var groups: [FriendGroup] = []
}

/// Keeps ``Relationships`` equal to the lists of the node: it applies each event that follows the state that it holds, and asks for what
/// it has missed. A value without I/O.
///
/// At most one query of each list is under way. Events that arrive meanwhile, and do not follow what the query brings, cause another one.
struct RelationshipMirror {
    /// The lists that a node is asked for.
    enum List: Hashable, CaseIterable {
        case friends, requests, blocked, groups
    }

    private struct Sync {
        /// The sequence of the list that the client holds; nil for none.
        var held: String?
        /// The newest sequence that an event has named.
        var newest: String?
        /// Whether a query is under way.
        var isFetching = false
        /// Whether the list may have changed in a way that the query under way does not show.
        var isStale = false
        var knowledge = Knowledge.none
    }

    /// How much of a list the client holds.
    private enum Knowledge {
        /// The list was not fetched since the login.
        case none
        /// The list was fetched, and a call of this client may have changed it since.
        case older
        /// The list was fetched, and holds the calls of this client.
        case own
    }

    private(set) var state = Relationships()
    private var syncs: [List: Sync] = [:]
    /// The friends and requests that listeners know of: those fetched first, and what they were told since.
    private var told = Relationships()
    private var missed: [RelationshipChange] = []

    /// The sequence from which the changes of a list are to be fetched; nil for the whole list.
    func held(_ list: List) -> String? { syncs[list]?.held }

    /// Whether what the client holds of a list has all that it was told of and all that its own calls did.
    func isCurrent(_ list: List) -> Bool { syncs[list].map { $0.knowledge == .own && !$0.isStale && !$0.isFetching } ?? false }

    // MARK: Sessions

    /// The login has ended. The next one may be of another user.
    mutating func reset() { self = RelationshipMirror() }

    // MARK: Events

    /// Takes an event. Returns the lists to fetch.
    mutating func receive(_ news: RelationshipNews) -> [List] {
        switch news {
        case .state(let newest, let unreadCount):
            state.unreadCount = unreadCount
            for list in List.allCases { note(newest[list], of: list) }
        case .friendsAdded(let friends, let step), .friendsChanged(let friends, let step): take(step, of: .friends) { $0.store(friends) }
        case .friendsDeleted(let users, let step): take(step, of: .friends) { $0.remove(users) }
        case .requestsAdded(let requests, let step, let unreadCount):
            state.unreadCount = unreadCount
            take(step, of: .requests) { $0.store(requests) }
        case .requestsDeleted(let users, let kind, let step, let unreadCount):
            state.unreadCount = unreadCount
            take(step, of: .requests) { $0.removeRequests(of: users, kind) }
        case .requestsRead(_, let unreadCount): state.unreadCount = unreadCount
        case .blocked(let users, let step): take(step, of: .blocked) { $0.block(users) }
        case .unblocked(let users, let step): take(step, of: .blocked) { $0.unblock(users) }
        case .groups(let groups, let sequence): take(groups, sequence)
        case .profile: break
        }
        return due()
    }

    /// Returns what queries have shown and no event has told (P38), and removes it.
    ///
    /// The first query after a login shows the requests that are unread. Later ones show what changed while there was no session.
    mutating func takeMissed() -> [RelationshipChange] {
        defer { missed = [] }
        return missed
    }

    /// Drops the friends that were fetched, because they are older than the app allows (P4). Returns the lists to fetch.
    mutating func expireFriends() -> [List] {
        var sync = syncs[.friends, default: Sync()]
        (sync.held, sync.knowledge, sync.isStale) = (nil, .none, true)
        syncs[.friends] = sync
        state.isComplete = false
        return due()
    }

    // MARK: Own calls

    /// A call that may have changed lists has ended. Its events may come later than its answer.
    mutating func ownCallEnded(_ changed: [List]) {
        for list in changed {
            guard var sync = syncs[list] else { continue }
            if sync.knowledge != .none {
                sync.knowledge = .older
            } else if sync.isFetching {
                // The query under way may be older than the call.
                (sync.newest, sync.isStale) = (nil, true)
            }
            syncs[list] = sync
        }
    }

    /// A node that was asked after an own call has this sequence of a list.
    mutating func confirm(_ list: List, _ sequence: String) {
        if syncs[list]?.held == sequence, syncs[list]?.knowledge == .older { syncs[list]?.knowledge = .own }
    }

    /// The friends, if these changes came to those that the client holds.
    func friends(with changed: [Friend], without deleted: [String]) -> [Friend] {
        var relationships = state
        relationships.remove(deleted)
        relationships.store(changed)
        return relationships.friends
    }

    // MARK: Events that change a list

    /// Takes all groups of an event. An event about many friends names no users, and the groups are fetched.
    private mutating func take(_ groups: [FriendGroup], _ sequence: String) {
        var sync = syncs[.groups, default: Sync()]
        sync.newest = sequence
        if !sync.isFetching, groups.allSatisfy({ $0.userIDs != nil }) {
            sync.held = sequence
        } else if sync.held != sequence {
            // The query under way may be older than this change.
            sync.isStale = true
        }
        state.groups = groups
        syncs[.groups] = sync
    }

    private mutating func note(_ newest: String, of list: List) {
        syncs[list, default: Sync()].newest = newest
        if syncs[list]?.held != newest { syncs[list]?.isStale = true }
    }

    /// Applies a change of a list if it follows what the client holds. Otherwise the list is fetched.
    private mutating func take(_ step: RelationshipNews.Step, of list: List, _ apply: (inout Relationships) -> Void) {
        var sync = syncs[list, default: Sync()]
        sync.newest = step.to
        if sync.held == step.from, !sync.isFetching {
            sync.held = step.to
            apply(&state)
            tellAll(of: list)
        } else if sync.held != step.to {
            sync.isStale = true
            apply(&told)
        }
        syncs[list] = sync
    }

    private mutating func tellAll(of list: List) {
        switch list {
        case .friends: told.friends = state.friends
        case .requests: told.requests = state.requests
        case .blocked, .groups: break
        }
    }

    /// The lists whose query is to begin now.
    mutating func due() -> [List] {
        let due = List.allCases.filter { syncs[$0].map { $0.isStale && !$0.isFetching } ?? false }
        for list in due {
            syncs[list]?.isFetching = true
            syncs[list]?.isStale = false
        }
        return due
    }

    // MARK: Answers

    /// A query of the friends has ended.
    ///
    /// - Parameters:
    ///   - friends: all friends if `isFull`, else those that are new or different.
    ///   - deleted: the users who are not friends any more.
    mutating func fetchedFriends(_ friends: [Friend], deleted: [String], isFull: Bool, sequence: String) -> [List] {
        if isFull { state.friends = [] }
        state.remove(deleted)
        state.store(friends)
        return fetched(.friends, sequence)
    }

    /// A query of the requests has ended; nil if the client holds the newest.
    mutating func fetchedRequests(_ requests: [FriendRequest]?, unreadCount: Int, sequence: String) -> [List] {
        if let requests { state.requests = requests }
        state.unreadCount = unreadCount
        return fetched(.requests, sequence)
    }

    mutating func fetchedBlocked(_ users: [String], sequence: String) -> [List] {
        state.blocked = users
        return fetched(.blocked, sequence)
    }

    mutating func fetchedGroups(_ groups: [FriendGroup], sequence: String) -> [List] {
        state.groups = groups
        return fetched(.groups, sequence)
    }

    /// A query has failed. The next event about the list, or the next session, repeats it.
    mutating func failed(_ list: List) {
        syncs[list]?.isFetching = false
        syncs[list]?.isStale = true
    }

    private mutating func fetched(_ list: List, _ sequence: String) -> [List] {
        var sync = syncs[list, default: Sync()]
        let wasKnown = sync.knowledge != .none
        (sync.held, sync.isFetching) = (sequence, false)
        // The answer has all that the events up to its sequence have told.
        if sequence == sync.newest { sync.isStale = false }
        if !wasKnown, !sync.isStale { sync.knowledge = .own }
        syncs[list] = sync
        // An answer that is older than what was told is followed by another one.
        if !sync.isStale {
            switch list {
            case .friends: if wasKnown { missed += missedFriends }
            case .requests: missed += wasKnown ? missedRequests : unreadRequests
            case .blocked, .groups: break
            }
            tellAll(of: list)
        }
        state.isComplete = List.allCases.allSatisfy { syncs[$0].map { $0.knowledge != .none } ?? false }
        return due()
    }
}

extension RelationshipMirror {
    private var missedFriends: [RelationshipChange] {
        let before = Dictionary(told.friends.map { (UserKey($0.userID), $0) }) { $1 }
        let now = Set(state.friends.map { UserKey($0.userID) })
        let added = state.friends.filter { before[UserKey($0.userID)] == nil }
        let changed = state.friends.filter { friend in before[UserKey(friend.userID)].map { $0 != friend } ?? false }
        let deleted = told.friends.map(\.userID).filter { !now.contains(UserKey($0)) }
        return (deleted.isEmpty ? [] : [.friendsDeleted(deleted)]) + (added.isEmpty ? [] : [.friendsAdded(added)])
            + (changed.isEmpty ? [] : [.friendsChanged(changed)])
    }

    /// The received requests that were not read at the login, except those that events have told since.
    private var unreadRequests: [RelationshipChange] {
        let received = state.requests.filter { $0.type == .received }.sorted { $0.addTime < $1.addTime }
        let unread = received.suffix(state.unreadCount).filter { !told.requests.contains($0) }
        return unread.isEmpty ? [] : [.requestsAdded(unread)]
    }

    private var missedRequests: [RelationshipChange] {
        var missed: [RelationshipChange] = []
        for kind in FriendRequest.Kind.allCases {
            let now = Set(state.requests.filter { $0.type == kind }.map { UserKey($0.userID) })
            let deleted = told.requests.filter { $0.type == kind && !now.contains(UserKey($0.userID)) }.map(\.userID)
            if !deleted.isEmpty { missed.append(.requestsDeleted(deleted, kind)) }
        }
        let before = Set(told.requests)
        let added = state.requests.filter { !before.contains($0) }
        return missed + (added.isEmpty ? [] : [.requestsAdded(added)])
    }
}

extension Relationships {
    fileprivate mutating func store(_ changed: [Friend]) {
        let keys = Set(changed.map { UserKey($0.userID) })
        friends = (friends.filter { !keys.contains(UserKey($0.userID)) } + changed).sorted { $0.userID < $1.userID }
    }

    fileprivate mutating func remove(_ users: [String]) {
        let keys = Set(users.map { UserKey($0) })
        if !keys.isEmpty { friends.removeAll { keys.contains(UserKey($0.userID)) } }
    }

    fileprivate mutating func store(_ changed: [FriendRequest]) {
        for request in changed { removeRequests(of: [request.userID], request.type) }
        requests += changed
    }

    fileprivate mutating func removeRequests(of users: [String], _ kind: FriendRequest.Kind) {
        let keys = Set(users.map { UserKey($0) })
        requests.removeAll { $0.type == kind && keys.contains(UserKey($0.userID)) }
    }

    fileprivate mutating func block(_ users: [String]) {
        unblock(users)
        blocked = (blocked + users).sorted()
    }

    fileprivate mutating func unblock(_ users: [String]) {
        let keys = Set(users.map { UserKey($0) })
        blocked.removeAll { keys.contains(UserKey($0)) }
    }
}
