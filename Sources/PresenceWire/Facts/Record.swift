/// The general status. Only the system sets it (T1, T2).
public enum StatusType: UInt8, CaseIterable, Sendable {
    /// The user never logged in, or logged out.
    case unlogined = 0
    /// The user's last connection was lost without a logout.
    case offline = 1
    /// The user has at least one open session.
    case online = 2
}

/// All that the cluster knows of a user and that others may see: one whole, versioned value.
///
/// In any queue a newer record replaces an older one. ``Field`` lists the stored properties. None has a value by default, so
/// ``init(blank:)`` does not compile without a new one.
public struct Record: Hashable, Sendable {
    public var user: UserID
    public var version: Version
    public var statusType: StatusType
    /// The custom status; empty when none is set (T10). At most ``Limits/customStatusBytesMax``.
    public var customStatus: String
    /// The time at which the custom status ends by itself; 0 for never.
    public var customStatusExpiresAt: Milliseconds
    /// Whether the call that set the custom status named its end. OFFLINE then does not clear it (``Policy/offlineClearsCustomStatus``).
    public var customStatusHasOwnEnd: Bool
    /// The version of the last write of the custom status.
    ///
    /// It is a fact of its own: after a split the newer custom status wins, whichever record wins.
    public var customStatusVersion: Version
    /// The version of the user's profile; ``Version/zero`` for a user who has set no field of it.
    ///
    /// It is a fact of the profile's row. The record carries it to the nodes that watch the user.
    public var profileVersion: Version
    /// The devices that keep the user ONLINE without a session, sorted by platform and device. Clients never receive them.
    public var pushDevices: [PushDevice]
    /// Whether the app has imported the user (`importUsers`). It never becomes false again.
    public var isRegistered: Bool
    /// Platforms with a session, sorted and without repetition.
    public var onlinePlatforms: [String]
    /// The time of the last change that others see (Z14). It increases with each such change, also within one millisecond.
    public var lastUpdateTime: Milliseconds
    /// The time of the last change of ``statusType`` (Z14).
    public var lastOnlineStatusUpdateTime: Milliseconds
    /// The time of the last change of ``customStatus`` (Z14).
    public var lastCustomStatusUpdateTime: Milliseconds
    /// The time of the last sign of life that the owner knew when it wrote ``version``.
    public var lastSeenTime: Milliseconds
    /// The time at which the current owner took over the record; 0 if it wrote the record itself.
    ///
    /// A client with an earlier complete position may have missed the record. The time is in the future if nodes that have left may have
    /// sent later positions by clocks that were ahead. It is not on disk.
    public var knownSince: Milliseconds
    private var privacyBox: Box<Privacy>?
    private var eventsBox: Box<PublishedEvents>?

    /// The user's visibility and hidden views; nil if the user never changed the visibility. It has a durable row of its own.
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

    /// The time at which the next event ends; nil for never.
    public var nextEventExpiry: Milliseconds? { eventsBox?.value.nextExpiry }

    /// Whether the user ever changed the visibility.
    public var hasPrivacy: Bool { privacyBox != nil }

    /// Holds a value that few users have. The records of the other users stay small.
    private final class Box<Value: Hashable & Sendable>: Hashable, Sendable {
        let value: Value

        init(_ value: Value) { self.value = value }

        static func == (left: Box, right: Box) -> Bool { left === right || left.value == right.value }

        func hash(into hasher: inout Hasher) { hasher.combine(value) }
    }

    /// Makes the record of a user without any write: UNLOGINED, version zero.
    public init(blank user: UserID) {
        self.user = user
        version = .zero
        statusType = .unlogined
        customStatus = ""
        customStatusExpiresAt = 0
        customStatusHasOwnEnd = false
        customStatusVersion = .zero
        profileVersion = .zero
        pushDevices = []
        isRegistered = false
        onlinePlatforms = []
        lastUpdateTime = 0
        lastOnlineStatusUpdateTime = 0
        lastCustomStatusUpdateTime = 0
        lastSeenTime = 0
        knownSince = 0
        privacyBox = nil
        eventsBox = nil
    }

