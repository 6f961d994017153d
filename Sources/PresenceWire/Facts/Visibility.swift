/// Who may see a user: what she has said herself, and what the relationship chain says of her friends and of those whom she blocks.
public struct Visibility: Hashable, Sendable {
    /// Whom a user lets see herself.
    public enum Mode: String, CaseIterable, Sendable {
        case everyone, friends, list, nobody
    }

    /// See ``Mode``.
    public var mode = Mode.everyone
    /// Nobody sees the user for now; what ``mode`` says holds again afterwards.
    public var isInvisible = false
    /// Who may see the user with ``Mode/list``: sorted, each once, at most ``Limits/visibilityUsersMax``.
    public var listed: [UserID] = []
    /// Who may see the user with ``Mode/friends``, likewise. The relationship chain fills it.
    public var friends: [UserID] = []
    /// Who may see the user in no case, likewise. The relationship chain fills it.
    public var blocked: [UserID] = []

    /// Everyone.
    public init() {}

    /// Whether somebody else may see the user.
    public func lets(_ viewer: UserID) -> Bool {
        guard !isInvisible, !blocked.containsSorted(viewer) else { return false }
        return switch mode {
        case .everyone: true
        case .friends: friends.containsSorted(viewer)
        case .list: listed.containsSorted(viewer)
        case .nobody: false
        }
    }

    /// Whether those may see the user whom no list here names.
    var letsOthers: Bool { mode == .everyone && !isInvisible }

    fileprivate var named: [UserID] { listed + friends + blocked }

    /// What is to be otherwise; nil leaves it as it is. Lists are taken in any order.
    public struct Change: Hashable, Sendable {
        public var mode: Mode?
        public var isInvisible: Bool?
        public var listed: [UserID]?
        public var friends: [UserID]?
        public var blocked: [UserID]?

        public init(
            mode: Mode? = nil, isInvisible: Bool? = nil, listed: [UserID]? = nil, friends: [UserID]? = nil, blocked: [UserID]? = nil
        ) {
            self.mode = mode
            self.isInvisible = isInvisible
            self.listed = listed
            self.friends = friends
            self.blocked = blocked
        }
    }

    public func changed(by change: Change) -> Visibility {
        var changed = self
        if let mode = change.mode { changed.mode = mode }
        if let isInvisible = change.isInvisible { changed.isInvisible = isInvisible }
        if let listed = change.listed { changed.listed = listed.sortedSet }
        if let friends = change.friends { changed.friends = friends.sortedSet }
        if let blocked = change.blocked { changed.blocked = blocked.sortedSet }
        return changed
    }
}

/// Who may see a user, and what those are shown who may not: what they would be shown if the user had gone OFFLINE when she hid from
/// them, and had stayed so. That is the same in every field and version, whatever the user does meanwhile.
public struct Privacy: Hashable, Sendable {
    /// Faces kept at a time; beyond it the oldest one gives way to the next.
    public static let facesMax = 8
    /// Users with a face of their own; beyond it all who may not see the user are shown the newest one.
    public static let namedMax = 200

    /// Somebody who is not shown the face that ``others`` are.
    public struct Named: Hashable, Sendable {
        public let user: UserID
        /// An index into ``Privacy/faces``.
        public let face: Int

        public init(user: UserID, face: Int) {
            self.user = user
            self.face = face
        }
    }

    public let visibility: Visibility
    /// When the call began that wrote ``visibility``: of two that were written apart, as on two sides of a split, the newer one counts.
    public let writtenAt: Version
    /// The last change of anything here.
    public private(set) var version: Version
    /// What is shown to those who may not see the user; the oldest first.
    public private(set) var faces: [Record]
    /// Sorted by user.
    public private(set) var named: [Named]
    /// The face for all others who may not see the user.
    public private(set) var others: Int?

    /// Everyone may see the user, and nothing was ever said about it.
    public init() {
        visibility = Visibility()
        (writtenAt, version, faces, named, others) = (.zero, .zero, [], [], nil)
    }

