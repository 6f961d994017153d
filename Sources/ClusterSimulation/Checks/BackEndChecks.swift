import PresenceCore
import PresenceWire

/// Makes the calls of an app's back end, and checks what they leave in the lists of users: see ``BroughtFriends``.
///
/// An import tells no device (<doc:HTTPAPI#importFriends-and-deleteAllFriends>). So a stream knows a user's friends and groups if nothing
/// but imports has changed them since.
enum BackEndChecks {
    static func perform(_ action: BackEndAction, _ cluster: inout SimulatedCluster) {
        guard action.user < cluster.userIDs.count, action.others.allSatisfy({ $0 < cluster.userIDs.count }) else { return }
        for other in action.others { cluster.truth.concern(other) }
        let node = cluster.randomNode()
        cluster.call(action.call(cluster.userID), by: action.user, at: node)
    }

    /// Records that a call is about to be made.
    static func asked(_ call: Call, by user: Int, _ cluster: inout SimulatedCluster) {
        if let call = DecidingCall(call) { cluster.truth.groups.brought.ask(call, by: user, cluster.truth.groups.marks(of: user)) }
    }

    /// Handles the answer to an import.
    ///
    /// - Parameter isAlone: whether the node was the only one: see ``ChainChecks/answered(_:to:isAlone:_:)``.
    static func answered(
        _ result: FriendCallResult, to friends: [FriendImport], _ call: SimulatedCall, isAlone: Bool, _ cluster: inout SimulatedCluster
    ) {
        checkGroups(result.users, friends, call, isAlone: isAlone, cluster)
        ChainChecks.decided(result.users, by: .importFriends(friends), call, isAlone: isAlone, &cluster)
    }

    /// Checks that an import into a group has found the group if and only if the user has it.
    private static func checkGroups(
        _ outcomes: [ChainOutcome], _ friends: [FriendImport], _ call: SimulatedCall, isAlone: Bool, _ cluster: SimulatedCluster
    ) {
        // A call that is repeated may take effect again after its answer.
        guard !cluster.isExcused(by: .faultsOfNodes), ChainChecks.isTrusted(isAlone: isAlone, cluster) else { return }
        for (friend, outcome) in zip(friends, outcomes) {
            guard let group = friend.change.groups?.first, let other = friend.user.simulatedNumber,
                let hasGroup = cluster.truth.groups.hasGroup(named: group, call.user, askedAt: call.at)
            else { continue }
            let isWrong =
                hasGroup
                ? outcome.code == .wrongGroup && !cluster.truth.chain.mayBeFriend(other, of: call.user, since: call.at)
                : outcome.code == .done
            guard isWrong else { continue }
            let words = hasGroup ? "which it has" : "which it certainly does not have"
            cluster.violate(
                .chainIsAcknowledged,
                "an import of user-\(other) for user-\(call.user) into \(group), \(words), is answered \(outcome.code.rawValue)")
        }
    }

    /// Records the friends that a call has certainly made. Called before the answer is taken.
    static func noteMade(_ outcomes: [ChainOutcome], by call: DecidingCall, _ asked: SimulatedCall, _ cluster: inout SimulatedCluster) {
        for outcome in outcomes where outcome.code == .done {
            guard let other = outcome.user.simulatedNumber,
                cluster.truth.chain.isOnlyMaker(call, of: other, by: asked.user, askedAt: asked.at)
            else { continue }
            cluster.truth.groups.brought.noteMade(other, by: call, of: asked.user, at: cluster.time)
        }
    }

    // MARK: Streams

    /// Checks that no event tells of a friend as an import has brought it.
    static func read(_ event: SimulatedClient.Event, by user: Int, _ cluster: SimulatedCluster) {
        guard event.name == "onFriendListAdded", cluster.truth.groups.brought.hasImports(to: user) else { return }
        for friend in event.data["friendList"]?.elements ?? [] {
            guard let other = friend["userID"]?.text.flatMap({ cluster.userIndex($0) }) else { continue }
            var content = content(of: friend)
            content.groups = (friend["groups"]?.elements ?? []).compactMap(\.text)
            guard cluster.truth.groups.brought.mayBeImport(content, of: other, to: user) else { continue }
            cluster.violate(.noticesMatchLists, "user-\(user) is told of the friend user-\(other), whom an import has brought: \(friend)")
        }
    }

    /// The friends whom imports have brought to a user since a sequence; nil if anything else has changed the list since.
    static func imported(since sequence: String, to user: Int, _ cluster: SimulatedCluster) -> Set<String>? {
        guard cluster.truth.groups.brought.hasImports(to: user), let owner = cluster.owner(of: user) else { return nil }
        let id = cluster.userID(user)
        let rows = cluster.nodes[owner].look { $0.owner.shownRows(.friend, of: id) }.filter { $0.version.text > sequence }
        guard rows.allSatisfy({ isImport($0, of: user, cluster) }) else { return nil }
        return Set(rows.map(\.key))
    }

