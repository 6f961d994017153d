import PresenceWire

/// Takes facts of one user from another cluster, or from an export, into the user's lists.
///
/// Each fact is judged by itself. The limits of the app's policy hold, and a fact that the user has stays as it is. So an import that is
/// repeated changes nothing. Other users are not asked: each side of a friendship or of a request is a fact of its own.
///
/// Clients find friends, groups, requests and blocks when they read the lists. A profile is told as if the user had changed it, and open
/// sessions follow imported subscriptions.
struct FactImport {
    typealias Outcome = FactImportAnswer.Outcome

    let id: UserID
    let now: Now
    private let user: Owner.Index
    private let held: OwnedUser
    private let policy: Policy
    private let rules: ChainRules
    private let version: Version
    /// The rows that the import writes.
    private var draft = Draft()

    /// The facts that the call adds.
    private struct Draft {
        var changes: [ChainRules.Change] = []
        var subscriptions: [Subscription] = []
        var groups: [FriendGroupID: String] = [:]
        var profile: Profile?
        var isRegistered = false

        func has(_ kind: Row.Kind, _ key: String) -> Bool { changes.contains { $0.kind == kind && $0.key == key } }

        func added(_ kind: Row.Kind) -> [String] { changes.filter { $0.kind == kind }.map(\.key) }

        func count(_ kind: Row.Kind) -> Int { changes.count { $0.kind == kind } }
    }

    private init(of id: UserID, _ owner: inout Owner, at now: Now) {
        (self.id, self.now) = (id, now)
        user = owner.index(of: id)
        held = owner.users[user]
        policy = owner.policies.policy(of: id)
        rules = ChainRules(user: held, policy: policy)
        version = owner.nextVersion { $0.nextImport(at: now) }
        for group in FriendGroups(held.list(.friendGroup), of: id).groups { draft.groups[group.id] = group.name }
    }

    /// Takes facts, in their order. Returns the outcome of each.
    static func perform(_ request: FactImportRequest, of id: UserID, on owner: inout Owner, in turn: inout Turn) -> [Outcome] {
        var facts = FactImport(of: id, &owner, at: turn.now)
        let outcomes = request.facts.map { facts.judge($0) }
        guard !request.isDryRun else { return outcomes }
        facts.write(to: &owner, in: &turn)
        for (fact, outcome) in zip(request.facts, outcomes) where outcome == .present { facts.writeAgain(fact, into: &turn.outbox) }
        return outcomes
    }

    // MARK: Judging

    private mutating func judge(_ fact: PortableFact) -> Outcome {
        do throws(RowError) {
            return switch fact.kind {
            case .status: try register(fact)
            case .profile: try setProfile(fact)
            case .friendGroup: try addGroup(fact)
            case .friend: try addFriend(fact)
            case .blocked: try block(fact)
            case .pendencyIn, .pendencyOut: try addRequest(fact)
            case .pendencyRead: try add(ReadRequests(row(of: fact)), "", held: held.list(.pendencyRead))
            case .subscription, .profileSubscription: try subscribe(fact)
            default: .refused(6017, "kind: \"\(fact.kind.name)\" is not one that an import takes")
            }
        } catch { return .refused(6017, error.description) }
    }

    /// The fact as a row, after the checks of every row.
    private func row(of fact: PortableFact) throws(RowError) -> Row {
        let row = Row(user: id, kind: fact.kind, key: fact.key, version: version, value: fact.value, expiresAt: fact.expiresAt)
        if case .list = fact.kind.place, fact.kind != .profile { try row.checkListed() }
        if case .list(key: .user, _) = fact.kind.place, fact.key == id.id { throw RowError(row, "the key is the user itself") }
        return row
    }

    private mutating func add(_ fact: some RowFact, _ key: String, held list: RowList, until end: Milliseconds? = nil) -> Outcome {
        let kind = type(of: fact).kind
        if list.contains(key) || draft.has(kind, key) { return .present }
        draft.changes.append(.set(fact, key, until: end))
        return .imported
    }

