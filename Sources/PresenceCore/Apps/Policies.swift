import PresenceWire

/// The policies of all apps. Every node holds all of them.
///
/// The owner of the app's name writes a new policy and sends it to each node. The call is answered when all nodes follow the policy
/// and two disks have it (<doc:Barriers>).
///
/// The configuration of a node sets the liveness timeout and the offline grace as well. They are the node's base for apps that set neither.
/// The node neither stores nor sends them, so nodes with different configurations treat such an app differently: the gateway's node decides
/// when a session is lost, and the owner's node how long the grace lasts.
struct Policies {
    /// The policy of one app and its version; version zero for that of the configuration.
    struct Entry {
        let app: AppPolicy
        let version: Version
    }

    /// The policy of apps that have none of their own.
    var standard: Policy { sharedStandard.policy }
    private let sharedStandard: SharedPolicy
    private var entries: [String: Entry] = [:]
    /// The resulting policy of each app on this node.
    private var followed: [String: SharedPolicy] = [:]

    init(standard: Policy, configured: [String: AppPolicy]) {
        sharedStandard = SharedPolicy(standard)
        entries = configured.mapValues { Entry(app: $0, version: .zero) }
        followed = configured.mapValues { SharedPolicy($0.followed(on: standard)) }
    }

    /// The policy for a user's app.
    func policy(of user: UserID) -> Policy { shared(of: user).policy }

    /// The policy for a user's app, without a copy.
    func shared(of user: UserID) -> SharedPolicy { followed.isEmpty ? sharedStandard : followed[String(user.app)] ?? sharedStandard }

    /// The time of the policy of a user's app; 0 for none. A client that resumes from before may not know what the policy allows.
    func changedAt(for user: UserID) -> Milliseconds { entries[String(user.app)]?.version.milliseconds ?? 0 }

    /// Whether users of any app are removed (`users.forgetAfter`).
    var removesUsers: Bool { standard.removesUsers || followed.contains { $0.value.policy.removesUsers } }

    /// The policy that was set for an app.
    func entry(_ app: String) -> Entry? { entries[app] }

    /// The apps with a policy of their own, by name.
    var apps: [String] { entries.keys.sorted() }

    /// Stores the entry if it is newer. Returns whether it was.
    mutating func merge(_ entry: Entry, of app: String) -> Bool {
        guard entry.version > entries[app]?.version ?? .zero else { return false }
        entries[app] = entry
        followed[app] = SharedPolicy(entry.app.followed(on: standard))
        return true
    }

    /// The durable form of the policies. That of the configuration is not written.
    var rows: [Row] { apps.compactMap { app in entries[app].flatMap { $0.version > .zero ? Row(policy: $0, of: app) : nil } } }
}

extension AppPolicy {
    /// The policy that results on a node whose own policy is `standard`.
    ///
    /// The node's own times apply where neither a setting nor the preset's document gives any.
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
    /// The user whose owner writes the policy of an app. No such user needs to exist.
    static func policyUser(of app: String) -> UserID { UserID(app: app, id: "policy") }
}

extension Row {
    /// The durable form of an app's policy, for every node.
    init(policy entry: Policies.Entry, of app: String) {
        self.init(user: .policyUser(of: app), kind: .policy, key: "", version: entry.version, value: entry.app.json)
    }
}
