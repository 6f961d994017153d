/// The profiles and the relationship chain of a client's user: calls, and the own lists as state.
///
/// ```swift
/// let result = try await client.friendship.addFriend("bob", addWording: "It is me")
/// for await change in client.friendship.changes { show(client.friendship.relationships.friends) }
/// ```
public final class Friendship: Sendable {
    private struct State {
        weak var client: PresenceClient?
        var mirror = RelationshipMirror()
        var profiles: ProfileCache
        /// The age of the client at which all friends were last fetched.
        var friendsFetchedAt = Duration.zero
        /// The number of ended logins. An answer of an earlier login is of another user.
        var endedLogins = 0
    }

    /// The time after which a list that could not be fetched is asked for again.
    private static let repeatInterval = Duration.seconds(30)

    /// Most users of one call.
    let usersMax: Int
    private let keepsLists: Bool
    /// The time for which fetched profiles and friends are used again.
    private let expiry: Duration
    private let clock: any Clock<Duration>
    private let madeAt = ContinuousClock.now
    private let broadcaster: Broadcaster
    private let state: Locked<State>

    init(_ configuration: ClientConfiguration, _ broadcaster: Broadcaster) {
        (usersMax, keepsLists) = (configuration.limits.chainUsersMax, configuration.keepsRelationships)
        (expiry, clock, self.broadcaster) = (configuration.profileExpiry, configuration.clock, broadcaster)
        state = Locked(State(profiles: ProfileCache(usersMax: configuration.usersMax, expiry: configuration.profileExpiry)))
    }

    /// The own friends, requests, blocklist and groups. They are kept only with ``ClientConfiguration/keepsRelationships``, and are right
    /// once ``RelationshipChange/synced`` has come after a login.
    public var relationships: Relationships { state.withLock { $0.mirror.state } }

    /// The changes of the own relationship chain, and of profiles.
    public var changes: Feed<RelationshipChange> {
        broadcaster.feed { if case .relationshipChanged(let change) = $0 { change } else { nil } }
    }

    /// Returns all friends (P9), by user ID: those that the client keeps, or those of the node.
    ///
    /// The client asks the node again after ``ClientConfiguration/profileExpiry`` (P4), and for what may have changed since when it made
    /// a change itself.
    public func getFriendList() async throws(PresenceError) -> [Friend] {
        if let friends = try await knownFriends() { return friends }
        return try await changedFriends(since: nil).friendList
    }

    /// Returns all friends with their profiles: those that the client keeps, or those of the node, in one pass over the list.
    ///
    /// - Returns: the profiles of all friends whose owners could be reached.
    public func getFriendsWithProfiles() async throws(PresenceError) -> (friends: [Friend], profiles: [UserProfile]) {
        if let friends = try await knownFriends() {
            let profiles = kept(friends.map(\.userID))
            if profiles.count == friends.count { return (friends, profiles) }
        }
        let listed = try await changedFriends(since: nil, withProfiles: true)
        keep(listed.profiles)
        return (listed.friendList, listed.profiles)
    }

    /// The friends that the client keeps, with what a node says has changed since if the client may lack a change of its own; nil if it
    /// keeps none, or if they are too old. Then the client fetches them again.
    private func knownFriends() async throws(PresenceError) -> [Friend]? {
        guard let kept = keptFriends() else { return nil }
        guard !kept.isCurrent(.friends) else { return kept.state.friends }
        let answer = try await changedFriends(since: kept.held(.friends))
        state.withLock { $0.mirror.confirm(.friends, answer.seq) }
        return answer.isFull ? answer.friendList : kept.friends(with: answer.friendList, without: answer.deleted)
    }

    private func keptFriends() -> RelationshipMirror? {
        let (kept, lists): (RelationshipMirror?, [RelationshipMirror.List]) = state.withLock { state in
            guard state.mirror.state.isComplete else { return (nil, []) }
            guard age - state.friendsFetchedAt < expiry else { return (nil, state.mirror.expireFriends()) }
            return (state.mirror, [])
        }
        fetch(lists)
        return kept
    }

    /// Returns the friend requests (P21), with the number of those that were not read: those that the client keeps, or those of the node.
    public func getPendencyList() async throws(PresenceError) -> (requests: [FriendRequest], unreadCount: Int) {
        let kept = state.withLock { $0.mirror }
        let known = kept.state.isComplete ? kept.state : nil
        if let known, kept.isCurrent(.requests) { return (known.requests, known.unreadCount) }
        let answer = try await changedRequests(since: known == nil ? nil : kept.held(.requests))
        state.withLock { $0.mirror.confirm(.requests, answer.sequence) }
        return (answer.requests ?? known?.requests ?? [], answer.unreadCount)
    }