    private mutating func register(_ fact: PortableFact) throws(RowError) -> Outcome {
        guard try JSONValue(row(of: fact))["isRegistered"] == .bool(true) else {
            return .refused(6017, "value.isRegistered: must be true; a status is not imported")
        }
        if held.record.isOfKnownUser || draft.isRegistered { return .present }
        draft.isRegistered = true
        return .imported
    }

    /// Sets the fields that the user has not set.
    private mutating func setProfile(_ fact: PortableFact) throws(RowError) -> Outcome {
        let row = try row(of: fact)
        let fields = try RowFields(row)
        guard fact.key.isEmpty else { throw RowError(row, "the key is not empty") }
        guard fields.members.count <= Profile.fieldsMax else { throw RowError(row, "the profile has \(fields.members.count) fields") }
        var (profile, changes) = (draft.profile ?? held.profile, [Profile.Change]())
        for member in fields.members {
            guard let value = FieldValue(member.value) else { throw fields.error(member.name, "is not a value of a field") }
            let problem = Profile.problem(of: value, in: member.name) ?? Profile.problem(ofShown: member)
            if let problem { throw fields.error(member.name, problem) }
            if profile[member.name] == nil { changes.append(Profile.Change(name: member.name, value: value)) }
        }
        if changes.isEmpty { return .present }
        profile.set(changes, at: version)
        draft.profile = profile
        return .imported
    }

    private mutating func addGroup(_ fact: PortableFact) throws(RowError) -> Outcome {
        let group = try FriendGroup(row(of: fact))
        guard let number = FriendGroupID(fact.key) else { return .refused(6017, "key: must be the number of a group") }
        if let name = draft.groups[number] { return name == group.name ? .present : Outcome(.wrongGroup) }
        // order does not matter: any group by this name refuses the fact.
        guard !draft.groups.values.contains(group.name) else { return Outcome(.wrongGroup) }
        guard draft.groups.count < policy.chain.friendGroupsMax else { return Outcome(.groupsFull) }
        draft.groups[number] = group.name
        draft.changes.append(.set(group, fact.key))
        return .imported
    }

    private mutating func addFriend(_ fact: PortableFact) throws(RowError) -> Outcome {
        let friend = try Friend(row(of: fact))
        if isFriend(fact.key) { return .present }
        if draft.has(.blocked, fact.key) { return Outcome(.blockedBySelf) }
        if let refusal = rules.refusalOfImport(of: fact.key, after: draft.added(.friend)) { return Outcome(refusal) }
        guard friend.groupIDs.allSatisfy({ draft.groups[$0] != nil }) else { return Outcome(.wrongGroup) }
        return add(friend, fact.key, held: held.list(.friend))
    }

    private mutating func block(_ fact: PortableFact) throws(RowError) -> Outcome {
        let blocked = try BlockedUser(row(of: fact))
        let list = held.list(.blocked)
        if list.contains(fact.key) { return .present }
        let hasRequest = [Row.Kind.pendencyIn, .pendencyOut].contains { held.list($0).contains(fact.key) || draft.has($0, fact.key) }
        guard !isFriend(fact.key), !hasRequest else {
            return .refused(6017, "the user is a friend, or there is a request; addBlackList ends both")
        }
        guard list.liveCount + draft.count(.blocked) < policy.chain.blockListMax else { return Outcome(.blockListFull) }
        return add(blocked, fact.key, held: list)
    }

    private mutating func addRequest(_ fact: PortableFact) throws(RowError) -> Outcome {
        let (row, list) = (try row(of: fact), held.list(fact.kind))
        if list.contains(fact.key) { return .present }
        if blocks(fact.key) { return Outcome(.blockedBySelf) }
        guard list.liveCount + draft.count(fact.kind) < policy.chain.pendencyMax else { return Outcome(.requestsFull) }
        if fact.kind == .pendencyIn { return add(try ReceivedRequest(row), fact.key, held: list) }
        let sent = try SentRequest(row)
        guard sent.groupID.map({ draft.groups[$0] != nil }) ?? true else { return Outcome(.wrongGroup) }
        return add(sent, fact.key, held: list)
    }

