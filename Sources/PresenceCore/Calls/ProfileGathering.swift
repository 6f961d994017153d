import PresenceWire

/// Collects the profiles of several users from their owners: for `getUsersProfile` (P3), and for a page of friends.
enum ProfileGathering {
    /// The parts of a call's answer that have arrived.
    struct Parts {
        /// The profiles by user. They are only looked up.
        fileprivate var profiles: [UserID: AnsweredProfile] = [:]
        /// The friend list of the caller, as the caller's owner has answered it.
        fileprivate var list: [UInt8]?

        init() {}
    }

    /// Begins `getUsersProfile`. The caller's owner counts the call, and the owners of the users are asked at once.
    static func begin(
        _ users: [UserID], by caller: UserID, _ index: PendingCalls.CallIndex, _ calls: inout Calls, _ edge: borrowing Edge,
        _ cluster: inout Cluster
    ) {
        if calls.waiting[index]?.isLimited == true { calls.ask(.friendCall(.profile), of: caller, for: index, &cluster) }
        ask(for: users, index, &calls, edge, &cluster)
    }

    /// Takes the friend list of a caller. It is the answer, unless the call wants profiles.
    static func take(
        _ list: [UInt8], for index: PendingCalls.CallIndex, _ calls: inout Calls, _ edge: borrowing Edge, _ cluster: inout Cluster
    ) {
        guard case .getFriendList(let query)? = calls.waiting[index]?.call, query.withProfile,
            let caller = calls.waiting[index]?.caller, let friends = FriendPage(list)?.users(besides: caller)
        else { return calls.finish(index, .owner(.listed(list)), edge, &cluster) }
        calls.waiting[index]?.answered.profiles.list = list
        ask(for: friends, index, &calls, edge, &cluster)
    }

    /// Takes an owner's answer. Users that it leaves out are asked for again.
    static func take(
        _ profiles: [AnsweredProfile], to sent: PendingCalls.Sent, _ calls: inout Calls, _ edge: borrowing Edge, _ cluster: inout Cluster
    ) {
        let (index, asked) = (sent.call, sent.request.subjects)
        var missing = Set(asked)
        let askedCount = missing.count
        for profile in profiles where missing.remove(profile.user) != nil {
            calls.waiting[index]?.answered.profiles.profiles[profile.user] = profile
        }
        // A broken peer may answer without any of them. They then count as unreachable.
        if missing.count == askedCount { missing = [] }
        repeatRequest(for: asked.filter(missing.contains), index, &calls, &cluster)
        finishIfComplete(index, &calls, edge, &cluster)
    }

    private static func ask(
        for users: [UserID], _ index: PendingCalls.CallIndex, _ calls: inout Calls, _ edge: borrowing Edge, _ cluster: inout Cluster
    ) {
        calls.waiting[index]?.users = users
        repeatRequest(for: users, index, &calls, &cluster)
        finishIfComplete(index, &calls, edge, &cluster)
    }

    /// Asks the present owners of users.
    static func repeatRequest(
        for users: [UserID], _ index: PendingCalls.CallIndex, _ calls: inout Calls, _ cluster: inout Cluster
    ) {
        for (_, group) in cluster.placement.grouped(users) { calls.ask(.profiles(group), of: group[0], for: index, &cluster) }
    }

    /// Answers the call if nothing is missing.
    static func finishIfComplete(_ index: PendingCalls.CallIndex, _ calls: inout Calls, _ edge: borrowing Edge, _ cluster: inout Cluster) {
        guard calls.waiting[index]?.openCount == 0 else { return }
        finish(index, &calls, edge, &cluster)
    }

    /// Answers the call with what has arrived. Users whose owner has not answered have no profile in the answer.
    ///
    /// Neither do unknown users about whom this node may not know better: their owner may have the profile.
    static func finish(_ index: PendingCalls.CallIndex, _ calls: inout Calls, _ edge: borrowing Edge, _ cluster: inout Cluster) {
        guard let pending = calls.waiting[index] else { return }
        let parts = pending.answered.profiles
        let unsure = cluster.unsure
        let profile = { (user: UserID) in
            parts.profiles[user].flatMap { $0.isKnown || user == pending.caller || !unsure.contains(user) ? $0 : nil }
        }
        switch (pending.call, parts.list) {
        case (.getUsersProfile, _):
            calls.finish(index, .profiles(pending.users.map(profile), users: pending.users), edge, &cluster)
        case (.getFriendList, let list?):
            let page = FriendPage(list)?.json { profile(UserID($0, besides: pending.caller))?.json }
            calls.finish(index, .owner(.listed(page ?? list)), edge, &cluster)
        default: calls.finish(index, .refused(.unavailable), edge, &cluster)
        }
    }
}

/// The answer of `getFriendList`, to which the profiles of the friends are added.
private struct FriendPage {
    private let members: [JSONValue.Member]

    /// - Returns: nil if the JSON is not that of an answer. Only a broken peer sends such.
    init?(_ json: [UInt8]) {
        guard case .object(let members)? = try? JSONReader.read(json) else { return nil }
        self.members = members
    }

    private var friends: [JSONValue] {
        guard case .array(let friends)? = members.first(where: { $0.name == "friendList" })?.value else { return [] }
        return friends
    }

    /// The friends of the page.
    func users(besides caller: UserID) -> [UserID] { friends.compactMap { $0["userID"]?.text }.map { UserID($0, besides: caller) } }

    /// The JSON with the profile of each friend for whom `profile` has one.
    func json(_ profile: (String) -> [UInt8]?) -> [UInt8] {
        var json = JSONWriter(reserving: 1_024 * (friends.count + 1))
        json.object { json in
            for member in members where member.name != "friendList" {
                json.key(text: member.name)
                json.value(member.value)
            }
            json.array("friendList", friends) { $0.value($1, with: $1["userID"]?.text.flatMap(profile)) }
        }
        return json.bytes
    }
}

extension JSONWriter {
    /// Writes a friend with the profile, if there is one.
    fileprivate mutating func value(_ friend: JSONValue, with profile: [UInt8]?) {
        guard let profile, case .object(let members) = friend else { return value(friend) }
        object { json in
            for member in members {
                json.key(text: member.name)
                json.value(member.value)
            }
            json.member("profile", json: profile)
        }
    }
}
