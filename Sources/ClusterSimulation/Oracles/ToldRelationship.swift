import PresenceWire

/// The relationship chain of a user as one stream has told it.
///
/// A client that sees a gap, or a newer state, fetches the list. This one goes on without it, and knows the list again at a sequence that
/// its client has read before.
struct ToldRelationship {
    private(set) var session: SessionID?
    /// The sequences; empty before the first state.
    private(set) var friendSequence = ""
    private(set) var requestSequence = ""
    private(set) var groupSequence = ""
    private(set) var blockSequence = ""
    private(set) var unreadCount: Int64 = 0
    /// The users on each list; nil if the client must fetch it.
    private(set) var friends: Set<String>?
    private(set) var received: Set<String>?
    private(set) var sent: Set<String>?
    private(set) var blocked: Set<String>?

    init(session: SessionID? = nil) { self.session = session }

    /// The sequence of a list as the stream has told it; empty before the first state.
    func sequence(of list: RelationshipState.List) -> String {
        switch list {
        case .friends: friendSequence
        case .requests: requestSequence
        case .groups: groupSequence
        case .blocked: blockSequence
        }
    }

    /// Reads an event of the chain. Returns the reason why the client must fetch a list, in words; nil for none.
    ///
    /// - Parameter known: the friends at a sequence, if the client has read that list.
    mutating func read(_ name: String, _ data: JSONValue, on session: SessionID, known: (String) -> Set<String>?) -> String? {
        if session != self.session { self = ToldRelationship(session: session) }
        if case .integer(let count)? = data["unreadCnt"] { unreadCount = count }
        switch name {
        case "onRelationshipState": takeState(data, known)
        case "onFriendListAdded", "onFriendInfoChanged", "onFriendListDeleted": return readFriends(name, data)
        case "onFriendApplicationListAdded", "onFriendApplicationListDeleted": return readRequests(data)
        case "onBlackListAdded", "onBlackListDeleted": return readBlocklist(name, data)
        // The event has all groups.
        case "onFriendGroupsChanged": groupSequence = data["seq"]?.text ?? ""
        default: break
        }
        return nil
    }

    private mutating func takeState(_ data: JSONValue, _ known: (String) -> Set<String>?) {
        let (friendSequence, requestSequence) = (data["friendSeq"]?.text ?? "", data["pendencySeq"]?.text ?? "")
        if friendSequence != self.friendSequence { friends = known(friendSequence) }
        if requestSequence != self.requestSequence {
            let isEmpty = requestSequence == RelationshipState().sequence(of: .requests)
            (received, sent) = isEmpty ? ([], []) : (nil, nil)
        }
        (self.friendSequence, self.requestSequence) = (friendSequence, requestSequence)
        groupSequence = data["groupsVersion"]?.text ?? ""
        let blockSequence = data["blockVersion"]?.text ?? ""
        if blockSequence != self.blockSequence {
            blocked = blockSequence == RelationshipState().sequence(of: .blocked) ? [] : nil
        }
        self.blockSequence = blockSequence
    }

    private mutating func readFriends(_ name: String, _ data: JSONValue) -> String? {
        let gap = Self.gap(data, friendSequence)
        friendSequence = data["seq"]?.text ?? ""
        if gap != nil { friends = nil }
        for friend in data["friendList"]?.elements ?? [] { friends?.insert(friend["userID"]?.text ?? "") }
        for id in data["userIDs"]?.elements ?? [] { friends?.remove(id.text ?? "") }
        return gap
    }

    private mutating func readRequests(_ data: JSONValue) -> String? {
        let gap = Self.gap(data, requestSequence)
        requestSequence = data["seq"]?.text ?? ""
        if gap != nil { (received, sent) = (nil, nil) }
        for request in data["pendencyList"]?.elements ?? [] {
            let id = request["userID"]?.text ?? ""
            if request["type"] == .integer(1) { received?.insert(id) } else { sent?.insert(id) }
        }
        for id in data["userIDs"]?.elements ?? [] {
            if data["type"] == .integer(1) { received?.remove(id.text ?? "") } else { sent?.remove(id.text ?? "") }
        }
        return gap
    }

    private mutating func readBlocklist(_ name: String, _ data: JSONValue) -> String? {
        let gap = Self.gap(data, blockSequence)
        blockSequence = data["seq"]?.text ?? ""
        if gap != nil { blocked = nil }
        for id in data["userIDs"]?.elements ?? [] {
            if name == "onBlackListAdded" { blocked?.insert(id.text ?? "") } else { blocked?.remove(id.text ?? "") }
        }
        return gap
    }

    private static func gap(_ data: JSONValue, _ sequence: String) -> String? {
        let from = data["fromSeq"]?.text ?? ""
        return from == sequence ? nil : "an event begins at \(from), and the stream was told \(sequence.isEmpty ? "no state" : sequence)"
    }
}
