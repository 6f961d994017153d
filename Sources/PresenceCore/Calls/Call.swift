import PresenceWire

/// An operation as a client asks for it; validated, with its subject named.
public enum Call: Equatable, Sendable {
    case setSelfStatus(customStatus: String, seconds: Int64?)
    case publishEvent(value: Int64, ext: String, seconds: Int64, isForOnlineOnly: Bool, isSynced: Bool)
    case getUserStatus([UserID])
    case subscribeUserStatus([UserID], seconds: Int64?, sync: Bool, subscribeType: UInt8)
    /// Nil for everybody; of one type, or of any (R8).
    case unsubscribeUserStatus([UserID]?, subscribeType: UInt8? = nil)
    /// Of one type, or of any (R9, R10).
    case getSubscribedUserStatus(only: [UserID]?, offset: Int, limit: Int, subscribeType: UInt8? = nil)
    /// Nil for every session.
    case logout(SessionID?)
    /// Changes who may see the caller.
    case setVisibility(Visibility.Change)
    case getVisibility
    /// Why the caller is shown what it is shown of a user.
    case explain(UserID)
    /// Ends all sessions of the caller, whose tokens are void from now on.
    case kick(reason: String)
    /// There are such users.
    case importUsers([UserID])
    /// Changes the policy of the caller's app: see ``PresenceWire/AppPolicy/changed(by:)``.
    case setAppPolicy([UInt8])

    /// Whose token asks.
    public enum Origin: Sendable {
        /// The caller's own.
        case caller
        /// That of the app's back end, which may ask as often as it likes and here is the caller itself.
        case backEnd
        /// That of the app's back end, which names the caller: there may be no such user.
        case backEndForCaller
    }

    /// It says or asks something of the caller as a user of the app, not only of others.
    var needsUser: Bool {
        switch self {
        case .setSelfStatus, .publishEvent, .subscribeUserStatus, .unsubscribeUserStatus, .getSubscribedUserStatus, .logout, .setVisibility,
            .getVisibility:
            true
        case .getUserStatus, .explain, .kick, .importUsers, .setAppPolicy: false
        }
    }
}

/// A part of an explanation, as a JSON object.
public struct Explanation: Equatable, Sendable {
    public let part: OwnerOperation.Explained
    public let json: [UInt8]
}

/// What a client is answered.
public enum CallAnswer: Equatable, Sendable {
    case userStatus(Record)
    /// Records in the order asked, nil where the owner could not be reached, and the time up to which they are known to be right.
    case userStatusList([Record?], users: [UserID], asOf: Milliseconds)
    /// Who was evicted, for whom there was no room in the list, who has no room for another follower, who is no user of the app, and the
    /// records of `users` when `sync` asked for them.
    case subscribed(
        evicted: [UserID], refused: [UserID] = [], crowded: [UserID] = [], strangers: [UserID] = [], unknown: [UserID] = [],
        records: [Record?]?, users: [UserID])
    /// Those whose owners have not said that they are registered now.
    case imported(failed: [UserID])
    case subscriptions([Subscription], records: [Record?], total: Int)
    case done
    case refused(Refusal)
    /// To `setVisibility` and `getVisibility`.
    case visibility(Visibility)
    /// To `explain`: the parts that have come, each a JSON object.
    case explained([Explanation])
    /// Too many calls (7008); one after so many seconds is taken.
    case tooOften(retryAfter: Int)
}
