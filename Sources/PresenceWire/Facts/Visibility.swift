/// The rule of a user that says which viewers may see the user.
///
/// The user sets the mode and the list. The friends and the blocked users follow from the rows of the relationship chain.
public struct Visibility: Hashable, Sendable {
    /// The viewers whom a user admits.
    public enum Mode: String, CaseIterable, Sendable {
        case everyone, friends, list, nobody
    }

    /// See ``Mode``.
    public var mode = Mode.everyone
    /// Whether the user is hidden from everyone for now. ``mode`` applies again afterwards.
    public var isInvisible = false
    /// The viewers of ``Mode/list``: sorted, each once, at most ``Limits/visibilityUsersMax``.
    public var listed: [UserID] = []
    /// The viewers of ``Mode/friends``, sorted: the user's friend list, as the owner last published it.
    ///
    /// Nil with another mode. Nil also on a node that has read the visibility from a row: the row does not repeat the friend list. Such a
    /// node shows the user to nobody, and the next owner reads the friends from their rows.
    public var friends: [UserID]?
    /// The users who may never see the user, sorted. The blocklist of the relationship chain fills the list.
    public var blocked: [UserID] = []

    /// Makes a visibility that admits everyone.
    public init() {}

    /// Whether `viewer`, another user, may see the user.
    public func lets(_ viewer: UserID) -> Bool {
        guard !isInvisible, !blocked.containsSorted(viewer) else { return false }
        return switch mode {
        case .everyone: true
        case .friends: friends?.containsSorted(viewer) ?? false
        case .list: listed.containsSorted(viewer)
        case .nobody: false
        }
    }

    /// Whether users that no list names may see the user.
    var letsOthers: Bool { mode == .everyone && !isInvisible }

    /// Whether the user has chosen the same: the friends and the blocked users may differ.
    public func isSameChoice(as other: Visibility) -> Bool {
        mode == other.mode && isInvisible == other.isInvisible && listed == other.listed
    }

    /// Whether the friends alone may differ.
    public func differsByFriends(from other: Visibility) -> Bool { isSameChoice(as: other) && blocked == other.blocked }

    fileprivate var named: [UserID] { listed + (friends ?? []) + blocked }

    /// The users whom `new` may admit otherwise than this visibility, apart from those whom neither names; sorted.
    ///
    /// If only the lists have changed these are the users on one of the two lists. The others need not be compared.
    fileprivate func changedUsers(by new: Visibility) -> [UserID] {
        guard mode == new.mode, isInvisible == new.isInvisible else { return (named + new.named).sortedSet }
        let changed =
            listed.difference(fromSorted: new.listed) + (friends ?? []).difference(fromSorted: new.friends ?? [])
            + blocked.difference(fromSorted: new.blocked)
        return changed.sortedSet
    }

    /// Whether `new` excludes a viewer whom this visibility admits.
    public func isClosed(by new: Visibility) -> Bool {
        guard new.letsOthers || !letsOthers else { return true }
        return changedUsers(by: new).contains { lets($0) && !new.lets($0) }
    }

    /// A change of a visibility. A nil field stays unchanged. Lists may have any order.
    public struct Change: Hashable, Sendable {
        public var mode: Mode?
        public var isInvisible: Bool?
        public var listed: [UserID]?
        public var blocked: [UserID]?

        public init(mode: Mode? = nil, isInvisible: Bool? = nil, listed: [UserID]? = nil, blocked: [UserID]? = nil) {
            self.mode = mode
            self.isInvisible = isInvisible
            self.listed = listed
            self.blocked = blocked
        }
    }

    public func changed(by change: Change) -> Visibility {
        var changed = self
        if let mode = change.mode { changed.mode = mode }
        if changed.mode != .friends { changed.friends = nil }
        if let isInvisible = change.isInvisible { changed.isInvisible = isInvisible }
        if let listed = change.listed { changed.listed = listed.sortedSet }
        if let blocked = change.blocked { changed.blocked = blocked.sortedSet }
        return changed
    }
}

