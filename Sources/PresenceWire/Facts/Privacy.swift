/// A user's visibility and the hidden views.
///
/// A hidden view is the record that a viewer receives who may not see the user: the user has gone OFFLINE when hiding, and stays so.
/// Neither its fields nor its version depend on later actions of the user, and none on what other viewers may see.
///
/// A viewer who may see the user again sees the user come online. The record keeps its times, because the other viewers see no change.
/// The viewer is shown later times until the status changes for all.
public struct Privacy: Hashable, Sendable {
    /// Most bytes of all contents in their form on disk. Beyond it a viewer who is excluded sees the user go without text and event.
    ///
    /// Some 300 short texts fit, or 68 texts and events of full length.
    public static let contentsBytesMax = 128 << 10
    /// Most viewers with a view of their own. Beyond it those without a hidden view lose theirs, and then those who were excluded first.
    public static let namedMax = 4_096
    /// Most viewers who may see the user again and have a view of their own, for new friends to have one as well.
    static let newFriendsMax = 64

    /// The view that a viewer has received of a user who hides, or has hidden.
    public struct View: Hashable, Sendable {
        /// The status, the text and the events of the hidden view: an index into ``Privacy/contents``.
        public var content: Int
        public var version: Version
        public var times: RecordTimes
        /// The time from which the viewer may see the user again; 0 while the user hides from the viewer.
        public var admittedAt: Milliseconds

        /// Whether the viewer may see the user again.
        var isOfReturn: Bool { admittedAt > 0 }

