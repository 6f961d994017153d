import PresenceCore
import PresenceWire

/// The events that one user has published, each with another value.
struct ExpectedEvents {
    struct Published {
        let value: Int64
        let askedAt: Nanoseconds
        let seconds: Int64
        let isForOnlineOnly: Bool
        let isSynced: Bool
        /// The acknowledged event; nil before the acknowledgement, and if the call had no answer.
        var acknowledged: PublishedEvent?
    }

    private(set) var published: [Published] = []

    var isEmpty: Bool { published.isEmpty }

    mutating func ask(_ event: Published) { published.append(event) }

    mutating func acknowledge(_ event: PublishedEvent) {
        if let index = published.firstIndex(where: { $0.value == event.value }) { published[index].acknowledged = event }
    }

    /// The value of an event in a status although its call started after `moment`; nil for none.
    func hiddenEvent(in status: JSONValue, since moment: Nanoseconds) -> Int64? {
        guard !isEmpty else { return nil }
        return [status["event"], status["loginEvent"]].compactMap { event -> Int64? in
            guard case .integer(let value) = event?["value"] else { return nil }
            return published(value).map { $0.askedAt > moment } ?? true ? value : nil
        }.first
    }

    func published(_ value: Int64) -> Published? { published.first { $0.value == value } }

    /// The newest acknowledged event, of all or of those that later logins raise.
    func newestAcknowledged(forLogins: Bool = false) -> PublishedEvent? {
        published.compactMap(\.acknowledged).filter { !forLogins || !$0.isForOnlineOnly }.max { $0.id < $1.id }
    }

    /// Whether another event may have replaced this one and ended since: a newer one, or one whose call started shortly before.
    ///
    /// An owner with slow links may publish that event late, even if another owner has published it before and answered.
    func mayBeReplaced(_ event: PublishedEvent, at wall: Milliseconds, mayLag: Milliseconds) -> Bool {
        published.contains { other in
            let askedAt = SimulatedCluster.epoch + other.askedAt / 1_000_000
            let mayBeNewer = other.acknowledged.map { $0.id > event.id } ?? false || askedAt > event.publishedAt - 10_000 - mayLag
            return other.value != event.value && mayBeNewer && askedAt + other.seconds * 1_000 < wall + mayLag
        }
    }

    /// The error in the events of a user's record, on a node whose clock shows `wall`; nil for none.
    ///
    /// - Parameter mayLag: how late or early an event may end, because a clock has jumped.
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

/// A session that must receive an event.
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
    /// The time before which issued tokens are void, by the true clock, whatever the clocks of the nodes show.
    let voidBefore: Milliseconds
}

/// The statuses of one user that streams and answers sent. All receivers of one version must receive the same, on every path.
struct Contents {
    private var told: [String: JSONValue] = [:]

    /// Returns an earlier different status under the same version; nil for none.
    ///
    /// It does not compare hidden platforms, the publishing session of an event, which only the user receives, and the user's own general
    /// status if it is UNKNOWN.
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
        // The status with more members is the one to compare with later ones.
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

/// The policies of the app that a node may have.
struct PolicyTruth {
    /// The possible policies, the newest last; one if all nodes have the same.
    private(set) var policies: [Policy]
    private(set) var acknowledgedAt: Nanoseconds = .min / 2
    private(set) var askedAt: Nanoseconds = .min / 2
    /// Whether a change is under way.
    var isBusy = false
    /// Whether a policy of this history has switched the statuses off.
    private(set) var hasBeenOff = false
    private(set) var hasNeededSession = false
    private(set) var hasKeptStatus = false
    private(set) var hasHiddenPlatforms = false
    private(set) var hasHiddenOwnStatus = false
    /// Whether a change of the policy may have sent a record again, because it shows the record in another way.
    var mayShowAgain: Bool { hasBeenOff || hasHiddenPlatforms || hasHiddenOwnStatus }
    /// The last time at which a node may have forbidden to send other users.
    private var offUntil: Nanoseconds = .min / 2

    init(standard: Policy) { policies = [standard] }

    mutating func ask(_ policy: Policy, at now: Nanoseconds) {
        noteOff(at: now)
        (isBusy, askedAt) = (true, now)
        policies.append(policy)
        hasBeenOff = hasBeenOff || !policy.publishesOthers
        hasNeededSession = hasNeededSession || policy.customStatusNeedsSession
        hasKeptStatus = hasKeptStatus || !policy.offlineClearsCustomStatus
        hasHiddenPlatforms = hasHiddenPlatforms || !policy.exposesPlatforms
        hasHiddenOwnStatus = hasHiddenOwnStatus || policy.selfReport == .unknown
    }

    /// Records an acknowledged policy.
    ///
    /// - Parameter isCertain: whether no node can have another policy from now on. A paused node may carry out an earlier call late,
    /// although another owner has answered its caller since.
    mutating func acknowledge(_ policy: Policy, isCertain: Bool, at now: Nanoseconds) {
        noteOff(at: now)
        (isBusy, acknowledgedAt) = (false, now)
        if isCertain { policies = [policy] } else { policies.append(policy) }
    }

    private mutating func noteOff(at now: Nanoseconds) { if policies.contains(where: { !$0.publishesOthers }) { offUntil = now } }

    /// Whether every node has allowed users to receive others since `moment`.
    func hasPublished(since moment: Nanoseconds) -> Bool { policies.allSatisfy(\.publishesOthers) && offUntil < moment }

    /// Whether no node may have sent other users for so long.
    func isOff(for span: Nanoseconds, at now: Nanoseconds) -> Bool {
        !isBusy && policies.allSatisfy { !$0.publishesOthers } && now - acknowledgedAt > span
    }
}