/// A user's visibility and the hidden views.
///
/// A hidden view is the record that a viewer receives who may not see the user: the user has gone OFFLINE when hiding, and stays so.
/// Neither its fields nor its version depend on later actions of the user.
public struct Privacy: Hashable, Sendable {
    /// Most hidden views of one user. Beyond it the next newer view replaces the oldest.
    public static let hiddenViewsMax = 8
    /// Most viewers with a hidden view of their own. Beyond it all hidden viewers receive the newest one.
    public static let namedMax = 200

    /// A viewer with another hidden view than ``others``.
    public struct Named: Hashable, Sendable {
        public let user: UserID
        /// The viewer's hidden view: an index into ``Privacy/hiddenViews``.
        public let hiddenView: Int

        public init(user: UserID, hiddenView: Int) {
            self.user = user
            self.hiddenView = hiddenView
        }
    }

    public private(set) var visibility: Visibility
    /// The start of the call that wrote ``visibility``.
    ///
    /// If two sides of a split have each written a visibility, the later call wins.
    public let writtenAt: Version
    /// The version of the last change of any field.
    public private(set) var version: Version
    /// The hidden views, the oldest first.
    public private(set) var hiddenViews: [Record]
    /// The viewers with a hidden view of their own, sorted by user.
    public private(set) var named: [Named]
    /// The hidden view of all other viewers who may not see the user: an index into ``hiddenViews``.
    public private(set) var others: Int?

    /// Makes the value of a user who never changed the visibility: everyone may see the user.
    public init() {
        visibility = Visibility()
        (writtenAt, version, hiddenViews, named, others) = (.zero, .zero, [], [], nil)
    }

    /// - Returns: nil if an index is out of range.
    public init?(visibility: Visibility, writtenAt: Version, version: Version, hiddenViews: [Record], named: [Named], others: Int?) {
        guard others.map(hiddenViews.indices.contains) ?? true, named.allSatisfy({ hiddenViews.indices.contains($0.hiddenView) }) else {
            return nil
        }
        self.visibility = visibility
        self.writtenAt = writtenAt
        self.version = version
        self.hiddenViews = hiddenViews
        self.named = named
        self.others = others
    }

    /// Whether this replaces `other`.
    public func isNewer(than other: Privacy?) -> Bool {
        guard let other else { return true }
        return (writtenAt, version) > (other.writtenAt, other.version)
    }

    /// The approximate size on the wire, in bytes.
    public var bytesCount: Int {
        let names = visibility.listed.count + (visibility.friends?.count ?? 0) + visibility.blocked.count + named.count
        return names * (2 * Limits.nameBytesMax + 8) + hiddenViews.count * (Limits.customStatusBytesMax + Limits.eventBytesMax + 512)
    }

    /// Whether a node may have shown `record` to viewers for whom this has an older hidden view, or a different one of the same version.
    ///
    /// That can be if the record was written or received without this visibility. It can also be if the hidden views were changed or raised
    /// before the record was written: its version then stands for another content.
    public func isUnknown(to record: Record) -> Bool {
        if let known = record.privacy, known.writtenAt == writtenAt {
            return known.version < version && version <= record.version && known.hiddenViews != hiddenViews
        }
        guard record.privacy?.writtenAt ?? .zero < writtenAt else { return false }
        return hiddenViews.contains { $0.version < record.version || ($0.version == record.version && !$0.looksLike(record)) }
    }

    /// The hidden view of a viewer; nil if the viewer may see the user.
    public func hiddenView(for viewer: UserID) -> Record? { hiddenViewIndex(for: viewer).map { hiddenViews[$0] } }

    private func hiddenViewIndex(for viewer: UserID) -> Int? {
        guard !visibility.lets(viewer) else { return nil }
        let index = named.insertionIndex { $0.user < viewer }
        return index < named.count && named[index].user == viewer ? named[index].hiddenView : others
    }

    /// Whether `new` admits a viewer whom this visibility does not admit.
    public func isOpened(by new: Visibility) -> Bool {
        guard visibility.letsOthers || !new.letsOthers else { return true }
        return visibility.changedUsers(by: new).contains { new.lets($0) && !visibility.lets($0) }
    }

