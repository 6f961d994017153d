/// The devices of all users that vendor push reaches, by their logins and logouts and by the policies. They keep a user ONLINE without a
/// session.
///
/// It knows neither nodes nor records. Its inputs are what clients do, and how certainly the nodes learn of it.
struct PushReach {
    private var reaches: [Reach]

    init(usersCount: Int) { reaches = Array(repeating: Reach(), count: usersCount) }

    /// Whether no device of a user was ever reported.
    func isUnused(by user: Int) -> Bool { reaches[user].isEmpty }

    private func word(of client: SimulatedClient) -> Reach.Word { reaches[client.user].words[client.device] }

    private mutating func set(_ client: SimulatedClient, _ word: Reach.Word, at now: Nanoseconds) {
        reaches[client.user].set(client.device, word, at: now)
    }

    /// Records that a call may have ended what nodes know of a user's devices.
    mutating func doubt(_ user: Int, at now: Nanoseconds) { reaches[user].doubt(at: now) }

    mutating func opened(_ client: SimulatedClient, at now: Nanoseconds) {
        let isKnown = client.isPushReachable ? word(of: client) == .yes : word(of: client) == .no
        if !isKnown { set(client, .unknown, at: now) }
    }

    mutating func synced(_ client: SimulatedClient, _ certain: Reach.Word, at now: Nanoseconds) {
        if word(of: client) == .unknown { set(client, certain, at: now) }
    }

    mutating func loggedOut(_ client: SimulatedClient, isCertain: Bool, at now: Nanoseconds) {
        if word(of: client) != .no { set(client, isCertain ? .no : .unknown, at: now) }
    }

    /// Records a certain change of the policy of devices that push reaches.
    mutating func policyChanged(to isOn: Bool, of clients: Clients, isCertain: Bool, at now: Nanoseconds) {
        for client in clients where client.isPushReachable || !isUnused(by: client.user) {
            let isOpen = client.stream != nil && client.isSynced && client.isPushReachable
            let mayBeMissed = word(of: client) != .no || client.isPushReachable || client.stream != nil
            let certain: Reach.Word = !isOn ? .no : isOpen ? .yes : mayBeMissed ? .unknown : .no
            set(client, isCertain ? certain : .unknown, at: now)
        }
    }

    /// The devices that certainly keep a user ONLINE, and those that possibly do.
    ///
    /// - Parameter lostLogouts: the devices whose logout may be lost.
    func devices(of user: Int, killsAt: [Nanoseconds], lostLogouts: [Int]) -> (certain: [Int], possible: [Int]) {
        guard !isUnused(by: user) else { return ([], []) }
        let words = reaches[user].words.indices.map { (device: $0, word: reaches[user].word($0, killsAt: killsAt)) }
        return (
            words.filter { $0.word == .yes }.map(\.device),
            words.filter { $0.word != .no || lostLogouts.contains($0.device) }.map(\.device)
        )
    }
}

/// The devices of one user that keep the user ONLINE without a session.
struct Reach {
    enum Word { case no, yes, unknown }

    private(set) var words = Array(repeating: Word.no, count: SimulatedClient.devicesPerUser)
    private var changedAt = Array(repeating: Nanoseconds.min / 2, count: SimulatedClient.devicesPerUser)

    /// Whether no device was ever reported.
    var isEmpty: Bool { words.allSatisfy { $0 == .no } }

    mutating func set(_ device: Int, _ word: Word, at now: Nanoseconds) {
        guard words[device] != word else { return }
        (words[device], changedAt[device]) = (word, now)
    }

    /// Records that a call may have been carried out or not.
    mutating func doubt(at now: Nanoseconds) { for device in words.indices where words[device] != .no { set(device, .unknown, at: now) } }

    /// The certainty about a device. A node that was killed soon afterwards may have been the only one that knew.
    func word(_ device: Int, killsAt: [Nanoseconds]) -> Word {
        let changedAt = changedAt[device]
        let isLost = killsAt.contains { (changedAt - .milliseconds(1_000)...changedAt + .milliseconds(3_000)).contains($0) }
        return isLost ? .unknown : words[device]
    }
}
