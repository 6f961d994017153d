/// The general status, set by the system only (T1, T2).
public enum StatusType: UInt8, CaseIterable, Sendable {
    /// Never logged in, or logged out.
    case unlogined = 0
    /// The connection was lost without a logout.
    case offline = 1
    /// At least one session is open.
    case online = 2
}

/// All that the outside may know of a user: one whole, versioned value. A newer one replaces an older one in any queue.
public struct Record: Hashable, Sendable {
    public var user: UserID
    public var version: Version
    public var statusType: StatusType
    /// The custom status; empty when none is set (T10). At most ``Limits/customStatusBytesMax``.
    public var customStatus: String
    /// When the custom status ends by itself; 0 for never.
    public var customStatusExpiresAt: Milliseconds
    /// When the custom status was last written: a fact of its own, kept when two sides of a split have each written a record.
    public var customStatusVersion: Version
    /// Devices by which the user is ONLINE without a session; sorted by platform and device. Nobody outside is told.
    public var pushDevices: [PushDevice] = []
    /// The app has said that there is such a user (`importUsers`); never taken back.
    public var isRegistered = false
    /// Platforms with a session, sorted and without repetition.
    public var onlinePlatforms: [String]
    /// The last change of anything that others are shown (Z14). It moves with each such change, also within one millisecond.
    public var lastUpdateTime: Milliseconds
    /// The last change of ``statusType`` (Z14).
    public var lastOnlineStatusUpdateTime: Milliseconds
    /// The last change of ``customStatus`` (Z14).
    public var lastCustomStatusUpdateTime: Milliseconds
    /// The last proof of life that was known when ``version`` was written.
    public var lastSeenTime: Milliseconds
    /// When the present owner began to answer for the record, if it did not write it: who was told earlier that all is complete may have
    /// missed it. Later than now where nodes that have left may have told so by clocks that were ahead. Not kept on disk.
    public var knownSince: Milliseconds
    private var privacyBox: Box<Privacy>?
    private var eventsBox: Box<PublishedEvents>?

    /// Who may see the user; nil for everyone, where nothing was ever said about it. A fact of its own with a durable row of its own.
    public var privacy: Privacy? {
        get { privacyBox?.value }
        set { privacyBox = newValue.map(Box.init) }
    }

    /// The events that the user has published and that have not ended.
    public var events: PublishedEvents {
        get { eventsBox?.value ?? PublishedEvents() }
        set { eventsBox = newValue == PublishedEvents() ? nil : Box(newValue) }
    }

    /// Whether an event is in force.
    public var hasEvents: Bool { eventsBox.map { !$0.value.isEmpty } ?? false }

    /// Whether an event was ever published.
    public var hasPublished: Bool { eventsBox != nil }

    /// When the next event ends; nil for never.
    public var nextEventExpiry: Milliseconds? { eventsBox?.value.nextExpiry }

    /// Whether anything was said about who may see the user.
    public var hasPrivacy: Bool { privacyBox != nil }

    /// Few users have its value: the others' records stay small.
    private final class Box<Value: Hashable & Sendable>: Hashable, Sendable {
        let value: Value

        init(_ value: Value) { self.value = value }

        static func == (left: Box, right: Box) -> Bool { left === right || left.value == right.value }

        func hash(into hasher: inout Hasher) { hasher.combine(value) }
    }

    /// What is true of a user nobody has written about: UNLOGINED, version zero.
    public init(blank user: UserID) {
        self.user = user
        version = .zero
        statusType = .unlogined
        customStatus = ""
        customStatusExpiresAt = 0
        customStatusVersion = .zero
        onlinePlatforms = []
        lastUpdateTime = 0
        lastOnlineStatusUpdateTime = 0
        lastCustomStatusUpdateTime = 0
        lastSeenTime = 0
        knownSince = 0
        privacyBox = nil
    }

