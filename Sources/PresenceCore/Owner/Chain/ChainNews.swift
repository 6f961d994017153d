import PresenceWire

/// The changes of one user's lists that one write makes, and the events about them (P38–P42).
///
/// Every session of the user receives them once the rows are on two disks (R6). An event names the sequence of its list before and after,
/// so that a client which sees a gap fetches what it lacks.
struct ChainNews {
    private struct Change {
        let row: Row
        let event: RelationshipNotice.Event
        /// The versions before the change, and after it.
        let from: RelationshipState
        let to: RelationshipState
    }

    private var changes: [Change] = []
    /// Whether a group, or the friends of one, have changed.
    private(set) var changesGroups = false
    /// Whether a sequence has moved without an event that says how.
    private var movesSequence = false

    /// Has the sessions told of the newest sequences, because one has moved without an event that says how.
    mutating func noteState() { movesSequence = true }

    /// Adds a changed row.
    ///
    /// - Parameters:
    ///   - held: the row before; nil for none.
    ///   - old: the versions before the change.
    ///   - new: the versions after it.
    mutating func note(_ row: Row, insteadOf held: RowList.Entry?, from old: RelationshipState, to new: RelationshipState) {
        let wasThere = held.map { !$0.isRemoved } ?? false
        switch row.kind {
        case .friendGroup: changesGroups = changesGroups || wasThere || row.value != nil
        case .friend: changesGroups = changesGroups || row.movesMember(insteadOf: held)
        default: break
        }
        guard let event = Self.event(of: row, wasThere: wasThere) else { return }
        changes.append(Change(row: row, event: event, from: old, to: new))
    }

    /// The event about a row; nil if clients are told nothing of its kind.
    private static func event(of row: Row, wasThere: Bool) -> RelationshipNotice.Event? {
        let isThere = row.value != nil
        switch row.kind {
        // A removal that finds nothing moves no sequence.
        case .friend: return isThere ? (wasThere ? .friendsChanged : .friendsAdded) : (wasThere ? .friendsDeleted : nil)
        case .pendencyIn, .pendencyOut: return isThere ? .requestsAdded : (wasThere ? .requestsDeleted : nil)
        case .pendencyRead: return isThere ? .requestsRead : nil
        case .blocked: return isThere == wasThere ? nil : (isThere ? .blockedAdded : .blockedDeleted)
        case .friendGroup, .chainOutbox, .profile, .profileSubscription, .webhookLog, .answeredCall, .deletion: return nil
        case .status, .visibility, .subscription, .member, .clock, .policy, .kick: return nil
        }
    }

    /// The events, in the order of the changes. Changes of one kind that follow each other make one event.
    ///
    /// - Parameter groups: the groups after the changes.
    func notices(groups: FriendGroups) -> [RelationshipNotice] {
        var notices: [RelationshipNotice] = []
        var rest = changes[...]
        while let first = rest.first {
            let group = Array(rest.prefix { $0.event == first.event && $0.row.kind == first.row.kind })
            rest = rest.dropFirst(group.count)
            let state = group[group.count - 1].to
            notices.append(RelationshipNotice(first.event, state, data: first.event == .state ? [] : Self.data(group, state, groups)))
        }
        return notices
    }

    /// The users about whom there is an event.
    private func users(with event: RelationshipNotice.Event) -> [UserID] {
        changes.filter { $0.event == event }.map { UserID($0.row.key, besides: $0.row.user) }
    }

    private static func data(_ group: [Change], _ state: RelationshipState, _ groups: FriendGroups) -> [UInt8] {
        let event = group[0].event
        var json = JSONWriter(reserving: 128 + 160 * group.count)
        json.object { json in
            switch event {
            case .friendsAdded, .friendsChanged:
                json.array("friendList", group) { $0.friend($1.row, in: groups) }
            case .requestsAdded:
                json.array("pendencyList", group) { $0.request($1.row) }
            case .friendsDeleted, .requestsDeleted, .blockedAdded, .blockedDeleted:
                json.array("userIDs", group) { $0.string($1.row.key) }
                if event == .requestsDeleted { json.member("type", Int64(FriendRequestKind(group[0].row.kind).rawValue)) }
            case .requestsRead:
                if let read = try? ReadRequests(group[group.count - 1].row) { json.member("timestamp", read.timestamp) }
            case .state, .groupsChanged: break
            }
            if let list = event.list {
                json.member("fromSeq", group[0].from.sequence(of: list))
                json.member("seq", state.sequence(of: list))
            }
            if event.list == .requests || event == .requestsRead { json.member("unreadCnt", Int64(state.unreadCount)) }
        }
        return json.bytes
    }
}

