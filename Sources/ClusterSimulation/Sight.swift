import PresenceCore
import PresenceWire

/// Who may see a user, as far as that is certain, and what those have been shown since who may not.
struct Sight {
    /// Changes of the rule that are under way.
    private var busyCount = 0
    /// When the last of them was asked for.
    private(set) var askedAt: Nanoseconds = .min / 2
    /// The user has hidden from somebody at some time.
    private(set) var hasHidden = false
    /// What was acknowledged; nil while nobody can know which rule holds.
    private(set) var rule: Visibility? = Visibility()
    /// When it was acknowledged.
    private(set) var since: Nanoseconds = 0
    /// What each user who may not see this one was shown first since then.
    private var shown: [Int: JSONValue] = [:]
    /// Its version, by user.
    private var versions: [Int: String] = [:]
    /// What each of them was shown before a text in it ended by itself.
    private var ended: [Int: JSONValue] = [:]

    /// A change of the rule is under way.
    var isBusy: Bool { busyCount > 0 }

    mutating func ask(at now: Nanoseconds) {
        busyCount += 1
        (askedAt, hasHidden, rule, shown, ended) = (now, true, nil, [:], [:])
    }

    /// What was asked for so long ago has been done or not.
    mutating func end() { busyCount -= 1 }

    /// What was asked for later counts, whichever is done first.
    mutating func acknowledge(_ rule: Visibility, askedAt: Nanoseconds, at now: Nanoseconds) {
        end()
        if askedAt == self.askedAt { (self.rule, since) = (rule, now) }
    }

    /// What was acknowledged may be gone.
    mutating func doubt() { if hasHidden { (rule, shown, ended) = (nil, [:], [:]) } }

    /// What is wrong with showing somebody, who may not see the user, a status; nil for nothing. `mayEnd` says that a text may end by itself.
    mutating func problem(with status: JSONValue, shownTo viewer: Int, mayEnd: Bool) -> String? {
        let seen = status.without("version")
        if case .string("ONLINE") = status["statusType"] { return "she is shown as ONLINE" }
        let version = status["version"]?.text ?? ""
        guard let before = shown[viewer], before != seen else {
            (shown[viewer], versions[viewer]) = (seen, version)
            return nil
        }
        if mayEnd, status["customStatus"]?.text == "" {
            if before["customStatus"]?.text != "" { ended[viewer] = before }
            (shown[viewer], versions[viewer]) = (seen, version)
            return nil
        }
        // Another device of the viewer is on a node to which the link is slow: it hears of the end later, and may be the first one that tells
        // what was before it.
        let isOlder = version < versions[viewer] ?? ""
        if mayEnd, isOlder, before["customStatus"]?.text == "", ended[viewer] == nil { ended[viewer] = seen }
        if ended[viewer] == seen { return nil }
        return "before it was \(before)"
    }
}

/// Nobody sees whom it may not.
extension SimulatedCluster {
    /// Every node that is alive is reached in time, and what was acknowledged is not lost.
    private var isSightCertain: Bool { options.faults.isDisjoint(with: [.partitions, .pauses]) }

    /// Bytes that a gateway hands to a client's stream now.
    mutating func checkSights(of payload: [UInt8], for client: Int) {
        guard hidesUsers, isSightCertain, let event = SimulatedClient.Event(payload), event.name == "onUserStatusChanged" else { return }
        for status in event.data["userStatusList"]?.elements ?? [] { checkSight(of: status, by: clients[client].user, askedAt: time) }
    }

    /// Records that an answer tells now.
    mutating func checkSights(of records: [Record?], inAnswerTo call: SimulatedCall) {
        guard hidesUsers, isSightCertain else { return }
        let event = SimulatedClient.Event(EventText.statusChanged(records.compactMap(\.self), id: 1))
        for status in event?.data["userStatusList"]?.elements ?? [] { checkSight(of: status, by: call.user, askedAt: call.at) }
    }

    private mutating func checkSight(of status: JSONValue, by viewer: Int, askedAt: Nanoseconds) {
        guard let user = status["userID"]?.text.flatMap({ userIndex($0) }), user != viewer, let rule = truth.sights[user].rule,
            askedAt >= truth.sights[user].since, !rule.lets(userID(viewer))
        else { return }
        let mayEnd = truth.wishes[user].contains(where: \.expires)
        if let event = truth.events[user].hiddenEvent(in: status, since: truth.sights[user].since) {
            return violate(
                .nobodySeesWhomItMayNot, "user-\(viewer) is shown event \(event), which user-\(user) published when it hid from it")
        }
        // Events end by themselves, and the time of the last change moves then.
        let shown = publishesEvents ? status.without("event", "loginEvent", "lastUpdateTime") : status
        guard let problem = truth.sights[user].problem(with: shown, shownTo: viewer, mayEnd: mayEnd) else { return }
        violate(.nobodySeesWhomItMayNot, "user-\(viewer) is shown \(status), though user-\(user) hides from it: \(problem)")
    }

