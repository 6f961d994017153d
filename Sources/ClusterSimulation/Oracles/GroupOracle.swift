import PresenceWire

/// The names that certainly have a group, or certainly have none, by the answers of each user's calls.
///
/// Its inputs are the begin of a call and its answer. Calls about one name that overlap leave the name uncertain until a later call.
struct GroupOracle {
    /// The knowledge about one name.
    private struct Name {
        /// Whether a group has the name; nil if that is uncertain.
        var isTaken: Bool? = false
        /// The time of the answer that says it.
        var since = Nanoseconds.min
        /// The calls about the name that have no answer. A call without an answer stays open: it may take effect later.
        var openCount = 0
        /// Whether another call about the name was open when the last one began.
        var hasOverlap = false
    }

    /// The calls of one user that may change what the list says about friends.
    private struct Changes {
        var askedCount = 0
        /// Those that have no answer. A call without an answer stays open: it may take effect later.
        var openCount = 0

        /// The number of calls; nil while one is open.
        var mark: Int? { openCount == 0 ? askedCount : nil }
    }

    /// The numbers of a user's calls. As long as a number stays, so does what those calls may change. It is nil while one of them is open.
    struct Marks: Equatable {
        /// The calls about groups.
        let groups: Int?
        /// The calls about the remarks of friends.
        let remarks: Int?
    }

    /// The friends and groups that back ends have brought.
    var brought = BroughtFriends()
    /// By user.
    private var names: [Int: [String: Name]] = [:]
    private var groupChanges: [Int: Changes] = [:]
    private var remarkChanges: [Int: Changes] = [:]

    mutating func ask(_ call: FriendCall, by user: Int) {
        if call.changesGroups { Self.begin(in: &groupChanges[user, default: Changes()]) }
        if call.changesRemark { Self.begin(in: &remarkChanges[user, default: Changes()]) }
        for text in call.changedGroups {
            var name = names[user, default: [:]][text] ?? Name()
            name.hasOverlap = name.openCount > 0
            name.openCount += 1
            name.isTaken = nil
            names[user, default: [:]][text] = name
        }
    }

    private static func begin(in changes: inout Changes) {
        changes.askedCount += 1
        changes.openCount += 1
    }

    mutating func answered(_ result: FriendCallResult, to call: FriendCall, by user: Int, at now: Nanoseconds) {
        end(call, by: user, isDone: result.code == .done, at: now)
    }

    /// Records that a call was refused, and has changed nothing.
    mutating func refused(_ call: FriendCall, by user: Int, at now: Nanoseconds) { end(call, by: user, isDone: false, at: now) }

    private mutating func end(_ call: FriendCall, by user: Int, isDone: Bool, at now: Nanoseconds) {
        if call.changesGroups { groupChanges[user, default: Changes()].openCount -= 1 }
        if call.changesRemark { remarkChanges[user, default: Changes()].openCount -= 1 }
        for text in call.changedGroups {
            guard var name = names[user]?[text] else { continue }
            name.openCount -= 1
            let isCertain = isDone && name.openCount == 0 && !name.hasOverlap
            name.isTaken = isCertain ? call.leavesGroup(named: text) : nil
            name.since = now
            names[user]?[text] = name
        }
    }

    /// Whether a user certainly has a group of a name, and had it at a moment; nil if that is uncertain.
    func hasGroup(named text: String, _ user: Int, askedAt moment: Nanoseconds) -> Bool? {
        let name = names[user]?[text] ?? Name()
        return name.since <= moment ? name.isTaken : nil
    }

    /// The marks by which one can tell whether the groups and the remarks of a user's friends have stayed.
    func marks(of user: Int) -> Marks {
        Marks(groups: groupChanges[user, default: Changes()].mark, remarks: remarkChanges[user, default: Changes()].mark)
    }

    /// The difference of groups that a user has read from what was certain when it asked, in words; nil for none.
    func problem(with groups: JSONValue, of user: Int, askedAt moment: Nanoseconds) -> String? {
        let listed = (groups["groupList"]?.elements ?? []).compactMap { $0["name"]?.text }
        for (text, name) in (names[user] ?? [:]).sorted(by: { $0.key < $1.key }) {
            guard let isTaken = name.isTaken, name.since <= moment, listed.contains(text) != isTaken else { continue }
            return "user-\(user) reads the groups \(listed), and it was acknowledged that \(text) is \(isTaken ? "one" : "none") of them"
        }
        return nil
    }
}

extension FriendCall {
    /// Whether the call may change what the list says about a friend, besides the groups.
    fileprivate var changesRemark: Bool { if case .modifyFriend = self { true } else { false } }

    /// Whether the call may change a group, or the groups of a friend.
    fileprivate var changesGroups: Bool {
        switch self {
        case .createGroups, .deleteGroups, .renameGroup, .addToGroup, .removeFromGroup: true
        case .modifyFriend(_, let change): change.groups != nil
        default: false
        }
    }

    /// The names that the call may give to a group, or take from one.
    fileprivate var changedGroups: [String] {
        switch self {
        case .createGroups(let names, _), .deleteGroups(let names): names
        case .renameGroup(let old, let new): old == new ? [old] : [old, new]
        default: []
        }
    }

    /// Whether a group has a name that the call changes when the call is done.
    fileprivate func leavesGroup(named name: String) -> Bool {
        switch self {
        case .createGroups: true
        case .renameGroup(_, let new): name == new
        default: false
        }
    }
}
