import PresenceWire

/// An operation of a client: validated, with the user that it is about.
public enum Call: Equatable, Sendable {
    case setSelfStatus(customStatus: String, seconds: Int64?)
    case publishEvent(value: Int64, ext: String, seconds: Int64, isForOnlineOnly: Bool, isSynced: Bool)
    case getUserStatus([UserID])
    case subscribeUserStatus([UserID], seconds: Int64?, sync: Bool, subscribeType: UInt8)
    /// Unsubscribes from users, nil for all; of one type, or of any (R8).
    case unsubscribeUserStatus([UserID]?, subscribeType: UInt8? = nil)
    /// Reads subscriptions of one type, or of any (R9, R10).
    case getSubscribedUserStatus(only: [UserID]?, offset: Int, limit: Int, subscribeType: UInt8? = nil)
    /// Ends a session; nil for all sessions of the caller.
    case logout(SessionID?)
    /// Changes the caller's visibility.
    case setVisibility(Visibility.Change)
    case getVisibility
    /// Explains why the caller sees a user as it does.
    case explain(UserID)
    /// Ends all sessions of the caller, and voids the existing tokens.
    case kick(reason: String)
    /// Registers users.
    case importUsers([UserID])
    /// Changes the policy of the caller's app: see ``PresenceWire/AppPolicy/changed(by:)``.
    case setAppPolicy([UInt8])

    /// The token that makes a call (<doc:HTTPAPI#Callers-and-tokens>).
    public enum Origin: Sendable {
        /// The token of the caller.
        case caller
        /// The token of the app's back end, which has no rate limit and is the caller itself.
        case backEnd
        /// The token of the app's back end, which names the caller. That user may not exist.
        case backEndForCaller
    }

    /// Whether the call concerns the caller as a user of the app, not only other users.
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

/// The answer to a client.
public enum CallAnswer: Equatable, Sendable {
    case userStatus(Record)
    /// Records in the order of the request, nil if the owner was not reachable, and the time up to which they are known to be right.
    case userStatusList([Record?], users: [UserID], asOf: Milliseconds)
    /// The users who were evicted, those without room in the list, those who have reached the follower limit, and those unknown to the app.
    ///
    /// With `sync` also the records of `users`.
    case subscribed(
        evicted: [UserID], refused: [UserID] = [], followerLimitReached: [UserID] = [], nonFriends: [UserID] = [], unknown: [UserID] = [],
        records: [Record?]?, users: [UserID])
    /// The users whose owners have not confirmed the registration.
    case imported(failed: [UserID])
    case subscriptions([Subscription], records: [Record?], total: Int)
    case done
    case refused(Refusal)
    /// Answers `setVisibility` and `getVisibility`.
    case visibility(Visibility)
    /// Answers `explain` with the parts that have arrived, each a JSON object.
    case explained([Explanation])
    /// Refuses a call beyond the rate limit (7008). A call after so many seconds succeeds.
    case rateLimited(retryAfter: Int)
}