extension OwnedUser {
    /// The newest versions of the user's chain and profile.
    var relationship: RelationshipState {
        var state = RelationshipState()
        guard !lists.isEmpty else { return state }
        (state.friends, state.groups, state.blocked) = (list(.friend).version, list(.friendGroup).version, list(.blocked).version)
        (state.received, state.sent) = (list(.pendencyIn).version, list(.pendencyOut).version)
        (state.read, state.profile) = (list(.pendencyRead).version, list(.profile).version)
        state.unreadCount = lists.unreadCount
        return state
    }
}

extension ChainNews {
    /// Has the user's sessions told of the changes once the rows in the outbox are on two disks.
    ///
    /// - Parameters:
    ///   - isSilent: whether the sessions only begin and cease to follow profiles.
    ///   - tellsWebhook: whether the changes are events of the app's webhook.
    func tell(_ user: Owner.Index, isSilent: Bool, tellsWebhook: Bool, of owner: inout Owner, in turn: inout Turn) {
        let id = owner.users.user(at: user)
        let groups = FriendGroups(owner.users[user].list(.friendGroup), of: id)
        var notices = isSilent ? [] : notices(groups: groups)
        if changesGroups, !isSilent {
            let state = owner.users[user].relationship
            let data = groups.json(of: owner.users[user].list(.friend), of: id, sequence: state.sequence(of: .groups))
            notices.append(RelationshipNotice(.groupsChanged, state, data: data))
        }
        if movesSequence, !isSilent { notices.append(RelationshipNotice(.state, owner.users[user].relationship)) }
        let policy = owner.policies.policy(of: id)
        guard !notices.isEmpty || isSilent, policy.chain.isEnabled else { return }
        if tellsWebhook, policy.tellsWebhook(.friends) {
            WebhookNews(user: user, now: turn.now).add(notices, by: &owner, into: &turn.outbox)
        }
        guard !owner.users[user].streams.isEmpty else { return }
        var update = ListUpdate(user: id, version: owner.users[user].followsVersion, isWhole: false, added: [], removed: [])
        update.notices = notices
        follow(user, in: &update, by: owner, at: turn.now)
        turn.outbox.sendWhenStored(update, to: owner.users[user].sessionPeers)
        owner.modify(user) { $0.unpublishedCount += 1 }
    }
}

extension ChainNews {
    /// Has the sessions follow new friends, and no longer former ones.
    private func follow(_ user: Owner.Index, in update: inout ListUpdate, by owner: borrowing Owner, at now: Now) {
        let (added, deleted) = (users(with: .friendsAdded), users(with: .friendsDeleted))
        update.profiles = added
        update.removedProfiles = ProfileFollows(user: user).unfollowed(deleted, by: owner)
        guard FriendFollows(user: user).areTold(by: owner) else { return }
        let subscriptions = owner.subscriptions(of: user)
        update.profiles.removeAll { !subscriptions.contains($0) }
        update.added = added.filter { !subscriptions.contains($0) }.map {
            ListUpdate.Followed(friend: $0, since: update.version.milliseconds)
        }
        update.removed = deleted.filter { !subscriptions.contains($0) }
        update.formerFriends = update.removed.map { ListUpdate.Followed(friend: $0, since: now.wall) }
    }
}

extension Row {
    /// Whether a friend joins or leaves a group by this row.
    func movesMember(insteadOf held: RowList.Entry?) -> Bool {
        guard kind == .friend else { return false }
        // A tombstone has no groups. To read it as a friend would only make the text of an error.
        let groups: [FriendGroupID] = value == nil ? [] : (try? Friend(self))?.groupIDs ?? []
        return (held?.fact(of: user) as Friend?)?.groupIDs ?? [] != groups
    }
}

extension FriendGroups {
    /// Most friends that an event names. An event with more leaves them out, and the client reads the groups.
    private static let namedMax = 1_000

    /// The data of the event about changed groups: all groups, with their friends, and the sequence of the groups.
    func json(of friends: RowList, of user: UserID, sequence: String) -> [UInt8] {
        let members = members(of: groups, in: friends, of: user)
        let isNamed = members.reduce(0) { $0 + $1.count } <= Self.namedMax
        return Self.json(groups, members, isNamed: isNamed, sequence: sequence)
    }

    /// Groups with their friends, and the sequence of the groups.
    static func json(_ groups: [Group], _ members: [[String]], isNamed: Bool = true, sequence: String) -> [UInt8] {
        var json = JSONWriter(reserving: 1_024)
        json.object { json in
            json.array("groupList", zip(groups, members)) { $0.group($1.0, $1.1, isNamed: isNamed) }
            json.member("seq", sequence)
        }
        return json.bytes
    }
}

extension JSONWriter {
    /// Writes a friend as clients receive it. A row of a list was checked when it was stored.
    fileprivate mutating func friend(_ row: Row, in groups: FriendGroups) {
        if let friend = try? Friend(row) { self.friend(friend, row.key, in: groups) }
    }
}