    /// The same with another visibility.
    ///
    /// A viewer who stays excluded keeps the hidden view. A viewer who is newly excluded receives `hiddenView`.
    public func changed(to new: Visibility, writtenAt: Version, hiddenView: Record, at time: Version) -> Privacy {
        var next = Privacy(visibility: new, writtenAt: writtenAt, version: time)
        next.hiddenViews = hiddenViews + [hiddenView]
        let fresh = hiddenViews.count
        next.others = new.letsOthers ? nil : others ?? fresh
        for user in (visibility.changedUsers(by: new) + named.map(\.user)).sortedSet where !new.lets(user) {
            let index = hiddenViewIndex(for: user) ?? fresh
            if index != next.others { next.named.append(Named(user: user, hiddenView: index)) }
        }
        if next.named.count > Self.namedMax, !new.letsOthers { (next.named, next.others) = ([], fresh) }
        next.dropUnusedViews()
        return next
    }

    /// The same with the friends whom the visibility has been published with. They change no view, and no version.
    public func withFriends(_ friends: [UserID]?) -> Privacy {
        var copy = self
        copy.visibility.friends = friends
        return copy
    }

    private init(visibility: Visibility, writtenAt: Version, version: Version) {
        self.visibility = visibility
        self.writtenAt = writtenAt
        self.version = version
        (hiddenViews, named, others) = ([], [], nil)
    }

    /// Drops hidden views without a viewer, and the oldest beyond ``hiddenViewsMax``.
    ///
    /// The view of all others stays. Otherwise strangers would be shown a change, because a user has excluded some friends.
    private mutating func dropUnusedViews() {
        var used = Set(named.map(\.hiddenView))
        if let others { used.insert(others) }
        var kept = used.sorted()
        let dropped = kept.filter { $0 != others }.prefix(max(kept.count - Self.hiddenViewsMax, 0))
        kept.removeAll { dropped.contains($0) }
        // The oldest view that stays replaces the dropped ones.
        let position = { (index: Int) in kept.firstIndex { $0 >= index } ?? 0 }
        named = named.map { Named(user: $0.user, hiddenView: position($0.hiddenView)) }
        others = others.map(position)
        hiddenViews = kept.map { hiddenViews[$0] }
    }

    /// The viewers who may receive an older record than from `old`: those who have, or had, a hidden view of their own, and those whom only
    /// one of the two admits.
    fileprivate func viewersToCompare(with old: Privacy?) -> [UserID] {
        visibility.changedUsers(by: old?.visibility ?? Visibility()) + (named + (old?.named ?? [])).map(\.user)
    }

    /// The time at which a custom status or an event of a hidden view ends, as it does for a user who is OFFLINE; nil for never.
    public var nextExpiry: Milliseconds? {
        hiddenViews.flatMap { [$0.customStatusExpiresAt > 0 ? $0.customStatusExpiresAt : nil, $0.nextEventExpiry] }.compactMap(\.self).min()
    }

    /// Removes from hidden views what has ended at `wall`.
    public mutating func expire(at wall: Milliseconds, version: Version) {
        guard let nextExpiry, nextExpiry <= wall else { return }
        self.version = version
        for index in hiddenViews.indices { hiddenViews[index].expire(at: wall, version: version) }
    }

    /// Raises the version of all hidden views to at least `version`, because a viewer may have received a newer one before.
    public mutating func raise(to version: Version) {
        self.version = version
        for index in hiddenViews.indices { hiddenViews[index].version = max(hiddenViews[index].version, version) }
    }
}

extension Record {
    /// The record as `viewer` may see it: whole, or the hidden view.
    public func shown(to viewer: UserID) -> Record {
        guard let privacy, viewer != user else { return self }
        var shown = privacy.hiddenView(for: viewer) ?? self
        (shown.knownSince, shown.privacy) = (knownSince, nil)
        // A user who hides the status does not hide the profile.
        shown.profileVersion = profileVersion
        return shown
    }