    /// Whether a client with the complete position `floor` may have missed this record.
    public func mayBeMissed(since floor: Version) -> Bool {
        version > floor || (version > .zero && knownSince >= floor.milliseconds && floor > .zero)
    }

    /// Whether the user exists: the app has imported the user, or the user has logged in.
    public var isOfKnownUser: Bool { isRegistered || lastSeenTime > 0 }

    /// Whether the record, whatever its version, equals that of a user without any write.
    public var isBlank: Bool {
        guard lastUpdateTime == 0, lastSeenTime == 0, statusType == .unlogined else { return false }
        return customStatus.isEmpty && !hasEvents && !hasPrivacy && !isRegistered && pushDevices.isEmpty && profileVersion == .zero
    }

    /// Removes the fields that the policy of the app hides from others (T8).
    public consuming func shown(by policy: Policy) -> Record {
        if !policy.exposesPlatforms { onlinePlatforms = [] }
        return self
    }

    /// Whether a viewer sees the same in both records, apart from the version.
    ///
    /// - Parameter showsPlatforms: ``Policy/exposesPlatforms`` of the app.
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

    /// Replaces the custom status by that of another record.
    public mutating func takeCustomStatus(of other: Record) {
        customStatus = other.customStatus
        customStatusExpiresAt = other.customStatusExpiresAt
        customStatusHasOwnEnd = other.customStatusHasOwnEnd
        customStatusVersion = other.customStatusVersion
        lastCustomStatusUpdateTime = other.lastCustomStatusUpdateTime
    }
}

/// One durable fact (<doc:DurableRows>): (slot, app, user, kind, key) → version, value, expiry. A row without a value is a tombstone.
public struct Row: Hashable, Sendable {
    /// The kind of fact that a row holds.
    public enum Kind: UInt8, CaseIterable, Sendable {
        /// The user's record; the key is empty.
        case status = 1
        /// A subscription of the user; the key is the target's ID.
        case subscription = 2
        /// A node that was a member, by its ID. Each node keeps its own row.
        case member = 3
        /// A bound of a node's version clock. Each node keeps its own row.
        case clock = 4
        /// The policy of an app. Every node keeps it, and one node writes it.
        case policy = 5
        /// The time before which a user's tokens are void. Every node keeps it, and one node writes it.
        case kick = 6
        /// A user's visibility and hidden views; the key is empty.
        case visibility = 7
        /// A user's profile, each field with a version of its own; the key is empty.
        case profile = 8
        /// A friend of the user; the key is the friend's ID.
        case friend = 9
        /// A friend request that the user has sent; the key is the target's ID.
        case pendencyOut = 10
        /// A friend request that the user has received; the key is the requester's ID.
        case pendencyIn = 11
        /// A user whom the user blocks; the key is that user's ID.
        case blocked = 12
        /// A group of the user's friends; the key is the group's number.
        case friendGroup = 13
        /// The time up to which the user has read the received friend requests; the key is empty.
        case pendencyRead = 14
        /// A command to the owner of another user, until that owner has answered; the key is the other user's ID.
        case chainOutbox = 15
        /// A subscription to the profile of another user; the key is the target's ID.
        case profileSubscription = 16
        /// The events about the user for the webhook of the app, delivered or not; the key is empty.
        case webhookLog = 17
        /// A recent call with a key of its client, and its answer; the key is that of the call. The row ends without a tombstone.
        case answeredCall = 18
        /// The deletion of the user (``Deletion``); the key is empty. The user's rows that are not newer do not count.
        case deletion = 19
    }

    public var user: UserID
    public var kind: Kind
    /// Distinguishes rows of one kind; UTF-8, may be empty.
    public var key: String
    public var version: Version
    /// The fact as JSON, or as lines with JSON (``webhookLog``), UTF-8; nil for a tombstone.
    public var value: [UInt8]?
    /// The time at which the fact ends by itself; nil for never.
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
