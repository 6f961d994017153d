/// Whether a node can reach another node that keeps the same users, where there is one.
enum Contact {
    /// A node can be reached.
    case made
    /// No node can be reached, though there are some.
    case lost
    /// A node can be reached again: users who went OFFLINE meanwhile are to be reviewed.
    case regained
    /// No node can be reached, and the users have not been reviewed since the last time.
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

    /// Whether users are to be reviewed because contact was regained. Called when the caller reviews them.
    mutating func takeReview() -> Bool {
        switch self {
        case .made, .lost: return false
        case .regained: self = .made
        case .lostAgain: self = .lost
        }
        return true
    }
}
