import PresenceWire

/// A member in the order in which this node heard of it; 0 is this node itself.
public typealias PeerIndex = Int

/// What an owner knows of one user.
struct OwnedUser {
    var record: Record
    let slot: Slot
    // Small fields stand side by side, because every user pays for the gaps between them.
    /// Another node owns the user; this one keeps its facts and decides nothing (design §6).
    var isReplica = false
    /// Changes of the list that the nodes with sessions will be told when these are on disk.
    var untoldCount: Int32 = 0
    /// A hash of the user's ID.
    let nameHash: UInt64
    /// What the user's slot counts of it, see ``SlotBook``.
    var factsHash: UInt64 = 0
    /// Sorted by session ID.
    var sessions: [OwnedSession] = []
    /// The nodes that want to be told; sorted, because the order reaches the wire.
    var watchers: [PeerIndex] = []
    var subscriptions = Subscriptions()
    /// Names the list as it was told to the nodes with sessions: another one with each change that they are told.
    var listMark: UInt64 = 0
    /// Until then an ONLINE that no session vouches for is believed: the gateways may not have spoken yet (design §5).
    var doubtDeadline: Instant?
    /// The last proof of life. The record tells it with its next change that others are shown: under one version it says one thing.
    var lastSeenTime: Milliseconds = 0
    /// What the user is when no session is left: by how the last one ended (T2, T7).
    var statusAfterLast = StatusType.offline
    /// When the user is looked at because what is known of it may break a rule: a list longer than its quota, a friend's subscription to
    /// one who is none, a custom status that outlived its OFFLINE. Two sides of a split have brought that together, or the policy has
    /// changed; nil when nothing is suspected.
    var repairDueAt: Instant?
    /// The record was written by somebody who knew of a newer rule about who may see the user, which is on its way: what was kept before,
    /// because somebody may have been shown it. A list, which takes no room where it is empty.
    var keptBeforeRule: [Record] = []

    init(record: Record) {
        self.record = record
        nameHash = record.user.withBytes { StableHash.hash64($0) }
        slot = record.user.slot
    }

    /// What is kept of the user, as a hash; 0 for nothing. Changes nothing; but what does not say that it may is called on a copy of the user.
    mutating func currentFactsHash() -> UInt64 {
        var hash = subscriptions.isEmpty ? 0 : StableHash.mix(nameHash, subscriptions.hash)
        guard record.version > .zero || record.customStatusVersion > .zero else { return hash }
        for version in [record.version, record.customStatusVersion] {
            hash = StableHash.mix(StableHash.mix(nameHash ^ hash, version.stamp), UInt64(version.node))
        }
        if let privacy = record.privacy {
            hash = StableHash.mix(StableHash.mix(nameHash ^ hash, privacy.version.stamp), UInt64(privacy.version.node))
        }
        return hash
    }

    /// Nothing would be lost by forgetting this user.
    var isBlank: Bool {
        record.version == .zero && sessions.isEmpty && watchers.isEmpty && subscriptions.isEmpty && doubtDeadline == nil
    }

    /// See ``listMark``; nil while there is something of the list to be told.
    var toldListMark: UInt64? { untoldCount == 0 ? listMark : nil }

    /// The nodes that hold a session of the user, sorted.
    var sessionPeers: [PeerIndex] {
        var peers: [PeerIndex] = []
        for session in sessions where !peers.contains(session.peer) { peers.append(session.peer) }
        return peers.sorted()
    }

    /// What the sessions say: ONLINE while one is open or missed for less than its grace, or while push reaches a device.
    ///
    /// While there is doubt, nothing is taken away, because other gateways may still have sessions to report.
    var decided: (status: StatusType, platforms: [String]) {
        var platforms = sessions.map(\.platform) + record.pushDevices.map(\.platform)
        if doubtDeadline != nil { platforms += record.onlinePlatforms }
        let isOnline = !sessions.isEmpty || !record.pushDevices.isEmpty || (doubtDeadline != nil && record.statusType == .online)
        if isOnline { return (.online, Array(platforms.sortedSet.prefix(Limits.sessionsPerUserMax))) }
        return (record.statusType == .online ? statusAfterLast : record.statusType, [])
    }

    /// Adds or removes a watching node. Returns whether it was a change.
    mutating func setWatcher(_ peer: PeerIndex, _ isWatching: Bool) {
        let place = watchers.firstIndex { $0 >= peer } ?? watchers.count
        let isThere = place < watchers.count && watchers[place] == peer
        if isWatching, !isThere { watchers.insert(peer, at: place) }
        if !isWatching, isThere { watchers.remove(at: place) }
    }

    /// The earliest moment at which something about this user ends by itself. Changes nothing, as ``currentFactsHash()``.
    mutating func nextDeadline(at now: Now) -> Instant {
        var next = min(doubtDeadline ?? .farFuture, repairDueAt ?? .farFuture, nextPushDeadline(at: now))
        for session in sessions { next = min(next, session.missedUntil ?? .farFuture) }
        if record.customStatusExpiresAt > 0 { next = min(next, now.instant(of: record.customStatusExpiresAt)) }
        if let expiry = record.privacy?.nextExpiry { next = min(next, now.instant(of: expiry)) }
        if let expiry = record.nextEventExpiry { next = min(next, now.instant(of: expiry)) }
        if let expiry = subscriptions.nextExpiry { next = min(next, now.instant(of: expiry)) }
        return next
    }
}

/// A session as its user's owner knows it.
struct OwnedSession {
    let id: SessionID
    /// Beside ``id``, which leaves room for four bytes.
    private let peerNumber: Int32
    let openedAt: Milliseconds
    let platform: String
    let deviceID: String
    /// The registration round of its gateway's node that last spoke of it.
    var epoch: UInt64
    /// Set when it was lost, or when its gateway's node is gone: until then the user is not shown without it.
    var missedUntil: Instant?
    /// See ``PresenceWire/Attach/isPushReachable``.
    var isPushReachable: Bool
    /// It was lost, and counted then. One that is missed because its node is gone may come back: it is counted when it is retired.
    var isCounted = false

    init(
        id: SessionID, peer: PeerIndex, openedAt: Milliseconds, platform: String, deviceID: String, isPushReachable: Bool, epoch: UInt64
    ) {
        self.id = id
        peerNumber = Int32(peer)
        self.openedAt = openedAt
        self.platform = platform
        self.deviceID = deviceID
        self.isPushReachable = isPushReachable
        self.epoch = epoch
    }

    /// The node of its gateway.
    var peer: PeerIndex { PeerIndex(peerNumber) }

    /// Whether a login from this device and platform takes the place of this session, which is missed.
    func isReplaced(by attach: Attach) -> Bool {
        missedUntil != nil && platform == attach.platform && deviceID == attach.deviceID
    }
}

extension Record {
    /// The user went away after the custom status was set, where that could not be known for certain.
    var hasOutlivedStatus: Bool {
        statusType != .online && !customStatus.isEmpty && customStatusVersion.milliseconds < lastOnlineStatusUpdateTime
    }
}

extension Now {
    /// The monotonic instant of a wall-clock time, as of now.
    func instant(of wall: Milliseconds) -> Instant {
        instant + .milliseconds(max(wall - self.wall, 0))
    }
}

extension [String] {
    /// Sorted by bytes, each once.
    fileprivate var sortedSet: [String] {
        var result: [String] = []
        for text in sorted(by: { $0.utf8.lexicographicallyPrecedes($1.utf8) }) where result.last != text { result.append(text) }
        return result
    }
}
