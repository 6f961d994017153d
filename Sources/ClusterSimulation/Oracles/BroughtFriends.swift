import PresenceWire

/// The friends that a back end has brought to users, by an import or by force: what the calls say about them.
///
/// Its inputs are the begin of a call and its answer. It knows neither nodes nor rows: see ``BackEndChecks``.
struct BroughtFriends {
    /// The row of a friend in a list as a call makes it.
    struct Content: Equatable {
        var remark = ""
        var groups: [String] = []
        var addWording = ""
        var addSource = ""
        /// Nil for the time of the call.
        var addTime: Milliseconds?
    }

    /// A content that a call has certainly given to a friend.
    struct Made {
        let content: Content
        let since: Nanoseconds
        /// The user's other calls about friends when the call began.
        let marks: GroupOracle.Marks
    }

    private struct Pair: Hashable {
        let user: Int
        let friend: Int
    }

    private struct Asked: Hashable {
        let user: Int
        let call: DecidingCall
    }

    /// The contents that imports may have brought. An import without an answer may bring them at any later time.
    private var imports: [Pair: [Content]] = [:]
    private var made: [Pair: Made] = [:]
    /// The user's other calls about friends when each call began.
    private var marks: [Asked: GroupOracle.Marks] = [:]

    mutating func ask(_ call: DecidingCall, by user: Int, _ marks: GroupOracle.Marks) {
        self.marks[Asked(user: user, call: call)] = marks
        guard case .importFriends = call else { return }
        for (friend, content) in call.contents { imports[Pair(user: user, friend: friend), default: []].append(content) }
    }

    /// Records that a call has made a friend, and that nothing else can have done so.
    mutating func noteMade(_ friend: Int, by call: DecidingCall, of user: Int, at now: Nanoseconds) {
        guard let content = call.contents.first(where: { $0.friend == friend })?.content,
            let marks = marks[Asked(user: user, call: call)]
        else { return }
        made[Pair(user: user, friend: friend)] = Made(content: content, since: now, marks: marks)
    }

    /// Whether a row of a friend may be that of an import.
    func mayBeImport(_ content: Content, of friend: Int, to user: Int) -> Bool {
        imports[Pair(user: user, friend: friend)]?.contains { $0.admits(content) } ?? false
    }

    /// Whether an import may have brought a friend into a group of a user.
    func mayBeImport(of friend: Int, into group: String, of user: Int) -> Bool {
        imports[Pair(user: user, friend: friend)]?.contains { $0.groups.contains(group) } ?? false
    }

    /// Whether an import may have changed a user's list.
    func hasImports(to user: Int) -> Bool { imports.contains { $0.key.user == user } }

    /// The content that the last call has certainly given to a friend that it has made; nil for none.
    func content(of friend: Int, in user: Int) -> Made? { made[Pair(user: user, friend: friend)] }
}

extension BroughtFriends.Content {
    /// Whether a row has this content.
    func admits(_ row: BroughtFriends.Content) -> Bool {
        var right = self
        right.addTime = addTime ?? row.addTime
        return right == row
    }
}

extension DecidingCall {
    /// The friends that a back end brings, each with the content of its row.
    fileprivate var contents: [(friend: Int, content: BroughtFriends.Content)] {
        switch self {
        case .importFriends(let friends):
            friends.compactMap { friend in
                let content = BroughtFriends.Content(
                    remark: friend.change.remark ?? "", groups: friend.change.groups ?? [], addWording: friend.addWording,
                    addSource: friend.addSource, addTime: friend.addTime)
                return friend.user.simulatedNumber.map { ($0, content) }
            }
        case .chain(.add(let other, let request, _, let group)) where request.isForced:
            other.simulatedNumber.map {
                [($0, BroughtFriends.Content(remark: request.remark, groups: group.map { [$0] } ?? [], addWording: request.addWording))]
            } ?? []
        case .chain: []
        }
    }
}