    /// The record as `viewer` may see it; nil sees the whole record.
    public func shown(to viewer: UserID?) -> Record {
        guard hasPrivacy, let viewer else { return self }
        return shown(to: viewer)
    }

    /// The same record where it replaces `old`, with hidden views that are not older than it.
    ///
    /// After a split a viewer may have received a record that is newer than the hidden view. The hidden view must replace it.
    public func replacing(_ old: Record) -> Record {
        guard isBehind(old) else { return self }
        var record = self
        record.privacy?.raise(to: version)
        return record
    }

    /// Whether a viewer would receive an older version than from `old`.
    public func isBehind(_ old: Record) -> Bool {
        guard let privacy, privacy != old.privacy, privacy.hiddenViews.contains(where: { $0.version < old.version }) else { return false }
        if versionForOthers < old.versionForOthers { return true }
        // A node that does not know the friends shows the user to nobody. The next owner raises all hidden views.
        guard privacy.visibility.mode != .friends || privacy.visibility.friends != nil else { return false }
        return privacy.viewersToCompare(with: old.privacy).contains { shown(to: $0).version < old.shown(to: $0).version }
    }

    /// The version that viewers without an entry in the rule receive.
    private var versionForOthers: Version {
        guard let privacy, let others = privacy.others else { return version }
        return privacy.hiddenViews[others].version
    }

    /// The hidden view for viewers from whom the user hides at `time`: an ONLINE user goes OFFLINE, any other user stays unchanged.
    ///
    /// Each field equals that of a user whose connection was lost one `offlineGrace` ago and whose grace ends now. If the user has changed
    /// something during that time, that change is the last sign of life.
    ///
    /// - Parameter policy: gives the grace and decides about the custom status (T11).
    public func hidden(at time: Version, _ wall: Milliseconds, by policy: Policy) -> Record {
        var hiddenView = self
        (hiddenView.privacy, hiddenView.knownSince, hiddenView.profileVersion) = (nil, 0, .zero)
        guard statusType == .online else { return hiddenView }
        hiddenView.version = time
        hiddenView.statusType = .offline
        (hiddenView.onlinePlatforms, hiddenView.pushDevices) = ([], [])
        (hiddenView.lastUpdateTime, hiddenView.lastOnlineStatusUpdateTime) = (max(wall, lastUpdateTime + 1), wall)
        hiddenView.lastSeenTime = max(wall - policy.offlineGrace.wholeMilliseconds, lastUpdateTime, lastSeenTime)
        if policy.clearsCustomStatus(of: .offline, hasOwnEnd: customStatusHasOwnEnd), !customStatus.isEmpty {
            (hiddenView.customStatus, hiddenView.customStatusExpiresAt, hiddenView.lastCustomStatusUpdateTime) = ("", 0, wall)
        }
        return hiddenView
    }

    fileprivate mutating func expire(at wall: Milliseconds, version: Version) {
        let hasTextEnded = customStatusExpiresAt > 0 && customStatusExpiresAt <= wall
        let hasEventEnded = (nextEventExpiry ?? .max) <= wall
        guard hasTextEnded || hasEventEnded else { return }
        if hasTextEnded { (customStatus, customStatusExpiresAt, lastCustomStatusUpdateTime) = ("", 0, wall) }
        if hasEventEnded { events.expire(at: wall) }
        (lastUpdateTime, self.version) = (max(wall, lastUpdateTime + 1), version)
    }
}

extension [UserID] {
    fileprivate var sortedSet: [UserID] {
        var result: [UserID] = []
        for user in sorted() where result.last != user { result.append(user) }
        return result
    }

    /// The elements that only one of two sorted arrays has, sorted.
    fileprivate func difference(fromSorted other: [UserID]) -> [UserID] {
        var (result, position) = ([UserID](), 0)
        for user in self {
            while position < other.count, other[position] < user {
                result.append(other[position])
                position += 1
            }
            if position < other.count, other[position] == user { position += 1 } else { result.append(user) }
        }
        return result + other[position...]
    }

    fileprivate func containsSorted(_ user: UserID) -> Bool {
        let index = insertionIndex { $0 < user }
        return index < count && self[index] == user
    }
}
