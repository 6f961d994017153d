/// The reason why a call failed, as a whole or for one user of it.
///
/// A rejected call has changed nothing, unless ``mayTakeEffect`` is true.
public struct PresenceError: Error, Sendable, Equatable, CustomStringConvertible {
    /// A code of a node (<doc:HTTPAPI#Errors>); a negative code if this client had no answer.
    public struct Code: RawRepresentable, Sendable, Hashable, Codable {
        /// The number.
        public let rawValue: Int

        /// Makes a code of any number, because nodes may have codes that this client does not know.
        public init(rawValue: Int) { self.rawValue = rawValue }

        /// The token is missing or invalid.
        public static let notLoggedIn = Code(rawValue: 6014)
        /// A parameter breaks a rule. The detail names both.
        public static let badParameter = Code(rawValue: 6017)
        /// A user ID breaks a rule.
        public static let badUserID = Code(rawValue: 7003)
        /// The caller has reached the rate limit. ``PresenceError/retryAfter`` is the time to wait.
        public static let calledTooOften = Code(rawValue: 7008)
        /// The app's plan does not cover the call.
        public static let notInPlan = Code(rawValue: 7013)
        /// The feature is switched off for the app.
        public static let switchedOff = Code(rawValue: 72001)
        /// The user does not exist.
        public static let noSuchUser = Code(rawValue: 70107)
        /// A subscription to friends names a user who is not a friend.
        public static let notAFriend = Code(rawValue: 31704)
        /// The user's owner is not reachable, or has not acknowledged the call: see ``PresenceError/mayTakeEffect``.
        public static let ownerUnreachable = Code(rawValue: 50001)
        /// The node is overloaded.
        public static let overloaded = Code(rawValue: 50002)

        /// No node was reachable, or the connection broke before the answer.
        public static let unreachable = Code(rawValue: -1)
        /// The calling task was cancelled.
        public static let cancelled = Code(rawValue: -2)
        /// The answer was not understood.
        public static let badAnswer = Code(rawValue: -3)
        /// The app's token provider threw.
        public static let tokenUnavailable = Code(rawValue: -4)
        /// The client was logged out, kicked or closed.
        public static let closed = Code(rawValue: -5)
        /// A newer call has set the same fact, so this one was not retried. The node may have carried it out before the newer one.
        public static let superseded = Code(rawValue: -6)
    }

    /// The code.
    public var code: Code
    /// The HTTP status; 0 without an answer.
    public var status: Int
    /// The code's name, for people.
    public var title: String
    /// The error, the place of it, and the correct form.
    public var detail: String
    /// The time after which a retry makes sense.
    public var retryAfter: Duration?
    /// Whether a node may have carried out the call, or may still do so. Never true for a call that only reads.
    public var mayTakeEffect: Bool
    /// The failed users, if the call failed as a whole because of them.
    public var errorUserList: [UserError]
    /// The ID of the request at the node that has refused it, which the log of that node names; nil without an answer of a node.
    public var requestID: String?

    /// - Parameters: see the properties.
    public init(
        code: Code, status: Int = 0, title: String = "", detail: String, retryAfter: Duration? = nil, mayTakeEffect: Bool = false,
        errorUserList: [UserError] = [], requestID: String? = nil
    ) {
        self.requestID = requestID
        self.mayTakeEffect = mayTakeEffect
        self.code = code
        self.status = status
        self.title = title
        self.detail = detail
        self.retryAfter = retryAfter
        self.errorUserList = errorUserList
    }

    /// Code and detail.
    public var description: String { "\(code.rawValue) \(title): \(detail)" }

    static let cancelled = PresenceError(code: .cancelled, title: "cancelled", detail: "the calling task was cancelled")

    static let superseded = PresenceError(
        code: .superseded, title: "superseded", detail: "a newer call sets the same, so this one was not retried")

    static func unreachable(_ detail: String, mayTakeEffect: Bool = false) -> PresenceError {
        PresenceError(code: .unreachable, title: "unreachable", detail: detail, mayTakeEffect: mayTakeEffect)
    }

    /// The error of the last attempt of a call, of which an earlier attempt may have taken effect.
    func after(anAttemptThatMayTakeEffect: Bool) -> PresenceError {
        var error = self
        error.mayTakeEffect = mayTakeEffect || anAttemptThatMayTakeEffect
        return error
    }

    static func badAnswer(_ detail: String, status: Int = 200) -> PresenceError {
        PresenceError(code: .badAnswer, status: status, title: "the answer was not understood", detail: detail)
    }

    static func closed(_ detail: String) -> PresenceError { PresenceError(code: .closed, title: "closed", detail: detail) }
}

/// One failed user of a call with several users.
public struct UserError: Sendable, Hashable, Codable {
    /// The user.
    public var userID: String
    /// The code.
    public var code: PresenceError.Code
    /// The error.
    public var reason: String

    /// - Parameters: see the properties.
    public init(userID: String, code: PresenceError.Code, reason: String) {
        self.userID = userID
        self.code = code
        self.reason = reason
    }
}
