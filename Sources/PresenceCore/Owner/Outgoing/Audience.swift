import PresenceWire

/// The nodes that receive a changed record.
enum Audience {
    /// Every other node, and this one if it watches the user.
    ///
    /// No node may show the hidden fields any more, not even one that has not registered its view yet. The owner sends such a record to
    /// every node itself, because the answer waits for all of them.
    case everyNode(isWatchedHere: Bool)
    /// The nodes that watch the user. `others` are the other nodes among them.
    case watchers(isWatchedHere: Bool, others: [PeerIndex])

    /// - Parameter watchers: the nodes that watch the user, sorted; this node is 0.
    init(of record: Record, watchers: [PeerIndex]) {
        let isWatchedHere = watchers.first == 0
        self =
            record.changesPrivacy
            ? .everyNode(isWatchedHere: isWatchedHere)
            : .watchers(isWatchedHere: isWatchedHere, others: watchers.filter { $0 != 0 })
    }

    /// Whether a gateway of this node watches the user.
    var isWatchedHere: Bool {
        switch self {
        case .everyNode(let isWatchedHere), .watchers(let isWatchedHere, _): isWatchedHere
        }
    }
}
