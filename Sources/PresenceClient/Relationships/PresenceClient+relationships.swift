/// The own relationship chain as state: see ``Relationships``.
extension PresenceClient {
    /// The time after which a list that could not be fetched is asked for again.
    private static let repeatInterval = Duration.seconds(30)

    /// The own friends, requests, blocklist and groups. They are kept only with ``ClientConfiguration/keepsRelationships``, and are
    /// right once ``RelationshipChange/synced`` has come after a login.
    public var relationships: Relationships { mirror.state }

    /// The changes of the own relationship chain, and of profiles.
    public nonisolated var relationshipChanges: Feed<RelationshipChange> {
        broadcaster.feed { if case .relationshipChanged(let change) = $0 { change } else { nil } }
    }

    /// Takes an event of the stream.
    func receive(_ news: RelationshipNews) {
        if case .profile(let user) = news { profiles.remove(user) }
        if configuration.keepsRelationships { fetch(mirror.receive(news)) }
        if let change = news.change { broadcaster.send(.relationshipChanged(change)) }
    }

    private func fetch(_ lists: [RelationshipMirror.List]) {
        for list in lists { Task { await fetch(list) } }
    }

    private func fetch(_ list: RelationshipMirror.List) async {
        let logins = endedLoginsCount
        do throws(PresenceError) {
            let next: [RelationshipMirror.List]
            switch list {
            case .friends:
                let answer = try await changedFriends(since: mirror.held(.friends))
                guard logins == endedLoginsCount else { return }
                next = mirror.fetchedFriends(
                    answer.friendList, deleted: answer.deleted, isFull: answer.isFull, sequence: answer.seq)
            case .requests:
                let answer = try await changedRequests(since: mirror.held(.requests))
                guard logins == endedLoginsCount else { return }
                next = mirror.fetchedRequests(answer.requests, unreadCount: answer.unreadCount, sequence: answer.sequence)
            case .blocked:
                let users = try await getBlackList()
                guard logins == endedLoginsCount else { return }
                next = mirror.fetchedBlocked(users)
            case .groups:
                let groups = try await getFriendGroups()
                guard logins == endedLoginsCount else { return }
                next = mirror.fetchedGroups(groups)
            }
            fetch(next)
            broadcaster.send(.relationshipChanged(.synced))
        } catch {
            guard logins == endedLoginsCount else { return }
            mirror.failed(list)
            do { try await configuration.clock.sleep(for: Self.repeatInterval) } catch { return }
            guard logins == endedLoginsCount else { return }
            fetch(mirror.due())
        }
    }

    /// Returns all friends (P9), by user ID: those that the client keeps, or those of the node.
    public func getFriendList() async throws(PresenceError) -> [Friend] {
        if mirror.state.isComplete { return mirror.state.friends }
        return try await changedFriends(since: nil).friendList
    }

    /// Returns the friend requests (P21), with the number of those that were not read: those that the client keeps, or those of the node.
    public func getPendencyList() async throws(PresenceError) -> (requests: [FriendRequest], unreadCount: Int) {
        if mirror.state.isComplete { return (mirror.state.requests, mirror.state.unreadCount) }
        let answer = try await changedRequests(since: nil)
        return (answer.requests ?? [], answer.unreadCount)
    }

    /// Returns one page of friend requests from the node (P21–P26). For façades whose API has pages.
    package func pendencyPage(
        since sequence: String?, after timestamp: Int64, limit: Int, type: Int
    ) async throws(PresenceError) -> (seq: String, timestamp: Int64, unreadCnt: Int, requests: [FriendRequest]) {
        let query = Wire.RequestQuery(seq: sequence, timestamp: timestamp, numPerPage: limit, type: type)
        let page = try await call("getPendencyList", query, as: Wire.RequestPage.self)
        return (page.seq, page.timestamp, page.unreadCnt, page.pendencyList)
    }

    /// The friends that have changed since a sequence, or all of them.
    private func changedFriends(since sequence: String?) async throws(PresenceError) -> Wire.FriendPage {
        var answer = try await friendPage(Wire.FriendQuery(seq: sequence))
        while answer.isFull, let cursor = answer.cursor {
            let page = try await friendPage(Wire.FriendQuery(cursor: cursor))
            answer.friendList += page.friendList
            answer.cursor = page.cursor
        }
        return answer
    }

    private func friendPage(_ query: Wire.FriendQuery) async throws(PresenceError) -> Wire.FriendPage {
        try await call("getFriendList", query, as: Wire.FriendPage.self)
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
    }
    struct FriendPage: Decodable {
        var friendList: [Friend]
        let deleted: [String]
        let isFull: Bool
        let seq: String
        var cursor: String?
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
