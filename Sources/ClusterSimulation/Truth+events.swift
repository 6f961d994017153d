import PresenceCore
import PresenceWire

/// The events that one user has published, each with a value of its own.
struct EventBook {
    struct Published {
        let value: Int64
        let askedAt: Nanoseconds
        let seconds: Int64
        let isForOnlineOnly: Bool
        let isSynced: Bool
        /// As it was acknowledged; nil before, and where nobody has heard of its end.
        var acknowledged: PublishedEvent?
    }

    private(set) var published: [Published] = []

    var isEmpty: Bool { published.isEmpty }

    mutating func ask(_ event: Published) { published.append(event) }

    mutating func acknowledge(_ event: PublishedEvent) {
        if let place = published.firstIndex(where: { $0.value == event.value }) { published[place].acknowledged = event }
    }

    /// The value of an event in a status that was asked for after a moment; nil for none.
    func hiddenEvent(in status: JSONValue, since moment: Nanoseconds) -> Int64? {
        guard !isEmpty else { return nil }
        return [status["event"], status["loginEvent"]].compactMap { event -> Int64? in
            guard case .integer(let value) = event?["value"] else { return nil }
            return published(value).map { $0.askedAt > moment } ?? true ? value : nil
        }.first
    }

    func published(_ value: Int64) -> Published? { published.first { $0.value == value } }

    /// The newest that was acknowledged, of all or of those that later logins raise.
    func newestAcknowledged(forLogins: Bool = false) -> PublishedEvent? {
        published.compactMap(\.acknowledged).filter { !forLogins || !$0.isForOnlineOnly }.max { $0.id < $1.id }
    }

    /// Whether another event may have taken the place of one, and have ended since: a newer one, or one that was asked for shortly before. An
    /// owner to which the links are slow may publish that late, also where another owner has published it before and answered.
    func mayBeReplaced(_ event: PublishedEvent, at wall: Milliseconds, mayLag: Milliseconds) -> Bool {
        published.contains { other in
            let askedAt = SimulatedCluster.epoch + other.askedAt / 1_000_000
            let mayBeNewer = other.acknowledged.map { $0.id > event.id } ?? false || askedAt > event.publishedAt - 10_000 - mayLag
            return other.value != event.value && mayBeNewer && askedAt + other.seconds * 1_000 < wall + mayLag
        }
    }

    /// Says what is wrong with the events of a user's record, on a node whose clock shows `wall`; nil for nothing.
    ///
    /// - Parameter mayLag: how long an event may end late or early, because a clock has jumped.
    func problem(with events: PublishedEvents, at wall: Milliseconds, mayLag: Milliseconds) -> String? {
        for event in [events.newest, events.forLogins].compactMap(\.self) {
            guard let known = published(event.value) else { return "nobody published \(event.value)" }
            if event.expiresAt < wall - mayLag { return "\(event.value) ended \(wall - event.expiresAt) ms ago" }
            if let right = known.acknowledged, right.id == event.id, right != event { return "\(event) was acknowledged as \(right)" }
        }
        if let login = events.forLogins,
            login.isForOnlineOnly || !(events.newest?.isForOnlineOnly ?? true) || login.id >= events.newest?.id ?? .max
        {
            return "loginEvent is \(login.value), event \(events.newest?.value ?? 0)"
        }
        let isInForce = { (event: PublishedEvent) in event.expiresAt > wall + mayLag && !mayBeReplaced(event, at: wall, mayLag: mayLag) }
        if let right = newestAcknowledged(), events.newest?.id ?? .zero < right.id, isInForce(right) {
            return "\(right.value) was acknowledged as \(right.id.text), event is \(events.newest?.value ?? 0)"
        }
        if let right = newestAcknowledged(forLogins: true), isInForce(right) {
            let login = [events.newest, events.forLogins].compactMap(\.self).filter { !$0.isForOnlineOnly }.map(\.id).max()
            if login ?? .zero < right.id { return "\(right.value) for later logins was acknowledged as \(right.id.text)" }
        }
        return nil
    }
}

extension Version {
    fileprivate static let max = Version(milliseconds: Milliseconds(1) << 46, counter: 0, node: 0)
}

/// A session that is to be told an event.
struct Expectation {
    let client: Int
    let session: SessionID
    let user: Int
    let event: PublishedEvent
    let acknowledgedAt: Nanoseconds
}

/// An acknowledged kick.
struct Kick {
    let user: Int
    let askedAt: Nanoseconds
    let acknowledgedAt: Nanoseconds
    /// Tokens that were issued before this time, by the true clock, are void whatever the clocks of the nodes show.
    let voidBefore: Milliseconds
}

/// Which of a user's devices keep the user ONLINE without a session.
struct Reach {
    enum Word { case no, yes, unknown }

    private(set) var words = Array(repeating: Word.no, count: SimulatedClient.devicesPerUser)
    private var changedAt = Array(repeating: Nanoseconds.min / 2, count: SimulatedClient.devicesPerUser)

