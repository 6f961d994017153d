import PresenceCore
import PresenceWire

/// Checks the visibility of users: what viewers are shown, the disks, and at rest the friends whom it admits.
enum VisibilityChecks {
    /// Whether a visibility may admit a viewer, or may have done so since a moment. Friends are those who may be on the friend list.
    static func mayBeSeen(_ user: Int, by viewer: Int, _ rule: Visibility, since moment: Nanoseconds, _ cluster: SimulatedCluster) -> Bool {
        var rule = rule
        if cluster.options.kind.hasCrossPlan {
            let isBlocked = !cluster.isExcused(by: .crippled) && cluster.truth.chain.mustBlock(viewer, by: user, since: moment)
            rule.blocked = isBlocked ? [cluster.userID(viewer)] : []
        }
        guard rule.mode == .friends else { return rule.lets(cluster.userID(viewer)) }
        // A friend who has removed the user sees a loss after the answer: up to one call later.
        let settings = cluster.options.settings
        let wait = settings.policy.offlineGrace > .zero ? Nanoseconds(settings.callTimeout.wholeNanoseconds) : 0
        // Nodes that have lost two replicas may lack the end of a friendship.
        let mayBeFriend = cluster.isExcused(by: .crippled) || cluster.truth.chain.mayBeFriend(viewer, of: user, since: moment - wait)
        rule.friends = mayBeFriend ? [cluster.userID(viewer)] : []
        return rule.lets(cluster.userID(viewer))
    }

    /// Checks that the owner knows the visibility when the cluster is at rest.
    static func check(_ user: Int, _ record: Record, _ cluster: SimulatedCluster) {
        checkFriends(user, record, cluster)
        guard !cluster.isExcused(by: .visibilityChanges(user)), !cluster.isExcused(by: .clockJumps),
            let rule = cluster.truth.oracles[user].rule
        else { return }
        let known = record.privacy?.visibility ?? Visibility()
        if known.isSameChoice(as: rule) { return }
        cluster.violate(.nothingAcknowledgedIsLost, "user-\(user) was told that \(rule) holds, its record says \(known)")
    }

    /// Checks at rest that a user who is visible to friends is visible to exactly the friend list.
    private static func checkFriends(_ user: Int, _ record: Record, _ cluster: SimulatedCluster) {
        guard let visibility = record.privacy?.visibility, visibility.mode == .friends else { return }
        let friends = ChainChecks.rows(.friend, of: user, cluster).map { UserID($0.key, besides: record.user) }
        guard visibility.friends != friends else { return }
        let named = visibility.friends.map { "\($0.map(\.id))" } ?? "nobody"
        cluster.violate(.friendsAreSeen, "user-\(user) is visible to \(named), and its friends are \(friends.map(\.id))")
    }

    /// The friends of whose statuses a user is told at rest.
    static func followed(by user: Int, _ cluster: SimulatedCluster) -> [Int] {
        let chain = cluster.policyAtRest.chain
        guard chain.autoNotifiesFriends, chain.isEnabled else { return [] }
        return ChainChecks.rows(.friend, of: user, cluster).compactMap { cluster.userIndex($0.key) }
    }

    // MARK: While things happen

    /// Checks bytes that a gateway sends to a client's stream now.
    static func checkVisibility(of payload: [UInt8], for client: Int, _ cluster: inout SimulatedCluster) {
        guard cluster.hidesUsers, !cluster.isExcused(by: .uncheckedSplit), let event = SimulatedClient.Event(payload),
            event.name == "onUserStatusChanged"
        else { return }
        HiddenViewChecks.check(event, shownTo: cluster.clients[client].user, askedAt: cluster.time, &cluster)
    }

    /// Checks records that an answer sends now.
    static func checkVisibility(of records: [Record?], inAnswerTo call: SimulatedCall, _ cluster: inout SimulatedCluster) {
        guard cluster.hidesUsers, !cluster.isExcused(by: .uncheckedSplit) else { return }
        guard let event = SimulatedClient.Event(EventText.statusChanged(records.compactMap(\.self), id: 1)) else { return }
        HiddenViewChecks.check(event, shownTo: call.user, askedAt: call.at, &cluster)
    }

    /// Checks the disks after a change of the visibility, or its confirmation, was acknowledged.
    static func checkRule(of rule: Visibility, askedBy call: SimulatedCall, _ cluster: inout SimulatedCluster) {
        HidingSoonChecks.check(call, cluster)
        let user = call.user
        let key = SimulatedDisk.Key(cluster.userID(user), .visibility)
        let askedAt = SimulatedCluster.epoch + call.at / 1_000_000
        let rows = cluster.isExcused(by: .clockJumps) ? cluster.nodes.compactMap { $0.disk.rows[key] } : []
        let written = rows.filter { $0.says(rule) }.map(\.writtenAt).max()
        let isOverruled = { (row: Row) in written.map { row.writtenAt > $0 } ?? false }
        // Without any visibility everybody may see the user. A later call on the other side of a split wins.
        let copies = cluster.nodes.count { node in
            node.disk.rows[key].map {
                $0.says(rule) || $0.isWritten(after: askedAt) || isOverruled($0)
            } ?? (rule == Visibility())
        }
        RestChecks.check(copies, of: "\(rule) of user-\(user)", cluster)
    }

    /// Whether an absent node has a visibility that will win, because a clock has jumped, and no present node knows of it.
    ///
    /// A node that has just come back has not sent it yet.
    static func isOverruled(_ user: Int, _ cluster: SimulatedCluster) -> Bool {
        guard cluster.isExcused(by: .clockJumps) else { return false }
        let key = SimulatedDisk.Key(cluster.userID(user), .visibility)
        let second = Nanoseconds.milliseconds(1_000)
        let isThere = { (node: SimulatedNode) in node.isUp && (node.startedAt < second || cluster.time - node.startedAt > second) }
        let newest = { (wanted: Bool) in
            cluster.nodes.filter { isThere($0) == wanted }.compactMap { $0.disk.rows[key]?.writtenAt }.max() ?? .zero
        }
        return newest(false) > newest(true)
    }
}

extension Record {
    /// Whether a replica has the visibility of the owner's record. The friends are not a part of it: a replica has their rows.
    func hasRule(of owned: Record) -> Bool { privacy?.withFriends(nil) == owned.privacy?.withFriends(nil) }
}

extension Row {
    /// Whether the call that wrote a visibility started later.
    fileprivate func isWritten(after time: Milliseconds) -> Bool { writtenAt.milliseconds > time + 1_000 }

    /// The start of the call that wrote a visibility.
    fileprivate var writtenAt: Version {
        guard let value, let text = (try? JSONReader.read(value))?["writtenAt"]?.text else { return .zero }
        return Version(text: text) ?? .zero
    }

    /// Whether a row has this visibility.
    fileprivate func says(_ rule: Visibility) -> Bool {
        guard let value, let json = try? JSONReader.read(value) else { return false }
        let names = { (name: String) in json[name]?.elements.compactMap(\.text) ?? [] }
        return json["visibility"]?.text == rule.mode.rawValue && json["invisible"] == .bool(rule.isInvisible)
            && names("userIDs") == rule.listed.map { "\($0.id)" }
    }
}
