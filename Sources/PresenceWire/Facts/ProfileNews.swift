/// The part of a visibility that says which viewers are told changes of the user's profile at once, and for whom the news wait.
///
/// The news wait for a blocked viewer, and may wait for all viewers of an invisible user. The version before stands for the profile until
/// the wait ends. If the profile has changed meanwhile, the end gives the news a stamp. A push and a resumed stream compare this stamp.
public struct ProfileNews: Hashable, Sendable {
    /// The news of one viewer.
    public struct Entry: Hashable, Sendable {
        /// The version of the profile when the wait began; nil while the viewer is told each change at once.
        public var known: Version?
        /// While the news wait, the stamp of the news before. Otherwise that of the news that have waited last; ``Version/zero`` for none.
        public var stamp: Version

        public init(known: Version? = nil, stamp: Version = .zero) { (self.known, self.stamp) = (known, stamp) }

        /// Whether the viewer is told nothing for now.
        var waits: Bool { known != nil }

        /// The entry after a change of the visibility.
        ///
        /// - Parameters:
        ///   - waits: whether the news wait from now on.
        ///   - profile: the version of the profile.
        ///   - time: the version of the change.
        fileprivate func changed(waits: Bool, profile: Version, at time: Version) -> Entry {
            switch (known, waits) {
            case (.some, true): return self
            case (nil, true): return Entry(known: profile, stamp: max(profile, stamp))
            case (let known?, false) where known != profile: return Entry(stamp: time)
            case (.some, false), (nil, false): return stamp > profile ? Entry(stamp: stamp) : Entry()
            }
        }
    }

    /// A viewer with another entry than ``ProfileNews/others``.
    public struct Named: Hashable, Sendable {
        public let user: UserID
        public var entry: Entry

        public init(user: UserID, entry: Entry) { (self.user, self.entry) = (user, entry) }
    }

    /// The viewers with an entry of their own, sorted by user.
    ///
    /// These are the users on the blocklist, and those who were on it when the profile last changed. A later change tells all the others
    /// by its own version, and the change of the visibility after it drops their entries.
    public private(set) var named: [Named]
    /// The entry of all other viewers.
    public private(set) var others: Entry

    /// Makes the value of a user of whose profile everyone is told at once.
    public init() { (named, others) = ([], Entry()) }

    /// - Parameter named: sorted by user.
    public init(named: [Named], others: Entry) { (self.named, self.others) = (named, others) }

    /// Whether everyone is told at once, and nothing has waited.
    public var isEmpty: Bool { named.isEmpty && others == Entry() }

    /// The entry of a viewer.
    func entry(for viewer: UserID) -> Entry {
        let index = named.insertionIndex { $0.user < viewer }
        return index < named.count && named[index].user == viewer ? named[index].entry : others
    }

    /// Removes the entry of a viewer.
    mutating func remove(_ viewer: UserID) { named.removeAll { $0.user == viewer } }

    /// Whether the news wait for exactly those from whom a visibility keeps them.
    ///
    /// - Parameter waitsWhileInvisible: the setting `profile.newsWaitWhileInvisible`.
    func fit(_ visibility: Visibility, waitsWhileInvisible: Bool) -> Bool {
        guard others.waits == (visibility.isInvisible && waitsWhileInvisible) else { return false }
        let hides = { (user: UserID) in others.waits || visibility.blocks(user) }
        return (visibility.blocked + named.map(\.user)).allSatisfy { entry(for: $0).waits == hides($0) }
    }

    /// The same after a change of the visibility.
    ///
    /// - Parameters:
    ///   - waitsWhileInvisible: the setting `profile.newsWaitWhileInvisible`.
    ///   - profile: the version of the profile.
    ///   - time: the version of the change.
    func changed(to visibility: Visibility, waitsWhileInvisible: Bool, profile: Version, at time: Version) -> ProfileNews {
        let waitsForAll = visibility.isInvisible && waitsWhileInvisible
        var next = ProfileNews(named: [], others: others.changed(waits: waitsForAll, profile: profile, at: time))
        for user in (visibility.blocked + named.map(\.user)).sortedSet {
            let waits = waitsForAll || visibility.blocks(user)
            let entry = entry(for: user).changed(waits: waits, profile: profile, at: time)
            if entry != next.others { next.named.append(Named(user: user, entry: entry)) }
        }
        return next
    }
}

extension Record {
    /// The news of the profile that a viewer may be told.
    ///
    /// - `version` is that of the profile, or the one before the wait.
    /// - `stamp` is the later one of the profile's version and the end of the wait. A client with a later position knows the news.
    public func profileNews(for viewer: UserID) -> (version: Version, stamp: Version) {
        guard let entry = privacy?.news.entry(for: viewer), viewer != user else { return (profileVersion, profileVersion) }
        guard let known = entry.known else { return (profileVersion, max(profileVersion, entry.stamp)) }
        return (known, entry.stamp)
    }
}