    /// - Returns: nil where a face is meant that is not there.
    public init?(visibility: Visibility, writtenAt: Version, version: Version, faces: [Record], named: [Named], others: Int?) {
        guard others.map(faces.indices.contains) ?? true, named.allSatisfy({ faces.indices.contains($0.face) }) else { return nil }
        self.visibility = visibility
        self.writtenAt = writtenAt
        self.version = version
        self.faces = faces
        self.named = named
        self.others = others
    }

    /// Whether this is to replace what `other` says.
    public func isNewer(than other: Privacy?) -> Bool {
        guard let other else { return true }
        return (writtenAt, version) > (other.writtenAt, other.version)
    }

    /// About how many bytes this takes where it travels.
    public var bytesCount: Int {
        let names = visibility.listed.count + visibility.friends.count + visibility.blocked.count + named.count
        return names * (2 * Limits.nameBytesMax + 8) + faces.count * (Limits.customStatusBytesMax + Limits.eventBytesMax + 512)
    }

    /// Whether a record was written, or has come, without this, and may have been shown to those who are shown something older by this, or
    /// something else that is as old. The same for faces that were changed, or given a newer version, before the record was written: what
    /// others are shown by its version is something else then.
    public func isUnknown(to record: Record) -> Bool {
        if let known = record.privacy, known.writtenAt == writtenAt {
            return known.version < version && version <= record.version && known.faces != faces
        }
        guard record.privacy?.writtenAt ?? .zero < writtenAt else { return false }
        return faces.contains { $0.version < record.version || ($0.version == record.version && !$0.looksLike(record)) }
    }

    /// What somebody is shown who may not see the user; nil for somebody who may.
    public func face(for viewer: UserID) -> Record? { faceIndex(for: viewer).map { faces[$0] } }

    private func faceIndex(for viewer: UserID) -> Int? {
        guard !visibility.lets(viewer) else { return nil }
        let place = named.firstIndex { $0.user >= viewer } ?? named.count
        return place < named.count && named[place].user == viewer ? named[place].face : others
    }

    /// Whether somebody may see the user by another rule who may not by this one.
    public func isOpened(by new: Visibility) -> Bool {
        guard visibility.letsOthers || !new.letsOthers else { return true }
        return (visibility.named + new.named).contains { new.lets($0) && !visibility.lets($0) }
    }

    /// The same with another rule. Who could not see the user and still cannot is shown the same face; who could until now is shown `face`.
    public func changed(to new: Visibility, writtenAt: Version, face: Record, at time: Version) -> Privacy {
        var next = Privacy(visibility: new, writtenAt: writtenAt, version: time)
        next.faces = faces + [face]
        let fresh = faces.count
        next.others = new.letsOthers ? nil : others ?? fresh
        for user in (visibility.named + new.named + named.map(\.user)).sortedSet where !new.lets(user) {
            let index = faceIndex(for: user) ?? fresh
            if index != next.others { next.named.append(Named(user: user, face: index)) }
        }
        if next.named.count > Self.namedMax, !new.letsOthers { (next.named, next.others) = ([], fresh) }
        next.dropFaces()
        return next
    }

    private init(visibility: Visibility, writtenAt: Version, version: Version) {
        self.visibility = visibility
        self.writtenAt = writtenAt
        self.version = version
        (faces, named, others) = ([], [], nil)
    }

    /// Forgets faces that nobody is shown, and the oldest of too many.
    private mutating func dropFaces() {
        var used = Set(named.map(\.face))
        if let others { used.insert(others) }
        var kept = used.sorted()
        kept.removeFirst(max(kept.count - Self.facesMax, 0))
        // What is dropped is replaced by the oldest one that stays.
        let place = { (index: Int) in kept.firstIndex { $0 >= index } ?? 0 }
        named = named.map { Named(user: $0.user, face: place($0.face)) }
        others = others.map(place)
        faces = kept.map { faces[$0] }
    }

