/// Why a call failed: the whole of it, or what concerns one user of it.
///
/// A rejected call has changed nothing.
public struct PresenceError: Error, Sendable, Equatable, CustomStringConvertible {
    /// What the node's own codes mean; negative codes are of this client, which had no answer.
    public struct Code: RawRepresentable, Sendable, Hashable, Codable {
        /// The number.
        public let rawValue: Int

        /// Any number: nodes may know more codes than this client.
        public init(rawValue: Int) { self.rawValue = rawValue }

        /// No or bad token.
        public static let notLoggedIn = Code(rawValue: 6014)
        /// A parameter breaks a rule; the detail names both.
        public static let badParameter = Code(rawValue: 6017)
        /// A user ID breaks a rule.
        public static let badUserID = Code(rawValue: 7003)
        /// Called too often; ``PresenceError/retryAfter`` tells when to come back.
        public static let calledTooOften = Code(rawValue: 7008)
        /// The app's plan does not cover the call.
        public static let notInPlan = Code(rawValue: 7013)
        /// The feature is switched off for the app.
        public static let switchedOff = Code(rawValue: 72001)
        /// No such user.
        public static let noSuchUser = Code(rawValue: 70107)
        /// A subscription for friends to somebody who is none.
        public static let notAFriend = Code(rawValue: 31704)
        /// The user's owner cannot be reached now. Safe to retry.
        public static let ownerUnreachable = Code(rawValue: 50001)
        /// The node has too much to do.
        public static let overloaded = Code(rawValue: 50002)

        /// No node could be reached, or the connection broke before the answer.
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

    /// What happened.
    public var code: Code
    /// The HTTP status; 0 without an answer.
    public var status: Int
    /// The code's name, for people.
    public var title: String
    /// What was wrong, where, and what would be right.
    public var detail: String
    /// When a retry makes sense.
    public var retryAfter: Duration?
    /// Users that failed one by one, where the call failed as a whole because of them.
    public var errorUserList: [UserError]

    /// - Parameters: see the properties.
    public init(
        code: Code, status: Int = 0, title: String = "", detail: String, retryAfter: Duration? = nil, errorUserList: [UserError] = []
    ) {
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

    static func unreachable(_ detail: String) -> PresenceError {
        PresenceError(code: .unreachable, title: "unreachable", detail: detail)
    }

    static func badAnswer(_ detail: String, status: Int = 200) -> PresenceError {
        PresenceError(code: .badAnswer, status: status, title: "the answer was not understood", detail: detail)
    }

    static func closed(_ detail: String) -> PresenceError { PresenceError(code: .closed, title: "closed", detail: detail) }
}

/// One user of a call that names several, and why it failed.
public struct UserError: Sendable, Hashable, Codable {
    /// Who.
    public var userID: String
    /// What happened.
    public var code: PresenceError.Code
    /// What was wrong.
    public var reason: String

    /// - Parameters: see the properties.
    public init(userID: String, code: PresenceError.Code, reason: String) {
        self.userID = userID
        self.code = code
        self.reason = reason
    }
}
