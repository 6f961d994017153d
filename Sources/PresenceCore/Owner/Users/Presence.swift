import PresenceWire

/// A change that may affect the status of a user. An empty change decides the status again from the sessions.
struct StatusChange {
    /// A change of a user's events.
    enum Event {
        case publish(PublishedEvent, seconds: Int64)
        case expire

        /// Applies it to a record whose version was just written.
        func apply(to record: inout Record, at now: Now) {
            switch self {
            case .publish(var event, let seconds):
                event.id = record.version
                event.expiresAt = event.publishedAt + seconds * 1_000
                record.events.publish(event)
            case .expire: record.events.expire(at: now.wall)
            }
        }
    }

    /// A cause of the end of sessions.
    enum End {
        /// The user has ended all sessions.
        case logout
        /// A back end has ended all sessions.
        case kick
        /// The graces of these sessions are over.
        case lost([SessionID: OwnedSession.Loss])

        var isOfAll: Bool { if case .lost = self { false } else { true } }
    }

    /// A new visibility, and the start of the call that sets it.
    struct Visibility {
        let visibility: PresenceWire.Visibility
        let writtenAt: Version
    }

    /// The new custom status; nil to keep the current one.
    var customStatus: String?
    /// The end of the new custom status; 0 for never.
    var customStatusExpiresAt: Milliseconds = 0
    /// Whether the call named this end (``PresenceWire/Record/customStatusHasOwnEnd``).
    var customStatusHasOwnEnd = false
    var events: Event?
    var visibility: Visibility?
    /// The cause of the end of sessions; nil if logins took their place.
    var end: End?
    /// The sessions whose devices were logged out, or are not reachable by push any more.
    var departed: [OwnedSession] = []
    /// The session that the user has logged out, whether the owner knows it or not.
    var loggedOut: SessionID?
    /// The sessions that a login has ended, or whose place it has taken.
    var replaced: [SessionID] = []
    /// The devices whose place a login has taken (``OwnedUser/replacedDevices(by:isLogin:ended:scope:)``).
    var replacedDevices: [PushDevice] = []
    /// Whether the change has a visibility, and neither a text nor an event. The version of these must be newer than the start of the call.
    var isOfVisibilityAlone: Bool { visibility != nil && customStatus == nil && events == nil }
    /// Whether another node has sent the record. It is then published even if the change writes nothing.
    var isNews = false
}

/// Decides a user's record: ONLINE, OFFLINE or UNLOGINED, the custom status, the times, and the hidden views.
enum Presence {
    /// The circumstances of a decision, besides the user and the change.
    struct Circumstances {
        let now: Now
        let policy: Policy
        /// The version of the record if the decision writes it.
        let version: Version
        /// See ``Owner/claimedByOthers``.
        let claimedByOthers: Milliseconds
        /// Whether no other replica of the user is reachable, though there are some.
        let isCutOff: Bool
    }

    /// The outcome: the user's record from now on.
    struct Decision {
        var record: Record
        /// Whether the record has changed, and has the version of the circumstances.
        var isWritten = false
    }

    /// Makes the record match the sessions and the change.
    @inline(__always)
    static func decide(_ user: borrowing OwnedUser, _ change: StatusChange, _ circumstances: Circumstances) -> Decision {
        let (now, policy) = (circumstances.now, circumstances.policy)
        let old = user.record
        var record = old
        record.pushDevices = pushDevices(of: user, after: change, by: policy, at: now)
        (record.statusType, record.onlinePlatforms) = user.status(with: record.pushDevices)
        if case .logout? = change.end, record.statusType == .offline { record.statusType = .unlogined }  // T2
        if let customStatus = change.customStatus {
            record.customStatus = customStatus
            record.customStatusExpiresAt = customStatus.isEmpty ? 0 : change.customStatusExpiresAt
            record.customStatusHasOwnEnd = !customStatus.isEmpty && change.customStatusHasOwnEnd
        }
        // Not if only one disk is reachable: the user may be ONLINE on the other side of a split.
        let wentAway = record.statusType != .online && (old.statusType == .online || old.hasOutlivedStatus) && !circumstances.isCutOff
        let isCleared = policy.clearsCustomStatus(of: record.statusType, hasOwnEnd: record.customStatusHasOwnEnd)
        if wentAway, change.customStatus == nil, isCleared {
            (record.customStatus, record.customStatusExpiresAt, record.customStatusHasOwnEnd) = ("", 0, false)
        }  // T11
        let statusChanged = record.statusType != old.statusType
        let platformsChanged = record.onlinePlatforms != old.onlinePlatforms
        let textChanged = record.customStatus != old.customStatus
        let endChanged =
            record.customStatusExpiresAt != old.customStatusExpiresAt || record.customStatusHasOwnEnd != old.customStatusHasOwnEnd
        let customChanged = textChanged || endChanged
        // T8, Z14: a change that others do not see moves no time that they see.
        let isShown = statusChanged || textChanged || change.events != nil || (platformsChanged && policy.exposesPlatforms)
        let time = old.timeOfChange(at: now.wall)
        if statusChanged { record.lastOnlineStatusUpdateTime = time }
        if textChanged { record.lastCustomStatusUpdateTime = time }
        let isChanged = isShown || platformsChanged || customChanged || record.pushDevices != old.pushDevices
        guard isChanged || change.visibility != nil || record.hasExpiredHiddenView(at: now.wall) else { return Decision(record: record) }
        if isShown {
            record.lastUpdateTime = time
            record.lastSeenTime = max(record.lastSeenTime, user.lastSeenTime)
        }
        record.version = circumstances.version
        if customChanged { record.customStatusVersion = record.version }
        change.events?.apply(to: &record, at: now)
        record.changePrivacy(
            to: change.visibility, hiddenView: isChanged ? record : old,
            heldVersion: isShown || platformsChanged ? nil : old.versionHeld, by: policy, at: now)
        record.knownSince = knownSince(ofNew: record, claimedByOthers: circumstances.claimedByOthers)
        return Decision(record: record, isWritten: true)
    }

    /// The devices that keep the user ONLINE after a change.
    @inline(__always)
    static func pushDevices(of user: borrowing OwnedUser, after change: StatusChange, by policy: Policy, at now: Now) -> [PushDevice] {
        if change.end?.isOfAll ?? false { return [] }
        return user.pushDevices(without: change.departed, change.replacedDevices, by: policy, at: now)
    }

    /// The time from which this node answers for a record that it writes now: since the write.
    ///
    /// The view of a hidden user keeps its time, whatever else changes.
    static func knownSince(ofNew record: Record, claimedByOthers: Milliseconds) -> Milliseconds {
        let isClaimed = record.version.milliseconds <= claimedByOthers
        return max(isClaimed ? claimedByOthers : 0, record.hasPrivacy ? record.knownSince : 0)
    }
}
