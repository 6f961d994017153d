import PresenceWire

/// Decides which records a session is sent. These are the rules alone: no state, no queue.
enum Delivery {
    /// The meaning of a newer record for one session that holds the record before it.
    enum Change: Equatable {
        /// The session is shown no newer version.
        case none
        /// The newer version looks the same to the session, so it is not pushed.
        case looksSame(from: Version, to: Version)
        /// The session is pushed this view of the record.
        case push(Record)
    }

    /// Returns the meaning of a record's change for one session.
    ///
    /// - Parameters:
    ///   - viewer: the user of the session.
    ///   - resume: where the session has resumed from.
    ///   - policy: the policy of the viewer's app.
    static func change(from old: Record, to new: Record, for viewer: UserID, resume: ResumePosition, policy: Policy) -> Change {
        let (before, after) = (old.shown(to: viewer), new.shown(to: viewer))
        guard after.version > before.version else { return .none }
        // Another side of a network partition may have pushed a newer record to a client that resumed. The client then dropped what it was
        // pushed here, and holds the other record.
        let mayHoldNewer = new.changesPrivacy ? resume.mayDrop(before.version) : resume.mayPrecede(before.version)
        let isUncertain = resume.isResumed && (after.knownSince > 0 || mayHoldNewer)
        guard isUncertain || !after.looksLike(before, showsPlatforms: policy.exposesPlatforms) else {
            return .looksSame(from: before.version, to: after.version)
        }
        return .push(after)
    }

    /// Whether the watchers of a user may be shown different views of the change, or no change at all.
    static func differsByViewer(from old: Record, to new: Record, policy: Policy) -> Bool {
        old.hasPrivacy || new.hasPrivacy || new.looksLike(old, showsPlatforms: policy.exposesPlatforms)
    }

    /// Whether the user itself is shown another view of the record than the others.
    static func differsToItself(_ record: Record, policy: Policy) -> Bool { policy.selfReport == .unknown || record.hasEvents }

    /// Whether a session that begins to follow a user is sent the record of the user.
    ///
    /// - Parameters:
    ///   - isLogin: a new client follows another user by its login.
    ///   - viewer: the user of the session.
    static func isDue(
        _ record: Record, to viewer: UserID, knowing knowledge: Backlog.Knowledge, isLogin: Bool, policy: Policy
    ) -> Bool {
        let record = record.hasPrivacy ? record.shown(to: viewer) : record
        // N21: a new client takes all users for offline. It knows of no published events, though (N13).
        if isLogin, record.statusType != .online, !record.hasEvents, policy.replay == .online { return false }
        switch knowledge {
        case .nothing: return true
        // An owner that was alone gives a version to a user of whom it knows nothing.
        case .blank: return !record.looksLike(Record(blank: record.user))
        case .version(let version): return record.mayBeMissed(since: version)
        // Not by the version: an owner that was alone raises the versions of users that have not changed.
        case .changes(let time): return record.lastUpdateTime >= time
        }
    }

    /// Whether a new policy may show a viewer records that the old one did not show, or not in the same way.
    static func differs(_ policy: Policy, from old: Policy) -> Bool {
        policy.publishesOthers && !old.publishesOthers || policy.exposesPlatforms != old.exposesPlatforms
            || policy.selfReport != old.selfReport
    }

    /// Whether a new policy shows a viewer this record in another way than the old one, or again.
    ///
    /// The views of the record are compared, because a viewer may not learn whether a hidden user is on any platform.
    static func isShownAnew(_ record: Record, to viewer: UserID, by policy: Policy, after old: Policy) -> Bool {
        let isOwn = record.user == viewer
        guard isOwn || policy.publishesOthers else { return false }
        if policy.publishesOthers, !old.publishesOthers { return true }
        if isOwn, policy.selfReport != old.selfReport { return true }
        return policy.exposesPlatforms != old.exposesPlatforms && !record.shown(to: viewer).onlinePlatforms.isEmpty
    }

    /// Whether an answer has sent the client this view of a record.
    static func isAnswered(_ view: Record, by knowledge: Backlog.Knowledge) -> Bool {
        switch knowledge {
        case .version(let version): view.version == version
        case .blank: view.looksLike(Record(blank: view.user))
        case .nothing, .changes: false
        }
    }

    /// Whether the client holds a newer record than this view of it.
    static func isOutdated(_ record: Record, for viewer: UserID, knowing knowledge: Backlog.Knowledge) -> Bool {
        guard case .version(let version) = knowledge else { return false }
        return (record.hasPrivacy ? record.shown(to: viewer) : record).version < version
    }

    /// Whether a client that resumes may have missed the newest profile of a user that it may be told.
    ///
    /// It depends on nothing but the news and the owner, because a viewer may not learn of changes of a hidden status.
    ///
    /// - Parameter floor: the position from which the client resumes; ``PresenceWire/Version/zero`` for an unknown one.
    static func isProfileDue(_ record: Record, to viewer: UserID, resumingFrom floor: Version) -> Bool {
        let news = record.profileNews(for: viewer)
        return news.stamp > floor || (news.version > .zero && record.knownSince >= floor.milliseconds)
    }

    /// Whether a newer record has news of the profile for a viewer who holds the record before it.
    ///
    /// The record may stand for several changes, of the profile and of the visibility. So the stamps are compared, too.
    static func hasProfileNews(_ record: Record, after old: Record, for viewer: UserID) -> Bool {
        let (before, news) = (old.profileNews(for: viewer), record.profileNews(for: viewer))
        return news.version != before.version || news.stamp > before.stamp
    }

    /// The client's knowledge of a target, by the subscription that a message names.
    ///
    /// - Parameters:
    ///   - subscription: the user that is followed, and the version that the answer to the call sends the client.
    ///   - isAsking: the client gets the answer to the call that made the subscription.
    static func knowledge(of subscription: ListUpdate.Followed, isAsking: Bool) -> Backlog.Knowledge {
        switch subscription.delivered {
        case .nothing: .nothing
        case .version(let version): isAsking ? (version > .zero ? .version(version) : .blank) : .nothing
        // N8: the client knows all that was so when it asked, by the clock of its owner, and nothing that has changed since.
        case .laterChanges: .changes(before: subscription.since)
        }
    }

    /// The knowledge that a client which opens a stream has of a user on its subscription list.
    ///
    /// A change that comes by itself (`isWhole` is false) was not sent before: it waited for a disk, and may have been lost on its way.
    static func knowledge(of subscription: ListUpdate.Followed, resumingFrom floor: Version, isWhole: Bool) -> Backlog.Knowledge {
        let isNewerThanResume = !isWhole || subscription.since >= floor.milliseconds
        return isNewerThanResume ? .nothing : .version(floor)
    }
}
