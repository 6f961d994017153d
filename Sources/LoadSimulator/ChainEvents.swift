import PresenceWire

/// The events that tell a session a change of its relationships or of a profile. The raw values are the names.
enum ChainEvent: String, CaseIterable {
    case friendListAdded = "onFriendListAdded"
    case friendListDeleted = "onFriendListDeleted"
    case friendInfoChanged = "onFriendInfoChanged"
    case applicationListAdded = "onFriendApplicationListAdded"
    case applicationListDeleted = "onFriendApplicationListDeleted"
    case applicationListRead = "onFriendApplicationListRead"
    case blackListAdded = "onBlackListAdded"
    case blackListDeleted = "onBlackListDeleted"
    case profileChanged = "onUserProfileChanged"
    case relationshipState = "onRelationshipState"
}

/// The sequences of its lists that each user's session has been told.
///
/// An event of a list carries the sequence before and after the change. A session that holds the newest sequence, and has seen no gap since
/// ``ChainEvent/relationshipState``, was told every change.
struct ToldSequences {
    private(set) var counts: [ChainEvent: Int] = [:]
    /// Events whose `fromSeq` is not the sequence that the session holds. A client fetches what it lacks.
    private(set) var gaps = 0
    private var held: [ListSequences]

    init(users: Int) { held = Array(repeating: ListSequences(), count: users) }

    /// Takes an event of a user's session. Returns false if its data is not as documented.
    mutating func receive(_ event: ChainEvent, _ data: JSONValue?, by user: Int) -> Bool {
        guard let data else { return false }
        counts[event, default: 0] += 1
        let text = { (name: String) -> String? in if case .string(let text)? = data[name] { text } else { nil } }
        switch event {
        case .friendListAdded, .friendListDeleted, .friendInfoChanged:
            return advance(\.friends, of: user, from: text("fromSeq"), to: text("seq"))
        case .applicationListAdded, .applicationListDeleted:
            return advance(\.requests, of: user, from: text("fromSeq"), to: text("seq"))
        case .relationshipState:
            held[user] = ListSequences(friends: text("friendSeq"), requests: text("pendencySeq"))
            return held[user].friends != nil && held[user].requests != nil
        case .applicationListRead, .blackListAdded, .blackListDeleted, .profileChanged: return true
        }
    }

    private mutating func advance(
        _ list: WritableKeyPath<ListSequences, String?>, of user: Int, from before: String?, to after: String?
    ) -> Bool {
        guard let before, let after else { return false }
        // The state that a session is told at its beginning may include changes whose events follow.
        if held[user][keyPath: list] == after { return true }
        if held[user][keyPath: list] != before { gaps += 1 }
        held[user][keyPath: list] = after
        return true
    }

    /// Compares what each session was told with the lists, for the users that `users` selects.
    func differences(
        _ lists: [AnsweredLists?], population: Population, users: (Int) -> Bool
    ) -> [RelationshipLedger.Difference] {
        population.members.compactMap { user in
            guard users(user), let sequences = lists[user]?.sequences, held[user] != sequences else { return nil }
            let list = held[user].friends != sequences.friends ? "friends" : "requests"
            return RelationshipLedger.Difference(
                users: [user], text: "events: \(population.name(of: user)) was not told the last change of its \(list)")
        }
    }
}