    /// Nothing was ever said about a device.
    var isEmpty: Bool { words.allSatisfy { $0 == .no } }

    mutating func set(_ device: Int, _ word: Word, at now: Nanoseconds) {
        guard words[device] != word else { return }
        (words[device], changedAt[device]) = (word, now)
    }

    /// The cluster may have carried out the call or not.
    mutating func doubt(at now: Nanoseconds) { for device in words.indices where words[device] != .no { set(device, .unknown, at: now) } }

    /// The same where a node that was killed soon afterwards may have been the only one that knew.
    func word(_ device: Int, killsAt: [Nanoseconds]) -> Word {
        let changedAt = changedAt[device]
        let isLost = killsAt.contains { (changedAt - .milliseconds(1_000)...changedAt + .milliseconds(3_000)).contains($0) }
        return isLost ? .unknown : words[device]
    }
}

/// The statuses that streams and answers told of one user: under one version all are told the same, whoever is told, and on every path.
struct Contents {
    private var told: [String: JSONValue] = [:]

    /// Returns what was told before, if it is something else. Not compared are the platforms where the policy hides them, the session that
    /// published an event, which only its user is told, and the user's own general status where it is UNKNOWN.
    mutating func problem(with status: JSONValue, _ version: String) -> JSONValue? {
        guard let before = told[version] else {
            told[version] = status
            return nil
        }
        if before == status { return nil }
        let (known, platforms) = (before.platforms, status.platforms)
        if !known.isEmpty, !platforms.isEmpty, known != platforms { return before }
        let hidden = before.isUnknown || status.isUnknown ? ["statusType", "lastUpdateTime"] : []
        if before.commonContent.without(hidden) != status.commonContent.without(hidden) { return before }
        // The one that says more is compared with what comes.
        if before.isUnknown ? !status.isUnknown : known.isEmpty && !status.isUnknown { told[version] = status }
        return nil
    }
}

extension JSONValue {
    fileprivate var isUnknown: Bool { self["statusType"]?.text == "UNKNOWN" }

    fileprivate var commonContent: JSONValue {
        guard case .object(let members) = self else { return self }
        return .object(
            members.compactMap { member in
                switch member.name {
                case "onlinePlatforms": nil
                case "event", "loginEvent": Member(name: member.name, value: member.value.without("sessionID"))
                default: member
                }
            })
    }

    fileprivate var platforms: [JSONValue] { self["onlinePlatforms"]?.elements ?? [] }
}

/// The policies of the app that a node may follow.
struct PolicyTruth {
    /// One where all follow the same; the newest last.
    private(set) var policies: [Policy]
    private(set) var acknowledgedAt: Nanoseconds = .min / 2
    private(set) var askedAt: Nanoseconds = .min / 2
    /// A change is under way.
    var isBusy = false
    /// The statements of the policies of this history.
    private(set) var hasBeenOff = false
    private(set) var hasNeededSession = false
    private(set) var hasKeptStatus = false
    private(set) var hasHiddenPlatforms = false
    private(set) var hasHiddenOwnStatus = false
    /// When a node may last have forbidden to tell of others.
    private var offUntil: Nanoseconds = .min / 2

    init(standard: Policy) { policies = [standard] }

    mutating func ask(_ policy: Policy, at now: Nanoseconds) {
        noteOff(at: now)
        (isBusy, askedAt) = (true, now)
        policies.append(policy)
        hasBeenOff = hasBeenOff || !policy.tellsOfOthers
        hasNeededSession = hasNeededSession || policy.customStatusNeedsSession
        hasKeptStatus = hasKeptStatus || !policy.offlineClearsCustomStatus
        hasHiddenPlatforms = hasHiddenPlatforms || !policy.exposesPlatforms
        hasHiddenOwnStatus = hasHiddenOwnStatus || policy.selfReport == .unknown
    }

    /// - Parameter isCertain: no node can follow another one from now on. A node that stood still may do late what it was asked before, though
    ///   its caller was answered by another owner since.
    mutating func acknowledge(_ policy: Policy, isCertain: Bool, at now: Nanoseconds) {
        noteOff(at: now)
        (isBusy, acknowledgedAt) = (false, now)
        if isCertain { policies = [policy] } else { policies.append(policy) }
    }

    private mutating func noteOff(at now: Nanoseconds) { if policies.contains(where: { !$0.tellsOfOthers }) { offUntil = now } }

    /// Since a moment every node has let users be told of others.
    func hasTold(since moment: Nanoseconds) -> Bool { policies.allSatisfy(\.tellsOfOthers) && offUntil < moment }

    /// For so long no node may have told anybody of others.
    func isOff(for span: Nanoseconds, at now: Nanoseconds) -> Bool {
        !isBusy && policies.allSatisfy { !$0.tellsOfOthers } && now - acknowledgedAt > span
    }
}
