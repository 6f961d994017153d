/// The classification of the kinds of rows. ``place`` is the only table of the kinds; all else follows from it.
extension Row.Kind {
    /// The part of the state that holds the rows of a kind.
    public enum Place: Equatable, Sendable {
        /// The user's record.
        case record
        /// The visibility in the user's record.
        case visibility
        /// The user's subscriptions to statuses.
        case subscriptions
        /// A list of the user for each kind. If the list has a sequence, clients synchronize it.
        case list(key: Key, hasSequence: Bool)
        /// The one node that wrote the row.
        case node
        /// Every node, whichever node wrote the row.
        case everyNode
    }

    /// The content of the key of a row in a list.
    public enum Key: Sendable {
        /// The key is empty: the list has one row.
        case none
        /// The ID of another user.
        case user
        /// The number of a group of friends.
        case group
        /// The key of a call.
        case call
    }

    /// The part of the state that holds the rows of this kind.
    public var place: Place {
        switch self {
        case .status: .record
        case .visibility: .visibility
        case .subscription: .subscriptions
        case .friend, .pendencyIn, .pendencyOut, .blocked: .list(key: .user, hasSequence: true)
        case .friendGroup: .list(key: .group, hasSequence: true)
        case .chainOutbox, .profileSubscription: .list(key: .user, hasSequence: false)
        case .profile, .pendencyRead, .webhookLog, .deletion: .list(key: .none, hasSequence: false)
        case .answeredCall: .list(key: .call, hasSequence: false)
        case .member, .clock: .node
        case .policy, .kick: .everyNode
        }
    }

    /// The kinds of facts of a user, which replicas keep too.
    public static let ofUsers = allCases.filter(\.isOfUser)

    /// Whether the fact is about a user, so that replicas keep it too.
    public var isOfUser: Bool {
        switch place {
        case .record, .visibility, .subscriptions, .list: true
        case .node, .everyNode: false
        }
    }

    /// Whether every node keeps the fact, whichever node wrote it.
    public var isForAll: Bool { place == .everyNode }

    /// Whether clients synchronize the list of this kind by its sequence.
    public var hasSequence: Bool { if case .list(_, let hasSequence) = place { hasSequence } else { false } }
}