    /// A change of the rule, or the wish that it stays what it is, has just been acknowledged.
    mutating func checkDisks(of rule: Visibility, askedBy call: SimulatedCall) {
        let user = call.user
        let key = SimulatedDisk.Key(user: userID(user), kind: .visibility, key: "")
        let askedAt = Self.epoch + call.at / 1_000_000
        // Where clocks jump, that which was asked before may count more.
        let rows = options.faults.contains(.clocks) ? nodes.compactMap { $0.disk.rows[key] } : []
        let written = rows.filter { $0.says(rule) }.map(\.writtenAt).max()
        let isOverruled = { (row: Row) in written.map { row.writtenAt > $0 } ?? false }
        // Of whom nothing was said, everybody may see. What the other side of a split was asked later counts more.
        let copies = nodes.count { node in
            node.disk.rows[key].map { $0.says(rule) || $0.isWritten(after: askedAt) || isOverruled($0) } ?? (rule == Visibility())
        }
        if copies < disksExpected {
            violate(.acknowledgedIsOnTwoDisks, "\(rule) of user-\(user) is on \(copies) disks, \(disksExpected) would be right")
        }
    }

    /// Whether a node that is away has taken a rule with it which will count more, because a clock has jumped: none of those that are there
    /// knows of it. One that has just come back has not told it yet.
    func isOverruled(_ user: Int) -> Bool {
        guard options.faults.contains(.clocks) else { return false }
        let key = SimulatedDisk.Key(user: userID(user), kind: .visibility, key: "")
        let second = Nanoseconds.milliseconds(1_000)
        let isThere = { (node: SimulatedNode) in node.isUp && (node.startedAt < second || time - node.startedAt > second) }
        let newest = { (wanted: Bool) in nodes.filter { isThere($0) == wanted }.compactMap { $0.disk.rows[key]?.writtenAt }.max() ?? .zero }
        return newest(false) > newest(true)
    }

    /// Whether a node that goes on seems to be gone to another one, because links that are slow and break hold up what it says: who waits for
    /// all that are alive does not wait for it, and it shows what it knew until it is a member again.
    var isSomebodyTakenForDead: Bool {
        nodes.contains { node in
            node.isUp && time - node.startedAt > .milliseconds(4_000)
                && nodes.contains { $0.id != node.id && $0.isUp && !$0.look { $0.cluster.isMember(node.id) } }
        }
    }

    /// After quiet the owner knows the rule.
    mutating func checkRule(_ user: Int, _ record: Record) {
        guard let rule = truth.sights[user].rule, !truth.sights[user].isBusy, !options.faults.contains(.clocks) else { return }
        let known = record.privacy?.visibility ?? Visibility()
        if known != rule { violate(.nothingAcknowledgedIsLost, "user-\(user) was told that \(rule) holds, its record says \(known)") }
    }
}

extension SimulatedClient.Told {
    /// A change that a viewer is not shown is not told to it, though the version is another one.
    ///
    /// - Parameter policy: what the viewer's app says about what is shown.
    func looksLike(_ record: Record, to viewer: UserID, _ policy: Policy, without hidden: [String]) -> Bool {
        let shown = record.shown(by: policy)
        let event = SimulatedClient.Event(EventText.statusChanged(CollectionOfOne(shown), to: viewer, policy, id: 1))
        let names = ["version"] + hidden
        return event?.data["userStatusList"]?.elements.first?.without(names) == status.without(names)
    }
}

extension Row {
    /// Whether the call by which a rule was written began later.
    fileprivate func isWritten(after time: Milliseconds) -> Bool { writtenAt.milliseconds > time + 1_000 }

    /// When the call began by which a rule was written.
    fileprivate var writtenAt: Version {
        guard let value, let text = (try? JSONReader.read(value))?["writtenAt"]?.text else { return .zero }
        return Version(text: text) ?? .zero
    }

    /// Whether a row of who may see a user names this rule.
    fileprivate func says(_ rule: Visibility) -> Bool {
        guard let value, let json = try? JSONReader.read(value) else { return false }
        let names = { (name: String) in json[name]?.elements.compactMap(\.text) ?? [] }
        return json["visibility"]?.text == rule.mode.rawValue && json["invisible"] == .bool(rule.isInvisible)
            && names("userIDs") == rule.listed.map { "\($0.id)" } && names("blocked") == rule.blocked.map { "\($0.id)" }
    }
}

extension JSONValue {
    func without(_ names: String...) -> JSONValue { without(names) }

    func without(_ names: [String]) -> JSONValue {
        guard case .object(let members) = self else { return self }
        return .object(members.filter { !names.contains($0.name) })
    }
}
