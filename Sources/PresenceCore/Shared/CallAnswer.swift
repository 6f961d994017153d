import PresenceWire

/// A part of an explanation, as a JSON object.
public struct Explanation: Equatable, Sendable {
    public let part: OwnerOperation.Explained
    public let json: [UInt8]
}

/// Whether two users are in each other's lists (P19).
public struct UserRelation: Hashable, Sendable {
    public let user: UserID
    /// Whether the user is in the caller's list.
    public let isListed: Bool
    /// Whether the caller is in the user's list; nil if the user's owner has not answered. False if the call does not ask for it.
    public let hasCaller: Bool?
    /// Whether the app does not know the user. False unless its users must be registered.
    public let isUnknown: Bool

    public init(user: UserID, isListed: Bool, hasCaller: Bool?, isUnknown: Bool = false) {
        (self.user, self.isListed, self.hasCaller, self.isUnknown) = (user, isListed, hasCaller, isUnknown)
    }
}

/// The answer to a client.
public enum CallAnswer: Equatable, Sendable {
    /// The answer of one owner, which is the whole answer, or one of its form: the calling node has added what other nodes know.
    ///
    /// Indirect, so that effects stay small: each call copies some.
    indirect case owner(Answer)
    /// Records in the order of the request, nil if the owner was not reachable, and the time up to which they are known to be right.
    case userStatusList([Record?], users: [UserID], asOf: Milliseconds)
    /// The users who were evicted, those without room in the list, those who have reached the follower limit, those who are not friends, as
    /// type 3 requires, and those unknown to the app.
    ///
    /// With `sync` also the records of `users`.
    case subscribed(
        evicted: [UserID], refused: [UserID] = [], followerLimitReached: [UserID] = [], nonFriends: [UserID] = [], unknown: [UserID] = [],
        records: [Record?]?, users: [UserID])
    /// Answers `unsubscribeUserStatus` where the app does not know some of the users.
    case unsubscribed(unknown: [UserID])
    /// The users whose owners have not confirmed the registration.
    case imported(failed: [UserID])
    case subscriptions([Subscription], records: [Record?], total: Int)
    case refused(Refusal)
    /// Answers `checkRelations`, in the order of the call.
    case relationsChecked([UserRelation])
    /// Answers `getUsersProfile` in the order of the request; nil if the owner of the user was not reachable.
    case profiles([AnsweredProfile?], users: [UserID])
    /// Answers `querySessions`: as `userStatusList`, and the open sessions of the users whose owners have answered.
    case sessions([Record?], users: [UserID], [UserID: [UserSession]], asOf: Milliseconds)
    /// Answers `getSessions` with the caller's open sessions, and the one that calls; nil if it is not known.
    case ownSessions([UserSession], current: SessionID?)
    /// Answers `exportUser`.
    indirect case userExported(UserExport)
    /// Answers `deleteUser`.
    indirect case userDeleted(Deletion)
    /// Answers `issueTicket` with the ticket.
    case ticket(String)
    /// Answers `explain` with the parts that have arrived, each a JSON object.
    case explained([Explanation])
    /// Refuses a call beyond the rate limit (7008). A call after so many seconds succeeds.
    case rateLimited(retryAfter: Int)

    /// The change has been made.
    public static let done = CallAnswer.owner(.done)

    /// The results of a call of the relationship chain; nil for another answer.
    package var outcomes: [ChainOutcome]? { ChainAnswer(self)?.outcomes }
}

extension Answer {
    /// The answer to a call of the relationship chain with the results of more users; any other answer as it is.
    func adding(_ outcomes: [ChainOutcome]) -> Answer {
        switch self {
        case .chained(let known): .chained(known + outcomes)
        case .blocked(let known, let remnant): .blocked(known + outcomes, remnant: remnant)
        case .friendCalled(let result):
            .friendCalled(FriendCallResult(code: result.code, users: result.users + outcomes, json: result.json))
        default: self
        }
    }
}
