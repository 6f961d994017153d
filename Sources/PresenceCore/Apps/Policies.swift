import PresenceWire

/// The policies of all apps. Every node holds all of them: one that is set goes from its one writer, the owner of the app's name, to each
/// node, and is answered when all of them have it on disk (contract §6).
///
/// How long silence and a lost session are borne, the configuration of a node says as well: that is its base for apps of which nothing else
/// was said about it. It is neither kept nor told to other nodes, so nodes that are configured otherwise follow an app otherwise: a session is
/// lost as the node says that it is connected to, and missed for as long as the owner of its user says.
struct Policies {
    /// What was said about one app, and when; version zero for what the configuration says.
    struct Entry {
        let app: AppPolicy
        let version: Version
    }

    /// For apps about which nothing was said.
    let standard: Policy
    private var entries: [String: Entry] = [:]
    /// What follows from ``entries`` on this node.
    private var followed: [String: Policy] = [:]

    init(standard: Policy, configured: [String: AppPolicy]) {
        self.standard = standard
        entries = configured.mapValues { Entry(app: $0, version: .zero) }
        followed = configured.mapValues { $0.followed(on: standard) }
    }

    /// The policy for a user's app.
    func policy(of user: UserID) -> Policy { followed.isEmpty ? standard : followed[String(user.app)] ?? standard }

    /// Whether users of any app are removed (`users.forgetAfter`).
    var removesUsers: Bool { standard.removesUsers || followed.contains { $0.value.removesUsers } }

    /// What was said about an app.
    func entry(_ app: String) -> Entry? { entries[app] }

    /// The apps about which something was said, by name.
    var apps: [String] { entries.keys.sorted() }

    /// Takes over what is newer. Returns whether it was.
    mutating func merge(_ entry: Entry, of app: String) -> Bool {
        guard entry.version > entries[app]?.version ?? .zero else { return false }
        entries[app] = entry
        followed[app] = entry.app.followed(on: standard)
        return true
    }

    /// The durable form of what was set; what the configuration says is not written.
    var rows: [Row] { apps.compactMap { app in entries[app].flatMap { $0.version > .zero ? Row(policy: $0, of: app) : nil } } }
}

extension AppPolicy {
    /// What follows from it on a node whose own policy is `standard`: the times of which neither a setting nor the preset's document says
    /// anything are the node's own.
    func followed(on standard: Policy) -> Policy {
        guard preset != .tencent else { return policy }  // Its document names both (T5, T6), the others none.
        let settings = (try? JSONReader.read(json))?["settings"]
        var followed = policy
        if settings?["offlineGrace"] == nil { followed.offlineGrace = standard.offlineGrace }
        if settings?["liveness.timeout"] == nil { followed.livenessTimeout = standard.livenessTimeout }
        return followed
    }
}

extension UserID {
    /// Whose owner writes the policy of an app: a name like any other, which need not be a user's.
    static func policyKeeper(of app: String) -> UserID { UserID(app: app, id: "policy") }
}

extension Row {
    /// The durable form of an app's policy, for every node.
    init(policy entry: Policies.Entry, of app: String) {
        self.init(user: .policyKeeper(of: app), kind: .policy, key: "", version: entry.version, value: entry.app.json)
    }
}

extension Node {
    /// What was said about an app's policy; nil for nothing. ``policy(of:)`` is what this node makes of it.
    public func appPolicy(_ app: String) -> (policy: AppPolicy, version: Version)? {
        owners.policies.entry(app).map { ($0.app, $0.version) }
    }

    /// The policy for a user's app.
    public func policy(of user: UserID) -> Policy { owners.policies.policy(of: user) }

    /// What the gateways are to know before they serve anybody.
    func messagesAtStart() -> [NodeMessage] {
        [.policy(app: nil, owners.policies.standard)]
            + kicks.all.map { .kicked($0.user, before: $0.entry.before, reason: $0.entry.reason) }
            + owners.policies.apps.map { app in NodeMessage.policy(app: app, owners.policies.policy(of: .policyKeeper(of: app))) }
    }

    /// Changes the policy of an app, of whose name this node is the owner.
    mutating func setPolicy(of app: String, _ change: [UInt8], id: UInt64, from peer: PeerIndex, at now: Now) {
        let old = owners.policies.entry(app)?.app ?? AppPolicy()
        let changed: AppPolicy
        do throws(PolicyError) {
            guard let json = try? JSONReader.read(change) else { throw PolicyError(setting: "body", problem: "is not JSON") }
            changed = try old.changed(by: json)
        } catch {
            return send(.answer(id: id, .refused(Refusal(code: 6017, detail: "\(error.setting): \(error.problem)"))), to: peer)
        }
        let entry = Policies.Entry(app: changed, version: owners.clock.next(at: now.wall))
        apply(entry, of: app, at: now)
        outbox.answersWhenStored.append((peer, id, .done))
    }

    /// All that every node is to know.
    var rowsForAll: [Row] { owners.policies.rows + kicks.rows }

    /// Takes over what another node knows of what all are to know.
    mutating func onRowsForAll(_ rows: [Row], at now: Now) throws(RowError) {
        for row in rows where owners.accepts(row.version, at: now) {
            guard row.kind == .policy else {
                apply(try row.kick(), of: row.user, at: now)
                continue
            }
            let entry: Policies.Entry
            do throws(PolicyError) {
                entry = Policies.Entry(app: try AppPolicy(try row.policy()), version: row.version)
            } catch { throw RowError(row, "\(error.setting): \(error.problem)") }
            apply(entry, of: String(row.user.app), at: now)
        }
    }

    private mutating func apply(_ entry: Policies.Entry, of app: String, at now: Now) {
        let old = owners.policies.policy(of: .policyKeeper(of: app))
        guard owners.policies.merge(entry, of: app) else { return }
        outbox.rows.append(Row(policy: entry, of: app))
        owners.policyChanged(of: app, from: old, at: now, into: &outbox)
        tell(.policy(app: app, owners.policies.policy(of: .policyKeeper(of: app))), mask: .max)
    }

    /// Takes a policy back at the start.
    mutating func load(policy row: Row) throws(RowError) {
        do throws(PolicyError) {
            _ = owners.policies.merge(Policies.Entry(app: try AppPolicy(try row.policy()), version: row.version), of: String(row.user.app))
        } catch { throw RowError(row, "\(error.setting): \(error.problem)") }
    }
}

extension Row {
    fileprivate func policy() throws(PolicyError) -> JSONValue {
        guard let value, let json = try? JSONReader.read(value) else { throw PolicyError(setting: "policy", problem: "is not JSON") }
        return json
    }
}
