import PresenceWire

/// A page of all that the cluster holds about one user.
public struct UserExport: Equatable, Sendable {
    /// The open sessions; nil on a later page.
    let sessions: [UserSession]?
    /// The user's own facts. Each is a JSON object.
    let facts: [[UInt8]]
    /// The facts of other users that name the user.
    let mentions: [Mention]
    /// The end of the page; nil for the last page.
    let end: Position?

    /// The end of a page.
    public enum Position: Equatable, Sendable {
        /// The page ends behind a fact of the user.
        case facts(FactPosition)
        /// The page has all facts of the user, and the mentions of the slots before this one.
        case mentions(Slot)

        /// The form of ``text``, as a regular expression.
        static let pattern =
            "^(slot:[0-9a-f]{4}|fact:(" + Row.Kind.ofUsers.map(\.name).joined(separator: "|") + #"):[^\u0000-\u001f\u007f-\u009f]*)$"#

        /// Reads ``text``; nil for any other text.
        init?(text: String) {
            let parts = text.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false).map(String.init)
            if parts.count == 2, parts[0] == "slot", parts[1].utf8.count == 4, let slot = Slot(parts[1], radix: 16) {
                self = .mentions(slot)
            } else if parts.count == 3, parts[0] == "fact", let kind = Row.Kind(name: parts[1]) {
                self = .facts(FactPosition(kind: kind, key: parts[2]))
            } else {
                return nil
            }
        }

        /// The cursor as back ends receive it.
        var text: String {
            switch self {
            case .facts(let position): "fact:\(position.kind.name):\(position.key)"
            case .mentions(let slot): "slot:" + String(0x10000 + Int(slot), radix: 16).dropFirst()
            }
        }
    }
}