    /// Those who may be shown something else than all others are.
    fileprivate var viewers: [UserID] { visibility.named + named.map(\.user) }

    /// When a custom status or an event of a face ends, as it does with a user who is truly OFFLINE; nil for never.
    public var nextExpiry: Milliseconds? {
        faces.flatMap { [$0.customStatusExpiresAt > 0 ? $0.customStatusExpiresAt : nil, $0.nextEventExpiry] }.compactMap(\.self).min()
    }

    /// Ends what has ended in faces.
    public mutating func expire(at wall: Milliseconds, version: Version) {
        guard let nextExpiry, nextExpiry <= wall else { return }
        self.version = version
        for index in faces.indices { faces[index].expire(at: wall, version: version) }
    }

    /// Gives all faces a version that is not older: what was told before may have been newer than they are.
    public mutating func raise(to version: Version) {
        self.version = version
        for index in faces.indices { faces[index].version = max(faces[index].version, version) }
    }
}

extension Record {
    /// What somebody may know of the user: all, or what is shown to those who may not see the user.
    public func shown(to viewer: UserID) -> Record {
        guard let privacy, viewer != user else { return self }
        var shown = privacy.face(for: viewer) ?? self
        (shown.knownSince, shown.privacy) = (knownSince, nil)
        return shown
    }

    /// What somebody may know of the user; nil may know all.
    public func shown(to viewer: UserID?) -> Record {
        guard hasPrivacy, let viewer else { return self }
        return shown(to: viewer)
    }

    /// The same, where `old` was shown until now. After a split somebody may have been shown what is newer than the face: that must not
    /// stay, and who is told of the face must not take it for something older.
    public func replacing(_ old: Record) -> Record {
        guard isBehind(old) else { return self }
        var record = self
        record.privacy?.raise(to: version)
        return record
    }

    /// Whether somebody is shown something older than by `old`.
    public func isBehind(_ old: Record) -> Bool {
        guard let privacy, privacy != old.privacy, privacy.faces.contains(where: { $0.version < old.version }) else { return false }
        if versionForOthers < old.versionForOthers { return true }
        return (privacy.viewers + (old.privacy?.viewers ?? [])).contains { shown(to: $0).version < old.shown(to: $0).version }
    }

    /// Of what those are shown whom the rule does not name.
    private var versionForOthers: Version {
        guard let privacy, let others = privacy.others else { return version }
        return privacy.faces[others].version
    }

    /// What is shown from `time` on to those from whom the user hides: a user who is ONLINE goes OFFLINE, another one stays as she is.
    ///
    /// In every field it is the record of a user whose connection was lost one `offlineGrace` ago, and whose grace ends now. A user who has
    /// changed something since then was last seen with that change.
    ///
    /// - Parameter policy: says how long the grace is, and what becomes of the custom status (T11).
    public func hidden(at time: Version, _ wall: Milliseconds, by policy: Policy) -> Record {
        var face = self
        (face.privacy, face.knownSince) = (nil, 0)
        guard statusType == .online else { return face }
        face.version = time
        face.statusType = .offline
        (face.onlinePlatforms, face.pushDevices) = ([], [])
        (face.lastUpdateTime, face.lastOnlineStatusUpdateTime) = (max(wall, lastUpdateTime + 1), wall)
        face.lastSeenTime = max(wall - policy.offlineGrace.wholeMilliseconds, lastUpdateTime, lastSeenTime)
        if policy.clearsCustomStatus(of: .offline), !customStatus.isEmpty {
            (face.customStatus, face.customStatusExpiresAt, face.lastCustomStatusUpdateTime) = ("", 0, wall)
        }
        return face
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

    fileprivate func containsSorted(_ user: UserID) -> Bool {
        let place = firstIndex { $0 >= user } ?? count
        return place < count && self[place] == user
    }
}