    private mutating func subscribe(_ fact: PortableFact) throws(RowError) -> Outcome {
        let row = try row(of: fact)
        guard Limits.isValidName(fact.key) else { throw RowError(row, "the key is not a user's ID") }
        guard fact.key != id.id else { throw RowError(row, "the key is the user itself") }
        var subscription = try Subscription(row)
        if let end = fact.expiresAt, end <= now.wall { return .refused(6017, "expiresAt: the subscription has ended") }
        let isOfProfile = fact.kind == .profileSubscription
        guard Subscription.isOfProfile(subscription.subscribeType) == isOfProfile, (1...4).contains(subscription.subscribeType) else {
            return .refused(6017, "value.subscribeType: must be \(isOfProfile ? "2 or 4" : "1 or 3")")
        }
        if Subscription.isForFriends(subscription.subscribeType), !isFriend(fact.key) { return Outcome(.noFriend) }
        let list = isOfProfile ? held.profileSubscriptions : held.subscriptions
        let addedCount = isOfProfile ? draft.count(.profileSubscription) : draft.subscriptions.count
        if list.contains(subscription.target) { return .present }
        guard list.liveCount + addedCount < Int(policy.subscriptionsMax) else {
            return .refused(6017, "at most \(policy.subscriptionsMax) subscriptions are allowed (subscription.maxPerSubscriber)")
        }
        if isOfProfile { return add(try ProfileSubscription(row), fact.key, held: held.list(.profileSubscription), until: fact.expiresAt) }
        if draft.subscriptions.contains(where: { $0.target == subscription.target }) { return .present }
        subscription.version = version
        draft.subscriptions.append(subscription)
        return .imported
    }

    private func isFriend(_ key: String) -> Bool { rules.isFriend(key) || draft.has(.friend, key) }

    private func blocks(_ key: String) -> Bool { held.list(.blocked).contains(key) || draft.has(.blocked, key) }

    // MARK: Writing

    private func write(to owner: inout Owner, in turn: inout Turn) {
        if draft.isRegistered { _ = UserCall(id: id, now: now).register(at: &owner, into: &turn.outbox) }
        var changes = draft.changes
        if let profile = draft.profile { changes.append(.set(profile, "")) }
        if !changes.isEmpty { owner.write(changes, of: user, decidedAt: version, isSilent: true, in: &turn) }
        if changes.contains(where: { $0.kind == .blocked }) { ChainVisibility(user: user).show(.blocked, by: &owner, in: &turn) }
        if draft.profile != nil { OwnedProfile(user: user).publish(by: &owner, in: &turn) }
        if !draft.subscriptions.isEmpty { _ = owner.merge(draft.subscriptions, at: user, in: &turn) }
        guard changes.contains(where: { $0.kind == .profileSubscription }) else { return }
        if !owner.users[user].streams.isEmpty { owner.queueList(of: user, into: &turn.outbox) }
        owner.schedule(user, at: now)
    }

    /// Writes the row of a fact that the user has once more: an earlier call, or attempt, may have written it to this disk alone.
    private func writeAgain(_ fact: PortableFact, into outbox: inout Outbox) {
        switch fact.kind {
        case .status: if held.record.version > .zero { outbox.rows.append(Row(held.record)) }
        case .subscription:
            if let entry = held.subscriptions.subscription(to: UserID(fact.key, besides: id)) { outbox.rows.append(Row(entry, of: id)) }
        default: outbox.writeAgain([fact.kind], about: fact.key, of: held)
        }
    }
}

extension FactImportAnswer.Outcome {
    fileprivate init(_ code: ChainCode) { self = .refused(Int(code.rawValue), code.text) }
}
