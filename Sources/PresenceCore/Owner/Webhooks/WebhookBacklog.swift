import PresenceWire

/// The bytes of webhook events that wait, of the users that this node owns, by app (<doc:Webhooks>).
///
/// Events in a delivery wait until the receiver has accepted them. The bounds keep an app whose receiver is down from filling the memory of
/// the nodes. Copies of replicas do not count: their owners bound them.
struct WebhookBacklog {
    /// Most bytes of one app that wait for the users of this node: some 40,000 changes of a status.
    ///
    /// Beyond it each user keeps only its newest event, and the others become dead letters.
    var appBytesMax = 16 << 20
    /// The same for all apps together.
    var nodeBytesMax = 64 << 20
    /// The bytes of each user with events that wait.
    private var users: [UserID: Int] = [:]
    private var apps: [String: Int] = [:]
    private(set) var bytesCount = 0

    /// Users with events that wait.
    var usersCount: Int { users.count }

    /// The bytes of the events of an app that wait.
    func bytesCount(of app: String) -> Int { apps[app] ?? 0 }

    /// Notes the bytes of a user's events that wait.
    mutating func set(_ bytes: Int, of user: UserID) {
        let held = users[user] ?? 0
        guard bytes != held else { return }
        users[user] = bytes > 0 ? bytes : nil
        bytesCount += bytes - held
        let app = String(user.app)
        let appBytes = (apps[app] ?? 0) + bytes - held
        apps[app] = appBytes > 0 ? appBytes : nil
    }

    /// Whether so much waits that each user of an app keeps only its newest event.
    func isFull(for user: UserID) -> Bool {
        bytesCount >= nodeBytesMax || apps[String(user.app)] ?? 0 >= appBytesMax
    }
}