    /// Returns one page of friend requests from the node (P21–P26). For façades whose API has pages.
    package func pendencyPage(
        since sequence: String?, after timestamp: Int64, limit: Int, type: Int
    ) async throws(PresenceError) -> (seq: String, timestamp: Int64, unreadCnt: Int, requests: [FriendRequest]) {
        let query = Wire.RequestQuery(seq: sequence, timestamp: timestamp, numPerPage: limit, type: type)
        let page = try await call("getPendencyList", query, as: Wire.RequestPage.self)
        return (page.seq, page.timestamp, page.unreadCnt, page.pendencyList)
    }

    // MARK: The client

    func attach(to client: PresenceClient) { state.withLock { $0.client = client } }

    /// The login has ended.
    func loginEnded() {
        state.withLock { state in
            state.mirror.reset()
            state.profiles.removeAll()
            state.endedLogins += 1
        }
    }

    /// Takes an event of the stream.
    func receive(_ news: RelationshipNews) {
        let lists = state.withLock { state in
            if case .profile(let user) = news { state.profiles.remove(user) }
            // Under the lock, so that no change passes one that a query has shown.
            if let change = news.change { broadcaster.send(.relationshipChanged(change)) }
            return keepsLists ? state.mirror.receive(news) : []
        }
        fetch(lists)
    }

    /// Makes a call of the client.
    func call<Answer: Decodable & Sendable>(
        _ operation: String, _ body: some Encodable & Sendable, as type: Answer.Type
    ) async throws(PresenceError) -> Answer {
        guard let client = state.withLock({ $0.client }) else { throw .closed("the client is gone") }
        // Also for an error: the change may have taken effect.
        defer { if let changed = Self.changedLists[operation] { state.withLock { $0.mirror.ownCallEnded(changed) } } }
        return try await client.call(operation, body, as: type)
    }

    /// The lists that a call may change, of those from which this client answers.
    private static let changedLists: [String: [RelationshipMirror.List]] = [
        "addFriend": [.friends, .requests], "doResponse": [.friends, .requests], "deleteFriends": [.friends], "modifyFriend": [.friends],
        "addBlackList": [.friends, .requests], "deletePendency": [.requests], "createFriendGroup": [.friends],
        "deleteFriendGroup": [.friends], "renameFriendGroup": [.friends], "addFriendsToFriendGroup": [.friends],
        "delFriendsFromFriendGroup": [.friends],
    ]

    /// Makes a call for each run of users. Returns the users that failed after the first run.
    func inBatches(
        _ userIDs: [String], _ body: ([String]) async throws(PresenceError) -> Void
    ) async throws(PresenceError) -> [UserError] {
        let batches = userIDs.batches(of: usersMax)
        for (index, batch) in batches.enumerated() {
            do { try await body(batch) } catch {
                guard index > 0, error.code != .cancelled else { throw error }
                return batches[index...].joined().map { UserError(userID: $0, code: error.code, reason: error.detail) }
            }
        }
        return []
    }

    // MARK: Profiles

    private var age: Duration { madeAt.duration(to: .now) }

    /// The profiles that were fetched and are not too old.
    func kept(_ userIDs: [String]) -> [UserProfile] {
        state.withLock { state in userIDs.compactMap { state.profiles.profile(of: $0, at: age) } }
    }

    func keep(_ profiles: [UserProfile]) { state.withLock { $0.profiles.store(profiles, at: age) } }

    // MARK: Lists

    private func fetch(_ lists: [RelationshipMirror.List]) {
        for list in lists { Task { await fetch(list) } }
    }

