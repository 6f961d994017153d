import PresenceWire

/// The contents that nodes have sent under each sequence of a user's lists.
///
/// A client keeps its list while the sequence stays. So one sequence has one content, whichever node answers.
struct SequenceContents {
    private struct Key: Hashable {
        let user: Int
        let list: String
        let sequence: String
    }

    private var told: [Key: JSONValue] = [:]

    /// The content that was sent under a sequence; nil if none was.
    func content(of list: String, _ user: Int, at sequence: String) -> JSONValue? {
        told[Key(user: user, list: list, sequence: sequence)]
    }

    /// Records a content. Returns another one that was sent before under the same sequence; nil for none.
    mutating func problem(with content: JSONValue, of list: String, _ user: Int, at sequence: String) -> JSONValue? {
        let key = Key(user: user, list: list, sequence: sequence)
        guard let before = told[key] else {
            told[key] = content
            return nil
        }
        return before == content ? nil : before
    }
}
