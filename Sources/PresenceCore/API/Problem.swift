import PresenceWire

/// The reason why a call was rejected: `application/problem+json` (RFC 9457) with a stable code (<doc:HTTPAPI#Errors>).
///
/// A rejected call changes nothing.
public struct Problem: Error, Equatable, Sendable {
    /// The HTTP status.
    public var status: Int
    /// The stable code.
    public var code: Int
    /// The error, the place of it, and the correct form.
    public var detail: String
    /// Seconds after which a retry makes sense.
    public var retryAfter: Int?
    /// Whether the change was forwarded and may still take effect.
    package var mayTakeEffect = false
    /// The users for which the whole call failed (T37).
    package var errors: [UserError] = []
    /// The broken rule of the app's policy, if that is the reason.
    package var rule: PolicyRule?

    /// - Parameters: see the properties.
    package init(
        status: Int, code: Int, detail: String, retryAfter: Int? = nil, rule: PolicyRule? = nil, errors: [UserError] = []
    ) {
        (self.status, self.code, self.detail) = (status, code, detail)
        (self.retryAfter, self.rule, self.errors) = (retryAfter, rule, errors)
    }

    /// 6017: a field breaks a rule.
    package static func parameter(_ detail: String, by rule: PolicyRule? = nil) -> Problem {
        Problem(status: 400, code: 6017, detail: detail, rule: rule)
    }

    /// 7003: a user ID breaks the rule of <doc:HTTPAPI#Callers-and-tokens>.
    package static func userID(_ field: String) -> Problem {
        Problem(status: 400, code: 7003, detail: "\(field): a user ID is 1 to 64 bytes of UTF-8 without control characters")
    }

    /// 7008: the caller has reached the rate limit.
    package static func rateLimited(_ operation: String, retryAfter: Int) -> Problem {
        Problem(
            status: 429, code: 7008, detail: "\(operation): called too often; retry after \(retryAfter) s", retryAfter: retryAfter,
            rule: .rate)
    }

    /// 7013, 72001: the app does not have the feature.
    package static func notAllowed(_ code: Int, _ detail: String, by rule: PolicyRule) -> Problem {
        Problem(status: 403, code: code, detail: detail, rule: rule)
    }

    /// 404: the port has no such path.
    package static func noSuchPath(_ detail: String) -> Problem { Problem(status: 404, code: 404, detail: detail) }

    /// 405: the path has no such method.
    package static func wrongMethod(_ detail: String) -> Problem { Problem(status: 405, code: 405, detail: detail) }

    /// 403: the token is valid, and its role does not allow the call. A new token of the same user would not help.
    package static func wrongRole(_ detail: String) -> Problem { Problem(status: 403, code: 403, detail: detail) }

    /// 7013: a status is set, but the plan excludes the whole feature (R1, Z1).
    package static var ownStatusNotInPlan: Problem {
        .notAllowed(7013, "the app's plan does not cover setting a status: plan is \"basic\" and plan.covers is \"all\"", by: .plan)
    }

    /// 6014: no token, or an invalid one.
    package static func notLoggedIn(_ detail: String) -> Problem { Problem(status: 401, code: 6014, detail: detail) }

    /// 6014: the token was issued before its user was kicked.
    package static func kicked(_ caller: Caller) -> Problem {
        .notLoggedIn(
            caller.issuedAt == 0
                ? "the user was kicked, and the token has no iat: for 30 days a token must say when it was issued"
                : "iat: the user was kicked after the token was issued; log in again for a new token")
    }

    /// Seconds until the next attempt makes sense. Nodes remove expired kicks once an hour.
    private static func retryAfter(_ refusal: Refusal) -> Int? {
        switch refusal.code {
        case 50002: 1
        case 7008: 3_600
        default: nil
        }
    }

    /// The problem of an owner's refusal.
    package init(_ refusal: Refusal) {
        let status =
            switch refusal.code {
            case 50001, 50002: 503
            case 70107: 404
            case 6014: 401
            case 7008: 429
            default: 400
            }
        self.init(status: status, code: refusal.code, detail: refusal.detail, retryAfter: Self.retryAfter(refusal))
        mayTakeEffect = refusal.mayTakeEffect
        if refusal.code == 70107 { rule = .registered }
        if refusal.code == 31704 { rule = .friends }
        guard let limit = refusal.limit else { return }
        rule = limit == .followers ? .followers : .quota
        let reason =
            limit == .followers
            ? "userIDs: the user has as many followers as the app's policy allows"
            : "userIDs: the caller has as many subscriptions as the app's policy allows"
        errors = refusal.users.map { UserError(userID: String($0.id), code: refusal.code, reason: reason, rule: nil) }
    }

    /// The name of the code, for people.
    package var title: String {
        switch code {
        case 403: "not allowed for this role"
        case 404: "no such path"
        case 405: "no such method"
        case 6014: "not logged in"
        case 6017: "bad parameter"
        case 7003: "bad user ID"
        case 7008: "called too often"
        case 7013: "not in the app's plan"
        case 72001: "the feature is switched off"
        case 70107: "no such user"
        case 31704: "not a friend"
        case 50001: "owner or replicas cannot be reached"
        case 50002: "overloaded"
        default: "refused"
        }
    }

    /// The body.
    package var json: [UInt8] {
        var json = JSONWriter(reserving: 256)
        json.object { json in
            json.member("type", "about:blank#\(code)")
            json.member("title", title)
            json.member("status", Int64(status))
            json.member("detail", detail)
            json.member("code", Int64(code))
            if let retryAfter { json.member("retryAfter", Int64(retryAfter)) }
            if mayTakeEffect { json.member("mayTakeEffect", true) }
            if !errors.isEmpty { json.member("errorUserList", errors) }
        }
        return json.bytes
    }
}
