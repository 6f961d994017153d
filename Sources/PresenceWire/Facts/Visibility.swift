/// The rule of a user that says which viewers may see the user.
///
/// The user sets the mode and the list. The friends and the blocked users follow from the rows of the relationship chain.
public struct Visibility: Hashable, Sendable {
    /// The viewers whom a user admits.
    public enum Mode: String, CaseIterable, Sendable {
        case everyone, friends, list, nobody
    }

    /// See ``Mode``.
    public var mode = Mode.everyone
    /// Whether the user is hidden from everyone for now. ``mode`` applies again afterwards.
    public var isInvisible = false
    /// The viewers of ``Mode/list``: sorted, each once, at most ``Limits/visibilityUsersMax``.
    public var listed: [UserID] = []
    /// The viewers of ``Mode/friends``, sorted: the user's friend list, as the owner last published it.
    ///
    /// Nil with another mode. Nil also on a node that has read the visibility from a row: the row does not repeat the friend list. Such a
    /// node shows the user to nobody, and the next owner reads the friends from their rows.
    public var friends: [UserID]?
    /// The users who may never see the user, sorted. The blocklist of the relationship chain fills the list.
    public var blocked: [UserID] = []

    /// Makes a visibility that admits everyone.
    public init() {}

    /// Whether `viewer`, another user, may see the user.
    public func lets(_ viewer: UserID) -> Bool {
        guard !isInvisible, !blocked.containsSorted(viewer) else { return false }
        return switch mode {
        case .everyone: true
        case .friends: friends?.containsSorted(viewer) ?? false
        case .list: listed.containsSorted(viewer)
        case .nobody: false
        }
    }

    /// Whether the user has blocked a viewer.
    func blocks(_ viewer: UserID) -> Bool { blocked.containsSorted(viewer) }

    /// Whether users that no list names may see the user.
    var letsOthers: Bool { mode == .everyone && !isInvisible }

    /// Whether the user has chosen the same: the friends and the blocked users may differ.
    public func isSameChoice(as other: Visibility) -> Bool {
        mode == other.mode && isInvisible == other.isInvisible && listed == other.listed
    }

    fileprivate var named: [UserID] { listed + (friends ?? []) + blocked }

    /// The users whom `new` may admit otherwise than this visibility, apart from those whom neither names; sorted.
    ///
    /// If only the lists have changed these are the users on one of the two lists. The others need not be compared.
    func changedUsers(by new: Visibility) -> [UserID] {
        guard mode == new.mode, isInvisible == new.isInvisible else { return (named + new.named).sortedSet }
        let changed =
            listed.difference(fromSorted: new.listed) + (friends ?? []).difference(fromSorted: new.friends ?? [])
            + blocked.difference(fromSorted: new.blocked)
        return changed.sortedSet
    }

    /// The viewers whom this visibility admits and `new` excludes, apart from those whom neither names; sorted.
    public func excluded(by new: Visibility) -> [UserID] { changedUsers(by: new).filter { lets($0) && !new.lets($0) } }

    /// Whether `new` excludes a viewer whom this visibility admits.
    public func isClosed(by new: Visibility) -> Bool {
        guard new.letsOthers || !letsOthers else { return true }
        return !excluded(by: new).isEmpty
    }

    /// A change of a visibility. A nil field stays unchanged. Lists may have any order.
    public struct Change: Hashable, Sendable {
        public var mode: Mode?
        public var isInvisible: Bool?
        public var listed: [UserID]?
        public var blocked: [UserID]?

        public init(mode: Mode? = nil, isInvisible: Bool? = nil, listed: [UserID]? = nil, blocked: [UserID]? = nil) {
            self.mode = mode
            self.isInvisible = isInvisible
            self.listed = listed
            self.blocked = blocked
        }

        /// This change and a later one as one change.
        public func followed(by later: Change) -> Change {
            Change(
                mode: later.mode ?? mode, isInvisible: later.isInvisible ?? isInvisible, listed: later.listed ?? listed,
                blocked: later.blocked ?? blocked)
        }
    }

    public func changed(by change: Change) -> Visibility {
        var changed = self
        if let mode = change.mode { changed.mode = mode }
        if changed.mode != .friends { changed.friends = nil }
        if let isInvisible = change.isInvisible { changed.isInvisible = isInvisible }
        if let listed = change.listed { changed.listed = listed.sortedSet }
        if let blocked = change.blocked { changed.blocked = blocked.sortedSet }
        return changed
    }
}

extension [UserID] {
    var sortedSet: [UserID] {
        var result: [UserID] = []
        for user in sorted() where result.last != user { result.append(user) }
        return result
    }

    /// The elements that only one of two sorted arrays has, sorted.
    fileprivate func difference(fromSorted other: [UserID]) -> [UserID] {
        var (result, position) = ([UserID](), 0)
        for user in self {
            while position < other.count, other[position] < user {
                result.append(other[position])
                position += 1
            }
            if position < other.count, other[position] == user { position += 1 } else { result.append(user) }
        }
        return result + other[position...]
    }

    fileprivate func containsSorted(_ user: UserID) -> Bool {
        let index = insertionIndex { $0 < user }
        return index < count && self[index] == user
    }
}
