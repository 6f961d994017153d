/// A user's visibility and the hidden views.
///
/// A hidden view is the record that a viewer receives who may not see the user: the user has gone OFFLINE when hiding, and stays so.
/// Neither its fields nor its version depend on later actions of the user.
///
/// A viewer who may see the user again sees the user come online. The record keeps its times, because the other viewers see no change.
/// The viewer is shown later times until the status changes for all.
public struct Privacy: Hashable, Sendable {
    /// Most hidden views of one user. Beyond it the next newer view replaces the oldest.
    public static let hiddenViewsMax = 8
    /// Most viewers with a hidden view of their own. Beyond it all hidden viewers receive the newest one.
    public static let namedMax = 200

    /// The view that a viewer has received of a user who hides, or has hidden.
    public struct View: Hashable, Sendable {
        /// The hidden view: an index into ``Privacy/hiddenViews``.
        public var hiddenView: Int
        /// The time from which the viewer may see the user again; 0 while the user hides from the viewer.
        public var admittedAt: Milliseconds

        /// Whether the viewer may see the user again.
        var isOfReturn: Bool { admittedAt > 0 }

        public init(hiddenView: Int, admittedAt: Milliseconds = 0) {
            self.hiddenView = hiddenView
            self.admittedAt = admittedAt
        }
    }

    /// A viewer with another view than ``others``.
    public struct Named: Hashable, Sendable {
        public let user: UserID
        /// The view; nil if the user has never hidden from this viewer since the status has changed.
        public var view: View?

        public init(user: UserID, view: View?) {
            self.user = user
            self.view = view
        }
    }

    public private(set) var visibility: Visibility
    /// The start of the call that wrote ``visibility``.
    ///
    /// If two sides of a split have each written a visibility, the later call wins.
    public let writtenAt: Version
    /// The version of the last change of any field.
    public private(set) var version: Version
    /// The hidden views, the oldest first, each once.
    public private(set) var hiddenViews: [Record]
    /// The viewers with a view of their own, sorted by user.
    public private(set) var named: [Named]
    /// The view of all other viewers from whom the user hides, or has hidden.
    public private(set) var others: View?

    /// Makes the value of a user who never changed the visibility: everyone may see the user.
    public init() {
        visibility = Visibility()
        (writtenAt, version, hiddenViews, named, others) = (.zero, .zero, [], [], nil)
    }

    /// - Returns: nil if an index is out of range.
    public init?(visibility: Visibility, writtenAt: Version, version: Version, hiddenViews: [Record], named: [Named], others: View?) {
        let views = named.map(\.view) + [others]
        guard views.allSatisfy({ $0.map { hiddenViews.indices.contains($0.hiddenView) } ?? true }) else { return nil }
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
        return names * (2 * Limits.nameBytesMax + 16) + hiddenViews.count * (Limits.customStatusBytesMax + Limits.eventBytesMax + 512)
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
        return receivedViews.contains { $0.version < record.version || ($0.version == record.version && !$0.looksLike(record)) }
    }

    /// The hidden views that viewers receive now.
    private var receivedViews: [Record] {
        let excluding = (named.map(\.view) + [others]).compactMap(\.self).filter { !$0.isOfReturn }
        return Set(excluding.map(\.hiddenView)).sorted().map { hiddenViews[$0] }
    }

    // MARK: Showing

    /// The hidden view of a viewer; nil if the viewer may see the user.
    public func hiddenView(for viewer: UserID) -> Record? {
        visibility.lets(viewer) ? nil : namedView(of: viewer).map { hiddenViews[$0.hiddenView] }
    }

    /// The user's record as a viewer may see it.
    fileprivate func shown(_ record: Record, to viewer: UserID) -> Record {
        guard let view = namedView(of: viewer) else { return record }
        guard visibility.lets(viewer) else { return hiddenViews[view.hiddenView] }
        return view.isOfReturn ? record.returned(after: hiddenViews[view.hiddenView], at: view.admittedAt) : record
    }

    private func namedView(of viewer: UserID) -> View? {
        if let name = name(of: viewer) { name.view } else { others }
    }

    private func name(of viewer: UserID) -> Named? {
        let index = named.insertionIndex { $0.user < viewer }
        return index < named.count && named[index].user == viewer ? named[index] : nil
    }

    /// The view that a viewer has apart from the record; nil for none.
    private func view(of viewer: UserID) -> View? {
        let view = namedView(of: viewer)
        return view?.isOfReturn == false && visibility.lets(viewer) ? nil : view
    }

    // MARK: Changing

    /// The same with another visibility.
    ///
    /// A viewer who stays excluded keeps the hidden view, and so does one who stays admitted. A viewer who is newly excluded receives
    /// `hiddenView`. A viewer who is newly admitted sees the user come online now.
    ///
    /// - Parameter wall: the time of the change; nil for that of the version.
    public func changed(
        to new: Visibility, writtenAt: Version, hiddenView: Record, at time: Version, wall: Milliseconds? = nil
    ) -> Privacy {
        var next = Privacy(visibility: new, writtenAt: writtenAt, version: time)
        next.hiddenViews = hiddenViews
        let change = Change(hiddenView: hiddenView, wall: wall ?? time.milliseconds)
        let othersView = visibility.letsOthers && others?.isOfReturn == false ? nil : others
        next.others = next.view(after: othersView, from: visibility.letsOthers, to: new.letsOthers, change)
        let isByFriends = new.isSameChoice(as: visibility) && new.blocked == visibility.blocked
        for user in (visibility.changedUsers(by: new) + named.map(\.user)).sortedSet {
            let isAdmitted = new.lets(user)
            // The row of a visibility does not repeat the friends. So a stranger who becomes one sees the times of the record.
            let isNewFriend = isByFriends && isAdmitted && name(of: user) == nil
            let held = isNewFriend ? nil : view(of: user)
            let view = next.view(after: held, from: visibility.lets(user), to: isAdmitted, change)
            let common = isAdmitted && next.others?.isOfReturn == false ? nil : next.others
            if view != common { next.named.append(Named(user: user, view: view)) }
        }
        if next.named.count > Self.namedMax, !new.letsOthers {
            (next.named, next.others) = ([], View(hiddenView: next.index(of: hiddenView)))
        }
        next.dropUnusedViews()
        return next
    }

