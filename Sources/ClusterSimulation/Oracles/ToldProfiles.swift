import PresenceWire

/// The versions of profiles that a client was told since it was started.
struct ToldProfiles {
    /// The last version of each user. A client that resumes keeps them.
    private(set) var versions: [Int: String] = [:]
    /// The current stream tells the client of changes after this time, by the clock of its node.
    private var streamStartsAt: Milliseconds = 0
    /// The streams of the client have told it of changes after this time.
    private var startsAt: Milliseconds?

    /// Begins a stream.
    ///
    /// - Parameters:
    ///   - position: the position from which the client resumes; nil for a new client, which fetches the profiles that it needs then.
    ///   - now: the clock of the node.
    mutating func begin(from position: Milliseconds?, at now: Milliseconds) {
        // A position of another cluster says nothing.
        streamStartsAt = position.map { $0 > now ? 0 : $0 } ?? now
        // A client that was lost before it had read a position begins again.
        if position == nil || startsAt == nil { startsAt = now }
    }

    mutating func take(_ version: String, of user: Int) { versions[user] = version }

    /// The time after which a changed profile was told to the client.
    ///
    /// - Parameter followedSince: the time since which the user has followed the profile, as all nodes know; nil if they may not.
    func begin(followedSince: Milliseconds?) -> Milliseconds {
        followedSince.map { min(streamStartsAt, max(startsAt ?? 0, $0)) } ?? streamStartsAt
    }

    /// The reason why the client does not know the newest version of a profile, in words; nil for none.
    ///
    /// - Parameters:
    ///   - begin: the time after which the client must have been told of a change.
    ///   - isExact: whether no process can have told a version that was lost with it.
    func problem(with newest: Version, of user: Int, after begin: Milliseconds, isExact: Bool) -> String? {
        guard newest.milliseconds > begin else { return nil }
        guard let told = versions[user] else { return "nothing, right is \(newest.text)" }
        return (isExact ? told == newest.text : told >= newest.text) ? nil : "\(told), right is \(newest.text)"
    }
}