    private func fetch(_ list: RelationshipMirror.List) async {
        let (logins, held) = state.withLock { ($0.endedLogins, $0.mirror.held(list)) }
        /// Takes an answer, unless the login has ended meanwhile. Returns the lists to fetch next.
        func take(_ apply: (inout RelationshipMirror) -> [RelationshipMirror.List]) -> [RelationshipMirror.List]? {
            state.withLock { state in
                guard logins == state.endedLogins else { return nil }
                let next = apply(&state.mirror)
                if list == .friends { state.friendsFetchedAt = age }
                for change in state.mirror.takeMissed() + [.synced] { broadcaster.send(.relationshipChanged(change)) }
                return next
            }
        }
        do throws(PresenceError) {
            let next: [RelationshipMirror.List]?
            switch list {
            case .friends:
                let answer = try await changedFriends(since: held)
                next = take {
                    $0.fetchedFriends(answer.friendList, deleted: answer.deleted, isFull: answer.isFull, sequence: answer.seq)
                }
            case .requests:
                let answer = try await changedRequests(since: held)
                next = take {
                    $0.fetchedRequests(answer.requests, unreadCount: answer.unreadCount, sequence: answer.sequence)
                }
            case .blocked:
                let answer = try await blockedUsers()
                next = take { $0.fetchedBlocked(answer.users, sequence: answer.sequence) }
            case .groups:
                let answer = try await groupList()
                next = take { $0.fetchedGroups(answer.groupList, sequence: answer.seq) }
            }
            if let next { fetch(next) }
        } catch { await retry(list, logins) }
    }

    private func retry(_ list: RelationshipMirror.List, _ logins: Int) async {
        let isDue = state.withLock { state in
            if logins == state.endedLogins { state.mirror.failed(list) }
            return logins == state.endedLogins
        }
        guard isDue else { return }
        do { try await clock.sleep(for: Self.repeatInterval) } catch { return }
        fetch(state.withLock { state in logins == state.endedLogins ? state.mirror.due() : [] })
    }

    /// The friends that have changed since a sequence, or all of them.
    private func changedFriends(since sequence: String?, withProfiles: Bool = false) async throws(PresenceError) -> Wire.FriendPage {
        var query = Wire.FriendQuery(seq: sequence, withProfile: withProfiles)
        var answer = try await call("getFriendList", query, as: Wire.FriendPage.self)
        query.seq = nil
        while answer.isFull, let cursor = answer.cursor {
            query.cursor = cursor
            let page = try await call("getFriendList", query, as: Wire.FriendPage.self)
            answer.friendList += page.friendList
            answer.profiles += page.profiles
            answer.cursor = page.cursor
        }
        return answer
    }

    /// All requests, unless the sequence is the newest (P21–P25).
    private func changedRequests(
        since sequence: String?
    ) async throws(PresenceError) -> (requests: [FriendRequest]?, unreadCount: Int, sequence: String) {
        var requests: [FriendRequest] = []
        var query = Wire.RequestQuery(seq: sequence, timestamp: 0)
        let first = try await call("getPendencyList", query, as: Wire.RequestPage.self)
        guard first.seq != sequence else { return (nil, first.unreadCnt, first.seq) }
        var page = first
        while true {
            requests += page.pendencyList
            guard page.timestamp != 0 else { return (requests, first.unreadCnt, first.seq) }
            query.timestamp = page.timestamp
            page = try await call("getPendencyList", query, as: Wire.RequestPage.self)
        }
    }
}

extension Wire {
    struct FriendQuery: Encodable {
        var seq: String?
        var cursor: String?
        var limit = 100
        var withProfile = false
    }
    struct FriendPage: Decodable {
        private struct Profiled: Decodable { let profile: UserProfile? }
        private enum CodingKeys: String, CodingKey { case friendList, deleted, isFull, seq, cursor }

        var friendList: [Friend]
        /// Of the friends that came with one.
        var profiles: [UserProfile]
        let deleted: [String]
        let isFull: Bool
        let seq: String
        var cursor: String?

        init(from decoder: any Decoder) throws {
            let page = try decoder.container(keyedBy: CodingKeys.self)
            friendList = try page.decode([Friend].self, forKey: .friendList)
            profiles = try page.decode([Profiled].self, forKey: .friendList).compactMap(\.profile)
            deleted = try page.decode([String].self, forKey: .deleted)
            isFull = try page.decode(Bool.self, forKey: .isFull)
            seq = try page.decode(String.self, forKey: .seq)
            cursor = try page.decodeIfPresent(String.self, forKey: .cursor)
        }
    }
    struct RequestQuery: Encodable {
        var seq: String?
        var timestamp: Int64
        var numPerPage = 100
        var type = 3
    }
    struct RequestPage: Decodable {
        let seq: String
        let timestamp: Int64
        let unreadCnt: Int
        let pendencyList: [FriendRequest]
    }
}