    /// Whether a stream that was told this sequence of a user's friends was told all that a device is told.
    static func knowsFriends(at sequence: String, of user: Int, _ cluster: SimulatedCluster) -> Bool {
        sequence == self.sequence(of: .friends, user, cluster) || imported(since: sequence, to: user, cluster) != nil
    }

    /// Whether a stream that was told this sequence of a user's groups was told all that a device is told.
    static func knowsGroups(at sequence: String, of user: Int, _ cluster: SimulatedCluster) -> Bool {
        if sequence == self.sequence(of: .groups, user, cluster) { return true }
        guard cluster.truth.groups.brought.hasImports(to: user), let owner = cluster.owner(of: user) else { return false }
        let id = cluster.userID(user)
        // The mark alone may be newer: friends have joined a group.
        let rows = cluster.nodes[owner].look { $0.owner.shownRows(.friendGroup, of: id) }.filter { $0.version.text > sequence }
        guard rows.allSatisfy({ $0.key.isEmpty }) else { return false }
        guard let told = cluster.truth.sequences.content(of: "groups", user, at: sequence) else { return true }
        let members = { (name: String) in told["groupList"]?.elements.first { $0["name"]?.text == name }?["userIDs"]?.elements ?? [] }
        let names = groupNames(of: user, cluster)
        for row in ChainChecks.rows(.friend, of: user, cluster) {
            guard let content = content(of: row, names), let friend = cluster.userIndex(row.key) else { continue }
            for group in content.groups where !members(group).contains(.string(row.key)) {
                guard cluster.truth.groups.brought.mayBeImport(of: friend, into: group, of: user) else { return false }
            }
        }
        return true
    }

    private static func sequence(of list: RelationshipState.List, _ user: Int, _ cluster: SimulatedCluster) -> String? {
        cluster.owner(of: user).map { cluster.nodes[$0].look { $0.owner.relationship(of: cluster.userID(user)) }.sequence(of: list) }
    }

    private static func isImport(_ row: Row, of user: Int, _ cluster: SimulatedCluster) -> Bool {
        guard let content = content(of: row, groupNames(of: user, cluster)), let friend = cluster.userIndex(row.key) else { return false }
        return cluster.truth.groups.brought.mayBeImport(content, of: friend, to: user)
    }

    // MARK: Rows

    /// The names of a user's groups by their numbers.
    private static func groupNames(of user: Int, _ cluster: SimulatedCluster) -> [String: String] {
        let rows = ChainChecks.rows(.friendGroup, of: user, cluster)
        return Dictionary(uniqueKeysWithValues: rows.map { ($0.key, json(of: $0)?["name"]?.text ?? "") })
    }

    private static func json(of row: Row) -> JSONValue? { row.value.flatMap { try? JSONReader.read($0) } }

    /// The content of the row of a friend; nil for a tombstone.
    private static func content(of row: Row, _ names: [String: String]) -> BroughtFriends.Content? {
        guard let members = json(of: row) else { return nil }
        var content = content(of: members)
        content.groups = (members["groupIDs"]?.elements ?? []).compactMap { id in
            if case .integer(let number) = id { names["\(number)"] } else { nil }
        }
        return content
    }

    /// The content of a friend without the groups, which a row and an event name differently.
    private static func content(of friend: JSONValue) -> BroughtFriends.Content {
        var content = BroughtFriends.Content()
        content.remark = friend["remark"]?.text ?? ""
        (content.addWording, content.addSource) = (friend["addWording"]?.text ?? "", friend["addSource"]?.text ?? "")
        if case .integer(let time)? = friend["addTime"] { content.addTime = time }
        return content
    }

    // MARK: At rest

    /// Checks that the friends whom the back end has brought have the remarks, the groups and the origin that it has named.
    static func finish(_ cluster: SimulatedCluster) {
        for user in cluster.userIDs.indices {
            let names = groupNames(of: user, cluster)
            for row in ChainChecks.rows(.friend, of: user, cluster) {
                guard let friend = cluster.userIndex(row.key), let made = cluster.truth.groups.brought.content(of: friend, in: user),
                    cluster.truth.chain.mustBeFriend(friend, of: user, since: made.since), var held = content(of: row, names)
                else { continue }
                let marks = cluster.truth.groups.marks(of: user)
                if made.marks.groups == nil || made.marks.groups != marks.groups { held.groups = made.content.groups }
                if made.marks.remarks == nil || made.marks.remarks != marks.remarks { held.remark = made.content.remark }
                guard !made.content.admits(held) else { continue }
                cluster.violate(
                    .chainIsAcknowledged,
                    "user-\(user) has the friend user-\(friend) as \(held), and a back end has made it \(made.content)")
            }
        }
    }
}
