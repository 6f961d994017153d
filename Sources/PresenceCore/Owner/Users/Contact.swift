/// Whether a node can reach another replica of its users, if there is one.
enum Contact {
    /// It can reach one.
    case made
    /// It can reach none, though there are some.
    case lost
    /// It can reach one again. Users who went OFFLINE meanwhile must be reviewed.
    case regained
    /// It can reach none again, and the users have not been reviewed since the last time.
    case lostAgain

    var isLost: Bool { self == .lost || self == .lostAgain }

    mutating func note(isLost: Bool) {
        switch (self, isLost) {
        case (.made, true): self = .lost
        case (.regained, true): self = .lostAgain
        case (.lost, false), (.lostAgain, false): self = .regained
        case (.made, false), (.regained, false), (.lost, true), (.lostAgain, true): break
        }
    }

    /// Whether users must be reviewed, because a replica was reachable again. The caller then reviews them.
    mutating func takeReview() -> Bool {
        switch self {
        case .made, .lost: return false
        case .regained: self = .made
        case .lostAgain: self = .lost
        }
        return true
    }
}
