import PresenceWire

/// One failed user of a call with several users, and the reason.
package struct UserError: Equatable, Sendable {
    package let userID: String
    package let code: Int
    package let reason: String
    /// The broken rule of the app's policy, if that is the reason.
    package var rule: PolicyRule?

    package init(userID: String, code: Int, reason: String, rule: PolicyRule? = nil) {
        self.userID = userID
        self.code = code
        self.reason = reason
        self.rule = rule
    }
}

extension JSONWriter {
    /// `errorUserList` (<doc:HTTPAPI#Errors>).
    package mutating func member(_ name: StaticString, _ errors: [UserError]) {
        array(name, errors) { json, error in
            json.object { json in
                json.member("userID", error.userID)
                json.member("code", Int64(error.code))
                json.member("reason", error.reason)
            }
        }
    }
}

extension UserError {
    /// The error for an unknown user.
    init(unknown user: UserID) {
        self.init(
            userID: String(user.id), code: 70107, reason: "no such user: the user was not imported and never logged in", rule: .registered)
    }

    /// The error for a user whose owner did not answer in time.
    init(unreachable user: UserID) {
        self.init(userID: String(user.id), code: 50001, reason: Refusal.unavailable.detail)
    }

    /// The error for a target without room in the caller's list (R7).
    init(unfollowed user: UserID, _ policy: Policy) {
        self.init(
            userID: String(user.id), code: 6017,
            reason: "userIDs: the caller already follows \(policy.subscriptionsMax) users, the most that are allowed", rule: .quota)
    }
    /// The error for a subscription of type 3 or 4 to a user who is not a friend (R3).
    init(nonFriend user: UserID) {
        self.init(
            userID: String(user.id), code: 31704, reason: "subscribeType: 3 and 4 require a friend; the user is not a friend of the caller",
            rule: .friends)
    }

    /// The error for a target that has reached the follower limit (R6).
    init(followerLimitReached user: UserID, _ policy: Policy) {
        self.init(
            userID: String(user.id), code: 6017,
            reason: "userIDs: \(policy.followersMax) users already follow this user, the most that are allowed", rule: .followers)
    }
}