    /// Whether a client that was told everything up to `floor` may have missed this.
    public func isUntold(since floor: Version) -> Bool {
        version > floor || (version > .zero && knownSince >= floor.milliseconds && floor > .zero)
    }

    /// Whether there is such a user: the app has said so, or the user has logged in with a token of the app.
    public var isOfKnownUser: Bool { isRegistered || lastSeenTime > 0 }

    /// Whether the record says, under whatever version, what is true of a user of whom nothing is known.
    public var isBlank: Bool {
        guard lastUpdateTime == 0, lastSeenTime == 0, statusType == .unlogined else { return false }
        return customStatus.isEmpty && !hasEvents && !hasPrivacy && !isRegistered && pushDevices.isEmpty
    }

    /// What of the record the policy of its app lets others see (T8).
    public consuming func shown(by policy: Policy) -> Record {
        if !policy.exposesPlatforms { onlinePlatforms = [] }
        return self
    }

    /// Whether a viewer is shown the same by both, but for the version.
    ///
    /// - Parameter showsPlatforms: as the app's policy says (``Policy/exposesPlatforms``).
    public func looksLike(_ other: Record, showsPlatforms: Bool = true) -> Bool {
        lastUpdateTime == other.lastUpdateTime && lastSeenTime == other.lastSeenTime
            && lastOnlineStatusUpdateTime == other.lastOnlineStatusUpdateTime
            && lastCustomStatusUpdateTime == other.lastCustomStatusUpdateTime && statusType == other.statusType
            && customStatus == other.customStatus && showsEvents(of: other)
            && (!showsPlatforms || onlinePlatforms == other.onlinePlatforms)
    }

    private func showsEvents(of other: Record) -> Bool {
        eventsBox === other.eventsBox || (events.newest == other.events.newest && events.forLogins == other.events.forLogins)
    }

    /// Replaces the custom status by another record's.
    public mutating func takeCustomStatus(of other: Record) {
        customStatus = other.customStatus
        customStatusExpiresAt = other.customStatusExpiresAt
        customStatusVersion = other.customStatusVersion
        lastCustomStatusUpdateTime = other.lastCustomStatusUpdateTime
    }
}

/// One durable fact (<doc:DurableRows>): (slot, app, user, kind, key) → version, value, expiry. A row without a value is a tombstone.
public struct Row: Hashable, Sendable {
    /// What a row says of its user.
    public enum Kind: UInt8, CaseIterable, Sendable {
        /// The user's record; the key is empty.
        case status = 1
        /// A subscription of the user; the key is the target's ID.
        case subscription = 2
        /// A node that was a member, by its ID; kept by each node for itself.
        case member = 3
        /// How far a node's version clock may go; kept by each node for itself.
        case clock = 4
        /// The policy of an app; kept by each node, written by one.
        case policy = 5
        /// Since when a user's tokens are void; kept by each node, written by one.
        case kick = 6
        /// Who may see the user, and what the others are shown; the key is empty.
        case visibility = 7

        /// The facts of a user, which replicas keep too.
        public static let ofUsers = allCases.filter(\.isOfUser)
        /// Whether it is a fact of a user, which replicas keep too.
        public var isOfUser: Bool { self == .status || self == .subscription || self == .visibility }
        /// Whether every node keeps it, whoever wrote it.
        public var isForAll: Bool { self == .policy || self == .kick }
    }

    public var user: UserID
    public var kind: Kind
    /// Distinguishes rows of one kind; UTF-8, may be empty.
    public var key: String
    public var version: Version
    /// The fact as JSON, UTF-8; nil for a tombstone.
    public var value: [UInt8]?
    /// When the fact ends by itself; nil for never.
    public var expiresAt: Milliseconds?

    public init(user: UserID, kind: Kind, key: String, version: Version, value: [UInt8]?, expiresAt: Milliseconds? = nil) {
        self.user = user
        self.kind = kind
        self.key = key
        self.version = version
        self.value = value
        self.expiresAt = expiresAt
    }
}