    private struct Change {
        let hiddenView: Record
        let wall: Milliseconds
    }

    /// The view of a viewer after a change. The hidden views are those before it, and new ones are added.
    private mutating func view(after view: View?, from wasAdmitted: Bool, to isAdmitted: Bool, _ change: Change) -> View? {
        switch (wasAdmitted, isAdmitted) {
        case (false, false), (true, true): return view
        case (false, true): return view.map { View(hiddenView: $0.hiddenView, admittedAt: change.wall) }
        case (true, false):
            let hiddenView = view.map { change.hiddenView.returned(after: hiddenViews[$0.hiddenView], at: $0.admittedAt) }
            return View(hiddenView: index(of: hiddenView ?? change.hiddenView))
        }
    }

    /// The index of a hidden view, which is added if it is new.
    private mutating func index(of hiddenView: Record) -> Int {
        if let index = hiddenViews.firstIndex(of: hiddenView) { return index }
        hiddenViews.append(hiddenView)
        return hiddenViews.count - 1
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
        var used = Set(named.compactMap { $0.view?.hiddenView })
        if let others { used.insert(others.hiddenView) }
        var kept = used.sorted()
        let dropped = kept.filter { $0 != others?.hiddenView }.prefix(max(kept.count - Self.hiddenViewsMax, 0))
        kept.removeAll { dropped.contains($0) }
        // The oldest view that stays replaces the dropped ones.
        let position = { (index: Int) in kept.firstIndex { $0 >= index } ?? 0 }
        for index in named.indices { named[index].view?.move(by: position) }
        others?.move(by: position)
        hiddenViews = kept.map { hiddenViews[$0] }
    }

    /// Ends the views of viewers who may see the user again, because the status has changed for all at `time`.
    public mutating func endReturns(before time: Milliseconds, version: Version) {
        let isOver = { (view: View?) in view.map { $0.isOfReturn && $0.admittedAt < time } ?? false }
        let endsOthers = isOver(others)
        guard endsOthers || named.contains(where: { isOver($0.view) }) else { return }
        if endsOthers { others = nil }
        named.removeAll { isOver($0.view) || ($0.view == nil && others == nil) }
        self.version = version
        dropUnusedViews()
    }

    /// The viewers who may receive an older record than from `old`: those who have, or had, a view of their own, and those whom only one
    /// of the two admits.
    fileprivate func viewersToCompare(with old: Privacy?) -> [UserID] {
        visibility.changedUsers(by: old?.visibility ?? Visibility()) + (named + (old?.named ?? [])).map(\.user)
    }

    /// The version that viewers without a name receive; nil for that of the record.
    fileprivate var versionForOthers: Version? {
        guard let others, !visibility.letsOthers else { return nil }
        return hiddenViews[others.hiddenView].version
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

extension Privacy.View {
    fileprivate mutating func move(by position: (Int) -> Int) { hiddenView = position(hiddenView) }
}

extension Record {
    /// The record as `viewer` may see it: whole, or the hidden view.
    public func shown(to viewer: UserID) -> Record {
        guard let privacy, viewer != user else { return self }
        var shown = privacy.shown(self, to: viewer)
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
        if privacy.versionForOthers ?? version < old.privacy?.versionForOthers ?? old.version { return true }
        // A node that does not know the friends shows the user to nobody. The next owner raises all hidden views.
        guard privacy.visibility.mode != .friends || privacy.visibility.friends != nil else { return false }
        return privacy.viewersToCompare(with: old.privacy).contains { shown(to: $0).version < old.shown(to: $0).version }
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

    /// The record for a viewer who may see the user again.
    ///
    /// A part that differs from the hidden view has changed at `time` for this viewer. Any other part keeps the time of the hidden view. So
    /// no time goes back, and none moves without a change that the viewer sees. Times after `time` are those of later changes.
    fileprivate func returned(after hiddenView: Record, at time: Milliseconds) -> Record {
        var record = self
        let wasSeen = statusType == .online || lastOnlineStatusUpdateTime > time
        if lastOnlineStatusUpdateTime <= time {
            let isSame = statusType == hiddenView.statusType
            record.lastOnlineStatusUpdateTime = isSame ? hiddenView.lastOnlineStatusUpdateTime : time
        }
        if lastCustomStatusUpdateTime <= time {
            let isSame = customStatus == hiddenView.customStatus
            record.lastCustomStatusUpdateTime = isSame ? hiddenView.lastCustomStatusUpdateTime : time
        }
        let seenTime = max(lastSeenTime, wasSeen ? time : hiddenView.lastSeenTime)
        guard lastUpdateTime <= time else {
            record.lastSeenTime = seenTime
            return record
        }
        (record.lastUpdateTime, record.lastSeenTime) = (hiddenView.lastUpdateTime, hiddenView.lastSeenTime)
        if !record.looksLike(hiddenView) {
            (record.lastUpdateTime, record.lastSeenTime) = (max(time, hiddenView.lastUpdateTime + 1), seenTime)
        }
        return record
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