        public init(content: Int, version: Version, times: RecordTimes, admittedAt: Milliseconds = 0) {
            self.content = content
            self.version = version
            self.times = times
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
    /// The version that viewers who may see the user hold of the record of ``version``, because nothing that they see has changed with it
    /// (P30); nil for that of the record.
    public private(set) var heldVersion: Version?
    /// The contents of the hidden views, each once: records without version and times.
    public private(set) var contents: [Record]
    /// The viewers with a view of their own, sorted by user.
    public private(set) var named: [Named]
    /// The view of all other viewers from whom the user hides, or has hidden.
    public private(set) var others: View?
    /// The viewers for whom the news of the profile wait.
    public private(set) var news: ProfileNews

    /// Makes the value of a user who never changed the visibility: everyone may see the user.
    public init() {
        self.init(visibility: Visibility(), writtenAt: .zero, version: .zero)
    }

    /// - Returns: nil if an index is out of range.
    public init?(
        visibility: Visibility, writtenAt: Version, version: Version, heldVersion: Version? = nil, contents: [Record], named: [Named],
        others: View?, news: ProfileNews = ProfileNews()
    ) {
        let views = named.map(\.view) + [others]
        guard views.allSatisfy({ $0.map { contents.indices.contains($0.content) } ?? true }) else { return nil }
        self.visibility = visibility
        self.writtenAt = writtenAt
        self.version = version
        self.heldVersion = heldVersion
        self.contents = contents
        self.named = named
        self.others = others
        self.news = news
    }

    /// Whether this replaces `other`.
    public func isNewer(than other: Privacy?) -> Bool {
        guard let other else { return true }
        return (writtenAt, version) > (other.writtenAt, other.version)
    }

    /// The approximate size on the wire, in bytes.
    public var bytesCount: Int {
        let names = visibility.listed.count + (visibility.friends?.count ?? 0) + visibility.blocked.count + named.count + news.named.count
        return names * (2 * Limits.nameBytesMax + 64) + contentsBytes
    }

    private var contentsBytes: Int { contents.reduce(0) { $0 + $1.contentBytes } }

    /// Whether a node may have shown `record` to viewers for whom this has an older hidden view, or a different one of the same version.
    ///
    /// That can be if the record was written or received without this visibility. It can also be if the hidden views were changed or raised
    /// before the record was written: its version then stands for another content.
    public func isUnknown(to record: Record) -> Bool {
        if let known = record.privacy, known.writtenAt == writtenAt {
            return known.version < version && version <= record.version
                && (known.contents, known.named, known.others) != (contents, named, others)
        }
        guard record.privacy?.writtenAt ?? .zero < writtenAt else { return false }
        return views.contains { view in
            guard !view.isOfReturn else { return false }
            let shown = record.versionHeld
            return view.version < shown || (view.version == shown && !hiddenView(view).looksLike(record))
        }
    }

    /// The time from which the last of the viewers who may see the user again may do so; 0 for none.
    fileprivate var lastReturn: Milliseconds { views.map(\.admittedAt).max() ?? 0 }

    private var views: [View] { (named.map(\.view) + [others]).compactMap(\.self) }

    /// The hidden views, each as a whole record. For tests and simulations.
    public var hiddenViews: [Record] { Set(views).map(hiddenView).sorted { $0.version < $1.version } }

    private func hiddenView(_ view: View) -> Record {
        var record = contents[view.content]
        (record.version, record.times) = (view.version, view.times)
        return record
    }

    // MARK: Showing

    /// The hidden view of a viewer; nil if the viewer may see the user.
    public func hiddenView(for viewer: UserID) -> Record? {
        visibility.lets(viewer) ? nil : namedView(of: viewer).map(hiddenView)
    }

    /// The user's record as a viewer may see it.
    fileprivate func shown(_ record: Record, to viewer: UserID) -> Record {
        let view = namedView(of: viewer)
        if let view, !visibility.lets(viewer) { return hiddenView(view) }
        var shown = record
        shown.version = record.versionHeld
        return view.map { self.shown(shown, after: $0) } ?? shown
    }

    /// The record as it is shown after a view.
    ///
    /// The hiding, as the viewer has seen it, has a version of its own. It stays while the viewer sees no change, because the user was not
    /// ONLINE at the return and has not changed since: see ``view(after:from:to:_:)``.
    private func shown(_ record: Record, after view: View) -> Record {
        guard view.isOfReturn else { return record }
        var shown = record.returned(after: hiddenView(view), at: view.admittedAt)
        shown.version = isStill(view, in: record) ? view.version : max(record.version, view.version)
        return shown
    }

    /// Whether a viewer who may see the user again still sees what the hidden view showed.
    private func isStill(_ view: View, in record: Record) -> Bool {
        guard view.version.milliseconds < view.admittedAt, record.lastUpdateTime <= view.admittedAt else { return false }
        let hiddenView = hiddenView(view)
        return record.returned(after: hiddenView, at: view.admittedAt).looksLike(hiddenView)
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
    /// - Parameters:
    ///   - heldVersion: see ``heldVersion``; nil if viewers see another change as well.
    ///   - wall: the time of the change; nil for that of the version.
    public func changed(
        to new: Visibility, writtenAt: Version, hiddenView: Record, heldVersion: Version? = nil, at time: Version, wall: Milliseconds? = nil
    ) -> Privacy {
        var next = Privacy(visibility: new, writtenAt: writtenAt, version: time)
        next.heldVersion = heldVersion
        next.contents = contents
        next.news = news
        let change = Change(hiddenView: hiddenView, time: time, wall: wall ?? time.milliseconds)
        let othersView = visibility.letsOthers && others?.isOfReturn == false ? nil : others
        next.others = next.view(after: othersView, from: visibility.letsOthers, to: new.letsOthers, change)
        let changedUsers = visibility.changedUsers(by: new)
        // The row of a visibility does not repeat the friends. So strangers of whom many become friends see the times of the record.
        let isByManyFriends =
            new.isSameChoice(as: visibility) && new.blocked == visibility.blocked
            && changedUsers.count + named.count { $0.view?.isOfReturn ?? false } > Self.newFriendsMax
        for user in (changedUsers + named.map(\.user)).sortedSet {
            let isAdmitted = new.lets(user)
            let held = isByManyFriends && isAdmitted && name(of: user) == nil ? nil : view(of: user)
            let view = next.view(after: held, from: visibility.lets(user), to: isAdmitted, change)
            let common = isAdmitted && next.others?.isOfReturn == false ? nil : next.others
            if view != common { next.named.append(Named(user: user, view: view)) }
        }
        next.dropNames()
        next.dropUnusedContents()
        return next
    }

    /// Whether a list, a view or news that wait name a viewer.
    public func names(_ viewer: UserID) -> Bool { without(viewer, at: version) != nil }

    /// The same without a viewer who was deleted; nil if nothing here names the viewer.
    public func without(_ viewer: UserID, at time: Version) -> Privacy? {
        var next = self
        next.visibility.listed.removeAll { $0 == viewer }
        next.visibility.friends?.removeAll { $0 == viewer }
        next.visibility.blocked.removeAll { $0 == viewer }
        next.named.removeAll { $0.user == viewer }
        next.news.remove(viewer)
        if next == self { return nil }
        (next.version, next.heldVersion) = (time, nil)
        next.dropUnusedContents()
        return next
    }

    /// Has the news of the profile wait for those from whom the visibility keeps them, and ends the wait for all others.
    ///
    /// - Parameters:
    ///   - profile: the version of the profile.
    ///   - waitsWhileInvisible: the setting `profile.newsWaitWhileInvisible`.
    ///   - time: the version of the change.
    public mutating func updateNews(of profile: Version, waitsWhileInvisible: Bool, at time: Version) {
        news = news.changed(to: visibility, waitsWhileInvisible: waitsWhileInvisible, profile: profile, at: time)
    }

    /// Whether the news of the profile wait for exactly those from whom the visibility keeps them.
    public func hasNews(waitingWhileInvisible: Bool) -> Bool { news.fit(visibility, waitsWhileInvisible: waitingWhileInvisible) }

    private struct Change {
        let hiddenView: Record
        let time: Version
        let wall: Milliseconds
    }

    /// The view of a viewer after a change. The contents are those before it, and new ones are added.
    private mutating func view(after view: View?, from wasAdmitted: Bool, to isAdmitted: Bool, _ change: Change) -> View? {
        switch (wasAdmitted, isAdmitted) {
        case (false, false), (true, true): return view
        case (false, true):
            // It is not known which version the viewer has of the hidden view.
            guard var view else {
                heldVersion = nil
                return nil
            }
            view.admittedAt = change.wall
            // The hidden view of a user who is not ONLINE is the record.
            let isOnline = change.hiddenView.version == change.time
            if isOnline || !isStill(view, in: change.hiddenView) { view.version = change.time }
            return view
        case (true, false):
            return self.view(of: view.map { shown(change.hiddenView, after: $0) } ?? change.hiddenView, change)
        }
    }

    /// The view of a viewer who is excluded now, and is to receive `hiddenView`.
    private mutating func view(of hiddenView: Record, _ change: Change) -> View {
        var (content, view) = (hiddenView.content, View(content: 0, version: hiddenView.version, times: hiddenView.times))
        // All viewers who are excluded by one change receive the same content, which is the last one.
        var known = contents.lastIndex(of: content)
        if known == nil, !content.isBare, contentsBytes + content.contentBytes > Self.contentsBytesMax {
            // The user looks as if the text was cleared, and the event had ended, at this time.
            view.version = change.time
            view.times.lastUpdateTime = max(change.wall, view.times.lastUpdateTime + 1)
            if !content.customStatus.isEmpty { view.times.lastCustomStatusUpdateTime = view.times.lastUpdateTime }
            (content.customStatus, content.customStatusExpiresAt, content.events) = ("", 0, PublishedEvents())
            known = contents.lastIndex(of: content)
        }
        view.content = known ?? contents.endIndex
        if known == nil { contents.append(content) }
        return view
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
        (heldVersion, contents, named, others, news) = (nil, [], [], nil, ProfileNews())
    }

    /// Drops the names beyond ``namedMax``: first those without a hidden view, then those of the viewers who were excluded first.
    ///
    /// A viewer without a name is shown the view of all others. If all others may see the user, excluded viewers keep their names.
    private mutating func dropNames() {
        let countMax = Self.namedMax
        guard named.count > countMax else { return }
        heldVersion = nil
        named.removeAll { $0.view?.isOfReturn ?? true }
        guard named.count > countMax, !visibility.letsOthers else { return }
        let versions = named.compactMap(\.view?.version).sorted(by: >)
        named.removeAll { $0.view.map { $0.version <= versions[countMax] } ?? true }
    }

    private mutating func dropUnusedContents() {
        var isUsed = Array(repeating: false, count: contents.count)
        for view in views { isUsed[view.content] = true }
        var (positions, kept): ([Int], [Record]) = ([], [])
        for (index, content) in contents.enumerated() {
            positions.append(kept.count)
            if isUsed[index] { kept.append(content) }
        }
        contents = kept
        modifyViews { $0.content = positions[$0.content] }
    }

    /// Has the views of equal contents share the first of these. Contents become equal when their texts and events end.
    private mutating func joinEqualContents() {
        var firsts: [Record: Int] = [:]
        let positions = contents.enumerated().map { index, content in
            let first = firsts[content] ?? index
            firsts[content] = first
            return first
        }
        modifyViews { $0.content = positions[$0.content] }
        dropUnusedContents()
    }

    /// Ends the views of viewers who may see the user again, because the status has changed for all at `time`.
    public mutating func endReturns(before time: Milliseconds, version: Version) {
        let isOver = { (view: View?) in view.map { $0.isOfReturn && $0.admittedAt < time } ?? false }
        let endsOthers = isOver(others)
        guard endsOthers || named.contains(where: { isOver($0.view) }) else { return }
        if endsOthers { others = nil }
        named.removeAll { isOver($0.view) || ($0.view == nil && others == nil) }
        (self.version, heldVersion) = (version, nil)
        dropUnusedContents()
    }

    /// The viewers who may receive an older record than from `old`: those who have, or had, a view of their own, and those whom only one
    /// of the two admits.
    fileprivate func viewersToCompare(with old: Privacy?) -> [UserID] {
        visibility.changedUsers(by: old?.visibility ?? Visibility()) + (named + (old?.named ?? [])).map(\.user)
    }

    /// The version that viewers without a name receive of a record.
    fileprivate func versionForOthers(of record: Record) -> Version {
        var shown = record
        shown.version = record.versionHeld
        guard let others else { return shown.version }
        return visibility.letsOthers ? self.shown(shown, after: others).version : others.version
    }

    /// The time at which a custom status or an event of a hidden view ends, as it does for a user who is OFFLINE; nil for never.
    public var nextExpiry: Milliseconds? {
        var next = Milliseconds.max
        for content in contents {
            if content.customStatusExpiresAt > 0 { next = min(next, content.customStatusExpiresAt) }
            if let expiry = content.nextEventExpiry { next = min(next, expiry) }
        }
        return next < .max ? next : nil
    }

    /// Removes from hidden views what has ended at `wall`.
    ///
    /// - Parameter heldVersion: see ``changed(to:writtenAt:hiddenView:heldVersion:at:wall:)``.
    public mutating func expire(at wall: Milliseconds, heldVersion: Version? = nil, version: Version) {
        guard let nextExpiry, nextExpiry <= wall else { return }
        if self.version != version { (self.version, self.heldVersion) = (version, heldVersion) }
        let before = self
        modifyViews { view in
            var hiddenView = before.hiddenView(view)
            hiddenView.expire(at: wall, version: version)
            (view.version, view.times) = (hiddenView.version, hiddenView.times)
        }
        for index in contents.indices {
            contents[index].expire(at: wall, version: version)
            contents[index] = contents[index].content
        }
        joinEqualContents()
    }

    /// Raises the version of all hidden views to at least `version`, because a viewer may have received a newer one before.
    public mutating func raise(to version: Version) {
        (self.version, heldVersion) = (version, nil)
        modifyViews { $0.version = max($0.version, version) }
    }

    private mutating func modifyViews(_ body: (inout View) -> Void) {
        for index in named.indices {
            if var view = named[index].view {
                body(&view)
                named[index].view = view
            }
        }
        if var view = others {
            body(&view)
            others = view
        }
    }

    /// Whether a view has an older version.
    fileprivate func hasView(before version: Version) -> Bool {
        (others?.version ?? version) < version || named.contains { ($0.view?.version ?? version) < version }
    }
}

/// The times of a record that a viewer sees.
public struct RecordTimes: Hashable, Sendable {
    public var lastUpdateTime: Milliseconds
    public var lastOnlineStatusUpdateTime: Milliseconds
    public var lastCustomStatusUpdateTime: Milliseconds
    public var lastSeenTime: Milliseconds

    public init(
        lastUpdateTime: Milliseconds = 0, lastOnlineStatusUpdateTime: Milliseconds = 0, lastCustomStatusUpdateTime: Milliseconds = 0,
        lastSeenTime: Milliseconds = 0
    ) {
        self.lastUpdateTime = lastUpdateTime
        self.lastOnlineStatusUpdateTime = lastOnlineStatusUpdateTime
        self.lastCustomStatusUpdateTime = lastCustomStatusUpdateTime
        self.lastSeenTime = lastSeenTime
    }
}

extension Record {
    /// The times that a viewer sees.
    public var times: RecordTimes {
        get {
            RecordTimes(
                lastUpdateTime: lastUpdateTime, lastOnlineStatusUpdateTime: lastOnlineStatusUpdateTime,
                lastCustomStatusUpdateTime: lastCustomStatusUpdateTime, lastSeenTime: lastSeenTime)
        }
        set {
            (lastUpdateTime, lastOnlineStatusUpdateTime) = (newValue.lastUpdateTime, newValue.lastOnlineStatusUpdateTime)
            (lastCustomStatusUpdateTime, lastSeenTime) = (newValue.lastCustomStatusUpdateTime, newValue.lastSeenTime)
        }
    }

    /// The record without version and times.
    public var content: Record {
        var content = self
        (content.version, content.customStatusVersion) = (.zero, .zero)
        if !hasEvents { content.events = PublishedEvents() }
        content.times = RecordTimes()
        return content
    }

    /// Whether the record has neither a custom status nor an event.
    fileprivate var isBare: Bool { customStatus.isEmpty && !hasEvents }

    /// The bytes of a content in its form on disk, at most. The form on the wire is shorter.
    ///
    /// The members without the texts take at most 400 bytes, and those of an event 240.
    fileprivate var contentBytes: Int {
        let texts = [events.newest, events.forLogins].compactMap { $0?.ext }
        return texts.reduce(400 + customStatus.escapedBytes) { $0 + 240 + $1.escapedBytes }
    }
}

extension Record {
    /// The version that viewers who may see the user are shown.
    ///
    /// A change of the visibility, such as a block, gives the record a new version, by which nodes learn of it. To viewers who see no
    /// change the record keeps its version (P30).
    public var versionHeld: Version {
        guard hasPrivacy, let privacy, privacy.version == version else { return version }
        return privacy.heldVersion ?? version
    }

    /// The record as `viewer` may see it: whole, or the hidden view.
    public consuming func shown(to viewer: UserID) -> Record {
        guard let privacy, viewer != user else { return self }
        var shown = privacy.shown(self, to: viewer)
        (shown.knownSince, shown.privacy) = (knownSince, nil)
        // A user who hides the status does not hide the profile. Its news may wait.
        shown.profileVersion = profileNews(for: viewer).version
        return shown
    }

    /// The record as `viewer` may see it; nil sees the whole record.
    public consuming func shown(to viewer: UserID?) -> Record {
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
        guard let privacy, privacy != old.privacy else { return false }
        // Another side of a split has shown a newer record than the one that viewers are said to hold.
        if versionHeld < old.versionHeld { return true }
        // Without an older view every viewer is shown at least the version that is held. A hidden view that this visibility does not know
        // may be newer than that.
        guard privacy.hasView(before: old.version) || versionHeld < old.version else { return false }
        let (before, after) = (old.privacy?.versionForOthers(of: old) ?? old.versionHeld, privacy.versionForOthers(of: self))
        if after < before { return true }
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
        let changedAt = timeOfChange(at: wall)
        (hiddenView.lastUpdateTime, hiddenView.lastOnlineStatusUpdateTime) = (changedAt, changedAt)
        hiddenView.lastSeenTime = max(wall - policy.offlineGrace.wholeMilliseconds, lastUpdateTime, lastSeenTime)
        if policy.clearsCustomStatus(of: .offline, hasOwnEnd: customStatusHasOwnEnd), !customStatus.isEmpty {
            (hiddenView.customStatus, hiddenView.customStatusExpiresAt, hiddenView.lastCustomStatusUpdateTime) = ("", 0, changedAt)
        }
        return hiddenView
    }

    /// The time of the newest change that a viewer has seen: of the record, or of the return of a user who had hidden.
    public var lastSeenChange: Milliseconds { max(lastUpdateTime, lastSeenTime, privacy?.lastReturn ?? 0) }

    /// The time of a change that viewers see, in milliseconds. It increases with each change, so that a viewer notices a missed one.
    ///
    /// It is later than the last return of a user who had hidden, up to which viewers see the times of the hidden view. A clock that was
    /// set back may not have reached either.
    public func timeOfChange(at wall: Milliseconds) -> Milliseconds { max(wall, lastUpdateTime + 1, (privacy?.lastReturn ?? -1) + 1) }

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
        (lastUpdateTime, self.version) = (timeOfChange(at: wall), version)
        if hasTextEnded { (customStatus, customStatusExpiresAt, lastCustomStatusUpdateTime) = ("", 0, lastUpdateTime) }
        if hasEventEnded { events.expire(at: wall) }
    }
}
