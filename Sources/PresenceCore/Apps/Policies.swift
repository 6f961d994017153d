import PresenceWire

/// The policies of all apps. Every node holds all of them: one that is set goes from its one writer, the owner of the app's name, to each
/// node, and is answered when all of them have it on disk.
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
